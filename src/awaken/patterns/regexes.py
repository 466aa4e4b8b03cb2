"""Regular expressions whose cost is bounded, whoever wrote them and whatever they are given.

RE2 knows no catastrophic backtracking, but its time still grows with the size of the program times
the size of the input. Beyond `_WORK` nothing is searched: the caller's `otherwise` is the answer.
"""

from functools import cache
from typing import NamedTuple

import re2

from .errors import PatternError, check_text

MAX_SOURCE = 512
"""Characters of one regular expression or glob."""
MAX_INPUT = 256 * 1024
"""Bytes of one value, however small the expression is."""
_WORK = 4_000_000
"""Program instructions times bytes: some tens of milliseconds for the worst expressions."""


class Needle(NamedTuple):
    """An expression that is in each text that fits, and up to how many bytes that is said."""

    source: str
    limit: int


class Regex:
    """A compiled expression, searched for anywhere, or matched with the `whole` text."""

    __slots__ = ("_match", "limit", "source")

    def __init__(self, source: str, *, ignore_case: bool = False, whole: bool = False) -> None:
        compiled = _compiled(source, ignore_case=ignore_case)
        self.source = source
        self._match = compiled.fullmatch if whole else compiled.search
        self.limit = min(MAX_INPUT, _WORK // max(1, compiled.programsize))
        """The longest text, in bytes, that it is asked about."""

    @property
    def needle(self) -> Needle:
        """What is in each text that fits."""
        return Needle(self.source, self.limit)

    def matches(self, data: bytes, *, otherwise: bool) -> bool:
        """Whether UTF-8 text fits; `otherwise` if it is too long to be looked at."""
        if len(data) > self.limit:
            return otherwise
        return self._match(data) is not None

    def search(self, text: str, *, otherwise: bool) -> bool:
        """Whether the text fits; `otherwise` if it is too long, or no valid Unicode."""
        try:
            return self.matches(text.encode(), otherwise=otherwise)
        except UnicodeEncodeError:
            return otherwise


def compiled_regex(source: str, *, ignore_case: bool = False) -> Regex:
    """Compile an expression of RE2's syntax.

    Raises:
        PatternError: It is empty, too long, too large, or uses what RE2 has not (look-around,
            back-references).
    """
    if not source:
        raise PatternError(
            pattern=source,
            position=0,
            problem="the regular expression is empty; write `.` for any text",
        )
    check_text(source, MAX_SOURCE, "a regular expression")
    return Regex(source, ignore_case=ignore_case)


def _compiled(source: str, *, ignore_case: bool) -> "re2._Regexp":
    try:
        return re2.compile(source, options_of(ignore_case=ignore_case))
    except re2.error as error:
        reason = error.args[0].decode(errors="replace")
        problem = f"RE2 refuses the expression ({reason}); see its syntax, `\\` escapes a character"
        raise PatternError(pattern=source, position=0, problem=problem) from error


@cache
def options_of(*, ignore_case: bool) -> "re2.Options":
    """How RE2 takes every expression."""
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.case_sensitive = not ignore_case
    options.max_mem = 1 << 20
    return options
