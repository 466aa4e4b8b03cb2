"""The page on Awaken for Rust is complete: every row says what holds here and names its tests."""

import ast
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "seeds.md"
MODULES = {
    "awaken_runtime::backend::local": "backend/local.rs",
    "awaken_runtime::backend": "backend/mod.rs",
    "awaken_runtime::loop_runner": "loop_runner/mod.rs",
    "awaken_runtime::runtime::agent_runtime": "runtime/agent_runtime/mod.rs",
    "awaken_runtime::extensions::background::send_message": (
        "extensions/background/send_message.rs"
    ),
}
COLUMNS = {
    "The same": ["item", "here", "test"],
    "Different": ["item", "here", "why", "test"],
}
FEWEST_ROWS = 10

_TEST = re.compile(r"`(tests/[^`]+)`")
_NAMED = re.compile(r"tests/(?:\w+/)*test_\w+\.py::test_\w+")


class Table(NamedTuple):
    """A table of the page: what stands above its columns, and its rows."""

    columns: list[str]
    rows: list[list[str]]


def read_sections(text: str) -> dict[str, str]:
    """The text of each module's section, by its title."""
    found = re.split(r"^## (.+)$", text, flags=re.MULTILINE)[1:]
    return dict(zip(found[::2], found[1::2], strict=True))


def read_tables(section: str) -> dict[str, Table]:
    """The tables of a section, by what their heading begins with."""
    parts = re.split(r"^### (.+)$", section, flags=re.MULTILINE)[1:]
    tables = {}
    for title, text in zip(parts[::2], parts[1::2], strict=True):
        lines = [line for line in text.splitlines() if line.startswith("|")]
        columns, _, *rows = [read_cells(line) for line in lines]
        tables[title.split(" in ")[0]] = Table(columns, rows)
    return tables


def read_cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split(" | ")]


def find_page_problems(text: str) -> list[str]:
    """What is missing from the page, or named there and not in the tests."""
    sections = read_sections(text)
    problems = [] if list(sections) == list(MODULES) else [f"sections: {list(sections)}"]
    problems += [f"{path} is not named" for path in MODULES.values() if f"`{path}`" not in text]
    for module, section in sections.items():
        tables = read_tables(section)
        if {title: table.columns for title, table in tables.items()} != COLUMNS:
            problems.append(f"{module}: the tables are {sorted(tables)}")
        for title, table in tables.items():
            where = f"{module}, {title}"
            if len(table.rows) < FEWEST_ROWS:
                problems.append(f"{where}: {len(table.rows)} rows")
            for row in table.rows:
                found = find_row_problems(row, table.columns)
                problems += [f"{where}, {row[0]}: {problem}" for problem in found]
    return problems


def find_row_problems(row: list[str], columns: list[str]) -> list[str]:
    if len(row) != len(columns) or not all(row):
        return [f"{len(row)} cells, of which some may be empty"]
    tests = _TEST.findall(row[-1])
    problems = [] if tests else ["no test"]
    for test in tests:
        if not _NAMED.fullmatch(test):
            problems.append(f"{test} is no file and test")
        elif not has_test(*test.split("::")):
            problems.append(f"{test} does not exist")
    return problems


def has_test(path: str, name: str) -> bool:
    return name in list_functions(ROOT / path)


@cache
def list_functions(path: Path) -> frozenset[str]:
    """The functions of a file; none when there is no such file."""
    if not path.is_file():
        return frozenset()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    return frozenset(node.name for node in tree.body if isinstance(node, kinds))


def test_every_module_has_its_tables_and_every_row_names_tests_that_exist() -> None:
    assert find_page_problems(PAGE.read_text(encoding="utf-8")) == []


def test_a_row_with_a_wrong_test_is_found() -> None:
    good = "`tests/architecture/test_seeds_page.py::test_a_row_with_a_wrong_test_is_found`"
    assert find_row_problems(["a", "b", good], COLUMNS["The same"]) == []
    for cell in ("", "none", "`tests/architecture/test_seeds_page.py`", good.replace("row", "cow")):
        assert len(find_row_problems(["a", "b", cell], COLUMNS["The same"])) == 1
    assert len(find_row_problems(["a", "b", good], COLUMNS["Different"])) == 1
    missing = good.replace("test_seeds_page.py", "test_no_page.py")
    assert len(find_row_problems(["a", "b", f"{good} {missing}"], COLUMNS["The same"])) == 1


def test_the_page_names_modules_and_no_files_of_some_machine() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert re.findall(r"/(?:home|root|tmp|work|Users)\b|\.txt\b", text) == []
