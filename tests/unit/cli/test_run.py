"""`awaken run`: the demo works without a key, and mistakes are named."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.forked_python import run_python

from awaken import __version__

APP = """
from awaken import Agent
from awaken.testing import ScriptedModel

helper = Agent("helper", model=ScriptedModel(["At your service."]))
broken = Agent("broken", model=ScriptedModel([RuntimeError("no model")]))
"""


def awaken(*arguments: str, typed: str = "") -> subprocess.CompletedProcess[str]:
    return run_python("-m", "awaken", "run", *arguments, input=typed)


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
    assert done.stdout == ""


@pytest.mark.parametrize("words", [[], ["Hello"], ["helper", "Hello"]])
def test_a_context_that_is_missing_is_named_before_the_greeting_with_the_option(
    words: list[str], tmp_path: Path
) -> None:
    app = tmp_path / "app.py"
    app.write_text(CONTEXT_APP, encoding="utf-8")
    done = awaken(str(app), *words, typed="hello\n")
    assert (done.returncode, done.stdout) == (2, "")
    assert "missing required field `id`" in done.stderr
    assert done.stderr.endswith('Pass it with --context \'{"id":"…"}\'\n')


def test_another_agent_of_the_conversation_must_take_the_context_too(tmp_path: Path) -> None:
    app = tmp_path / "app.py"
    free = '\nfree = Agent("free", model=ScriptedModel(["Free."], cycle=True))\n'
    app.write_text(CONTEXT_APP + free, encoding="utf-8")
    done = awaken(str(app), "free", typed="/agent helper\nhi\n")
    assert "missing required field `id`" in done.stdout
    assert "Free." in done.stdout


def test_a_piped_conversation_with_a_failed_answer_exits_with_1(tmp_path: Path) -> None:
    app = tmp_path / "app.py"
    app.write_text(APP, encoding="utf-8")
    assert awaken(str(app), "broken", typed="hi\n").returncode == 1
    assert awaken(str(app), "helper", typed="hi\n").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "content", "words"),
    [
        (
            ["nobody", "hi"],
            None,
            "Agent 'nobody' is not registered; known agents: a2ui, budget, compact",
        ),
        (["budgett"], None, "'budgett' is no agent; did you mean 'budget'?"),
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


WORKFLOW_APP = """
from awaken import WorkflowContext, workflow

@workflow
async def parcel(ctx: WorkflowContext) -> None:
    await ctx.gather(ctx.wait_for("parcel"), ctx.sleep(days=3))
"""


def test_a_workflow_that_parks_says_what_it_waits_for_and_exits_with_1(tmp_path: Path) -> None:
    app = tmp_path / "app.py"
    app.write_text(WORKFLOW_APP, encoding="utf-8")
    lost = awaken(str(app), "{}")
    assert lost.returncode == 1
    assert "waits for the event 'parcel'" in lost.stderr
    assert "sleeps until 20" in lost.stderr
    assert "--store" in lost.stderr
    kept = awaken(str(app), "{}", "--store", f"sqlite:///{tmp_path / 'kept.db'}")
    assert kept.returncode == 1
    assert "awaken runs event " in kept.stderr


def test_the_version_is_printed() -> None:
    command = [sys.executable, "-m", "awaken", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == f"awaken {__version__}\n"
