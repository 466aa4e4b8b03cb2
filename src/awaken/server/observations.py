"""The counters of this process: requests as they end, and runs by what they commit and call."""

from awaken.contracts.errors import AwakenError
from awaken.contracts.events import RunFinish, ToolCallDone
from awaken.contracts.identity import RunIdentity
from awaken.contracts.lifecycle import Failed, TicketStatus
from awaken.contracts.plugins.instruments import Instrument
from awaken.contracts.plugins.statistics import StatisticsKeeper
from awaken.contracts.runs.records import RunRecord
from awaken.contracts.specs.agents import AgentSpec
from awaken.contracts.storage.dispatch import RunDispatch
from awaken.contracts.storage.store import Commit
from awaken.contracts.suspension.tickets import Ticket, ToolCallOutcome
from awaken.contracts.tools.tool import UNKNOWN_TOOL
from awaken.runtime.resolution.registry import RegistryHandle
from awaken.runtime.resolution.snapshots import RegistrySnapshot

from .metrics import Counter, CountOf, Family, Histogram, Level
from .node_observations import NodeObservations
from .run_meter import RunMeter

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class Observations:
    """The counters of one server. Nothing here raises, waits, or keeps an id."""

    def __init__(self, tool_labels: "ToolLabels", statistics: StatisticsKeeper) -> None:
        self._tool_labels = tool_labels
        self._statistics = statistics
        http = ("method", "route", "status")
        answered = Histogram("awaken_http_request_duration_seconds", "Requests.", *http)
        self.requests = CountOf("awaken_http_requests_total", "Requests answered.", answered)
        self.durations = answered
        self.in_flight = Level("awaken_http_requests_in_flight", "Requests being served.")
        self.streams = Level("awaken_sse_connections", "Streams being read.")
        self.runs = Counter("awaken_runs_total", "Runs that ended or wait.", "outcome")
        self.run_durations = Histogram("awaken_run_duration_seconds", "Runs.", "outcome")
        asked = ("model", "provider", "status")
        self.turns = Counter("awaken_inference_requests_total", "Model calls.", *asked)
        self.turn_durations = Histogram("awaken_inference_duration_seconds", "Calls.", *asked)
        counted = ("model", "provider", "type")
        self.tokens = Counter("awaken_inference_tokens_total", "Tokens.", *counted)
        failed = ("model", "provider", "class")
        self.turn_errors = Counter("awaken_inference_errors_total", "Failed calls.", *failed)
        self.tools = Counter("awaken_tool_calls_total", "Tool calls.", "tool", "status")
        self.tool_durations = Histogram("awaken_tool_duration_seconds", "Tools.", "tool", "status")
        self.tool_errors = Counter("awaken_tool_errors_total", "Failed.", "tool", "class")
        wait = ("action", "resume_mode")
        self.suspensions = Counter("awaken_agent_suspensions_total", "Calls that wait.", *wait)
        self.handoffs = Counter("awaken_agent_handoffs_total", "Changes of agent.")
        below = "awaken_agent_delegation"
        self.delegations = Counter(f"{below}s_total", "Runs below others.", "status")
        self.delegation_durations = Histogram(f"{below}_duration_seconds", "Runs below others.")
        self.sessions = Histogram("awaken_agent_session_duration_seconds", "Runs while executed.")
        self.errors = Counter("awaken_errors_total", "What failed.", "class")
        self.mailbox = MailboxObservations()
        self.node = NodeObservations()

    def families(self) -> list[Family]:
        """Everything that is counted."""
        own = [it for it in vars(self).values() if isinstance(it, Family)]
        return [*own, *vars(self.mailbox).values(), *vars(self.node).values()]

    def instrument(self, run: RunIdentity, agent: AgentSpec) -> Instrument:
        """Make the instrument that measures a run of this process."""
        return RunMeter(self, self._statistics, agent)

    def count_request(self, method: str, route: str, status: int, ms: float) -> None:
        """Count a request that was answered."""
        labels = (method if method in _METHODS else "other", route, str(status))
        self.durations.observe(ms, *labels)

    def count_commit(self, commit: Commit) -> None:
        """Count what a run of this process has committed."""
        for event in commit.events:
            if type(event) is ToolCallDone:
                self._count_tool_call(event)
            elif type(event) is RunFinish and commit.run and not event.awaits_tasks:
                self._count_run(event, commit.run)
        for ticket in commit.tickets:
            if ticket.status is TicketStatus.OPEN:
                self._count_suspension(ticket)
                if commit.run is not None:
                    self._statistics.count_event("suspensions", commit.run.agent_id)

    def count_error(self, code: str) -> None:
        """Count an error by its code."""
        self.errors.add(1, code)

    def _count_tool_call(self, event: ToolCallDone) -> None:
        tool = self._tool_labels.label_tool(event.result.tool_name)
        self.tools.add(1, tool, event.outcome.value)
        if event.outcome is ToolCallOutcome.FAILED:
            self.tool_errors.add(1, tool, event.result.error_class)
            self.count_error(event.result.error_class)

    def _count_run(self, event: RunFinish, run: RunRecord) -> None:
        outcome = str(event.termination.__struct_config__.tag)
        took = None if run.finished_at is None else run.finished_at - run.created_at
        self.runs.add(1, outcome)
        if took is not None:
            self.run_durations.observe(took, outcome)
        if run.parent_run_id is not None:
            self.delegations.add(1, outcome)
            self._statistics.count_event("delegations", run.agent_id)
            if took is not None:
                self.delegation_durations.observe(took)
        if isinstance(event.termination, Failed):
            self.count_error(event.termination.code)

    def _count_suspension(self, ticket: Ticket) -> None:
        action = self._tool_labels.label_action(ticket.suspension.action)
        self.suspensions.add(1, action, ticket.resume_mode.value)


