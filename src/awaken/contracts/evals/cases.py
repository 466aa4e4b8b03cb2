"""Cases and datasets: what is tried. A dataset is versioned: every change is a revision."""

from enum import StrEnum
from typing import Any

import msgspec

from awaken.contracts.errors import InvalidValue
from awaken.contracts.messages.message import Message
from awaken.contracts.record import Record, StrictRecord, always

from .ids import check_eval_id
from .scores import ScorerSpec
from .worlds import (
    OnQuestion,
    PlannedDecision,
    ScriptedTurn,
    SimulatedUser,
    ToolPolicy,
)


class SequenceMode(StrEnum):
    """How the tools of a run have to fit an expected sequence."""

    EXACT = "exact"
    ORDERED_SUBSEQ = "ordered_subseq"
    """Others may stand between them."""


class CountOp(StrEnum):
    """How a number of calls is compared."""

    EXACTLY = "exactly"
    AT_LEAST = "at_least"
    AT_MOST = "at_most"


class CallCount(StrictRecord, frozen=True, kw_only=True):
    """How many calls have to match."""

    op: CountOp = always(CountOp.AT_LEAST)
    n: int = always(1)


class RequiredCall(StrictRecord, frozen=True, kw_only=True):
    """A call that has to be made: objects by key, arrays item by item, primitives equal."""

    name: str
    args_subset: Any = msgspec.UNSET
    result_subset: Any = msgspec.UNSET
    count: CallCount | None = None
    """Absent: at least one."""


class Expectation(StrictRecord, frozen=True, kw_only=True):
    """The expectations of a fixture of Awaken for Rust, by its names; each becomes a scorer."""

    final_answer_contains: tuple[str, ...] = ()
    final_answer_excludes: tuple[str, ...] = ()
    tool_sequence: tuple[str, ...] | None = None
    tool_sequence_mode: SequenceMode = SequenceMode.EXACT
    forbidden_tools: tuple[str, ...] = ()
    required_tool_calls: tuple[RequiredCall, ...] = ()
    max_tokens_total: int | None = None
    max_duration_ms: int | None = None
    min_judge_score: float | None = None
    """0 to 1; the eval says which model judges, and by which rubric."""
    expected_error_type: str | None = None


WEIGHT_MIN, WEIGHT_MAX = 1e-6, 1e6
"""Beyond them sums of weights lose their small parts, or overflow."""


class CaseTurn(StrictRecord, frozen=True, kw_only=True):
    """A further turn on the thread of a case."""

    user_input: str
    provider_script: tuple[ScriptedTurn, ...] = ()
    provider_script_error: str | None = None
    """Why there is no script, if the turn was captured without one."""
    tools: ToolPolicy | None = None
    """What answers the calls of this turn; absent: what answers those of the case."""


class CaseStatus(StrEnum):
    """Whether a person has confirmed what the case expects."""

    READY = "ready"
    DRAFT = "draft"
    """Captured from a run with a proposed expectation; evals leave it out unless asked."""


class Case(StrictRecord, frozen=True, kw_only=True):
    """One thing to try: inputs, the world around them, and what is expected."""

    id: str
    description: str = ""
    user_input: str | None = None
    input: tuple[Message, ...] = ()
    """Instead of `user_input`: messages with any content."""
    history: tuple[Message, ...] = ()
    state: dict[str, Any] = {}
    context: dict[str, Any] | None = None
    continued_turns: tuple[CaseTurn, ...] = ()
    user: SimulatedUser | None = None
    provider_script: tuple[ScriptedTurn, ...] = ()
    provider_script_error: str | None = None
    """Why there is no script, if the case was captured without one."""
    allow_unused_provider_script: bool = False
    recording: str | None = None
    """The hash of a recording object."""
    tools: ToolPolicy | None = None
    """Absent: what the eval says."""
    decisions: tuple[PlannedDecision, ...] = ()
    on_question: OnQuestion | None = None
    expect: Expectation | None = None
    scorers: tuple[ScorerSpec, ...] = ()
    expected: Any = None
    """A reference answer that scorers and judges may compare with."""
    tags: tuple[str, ...] = ()
    split: str = ""
    weight: float = 1.0
    status: CaseStatus = CaseStatus.READY
    metadata: dict[str, Any] = {}
    source_run_id: str | None = None
    source_thread_id: str | None = None
    source_user_id: str | None = None
    """Whose conversation it holds: deleting that user finds the case."""
    source_model_id: str | None = None
    tenant_id: str | None = None

    def __post_init__(self) -> None:
        check_eval_id("case", self.id)
        given = sum((self.user_input is not None, bool(self.input)))
        if given > 1 or (given == 0 and self.recording is None and self.user is None):
            problem = "give one of user_input, input, recording, user"
            raise InvalidValue(what=f"case '{self.id}'", problem=problem)
        if not WEIGHT_MIN <= self.weight <= WEIGHT_MAX:
            problem = f"it must be positive, {WEIGHT_MIN:g} to {WEIGHT_MAX:g}"
            raise InvalidValue(what=f"case '{self.id}': weight", problem=problem)


class CaseEntry(Record, frozen=True, kw_only=True):
    """A case in the manifest of a revision."""

    id: str
    hash: str
    """The case object."""
    tags: tuple[str, ...] = ()
    split: str = ""
    status: CaseStatus = CaseStatus.READY
    input_digest: str = ""
    """Equal digests mean equal inputs: duplicates are found by it."""


class DatasetRevision(Record, frozen=True, kw_only=True):
    """The manifest of one revision of a dataset."""

    dataset_id: str
    revision: int
    """1-based; every change makes the next one."""
    description: str = ""
    cases: tuple[CaseEntry, ...] = ()
    """In the order of the dataset; lists of revisions leave them out."""
    case_count: int = 0
    """How many cases there are; the store counts them."""
    scorers: tuple[ScorerSpec, ...] = ()
    """For every case, beside its own."""
    gate: dict[str, Any] | None = None
    """The gate of the dataset, as it was written."""
    tenant_id: str | None = None
    is_deleted: bool = False
    is_demo: bool = False
    """Whether it is demo data: lists leave it out unless asked, and it is not changed."""
    at: int = 0
    by: str = ""
