"""Tests of promptfoo: variables that fill a prompt, and assertions."""

import re
from typing import Any

from .documents import read_document
from .drafts import ImportDraft, ScorerList, as_text, need_dict, need_list

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
_TEST = ("description", "vars", "assert", "metadata", "threshold")
_CONFIG = ("description", "prompts", "tests", "defaultTest", "providers", "targets", "$schema")


def import_promptfoo(data: bytes, draft: ImportDraft) -> None:
    """Read the tests of a configuration, or a list of tests."""
    document = read_document(data, "promptfooconfig.yaml")
    whole = {"tests": document} if isinstance(document, list) else need_dict(document, "the file")
    draft.description = str(whole.get("description") or "")
    draft.leave_fields_out("the configuration", whole, _CONFIG)
    prompt = _read_prompt(draft, whole.get("prompts"))
    shared = need_dict(whole.get("defaultTest") or {}, "defaultTest")
    for number, it in enumerate(need_list(whole.get("tests"), "tests"), 1):
        test = need_dict(it, f"test {number}")
        what = f"test '{test.get('description') or number}'"
        draft.leave_fields_out(what, test, _TEST)
        given = need_dict(shared.get("vars") or {}, what) | need_dict(test.get("vars") or {}, what)
        scorers = ScorerList()
        stated = (*need_list(shared.get("assert"), what), *need_list(test.get("assert"), what))
        for assertion in stated:
            fields = need_dict(assertion, what)
            if not _add_assertion(scorers, fields, given):
                draft.leave_out(what, f"assertion '{fields.get('type')}'")
            elif fields.get("transform") or fields.get("weight", 1) != 1:
                draft.leave_out(what, f"transform or weight of assertion '{fields.get('type')}'")
        if test.get("threshold") is not None:
            draft.leave_out(what, "field 'threshold'")
        metadata = need_dict(test.get("metadata") or {}, what)
        draft.add(
            str(test.get("description") or ""),
            number,
            user_input=_build_input(prompt, given),
            scorers=tuple(scorers.specs),
            metadata=metadata | {"vars": given},
        )


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

    return _VARIABLE.sub(read, text)


def _add_assertion(scorers: ScorerList, it: dict[str, Any], given: dict[str, Any]) -> bool:
    """Add the scorer that states an assertion; False if none does."""
    kind, value = it.get("type"), it.get("value")
    if isinstance(value, str):
        if value.startswith(("file://", "javascript:", "fn:")):
            return False
        value = _fill(value, given)
    if kind in _PHRASES and isinstance(value, str | list):
        scorer, mode, ignores = _PHRASES[kind]
        phrases = [value] if isinstance(value, str) else [str(part) for part in value]
        extra: dict[str, Any] = {"mode": mode} if mode else {}
        scorers.add(scorer, phrases=phrases, ignore_case=ignores, **extra)
        return True
    threshold = it.get("threshold")
    match kind:
        case "equals" if isinstance(value, str):
            scorers.add("exact", value=value)
        case "regex" | "not-regex" if isinstance(value, str):
            scorers.add("regex", pattern=value, is_absent=kind == "not-regex")
        case "is-json":
            schema = value if isinstance(value, dict) else {}
            scorers.add("json_schema", schema=schema, part="text")
        case "latency" if isinstance(threshold, int | float):
            scorers.add("max_ms", max=int(threshold))
        case "cost" if isinstance(threshold, int | float):
            scorers.add("max_cost_usd", max=float(threshold))
        case "llm-rubric" if isinstance(value, str):
            scorers.add("judge", rubric=value)
        case _:
            return False
    return True
