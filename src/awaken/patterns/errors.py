"""The error of this package."""

from awaken.contracts.errors import UsageError

_SHOWN = 200


class PatternError(UsageError):
    """A pattern cannot be read; it says where, what was expected, and what to write instead."""

    code = "invalid_pattern"
    pattern: str
    position: int
    """Counted in characters from 0."""
    problem: str

    def describe(self) -> str:
        """Quote the beginning of the pattern, and its unprintable characters as escapes."""
        pattern = self.pattern
        shown = pattern if len(pattern) <= _SHOWN else f"{pattern[:_SHOWN]}…"
        quoted = f"'{shown}'" if shown.isprintable() else repr(shown)
        return f"Pattern {quoted} is invalid at character {self.position}: {self.problem}."

    def inside(self, pattern: str, start: int) -> "PatternError":
        """The same error, positioned in the whole pattern that contains this one at `start`."""
        return PatternError(pattern=pattern, position=start + self.position, problem=self.problem)


def check_text(text: str, limit: int, what: str) -> None:
    """Refuse a text that is too long or not valid Unicode."""
    if len(text) > limit:
        raise PatternError(
            pattern=text,
            position=limit,
            problem=f"{what} has at most {limit} characters; split it in two",
        )
    try:
        text.encode()
    except UnicodeEncodeError as error:
        problem = "this character is half a surrogate pair; write the whole character"
        raise PatternError(pattern=text, position=error.start, problem=problem) from error
