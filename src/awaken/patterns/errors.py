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

    def __init__(self, pattern: str, position: int, problem: str) -> None:
        shown = pattern if len(pattern) <= _SHOWN else f"{pattern[:_SHOWN]}…"
        quoted = f"'{shown}'" if shown.isprintable() else repr(shown)
        super().__init__(
            f"Pattern {quoted} is invalid at character {position}: {problem}.",
            pattern=pattern,
            position=position,
            problem=problem,
        )

    def inside(self, pattern: str, start: int) -> "PatternError":
        """The same error, positioned in the whole pattern that contains this one at `start`."""
        return PatternError(pattern, start + self.position, self.problem)


def check_text(text: str, limit: int, what: str) -> None:
    """Refuse a text that is too long or not valid Unicode."""
    if len(text) > limit:
        raise PatternError(text, limit, f"{what} has at most {limit} characters; split it in two")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        problem = "this character is half a surrogate pair; write the whole character"
        raise PatternError(text, error.start, problem) from error
