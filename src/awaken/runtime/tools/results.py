"""What is kept of a result: JSON, text that can be written, and no more than the tool's limit."""

import msgspec

from awaken.authoring.results import json_form
from awaken.contracts.messages.content import encodable
from awaken.contracts.tool_results import ToolResult
from awaken.contracts.tools.tool import ToolInternalError
from awaken.redaction import without_secrets
from awaken.runtime.inference.screening import screened_result
from awaken.runtime.run import Run

_encode = msgspec.json.Encoder().encode


def kept(run: Run, tool_name: str, result: ToolResult) -> ToolResult:
    """Return a result from foreign code in the form that is stored, shown and read by the model.

    One that has no JSON form becomes an error.
    """
    if run.agent.env.result_screens:
        result = screened_result(run, result)
    try:
        size = len(_encode(result))
    except (TypeError, ValueError, RecursionError):
        result = _repaired(tool_name, result)
        size = len(_encode(result))
    tool = run.agent.tools.get(tool_name)
    limit = tool.descriptor.output_limit if tool is not None else None
    limit = limit or run.services.limits.tool_output_chars
    # Bytes are never fewer than characters, so that most results need no closer look.
    return result if size <= limit else _cut(result, limit)


def shown_text(result: ToolResult) -> str:
    """The text that the model reads: the message, else the data as JSON.

    A string has its quotes then, so that it is told from a number.
    """
    return _json_text(result.data) if result.message is None else encodable(result.message)


def _repaired(tool_name: str, result: ToolResult) -> ToolResult:
    try:
        return msgspec.convert(json_form(result), ToolResult)
    except ToolInternalError as error:
        return ToolResult.error(tool_name, encodable(without_secrets(str(error))), code=error.code)


def _cut(result: ToolResult, limit: int) -> ToolResult:
    data, message = result.data, shown_text(result)
    text = data if isinstance(data, str) else _json_text(data)
    is_told = result.message is not None or len(message) > limit
    return msgspec.structs.replace(
        result,
        data=_shortened(text, limit) if len(text) > limit else data,
        # What is left of a JSON text is none any more: it is told as it is, not quoted once more.
        message=_shortened(message, limit) if is_told else None,
    )


def _shortened(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    return f"{text[:limit]}\n[Output cut: {len(text)} characters, {limit} shown]"


def _json_text(data: object) -> str:
    return _encode(data).decode()
