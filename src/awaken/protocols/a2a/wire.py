"""The requests of clients as types, and the violations in them.

Every field is optional here, so that all violations can be reported together.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Generic, Literal, TypeVar

from msgspec import Meta

from awaken.contracts.errors import UnknownRun
from awaken.contracts.identity import normalize_id
from awaken.contracts.runs.records import RunRecord
from awaken.outbound.guard import Outbound
from awaken.services.request_limits import PARTS_MAX
from awaken.services.view import TenantView
from awaken.transport.problems import HttpError
from awaken.transport.routes import RouteCall
from awaken.wire.a2a import A2aRecord, Part


class WireMessage(A2aRecord, frozen=True, kw_only=True):
    """A message of a client."""

    message_id: str | None = None
    role: str | None = None
    parts: Annotated[tuple[Part, ...], Meta(max_length=PARTS_MAX)] | None = None
    context_id: str | None = None
    task_id: str | None = None
    metadata: Any = None
    """Its `context` is the context of a new run."""


class Authentication(A2aRecord, frozen=True, kw_only=True):
    """Credentials for the target of push notifications."""

    scheme: str | None = None
    credentials: str | None = None


class Request(A2aRecord, frozen=True, kw_only=True):
    """The parameter of every operation."""

    tenant: str | None = None
    """The agent's id."""


class TaskRequest(Request, frozen=True, kw_only=True):
    """A task, with at most `history_length` of its latest messages."""

    id: str | None = None
    history_length: int | None = None


class ListTasks(Request, frozen=True, kw_only=True):
    """Tasks by context and state."""

    context_id: str | None = None
    status: str | None = None
    page_size: int | None = None
    page_token: str | None = None
    history_length: int | None = None
    status_timestamp_after: str | None = None
    include_artifacts: bool | None = None


class PushConfigName(Request, frozen=True, kw_only=True):
    """A task, and one of its push notification configs."""

    task_id: str | None = None
    id: str | None = None


class PushConfig(PushConfigName, frozen=True, kw_only=True):
    """Where to post the updates of a task."""

    url: str | None = None
    token: str | None = None
    authentication: Authentication | None = None


class Configuration(A2aRecord, frozen=True, kw_only=True):
    """How to answer a message."""

    accepted_output_modes: tuple[str, ...] | None = None
    task_push_notification_config: PushConfig | None = None
    history_length: int | None = None
    return_immediately: bool | None = None


class SendMessage(Request, frozen=True, kw_only=True):
    """A message to an agent."""

    message: WireMessage | None = None
    configuration: Configuration | None = None
    metadata: Any = None
    """The same as the message's, which wins."""


class RpcRequest(A2aRecord, frozen=True, kw_only=True):
    """One call over JSON-RPC; batches are not supported."""

    jsonrpc: Literal["2.0"]
    id: str | int | None = None
    method: Any = None
    params: Any = None


def types() -> tuple[type[A2aRecord], ...]:
    """All types that a request consists of."""
    requests = (TaskRequest, ListTasks, PushConfigName, PushConfig, SendMessage)
    return (Part, WireMessage, Authentication, Configuration, Request, *requests)


Violation = tuple[str, str]
"""A field and what is wrong with it."""


VIOLATIONS_MAX = 20
"""How many violations are reported."""
P = TypeVar("P", bound=Request)


class Violations(HttpError):
    """A request with invalid fields; names all of them, up to a limit."""

    def __init__(self, *violations: Violation) -> None:
        violations = violations[:VIOLATIONS_MAX]
        said = "; ".join(f"{field}: {problem}" for field, problem in violations)
        super().__init__(400, "INVALID_PARAMS", said)
        self.violations = violations


def find_violations(checks: Iterable[tuple[str, bool, str]], path: str = "") -> list[Violation]:
    """List the failed checks; a check is a field, whether it is valid, and the rule."""
    return [(path + field, rule) for field, is_right, rule in checks if not is_right]


@dataclass(frozen=True, slots=True)
class Ask(Generic[P]):
    """One request to an operation."""

    call: RouteCall
    params: P
    outbound: Outbound
    asks_tokens: bool
    """Whether callers need a token."""

    @property
    def view(self) -> TenantView:
        """What the caller can see and do."""
        return self.call.view

    @property
    def agent_id(self) -> str | None:
        """The agent that the request names; others are not visible to it."""
        return self.call.path.get("tenant") or normalize_id(self.params.tenant)

    async def check(self, violations: Sequence[Violation] = ()) -> None:
        """Refuse a request with an unknown agent or with violations.

        Raises:
            UnknownAgent: There is no such agent.
            Violations: Lists all of them.
        """
        agent_id = self.agent_id
        if agent_id is not None:
            await self.view.agent(agent_id)
        is_same = normalize_id(self.params.tenant) in (None, agent_id)
        length = getattr(self.params, "history_length", None) or 0
        checks = [
            ("tenant", is_same, f"differs from '{agent_id}' in the path"),
            ("historyLength", length >= 0, "must not be negative"),
        ]
        if found := [*find_violations(checks), *violations]:
            raise Violations(*found)

    async def record(self, task_id: str | None, violations: Sequence[Violation] = ()) -> RunRecord:
        """Check the request, then load the run of a task.

        Raises:
            UnknownRun: There is none, or it is another tenant's or agent's.
        """
        await self.check(violations)
        record = await self.view.run(task_id or "")
        if self.agent_id not in (None, record.agent_id):
            raise UnknownRun(run_id=task_id or "")
        return record

    async def latest(self, record: RunRecord) -> int:
        """The latest cursor in the log of a task's context."""
        thread = await self.view.find_thread(record.thread_id)
        return 0 if thread is None else thread.event_seq
