"""The ports of other frameworks' examples: short, typed, and right without a key."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.forked_python import run_python

ROOT = Path(__file__).parents[2]
PORTS = sorted((ROOT / "examples" / "ports").glob("*.py"))
SHOWN = {
    "from_langgraph": [
        "search_notes: How do agents plan to remember?",
        "= what was found does not answer this; search for: types of memory of an agent",
        "search_notes: types of memory of an agent",
        "['searcher', 'judge', 'writer', 'judge']",
    ],
    "from_openai_agents": [
        "questions: One piece of up to 20 kg.",
        "seats: Which booking, and which seat?",
        "  gets K4: seat 5A on AW461",
        "seats: You are in 5A.",
        "seat: 5A",
    ],
    "from_pydantic_ai": [
        "risk 1: Noor, you have 42.50 euros.",
        "risk 8: Your card is frozen, Noor.",
    ],
}
"""Lines that a port prints, in this order."""
_ORIGINAL = re.compile(r"Original: .*?[0-9a-f]{40}: (?P<lines>\d+) lines that are not blank", re.S)


@pytest.mark.parametrize("path", PORTS, ids=lambda path: path.stem)
def test_a_port_does_what_the_original_does(path: Path) -> None:
    kept = {name: value for name, value in os.environ.items() if name != "MODEL"}
    done = run_python("-W", "error", str(path), env=kept)
    assert (done.returncode, done.stderr) == (0, "")
    wanted = SHOWN[path.stem]
    assert [line for line in done.stdout.splitlines() if line in wanted] == wanted


@pytest.mark.parametrize("path", PORTS, ids=lambda path: path.stem)
def test_a_port_has_no_more_lines_than_its_original(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    original = _ORIGINAL.search(text)
    assert original is not None
    assert sum(1 for line in text.splitlines() if line.strip()) <= int(original["lines"])


def test_the_ports_pass_the_type_checker() -> None:
    command = [sys.executable, "-m", "mypy", "--strict", *map(str, PORTS)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=170)
    assert done.returncode == 0, done.stdout + done.stderr


def test_there_is_a_port_for_each_framework() -> None:
    assert [path.stem for path in PORTS] == sorted(SHOWN)
