"""Evals: planned sets of samples, their items, and their states."""

import math
from enum import StrEnum
from typing import Any

from awaken.contracts.errors import InvalidValue
from awaken.contracts.models.inference import TokenUsage
from awaken.contracts.record import Record, StrictRecord

from .ids import check_eval_id
from .scores import Score, ScorerSpec
from .worlds import ReplayDivergence, ToolPolicy, Variant

REPEATS_MAX = 50
CELL_TIMEOUT_MS = 60_000
"""How long a sample may take, unless its eval or the terms of its gate say otherwise."""


class EvalMode(StrEnum):
    """Who answers in the samples of an eval."""

    LIVE = "live"
    """Models answer; tools as the cases say, recorded unless said otherwise."""
    RECORDED = "recorded"
    SCRIPTED = "scripted"
    VERIFY = "verify"
    """Recorded models and tools, and any difference is a divergence."""


class EvalBudget(StrictRecord, frozen=True, kw_only=True):
    """What a whole eval may spend, judges and simulated users included."""

    cost_usd: float | None = None
    tokens: int | None = None
    time_ms: int | None = None

    def __post_init__(self) -> None:
        for name in ("cost_usd", "tokens", "time_ms"):
            limit = getattr(self, name)
            if limit is not None and not 0 < limit < math.inf:
                raise InvalidValue(what=f"budget.{name}", problem="it must be a positive number")


class EvalSpec(StrictRecord, frozen=True, kw_only=True):
    """What to try, how often, and what it may cost."""

    id: str | None = None
    dataset_id: str
    revision: int | None = None
    """Absent: the newest one when the eval is planned."""
    cases: tuple[str, ...] = ()
    """Ids; absent: all that are ready."""
    tags: tuple[str, ...] = ()
    split: str | None = None
    variants: tuple[Variant, ...] = (Variant(name="default"),)
    mode: EvalMode | None = None
    """Absent: what the terms of the gate say, else `live`."""
    tools: ToolPolicy | None = None
    """For cases that say nothing. Absent: what the terms say, else recorded ones."""
    repeats: int | None = None
    """Absent: 1 if models and tools are recorded or scripted, else 5."""
    seed: int | None = None
    """Absent: what the terms say, else 0."""
    scorers: tuple[ScorerSpec, ...] = ()
    judge_model_id: str | None = None
    """The model of judges and simulated users that name none."""
    judge: dict[str, Any] | None = None
    """The options of the judge of expectations, `rubric` among them."""
    concurrency: int = 4
    cell_timeout_ms: int | None = None
    """How long a sample may take. Absent: what the terms say, else 60 s."""
    max_tokens_per_cell: int | None = None
    budget: EvalBudget | None = None
    baseline: str | None = None
    """The id of an eval to compare with."""
    gate: dict[str, Any] | None = None
    stop_early: bool = False
    has_drafts: bool = False
    """Whether cases that nobody has confirmed take part."""

    def __post_init__(self) -> None:
        if self.id is not None:
            check_eval_id("eval", self.id)
        names = [it.name for it in self.variants]
        if not names or len(set(names)) < len(names):
            raise InvalidValue(what="variants", problem="give at least one, each with its own name")
        if self.concurrency < 1:
            raise InvalidValue(what="concurrency", problem="it must be at least 1")
        if self.repeats is not None and not 1 <= self.repeats <= REPEATS_MAX:
            raise InvalidValue(what="repeats", problem=f"it must be 1 to {REPEATS_MAX}")
        if self.max_tokens_per_cell is not None and self.max_tokens_per_cell < 1:
            raise InvalidValue(what="max_tokens_per_cell", problem="it must be positive")
        if self.cell_timeout_ms is not None and self.cell_timeout_ms < 1:
            raise InvalidValue(what="cell_timeout_ms", problem="it must be positive")

    @property
    def mode_or_live(self) -> EvalMode:
        """Who answers in its samples."""
        return EvalMode.LIVE if self.mode is None else self.mode

    @property
    def tools_or_recorded(self) -> ToolPolicy:
        """The policy for cases that say nothing."""
        return ToolPolicy() if self.tools is None else self.tools

    @property
    def seed_or_zero(self) -> int:
        """What the order of its samples follows from."""
        return self.seed or 0

    @property
    def sample_time_ms(self) -> int:
        """How long a sample may take."""
        return CELL_TIMEOUT_MS if self.cell_timeout_ms is None else self.cell_timeout_ms


