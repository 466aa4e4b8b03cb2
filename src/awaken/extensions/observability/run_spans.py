"""The span of a run, and the instrument that makes it. Each instrument belongs to one run."""

from contextlib import AbstractContextManager
from types import TracebackType

from opentelemetry.trace import SpanKind, StatusCode

from awaken.contracts.lifecycle import Failed, Suspended, Termination
from awaken.contracts.messages.message import TokenUsage, ToolCall
from awaken.contracts.models.addresses import server_of
from awaken.contracts.plugins.instruments import ModelCall, ModelWatch, RunWatch, ToolWatch
from awaken.contracts.specs.agents import AgentSpec, RemoteEndpoint
from awaken.contracts.tools.tool import ToolDescriptor

from . import names
from .chat_spans import ChatSpan
from .run_telemetry import Attributes, RunTelemetry, server_attributes
from .scopes import Scope, context_above, error_type
from .tool_spans import ToolSpan

_OPERATION = "invoke_agent"


class RunInstrument:
    """Records the telemetry of one run."""

    __slots__ = ("_run",)

    def __init__(self, run: RunTelemetry) -> None:
        self._run = run

    def watch_run(self, *, is_continued: bool) -> AbstractContextManager[RunWatch]:
        """Make the span of the run."""
        return RunSpan(self._run, is_continued=is_continued)

    def watch_model_call(self, call: ModelCall) -> AbstractContextManager[ModelWatch]:
        """Make the span of a model call."""
        return ChatSpan(self._run, call)

    def watch_tool_call(
        self, call: ToolCall, tool: ToolDescriptor, attempt: int
    ) -> AbstractContextManager[ToolWatch]:
        """Make the span of a tool call."""
        return ToolSpan(self._run, call, tool, attempt)

    def on_handoff(self, agent: AgentSpec) -> None:
        """Record that another agent is active from now on."""
        self._run.hand_over(agent)


class RunSpan:
    """The span of a run in this process, from its start or resumption until it ends or waits."""

    __slots__ = ("_is_continued", "_remote", "_run", "_scope", "_started", "_termination")

    def __init__(self, run: RunTelemetry, *, is_continued: bool) -> None:
        self._run = run
        self._is_continued = is_continued
        self._remote = _remote_attributes(run.agent.endpoint)
        """The attributes of the remote backend, if one executes the run."""
        self._termination: Termination | None = None
        self._started = 0.0
        self._scope: Scope | None = None

    def __enter__(self) -> "RunSpan":
        run, above = self._run, context_above()
        agent = run.agent
        kind = SpanKind.CLIENT if self._remote else SpanKind.INTERNAL
        self._started = run.telemetry.seconds()
        span = run.telemetry.tracer.start_span(
            f"{_OPERATION} {agent.id}", above, kind, self._attributes(agent)
        )
        run.enter_span(span, above)
        self._scope = Scope(span, above)
        return self

    def on_end(self, termination: Termination, usage: TokenUsage) -> None:
        """Record how the run ended."""
        self._termination = termination
        span = self._run.span
        span.set_attribute(names.TERMINATION, str(termination.__struct_config__.tag))
        if usage.prompt_tokens is not None:
            span.set_attribute(names.USAGE_INPUT, usage.prompt_tokens)
        if usage.completion_tokens is not None:
            span.set_attribute(names.USAGE_OUTPUT, usage.completion_tokens)
        if isinstance(termination, Suspended):
            span.add_event(names.EVENT_SUSPENDED)

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        run = self._run
        span, failure = run.span, self._failure(error)
        if failure is not None:
            span.set_attribute(names.ERROR_TYPE, failure)
            span.set_status(StatusCode.ERROR)
        if run.finish_reasons:
            span.set_attribute(names.RESPONSE_FINISH_REASONS, run.finish_reasons)
        try:
            self._measure({} if failure is None else {names.ERROR_TYPE: failure})
        finally:
            if self._scope is not None:
                self._scope.leave()
            span.end()

    def _measure(self, failed: Attributes) -> None:
        run, meters = self._run, self._run.telemetry.meters
        took = run.telemetry.seconds() - self._started
        if self._remote:
            # A remote run is a client call of this process, as a model call is.
            labels = {names.OPERATION_NAME: _OPERATION, **self._remote}
            meters.duration.record(took, {**labels, **failed})
            return
        named: Attributes = {names.AGENT_NAME: run.identity.agent_id}
        meters.agent_inferences.record(run.inferences, named)
        meters.agent_tools.record(run.tools, named)
        meters.agent_duration.record(took, {**named, **failed})

    def _failure(self, error: BaseException | None) -> str | None:
        if error is not None:
            return error_type(error)
        return self._termination.code if isinstance(self._termination, Failed) else None

    def _attributes(self, agent: AgentSpec) -> Attributes:
        run = self._run.identity
        found: Attributes = {
            names.OPERATION_NAME: _OPERATION,
            names.AGENT_NAME: agent.id,
            names.ADAPTER: run.adapter.value,
            names.IS_CONTINUED: self._is_continued,
            **self._run.ids,
        }
        if agent.description:
            found[names.AGENT_DESCRIPTION] = agent.description
        if run.parent_run_id is not None:
            found[names.PARENT_RUN] = run.parent_run_id
        if agent.endpoint is not None and agent.endpoint.target is not None:
            found[names.AGENT_ID] = agent.endpoint.target
        return found | self._remote


def _remote_attributes(endpoint: RemoteEndpoint | None) -> Attributes:
    if endpoint is None:
        return {}
    server = server_attributes(server_of(endpoint.base_url))
    return {names.PROVIDER_NAME: endpoint.backend, **server}
