"""Datasets of Pydantic Evals, as YAML or JSON."""

from typing import Any

from awaken.contracts.evals.errors import InvalidDataset

from .documents import read_document
from .drafts import ImportDraft, ScorerList, as_text, need_dict, need_list

_OPTIONS = ("", "value", "case_sensitive", "seconds", "rubric", "model")
_CASE = ("name", "inputs", "expected_output", "metadata", "evaluators")


def import_pydantic(data: bytes, draft: ImportDraft) -> None:
    """Read cases with their evaluators, and those of the dataset."""
    whole = need_dict(read_document(data, "dataset.yaml"), "the dataset")
    draft.description = str(whole.get("name") or "")
    draft.leave_fields_out("the dataset", whole, ("name", "cases", "evaluators", "$schema"))
    shared = need_list(whole.get("evaluators"), "evaluators")
    for number, it in enumerate(need_list(whole.get("cases"), "cases"), 1):
        case = need_dict(it, f"case {number}")
        what = f"case '{case.get('name') or number}'"
        draft.leave_fields_out(what, case, _CASE)
        if case.get("inputs") is None:
            raise InvalidDataset(what=what, problem="it has no `inputs`")
        scorers = ScorerList()
        expected = case.get("expected_output")
        for evaluator in (*shared, *need_list(case.get("evaluators"), what)):
            name, options = _read_evaluator(draft, evaluator, what)
            if not _add_scorer(draft, scorers, (name, options), expected, what):
                draft.leave_out(what, f"evaluator '{name}'")
            else:
                draft.leave_fields_out(f"{what}, {name}", options, _OPTIONS)
        metadata = case.get("metadata")
        draft.add(
            str(case.get("name") or ""),
            number,
            user_input=as_text(case.get("inputs")),
            expected=expected,
            scorers=tuple(scorers.specs),
            metadata=metadata
            if isinstance(metadata, dict)
            else {"metadata": metadata}
            if metadata is not None
            else {},
        )


def _read_evaluator(draft: ImportDraft, evaluator: Any, what: str) -> tuple[str, dict[str, Any]]:
    """Return the name and the options: `Name`, `Name: value` or `Name: {options}`."""
    if isinstance(evaluator, str):
        return evaluator, {}
    fields = need_dict(evaluator, what)
    if "name" in fields and isinstance(fields.get("arguments"), dict | type(None)):
        return str(fields["name"]), fields.get("arguments") or {}
    (name, value), *others = fields.items() or [("", None)]
    for other, _ in others:
        draft.leave_out(what, f"evaluator '{other}', in one entry with '{name}'")
    return name, value if isinstance(value, dict) else {"": value}


def _add_scorer(
    draft: ImportDraft,
    scorers: ScorerList,
    evaluator: tuple[str, dict[str, Any]],
    expected: Any,
    what: str,
) -> bool:
    name, options = evaluator
    value = options.get("value", options.get(""))
    match name:
        case "EqualsExpected" if expected is None:
            return True
        case "EqualsExpected" | "Equals":
            wanted = expected if name == "EqualsExpected" else value
            if isinstance(wanted, str):
                scorers.add("exact", value=wanted, strip=False)
            else:
                draft.leave_out(what, f"fields beyond the expected ones, which {name} refuses")
                scorers.add("json_subset", value=wanted)
        case "Contains" if isinstance(value, str):
            is_strict = bool(options.get("case_sensitive", True))
            scorers.add("contains", phrases=[value], ignore_case=not is_strict)
        case "MaxDuration":
            seconds = options.get("seconds", options.get(""))
            if not isinstance(seconds, int | float):
                return False
            scorers.add("max_ms", max=int(seconds * 1000))
        case "LLMJudge":
            rubric = options.get("rubric", options.get(""))
            if not isinstance(rubric, str):
                return False
            if options.get("model"):
                draft.leave_out(what, f"the model '{options['model']}' of LLMJudge")
            scorers.add("judge", rubric=rubric)
        case _:
            return False
    return True
