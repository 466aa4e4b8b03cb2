"""The scorers by name, and how specs become scorers."""

import asyncio
import math
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from inspect import isawaitable

import msgspec

from awaken.authoring.foreign_calls import CallTookTooLong, call_within
from awaken.authoring.functions import is_interruption
from awaken.contracts.errors import AwakenError
from awaken.contracts.evals.errors import InvalidScorer
from awaken.contracts.evals.scores import ModelAsk, Outcome, Score, Scorer, ScorerSpec
from awaken.contracts.messages.content import replace_surrogates
from awaken.redaction import describe_error

from . import conduct, cost, judged, own, path, structure, text
from .marks import (
    REASON_CHARS,
    CannotScore,
    Check,
    Marks,
    ScorerKind,
    ScorerSetup,
    bound_evidence,
)
from .threads import AbandonableThreads

VERSION = "2"
"""Changes when a scorer of this package would score otherwise."""
SMALL_CHARS = 5_000
SMALL_CALLS = 50
"""Outcomes up to here are scored on the event loop: in well under a millisecond."""
JUDGE_SECONDS = 300.0
"""How long all votes of a judge may take; each call has the limits of its model."""
_HUNG_MAX = 32
_THREADED = frozenset({"python", "no_secrets", "edit_similarity"})
"""Scorers whose time does not follow from the size of the answer alone."""
_threads = AbandonableThreads(_HUNG_MAX)

SCORERS: Mapping[str, ScorerKind] = {
    kind.name: kind
    for family in (text, structure, path, conduct, cost, judged, own)
    for kind in family.KINDS
}
"""Every scorer by its name."""


def make_scorers(
    specs: Iterable[ScorerSpec],
    *,
    ask: ModelAsk | None = None,
    modules: Sequence[str] = (),
    seconds: float = 30.0,
) -> tuple[Scorer, ...]:
    """Make scorers from specs.

    Args:
        specs: Which scorers, with which options.
        ask: What judges ask. Without it a spec of a judge is refused.
        modules: Modules whose functions may score, with their submodules.
        seconds: How long one score may take; judges have 300 s.

    Raises:
        InvalidScorer: A scorer does not exist, an option does not fit, or two have one name.
    """
    setup = ScorerSetup(ask=ask, modules=tuple(modules), seconds=seconds)
    made: dict[str, Scorer] = {}
    for spec in specs:
        if spec.shown_name in made:
            problem = "two scorers have this name; give one of them another `name`"
            raise InvalidScorer(scorer=spec.shown_name, problem=problem)
        made[spec.shown_name] = _make_scorer(spec, setup)
    return tuple(made.values())


def _make_scorer(spec: ScorerSpec, setup: ScorerSetup) -> Scorer:
    kind = SCORERS.get(spec.scorer)
    if kind is None:
        problem = f"there is no such scorer; known: {', '.join(SCORERS)}"
        raise InvalidScorer(scorer=spec.scorer, problem=problem)
    if not (math.isfinite(spec.threshold) and 0 <= spec.threshold <= 1):
        raise InvalidScorer(scorer=spec.shown_name, problem="`threshold` must be 0 to 1")
    try:
        options = msgspec.convert(spec.options, kind.options)
        check = kind.build(options, msgspec.structs.replace(setup, threshold=spec.threshold))
    except (msgspec.ValidationError, ValueError, AwakenError) as error:
        problem = str(error).rstrip(".")
        raise InvalidScorer(scorer=spec.shown_name, problem=problem) from error
    parts = (VERSION, spec.scorer, spec.threshold, options, kind.frame and kind.frame(options))
    version = blake2b(msgspec.json.encode(parts, order="sorted"), digest_size=8).hexdigest()
    limit = max(JUDGE_SECONDS, setup.seconds) if kind.family == "judged" else setup.seconds
    return NamedScorer(spec, version, check, seconds=limit)


class NamedScorer:
    """A check with its name and threshold; whatever the check does, `score` returns a Score."""

    __slots__ = ("_check", "_seconds", "spec", "version")

    def __init__(self, spec: ScorerSpec, version: str, check: Check, *, seconds: float) -> None:
        self.spec = spec
        self.version = version
        self._check = check
        self._seconds = seconds

    async def score(self, outcome: Outcome) -> Score:
        """Score an outcome; a problem is a score with `error`, never an exception."""
        try:
            marks = await self._mark(outcome)
            evidence = bound_evidence(marks.evidence)
        except CannotScore as error:
            return self._fail(str(error))
        except (CallTookTooLong, TimeoutError):
            return self._fail(f"the scorer did not return within {self._seconds:g} s")
        except BaseException as error:
            if is_interruption(error):
                raise
            return self._fail(f"the scorer failed: {describe_error(error)}")
        if not (math.isfinite(marks.value) and 0 <= marks.value <= 1):
            return self._fail(f"the scorer gave {marks.value}, not a value from 0 to 1")
        is_passed = marks.value >= self.spec.threshold
        return Score(
            name=self.spec.shown_name,
            value=marks.value,
            passed=is_passed,
            threshold=self.spec.threshold,
            label=replace_surrogates(marks.label),
            reason=replace_surrogates(marks.reason),
            kind="" if is_passed else replace_surrogates(marks.kind),
            evidence=evidence,
            version=self.version,
            judge=marks.judge,
        )

    def _fail(self, problem: str) -> Score:
        said = replace_surrogates(problem[:REASON_CHARS])
        return Score(name=self.spec.shown_name, error=said, version=self.version)

    async def _mark(self, outcome: Outcome) -> Marks:
        if self.spec.scorer in judged.NAMES or _is_small(self.spec, outcome):
            found = self._check(outcome)
            if not isawaitable(found):
                return found
            async with asyncio.timeout(self._seconds):
                return await found
        # Not on the loop: a large answer or a function of the application must not stall it.
        marks: Marks = await call_within(self._seconds, self._check, outcome, threads=_threads)
        return marks


def _is_small(spec: ScorerSpec, outcome: Outcome) -> bool:
    if spec.scorer in _THREADED:
        return False
    calls = sum(len(step.calls) + 1 for step in outcome.recording.steps)
    expected = outcome.expected
    size = len(outcome.text) + (len(expected) if isinstance(expected, str) else 0)
    return size <= SMALL_CHARS and calls <= SMALL_CALLS
