r"""Globs: `*` any text (also `/`), `?` one character, `[a-z]`, `[!a-z]`, `{a,b}`, `\` escapes.

A glob fits the whole text and minds case. It is compiled once: the literal beginning is compared as
it stands, only what follows becomes a regular expression.
"""

from collections.abc import Callable, Sequence

import re2

from .errors import PatternError, check_text
from .regexes import MAX_INPUT, MAX_SOURCE, Needle, Regex

SPECIAL = frozenset("*?[{\\")
"""What makes a tool's name a glob."""
_ANYTHING = r"\C*"
"""Any bytes. UTF-8 on both sides keeps it from splitting a character, and it is a tiny program."""
_LONE_BACKSLASH = "a backslash escapes the next character; write `\\\\`"

Token = tuple[str, bool]
"""A piece of a glob: literal text, or (`False`) a fragment of a regular expression."""


class Glob:
    """A compiled glob. With `fold` it is compared with texts that were folded in the same way."""

    __slots__ = ("_open", "_prefix", "_rest", "anything")

    def __init__(self, tokens: Sequence[Token], *, fold: Callable[[str], str] | None) -> None:
        shown = [(fold(text) if fold and literal else text, literal) for text, literal in tokens]
        prefix = shown.pop(0)[0] if shown and shown[0][1] else ""
        rest = "".join(re2.escape(text) if literal else text for text, literal in shown)
        self._prefix = prefix.encode()
        self._open = rest == _ANYTHING
        self._rest = None
        if rest and not self._open:
            self._rest = Regex(rest, ignore_case=fold is not None, whole=True)
        self.anything = self._open and not prefix
        """Whether it fits every text."""

    @property
    def prefix(self) -> str:
        """What every text that fits begins with."""
        return self._prefix.decode()

    @property
    def needle(self) -> Needle:
        """What is in each text that fits."""
        rest = _ANYTHING if self._open else ""
        limit = MAX_INPUT
        if self._rest is not None:
            rest, limit = self._rest.needle
        return Needle(rf"\A{re2.escape(self.prefix)}{rest}\z", limit)

    def matches(self, data: bytes, *, otherwise: bool) -> bool:
        """Whether UTF-8 text fits; `otherwise` if it is too long to be looked at."""
        if not data.startswith(self._prefix):
            return False
        if self._rest is None:
            return self._open or len(data) == len(self._prefix)
        return self._rest.matches(data[len(self._prefix) :], otherwise=otherwise)


def tool_glob(source: str) -> Callable[[str], bool]:
    """A glob for whole tool ids, wherever tools are named by one.

    Raises:
        PatternError: It is empty, malformed or too long.
    """
    if not source:
        raise PatternError(
            pattern=source, position=0, problem="the glob is empty; write `*` for every tool"
        )
    glob = Glob(tokens_of(source), fold=None)
    return lambda tool_id: glob.matches(tool_id.encode(errors="replace"), otherwise=False)


def tokens_of(source: str) -> list[Token]:
    """The pieces of a glob.

    Raises:
        PatternError: It is malformed or too long.
    """
    check_text(source, MAX_SOURCE, "a glob")
    tokens: list[Token] = []
    groups: list[int] = []
    at = 0
    while at < len(source):
        token, at = _next(source, at, groups)
        tokens.append(token)
    if groups:
        problem = "`{` is never closed; write `\\{` for a brace"
        raise PatternError(pattern=source, position=abs(groups[-1]) - 1, problem=problem)
    return _joined(tokens)


def _next(source: str, at: int, groups: list[int]) -> tuple[Token, int]:
    match source[at]:
        case "*":
            return _stars(source, at)
        case "?":
            return ("(?s:.)", False), at + 1
        case "[":
            return _character_class(source, at)
        case "{" | "}":
            return (_brace(source, at, groups), False), at + 1
        case "," if groups:
            groups[-1] = -abs(groups[-1])
            return ("|", False), at + 1
    escaped = source[at] == "\\"
    return (_literal(source, at + escaped), True), at + escaped + 1


def _stars(source: str, at: int) -> tuple[Token, int]:
    end = at
    while source[end : end + 1] == "*":
        end += 1
    if end - at > 1 and source[end : end + 1] == "/" and source[at - 1 : at] in ("", "/"):
        return (rf"(?:{_ANYTHING}/)?", False), end + 1
    return (_ANYTHING, False), end


def _brace(source: str, at: int, groups: list[int]) -> str:
    """Open or close a group. `groups` has where each begins, negative once it has a comma."""
    if source[at] == "{":
        groups.append(at + 1)
        return "(?:"
    if not groups or groups.pop() > 0:
        problem = "a group has alternatives, as in `{a,b}`; write `\\{` and `\\}` for braces"
        raise PatternError(pattern=source, position=at, problem=problem)
    return ")"


def _character_class(source: str, at: int) -> tuple[Token, int]:
    negated = source[at + 1 : at + 2] in ("!", "^")
    start = end = at + 1 + negated
    items: list[str] = []
    while source[end : end + 1] != "]" or end == start:
        if end >= len(source):
            raise PatternError(
                pattern=source,
                position=at,
                problem="`[` is never closed; write `\\[` for a bracket",
            )
        is_range = source[end] == "-"
        end += source[end] == "\\"
        items.append("-" if is_range else re2.escape(_literal(source, end)))
        end += 1
    fragment = f"[{'^' * negated}{''.join(items)}]"
    try:
        Regex(fragment)
    except PatternError as error:
        problem = "this character class is malformed; ranges go upwards, as in `[a-z]`"
        raise PatternError(pattern=source, position=at, problem=problem) from error
    return (fragment, False), end + 1


def _literal(source: str, at: int) -> str:
    if at >= len(source):
        raise PatternError(pattern=source, position=at - 1, problem=_LONE_BACKSLASH)
    return source[at]


def _joined(tokens: list[Token]) -> list[Token]:
    joined: list[Token] = []
    for text, literal in tokens:
        if literal and joined and joined[-1][1]:
            joined[-1] = (joined[-1][0] + text, True)
        elif joined and (text, literal) == joined[-1] == (_ANYTHING, False):
            continue
        else:
            joined.append((text, literal))
    return joined
