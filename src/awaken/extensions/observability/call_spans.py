"""The calls of a run: to models and to tools."""

from types import TracebackType
from typing import Any

from opentelemetry import trace
from opentelemetry._logs import SeverityNumber
from opentelemetry.trace import SpanKind, StatusCode

from awaken.contracts.inference import Effort, InferenceRequest, StreamResult
from awaken.contracts.instruments import ModelCall
from awaken.contracts.messages import ToolCall
from awaken.contracts.tool_results import ToolResult, ToolStatus
from awaken.contracts.tools import ToolDescriptor
from awaken.contracts.usage import TokenUsage

from . import names
from .content import FINISH_REASONS, encoded
from .scopes import Scope, error_type
from .watched_run import Attributes, WatchedRun

_MESSAGE_CHARS = 500


class CallSpan:
    """A span with its scope: entered before the call, left after it, in the same task."""

    __slots__ = ("_failure", "_run", "_scope", "_span", "_started")

    def __init__(self, run: WatchedRun) -> None:
        self._run = run
        self._span: trace.Span = trace.INVALID_SPAN
        self._scope: Scope | None = None
        self._started = 0.0
        self._failure: str | None = None

    def _begin(self, name: str, kind: SpanKind, attributes: Attributes) -> None:
        telemetry, above = self._run.telemetry, self._run.context()
        self._started = telemetry.seconds()
        self._span = telemetry.tracer.start_span(name, above, kind, attributes)
        self._scope = Scope(self._span, above)

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        if error is not None:
            self._failure = error_type(error)
        if self._failure is not None:
            self._span.set_attribute(names.ERROR_TYPE, self._failure)
            self._span.set_status(StatusCode.ERROR)
        try:
            self._finish(self._run.telemetry.seconds() - self._started, error)
        finally:
            if self._scope is not None:
                self._scope.leave()
            self._span.end()

    def _finish(self, took: float, error: BaseException | None) -> None:
        """Measure it."""
        raise NotImplementedError


class ChatSpan(CallSpan):
    """A call of a model."""

    __slots__ = ("_answer", "_call", "_first_chunk", "_usage")

    def __init__(self, run: WatchedRun, call: ModelCall) -> None:
        super().__init__(run)
        self._call = call
        self._first_chunk: float | None = None
        self._answer: StreamResult | None = None
        self._usage: TokenUsage | None = None

    def __enter__(self) -> "ChatSpan":
        run, request = self._run, self._call.request
        run.inferences += 1
        run.model = request.upstream_model
        attributes = {**self._labels(), **self._own(), **_request_attributes(request)}
        self._begin(f"chat {request.upstream_model}", SpanKind.CLIENT, attributes)
        return self

    def begun(self) -> None:
        """Note how long the first piece took."""
        if self._first_chunk is None:
            self._first_chunk = self._run.telemetry.seconds() - self._started
            self._span.set_attribute(names.RESPONSE_TIME_TO_FIRST_CHUNK, self._first_chunk)

    def ended(self, answer: StreamResult, usage: TokenUsage | None) -> None:
        """Note what it has said."""
        self._answer, self._usage = answer, usage
        self._span.set_attributes(self._response_attributes())

    def _finish(self, took: float, error: BaseException | None) -> None:
        meters, labels = self._run.telemetry.meters, self._labels()
        if self._first_chunk is not None:
            meters.first_chunk.record(self._first_chunk, labels)
        usage = self._usage or TokenUsage()
        for kind, count in (("input", usage.prompt_tokens), ("output", usage.completion_tokens)):
            if count is not None:
                meters.tokens.record(count, {**labels, names.TOKEN_TYPE: kind})
        if self._failure is not None:
            labels[names.ERROR_TYPE] = self._failure
        meters.duration.record(took, labels)
        if error is not None:
            self._tell_exception(error)
        self._tell_content()

    def _labels(self) -> Attributes:
        return {
            names.OPERATION_NAME: "chat",
            names.PROVIDER_NAME: names.provider_name(self._call.provider),
            names.REQUEST_MODEL: self._call.request.upstream_model,
        }

    def _own(self) -> Attributes:
        call = self._call
        own: Attributes = {
            names.AGENT: call.agent_id,
            names.MODEL: call.model_id,
            names.STEP: call.step,
        }
        return own | self._run.ids

    def _response_attributes(self) -> Attributes:
        found = {} if self._usage is None else _usage_attributes(self._usage)
        reason = self._answer.stop_reason if self._answer is not None else None
        if reason is not None:
            self._run.finish_reasons = (FINISH_REASONS[reason],)
            found[names.RESPONSE_FINISH_REASONS] = (FINISH_REASONS[reason],)
        return found

    def _tell_exception(self, error: BaseException) -> None:
        run = self._run
        run.telemetry.logger.emit(
            event_name=names.EVENT_EXCEPTION,
            severity_number=SeverityNumber.WARN,
            attributes={
                names.EXCEPTION_TYPE: type(error).__qualname__,
                names.EXCEPTION_MESSAGE: run.writer.redactor.text(str(error), _MESSAGE_CHARS),
            },
        )

    def _tell_content(self) -> None:
        run, request = self._run, self._call.request
        capture, writer = run.capture, run.writer
        if not (capture.is_on_events or (capture.is_on_spans and self._span.is_recording())):
            return
        said: dict[str, Any] = {names.INPUT_MESSAGES: writer.input(request)}
        if request.system:
            said[names.SYSTEM_INSTRUCTIONS] = writer.system(request)
        if request.tools:
            said[names.TOOL_DEFINITIONS] = writer.tools(request)
        if self._answer is not None:
            said[names.OUTPUT_MESSAGES] = writer.output(self._answer)
        if capture.is_on_spans:
            self._span.set_attributes({name: encoded(value) for name, value in said.items()})
        if capture.is_on_events:
            known = {**self._labels(), **self._own(), **_request_attributes(request)}
            run.telemetry.logger.emit(
                event_name=names.EVENT_DETAILS,
                severity_number=SeverityNumber.DEBUG,
                attributes={**known, **self._response_attributes(), **said},
            )


