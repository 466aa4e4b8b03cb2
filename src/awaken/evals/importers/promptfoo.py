"""Tests of promptfoo: variables that fill a prompt, and assertions."""

import re
from typing import Any

from awaken.contracts.evals.errors import InvalidDataset

from .documents import read_document
from .drafts import (
    ImportDraft,
    ScorerList,
    as_text,
    fill_text,
    need_dict,
    need_list,
    read_threshold,
)

_VARIABLE = re.compile(r"\{\{\s*([A-Za-z0-9_]+)\s*\}\}")
_PHRASES = {
    "contains": ("contains", "all", False),
    "icontains": ("contains", "all", True),
    "contains-all": ("contains", "all", False),
    "icontains-all": ("contains", "all", True),
    "contains-any": ("contains", "any", False),
    "icontains-any": ("contains", "any", True),
    "not-contains": ("excludes", "", False),
    "not-icontains": ("excludes", "", True),
    "not-contains-any": ("excludes", "", False),
    "not-icontains-any": ("excludes", "", True),
}
_TEST = ("description", "vars", "assert", "metadata")
_CONFIG = ("description", "prompts", "tests", "defaultTest", "$schema")
_ASSERTION = ("type", "value", "threshold")
_HAS_THRESHOLD = ("latency", "cost", "llm-rubric")
_FILES = ("file://", "javascript:", "fn:", "exec:")


def import_promptfoo(data: bytes, draft: ImportDraft) -> None:
    """Read the tests of a configuration, or a list of tests."""
    document = read_document(data, "promptfooconfig.yaml")
    whole = {"tests": document} if isinstance(document, list) else need_dict(document, "the file")
    draft.description = str(whole.get("description") or "")
    draft.leave_fields_out("the configuration", whole, _CONFIG)
    prompt = _read_prompt(draft, whole.get("prompts"))
    if isinstance(whole.get("defaultTest"), str):
        draft.leave_out("defaultTest", f"the file '{whole['defaultTest']:.80}'")
        whole = whole | {"defaultTest": {}}
    shared = need_dict(whole.get("defaultTest") or {}, "defaultTest")
    draft.leave_fields_out("defaultTest", shared, ("vars", "assert"))
    for number, it in enumerate(_list_tests(whole.get("tests")), 1):
        if isinstance(it, str):
            draft.leave_out(f"test {number}", f"the file '{it:.80}'; import it by itself")
            continue
        test = need_dict(it, f"test {number}")
        what = f"test '{test.get('description') or number}'"
        draft.leave_fields_out(what, test, _TEST)
        given = _read_vars(draft, shared, what) | _read_vars(draft, test, what)
        scorers = ScorerList()
        stated = (*need_list(shared.get("assert"), what), *need_list(test.get("assert"), what))
        for assertion in stated:
            fields = need_dict(assertion, what)
            kind = str(fields.get("type"))
            if not _add_assertion(scorers, fields, given, what):
                draft.leave_out(what, f"assertion '{kind}'")
                continue
            draft.leave_fields_out(f"{what}, assertion '{kind}'", fields, _ASSERTION)
            if fields.get("threshold") is not None and kind not in _HAS_THRESHOLD:
                draft.leave_out(f"{what}, assertion '{kind}'", "field 'threshold'")
        _check_variables(draft, given, what)
        text = _build_input(prompt, given)
        if _is_template(text):
            draft.leave_out(what, "a variable of the prompt that it does not have")
        metadata = need_dict(test.get("metadata") or {}, what)
        draft.add(
            str(test.get("description") or ""),
            number,
            user_input=text,
            scorers=tuple(scorers.specs),
            metadata=metadata | {"vars": given},
        )


def _list_tests(tests: Any) -> list[Any]:
    if isinstance(tests, str):
        problem = f"they are in the file '{tests:.80}'; import that one, as csv, jsonl or promptfoo"
        raise InvalidDataset(what="tests", problem=problem)
    return need_list(tests, "tests")


def _read_vars(draft: ImportDraft, test: dict[str, Any], what: str) -> dict[str, Any]:
    given = test.get("vars") or {}
    if isinstance(given, str):
        draft.leave_out(what, f"the variables in the file '{given:.80}'")
        return {}
    return need_dict(given, what)


def _is_template(text: str) -> bool:
    """Whether something in a text is still to be filled."""
    return "{{" in text or "{%" in text


def _read_prompt(draft: ImportDraft, prompts: Any) -> str | None:
    """Return the first prompt that is a text."""
    found = None
    for it in need_list([prompts] if isinstance(prompts, str) else prompts, "prompts"):
        text = it if isinstance(it, str) else it.get("raw") if isinstance(it, dict) else None
        is_file = isinstance(text, str) and text.startswith(("file://", "exec:"))
        if found is None and isinstance(text, str) and not is_file:
            found = text
        else:
            draft.leave_out("prompts", f"{text or it!r:.80}")
    return found


def _check_variables(draft: ImportDraft, given: dict[str, Any], what: str) -> None:
    for name, it in given.items():
        if isinstance(it, list):
            draft.leave_out(what, f"a test for each value of '{name}': it is one with all of them")
        elif isinstance(it, str) and it.startswith(_FILES):
            draft.leave_out(what, f"the content of '{it:.80}' for '{name}'")


def _build_input(prompt: str | None, given: dict[str, Any]) -> str:
    if prompt is not None:
        return _fill(prompt, given)
    if len(given) == 1:
        return as_text(next(iter(given.values())))
    return as_text(given)


def _fill(text: str, given: dict[str, Any]) -> str:
    def read(found: re.Match[str]) -> str:
        name = found.group(1)
        return as_text(given[name]) if name in given else found.group(0)

    return fill_text(text, _VARIABLE, read)


def _add_assertion(
    scorers: ScorerList, it: dict[str, Any], given: dict[str, Any], what: str
) -> bool:
    """Add the scorer that states an assertion; False if none does."""
    kind, value = str(it.get("type")), it.get("value")
    if isinstance(value, str):
        if value.startswith(_FILES):
            return False
        value = _fill(value, given)
    if _is_template(as_text(value)):
        # Taken literally it would fail every answer.
        return False
    if kind in _PHRASES and isinstance(value, str | list):
        scorer, mode, ignores = _PHRASES[kind]
        phrases = [value] if isinstance(value, str) else [str(part) for part in value]
        if isinstance(value, str) and kind.endswith(("-all", "-any")):
            # Several phrases in one text have commas between them.
            phrases = [part.strip() for part in value.split(",") if part.strip()]
        extra: dict[str, Any] = {"mode": mode} if mode else {}
        scorers.add(scorer, phrases=phrases, ignore_case=ignores, **extra)
        return True
    threshold = it.get("threshold")
    match kind:
        case "equals" if isinstance(value, str):
            scorers.add("exact", value=value)
        case "regex" | "not-regex" if isinstance(value, str):
            scorers.add("regex", pattern=value, is_absent=kind == "not-regex")
        case "is-json" if value is None or isinstance(value, dict):
            scorers.add("json_schema", schema=value or {}, part="text")
        case "latency" if isinstance(threshold, int | float):
            scorers.add("max_ms", max=int(threshold))
        case "cost" if isinstance(threshold, int | float):
            scorers.add("max_cost_usd", max=float(threshold))
        case "llm-rubric" if isinstance(value, str):
            limit = 0.5 if threshold is None else read_threshold(threshold, what)
            scorers.add("judge", threshold=limit, rubric=value)
        case _:
            return False
    return True
