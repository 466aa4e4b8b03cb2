"""Judged scorers: a model grades by a rubric; its call comes through the port `ModelAsk`."""

from collections.abc import Sequence
from enum import StrEnum
from statistics import median
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from awaken.contracts.errors import AwakenError
from awaken.contracts.evals.scores import JudgeUse, ModelAsk, ModelReply, Outcome, ScorerSpec
from awaken.contracts.messages.message import Message
from awaken.contracts.record import StrictRecord
from awaken.redaction import describe_error

from .calls import has_run, list_calls, read_recording
from .judge_frames import PART_CHARS_MAX, build_system, hash_prompt, parse_reply, quote_parts
from .marks import REASON_CHARS, CannotScore, Check, Marks, ScorerKind, ScorerSetup
from .text import read_expected_text

VOTES_MAX = 9
CLAIMS_MAX = 200
TRIES = 2
"""An answer that cannot be read is asked for once more."""
T = TypeVar("T", bound=StrictRecord)


class JudgeScale(StrEnum):
    """What a judge answers with."""

    BINARY = "binary"
    FIVE = "1-5"
    UNIT = "0-1"


class JudgeView(StrEnum):
    """What a judge is shown beside the input and the reference answer."""

    ANSWER = "answer"
    CALLS = "calls"
    """The answer, and the calls with their results."""
    TRANSCRIPT = "transcript"
    """The whole conversation."""


class JudgeOptions(StrictRecord, frozen=True, kw_only=True):
    """How a judge grades one outcome."""

    rubric: str
    model_id: str | None = None
    """Absent: the judge of the eval."""
    scale: JudgeScale = JudgeScale.BINARY
    votes: int = 1
    """Odd, at most 9; the median counts, if votes that cannot be read could not turn it."""
    sees: JudgeView = JudgeView.ANSWER


class PairwiseOther(StrEnum):
    """Which answer a pairwise judge compares with."""

    REFERENCE = "reference"
    FIRST_VARIANT = "first_variant"


class PairwiseOptions(StrictRecord, frozen=True, kw_only=True):
    """How a judge compares two answers."""

    rubric: str
    model_id: str | None = None
    against: PairwiseOther = PairwiseOther.REFERENCE
    """The case's reference answer, or the first variant's answer to the same case."""


class GroundednessOptions(StrictRecord, frozen=True, kw_only=True):
    """How a judge checks claims against tool results."""

    rubric: str = "A claim is supported if the tool results state it or it follows from them."
    model_id: str | None = None


class BinaryReply(StrictRecord, frozen=True, kw_only=True):
    """The answer on the scale `binary`."""

    verdict: Literal["pass", "fail"]
    reason: str = ""

    @property
    def value(self) -> float:
        """1 for a pass."""
        return float(self.verdict == "pass")


class FiveReply(StrictRecord, frozen=True, kw_only=True):
    """The answer on the scale `1-5`."""

    score: Annotated[int, msgspec.Meta(ge=1, le=5)]
    reason: str = ""

    @property
    def value(self) -> float:
        """0 for 1, 1 for 5."""
        return (self.score - 1) / 4


class UnitReply(StrictRecord, frozen=True, kw_only=True):
    """The answer on the scale `0-1`."""

    score: Annotated[float, msgspec.Meta(ge=0, le=1)]
    reason: str = ""

    @property
    def value(self) -> float:
        """The score."""
        return self.score


class PairwiseReply(StrictRecord, frozen=True, kw_only=True):
    """Which of two answers is better."""

    winner: Literal["first", "second", "tie"]
    reason: str = ""


class GradedClaim(StrictRecord, frozen=True, kw_only=True):
    """One claim of an answer."""

    claim: str
    supported: bool


class GroundednessReply(StrictRecord, frozen=True, kw_only=True):
    """The claims of an answer."""

    claims: Annotated[tuple[GradedClaim, ...], msgspec.Meta(max_length=CLAIMS_MAX)]


