"""Regular expressions with bounded cost, whatever the expression and its input are.

RE2 has no catastrophic backtracking, but its time still grows with the size of the program times
the size of the input. Beyond `_WORK` nothing is searched: the result is the caller's `otherwise`.
"""

from functools import cache
from typing import NamedTuple

import re2

from .errors import PatternError, check_text

MAX_SOURCE = 512
"""The maximum length of a regular expression or glob, in characters."""
MAX_INPUT = 256 * 1024
"""The maximum size of a value, in bytes, however small the expression is."""
_WORK = 4_000_000
"""Program instructions times bytes: tens of milliseconds for the worst expressions."""


class Needle(NamedTuple):
    """An expression that every matching text contains, valid for texts up to `limit` bytes."""

    source: str
    limit: int


class Regex:
    """A compiled expression, searched for anywhere, or matched with the `whole` text."""

    __slots__ = ("_match", "limit", "source")

    def __init__(self, source: str, *, ignore_case: bool = False, whole: bool = False) -> None:
        compiled = _compile(source, ignore_case=ignore_case)
        self.source = source
        self._match = compiled.fullmatch if whole else compiled.search
        self.limit = min(MAX_INPUT, _WORK // max(1, compiled.programsize))
        """The longest text, in bytes, that it searches."""

    @property
    def needle(self) -> Needle:
        """An expression that every matching text contains."""
        return Needle(self.source, self.limit)

    def matches(self, data: bytes, *, otherwise: bool) -> bool:
        """Whether UTF-8 text matches; `otherwise` if it is too long to be searched."""
        if len(data) > self.limit:
            return otherwise
        return self._match(data) is not None

    def search(self, text: str, *, otherwise: bool) -> bool:
        """Whether the text matches; `otherwise` if it is too long or not valid Unicode."""
        try:
            return self.matches(text.encode(), otherwise=otherwise)
        except UnicodeEncodeError:
            return otherwise


def compile_regex(source: str, *, ignore_case: bool = False) -> Regex:
    """Compile an expression in RE2 syntax.

    Raises:
        PatternError: It is empty, too long, too large, or uses features that RE2 lacks
            (look-around, back-references).
    """
    if not source:
        raise PatternError(
            pattern=source,
            position=0,
            problem="the regular expression is empty; write `.` for any text",
        )
    check_text(source, MAX_SOURCE, "a regular expression")
    return Regex(source, ignore_case=ignore_case)


def _compile(source: str, *, ignore_case: bool) -> "re2._Regexp":
    try:
        return re2.compile(source, options_of(ignore_case=ignore_case))
    except re2.error as error:
        reason = error.args[0].decode(errors="replace")
        problem = f"RE2 refuses the expression ({reason}); see its syntax, `\\` escapes a character"
        raise PatternError(pattern=source, position=0, problem=problem) from error


@cache
def options_of(*, ignore_case: bool) -> "re2.Options":
    """The RE2 options of every expression."""
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.case_sensitive = not ignore_case
    options.max_mem = 1 << 20
    return options
