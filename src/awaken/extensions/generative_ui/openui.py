"""OpenUI Lang: a program of statements, read as it is written, and checked as a whole.

A statement with a mistake is dropped and reported; only a program without a root is refused.
Clients get the statements one after another.
"""

from collections.abc import Mapping
from typing import Any

from .config import OpenUiConfig, argument_name
from .openui_syntax import Boundary, Statement, SyntaxRefused, begins_statement, parse_statement
from .readers import Interface, LineBuffer, PatchOperation

WARNINGS_MAX = 20

_FUNCTIONS = (
    "Count", "First", "Last", "Sum", "Avg", "Min", "Max", "Filter", "Sort", "Round", "Abs", "Floor",
    "Ceil", "Each", "Set", "Reset", "Run", "ToAssistant", "OpenUrl", "Action",
)  # fmt: skip
_FORMS = ("Query", "Mutation", "Action")


class ProgramReader:
    """Reads a program as it is written."""

    def __init__(self, library: OpenUiConfig) -> None:
        self._library = library
        self._lines = LineBuffer()
        self._pending: list[str] = []
        self._boundary = Boundary()
        self._statements: list[Statement] = []
        self._warnings: list[str] = []
        self._is_fenced = self._is_inside = False

    @property
    def preview(self) -> dict[str, Any]:
        """The statements so far, as clients see them."""
        return {"statements": [it.text for it in self._statements]}

    def feed(self, text: str) -> list[PatchOperation]:
        """Read more text; return the changes of the statements."""
        return [it for line in self._lines.feed(text) for it in self._take(line)]

    def finish(self) -> Interface:
        """The whole program and its problems."""
        for line in self._lines.finish():
            self._take(line)
        self._complete()
        problem = self._lines.problem or self._root_problem()
        warnings = (*self._warnings, *program_warnings(self._statements, self._library))
        return Interface(content=self.preview, problem=problem, warnings=warnings[:WARNINGS_MAX])

    def _take(self, line: str) -> list[PatchOperation]:
        if line.startswith("```") and not (self._pending and self._boundary.is_open):
            return self._fence()
        if self._is_fenced and not self._is_inside:
            return []
        if self._pending and (self._boundary.is_open or line.lstrip().startswith("?")):
            self._pending.append(line)
            self._boundary.feed(line)
            return []
        done = self._complete()
        if begins_statement(line):
            self._pending, self._boundary = [line], Boundary()
            self._boundary.feed(line)
        return done

    def _fence(self) -> list[PatchOperation]:
        self._is_inside = not self._is_inside
        if self._is_fenced or not self._is_inside:
            return self._complete()
        # Text before the first fence is prose, even where it looks like statements.
        had = bool(self._statements)
        self._is_fenced, self._pending = True, []
        self._statements, self._warnings = [], []
        return [{"op": "replace", "path": "/statements", "value": []}] if had else []

    def _complete(self) -> list[PatchOperation]:
        text, self._pending = "\n".join(self._pending).strip(), []
        try:
            statement = parse_statement(text)
        except SyntaxRefused as refusal:
            self._warnings.append(f"{text[:60]}: {refusal}")
            return []
        if statement is None:
            return []
        self._statements.append(statement)
        return [{"op": "add", "path": "/statements/-", "value": statement.text}]

    def _root_problem(self) -> str | None:
        if not self._statements:
            return "the text has no statements like: root = Card([])"
        named = {it.name: it for it in self._statements}
        first = self._statements[0]
        if "root" not in named and (self._library.root is None or first.head != self._library.root):
            return "there is no statement 'root = …'"
        root = named.get("root", first)
        is_value = not root.head and not root.references
        if is_value or root.head in _FORMS:
            return "'root' must be a component"
        return None


def program_warnings(statements: list[Statement], library: OpenUiConfig) -> list[str]:
    """What a client would omit from a program, and why."""
    named = {it.name: it for it in statements}
    found: list[str] = []
    for statement in named.values():
        for call in statement.calls:
            problem = _call_problem(call.name, call.arguments, library)
            found += [f"{statement.name}: {problem}"] if problem else []
        missing = [it for it in statement.references if it not in named]
        found += [f"{statement.name}: {it[:80]!r} is not defined" for it in missing]
    reached = _find_reachable(named)
    orphans = [it for it in named if it not in reached and not it.startswith("$")]
    plain = [it for it in orphans if named[it].head not in ("Query", "Mutation")]
    return [*found, *(f"{it}: nothing refers to it, so it is not shown" for it in plain)]


def _call_problem(name: str, given: int, library: OpenUiConfig) -> str | None:
    if name.startswith("@"):
        return None if name[1:] in _FUNCTIONS else f"there is no function {name[:80]}"
    if name in _FORMS or not library.components:
        return None
    arguments = library.components.get(name)
    if arguments is None:
        return f"there is no component {name[:80]}; known are {', '.join(library.components)}"
    needed = sum(is_needed for _, is_needed in map(argument_name, arguments))
    if needed <= given <= len(arguments):
        return None
    return f"{name} takes {needed} to {len(arguments)} arguments: {', '.join(arguments)}"


def _find_reachable(named: Mapping[str, Statement]) -> set[str]:
    first = next(iter(named), "")
    waiting = ["root" if "root" in named else first]
    reached: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in named and name not in reached:
            reached.add(name)
            waiting += named[name].references
    return reached