Reply = BinaryReply | FiveReply | UnitReply
_REPLIES: dict[JudgeScale, type[Reply]] = {
    JudgeScale.BINARY: BinaryReply,
    JudgeScale.FIVE: FiveReply,
    JudgeScale.UNIT: UnitReply,
}
_SHAPES: dict[type[StrictRecord], str] = {
    BinaryReply: '{"reason": "<one sentence>", "verdict": "pass" or "fail"}',
    FiveReply: '{"reason": "<one sentence>", "score": <1, 2, 3, 4 or 5; 5 is best>}',
    UnitReply: '{"reason": "<one sentence>", "score": <a number from 0 to 1; 1 is best>}',
    PairwiseReply: '{"reason": "<one sentence>", "winner": "first", "second" or "tie"}',
    GroundednessReply: '{"claims": [{"claim": "<the claim>", "supported": true or false}]}',
}


class JudgeSession:
    """Asks one judge, and keeps what its answers were made with."""

    def __init__(
        self, ask: ModelAsk, model_id: str | None, system: str, shape: type[StrictRecord]
    ) -> None:
        self._ask = ask
        self._model_id = model_id
        self._system = system
        self._schema = build_schema(shape)
        self._replies: list[ModelReply] = []

    async def ask(self, material: str, shape: type[T]) -> T:
        """Ask once, and once more if the answer cannot be read.

        Raises:
            CannotScore: The judge cannot be reached, or twice gave no answer of the shape.
        """
        for _ in range(TRIES):
            try:
                reply = await self._ask.ask(self._model_id, self._system, material, self._schema)
            except AwakenError as error:
                message = f"the judge cannot be asked: {describe_error(error)}"
                raise CannotScore(message) from error
            self._replies.append(reply)
            if (found := parse_reply(reply.text, shape)) is not None:
                return found
        raise CannotScore("the judge twice gave an answer that cannot be read")

    def describe_use(self, votes: Sequence[float]) -> JudgeUse:
        """What the score was made with, unreadable answers included."""
        tokens = [it.tokens for it in self._replies]
        costs = [it.cost_usd for it in self._replies]
        return JudgeUse(
            model_id=self._replies[-1].model_id if self._replies else self._model_id or "",
            prompt_hash=hash_prompt(self._system, self._schema),
            votes=tuple(votes),
            run_ids=tuple(it.run_id for it in self._replies if it.run_id is not None),
            tokens=None if None in tokens else sum(it or 0 for it in tokens),
            cost_usd=None if None in costs else sum(it or 0.0 for it in costs),
        )


def build_schema(shape: type[StrictRecord]) -> dict[str, Any]:
    """The JSON Schema of a reply, without references; every field is required."""
    schemas, components = msgspec.json.schema_components((shape,), ref_template="{name}")
    del schemas

    def inline(value: Any) -> Any:
        if isinstance(value, dict):
            if "$ref" in value:
                return inline(components[value["$ref"]])
            kept = {name: inline(it) for name, it in value.items() if name != "default"}
            if "properties" in kept:
                kept["required"] = list(kept["properties"])
                kept["additionalProperties"] = False
            return kept
        return [inline(it) for it in value] if isinstance(value, list) else value

    schema: dict[str, Any] = inline(components[shape.__name__])
    return schema


def _take_ask(setup: ScorerSetup, rubric: str) -> ModelAsk:
    if not rubric.strip():
        raise ValueError("`rubric` is empty")
    if setup.ask is None:
        raise ValueError("there is no model to ask; give the eval a judge")
    return setup.ask


_JUDGE_TASK = (
    "Grade the part `answer` as a reply to the part `input`. The part `reference`, if there is "
    "one, is a good answer. The parts `calls` and `transcript`, if there are such, show how the "
    "answer came about."
)
_PAIRWISE_TASK = (
    "Two answers to the part `input` are in the parts `first` and `second`. Decide which is "
    "better. Their order means nothing."
)
_GROUNDEDNESS_TASK = (
    "List every factual claim of the part `answer`. For each, say whether the part `results`, "
    "which has the results of tools, supports it."
)


