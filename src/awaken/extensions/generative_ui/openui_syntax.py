"""The grammar of OpenUI Lang 1.0: tokens, the ends of statements, and their references.

Nothing is evaluated, and operator precedence does not matter for these checks.
"""

import re
from collections.abc import Iterator

from awaken.contracts.errors import UsageError, field
from awaken.contracts.record import Record

NESTING_MAX = 60
STATEMENT_MAX = 32_768
"""How many characters a statement may have."""

_TOKEN = re.compile(
    r"""
    (?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    | (?P<open>["'])
    | (?P<comment>//[^\n]*|\#[^\n]*)
    | (?P<number>[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)
    | (?P<name>[$@]?[A-Za-z_][A-Za-z0-9_]*)
    | (?P<operator>===|!==|==|!=|>=|<=|&&?|\|\|?|[=><+\-*/%!?:.,()\[\]{}])
    | (?P<newline>\n)
    """,
    re.VERBOSE | re.DOTALL,
)
_BINARY = ("===", "!==", "==", "!=", ">=", "<=", "&&", "||", *"><&|+-*/%")
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_STRING_ENDS = {it: re.compile(rf"(?:[^{it}\\]|\\.)*{it}") for it in "\"'"}
_BEGINNING = re.compile(r"\s*\$?[A-Za-z_][A-Za-z0-9_]*\s*=(?!=)")
_WORDS = ("true", "false", "null")

Token = tuple[str, str]
"""The kind and the text of a token."""


class SyntaxRefused(UsageError):
    """A statement does not follow the grammar."""

    code = "openui_syntax"
    template = "{message}"
    message: str = field(kw_only=False)


class OpenUiCall(Record, frozen=True, kw_only=True):
    """A component or a function that a statement calls."""

    name: str
    arguments: int


class Statement(Record, frozen=True, kw_only=True):
    """`name = expression`, with the references and calls of the expression."""

    name: str
    text: str
    references: tuple[str, ...] = ()
    calls: tuple[OpenUiCall, ...] = ()
    head: str = ""
    """The component that the whole expression calls, if it is one call."""


def tokens_of(text: str) -> Iterator[Token]:
    """The tokens of a text without its comments; unknown characters are skipped."""
    for found in _TOKEN.finditer(text):
        kind = str(found.lastgroup)
        if kind == "open":
            # An unterminated string takes the rest.
            yield kind, text[found.start() :]
            return
        if kind != "comment":
            yield kind, found.group()


def begins_statement(line: str) -> bool:
    """Whether a line has the form of a statement's beginning."""
    return _BEGINNING.match(line) is not None


class Boundary:
    """Tracks line by line whether a statement continues after the newline."""

    def __init__(self) -> None:
        self._depth = self._ternaries = 0
        self._quote = self._last = ""

    @property
    def is_open(self) -> bool:
        """Whether a bracket, a string or a ternary is unfinished."""
        is_choosing = self._ternaries > 0 or self._last in ("?", ":")
        return self._depth > 0 or bool(self._quote) or is_choosing

    def feed(self, line: str) -> None:
        """Read the next line of the statement."""
        if self._quote:
            ended = _STRING_ENDS[self._quote].match(line)
            if ended is None:
                return
            line, self._quote = line[ended.end() :], ""
        for kind, token in tokens_of(line):
            self._last = token
            if kind == "open":
                self._quote = token[0]
            elif kind == "operator":
                self._operator(token)

    def _operator(self, token: str) -> None:
        if token in _CLOSING:
            self._depth += 1
        elif token in _CLOSING.values():
            self._depth = max(0, self._depth - 1)
        elif self._depth == 0:
            self._ternaries += (token == "?") - (token == ":" and self._ternaries > 0)


def parse_statement(text: str) -> Statement | None:
    """Parse one statement; None for a line that is not a statement, such as prose.

    Raises:
        SyntaxRefused: It begins like a statement and does not follow the grammar.
    """
    if len(text) > STATEMENT_MAX:
        raise SyntaxRefused(f"it has more than {STATEMENT_MAX} characters")
    tokens = [it for it in tokens_of(text) if it[0] != "newline"]
    if len(tokens) < 2 or tokens[0][0] != "name" or tokens[1][1] != "=":
        return None
    if tokens[0][1].startswith("@") or tokens[0][1] in _WORDS:
        return None
    reader = _Expression(tokens[2:])
    reader.read()
    return Statement(
        name=tokens[0][1],
        text=text.strip(),
        references=tuple(dict.fromkeys(reader.references)),
        calls=tuple(reader.calls),
        head=reader.head,
    )