class EvalStatus(StrEnum):
    """The state of an eval."""

    PLANNED = "planned"
    RUNNING = "running"
    DONE = "done"
    INCOMPLETE = "incomplete"
    """It ended, and samples are missing: the budget was used up, or providers failed."""
    CANCELLED = "cancelled"
    FAILED = "failed"

    @property
    def is_terminal(self) -> bool:
        """Whether the eval has ended."""
        return self not in (EvalStatus.PLANNED, EvalStatus.RUNNING)


EVAL_TRANSITIONS: dict[EvalStatus, frozenset[EvalStatus]] = {
    EvalStatus.PLANNED: frozenset({EvalStatus.RUNNING, EvalStatus.CANCELLED, EvalStatus.FAILED}),
    EvalStatus.RUNNING: frozenset(
        {EvalStatus.DONE, EvalStatus.INCOMPLETE, EvalStatus.CANCELLED, EvalStatus.FAILED}
    ),
    EvalStatus.DONE: frozenset(),
    EvalStatus.INCOMPLETE: frozenset(),
    EvalStatus.CANCELLED: frozenset(),
    EvalStatus.FAILED: frozenset(),
}


class ItemStatus(StrEnum):
    """What became of one sample."""

    SCORED = "scored"
    FAILED = "failed"
    """The agent failed, or waited for a person whom the case does not have."""
    DIVERGED = "diverged"
    TIMEOUT = "timeout"
    CUT = "cut"
    """The budget was used up before it; missing, not a failure."""
    INFRA_ERROR = "infra_error"
    """A provider failed after retries; missing, not a failure of the variant."""

    @property
    def is_missing(self) -> bool:
        """Whether the sample says nothing about its variant."""
        return self in (ItemStatus.CUT, ItemStatus.INFRA_ERROR)


class EvalItem(Record, frozen=True, kw_only=True):
    """One sample of a cell; written once."""

    number: int
    """The sample's place in the plan, 0-based."""
    case_id: str
    variant: str
    sample: int
    """Which repeat of the cell, 0-based."""
    status: ItemStatus
    run_id: str | None = None
    scores: tuple[Score, ...] = ()
    unscored: tuple[str, ...] = ()
    """Further scorers of the case, by which a sample that failed fails as well."""
    usage: TokenUsage | None = None
    cost_usd: float | None = None
    ms: int | None = None
    divergence: ReplayDivergence | None = None
    error: str | None = None
    text: str = ""
    """The final answer, bounded; it stays when the run is purged."""
    calls: tuple[str, ...] = ()
    """The tools that were called, in order."""
    failed_calls: tuple[str, ...] = ()
    """The tools whose calls failed, in order."""
    agent_id: str | None = None
    """The agent that was asked; None if nothing ran."""
    inferences: int | None = None
    """How many answers its model gave; None if nothing ran."""
    failed_inferences: int = 0
    """How often its model failed instead."""
    weight: float = 1.0
    outcome: str | None = None
    """The hash of the recording object of the sample, if it is kept."""


class EvalRecord(Record, frozen=True, kw_only=True):
    """An eval in the store."""

    eval_id: str
    spec: EvalSpec
    revision: int
    status: EvalStatus = EvalStatus.PLANNED
    planned: int = 0
    """How many samples the plan has."""
    problem: str | None = None
    spent: dict[str, Any] = {}
    summary: dict[str, Any] = {}
    """Figures and verdicts of an ended eval, as the gate saw them."""
    publications: dict[str, int] = {}
    """The publication that each variant runs on; empty without managed configuration."""
    looks: tuple[dict[str, Any], ...] = ()
    """What was seen at each look at an eval that may stop early."""
    manifest_hash: str | None = None
    """The configuration that its last variant, which its gate judges, runs on."""
    tenant_id: str | None = None
    is_demo: bool = False
    """Whether it is demo data: nothing of it ever ran, and lists leave it out unless asked."""
    created_by: str = ""
    created_at: int = 0
    started_at: int | None = None
    finished_at: int | None = None
