"""What the spans of one run share. Each run has its own."""

from opentelemetry import context as otel
from opentelemetry import trace
from opentelemetry.util.types import AttributeValue

from awaken.contracts.identity import RunIdentity
from awaken.contracts.models.addresses import ServerAddress
from awaken.contracts.specs.agents import AgentSpec

from . import names
from .config import ContentCapture
from .content import ContentWriter
from .telemetry import Telemetry

Attributes = dict[str, AttributeValue]


class RunTelemetry:
    """A run while it executes in this process."""

    __slots__ = (
        "_below",
        "agent",
        "capture",
        "finish_reasons",
        "identity",
        "inferences",
        "span",
        "telemetry",
        "tools",
        "writer",
    )

    def __init__(
        self,
        telemetry: Telemetry,
        identity: RunIdentity,
        agent: AgentSpec,
        capture: ContentCapture,
        writer: ContentWriter,
    ) -> None:
        self.telemetry = telemetry
        self.identity = identity
        self.agent = agent
        """The active agent."""
        self.capture = capture
        self.writer = writer
        self.span: trace.Span = trace.INVALID_SPAN
        self.inferences = 0
        self.tools = 0
        self.finish_reasons: tuple[str, ...] = ()
        self._below: otel.Context | None = None

    def enter_span(self, span: trace.Span, above: otel.Context) -> None:
        """Make this span the parent of every call."""
        self.span = span
        self._below = trace.set_span_in_context(span, above)

    def hand_over(self, agent: AgentSpec) -> None:
        """Make another agent the active one."""
        self.span.add_event(
            names.EVENT_HANDED_OVER, {names.AGENT_NAME: agent.id, names.AGENT: self.agent.id}
        )
        self.agent = agent

    def context(self) -> otel.Context:
        """The parent context of a call: the current span if it is part of this run."""
        here = otel.get_current()
        mine = self.span.get_span_context().trace_id
        if self._below is None or trace.get_current_span(here).get_span_context().trace_id == mine:
            return here
        return self._below

    @property
    def ids(self) -> Attributes:
        """The attributes that every span of the run has."""
        run = self.identity
        found: Attributes = {names.RUN: run.run_id, names.CONVERSATION_ID: run.thread_id}
        if run.tenant_id is not None:
            found[names.TENANT] = run.tenant_id
        return found


def server_attributes(server: ServerAddress | None) -> Attributes:
    """The host and port of the called server, if they are known."""
    if server is None:
        return {}
    return {names.SERVER_ADDRESS: server.host, names.SERVER_PORT: server.port}
