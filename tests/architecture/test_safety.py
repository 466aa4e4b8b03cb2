"""Nothing stored is ever code, and no cancellation is swallowed: what no source file may call."""

import ast
from pathlib import Path

import pytest

SRC = Path(__file__).parents[2] / "src"
FILES = sorted(SRC.rglob("*.py"))
FORBIDDEN_MODULES = {"pickle", "marshal", "shelve", "dill", "cloudpickle"}
FORBIDDEN_CALLS = {"eval", "exec", "__import__", "compile"}
ALLOWED = {"awaken/cli/main.py", "awaken/authoring/json_schemas.py"}
"""The command line imports the file a person names; a schema engine is imported lazily."""


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(SRC).as_posix())
def test_a_module_neither_unpickles_nor_evaluates(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            assert not FORBIDDEN_MODULES & {alias.name.split(".")[0] for alias in node.names}
        if isinstance(node, ast.ImportFrom):
            assert (node.module or "").split(".")[0] not in FORBIDDEN_MODULES
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in FORBIDDEN_CALLS
            is_import = node.func.id == "import_module"
            assert not is_import or path.relative_to(SRC).as_posix() in ALLOWED


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(SRC).as_posix())
def test_a_module_bounds_what_it_waits_for_without_losing_a_cancellation(path: Path) -> None:
    """`asyncio.wait_for` of Python 3.11 forgets one that comes with the result."""
    text = path.read_text(encoding="utf-8")
    assert "asyncio.wait_for(" not in text, "asyncio.timeout does the same and forgets nothing"
