"""Tools whose arguments are one value of a type, such as the input of a handoff."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from awaken.contracts.errors import InvalidSpec
from awaken.contracts.tools.context import ToolContext
from awaken.contracts.tools.tool import Approval, InvalidArguments, ToolDescriptor, ToolOutput

from .pydantic_models import build_decoder
from .refusals import describe_refusal
from .results import as_output
from .schema import Schema, schema_of

Handler = Callable[[Any, ToolContext], Awaitable[Any]]


def object_schema(type_: Any, what: str) -> Schema:
    """The schema of a type that is an object in JSON: a dataclass, a struct, a pydantic model.

    Raises:
        InvalidSpec: It has no JSON form, or another one.
    """
    schema = schema_of(type_, what=what)
    if schema.get("type") != "object" or schema.keys() & {"anyOf", "oneOf", "allOf"}:
        problem = f"{type_!r} is no object in JSON; use a dataclass, a msgspec.Struct or a model"
        raise InvalidSpec(what=what, problem=problem)
    return schema


class TypedTool:
    """A tool that calls an async handler of `(value, context)` with its decoded arguments."""

    approval: Approval | None = None
    hands_off_to: Callable[[Any], str] | None = None
    """Finds the agent that a call hands the conversation over to; None: it hands over nothing."""

    def __init__(self, descriptor: ToolDescriptor, type_: Any, handler: Handler) -> None:
        self.descriptor = descriptor
        self._decoder = build_decoder(type_)
        self._handler = handler

    def validate(self, arguments: Any) -> Any:
        """Return the arguments as a value of the type; null means none.

        Raises:
            InvalidArguments: They do not fit; the text names the place and no value.
        """
        try:
            # A copy: what the handler changes in it must not change the transcript.
            data = msgspec.json.encode({} if arguments is None else arguments)
            return self._decoder.decode(data)
        except (msgspec.MsgspecError, TypeError, ValueError, RecursionError) as error:
            raise InvalidArguments(describe_refusal(error)) from error

    async def execute(self, arguments: Any, context: ToolContext) -> ToolOutput:
        """Call the handler.

        Raises:
            ToolInternalError: The handler returned something that has no JSON form.
        """
        return as_output(self.descriptor.id, await self._handler(arguments, context), context)
