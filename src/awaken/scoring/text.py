"""Scorers of the final answer as a text. All are bounded in time, whatever the answer is."""

import re
from collections import Counter
from enum import StrEnum
from typing import Any

from awaken.contracts.evals.scores import Outcome
from awaken.contracts.record import StrictRecord
from awaken.patterns import compile_regex

from .marks import EVIDENCE_ITEMS, CannotScore, Check, Marks, ScorerKind, ScorerSetup, grade, quote

EDIT_CHARS_MAX = 20_000
"""The longest texts whose edit distance is computed: about a tenth of a second."""
TOKEN_CHARS_MAX = 2_000_000
PHRASES_MAX = 1_000

_WORD = re.compile(r"\w+")


class ExactOptions(StrictRecord, frozen=True, kw_only=True):
    """The answer that is wanted."""

    value: str | None = None
    """Absent: the reference answer of the case."""
    ignore_case: bool = False
    strip: bool = True
    """Whether blanks around both texts do not count."""


class PhraseMode(StrEnum):
    """How many of the phrases have to be there."""

    ALL = "all"
    ANY = "any"


class PhraseOptions(StrictRecord, frozen=True, kw_only=True):
    """Phrases that have to be in the answer."""

    phrases: tuple[str, ...] = ()
    """Absent: the reference answer of the case, a text or a list of texts."""
    mode: PhraseMode = PhraseMode.ALL
    ignore_case: bool = False


class ExcludedPhraseOptions(StrictRecord, frozen=True, kw_only=True):
    """Phrases that must not be in the answer."""

    phrases: tuple[str, ...]
    ignore_case: bool = False


class RegexOptions(StrictRecord, frozen=True, kw_only=True):
    """An expression in RE2 syntax that is searched for anywhere in the answer."""

    pattern: str
    ignore_case: bool = False
    is_absent: bool = False
    """Whether the answer must not match."""


class SimilarityOptions(StrictRecord, frozen=True, kw_only=True):
    """The text that the answer is compared with."""

    value: str | None = None
    """Absent: the reference answer of the case."""
    ignore_case: bool = True


def read_expected_text(value: str | None, outcome: Outcome) -> str:
    """The text that an option or the case expects."""
    wanted = outcome.expected if value is None else value
    if not isinstance(wanted, str):
        problem = "the case has no reference answer that is a text; give one, or the option `value`"
        raise CannotScore(problem)
    return wanted


def _build_exact(options: ExactOptions, setup: ScorerSetup) -> Check:
    def check(outcome: Outcome) -> Marks:
        wanted, text = read_expected_text(options.value, outcome), outcome.text
        if options.strip:
            wanted, text = wanted.strip(), text.strip()
        if options.ignore_case:
            wanted, text = wanted.casefold(), text.casefold()
        return grade(text == wanted, "answer_differs", f"the answer is not {quote([wanted])}")

    return check


def _read_phrases(options: PhraseOptions, outcome: Outcome) -> tuple[str, ...]:
    if options.phrases:
        return options.phrases
    expected: Any = outcome.expected
    found = (expected,) if isinstance(expected, str) else expected
    if not isinstance(found, list | tuple) or not all(isinstance(it, str) and it for it in found):
        found = ()
    if not found:
        raise CannotScore("there is no phrase; give `phrases`, or the case a reference answer")
    if len(found) > PHRASES_MAX:
        message = f"the case expects more than {PHRASES_MAX} phrases"
        raise CannotScore(message)
    return tuple(found)


def _check_phrases(phrases: tuple[str, ...]) -> None:
    if not all(phrases):
        raise ValueError("`phrases` has an empty phrase, which every answer contains")
    if len(phrases) > PHRASES_MAX:
        message = f"`phrases` has more than {PHRASES_MAX} phrases"
        raise ValueError(message)


def _build_contains(options: PhraseOptions, setup: ScorerSetup) -> Check:
    _check_phrases(options.phrases)

    def check(outcome: Outcome) -> Marks:
        phrases = _read_phrases(options, outcome)
        present = _find_phrases(outcome.text, phrases, ignore_case=options.ignore_case)
        missing = [it for it in phrases if it not in present]
        allowed = len(phrases) - 1 if options.mode is PhraseMode.ANY else 0
        reason = f"the answer lacks {quote(missing)}"
        evidence = missing[:EVIDENCE_ITEMS]
        return grade(len(missing) <= allowed, "answer_missing_phrase", reason, evidence)

    return check


def _build_excludes(options: ExcludedPhraseOptions, setup: ScorerSetup) -> Check:
    if not options.phrases:
        raise ValueError("`phrases` is empty")
    _check_phrases(options.phrases)

    def check(outcome: Outcome) -> Marks:
        found = _find_phrases(outcome.text, options.phrases, ignore_case=options.ignore_case)
        reason = f"the answer has {quote(found)}"
        return grade(not found, "answer_contains_excluded_phrase", reason, found[:EVIDENCE_ITEMS])

    return check


