"""Nothing stored is ever code, and no cancellation is swallowed: what no source file may call."""

import ast
from collections.abc import Iterator
from pathlib import Path

SRC = Path(__file__).parents[2] / "src"
FILES = sorted(SRC.rglob("*.py"))
FORBIDDEN_MODULES = {"pickle", "marshal", "shelve", "dill", "cloudpickle"}
FORBIDDEN_CALLS = {"eval", "exec", "__import__", "compile"}
ALLOWED = {"awaken/cli/main.py", "awaken/authoring/json_schemas.py"}
"""The command line imports the file a person names; a schema engine is imported lazily."""


def name_forbidden(node: ast.AST, path: str) -> Iterator[str]:
    """The names in one node of a file that no source file may use."""
    names: set[str] = set()
    if isinstance(node, ast.Import):
        names = FORBIDDEN_MODULES & {alias.name.split(".")[0] for alias in node.names}
    if isinstance(node, ast.ImportFrom):
        names = FORBIDDEN_MODULES & {(node.module or "").split(".")[0]}
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        calls = FORBIDDEN_CALLS if path in ALLOWED else FORBIDDEN_CALLS | {"import_module"}
        names = calls & {node.func.id}
    yield from names


def find_forbidden(text: str, path: str) -> list[str]:
    nodes = ast.walk(ast.parse(text))
    return [
        f"{path}:{getattr(node, 'lineno', 0)}: {name}"
        for node in nodes
        for name in name_forbidden(node, path)
    ]


def test_no_module_unpickles_or_evaluates() -> None:
    offenders = [
        offender
        for path in FILES
        for offender in find_forbidden(
            path.read_text(encoding="utf-8"), path.relative_to(SRC).as_posix()
        )
    ]
    assert offenders == []


def test_each_forbidden_name_is_found() -> None:
    text = "import pickle\nfrom shelve import open\neval('1')\nimport_module('x')\n"
    assert find_forbidden(text, "awaken/new.py") == [
        "awaken/new.py:1: pickle",
        "awaken/new.py:2: shelve",
        "awaken/new.py:3: eval",
        "awaken/new.py:4: import_module",
    ]
    assert len(find_forbidden(text, "awaken/cli/main.py")) == 3


def test_waits_are_bounded_without_losing_a_cancellation() -> None:
    """`asyncio.wait_for` of Python 3.11 forgets one that comes with the result."""
    offenders = [
        path.relative_to(SRC).as_posix()
        for path in FILES
        if "asyncio.wait_for(" in path.read_text(encoding="utf-8")
    ]
    assert offenders == [], "asyncio.timeout does the same and forgets nothing"
