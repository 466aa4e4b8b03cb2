"""What a person reads of a call before deciding: nothing of it is out of sight."""

import re
from pathlib import Path

import pytest

from awaken.cli.ticket_text import call_text, spell_out, ticket_lines
from awaken.contracts.suspension.tickets import Suspension, Ticket

from .pseudo_terminal import PseudoTerminal

APP = """
from awaken import Agent, tool
from awaken.extensions.permission import PermissionPlugin
from awaken.testing import ScriptedModel, ToolCalls
from pathlib import Path

HERE = Path(__file__).parent
TEXT = "\\n".join(f"line {number}" for number in range(600)) + "\\nrm -rf THE_END"


@tool
async def shell(command: str) -> str:
    "Run a command."
    (HERE / "ran").write_text(command)
    return "ran"


model = ScriptedModel([ToolCalls([("shell", {"command": TEXT})]), "Done."])
rules = {"permission": {"default_behavior": "ask"}}
agent = Agent("asks", model=model, tools=[shell], plugins=[PermissionPlugin()], config=rules)
"""
NEXT = "Enter shows the next"


def _lines(arguments: object) -> list[str]:
    ticket = Ticket(
        ticket_id="t",
        thread_id="t",
        run_id="r",
        call_id="c",
        tool_name="shell",
        arguments=arguments,
        suspension=Suspension(action="tool:shell"),
    )
    return [text for text, _ in ticket_lines(ticket)]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"ls{' ' * 500}; rm", "ls<500 spaces>; rm"),
        (f"{' ' * 500}rm", "<500 spaces>rm"),
        ("a\t" + "\t" * 99 + "b", r"a<\t x 100>b"),
        ("a" + "\u200b" * 70 + "b", r"a<\u200b x 70>b"),
        ("a\u202eb\u2800\u3164\ufe0fc", r"a\u202eb\u2800\u3164\ufe0fc"),
        ("rm" + "\u0301\u0302" * 3, "rm\u0301\u0302\u0301\u0302\\u0301\\u0302"),
        ("/\u0302", r"/\u0302"),
        ("a b  c  नमस्ते e\u0301", "a b  c  नमस्ते e\u0301"),
    ],
)
def test_nothing_of_a_text_is_hidden(text: str, shown: str) -> None:
    assert spell_out(text) == shown


def test_empty_lines_do_not_push_a_command_out_of_sight() -> None:
    lines = _lines({"command": "ls" + "\n  " * 400 + "\nrm -rf /"})
    assert lines[1:5] == ["  command:", "    ls", "    <400 empty lines>", "    rm -rf /"]
    assert "    b" in _lines({"command": "a\n\nb"})


def test_all_of_a_long_argument_is_shown() -> None:
    assert "THE END" in "".join(_lines({"command": "x" * 100_000 + "THE END"}))


def test_a_call_on_one_line_says_that_it_is_cut() -> None:
    assert call_text("shell", {"c": f"ls{' ' * 500}; rm"}) == 'shell(c="ls<500 spaces>; rm")'
    assert call_text("shell", {"c": "x" * 900}).endswith("…)")
    assert call_text("shell", {"c": " " * 9_000 + "rm"}).endswith("…)")


@pytest.mark.parametrize("environment", [{}, {"TERM": "dumb"}])
def test_a_call_that_is_longer_than_the_screen_is_shown_in_parts_before_it_is_asked(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    (tmp_path / "app.py").write_text(APP)
    command = ("run", "app.py", "asks", "go")
    with PseudoTerminal(*command, folder=tmp_path, environment=environment) as terminal:
        terminal.wait_for(NEXT)
        parts = int(re.findall(r"part 1 of (\d+)", terminal.text)[0])
        assert parts > 2
        for shown in range(1, parts):
            terminal.wait_for(NEXT, times=shown)
            # A yes before the end is none.
            assert "[y]es / [n]o" not in terminal.text
            terminal.type("y\n")
        terminal.wait_for("[y]es / [n]o")
        assert "THE_END" in terminal.text
        assert not (tmp_path / "ran").exists()
        terminal.type("y\n")
        terminal.wait_for("Done.")
        assert terminal.end() == 0
    assert (tmp_path / "ran").read_text().endswith("THE_END")


def test_a_no_before_all_of_it_was_shown_declines(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    with PseudoTerminal("run", "app.py", "asks", "go", folder=tmp_path) as terminal:
        terminal.wait_for(NEXT)
        terminal.type("n\n")
        terminal.wait_for("Done.")
        assert terminal.end() == 0
    assert not (tmp_path / "ran").exists()
