"""Converts the return value of a tool's code into the output that the runtime expects."""

import math
from typing import Any

import msgspec

from awaken.contracts.messages.content import replace_surrogates
from awaken.contracts.suspension.tickets import SuspendTicket
from awaken.contracts.tool_results import ToolResult
from awaken.contracts.tools.context import ToolContext
from awaken.contracts.tools.tool import ToolInternalError, ToolOutput

from .pydantic_models import encode_model

_AS_IS = frozenset([int, bool, type(None)])
_encode = msgspec.json.Encoder(enc_hook=encode_model).encode
_decode = msgspec.json.Decoder().decode


def as_output(tool_id: str, value: Any, context: ToolContext) -> ToolOutput:
    """Return a tool's output with the state command of its context.

    A `ToolResult` or `ToolOutput` is kept; a ticket suspends the call; a text becomes the data and
    the message of a success, and any other value its data.

    Raises:
        ToolInternalError: The value has no JSON form.
    """
    kind = type(value)
    if kind in _AS_IS:
        result = ToolResult(tool_name=tool_id, data=value)
    elif kind is str and value.isascii():
        result = ToolResult(tool_name=tool_id, data=value, message=value)
    elif isinstance(value, str):
        # Text for the model. A subclass of `str` may have another `__str__`.
        text = replace_surrogates(str.__str__(value))
        result = ToolResult(tool_name=tool_id, data=text, message=text)
    elif isinstance(value, ToolResult):
        result = value
    elif isinstance(value, SuspendTicket):
        result = ToolResult.from_ticket(tool_id, value)
    elif isinstance(value, ToolOutput):
        return _add_command(value, context)
    else:
        result = ToolResult(tool_name=tool_id, data=to_json_form(value))
    return ToolOutput(result=result, command=context.command)


def to_json_form(value: Any) -> Any:
    """Return the value in the form in which it is read back from a store.

    NaN and infinities become null and lone surrogates are replaced, as on the wire.

    Raises:
        ToolInternalError: The value has no JSON form; its type is named.
    """
    if type(value) is float:
        return value if math.isfinite(value) else None
    try:
        return _decode(_encode(value))
    except UnicodeEncodeError:
        plain = msgspec.to_builtins(value, str_keys=True, enc_hook=encode_model)
        return _decode(_encode(_repair(plain)))
    except (TypeError, ValueError, RecursionError) as error:
        name = type(value).__qualname__
        message = f"a result of type '{name}' has no JSON form: {error}"
        raise ToolInternalError(message) from error


def _add_command(output: ToolOutput, context: ToolContext) -> ToolOutput:
    own = context.command
    if own.is_empty or own == output.command:
        return output
    # Updates that the tool made through its context must not be lost.
    return ToolOutput(result=output.result, command=own.extend(output.command))


def _repair(value: Any) -> Any:
    if isinstance(value, str):
        return replace_surrogates(value)
    if isinstance(value, list):
        return [_repair(item) for item in value]
    if isinstance(value, dict):
        return {_repair(key): _repair(item) for key, item in value.items()}
    return value
