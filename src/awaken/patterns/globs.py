r"""Globs: `*` any text (also `/`), `?` one character, `[a-z]`, `[!a-z]`, `{a,b}`, `\` escapes.

A glob matches the whole text and is case-sensitive. It is compiled once: the literal prefix is
compared directly, only the rest becomes a regular expression.
"""

from collections.abc import Callable, Sequence

import re2

from .errors import PatternError, check_text
from .regexes import MAX_INPUT, MAX_SOURCE, Needle, Regex

SPECIAL = frozenset("*?[{\\")
"""The characters that make a tool's name a glob."""
_ANYTHING = r"\C*"
"""Any bytes. Its neighbours are UTF-8, so it cannot split a character; the program is tiny."""
_LONE_BACKSLASH = "a backslash escapes the next character; write `\\\\`"

Token = tuple[str, bool]
"""A piece of a glob: literal text, or (`False`) a fragment of a regular expression."""


class Glob:
    """A compiled glob. With `fold` it is compared with texts that were folded the same way."""

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
        """Whether it matches every text."""

    @property
    def prefix(self) -> str:
        """The literal prefix of every matching text."""
        return self._prefix.decode()

    @property
    def needle(self) -> Needle:
        """An expression that every matching text contains."""
        rest = _ANYTHING if self._open else ""
        limit = MAX_INPUT
        if self._rest is not None:
            rest, limit = self._rest.needle
        return Needle(rf"\A{re2.escape(self.prefix)}{rest}\z", limit)

    def matches(self, data: bytes, *, otherwise: bool) -> bool:
        """Whether UTF-8 text matches; `otherwise` if it is too long to be searched."""
        if not data.startswith(self._prefix):
            return False
        if self._rest is None:
            return self._open or len(data) == len(self._prefix)
        return self._rest.matches(data[len(self._prefix) :], otherwise=otherwise)


def compile_tool_glob(source: str) -> Callable[[str], bool]:
    """Compile a glob into a predicate on whole tool ids.

    Raises:
        PatternError: It is empty, malformed or too long.
    """
    if not source:
        raise PatternError(
            pattern=source, position=0, problem="the glob is empty; write `*` for every tool"
        )
    glob = Glob(tokenize_glob(source), fold=None)
    return lambda tool_id: glob.matches(tool_id.encode(errors="replace"), otherwise=False)


def tokenize_glob(source: str) -> list[Token]:
    """Split a glob into tokens.

    Raises:
        PatternError: It is malformed or too long.
    """
    check_text(source, MAX_SOURCE, "a glob")
    tokens: list[Token] = []
    groups: list[int] = []
    at = 0
    while at < len(source):
        token, at = _read_token(source, at, groups)
        tokens.append(token)
    if groups:
        problem = "`{` is never closed; write `\\{` for a brace"
        raise PatternError(pattern=source, position=abs(groups[-1]) - 1, problem=problem)
    return _join_literals(tokens)


def _read_token(source: str, at: int, groups: list[int]) -> tuple[Token, int]:
    match source[at]:
        case "*":
            return _read_stars(source, at)
        case "?":
            return ("(?s:.)", False), at + 1
        case "[":
            return _read_character_class(source, at)
        case "{" | "}":
            return (_read_brace(source, at, groups), False), at + 1
        case "," if groups:
            groups[-1] = -abs(groups[-1])
            return ("|", False), at + 1
    escaped = source[at] == "\\"
    return (_read_literal(source, at + escaped), True), at + escaped + 1


def _read_stars(source: str, at: int) -> tuple[Token, int]:
    end = at
    while source[end : end + 1] == "*":
        end += 1
    if end - at > 1 and source[end : end + 1] == "/" and source[at - 1 : at] in ("", "/"):
        return (rf"(?:{_ANYTHING}/)?", False), end + 1
    return (_ANYTHING, False), end


def _read_brace(source: str, at: int, groups: list[int]) -> str:
    """Open or close a group. `groups` has the start of each, negative once it has a comma."""
    if source[at] == "{":
        groups.append(at + 1)
        return "(?:"
    if not groups or groups.pop() > 0:
        problem = "a group has alternatives, as in `{a,b}`; write `\\{` and `\\}` for braces"
        raise PatternError(pattern=source, position=at, problem=problem)
    return ")"


def _read_character_class(source: str, at: int) -> tuple[Token, int]:
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
        items.append("-" if is_range else re2.escape(_read_literal(source, end)))
        end += 1
    fragment = f"[{'^' * negated}{''.join(items)}]"
    try:
        Regex(fragment)
    except PatternError as error:
        problem = "this character class is malformed; ranges go upwards, as in `[a-z]`"
        raise PatternError(pattern=source, position=at, problem=problem) from error
    return (fragment, False), end + 1


def _read_literal(source: str, at: int) -> str:
    if at >= len(source):
        raise PatternError(pattern=source, position=at - 1, problem=_LONE_BACKSLASH)
    return source[at]


def _join_literals(tokens: list[Token]) -> list[Token]:
    joined: list[Token] = []
    for text, literal in tokens:
        if literal and joined and joined[-1][1]:
            joined[-1] = (joined[-1][0] + text, True)
        elif joined and (text, literal) == joined[-1] == (_ANYTHING, False):
            continue
        else:
            joined.append((text, literal))
    return joined
