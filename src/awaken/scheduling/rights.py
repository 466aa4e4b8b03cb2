"""Rights: whether the creator of a schedule or a trigger may still start a run."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from awaken.contracts.errors import (
    AlreadyExists,
    AwakenError,
    DedupeConflict,
    InvalidRecord,
    UnknownAgent,
    UsageError,
)
from awaken.contracts.runs.records import RunRecord, RunRequest
from awaken.contracts.storage.schedules import Creator

FindProblem = Callable[[Creator], Awaitable[str | None]]
"""Says why a creator may start no run, or None if it may; asked anew each time."""

NEVER_QUEUED = (UsageError, InvalidRecord, AlreadyExists, DedupeConflict)
"""What a store raises for a run that it will not queue later either."""
LOST_RIGHTS, UNKNOWN_AGENT = "rights_lost", "unknown_agent"


class RunRefusal(msgspec.Struct, frozen=True):
    """Why no run is started: a stable code, and a sentence."""

    reason: str
    detail: str


class RunStarter(msgspec.Struct, frozen=True, kw_only=True):
    """What schedules and triggers need of the runtime that executes runs."""

    check_agent: Callable[[str], Awaitable[object]]
    """Raises if no new run may take an agent of this id."""
    check_target: Callable[[RunRequest], Awaitable[None]]
    """Raises if the input or the context of a request does not fit its agent."""
    check_receiver: Callable[[str], Awaitable[None]]
    """Raises if the agent of this id is known here, and is no workflow: it takes no events."""
    screen: Callable[[RunRequest], Awaitable[RunRequest]]
    """Returns a request as it may be stored; raises if it does not fit its agent."""
    check_event: Callable[[RunRecord, str, Any], Awaitable[None]]
    """Raises if the workflow of a run takes no such event with that payload."""
    cancel_run: Callable[[str], Awaitable[bool]]
    on_queued: Callable[[], None]
    """Called when something was queued, so that a worker executes it."""
    judges: list[FindProblem] = msgspec.field(default_factory=list)
    """The servers of this process, which know their callers; without one, only the host's own
    schedules fire here."""

    @property
    def is_judge(self) -> bool:
        """Whether this process can look up the rights of callers."""
        return bool(self.judges)

    async def find_problem(self, creator: Creator) -> str | None:
        """Say why a creator may start no run; the host's own code always may."""
        if creator.is_demo:
            return "it is demo data, which starts nothing"
        if creator.principal_id is None:
            return None
        problem: str | None = "no server of this process knows its callers"
        for judge in self.judges:
            problem = await judge(creator)
            if problem is None:
                return None
        return problem

    async def find_refusal(self, creator: Creator, agent_id: str) -> RunRefusal | None:
        """Say why no run of an agent may be started in the name of a creator, or None."""
        problem = await self.find_problem(creator)
        if problem is not None:
            return RunRefusal(LOST_RIGHTS, problem)
        try:
            await self.check_agent(agent_id)
        except UnknownAgent as error:
            return RunRefusal(UNKNOWN_AGENT, f"agent '{error.agent_id}' does not exist here")
        except AwakenError as error:
            return RunRefusal(error.code, str(error))
        return None
