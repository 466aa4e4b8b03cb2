"""The identity of a run: its agent, its caller, and the protocol it came through."""

import re
from enum import StrEnum
from operator import attrgetter
from uuid import UUID

import msgspec

from .record import Record, always


class RunOrigin(StrEnum):
    """Who asked for the run."""

    USER = "user"
    SUBAGENT = "subagent"
    INTERNAL = "internal"
    MCP = "mcp"


class RunMode(StrEnum):
    """How the run came to be executed."""

    FOREGROUND = "foreground"
    SCHEDULED = "scheduled"
    RESUME = "resume"
    INTERNAL_WAKE = "internal_wake"
    BACKGROUND = "background"


class Adapter(StrEnum):
    """The protocol the request came through."""

    INTERNAL = "internal"
    ACP = "acp"
    AI_SDK = "ai_sdk"
    AG_UI = "ag_ui"
    A2A = "a2a"
    MCP = "mcp"
    OPENAI = "openai"


GENERATED_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
"""The form of the ids that the runtime makes; an id of another origin may have it, too."""

RESERVED_IDS = {
    ".": "",
    "..": "",
    "search": "thread_id",
    "summaries": "thread_id",
    "summary": "run_id_hint",
    "runtime-stats": "agent_id",
}
"""Ids that no URL can name, each with the kind of id it is reserved as; blank means every kind.

Clients resolve dots before they send a path, percent-encoded or not. The words stand in paths of
the HTTP API where other paths have such an id.
"""


def normalize_id(value: str | None) -> str | None:
    """Trim an optional id; blank means absent."""
    if value is None:
        return None
    return value.strip() or None


def is_generated(id_: str) -> bool:
    """Whether an id has the form of the runtime's own ids; a client's id may have it as well."""
    return GENERATED_ID.fullmatch(id_) is not None


def derive_id(*parts: str) -> str:
    """An id derived from the parts: equal parts give equal ids, other parts give other ids."""
    # Not by a process that only declares agents: it loads OpenSSL.
    import hashlib  # noqa: PLC0415

    data = b"\0".join(part.encode() for part in parts)
    return str(UUID(bytes=hashlib.blake2b(data, digest_size=16).digest(), version=5))


class RunProvenance(Record, frozen=True, kw_only=True):
    """Where a run comes from: its parent, its caller and the way it was asked for.

    Requests, records and identities have these fields in their own JSON objects.
    """

    parent_thread_id: str | None = None
    parent_run_id: str | None = None
    parent_tool_call_id: str | None = None
    dispatch_id: str | None = None
    session_id: str | None = None
    transport_request_id: str | None = None
    tenant_id: str | None = None
    """The tenant that pays; tenant budgets are kept under this id."""
    user_id: str | None = None
    """The user who asked, if known; user permissions are kept under this id."""
    origin: RunOrigin = RunOrigin.USER
    run_mode: RunMode = RunMode.FOREGROUND
    adapter: Adapter = Adapter.INTERNAL


PROVENANCE = RunProvenance.__struct_fields__
read_provenance = attrgetter(*PROVENANCE)
"""Reads the values of `PROVENANCE` from a request, a record or an identity."""


class RunIdentity(RunProvenance, frozen=True, kw_only=True):
    """Everything that names a run; its JSON form is flat.

    `agent_id` is the agent the run began with; after a handoff `active_agent_id` names the
    agent that answers now.
    """

    thread_id: str
    run_id: str = always("")
    agent_id: str = always("")
    active_agent_id: str | None = None
    origin: RunOrigin = always(RunOrigin.USER)

    def child(
        self, *, run_id: str, thread_id: str, agent_id: str, call_id: str | None
    ) -> "RunIdentity":
        """Return the identity of a sub-agent's run started by one of this run's tool calls."""
        return RunIdentity(
            thread_id=thread_id,
            run_id=run_id,
            agent_id=agent_id,
            parent_thread_id=self.thread_id,
            parent_run_id=self.run_id,
            parent_tool_call_id=normalize_id(call_id),
            tenant_id=self.tenant_id,
            user_id=self.user_id,
            origin=RunOrigin.SUBAGENT,
        )

    def with_active_agent(self, agent_id: str) -> "RunIdentity":
        """Return the identity after a handoff to `agent_id`."""
        return msgspec.structs.replace(self, active_agent_id=agent_id)
