"""Questions in the terminal: what is typed is what happens, and what is unclear is asked again."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from tests.forked_python import run_python

from awaken.cli.ticket_prompts import ask_ticket
from awaken.contracts.suspension.permissions import PermissionScope
from awaken.contracts.suspension.tickets import (
    Asks,
    DecisionAction,
    Suspension,
    Ticket,
    ToolCallResume,
)

from .pseudo_terminal import CTRL_D, PseudoTerminal

RESUME, CANCEL = DecisionAction.RESUME, DecisionAction.CANCEL
OFFER = {"remember": {"scopes": ["once", "run", "thread"]}}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Your name"},
        "seats": {"type": "integer"},
        "size": {"type": "string", "enum": ["s", "m"]},
        "sure": {"type": "boolean", "default": True},
    },
    "required": ["name", "seats"],
}


class Terminal:
    """Types lines, and keeps what was shown."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.lines = list(lines)
        self.prompts: list[str] = []
        self.told: list[str] = []

    def read(self, prompt: str) -> str | None:
        self.prompts.append(prompt)
        return self.lines.pop(0) if self.lines else None


def asked(asks: Asks, lines: Iterable[str], **suspension: Any) -> tuple[ToolCallResume, Terminal]:
    ids = {"ticket_id": "t", "thread_id": "th", "run_id": "r", "call_id": "c", "tool_name": "x"}
    ticket = Ticket(**ids, asks=asks, suspension=Suspension(**suspension))
    terminal = Terminal(lines)
    return ask_ticket(ticket, terminal.read, terminal.told.append), terminal


def test_a_permission_takes_yes_or_no_and_asks_again_for_anything_else() -> None:
    decision, terminal = asked(Asks.PERMISSION, ["", "maybe", "a", "n"])
    assert (decision.action, terminal.prompts) == (CANCEL, ["[y]es / [n]o> "] * 4)
    assert len(terminal.told) == 3
    decision, _ = asked(Asks.PERMISSION, ["y"])
    assert (decision.action, decision.remember) == (RESUME, None)


def test_always_is_offered_where_it_is_remembered() -> None:
    decision, terminal = asked(Asks.PERMISSION, ["a"], parameters=OFFER)
    assert terminal.prompts == ["[y]es / [n]o / [a]lways> "]
    assert decision.action is RESUME
    assert decision.remember is not None
    assert decision.remember.scope is PermissionScope.THREAD


@pytest.mark.parametrize("asks", Asks)
def test_the_end_of_the_input_declines(asks: Asks) -> None:
    assert asked(asks, [])[0].action is CANCEL
    assert asked(asks, [], response_schema=SCHEMA)[0].action is CANCEL


def test_an_answer_is_data_also_when_it_looks_like_a_no() -> None:
    decision, _ = asked(Asks.ANSWER, ["no"])
    assert (decision.action, decision.result) == (RESUME, "no")
    assert asked(Asks.ANSWER, [" "])[0].action is CANCEL


def test_an_open_question_takes_a_no_or_an_answer() -> None:
    assert asked(Asks.EITHER, ["no"])[0].action is CANCEL
    assert asked(Asks.EITHER, ["", "blue"])[0].result == "blue"


def test_a_form_is_filled_in_field_by_field() -> None:
    lines = ["yes", "Ann", "many", "2", "xl", "m", ""]
    decision, terminal = asked(Asks.ANSWER, lines, response_schema=SCHEMA)
    assert decision.result == {"name": "Ann", "seats": 2, "size": "m", "sure": True}
    assert terminal.told == ["That is no integer.", "Say one of s, m."]
    assert terminal.prompts[1] == "Your name (string)> "
    assert asked(Asks.ANSWER, ["no"], response_schema=SCHEMA)[0].action is CANCEL
    assert asked(Asks.ANSWER, ["y", "Ann"], response_schema=SCHEMA)[0].action is CANCEL


APP = """
from awaken import Agent, tool
from awaken.extensions.permission import PermissionPlugin
from awaken.testing import ScriptedModel, ToolCalls

@tool
async def erase(name: str) -> str:
    print("ERASED", name)
    return "erased"

calls = [ToolCalls([("erase", {"name": name})]) for name in ("one", "two")]
helper = Agent(
    "helper", model=ScriptedModel([*calls, "Done."]), tools=[erase], plugins=[PermissionPlugin()],
    config={"permission": {"default_behavior": "ask"}},
)
"""


QUESTION = "[y]es / [n]o / [a]lways> "


@pytest.mark.parametrize("term", ["dumb", "xterm-256color"])
@pytest.mark.parametrize(
    ("answers", "erased"),
    [
        (["no", "n"], 0),
        (["maybe", "", "deny", "cancel"], 0),
        (["y", "n"], 1),
        (["always"], 2),
    ],
)
def test_what_is_declined_in_the_terminal_does_not_run(
    answers: list[str], erased: int, term: str, tmp_path: Path
) -> None:
    (tmp_path / "app.py").write_text(APP, encoding="utf-8")
    words = ("run", "app.py", "helper", "go")
    with PseudoTerminal(*words, folder=tmp_path, environment={"TERM": term}) as terminal:
        for number, answer in enumerate(answers, start=1):
            terminal.wait_for(QUESTION, times=number)
            terminal.type(f"{answer}\n")
        terminal.wait_for("Done.")
        assert terminal.end() == 0
    assert terminal.text.count("ERASED") == erased
    # The person sees what it is about, also in the questions that come later.
    for name in ("one", "two")[: 1 if answers == ["always"] else 2]:
        shown = f"[erase {{'name': '{name}'}}] Permission required" if term == "dumb" else name
        assert shown in terminal.text


def test_the_end_of_the_input_at_a_question_declines_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP, encoding="utf-8")
    words = ("run", "app.py", "helper", "go")
    with PseudoTerminal(*words, folder=tmp_path, environment={"TERM": "dumb"}) as terminal:
        for number in (1, 2):
            terminal.wait_for(QUESTION, times=number)
            terminal.type(CTRL_D)
        terminal.wait_for("Done.")
        assert terminal.end() == 0
    assert terminal.text.count("[declined]") == 2
    assert "ERASED" not in terminal.text


def test_a_question_is_shown_at_the_terminal_where_the_answer_goes_to_a_file(
    tmp_path: Path,
) -> None:
    (tmp_path / "app.py").write_text(APP, encoding="utf-8")
    (tmp_path / "to_file.py").write_text(TO_FILE, encoding="utf-8")
    with PseudoTerminal("run", "to_file.py", "helper", "go", folder=tmp_path) as terminal:
        for number in (1, 2):
            terminal.wait_for(QUESTION, times=number)
            terminal.type("y\n")
        assert terminal.end() == 0
    assert "Done." in (tmp_path / "out").read_text()
    assert "Done." not in terminal.text


TO_FILE = """
import os, sys
os.dup2(os.open("out", os.O_WRONLY | os.O_CREAT), 1)
from app import helper
"""


def test_a_run_that_fails_after_the_answer_says_so_in_the_terminal(tmp_path: Path) -> None:
    app = tmp_path / "app.py"
    app.write_text(APP.replace('"Done."', 'ContextOverflow("Too long.")'), encoding="utf-8")
    imports = "from awaken.contracts.models.errors import ContextOverflow\n"
    app.write_text(imports + app.read_text(encoding="utf-8"), encoding="utf-8")
    done = run_python("-m", "awaken", "run", str(app), "helper", "go", "--approve", "all")
    assert done.returncode == 1, done.stderr
    assert "[failed: " in done.stdout
