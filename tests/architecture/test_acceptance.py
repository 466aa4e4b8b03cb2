"""The manifest of the acceptance list is honest: its tests exist, its exceptions have reasons."""

import re
import tomllib
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
MANIFEST = tomllib.loads((TESTS / "acceptance.toml").read_text(encoding="utf-8"))
COVERED = {**MANIFEST["covered"], **MANIFEST["invariants"]}
PARTS = ("C", "R", "I", "L", "S", "SC", "CP", "SR", "CX", "TC", "W")


@pytest.mark.parametrize("lines", COVERED)
def test_the_tests_that_cover_a_block_exist_and_check_something(lines: str) -> None:
    assert COVERED[lines]
    for name in COVERED[lines]:
        text = (TESTS / name).read_text(encoding="utf-8")
        assert re.search(r"^def test_|TestCase|check", text, re.MULTILINE), name


def test_every_change_says_why_and_everything_later_says_where() -> None:
    assert all(len(reason.split()) >= 3 for reason in MANIFEST["changed"].values())
    assert all(re.search(r"\d", part) for part in MANIFEST["later"].values())


def test_every_test_file_is_named_by_the_manifest_or_guards_the_architecture() -> None:
    named = {name for names in COVERED.values() for name in names}
    files = {path.relative_to(TESTS).as_posix() for path in TESTS.rglob("test_*.py")}
    beyond = {
        name for name in files - named if not name.startswith(("architecture/", "unit/testing"))
    }
    assert beyond <= set(MANIFEST["beyond"]["files"])


def test_the_manifest_speaks_of_every_part_of_the_list() -> None:
    ids = " ".join([*COVERED, *MANIFEST["changed"], *MANIFEST["later"]])
    missing = [part for part in PARTS if not re.search(rf"\b{part}-\d|\b{part}-[A-Z]", ids)]
    assert missing == []
