"""The spans of tool calls."""

from opentelemetry.trace import SpanKind

from awaken.contracts.messages.message import ToolCall
from awaken.contracts.tool_results import ToolResult, ToolStatus
from awaken.contracts.tools.tool import ToolDescriptor

from . import names
from .call_spans import CallSpan
from .content import encode_json
from .run_telemetry import Attributes, RunTelemetry


class ToolSpan(CallSpan):
    """A call of a tool."""

    __slots__ = ("_attempt", "_call", "_labels", "_tool")

    def __init__(
        self, run: RunTelemetry, call: ToolCall, tool: ToolDescriptor, attempt: int
    ) -> None:
        super().__init__(run)
        self._call = call
        self._tool = tool
        self._attempt = attempt
        self._labels: Attributes = {
            names.TOOL_NAME: tool.id,
            names.TOOL_TYPE: "function",
            names.AGENT_NAME: run.agent.id,
        }
        """The attributes of the metrics."""

    def __enter__(self) -> "ToolSpan":
        run, tool = self._run, self._tool
        run.tools += 1
        attributes: Attributes = {
            names.OPERATION_NAME: "execute_tool",
            **self._labels,
            names.TOOL_NAME: self._call.name,
            names.TOOL_CALL_ID: self._call.id,
            names.ATTEMPT: self._attempt,
            **run.ids,
        }
        if tool.description:
            attributes[names.TOOL_DESCRIPTION] = tool.description
        self._begin(f"execute_tool {tool.id}", SpanKind.INTERNAL, attributes)
        if run.capture.is_on_spans and self._span.is_recording():
            arguments = encode_json(run.writer.value(self._call.arguments))
            self._span.set_attribute(names.TOOL_CALL_ARGUMENTS, arguments)
        return self

    def on_end(self, result: ToolResult) -> None:
        """Record the result."""
        span, run = self._span, self._run
        span.set_attribute(names.TOOL_STATUS, result.status.value)
        if result.status is ToolStatus.ERROR:
            self._failure = result.error_class
        elif result.suspension is not None:
            action = result.suspension.suspension.action
            span.add_event(names.EVENT_SUSPENDED, {names.SUSPENSION_ACTION: action})
        elif run.capture.is_on_spans and span.is_recording():
            data = encode_json(run.writer.value(result.data))
            span.set_attribute(names.TOOL_CALL_RESULT, data)

    def _finish(self, took: float, _error: BaseException | None) -> None:
        self._run.telemetry.meters.tool_duration.record(took, self._labels | self._error())
