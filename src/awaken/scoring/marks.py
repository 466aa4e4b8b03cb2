"""What a check says of an outcome, and how a kind of scorer is described."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from awaken.contracts.evals.scores import JudgeUse, ModelAsk, Outcome
from awaken.contracts.record import Record, StrictRecord

REASON_CHARS = 500
WORD_CHARS = 100
"""The longest kind or label."""
EVIDENCE_ITEMS = 20
EVIDENCE_BYTES = 16_384


class Marks(Record, frozen=True, kw_only=True):
    """The value that a check gives, and why."""

    value: float
    kind: str = ""
    """Why it failed, as a word that programs read."""
    reason: str = ""
    label: str = ""
    evidence: Any = None
    judge: JudgeUse | None = None


class CannotScore(Exception):
    """The outcome lacks what the scorer needs; the text says what. Never a zero."""


class ScorerSetup(msgspec.Struct, frozen=True, kw_only=True):
    """What the host gives to scorers."""

    ask: ModelAsk | None = None
    modules: Sequence[str] = ()
    """Modules whose functions may score; with each its submodules."""
    seconds: float = 30.0
    """How long one score may take."""
    threshold: float = 0.5
    """From which value on the scorer that is made passes."""


Check = Callable[[Outcome], Marks | Awaitable[Marks]]
"""Raises CannotScore if the outcome lacks what is needed."""


class ScorerKind(msgspec.Struct, frozen=True, kw_only=True):
    """One name of the registry."""

    name: str
    family: str
    options: type[StrictRecord]
    build: Callable[[Any, ScorerSetup], Check]
    """Makes a check from options; raises ValueError or AwakenError if they do not fit."""
    about: str
    frame: Callable[[Any], str] | None = None
    """What else determines its scores, such as the prompt of a judge."""


PASSED = Marks(value=1.0)


def grade(is_passed: bool, kind: str, reason: str, evidence: Any = None) -> Marks:  # noqa: FBT001
    """A pass, or a failure with its kind, reason and evidence."""
    return PASSED if is_passed else fail(kind, reason, evidence)


def fail(kind: str, reason: str, evidence: Any = None) -> Marks:
    """A failure with its kind, reason and evidence."""
    return Marks(value=0.0, kind=kind, reason=reason[:REASON_CHARS], evidence=evidence)


def bound_evidence(evidence: Any) -> Any:
    """The evidence as it is stored: JSON of a bounded size; larger ones are left out.

    Raises:
        CannotScore: It is no JSON.
    """
    if evidence is None:
        return None
    try:
        data = msgspec.json.encode(evidence)
    except (TypeError, ValueError, RecursionError) as error:
        raise CannotScore("the evidence of the scorer is no JSON") from error
    return evidence if len(data) <= EVIDENCE_BYTES else None


def quote(values: Sequence[str]) -> str:
    """List texts for a reason, shortened."""
    shown = [f"'{it[:80]}'" for it in values[:5]]
    more = f" and {len(values) - 5} more" if len(values) > 5 else ""
    return ", ".join(shown) + more
