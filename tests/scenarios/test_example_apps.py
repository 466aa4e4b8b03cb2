"""Every app in a folder of `examples/` is typed, passes its own test, and has three commands."""

import os
import re
from pathlib import Path

import pytest
from tests.forked_python import run_python

ROOT = Path(__file__).parents[2]
APPS = sorted(path.parent for path in (ROOT / "examples").glob("*/app.py"))
GALLERY = ROOT / "docs" / "examples.md"
_COMMANDS = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def run_without_key(*arguments: str) -> str:
    """Run Python as a user does, without a key; what it prints."""
    kept = {name: value for name, value in os.environ.items() if name != "AGENT_MODEL"}
    environment = {**kept, "PYTHONPATH": str(ROOT / "src")}
    done = run_python(*arguments, cwd=ROOT, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_there_are_apps() -> None:
    assert [it.name for it in APPS] == [
        "assistant_with_memory",
        "coding_agent",
        "daily_report",
        "refund_workflow",
        "research_team",
        "support_desk",
    ]


@pytest.mark.parametrize("app", APPS, ids=lambda app: app.name)
def test_the_app_passes_its_own_test(app: Path) -> None:
    shown = run_without_key("-W", "error", "-m", "unittest", "discover", str(app))
    ran = re.search(r"^Ran (\d+) tests? in", shown, re.MULTILINE)
    assert ran is not None
    assert int(ran[1]) >= 3
    assert "skipped" not in shown


@pytest.mark.parametrize("app", APPS, ids=lambda app: app.name)
def test_the_app_is_typed(app: Path) -> None:
    run_without_key("-m", "mypy", "--strict", *map(str, sorted(app.glob("*.py"))))


@pytest.mark.parametrize("app", APPS, ids=lambda app: app.name)
def test_the_readme_has_three_commands_for_files_that_exist(app: Path) -> None:
    block = _COMMANDS.search((app / "README.md").read_text(encoding="utf-8"))
    assert block is not None
    commands = block[1].splitlines()
    assert len(commands) == 3
    named = [word for line in commands for word in line.split() if word.startswith("examples/")]
    assert named
    assert [word for word in named if not (ROOT / word).exists()] == []


def test_the_gallery_lists_every_example() -> None:
    gallery = GALLERY.read_text(encoding="utf-8")
    programs = sorted((ROOT / "examples").glob("*.py"))
    expected = [
        it.relative_to(ROOT).as_posix() for it in (*programs, *(a / "app.py" for a in APPS))
    ]
    assert [it for it in expected if it not in gallery] == []
    named = set(re.findall(r"examples/[\w/]+\.py", gallery))
    assert named == set(expected)
