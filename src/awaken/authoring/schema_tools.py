"""Tools whose arguments are described by a JSON Schema instead of annotations.

The schema may come from outside, so that it may neither fetch anything nor match slowly.
"""

from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import Any

from awaken.contracts.tool_context import ToolContext
from awaken.contracts.tools import (
    InvalidArguments,
    ToolDescriptor,
    ToolInternalError,
    ToolOutput,
)

from .refusals import bounded, path_text, refusal
from .results import as_output

Handler = Callable[[Any, ToolContext], Awaitable[Any]]

_MASK = "value"
_MAX_VIOLATIONS = 20
_BACKTRACK_LIMIT = 10_000


class ArgumentSchema:
    """A JSON Schema, compiled once.

    A null schema, or one with neither `properties` nor `required`, accepts everything.

    Raises:
        ToolInternalError: It is no valid schema, or refers to another document.
    """

    __slots__ = ("_validator",)

    def __init__(self, schema: dict[str, Any] | None) -> None:
        compiled = None if schema is None else _compiled(schema)
        is_open = not schema or not ("properties" in schema or "required" in schema)
        self._validator = None if is_open else compiled

    def validate(self, arguments: Any) -> Any:
        """Return the arguments; null means none.

        Raises:
            InvalidArguments: With every violation, and no value.
        """
        arguments = {} if arguments is None else arguments
        if self._validator is None:
            return arguments
        try:
            if self._validator.is_valid(arguments):
                return arguments
            violations = list(self._validator.iter_errors(arguments))
        except (ValueError, RecursionError) as error:
            raise InvalidArguments(refusal(error)) from error
        raise InvalidArguments("; ".join(map(_text, violations[:_MAX_VIOLATIONS])))


class SchemaTool:
    """A tool with a JSON Schema and an async handler of `(arguments, context)`.

    The handler may return whatever a tool function may.
    """

    def __init__(self, descriptor: ToolDescriptor, handler: Handler) -> None:
        self.descriptor = descriptor
        self._handler = handler
        self._schema = ArgumentSchema(descriptor.parameters)

    def validate(self, arguments: Any) -> Any:
        """Return the arguments as they are; null means none.

        Raises:
            InvalidArguments: They do not fit the schema.
        """
        return self._schema.validate(arguments)

    async def execute(self, arguments: Any, context: ToolContext) -> ToolOutput:
        """Call the handler.

        Raises:
            ToolInternalError: The handler returned something that has no JSON form.
        """
        value = await self._handler(arguments, context)
        return as_output(self.descriptor.id, value, context)


def _compiled(schema: Any) -> Any:
    engine = import_module("jsonschema_rs")
    if not isinstance(schema, dict):
        raise ToolInternalError("the schema is no object")
    linear, bounded_regex = engine.RegexOptions(), engine.FancyRegexOptions(_BACKTRACK_LIMIT)
    try:
        return engine.validator_for(
            schema, mask=_MASK, retriever=_refuse_to_fetch, pattern_options=linear
        )
    except ValueError:
        pass  # Perhaps only a pattern with lookaround, which real servers do send.
    try:
        return engine.validator_for(
            schema, mask=_MASK, retriever=_refuse_to_fetch, pattern_options=bounded_regex
        )
    except ValueError as error:
        reason = getattr(error, "message", str(error))
        raise ToolInternalError(f"the schema is invalid: {bounded(reason)}") from error


def _refuse_to_fetch(uri: str) -> Any:
    message = f"a tool's schema must not refer to another document: {uri}"
    raise ValueError(message)


def _text(violation: Any) -> str:
    path = list(violation.instance_path)
    place = f" - at `{path_text(path)}`" if path else ""
    return bounded(f"{violation.message}{place}")
