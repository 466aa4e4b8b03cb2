"""Every command with streams that are closed, full, unread or of another encoding."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.forked_python import run_python

from awaken.cli.examples import EXAMPLES

from .pseudo_terminal import CTRL_D, PseudoTerminal
from .test_help_examples import prepared, shop, words_of

__all__ = ["prepared", "shop"]

APART = {"serve", "worker", "mcp-login", "models test", "demo crash", "test", "completion"}
"""Commands that go on, ask another server, or take long; three of them have their own test."""
DRIVER = Path(__file__).with_name("stream_driver.py")
ALL = ("stdin closed", "stdout closed", "stdout full", "stdout ascii", "stderr closed")
"""Streams that every command is tried with."""
SOME = ("stdin binary", "stdout unread", "stderr full")
"""Streams that commands of every kind are tried with."""
KINDS = ("init", "chat", "run", "doctor", "mcp", "runs list", "config secrets set", "steer")
QUIET = (["mcp", "agent.py"], ["audit", "export", "--after", "100"])
"""Commands that have nothing to print here."""
LINES_MAX = 6


def list_command_lines(illness: str) -> list[list[str]]:
    paths = [it for it in EXAMPLES if it not in APART and (illness in ALL or it in KINDS)]
    # The driver has no shell for the input of an example.
    lines = [[it for it in words_of(path) if it not in ("<", "key.txt")] for path in paths]
    help_texts = [[*path.split(), "--help"] for path in ("run", "config secrets set")]
    return [*lines, *help_texts, ["completion", "bash"], ["--help"], ["--version"], ["nonsense"]]


@pytest.mark.parametrize("illness", [*ALL, *SOME])
def test_no_command_ends_with_a_traceback(illness: str, shop: Path, tmp_path: Path) -> None:
    commands, results = tmp_path / "commands.json", tmp_path / "results.json"
    lines = list_command_lines(illness)
    commands.write_text(json.dumps(lines))
    driven = run_python(str(DRIVER), illness, str(commands), str(results), cwd=shop)
    assert driven.returncode == 0, driven.stderr
    ended = json.loads(results.read_text())
    assert [it["words"] for it in ended] == lines
    for end in ended:
        assert "Traceback" not in end["error"], end
        assert end["code"] in (0, 1, 2), end
        assert len(end["error"].splitlines()) <= LINES_MAX, end
    printing = [it for it in ended if it["words"] not in QUIET]
    if illness in ("stdout closed", "stdout full", "stdout unread"):
        assert [it for it in printing if it["code"] == 0] == []
    if illness in ("stdout closed", "stdout full"):
        assert [it for it in printing if not it["error"].strip()] == []
    if illness in ("stdout ascii", "stderr closed", "stderr full"):
        by_words = {tuple(it["words"]): it["code"] for it in ended}
        assert by_words["--version",] == by_words["doctor", "agent.py"] == 0


def awaken(*words: str, shell: str, folder: Path) -> tuple[int, str]:
    """Run a command with redirections of a shell; its exit code and what it says on stderr."""
    done = subprocess.run(
        ["/bin/sh", "-c", f'exec "$@" {shell}', "sh", sys.executable, "-m", "awaken", *words],
        cwd=folder, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, timeout=60,
        check=False,
    )  # fmt: skip
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("words", "shell", "said"),
    [
        (["run", "hello there"], ">&-", "stdout cannot be written: Bad file descriptor"),
        (["run", "hello there"], ">/dev/full", "stdout cannot be written: No space left on device"),
        (["chat"], "<&-", "stdin cannot be read: Bad file descriptor."),
        (["mcp"], "<&-", "stdin cannot be read: Bad file descriptor."),
        (["acp"], "</dev/null", "stdin and stdout must be pipes to the editor that starts this "
         "command."),
    ],
)  # fmt: skip
def test_a_stream_that_cannot_be_used_is_named_on_one_line(
    words: list[str], shell: str, said: str, tmp_path: Path
) -> None:
    code, error = awaken(*words, shell=shell, folder=tmp_path)
    assert (code in (1, 2), error) == (True, f"awaken: {said}\n")


@pytest.mark.parametrize(
    "environment",
    [
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"PYTHONIOENCODING": "latin-1"},
    ],
)
def test_a_terminal_without_utf_8_gets_plain_lines(
    environment: dict[str, str], tmp_path: Path
) -> None:
    options = {"environment": environment, "fresh": True}
    with PseudoTerminal("chat", folder=tmp_path, **options) as terminal:
        terminal.wait_for("you> ")
        terminal.type("hello \u2713\n")
        terminal.wait_for("Scripted response to: hello")
        terminal.wait_for("you> ", times=2)
        terminal.type(CTRL_D)
        assert terminal.end() == 0
    assert "Traceback" not in terminal.text
    assert "\\u28" not in terminal.text


def test_a_question_before_a_change_names_a_stdin_that_is_closed(shop: Path) -> None:
    code, error = awaken("threads", "delete", "invoices", shell="<&-", folder=shop)
    assert (code, error) == (2, "awaken: stdin cannot be read: Bad file descriptor.\n")


def test_a_program_that_has_read_its_stdin_can_call_a_command() -> None:
    program = (
        "import sys; sys.stdin.readline(); from awaken.cli.main import app; "
        "app(['completion', 'bash'], standalone_mode=False)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], input="a line\n", capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, "complet" in done.stdout) == (0, True), done.stderr
