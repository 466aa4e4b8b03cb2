"""The vocabulary of a workflow's journal: kinds of steps, retries, answers, and its status."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Any

from awaken.contracts.identity import derive_id
from awaken.contracts.record import Record, StrictRecord
from awaken.contracts.tenancy import namespace_in

STEPS_MAX = 10_000
"""How many steps one run of a workflow may take."""
EVENTS_MAX = 1_000
"""How many events may wait for their `wait_for` in one run."""
EVENT_NAME_CHARS = 200
"""How long the name of an event may be."""
RESULT_BYTES = 1_000_000
"""The largest result of a step, as JSON; a larger one is an error, never cut."""
LONGEST_S = 100 * 366 * 24 * 60 * 60
"""The longest time that a step may wait."""
PARK_MS = 5_000
"""A backoff that is longer parks the run."""
MESSAGE_EVENT = "message"
"""The event that a chat message to the thread of a workflow is."""


class StepKind(StrEnum):
    """What a step of a workflow does."""

    CALL = "call"
    ASK = "ask"
    START = "start"
    SLEEP = "sleep"
    WAIT_FOR = "wait_for"
    APPROVE = "approve"
    NOW = "now"
    RANDOM = "random"
    UUID = "uuid"
    PATCHED = "patched"
    STATUS = "status"
    GATHER = "gather"
    RACE = "race"
    RETRY = "retry"
    RESET = "reset"
    """Not a step: from here on the steps that it names are taken again."""


MARKERS = frozenset(
    {StepKind.PATCHED, StepKind.STATUS, StepKind.GATHER, StepKind.RETRY, StepKind.RESET}
)
"""Kinds that bring nothing from outside: they become durable with the next commit."""


class StepRetry(StrictRecord, frozen=True, kw_only=True):
    """How often a failed step is tried again, and how long the pauses are."""

    attempts: int = 3
    """How often it is tried altogether."""
    first_ms: int = 1_000
    """The pause after the first failure."""
    factor: float = 2.0
    """How much longer each further pause is."""
    longest_ms: int = 60 * 60_000

    def pause_ms(self, failures: int) -> int:
        """How long to wait after a number of failures."""
        longest_ms = min(self.longest_ms, LONGEST_S * 1000)
        try:
            grown = self.first_ms * self.factor ** (failures - 1)
        except OverflowError:
            # After a thousand failures the number has no end; the longest pause has.
            return longest_ms if self.first_ms else 0
        return int(min(longest_ms, grown))


class ApprovalAnswer(Record, frozen=True, kw_only=True):
    """A person's answer to `ctx.approve`; true if it is a yes."""

    is_approved: bool
    decided_by: str | None = None
    reason: str | None = None
    result: Any = None
    """What the decider passed besides."""

    def __bool__(self) -> bool:
        return self.is_approved


def iterate_continuations(run_id: str) -> Iterator[str]:
    """Yield the ids of the runs that a run may continue as, each from the one before; endless."""
    namespace = namespace_in(run_id)
    own = run_id.removeprefix(namespace)
    while True:
        own = derive_id(own, "continued")
        yield namespace + own


def make_call_prefix(run_id: str) -> str:
    """Return what the call ids of a run's steps begin with; no other run's do."""
    # Not by a process that only declares workflows: it loads OpenSSL.
    from hashlib import blake2b  # noqa: PLC0415

    return f"wf_{blake2b(run_id.encode(), digest_size=6).hexdigest()}"


def make_call_id(prefix: str, generation: int, path: str) -> str:
    """Return the call id of a step: unique in its thread, and the same in every replay.

    A step that is taken again after a reset is another call, so it has the reset's number.
    """
    again = f"_r{generation}" if generation else ""
    return f"{prefix}{again}_{path.replace('.', '-')}"


def read_path(call_id: str) -> str:
    """Return the path of the step that has a call id."""
    return call_id.rpartition("_")[2].replace("-", ".")
