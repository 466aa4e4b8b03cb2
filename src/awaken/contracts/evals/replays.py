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


class ReplayResult(Record, frozen=True, kw_only=True):
    """What came of a replay."""

    mode: ReplayMode
    is_same: bool
    divergences: tuple[ReplayDivergence, ...] = always(())
    """In their order; only the first unless the replay kept going."""
    incomplete: tuple[str, ...] = ()
    """What the recording does not have, and so was not compared."""
    ended: str | None = None
    """The type of the end of the replayed run; None if it waits."""
    replayed: Recording
