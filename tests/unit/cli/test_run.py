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


CONTEXT_APP = """
from dataclasses import dataclass
from awaken import Agent
from awaken.testing import ScriptedModel

@dataclass
class Customer:
    id: str

def greet(request):
    return request.system[0]

helper = Agent(
    "helper",
    model=ScriptedModel([greet], cycle=True),
    instructions="Greet {context.id}.",
    context_type=Customer,
)
"""


def test_every_run_has_the_context_of_the_command_line_also_on_a_new_thread(tmp_path: Path) -> None:
    app = tmp_path / "app.py"
    app.write_text(CONTEXT_APP, encoding="utf-8")
    done = awaken(str(app), "--context", '{"id": "c-7"}', typed="hi\n/new\nhi again\n")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Greet c-7.") == 2


@pytest.mark.parametrize(
    ("context", "words"),
    [
        ("c-7", "--context is invalid: it is no JSON object"),
        ("[1]", "--context is invalid: it is no JSON object"),
        ('{"id": 7}', "$.id"),
    ],
)
def test_a_context_that_does_not_fit_is_named(context: str, words: str, tmp_path: Path) -> None:
    app = tmp_path / "app.py"
    app.write_text(CONTEXT_APP, encoding="utf-8")
    done = awaken(str(app), "hello there", "--context", context)
    assert done.returncode == 2
    assert words in done.stderr


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