class ToolSpan(CallSpan):
    """A call of a tool."""

    __slots__ = ("_attempt", "_call", "_result", "_tool")

    def __init__(self, run: WatchedRun, call: ToolCall, tool: ToolDescriptor, attempt: int) -> None:
        super().__init__(run)
        self._call = call
        self._tool = tool
        self._attempt = attempt
        self._result: ToolResult | None = None

    def __enter__(self) -> "ToolSpan":
        run, tool = self._run, self._tool
        run.tools += 1
        attributes: Attributes = {
            names.OPERATION_NAME: "execute_tool",
            **self._labels(),
            names.TOOL_CALL_ID: self._call.id,
            names.ATTEMPT: self._attempt,
            **run.ids,
        }
        if tool.description:
            attributes[names.TOOL_DESCRIPTION] = tool.description
        self._begin(f"execute_tool {tool.id}", SpanKind.INTERNAL, attributes)
        if run.capture.is_on_spans and self._span.is_recording():
            arguments = encoded(run.writer.value(self._call.arguments))
            self._span.set_attribute(names.TOOL_CALL_ARGUMENTS, arguments)
        return self

    def ended(self, result: ToolResult) -> None:
        """Note its result."""
        self._result = result
        span, run = self._span, self._run
        span.set_attribute(names.TOOL_STATUS, result.status.value)
        if result.status is ToolStatus.ERROR:
            self._failure = result.error_class
        elif result.suspension is not None:
            action = result.suspension.suspension.action
            span.add_event(names.EVENT_SUSPENDED, {names.SUSPENSION_ACTION: action})
        elif run.capture.is_on_spans and span.is_recording():
            told = encoded(run.writer.value(result.data))
            span.set_attribute(names.TOOL_CALL_RESULT, told)

    def _finish(self, took: float, _error: BaseException | None) -> None:
        labels = self._labels()
        if self._failure is not None:
            labels[names.ERROR_TYPE] = self._failure
        self._run.telemetry.meters.tool_duration.record(took, labels)

    def _labels(self) -> Attributes:
        return {
            names.TOOL_NAME: self._tool.id,
            names.TOOL_TYPE: "function",
            names.AGENT_NAME: self._run.agent.id,
        }


def _request_attributes(request: InferenceRequest) -> Attributes:
    found: Attributes = {names.REQUEST_STREAM: True}
    if request.output_schema is not None:
        found[names.OUTPUT_TYPE] = "json"
    given = request.overrides
    if given is None:
        return found
    if given.max_tokens is not None:
        found[names.REQUEST_MAX_TOKENS] = given.max_tokens
    if given.temperature is not None:
        found[names.REQUEST_TEMPERATURE] = given.temperature
    if given.top_p is not None:
        found[names.REQUEST_TOP_P] = given.top_p
    if isinstance(given.reasoning_effort, Effort):
        found[names.REQUEST_REASONING_LEVEL] = given.reasoning_effort.value
    return found


def _usage_attributes(usage: TokenUsage) -> Attributes:
    counts = {
        names.USAGE_INPUT: usage.prompt_tokens,
        names.USAGE_OUTPUT: usage.completion_tokens,
        names.USAGE_CACHE_READ: usage.cache_read_tokens,
        names.USAGE_CACHE_WRITE: usage.cache_creation_tokens,
        names.USAGE_REASONING: usage.thinking_tokens,
    }
    return {name: count for name, count in counts.items() if count is not None}