def _build_judge_system(options: JudgeOptions) -> str:
    shape = _SHAPES[_REPLIES[options.scale]]
    return build_system(_JUDGE_TASK, options.rubric, shape)


def _build_judge(options: JudgeOptions, setup: ScorerSetup) -> Check:
    ask = _take_ask(setup, options.rubric)
    if not 1 <= options.votes <= VOTES_MAX or options.votes % 2 == 0:
        message = f"`votes` must be odd, 1 to {VOTES_MAX}"
        raise ValueError(message)
    system, shape = _build_judge_system(options), _REPLIES[options.scale]

    async def check(outcome: Outcome) -> Marks:
        material = quote_parts(_list_parts(outcome, options.sees))
        session = JudgeSession(ask, options.model_id, system, shape)
        replies: list[Reply] = []
        problem: CannotScore | None = None
        for _ in range(options.votes):
            try:
                replies.append(await session.ask(material, shape))
            except CannotScore as error:
                problem = error
        votes = [it.value for it in replies]
        if problem is not None and not _is_decided(votes, options.votes, setup.threshold):
            message = f"the {len(votes)} of {options.votes} votes that can be read decide nothing: "
            raise CannotScore(message + str(problem)) from problem
        value = median(votes)
        nearest = min(replies, key=lambda it: abs(it.value - value))
        spread = {"spread": max(votes) - min(votes)} if len(votes) > 1 else None
        return Marks(
            value=value,
            kind="judge_below_threshold",
            reason=nearest.reason[:REASON_CHARS],
            evidence=spread,
            judge=session.describe_use(votes),
        )

    return check


def _is_decided(votes: Sequence[float], planned: int, threshold: float) -> bool:
    """Whether votes that are missing could not turn the verdict, whatever they had said.

    So a tie of the votes that are there is no verdict, and neither is a minority's vote.
    """
    missing = planned - len(votes)
    lowest, highest = (median([*votes, *[it] * missing]) for it in (0.0, 1.0))
    return bool(votes) and (lowest >= threshold) == (highest >= threshold)


def _build_pairwise(options: PairwiseOptions, setup: ScorerSetup) -> Check:
    ask = _take_ask(setup, options.rubric)
    system = build_system(_PAIRWISE_TASK, options.rubric, _SHAPES[PairwiseReply])

    async def check(outcome: Outcome) -> Marks:
        other = _read_other(options.against, outcome)
        session = JudgeSession(ask, options.model_id, system, PairwiseReply)
        shown = {"input": outcome.input, "first": outcome.text, "second": other}
        turned = {"input": outcome.input, "first": other, "second": outcome.text}
        _check_parts(shown)
        forth = await session.ask(quote_parts(shown), PairwiseReply)
        back = await session.ask(quote_parts(turned), PairwiseReply)
        mine = {"first": 1.0, "second": 0.0, "tie": 0.5}
        votes = (mine[forth.winner], 1 - mine[back.winner])
        # A judge that prefers a place, and not an answer, has no preference.
        value = votes[0] if votes[0] == votes[1] else 0.5
        label = {1.0: "better", 0.0: "worse", 0.5: "tie"}[value]
        return Marks(
            value=value,
            kind="judge_below_threshold",
            label=label,
            reason=forth.reason[:REASON_CHARS],
            judge=session.describe_use(votes),
        )

    return check


def _read_other(against: PairwiseOther, outcome: Outcome) -> str:
    if against is PairwiseOther.REFERENCE:
        return read_expected_text(None, outcome)
    if outcome.other is None:
        problem = "only a sample of an eval with several variants has an answer of the first one"
        raise CannotScore(outcome.other_problem or problem)
    return outcome.other


def compares_variants(spec: ScorerSpec) -> bool:
    """Whether a scorer compares the samples of later variants with those of the first one."""
    against = spec.options.get("against")
    return spec.scorer == "pairwise" and against == PairwiseOther.FIRST_VARIANT


