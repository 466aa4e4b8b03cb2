"""Tools whose arguments are described by a JSON Schema instead of annotations."""

from collections.abc import Awaitable, Callable
from typing import Any

from awaken.contracts.errors import InvalidSpec
from awaken.contracts.tools.context import ToolContext
from awaken.contracts.tools.tool import (
    InvalidArguments,
    ToolDescriptor,
    ToolInternalError,
    ToolOutput,
)

from .json_schemas import JsonSchema
from .results import as_output

Handler = Callable[[Any, ToolContext], Awaitable[Any]]


class ArgumentSchema:
    """The schema of a tool's arguments, compiled once.

    A null schema, or one with neither `properties` nor `required`, accepts everything.

    Raises:
        ToolInternalError: It is not a valid schema, or refers to another document.
    """

    __slots__ = ("_schema",)

    def __init__(self, schema: dict[str, Any] | None) -> None:
        try:
            compiled = None if schema is None else JsonSchema(schema, what="the schema")
        except InvalidSpec as error:
            raise ToolInternalError(str(error)) from error
        is_open = not schema or not ("properties" in schema or "required" in schema)
        self._schema = None if is_open else compiled

    def validate(self, arguments: Any) -> Any:
        """Return the arguments; null means none.

        Raises:
            InvalidArguments: With every violation, and no value.
        """
        arguments = {} if arguments is None else arguments
        violations = self._schema.violations(arguments) if self._schema is not None else []
        if violations:
            raise InvalidArguments("; ".join(violations))
        return arguments


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
