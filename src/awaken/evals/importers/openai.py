"""Exports of OpenAI Evals: samples with `ideal`, and items with testing criteria."""

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from awaken.contracts.evals.errors import InvalidDataset

from .drafts import (
    ImportDraft,
    ScorerList,
    as_text,
    fill_text,
    need_dict,
    need_list,
    read_chat,
    read_threshold,
)
from .tables import INPUTS, REFERENCES, read_lines

_ITEM = re.compile(r"\{\{\s*item\.([A-Za-z0-9_]+)\s*\}\}")
_OUTPUT = re.compile(r"\{\{\s*sample\.output_text\s*\}\}")
_CHECK = ("type", "name", "input", "reference", "operation")
_SIMILARITY = ("type", "name", "input", "reference", "pass_threshold", "evaluation_metric")
_ANSWERS = (*REFERENCES, "correct_label", "ground_truth", "label")
_CHECKS = {"eq": "exact", "like": "contains", "ilike": "contains"}


def import_openai(data: bytes, draft: ImportDraft) -> None:
    """Read lines of samples or items, or one document with `items` and `testing_criteria`."""
    criteria: list[Any] = []
    rows: Iterable[tuple[int, dict[str, Any]]]
    whole = _read_whole(data)
    if whole is None:
        rows = read_lines(data)
    else:
        criteria = need_list(whole.get("testing_criteria"), "testing_criteria")
        draft.description = str(whole.get("name") or "")
        items = whole.get("items", whole.get("data"))
        rows = [
            (number, need_dict(it, f"item {number}"))
            for number, it in enumerate(need_list(items, "items"), 1)
        ]
        known = ("name", "testing_criteria", "items", "data", "object", "id", "created_at")
        draft.leave_fields_out("the eval", whole, known)
    for number, row in rows:
        _add_row(draft, row, number, criteria)


def _read_whole(data: bytes) -> dict[str, Any] | None:
    """Return the document, if the file is one and not lines."""
    try:
        value = msgspec.json.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    is_eval = isinstance(value, dict) and ("testing_criteria" in value or "items" in value)
    return value if is_eval else None


def _add_row(draft: ImportDraft, row: dict[str, Any], number: int, criteria: list[Any]) -> None:
    what = f"item {number}"
    item = need_dict(row["item"], what) if "item" in row else row
    # Criteria name what they compare with.
    answer = next((it for it in (REFERENCES if criteria else _ANSWERS) if it in item), None)
    source = next((it for it in INPUTS if it in item), None)
    if source is None:
        source = _find_only_text(item, _list_references(criteria) | ({answer} if answer else set()))
        if source is None:
            problem = f"it has none of {', '.join(INPUTS)}, nor one other text that is no reference"
            raise InvalidDataset(what=what, problem=f"{problem}; call its input `input`")
        draft.leave_out(what, f"the template of its messages: the input is field '{source}'")
    expected = item.get(answer) if answer else None
    scorers = ScorerList()
    for place, criterion in enumerate(criteria, 1):
        _add_criterion(draft, scorers, need_dict(criterion, what), item, f"criterion {place}")
    if not criteria and expected is not None:
        # The class of the eval, which says how answers are compared, is not in its samples.
        draft.leave_out(what, "how the answer is compared: it is `exact`, of several `contains`")
    if not criteria and isinstance(expected, list):
        # Any of several ideal answers is right.
        scorers.add("contains", phrases=[str(it) for it in expected], mode="any")
    elif not criteria and expected is not None:
        scorers.add("exact", value=as_text(expected))
    made: dict[str, Any] = {"expected": expected, "scorers": tuple(scorers.specs)}
    if isinstance(item[source], list):
        made["history"], made["input"] = read_chat(item[source], what)
    else:
        made["user_input"] = as_text(item[source])
    if row.get("sample"):
        draft.leave_out(what, "field 'sample': answers of earlier runs")
    made["metadata"] = {name: it for name, it in item.items() if name not in (source, answer, "id")}
    draft.add(str(item.get("id") or ""), number, **made)


def _list_references(criteria: list[Any]) -> set[str]:
    """Return the fields of items that criteria compare with."""
    stated = (it.get("reference") for it in criteria if isinstance(it, dict))
    return {name for it in stated if isinstance(it, str) for name in _ITEM.findall(it)}


def _find_only_text(item: dict[str, Any], taken: set[str]) -> str | None:
    """Return the only field with a text that is not taken: items have any fields they like."""
    texts = [name for name, it in item.items() if isinstance(it, str) and name not in taken]
    left = [it for it in texts if it not in ("id", *_ANSWERS)]
    return left[0] if len(left) == 1 else None


def _add_criterion(
    draft: ImportDraft, scorers: ScorerList, it: dict[str, Any], item: dict[str, Any], where: str
) -> None:
    kind, operation = str(it.get("type")), str(it.get("operation") or "")
    is_output = isinstance(it.get("input"), str) and _OUTPUT.fullmatch(it["input"].strip())
    reference = _fill(it.get("reference"), item)
    if kind == "string_check" and operation in _CHECKS and is_output and reference is not None:
        scorer = _CHECKS[operation]
        draft.leave_fields_out(where, it, _CHECK)
        if scorer == "exact":
            scorers.add("exact", value=reference, strip=False)
        elif operation == "ilike":
            scorers.add(scorer, phrases=[reference], ignore_case=True)
        else:
            scorers.add(scorer, phrases=[reference])
        return
    if kind == "text_similarity" and is_output and reference is not None:
        draft.leave_fields_out(where, it, _SIMILARITY)
        threshold = read_threshold(it.get("pass_threshold", 0.5), where)
        draft.leave_out(where, f"metric '{it.get('evaluation_metric')}' became token_f1")
        scorers.add("token_f1", threshold=threshold, value=reference)
        return
    draft.leave_out(where, f"type '{kind}'" + (f", operation '{operation}'" if operation else ""))


def _fill(template: Any, item: dict[str, Any]) -> str | None:
    if not isinstance(template, str) or _OUTPUT.search(template):
        return None
    names = _ITEM.findall(template)
    if any(name not in item for name in names):
        return None
    return fill_text(template, _ITEM, lambda found: as_text(item[found.group(1)]))
