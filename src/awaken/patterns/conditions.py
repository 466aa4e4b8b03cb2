"""Conditions on values: six operators, each evaluated either loosely or strictly.

The two evaluations are duals: a negated condition may hold where its positive is not certain, and
is certain only where its positive is not possible. So no call falls between a denial and an
allowance of the same text.
"""

from collections.abc import Callable
from enum import StrEnum

from .calls import Path, PatternCall
from .errors import check_text
from .globs import Glob, tokenize_glob
from .readings import Reading, fold
from .regexes import Needle, Regex, compile_regex

MAX_TEXT = 4_096
"""The maximum length of a pattern, in characters."""


class ConditionKind(StrEnum):
    """How a text is compared; used for tool names and conditions."""

    EXACT = "exact"
    GLOB = "glob"
    REGEX = "regex"


PRECISION = {ConditionKind.EXACT: 3, ConditionKind.GLOB: 2, ConditionKind.REGEX: 1}
OPERATORS: dict[str, tuple[ConditionKind, bool]] = {
    "!=~": (ConditionKind.REGEX, True),
    "!=": (ConditionKind.EXACT, True),
    "!~": (ConditionKind.GLOB, True),
    "=~": (ConditionKind.REGEX, False),
    "=": (ConditionKind.EXACT, False),
    "~": (ConditionKind.GLOB, False),
}
"""The comparison of each operator, and whether it negates; longest first, for the parser."""


class ValueTest:
    """One text compared in one way.

    Raises:
        PatternError: The text is not a valid glob or regular expression.
    """

    __slots__ = ("_loose", "_sees_through", "_strict", "kind", "text")

    def __init__(self, kind: ConditionKind, text: str) -> None:
        self.kind = kind
        self.text = text
        self._strict = build_matcher(kind, text)
        self._loose = build_matcher(kind, text, fold)
        anything = isinstance(self._strict, Glob) and self._strict.anything
        self._sees_through = anything or kind is ConditionKind.EXACT

    @property
    def needles(self) -> tuple[Needle, Needle]:
        """A value that may fit contains the first as it is, or the second in its folded form."""
        return self._strict.needle, self._loose.needle

    def may_fit(self, reading: Reading) -> bool:
        """Whether the value fits in any of its forms; true if that cannot be decided."""
        if reading.given is None:
            return True
        for form, folded in reading.forms:
            if self._strict.matches(form, otherwise=True):
                return True
            if self._loose.matches(folded, otherwise=True):
                return True
        return False

    def must_fit(self, reading: Reading) -> bool:
        """Whether the value fits exactly as it is; false if that cannot be decided.

        A value with invisible characters or line breaks fits only an equal text, or the glob `*`.
        """
        if reading.given is None or not (reading.plain or self._sees_through):
            return False
        return self._strict.matches(reading.given, otherwise=False)


class Condition:
    """A condition on the value at a path or, without a path, on the primary value."""

    __slots__ = ("_negated", "_test", "kind", "path", "text", "value")

    def __init__(self, path: Path | None, operator: str, value: str) -> None:
        self.kind, self._negated = OPERATORS[operator]
        self._test = ValueTest(self.kind, value)
        self.path = path
        self.value = value
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        self.text = f'{path.text} {operator} "{escaped}"' if path else value
        """The canonical form, quotes and backslashes escaped; a primary glob is unchanged."""

    @property
    def needles(self) -> tuple[Needle, Needle] | None:
        """What a matching value contains, as it is or folded; None for a negation."""
        return None if self._negated else self._test.needles

    def may_match(self, call: PatternCall) -> bool:
        """Whether any value at the path may fit; a missing value fits negations only."""
        for reading in call.readings(self.path):
            if reading is None:
                fits = self._negated
            elif self._negated:
                fits = not self._test.must_fit(reading)
            else:
                fits = self._test.may_fit(reading)
            if fits:
                return True
        return False

    def must_match(self, call: PatternCall) -> bool:
        """Whether every value at the path exists and certainly fits."""
        for reading in call.readings(self.path):
            if reading is None:
                fits = False
            elif self._negated:
                fits = not self._test.may_fit(reading)
            else:
                fits = self._test.must_fit(reading)
            if not fits:
                return False
        return True


def build_matcher(
    kind: ConditionKind, text: str, fold: Callable[[str], str] | None = None
) -> Glob | Regex:
    """Build the matcher of a text; with `fold` it is compared with folded texts.

    Raises:
        PatternError: The text is not a valid glob or regular expression.
    """
    match kind:
        case ConditionKind.EXACT:
            check_text(text, MAX_TEXT, "a value")
            return Glob([(fold(text).strip() if fold else text, True)], fold=None)
        case ConditionKind.GLOB:
            return Glob(tokenize_glob(text), fold=fold)
        case ConditionKind.REGEX:
            return compile_regex(text, ignore_case=fold is not None)
