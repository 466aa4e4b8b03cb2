"""The spans of model calls."""

from typing import Any

from opentelemetry._logs import SeverityNumber
from opentelemetry.trace import SpanKind

from awaken.contracts.messages.message import TokenUsage
from awaken.contracts.models.errors import ContentFiltered
from awaken.contracts.models.inference import Effort, InferenceRequest, StreamResult, VendorAnswer
from awaken.contracts.plugins.instruments import ModelCall

from . import names
from .call_spans import CallSpan
from .content import FINISH_REASONS, encode_json
from .run_telemetry import Attributes, RunTelemetry, server_attributes

_MESSAGE_CHARS = 500
_NAME_CHARS = 256


class ChatSpan(CallSpan):
    """A call of a model."""

    __slots__ = ("_answer", "_attributes", "_call", "_first_chunk", "_labels", "_usage")

    def __init__(self, run: RunTelemetry, call: ModelCall) -> None:
        super().__init__(run)
        self._call = call
        self._labels: Attributes = {
            names.OPERATION_NAME: "chat",
            names.PROVIDER_NAME: names.provider_name(call.provider),
            names.REQUEST_MODEL: call.request.upstream_model,
            **server_attributes(call.server),
        }
        """The attributes of the metrics."""
        self._attributes: Attributes = {}
        """The attributes of the span, without content."""
        self._first_chunk: float | None = None
        self._answer: StreamResult | None = None
        self._usage = TokenUsage()

    def __enter__(self) -> "ChatSpan":
        run, call = self._run, self._call
        run.inferences += 1
        self._attributes = {
            **self._labels,
            names.AGENT: call.agent_id,
            names.MODEL: call.model_id,
            names.STEP: call.step,
            **run.ids,
            **_request_attributes(call.request),
        }
        self._begin(f"chat {call.request.upstream_model}", SpanKind.CLIENT, self._attributes)
        return self

    def on_first_piece(self) -> None:
        """Record the time to the first piece of the answer."""
        if self._first_chunk is None:
            self._first_chunk = self._run.telemetry.seconds() - self._started
            self._set_attributes({names.RESPONSE_TIME_TO_FIRST_CHUNK: self._first_chunk})

    def on_end(self, answer: StreamResult, usage: TokenUsage | None) -> None:
        """Record the answer and its usage."""
        self._answer, self._usage = answer, usage or TokenUsage()
        named = _vendor_attributes(answer.vendor)
        if names.RESPONSE_MODEL in named:
            self._labels[names.RESPONSE_MODEL] = named[names.RESPONSE_MODEL]
        self._set_attributes(named | _usage_attributes(self._usage))
        if answer.stop_reason is not None:
            self._set_finish_reason(FINISH_REASONS[answer.stop_reason])

    def _finish(self, took: float, error: BaseException | None) -> None:
        if error is not None:
            self._set_finish_reason(
                "content_filter" if isinstance(error, ContentFiltered) else "error"
            )
            self._emit_exception(error)
        self._measure(took)
        self._write_content()

    def _measure(self, took: float) -> None:
        meters, labels, usage = self._run.telemetry.meters, self._labels, self._usage
        if self._first_chunk is not None:
            meters.first_chunk.record(self._first_chunk, labels)
        for kind, count in (("input", usage.prompt_tokens), ("output", usage.completion_tokens)):
            if count is not None:
                meters.tokens.record(count, {**labels, names.TOKEN_TYPE: kind})
        meters.duration.record(took, labels | self._error())

    def _set_attributes(self, attributes: Attributes) -> None:
        self._attributes |= attributes
        self._span.set_attributes(attributes)

    def _set_finish_reason(self, reason: str) -> None:
        self._run.finish_reasons = (reason,)
        self._set_attributes({names.RESPONSE_FINISH_REASONS: (reason,)})

    def _emit_exception(self, error: BaseException) -> None:
        run = self._run
        run.telemetry.logger.emit(
            event_name=names.EVENT_EXCEPTION,
            severity_number=SeverityNumber.WARN,
            attributes={
                names.EXCEPTION_TYPE: type(error).__qualname__,
                names.EXCEPTION_MESSAGE: run.writer.redactor.text(str(error), _MESSAGE_CHARS),
            },
        )

    def _write_content(self) -> None:
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
            self._span.set_attributes({name: encode_json(value) for name, value in said.items()})
        if capture.is_on_events:
            run.telemetry.logger.emit(
                event_name=names.EVENT_DETAILS,
                severity_number=SeverityNumber.DEBUG,
                attributes={**self._attributes, **self._error(), **said},
            )


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


def _vendor_attributes(vendor: VendorAnswer | None) -> Attributes:
    """The vendor's id and model of the answer, cut because vendors are not trusted."""
    if vendor is None:
        return {}
    found = {names.RESPONSE_ID: vendor.id, names.RESPONSE_MODEL: vendor.model}
    return {name: text[:_NAME_CHARS] for name, text in found.items() if text is not None}


def _usage_attributes(usage: TokenUsage) -> Attributes:
    counts = {
        names.USAGE_INPUT: usage.prompt_tokens,
        names.USAGE_OUTPUT: usage.completion_tokens,
        names.USAGE_CACHE_READ: usage.cache_read_tokens,
        names.USAGE_CACHE_WRITE: usage.cache_creation_tokens,
        names.USAGE_REASONING: usage.thinking_tokens,
    }
    return {name: count for name, count in counts.items() if count is not None}
