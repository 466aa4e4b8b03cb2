"""Validates values against a JSON Schema that may come from outside.

Such a schema can neither fetch documents nor match slowly, and refused values are never quoted.
"""

from importlib import import_module
from typing import Any

from awaken.contracts.errors import InvalidSpec

from .refusals import describe_refusal, format_path, truncate_text
from .schema_costs import STEPS_MAX, SchemaCost

_MASK = "value"
_VIOLATIONS_MAX = 20
_FORMS_MAX = 8
_BACKTRACK_LIMIT = 10_000
_PATTERN_BYTES = 256 * 1024
"""The maximum size of a compiled pattern."""
_EXPLAINED_STEPS = 5_000
"""Above this many steps violations are not listed: each one costs as much as many steps."""


class JsonSchema:
    """A JSON Schema, compiled once.

    Raises:
        InvalidSpec: It is not a valid schema, is too large, or refers to another document.
    """

    __slots__ = ("_cost", "_validator")

    def __init__(self, schema: Any, *, what: str) -> None:
        if not isinstance(schema, dict):
            raise InvalidSpec(what=what, problem="it is not an object")
        self._cost = SchemaCost(schema, what=what)
        self._validator = _compile(schema, what)

    def violations(self, value: Any) -> list[str]:
        """Return what is wrong with a value, and where; an empty list if it fits.

        A check that would take too many steps is not started.
        """
        try:
            steps = self._cost.estimate_steps(value)
            if steps > STEPS_MAX:
                return ["a check of the value against its schema would take too many steps"]
            if self._validator.is_valid(value):
                return []
            if steps > _EXPLAINED_STEPS and self._cost.count_steps(value) > _EXPLAINED_STEPS:
                return ["the value does not fit its schema, and is too large to say where"]
            found = list(self._validator.iter_errors(value))
        except (ValueError, RecursionError) as error:
            return [describe_refusal(error)]
        return [_describe_violation(violation) for violation in found[:_VIOLATIONS_MAX]]


def _compile(schema: Any, what: str) -> Any:
    # Imported when the first schema is compiled, because most programs never compile one.
    engine = import_module("jsonschema_rs")
    linear = engine.RegexOptions(_PATTERN_BYTES, _PATTERN_BYTES)
    bounded_regex = engine.FancyRegexOptions(_BACKTRACK_LIMIT, _PATTERN_BYTES, _PATTERN_BYTES)
    try:
        return engine.validator_for(
            schema, mask=_MASK, retriever=_refuse_to_fetch, pattern_options=linear
        )
    except ValueError:
        pass  # Possibly only a pattern with lookaround, which real servers do send.
    try:
        return engine.validator_for(
            schema, mask=_MASK, retriever=_refuse_to_fetch, pattern_options=bounded_regex
        )
    except ValueError as error:
        reason = getattr(error, "message", str(error))
        raise InvalidSpec(what=what, problem=truncate_text(reason)) from error


def _refuse_to_fetch(uri: str) -> Any:
    message = f"a schema must not refer to another document: {uri}"
    raise ValueError(message)


def _describe_violation(violation: Any) -> str:
    path = list(violation.instance_path)
    place = f" - at `{format_path(path)}`" if path else ""
    return truncate_text(f"{_explain_violation(violation)}{place}")


def _explain_violation(violation: Any) -> str:
    """The reason of a violation; for `anyOf` and `oneOf`, why no branch fits."""
    forms = getattr(violation.kind, "context", None)
    if not forms:
        return str(violation.message)
    place = len(violation.instance_path)
    reasons = [_describe_within(errors[0], place) for errors in forms[:_FORMS_MAX] if errors]
    return f"value has none of the forms that it may have ({'; '.join(dict.fromkeys(reasons))})"


def _describe_within(violation: Any, place: int) -> str:
    path = list(violation.instance_path)[place:]
    return f"`{format_path(path)}`: {violation.message}" if path else str(violation.message)
