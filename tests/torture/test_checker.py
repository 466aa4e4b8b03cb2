"""The checker finds what it has to find; a checker that finds nothing proves nothing."""

import os
import sqlite3
from pathlib import Path

import pytest

from awaken.stores.sqlite.writer import run_without_suspending

from .checker import check_after_quiescence, ledger_problems
from .children import Child, Ended
from .history import Effect, History, Ledger, parsed
from .playing import play
from .store_file import StoreFile, problems_of


@pytest.fixture
def played(tmp_path: Path) -> tuple[Path, History]:
    """A store with work in it, and the log of whoever did it."""
    path = tmp_path / "store.db"
    ended = Child(lambda fd: _play(path, fd)).wait()
    assert ended.is_done
    return path, ended.history


def _play(path: Path, fd: int) -> None:
    play("approval", path, fd)


def test_an_honest_history_has_no_problems(played: tuple[Path, History]) -> None:
    path, history = played
    assert len(history) == 6
    assert problems_of(path, history) == []


def test_an_empty_history_is_a_problem(played: tuple[Path, History]) -> None:
    path, _ = played
    assert problems_of(path, History()) == ["the history is empty"]


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        ("DELETE FROM messages WHERE place % 4294967296 = 2", "messages"),
        ("DELETE FROM commits WHERE place % 4294967296 = 3", "has the commits [1, 2, 4, 5]"),
        ("DELETE FROM commits WHERE place % 4294967296 = 5", "acknowledged and is lost"),
        ("UPDATE commits SET events = NULL WHERE events IS NOT NULL", "events"),
        ("DELETE FROM dispatches", "dispatch approval-go"),
        ("DELETE FROM tickets", "its ticket approval-ticket-c1 is missing"),
        ("DELETE FROM runs", "run"),
        ("UPDATE threads SET queued = 1", "its head says 1"),
        ("UPDATE threads SET claim_token = 'approval-token'", "which is still there"),
        ("UPDATE threads SET claim_dispatch = 'approval-go'", "which is not claimed"),
    ],
)
def test_each_kind_of_loss_is_found(
    played: tuple[Path, History], damage: str, problem: str
) -> None:
    path, history = played
    raw = sqlite3.connect(path)
    with raw:
        raw.execute(damage)
    raw.close()
    assert any(problem in it for it in problems_of(path, history))


def test_a_commit_that_was_never_made_is_missed(played: tuple[Path, History]) -> None:
    path, history = played
    other = Child(lambda fd: play("turns", path.with_name("other.db"), fd)).wait()
    found = problems_of(path, history + other.history)
    assert any("acknowledged and is lost" in it for it in found)


def test_work_that_was_left_undone_is_found_after_quiescence(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    ended: Ended = Child(lambda fd: play("approval", path, fd, last=4)).wait()
    file = StoreFile(path)
    found = run_without_suspending(check_after_quiescence(file, ended.history))
    file.shut()
    assert any("still claimed" in it for it in found)
    assert any("dispatch approval-go is still claimed" in it for it in found)


def test_a_call_that_ended_may_not_start_again(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")
    ledger.note("run", "call", 1, "start")
    ledger.note("run", "call", 1, "end")
    assert ledger_problems(ledger.read()) == []
    ledger.note("run", "call", 2, "start")
    assert len(ledger_problems(ledger.read())) == 1
    assert ledger_problems(ledger.read(), repeatable=["call"]) == []
    assert [it.pid for it in ledger.read()] == [os.getpid()] * 3
    assert ledger_problems([Effect(run_id="r", call_id="c", attempt=1, pid=1, at="start")]) == []


def test_a_line_that_a_kill_cut_short_is_left_out() -> None:
    whole = b'{"at":"invoke","op":"a.1","kind":"commit","digest":"0"}\n'
    assert len(parsed(whole + whole[:20])) == 1