def _build_groundedness(options: GroundednessOptions, setup: ScorerSetup) -> Check:
    ask = _take_ask(setup, options.rubric)
    system = build_system(_GROUNDEDNESS_TASK, options.rubric, _SHAPES[GroundednessReply])

    async def check(outcome: Outcome) -> Marks:
        results = _describe_calls(outcome, only_results=True)
        if not results:
            raise CannotScore("the run has no tool results to check the answer against")
        parts = {"answer": outcome.text, "results": results}
        _check_parts(parts)
        session = JudgeSession(ask, options.model_id, system, GroundednessReply)
        reply = await session.ask(quote_parts(parts), GroundednessReply)
        missing = [it.claim[:200] for it in reply.claims if not it.supported]
        value = 1 - len(missing) / len(reply.claims) if reply.claims else 1.0
        return Marks(
            value=value,
            kind="judge_below_threshold",
            reason=f"{len(missing)} of {len(reply.claims)} claims have no support",
            evidence=missing[:20],
            judge=session.describe_use((value,)),
        )

    return check


def _list_parts(outcome: Outcome, sees: JudgeView) -> dict[str, str]:
    parts = {"input": outcome.input, "answer": outcome.text}
    if outcome.expected is not None:
        expected = outcome.expected
        is_text = isinstance(expected, str)
        parts["reference"] = expected if is_text else msgspec.json.encode(expected).decode()
    if sees is JudgeView.CALLS:
        parts["calls"] = _describe_calls(outcome)
    if sees is JudgeView.TRANSCRIPT:
        parts["transcript"] = _describe_transcript(outcome)
    _check_parts(parts)
    return parts


def _check_parts(parts: dict[str, str]) -> None:
    for name, text in parts.items():
        if len(text) > PART_CHARS_MAX:
            message = f"the {name} is longer than the {PART_CHARS_MAX:,} characters of a judge"
            raise CannotScore(message)


def _describe_calls(outcome: Outcome, *, only_results: bool = False) -> str:
    lines = []
    for call in list_calls(outcome):
        if only_results and not has_run(call):
            continue
        result = {"status": call.result.status, "data": call.result.data}
        if call.result.message is not None:
            result["message"] = call.result.message
        shown = {"tool": call.tool, "arguments": call.arguments, "result": result}
        lines.append(msgspec.json.encode(shown).decode())
    return "\n".join(lines)


def _describe_transcript(outcome: Outcome) -> str:
    recording = read_recording(outcome)
    lines: list[str] = []

    def add(message: Message) -> None:
        lines.append(f"{message.role}: {message.text}")

    for message in (*recording.history, *recording.input):
        add(message)
    for step in recording.steps:
        for message in step.inputs:
            add(message)
        if step.answer is not None:
            add(step.answer)
        for call in step.calls:
            shown = {"tool": call.tool, "arguments": call.arguments, "result": call.result.data}
            lines.append(f"tool: {msgspec.json.encode(shown).decode()}")
    return "\n".join(lines)


KINDS = (
    ScorerKind(
        name="judge",
        family="judged",
        options=JudgeOptions,
        build=_build_judge,
        about="A model grades the answer by a rubric; the median of its votes.",
        frame=_build_judge_system,
    ),
    ScorerKind(
        name="pairwise",
        family="judged",
        options=PairwiseOptions,
        build=_build_pairwise,
        about="A model compares the answer with another, in both orders; disagreement is a tie.",
        frame=lambda options: build_system(_PAIRWISE_TASK, options.rubric, _SHAPES[PairwiseReply]),
    ),
    ScorerKind(
        name="groundedness",
        family="judged",
        options=GroundednessOptions,
        build=_build_groundedness,
        about="The share of the answer's claims that tool results support, as a model sees it.",
        frame=lambda options: build_system(
            _GROUNDEDNESS_TASK, options.rubric, _SHAPES[GroundednessReply]
        ),
    ),
)
NAMES = frozenset(it.name for it in KINDS)
