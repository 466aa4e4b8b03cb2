"""The manifest of the acceptance list is honest: its tests exist, its exceptions have reasons."""

import re
import tomllib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
MANIFEST = tomllib.loads((TESTS / "acceptance.toml").read_text(encoding="utf-8"))
CHANGED, LATER = MANIFEST["changed"], MANIFEST["later"]
BLOCKS = [*MANIFEST["covered"].items(), *MANIFEST["invariants"].items()]
PARTS = ("C", "R", "I", "L", "S", "SC", "CP", "SR", "CX", "TC", "W")
COMING = (
    "background tasks",
    "context management",
    "model providers",
    "remote backends",
    "the server",
)
ITEM = re.compile(
    r"(?P<family>(?:[A-Z0-9]+-)+)?(?P<number>\d*)(?P<letter>[a-z]?)"
    r"(?:\.\.(?:[A-Z]+-)*(?P<last>\d+))?(?P<note> \(.*\))?"
)
TEST_CODE = re.compile(r"^(?:async )?def test_|^Test\w+ = \w+\.TestCase$", re.MULTILINE)


def line_ids(block: str) -> list[str]:
    """The ids that a block stands for; an item without a family or a number repeats the last."""
    ids: list[str] = []
    family = number = ""
    for item in re.split(r", *(?![^(]*\))", block):
        found = ITEM.fullmatch(item)
        if found is None:
            ids.append(item)
            continue
        family, number = found["family"] or family, found["number"] or number
        ending = found["letter"] + (found["note"] or "")
        numbers = range(int(number), int(found["last"] or number) + 1)
        ids += [f"{family}{each}{ending}" for each in numbers]
    return ids


def repeated(blocks: Iterable[str]) -> list[str]:
    """The ids that stand there twice, or beside the whole line that they are a part of."""
    counts = Counter(each for block in blocks for each in line_ids(block))
    parts = {each for each in counts if whole(each) != each and whole(each) in counts}
    return [each for each, count in counts.items() if count > 1 or each in parts]


def whole(line_id: str) -> str:
    return re.sub(r"(?<=\d)[a-z]$", "", line_id)


@pytest.mark.parametrize(
    ("block", "ids"),
    [
        ("C-CAN-1,2", ["C-CAN-1", "C-CAN-2"]),
        ("C-X-1..3, 5a,b", ["C-X-1", "C-X-2", "C-X-3", "C-X-5a", "C-X-5b"]),
        ("W-5..W-7, SC-1", ["W-5", "W-6", "W-7", "SC-1"]),
        ("C-MBX-3 (results, interrupts)", ["C-MBX-3 (results, interrupts)"]),
        ("R-HO, L-HO-2", ["R-HO", "L-HO-2"]),
    ],
)
def test_a_block_is_read_as_its_lines(block: str, ids: list[str]) -> None:
    assert line_ids(block) == ids


@pytest.mark.parametrize(("lines", "names"), BLOCKS)
def test_the_tests_that_cover_a_block_exist_and_check_something(
    lines: str, names: list[str]
) -> None:
    assert names, lines
    for name in names:
        assert re.fullmatch(r"test_\w+\.py", Path(name).name), f"{name} is no file of tests"
        assert TEST_CODE.search((TESTS / name).read_text(encoding="utf-8")), name


def test_every_line_stands_in_one_block() -> None:
    assert repeated(lines for lines, _ in BLOCKS) == []
    assert repeated(CHANGED) == []
    assert repeated(LATER) == []


def test_nothing_that_comes_later_is_covered_already() -> None:
    covered = {each for lines, _ in BLOCKS for each in line_ids(lines)}
    later = {each for lines in LATER for each in line_ids(lines)}
    assert covered & (later | {whole(each) for each in later}) == set()


def test_every_change_says_why_in_words_and_names_tests_that_exist() -> None:
    files = {path.name for path in TESTS.rglob("test_*.py")}
    for lines, reason in CHANGED.items():
        assert len(re.findall(r"[A-Za-z]{2,}", reason)) >= 3, lines
        assert set(re.findall(r"test_\w+\.py", reason)) <= files, lines


def test_everything_later_says_what_it_comes_with() -> None:
    for lines, reason in LATER.items():
        assert re.match(f"comes with ({'|'.join(COMING)})\\b", reason), lines


def test_every_test_file_is_named_by_the_manifest_or_guards_the_architecture() -> None:
    named = {name for _, names in BLOCKS for name in names}
    files = {path.relative_to(TESTS).as_posix() for path in TESTS.rglob("test_*.py")}
    beyond = {
        name for name in files - named if not name.startswith(("architecture/", "unit/testing"))
    }
    assert beyond == set(MANIFEST["beyond"]["files"])


def test_the_manifest_speaks_of_every_part_of_the_list() -> None:
    ids = " ".join([*(lines for lines, _ in BLOCKS), *CHANGED, *LATER])
    missing = [part for part in PARTS if not re.search(rf"\b{part}-\d|\b{part}-[A-Z]", ids)]
    assert missing == []
