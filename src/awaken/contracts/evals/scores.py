"""Scorers and scores: a scorer is a pure function of an outcome; a missing score is no zero."""

from enum import StrEnum
from typing import Any, Protocol

import msgspec

from awaken.contracts.record import Record, StrictRecord

from .recordings import Recording
from .worlds import ReplayDivergence


class ScorerSpec(StrictRecord, frozen=True, kw_only=True):
    """Which scorer, with which options, under which name."""

    scorer: str
    """The scorer, such as `contains`, `tool_sequence`, `judge` or `python`."""
    name: str = ""
    """How its scores are called; blank: the scorer's own name."""
    options: dict[str, Any] = {}
    threshold: float = 0.5
    """A value from here on is a pass."""

    @property
    def shown_name(self) -> str:
        """The name of its scores."""
        return self.name or self.scorer


class ScoreSource(StrEnum):
    """Where a score comes from."""

    EVAL = "eval"
    ONLINE = "online"
    HUMAN = "human"


class Score(Record, frozen=True, kw_only=True):
    """What one scorer says of one outcome: a value, or why there is none."""

    name: str
    value: float | None = None
    """0 to 1; None if the scorer could not judge: then `error` says why."""
    passed: bool | None = None
    threshold: float | None = None
    """The value from which on it passes; None if a person scored, or there is no value."""
    label: str = ""
    reason: str = ""
    kind: str = ""
    """Why it failed, as a word that programs read, such as `answer_missing_phrase`."""
    error: str | None = None
    evidence: Any = None
    version: str = ""
    """Changes when the scorer would score otherwise: its options, rubric and prompt."""
    judge: "JudgeUse | None" = None
    against: str = ""
    """The variant whose answer was compared with; that variant itself has no such score."""


class JudgeUse(Record, frozen=True, kw_only=True):
    """What a judged score was made with."""

    model_id: str
    prompt_hash: str
    votes: tuple[float, ...] = ()
    run_ids: tuple[str, ...] = ()
    tokens: int | None = None
    cost_usd: float | None = None

    @property
    def judge_key(self) -> tuple[str, str]:
        """Identifies the judge: what is known of another prompt or model says nothing of it."""
        return self.prompt_hash, self.model_id


class StoredScore(Record, frozen=True, kw_only=True):
    """A score of a run in the store."""

    no: int = 0
    """Given by the store, in the order of writing."""
    run_id: str
    scorer: str
    source: ScoreSource
    at: int
    score: Score
    step: int | None = None
    by: str = ""
    comment: str = ""
    tenant_id: str | None = None


class AskedTicket(Record, frozen=True, kw_only=True):
    """A question that a run asked before a call, and whether it was decided before the call ran."""

    call_id: str
    tool: str
    action: str | None = None
    """The decision; None if nobody decided."""


class Outcome(Record, frozen=True, kw_only=True):
    """What scorers see of one sample: its recording and what belongs to it."""

    case_id: str = ""
    input: str = ""
    expected: Any = None
    expected_tools: tuple[str, ...] | None = None
    other: str | None = None
    """The answer of the first variant to the same case, in the same repeat."""
    other_problem: str = ""
    """Why there is none, in an eval that compares with it."""
    recording: Recording
    output: Any = None
    """The answer as JSON, if it is an object or an array, as that of a typed agent is."""
    is_output_typed: bool = False
    """Whether `output` is the answer."""
    cost_usd: float | None = None
    ms: int | None = None
    divergences: tuple[ReplayDivergence, ...] = ()
    tickets: tuple[AskedTicket, ...] = ()
    metadata: dict[str, Any] = {}

    @property
    def text(self) -> str:
        """The final answer."""
        return self.recording.run.final_output or ""


class ModelAsk(Protocol):
    """Asks a model one question with a structured answer; its use is in the eval's ledger."""

    async def ask(
        self, model_id: str | None, system: str, text: str, schema: dict[str, Any]
    ) -> "ModelReply":
        """Ask at temperature 0.

        Raises:
            AwakenError: The model cannot be reached, has no budget left, or does not exist.
        """
        ...


class ModelReply(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of a model, not parsed."""

    text: str
    model_id: str
    run_id: str | None = None
    tokens: int | None = None
    cost_usd: float | None = None


class Scorer(Protocol):
    """Scores outcomes."""

    @property
    def spec(self) -> ScorerSpec:
        """What it was made from."""
        ...

    @property
    def version(self) -> str:
        """Changes when it would score otherwise."""
        ...

    async def score(self, outcome: Outcome) -> Score:
        """Score an outcome; a problem is a score with `error`, never an exception."""
        ...
