r"""The one parser of the pattern language.

pattern   := tool [ "(" arguments ")" ]
tool      := "/" regex "/"  |  name          a name with * ? [ { is a glob, else it is exact
arguments := "*"  |  condition ("," condition)*  |  glob of the primary value
condition := path operator '"' text '"'      \" and \\ are escapes, other backslashes stay
path      := segment ("." segment)*          segment := name or "*", then any of [0] and [*]
operator  := ~ glob   = equal   =~ regex   and !~  !=  !=~ for their negations
"""

import re
from collections.abc import Callable
from typing import TypeVar

from .calls import Path
from .conditions import MAX_TEXT, OPERATORS, Condition, ConditionKind
from .errors import PatternError, check_text
from .globs import SPECIAL
from .tool_pattern import ToolName, ToolPattern

T = TypeVar("T")

_MAX_CONDITIONS = 32
_MAX_DIGITS = 6
_SEGMENT = r"(?:[A-Za-z0-9_-]+|\*)(?:\[(?:[0-9]+|\*)\])*"
_PATH = re.compile(rf"{_SEGMENT}(?:\.{_SEGMENT})*")
_STEP = re.compile(r"\[(?P<index>[0-9]+)\]|(?P<name>[A-Za-z0-9_-]+)|\*")
_CONDITION = re.compile(rf"(?P<path>{_PATH.pattern})\s*(?:!?=~?|!?~)\s*(?P<quote>[\"']?)")
_ANY_ARGUMENTS = re.compile(r"\*\s*\)")
_SPACE = re.compile(r"\s*")
_QUOTED = re.compile(r'"((?:\\["\\]|[^"])*+)"')
_ESCAPE = re.compile(r'\\(["\\])')
_TOOL_NAME = re.compile(r"[^\s(]*")
_QUOTES = ("'", '"')


def parse_pattern(text: str) -> ToolPattern:
    """Parse a tool pattern.

    Raises:
        PatternError: The text is malformed; it names the position and the expected syntax.
    """
    return _Parser(text).read_pattern()


