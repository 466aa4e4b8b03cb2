"""Every example runs by itself, offline, and finds its own result right."""

import subprocess
from pathlib import Path

import pytest
from tests.forked_python import run_python

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def run_example(path: Path) -> subprocess.CompletedProcess[str]:
    return run_python("-W", "error", str(path), cwd=ROOT)


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 10


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_example_succeeds_and_shows_something(path: Path) -> None:
    done = run_example(path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.strip()
    assert done.stderr == ""