class MailboxObservations:
    """How long the mailbox takes."""

    def __init__(self) -> None:
        did = ("operation", "result")
        name = "awaken_mailbox_operation"
        self.operations = Counter(f"{name}s_total", "Operations.", *did)
        self.operation_durations = Histogram(f"{name}_duration_seconds", "Operations.", *did)
        name = "awaken_mailbox_dispatch"
        self.queued = Histogram(f"{name}_enqueue_to_start_seconds", "From submission.")
        self.eligible = Histogram(f"{name}_eligible_to_start_seconds", "From when it was due.")
        self.claimed = Histogram(f"{name}_claim_to_start_seconds", "From its claim.")
        self.whole = Histogram(f"{name}_enqueue_to_complete_seconds", "Deliveries.", "outcome")
        self.runtime = Histogram(f"{name}_runtime_seconds", "Executions.", "outcome")
        self.claims = Histogram("awaken_claim_seconds", "Looks for work that could be claimed.")
        name = "awaken_start_wait_seconds"
        self.start_waits = Histogram(name, "From when input was due to its start, told at once.")
        name = "awaken_runs_recovered_total"
        self.recovered = Counter(name, "Runs that were taken back from processes that are gone.")
        self.recovered.add(0)

    def on_operation(self, operation: str, result: str, ms: int) -> None:
        """Count an operation."""
        self.operations.add(1, operation, result)
        self.operation_durations.observe(ms, operation, result)
        if operation == "claim":
            self.claims.observe(ms)

    def on_start(self, dispatch: RunDispatch, now_ms: int) -> None:
        """Count how long a dispatch has waited."""
        self.start_waits.observe(max(0, now_ms - max(dispatch.available_at, dispatch.created_at)))

    def on_recovery(self, count: int) -> None:
        """Count runs that are continued."""
        self.recovered.add(count)

    def on_delivery(
        self, dispatch: RunDispatch, outcome: str, started_ms: int, now_ms: int
    ) -> None:
        """Count a delivery. Clocks of stores and processes differ: no duration is negative."""
        due = max(dispatch.available_at, dispatch.created_at)
        self.queued.observe(max(0, started_ms - dispatch.created_at))
        self.eligible.observe(max(0, started_ms - due))
        self.claimed.observe(max(0, started_ms - dispatch.updated_at))
        self.whole.observe(max(0, now_ms - dispatch.created_at), outcome)
        self.runtime.observe(max(0, now_ms - started_ms), outcome)


_TOOL_ACTION = "tool:"


class ToolLabels:
    """Makes labels from the tools that any agent has registered now."""

    __slots__ = ("_names", "_registry", "_seen")

    def __init__(self, registry: RegistryHandle) -> None:
        self._registry = registry
        self._seen: RegistrySnapshot | None = None
        self._names: frozenset[str] = frozenset()

    def label_tool(self, name: str) -> str:
        """The name if it is registered, else `unknown`."""
        snapshot = self._registry.snapshot()
        if snapshot is not self._seen:
            self._seen, self._names = snapshot, _list_tool_names(snapshot)
        return name if name in self._names else UNKNOWN_TOOL

    def label_action(self, action: str) -> str:
        """The action that a suspended call waits for; a tool in it goes through `label_tool`."""
        if not action.startswith(_TOOL_ACTION):
            return action
        return _TOOL_ACTION + self.label_tool(action.removeprefix(_TOOL_ACTION))


def _list_tool_names(snapshot: RegistrySnapshot) -> frozenset[str]:
    names: set[str] = set()
    for agent_id in snapshot.registries.agents:
        try:
            names.update(snapshot.resolve(agent_id).tools)
        except AwakenError:
            # An agent that does not resolve never runs, so none of its tools is called.
            continue
    return frozenset(names)
