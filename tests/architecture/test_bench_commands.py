"""Every command of `bench/` that a page names starts as it is written there."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BENCH = ROOT / "bench"
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "Makefile",
    *BENCH.glob("*.py"),
    *BENCH.glob("*.md"),
    *(ROOT / "docs").glob("**/*.md"),
]
NAMED = sorted(
    {
        name
        for page in PAGES
        for name in re.findall(r"python3? bench/(\w+)\.py", page.read_text(encoding="utf-8"))
    }
)
LOAD = "import runpy, sys; sys.path.insert(0, sys.argv[1]); runpy.run_path(sys.argv[2])"


@pytest.mark.parametrize("name", NAMED)
def test_a_command_that_a_page_names_starts_without_any_preparation(
    name: str, tmp_path: Path
) -> None:
    """From any folder; one without options is loaded, and not run."""
    path = BENCH / f"{name}.py"
    has_options = "ArgumentParser" in path.read_text(encoding="utf-8")
    start = [str(path), "--help"] if has_options else ["-c", LOAD, str(BENCH), str(path)]
    environment = {it: value for it, value in os.environ.items() if it != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, *start], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert ("usage:" in done.stdout) == has_options


def test_a_file_that_takes_something_from_the_tests_says_where_they_are() -> None:
    """An import inside a function fails only when that part is measured."""
    blind = [
        path.name
        for path in BENCH.glob("*.py")
        if re.search(r"^\s*(?:from|import) tests\b", text := path.read_text("utf-8"), re.M)
        and not ("sys.path" in text or "find_tests()" in text)
    ]
    assert blind == []
