"""Replays of recordings: how they are asked for, and what came of them."""

from enum import StrEnum

from awaken.contracts.record import Record, StrictRecord, always

from .recordings import Recording
from .worlds import OnQuestion, PlannedDecision, ReplayDivergence, ToolPolicy, Variant


class ReplayMode(StrEnum):
    """What is recorded and what is live in a replay."""

    VERIFY = "verify"
    """Recorded models and tools; proves that code and configuration still ask the same."""
    WHAT_IF = "what_if"
    """Live models, with a variant's changes; recorded tools."""
    MODEL_ONLY = "model_only"
    """Recorded models; live tools without effects: did a tool's answer change?"""
    SIMULATE = "simulate"
    """Live models; tools that a model plays. For exploration, never for a gate."""


class ReplaySpec(StrictRecord, frozen=True, kw_only=True):
    """How to replay a recording."""

    mode: ReplayMode = ReplayMode.VERIFY
    variant: Variant | None = None
    """What is changed; only of `what_if` and `simulate`."""
    from_step: int = 1
    """The first step that is not taken from the recording as it is."""
    tools: ToolPolicy = ToolPolicy()
    decisions: tuple[PlannedDecision, ...] = ()
    on_question: OnQuestion = OnQuestion.STOP
    seed: int = 0
    keep_going: bool = False
    """Whether a divergence is noted and the run goes on, with recorded answers."""
    time_ms: int | None = None
    """How long it may take; absent, or more than the process allows: what the process allows."""


class ReplayStatus(StrEnum):
    """How far a replay is."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    """It could not be replayed, took too long, or its process ended; `problem` says which."""
    CANCELLED = "cancelled"

    @property
    def is_terminal(self) -> bool:
        """Whether it has ended."""
        return self is not ReplayStatus.RUNNING


class ReplayRecord(Record, frozen=True, kw_only=True):
    """A replay that a server does: what was asked, and how far it is."""

    replay_id: str
    run_id: str
    """The run that is replayed; it stays as it is."""
    spec: ReplaySpec
    status: ReplayStatus = always(ReplayStatus.RUNNING)
    publication: int | None = None
    """The publication that it runs on, if a draft or a publication was named."""
    manifest_hash: str | None = None
    """The manifest of that publication: a draft that changes later has another one."""
    created_by: str = ""
    created_at: int = 0
    finished_at: int | None = None
    alive_until: int = 0
    """When another process may take it for lost, unless the one that does it says otherwise."""
    problem: str | None = None
    code: str | None = None
    """The code of the error that `problem` tells."""
    result: str | None = None
    """The hash of its result."""


class ReplayResult(Record, frozen=True, kw_only=True):
    """What came of a replay."""

    mode: ReplayMode
    is_same: bool
    divergences: tuple[ReplayDivergence, ...] = always(())
    """In their order; only the first unless the replay kept going."""
    incomplete: tuple[str, ...] = ()
    """What was not compared: the recording does not have it, or the process has it not."""
    ended: str | None = None
    """The type of the end of the replayed run; None if it waits."""
    replayed: Recording
