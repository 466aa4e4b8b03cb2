"""What this process counts: requests as they end, and runs by what they commit."""

from awaken.contracts.events import InferenceComplete, RunFinish, ToolCallDone
from awaken.contracts.lifecycle import TicketStatus
from awaken.contracts.runs import RunRecord
from awaken.contracts.storage import Commit
from awaken.contracts.suspension import Ticket

from .metrics import Counter, Family, Gauge, Histogram

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class Observations:
    """The counters of one server. Nothing here raises, waits, or keeps an id."""

    def __init__(self) -> None:
        http = ("method", "route", "status")
        self.requests = Counter("awaken_http_requests_total", "Requests answered.", *http)
        self.durations = Histogram("awaken_http_request_duration_seconds", "Requests.", *http)
        self.in_flight = Gauge("awaken_http_requests_in_flight", "Requests being served.")
        self.streams = Gauge("awaken_sse_connections", "Streams being read.")
        self.runs = Counter("awaken_runs_total", "Runs that ended or wait.", "outcome")
        self.run_durations = Histogram("awaken_run_duration_seconds", "Runs.", "outcome")
        self.turns = Counter("awaken_inference_requests_total", "Model turns.", "model")
        self.turn_durations = Histogram("awaken_inference_duration_seconds", "Turns.", "model")
        self.tokens = Counter("awaken_inference_tokens_total", "Tokens.", "model", "type")
        self.tools = Counter("awaken_tool_calls_total", "Tool calls.", "tool", "status")
        asked = ("action", "resume_mode")
        self.suspensions = Counter("awaken_agent_suspensions_total", "Calls that wait.", *asked)
        self.in_flight.add(0)
        self.streams.add(0)

    def families(self) -> list[Family]:
        """Everything that is counted."""
        return list(vars(self).values())

    def answered(self, method: str, route: str, status: int, ms: float) -> None:
        """Count a request that is over."""
        labels = (method if method in _METHODS else "other", route, str(status))
        self.requests.add(1, *labels)
        self.durations.observe(ms, *labels)

    def committed(self, commit: Commit) -> None:
        """Count what a run of this process has made durable."""
        for event in commit.events:
            if isinstance(event, InferenceComplete):
                self._inferred(event)
            elif isinstance(event, ToolCallDone):
                self.tools.add(1, event.result.tool_name, event.outcome.value)
            elif isinstance(event, RunFinish) and commit.run and not event.awaits_tasks:
                self._finished(event, commit.run)
        for ticket in commit.tickets:
            if ticket.status is TicketStatus.OPEN:
                self._suspended(ticket)

    def _inferred(self, event: InferenceComplete) -> None:
        self.turns.add(1, event.model)
        self.turn_durations.observe(event.duration_ms, event.model)
        usage = event.usage
        if usage is not None:
            self.tokens.add(usage.prompt_tokens or 0, event.model, "prompt")
            self.tokens.add(usage.completion_tokens or 0, event.model, "completion")

    def _finished(self, event: RunFinish, run: RunRecord) -> None:
        outcome = str(event.termination.__struct_config__.tag)
        self.runs.add(1, outcome)
        if run.finished_at is not None:
            self.run_durations.observe(run.finished_at - run.created_at, outcome)

    def _suspended(self, ticket: Ticket) -> None:
        self.suspensions.add(1, ticket.suspension.action, ticket.resume_mode.value)
