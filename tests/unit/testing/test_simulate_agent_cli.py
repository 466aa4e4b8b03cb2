"""`awaken test` simulates the agents of a file, and says how to see a violation again."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import Result
from typer.testing import CliRunner

from awaken.cli.test_app import app

SOUND = """
from awaken import Agent, tool
from awaken.testing import ScriptedModel, ToolCalls

@tool(effect="once")
def pay(amount: int) -> str:
    "Pay."
    return "paid"

def said(request):
    assert request.messages[0].text == "Pay, please.", request.messages[0].text
    return ToolCalls([("pay", {"amount": 1})])

agent = Agent("payer", model=ScriptedModel([said, "done"]), tools=[pay])
SCENARIOS = {"payer": "Pay, please."}
"""

LEAKY = """
import asyncio
from awaken import Agent, tool
from awaken.testing import ScriptedModel, ToolCalls

@tool(effect="none")
async def leak() -> str:
    "Leak."
    asyncio.get_running_loop().create_task(asyncio.sleep(3600), name="leaked")
    return "ok"

agent = Agent("leaky", model=ScriptedModel([ToolCalls([("leak", {})]), "done"]), tools=[leak])
"""

REAL = """
from pathlib import Path
from awaken import Agent, tool

@tool(effect="none")
def touch(name: str) -> str:
    "Touch."
    Path({folder!r}, name).touch()
    return name

agent = Agent("real", model="openai:gpt-9", tools=[touch])
other = Agent("other", model="scripted")
"""


@pytest.fixture
def written(tmp_path: Path) -> Any:
    def write(text: str) -> str:
        path = tmp_path / "simulated_app.py"
        path.write_text(text, "utf-8")
        return str(path)

    return write


def awaken_test(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


def test_a_sound_file_passes_on_the_input_that_it_names(written: Any) -> None:
    told = awaken_test(written(SOUND), "--schedules", "5")
    assert told.exit_code == 0, told.output
    assert told.output == "payer  5 schedules, 10 crash points, 0 violations\n"


def test_a_violation_exits_with_one_and_says_how_to_see_it_again(written: Any) -> None:
    path = written(LEAKY)
    told = awaken_test(path, "--schedules", "5")
    assert told.exit_code == 1
    assert "task 'leaked' outlived its process" in told.output
    assert f"See it again: awaken test {path}" in told.output


def test_one_schedule_and_one_crash_can_be_seen_again(written: Any) -> None:
    told = awaken_test(written(LEAKY), "--seed", "3", "--crash", "before commit 1")
    assert told.exit_code == 1
    assert told.output.startswith("leaky  1 schedule, 1 crash point, 1 violation\n")
    assert "--seed 3 --crash 'before commit 1'" in told.output


def test_programs_get_the_report_as_json(written: Any) -> None:
    told = awaken_test(written(LEAKY), "--schedules", "2", "--json")
    (report,) = msgspec.json.decode(told.stdout)
    assert (told.exit_code, report["agent_id"], report["schedules"]) == (1, "leaky", 2)
    assert report["smallest"]["problems"] == ["task 'leaked' outlived its process"]


def test_tools_of_an_agent_with_a_real_model_are_executed_only_when_asked_for(
    written: Any, tmp_path: Path
) -> None:
    path = written(REAL.format(folder=str(tmp_path)))
    told = awaken_test(path, "--schedules", "2")
    assert told.exit_code == 0, told.output
    assert [line.split()[0] for line in told.output.splitlines()] == ["real", "other"]
    assert not (tmp_path / "text").exists()
    assert awaken_test(path, "--schedules", "2", "--real-tools").exit_code == 0
    assert (tmp_path / "text").exists()


def test_what_cannot_be_simulated_is_refused_in_one_line(written: Any, tmp_path: Path) -> None:
    for arguments in ([str(tmp_path / "none.py")], [written(SOUND), "--crash", "at noon"]):
        told = awaken_test(*arguments)
        assert told.exit_code == 2
        assert told.output.startswith("awaken: ")
