"""The shape limits of CONTRIBUTING.md, as tests. Debt is listed, and the list only shrinks."""

import ast
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

SRC = Path(__file__).parents[2] / "src"
FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 70
PARAMETERS_MAX = 8
PUBLIC_METHODS_MAX = 20
FORBIDDEN_STEMS = {"utils", "util", "helpers", "common", "misc", "base", "core", "manager"}
DEBT: dict[str, int] = {  # "path" or "path::name" -> its current size; never raise a number
    # Nothing but the names of all public errors, one to a line.
    "awaken/errors.py": 549,
}

FILES = sorted(SRC.rglob("*.py"))
Function = ast.FunctionDef | ast.AsyncFunctionDef


def relative(path: Path) -> str:
    return path.relative_to(SRC).as_posix()


@cache
def nodes(path: Path) -> list[ast.AST]:
    return list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


def body_lines(node: Function) -> int:
    docstring = node.body[0] if ast.get_docstring(node) else None
    skipped = docstring.end_lineno - docstring.lineno + 1 if docstring else 0
    return node.end_lineno - node.lineno + 1 - skipped


def offenders(found: Callable[[Path], Iterable[str]]) -> list[str]:
    return [offender for path in FILES for offender in found(path)]


def test_files_fit_the_limit() -> None:
    def too_long(path: Path) -> Iterable[str]:
        size = len(path.read_text(encoding="utf-8").splitlines())
        if size > DEBT.get(relative(path), FILE_LINES_MAX):
            yield f"{relative(path)}: {size} lines"

    assert offenders(too_long) == []


def is_command(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a function is a command of the command line."""
    calls = (it.func for it in node.decorator_list if isinstance(it, ast.Call))
    return any(isinstance(it, ast.Attribute) and it.attr == "command" for it in calls)


def test_functions_fit_one_screen_and_take_few_parameters() -> None:
    def too_large(path: Path) -> Iterable[str]:
        for node in nodes(path):
            if isinstance(node, Function):
                key = f"{relative(path)}::{node.name}"
                parameters = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                count = len([parameter for parameter in parameters if parameter.arg != "self"])
                if is_command(node):
                    # Each parameter is an option of the command line.
                    count = 0
                if body_lines(node) > DEBT.get(key, FUNCTION_LINES_MAX) or count > PARAMETERS_MAX:
                    yield f"{key}: {body_lines(node)} lines, {count} parameters"

    assert offenders(too_large) == []


def test_classes_stay_narrow() -> None:
    def too_wide(path: Path) -> Iterable[str]:
        for node in nodes(path):
            if isinstance(node, ast.ClassDef):
                methods = [part for part in node.body if isinstance(part, Function)]
                # The overloads of a method are one method.
                public = {method.name for method in methods if not method.name.startswith("_")}
                key = f"{relative(path)}::{node.name}"
                if len(public) > DEBT.get(key, PUBLIC_METHODS_MAX):
                    yield f"{key}: {len(public)} public methods"

    assert offenders(too_wide) == []


def test_file_names_say_what_is_inside() -> None:
    assert [relative(path) for path in FILES if path.stem.strip("_") in FORBIDDEN_STEMS] == []


def test_modules_say_what_they_are() -> None:
    def silent(path: Path) -> Iterable[str]:
        docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        lines = len(docstring.splitlines())
        if lines == 0 or (lines > 8 and path.name != "errors.py"):
            yield f"{relative(path)}: {lines} lines of docstring, 1 to 8 are wanted"

    assert offenders(silent) == []


def test_every_package_has_a_folder_contract() -> None:
    folders = {path.parent for path in FILES if path.parent != SRC}
    missing = [relative(folder) for folder in folders if not (folder / "__init__.py").exists()]
    assert missing == []


def test_packages_hold_no_logic_in_their_front_door() -> None:
    for path in FILES:
        if path.name == "__init__.py":
            kinds = Function | ast.ClassDef
            logic = {node.name for node in nodes(path) if isinstance(node, kinds)}
            # What Python asks of a module whose names are imported when they are used.
            assert logic <= {"__getattr__", "__dir__"}, relative(path)
