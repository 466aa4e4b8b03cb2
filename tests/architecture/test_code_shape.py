"""The shape limits of CONTRIBUTING.md, as tests. Debt is listed, and the list only shrinks."""

import ast
import io
import tokenize
from collections import Counter
from pathlib import Path

import pytest

SRC = Path(__file__).parents[2] / "src"
FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 70
PARAMETERS_MAX = 8
PUBLIC_METHODS_MAX = 20
LOOP_LINES_MAX = 150
CORE_LINES_MAX = 30_000
ISLAND_LINES_MAX = 1_680
ISLANDS = ("backends", "protocols", "providers", "extensions", "stores")
SHARED = ("stores/rules", "stores/sql")
"""What lies among islands and is used by them."""
TEST_KIT_LINES_MAX = 8_000
NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
FORBIDDEN_STEMS = {"utils", "util", "helpers", "common", "misc", "base", "core", "manager"}
DEBT: dict[str, int] = {}  # "path" or "path::name" -> its current size; never raise a number

FILES = sorted(SRC.rglob("*.py"))
Function = ast.FunctionDef | ast.AsyncFunctionDef


def relative(path: Path) -> str:
    return path.relative_to(SRC).as_posix()


def nodes(path: Path) -> list[ast.AST]:
    return list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


def body_lines(node: Function) -> int:
    docstring = node.body[0] if ast.get_docstring(node) else None
    skipped = docstring.end_lineno - docstring.lineno + 1 if docstring else 0
    return node.end_lineno - node.lineno + 1 - skipped


@pytest.mark.parametrize("path", FILES, ids=relative)
def test_file_fits_the_limit(path: Path) -> None:
    size = len(path.read_text(encoding="utf-8").splitlines())
    assert size <= DEBT.get(relative(path), FILE_LINES_MAX)


@pytest.mark.parametrize("path", FILES, ids=relative)
def test_functions_fit_one_screen_and_take_few_parameters(path: Path) -> None:
    for node in nodes(path):
        if isinstance(node, Function):
            key = f"{relative(path)}::{node.name}"
            assert body_lines(node) <= DEBT.get(key, FUNCTION_LINES_MAX), key
            parameters = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            count = len([parameter for parameter in parameters if parameter.arg != "self"])
            assert count <= PARAMETERS_MAX, key


@pytest.mark.parametrize("path", FILES, ids=relative)
def test_classes_stay_narrow(path: Path) -> None:
    for node in nodes(path):
        if isinstance(node, ast.ClassDef):
            methods = [part for part in node.body if isinstance(part, Function)]
            public = [method for method in methods if not method.name.startswith("_")]
            key = f"{relative(path)}::{node.name}"
            assert len(public) <= DEBT.get(key, PUBLIC_METHODS_MAX), key


@pytest.mark.parametrize("path", FILES, ids=relative)
def test_file_name_says_what_is_inside(path: Path) -> None:
    assert path.stem.strip("_") not in FORBIDDEN_STEMS


@pytest.mark.parametrize("path", FILES, ids=relative)
def test_module_says_what_it_is(path: Path) -> None:
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    assert docstring, "a module begins by saying what it is"
    assert len(docstring.splitlines()) <= 8 or path.name == "errors.py"


def test_every_package_has_a_folder_contract() -> None:
    folders = {path.parent for path in FILES if path.parent != SRC}
    missing = [relative(folder) for folder in folders if not (folder / "__init__.py").exists()]
    assert missing == []


def test_packages_hold_no_logic_in_their_front_door() -> None:
    for path in FILES:
        if path.name == "__init__.py":
            logic = [node for node in nodes(path) if isinstance(node, Function | ast.ClassDef)]
            assert logic == [], relative(path)


def test_the_loop_can_be_read_in_one_sitting() -> None:
    text = (SRC / "awaken" / "runtime" / "loop.py").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= LOOP_LINES_MAX


def test_the_core_and_every_island_stay_small() -> None:
    sizes: Counter[str] = Counter()
    for path in FILES:
        sizes[part_of(path)] += code_lines(path.read_text(encoding="utf-8"))
    assert 0 < sizes.pop("testing") <= TEST_KIT_LINES_MAX
    assert 0 < sizes.pop("core") <= CORE_LINES_MAX
    assert {name: size for name, size in sizes.items() if size > ISLAND_LINES_MAX} == {}


def part_of(path: Path) -> str:
    """The test kit, an island that nobody imports, or the core that everybody has to know."""
    package, *inside = path.relative_to(SRC / "awaken").parts
    island = f"{package}/{inside[0]}" if inside else package
    if package in ISLANDS and len(inside) > 1 and island not in SHARED:
        return island
    return package if package == "testing" else "core"


def code_lines(text: str) -> int:
    """Lines with code on them: blank lines, comments and docstrings cost a reader nothing."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            lines.difference_update(range(node.lineno, node.end_lineno + 1))
    return len(lines)