class _Expression:
    """Parses the tokens of an expression and collects its references and calls."""

    def __init__(self, tokens: list[Token]) -> None:
        self.references: list[str] = []
        self.calls: list[OpenUiCall] = []
        self.head = ""
        self._tokens = tokens
        self._at = self._depth = 0
        self._bound: list[str] = []
        """The loop variables of the enclosing `@Each` calls."""

    def read(self) -> None:
        self._expression()
        if self._at < len(self._tokens):
            raise SyntaxRefused(f"{self._next[1][:40]!r} is not expected there")
        first = self._tokens[0][1]
        self.head = first if first[0].isupper() and self._is_call() else ""

    def _is_call(self) -> bool:
        """Whether the whole expression is one call."""
        if len(self._tokens) < 2 or self._tokens[1][1] != "(":
            return False
        depth = 0
        for index, (_, token) in enumerate(self._tokens[1:], 1):
            depth += (token in _CLOSING) - (token in _CLOSING.values())
            if depth == 0:
                return index == len(self._tokens) - 1
        return False

    @property
    def _next(self) -> Token:
        return self._tokens[self._at] if self._at < len(self._tokens) else ("end", "the end")

    def _accept(self, token: str) -> bool:
        is_it = self._next == ("operator", token)
        self._at += is_it
        return is_it

    def _expect(self, token: str) -> None:
        if not self._accept(token):
            raise SyntaxRefused(f"{token!r} is missing before {self._next[1][:40]!r}")

    def _expression(self) -> None:
        self._depth += 1
        if self._depth > NESTING_MAX:
            raise SyntaxRefused(f"it is nested more than {NESTING_MAX} levels deep")
        self._operand()
        while self._next[0] == "operator" and self._next[1] in _BINARY:
            self._at += 1
            self._operand()
        if self._accept("?"):
            self._expression()
            self._expect(":")
            self._expression()
        self._depth -= 1

    def _operand(self) -> None:
        while self._accept("!") or self._accept("-"):
            pass
        self._primary()
        while True:
            if self._accept("."):
                self._field()
            elif self._accept("["):
                self._expression()
                self._expect("]")
            else:
                return

    def _primary(self) -> None:
        kind, token = self._next
        self._at += 1
        if kind in ("string", "number"):
            return
        if kind == "name":
            self._name_or_call(token)
        elif token == "(":
            self._expression()
            self._expect(")")
        elif token == "[":
            self._items("]")
        elif token == "{":
            self._members()
        else:
            raise SyntaxRefused(f"a value is missing before {token[:40]!r}")

    def _name_or_call(self, name: str) -> None:
        is_callable = name[0] == "@" or name[0].isupper()
        if is_callable and self._accept("("):
            bound = self._loop_variable() if name == "@Each" else None
            self._bound += [bound] if bound else []
            self.calls.append(OpenUiCall(name=name, arguments=self._items(")")))
            self._bound = self._bound[: len(self._bound) - bool(bound)]
        elif name[0] not in "$@" and name not in _WORDS and name not in self._bound:
            self.references.append(name)

    def _loop_variable(self) -> str | None:
        """The loop variable that the second argument of an `@Each` names."""
        depth = 0
        for kind, token in self._tokens[self._at :]:
            if depth == 0 and kind == "string":
                return token[1:-1]
            depth += (token in _CLOSING) - (token in _CLOSING.values())
            if depth < 0:
                return None
        return None

    def _items(self, closing: str) -> int:
        count = 0
        while not self._accept(closing):
            self._expression()
            self._accept(",")
            count += 1
        return count

    def _members(self) -> None:
        while not self._accept("}"):
            self._field()
            self._expect(":")
            self._expression()
            self._accept(",")

    def _field(self) -> None:
        kind, token = self._next
        if kind not in ("name", "string", "number"):
            raise SyntaxRefused(f"a name is missing before {token[:40]!r}")
        self._at += 1