def parse_condition(path: str, operator: str, value: str) -> Condition:
    """Build a condition from its three parts, for rules that have them as fields.

    Raises:
        PatternError: The path, the operator or the value is malformed.
    """
    parser = _Parser(path)
    found = parser.read_path()
    if found is None or parser.at < len(path):
        problem = "expected a path such as `a.b[0].c`, with `*` for every item"
        raise PatternError(pattern=path, position=parser.at, problem=problem)
    if operator not in OPERATORS:
        raise PatternError(
            pattern=operator, position=0, problem=f"expected one of {' '.join(OPERATORS)}"
        )
    return Condition(found, operator, value)


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def read_pattern(self) -> ToolPattern:
        check_text(self.text, MAX_TEXT, "a pattern")
        self._skip_space()
        tool = self._read_regex_tool() if self._peek() == "/" else self._read_named_tool()
        self._skip_space()
        conditions = self._read_arguments() if self._take("(") else ()
        self._skip_space()
        if self.at < len(self.text):
            raise self._error("expected nothing after the pattern; one pattern is one rule")
        return ToolPattern(tool, conditions)

    def _read_regex_tool(self) -> ToolName:
        start = self.at + 1
        end = _find_end(self.text, start, closing="/")
        if end is None:
            raise self._error("expected `/` at the end of the regular expression")
        self.at = end + 1
        return self._build(start, ToolName, ConditionKind.REGEX, self.text[start:end])

    def _read_named_tool(self) -> ToolName:
        start = self.at
        name = self._read(_TOOL_NAME)
        wrong = re.search("[)'\"]", name)
        if wrong or not name:
            problem = "expected a tool's name, as in `Bash` or `mcp__*`, or `/regex/`"
            raise self._error(problem, at=start + (wrong.start() if wrong else 0))
        return self._build(
            start,
            ToolName,
            ConditionKind.GLOB if SPECIAL & set(name) else ConditionKind.EXACT,
            name,
        )

    def _read_arguments(self) -> tuple[Condition, ...]:
        self._skip_space()
        if self._read(_ANY_ARGUMENTS):
            return ()
        if not self._at_condition():
            return (self._read_primary(),)
        conditions = [self._read_condition()]
        while self._take(","):
            conditions.append(self._read_condition())
        if not self._take(")"):
            raise self._error("expected `,` and another condition, or `)`")
        if len(conditions) > _MAX_CONDITIONS:
            raise self._error(f"a pattern has at most {_MAX_CONDITIONS} conditions; use two rules")
        return tuple(conditions)

    def _at_condition(self) -> bool:
        """Whether a path and an operator follow; a path that ends in `*` also needs a quote."""
        found = _CONDITION.match(self.text, self.at)
        return found is not None and bool(found["quote"] or not found["path"].endswith("*"))

    def _read_condition(self) -> Condition:
        self._skip_space()
        path = self.read_path()
        if path is None:
            raise self._error("expected a path such as `command` or `edits[*].path`")
        self._skip_space()
        operator = next((it for it in OPERATORS if self._take(it)), None)
        if operator is None:
            raise self._error(f"expected one of the operators {' '.join(OPERATORS)}")
        self._skip_space()
        start = self.at
        value = self._read_quoted()
        self._skip_space()
        return self._build(start + 1, Condition, path, operator, value)

    def read_path(self) -> Path | None:
        start = self.at
        text = self._read(_PATH)
        steps: list[str | int | None] = []
        for step in _STEP.finditer(text):
            if len(step["index"] or "") > _MAX_DIGITS:
                problem = f"an index has at most {_MAX_DIGITS} digits"
                raise self._error(problem, at=start + step.start() + 1)
            steps.append(int(step["index"]) if step["index"] else step["name"])
        return Path(text, tuple(steps)) if text else None

    def _read_quoted(self) -> str:
        if self._peek() == "'":
            raise self._error("expected a value in double quotes; write \"…\" in place of '…'")
        if self._peek() != '"':
            raise self._error(
                'expected a value in double quotes, as in `command ~ "git *"`; if a plain glob is '
                "meant, write a backslash before the operator"
            )
        value = self._read(_QUOTED)
        if not value:
            raise self._error('expected `"` at the end of the value')
        return _ESCAPE.sub(r"\1", value[1:-1])

    def _read_primary(self) -> Condition:
        start = self.at
        end = _find_end(self.text, start, closing=")")
        if end is None:
            raise self._error("expected `)` at the end of the arguments", at=start - 1)
        glob = self.text[start:end].strip()
        if not glob:
            raise self._error("expected arguments; write `(*)`, or no parentheses, for any")
        if glob[0] in _QUOTES:
            raise self._error("a plain glob has no quotes, as in `Bash(git *)`; `\\` escapes one")
        self.at = end + 1
        return self._build(start, Condition, None, "~", glob)

    def _build(self, start: int, make: Callable[..., T], *parts: object) -> T:
        """Build an object from a part that begins at `start`; errors get that position."""
        try:
            return make(*parts)
        except PatternError as error:
            raise error.inside(self.text, start) from error

    def _read(self, token: re.Pattern[str]) -> str:
        found = token.match(self.text, self.at)
        self.at += len(found[0]) if found else 0
        return found[0] if found else ""

    def _peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def _take(self, wanted: str) -> bool:
        if not self.text.startswith(wanted, self.at):
            return False
        self.at += len(wanted)
        return True

    def _skip_space(self) -> None:
        self._read(_SPACE)

    def _error(self, problem: str, *, at: int | None = None) -> PatternError:
        return PatternError(
            pattern=self.text, position=self.at if at is None else at, problem=problem
        )


def _find_end(text: str, start: int, *, closing: str) -> int | None:
    """The position of an unescaped `closing` outside of parentheses opened since `start`."""
    depth, at = 0, start
    while at < len(text):
        if depth == 0 and text[at] == closing:
            return at
        depth += (text[at] == "(") - (text[at] == ")")
        at += 2 if text[at] == "\\" else 1
    return None
