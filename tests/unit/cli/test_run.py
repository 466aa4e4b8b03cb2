"""`awaken run`: the demo works without a key, and mistakes are named."""

import subprocess
import sys
from pathlib import Path

import pytest

from awaken import __version__

APP = """
from awaken import Agent
from awaken.testing import ScriptedModel

helper = Agent("helper", model=ScriptedModel(["At your service."]))
broken = Agent("broken", model=ScriptedModel([RuntimeError("no model")]))
"""


def awaken(*arguments: str, typed: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "awaken", "run", *arguments]
    return subprocess.run(
        command, input=typed, capture_output=True, text=True, timeout=60, check=False
    )


def test_without_arguments_the_demo_talks_calls_a_tool_and_ends_with_the_input() -> None:
    done = awaken(typed="hello\nRUN_WEATHER_TOOL\n")
    assert done.returncode == 0, done.stderr
    assert "Scripted response to: hello" in done.stdout
    assert "get_weather" in done.stdout
    assert "Tokyo" in done.stdout


def test_agents_come_from_a_file_and_answer_one_text(tmp_path: Path) -> None:
    app = tmp_path / "app.py"
    app.write_text(APP, encoding="utf-8")
    done = awaken("helper", "hi", "--app", str(app))
    assert (done.returncode, done.stdout.strip()) == (0, "At your service.")
    failed = awaken("broken", "hi", "--app", str(app))
    assert failed.returncode == 1
    assert "no model" in failed.stdout


@pytest.mark.parametrize(
    ("arguments", "content", "words"),
    [
        (
            ["nobody", "hi"],
            None,
            "Agent 'nobody' is not registered; known agents: a2ui, budget, compact",
        ),
        (["nobody"], None, "Agent 'nobody' is not registered; known agents: a2ui, budget, compact"),
        (["a", "hi", "--app", "missing.py"], None, "'missing.py' is not a file"),
        (["a", "hi", "--app", "{app}"], "x = 1", "defines no agent"),
    ],
)
def test_a_mistake_is_named_on_one_line_and_ends_with_code_2(
    arguments: list[str], content: str | None, words: str, tmp_path: Path
) -> None:
    app = tmp_path / "app.py"
    app.write_text(content or "", encoding="utf-8")
    done = awaken(*[argument.format(app=app) for argument in arguments])
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_the_version_is_printed() -> None:
    command = [sys.executable, "-m", "awaken", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == f"awaken {__version__}\n"