def _find_phrases(text: str, phrases: tuple[str, ...], *, ignore_case: bool) -> list[str]:
    if not ignore_case:
        return [it for it in phrases if it in text]
    folded = text.casefold()
    return [it for it in phrases if it.casefold() in folded]


def _build_regex(options: RegexOptions, setup: ScorerSetup) -> Check:
    regex = compile_regex(options.pattern, ignore_case=options.ignore_case)

    def check(outcome: Outcome) -> Marks:
        # A text that cannot be encoded matches nothing, and is refused like one that is too long.
        if len(outcome.text.encode(errors="replace")) > regex.limit:
            problem = f"the answer is longer than the {regex.limit} bytes that are searched"
            raise CannotScore(problem)
        is_found = regex.search(outcome.text, otherwise=False)
        if options.is_absent:
            return grade(not is_found, "answer_matches", f"the answer has `{options.pattern}`")
        return grade(is_found, "answer_matches_not", f"the answer lacks `{options.pattern}`")

    return check


def measure_token_f1(text: str, wanted: str) -> float:
    """The harmonic mean of precision and recall over words, each counted as often as it occurs."""
    given, expected = Counter(_WORD.findall(text)), Counter(_WORD.findall(wanted))
    if not given or not expected:
        return float(given == expected)
    common = (given & expected).total()
    return 2 * common / (given.total() + expected.total())


def _build_token_f1(options: SimilarityOptions, setup: ScorerSetup) -> Check:
    def check(outcome: Outcome) -> Marks:
        text, wanted = _read_pair(options, outcome, TOKEN_CHARS_MAX)
        value = measure_token_f1(text, wanted)
        return Marks(value=value, kind="answer_differs", reason=f"token F1 {value:.3f}")

    return check


def measure_edit_similarity(first: str, second: str) -> float:
    """1 minus the Levenshtein distance over the length of the longer text."""
    longest = max(len(first), len(second))
    return 1 - count_edits(first, second) / longest if longest else 1.0


def count_edits(first: str, second: str) -> int:
    """The Levenshtein distance, by bits: one integer holds a whole column of the table.

    The vertical differences of a column are +1, 0 or -1; two integers mark where they are +1 and
    where they are -1, and additions carry them from row to row.
    """
    if len(first) < len(second):
        first, second = second, first
    if not second:
        return len(first)
    places: dict[str, int] = {}
    for place, char in enumerate(second):
        places[char] = places.get(char, 0) | 1 << place
    everywhere = (1 << len(second)) - 1
    last = 1 << (len(second) - 1)
    rises, falls, distance = everywhere, 0, len(second)
    for char in first:
        equal = places.get(char, 0)
        diagonal = ((((equal & rises) + rises) ^ rises) | equal | falls) & everywhere
        right_rises = (falls | ~(diagonal | rises)) & everywhere
        right_falls = rises & diagonal
        distance += bool(right_rises & last) - bool(right_falls & last)
        right_rises = (right_rises << 1 | 1) & everywhere
        right_falls = right_falls << 1 & everywhere
        rises = (right_falls | ~(diagonal | right_rises)) & everywhere
        falls = right_rises & diagonal
    return distance


def _build_edit_similarity(options: SimilarityOptions, setup: ScorerSetup) -> Check:
    def check(outcome: Outcome) -> Marks:
        text, wanted = _read_pair(options, outcome, EDIT_CHARS_MAX)
        value = measure_edit_similarity(text, wanted)
        return Marks(value=value, kind="answer_differs", reason=f"similarity {value:.3f}")

    return check


def _read_pair(options: SimilarityOptions, outcome: Outcome, limit: int) -> tuple[str, str]:
    text, wanted = outcome.text, read_expected_text(options.value, outcome)
    if max(len(text), len(wanted)) > limit:
        problem = f"a text is longer than the {limit:,} characters that are compared"
        raise CannotScore(problem)
    return (text.casefold(), wanted.casefold()) if options.ignore_case else (text, wanted)


KINDS = (
    ScorerKind(
        name="exact",
        family="text",
        options=ExactOptions,
        build=_build_exact,
        about="The answer is the given text.",
    ),
    ScorerKind(
        name="contains",
        family="text",
        options=PhraseOptions,
        build=_build_contains,
        about="The answer has all phrases, or one of them.",
    ),
    ScorerKind(
        name="excludes",
        family="text",
        options=ExcludedPhraseOptions,
        build=_build_excludes,
        about="The answer has none of the phrases.",
    ),
    ScorerKind(
        name="regex",
        family="text",
        options=RegexOptions,
        build=_build_regex,
        about="The answer matches an RE2 expression somewhere, or must not.",
    ),
    ScorerKind(
        name="token_f1",
        family="text",
        options=SimilarityOptions,
        build=_build_token_f1,
        about="How many words the answer shares with the reference, as F1.",
    ),
    ScorerKind(
        name="edit_similarity",
        family="text",
        options=SimilarityOptions,
        build=_build_edit_similarity,
        about="1 minus the edit distance to the reference over the longer length.",
    ),
)
