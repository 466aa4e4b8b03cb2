"""Which store a command works on, and that looking makes and changes nothing."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from awaken.contracts.storage.inspection import SchemaVersions

from .conftest import Call

LOOKS = (
    ("threads", "list"),
    ("runs", "show", "r"),
    ("tickets", "list"),
    ("dispatches", "list"),
    ("dead-letters", "list"),
    ("cancel", "x"),
    ("steer", "t", "hi"),
    ("decide", "t"),
    ("db", "check"),
)


@pytest.mark.parametrize("arguments", LOOKS)
def test_a_file_that_is_not_there_is_refused_and_not_made(
    call: Call, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    answer = call(*arguments, "--store", "sqlite:///nothing.db", "--json")
    assert (answer.code, answer.out, answer.error["code"]) == (1, "", "store_unavailable")
    assert "nothing.db" in answer.error["message"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("arguments", LOOKS)
def test_somebody_elses_database_is_not_touched(
    call: Call, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    with closing(sqlite3.connect(tmp_path / "other.db")) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    before = (tmp_path / "other.db").read_bytes()
    answer = call(*arguments, "--store", "sqlite:///other.db")
    assert answer.code == 1
    assert "it has no tables of awaken; `awaken db migrate` creates them" in answer.err
    assert (tmp_path / "other.db").read_bytes() == before


def test_without_a_name_the_command_says_how_to_name_a_store(call: Call, tmp_path: Path) -> None:
    answer = call("threads", "list", "--json")
    assert (answer.code, answer.error["code"]) == (2, "invalid_input")
    assert "--store" in answer.error["message"]
    assert "AWAKEN_STORE" in answer.error["message"]
    assert call("submit", "default", "hi").code == 2
    assert list(tmp_path.iterdir()) == []


def test_the_option_wins_over_the_environment_and_that_over_the_folder(
    call: Call, db: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(call("runs", "list", "--json").document["items"]) == 2
    assert call("db", "migrate", "--store", "sqlite:///env.db").code == 0
    monkeypatch.setenv("AWAKEN_STORE", "sqlite:///env.db")
    assert call("runs", "list", "--json").document["items"] == []
    named = ("--store", f"sqlite:///{db}")
    assert len(call("runs", "list", *named, "--json").document["items"]) == 2


def test_a_store_that_nobody_shares_is_refused(call: Call) -> None:
    answer = call("threads", "list", "--store", "memory://")
    assert answer.code == 2
    assert "no other process" in answer.err


@pytest.mark.parametrize("url", ["redis://host", "sqlite:///", "nonsense"])
def test_an_unknown_store_is_refused_on_one_line(call: Call, url: str) -> None:
    answer = call("threads", "list", "--store", url)
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert answer.err.startswith("awaken: ")


def test_what_is_no_database_is_named(call: Call, tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("hello " * 1000, encoding="utf-8")
    for arguments in (("threads", "list"), ("db", "check"), ("db", "migrate")):
        answer = call(*arguments, "--store", "sqlite:///text.db", "--json")
        assert (answer.code, answer.error["code"]) == (1, "store_corrupt")


def test_a_newer_store_is_refused(call: Call, db: Path) -> None:
    with closing(sqlite3.connect(db)) as connection, connection:
        connection.execute("PRAGMA user_version = 99")
        connection.execute("UPDATE facts SET value = '99' WHERE name = 'readable_from'")
    for arguments in (("threads", "list"), ("db", "check"), ("db", "migrate")):
        answer = call(*arguments, "--json")
        assert (answer.code, answer.error["code"]) == (1, "store_too_new")


def test_an_older_store_is_migrated_only_on_request(
    call: Call, db: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    older = SchemaVersions(found=1, readable_from=1, known=2)
    monkeypatch.setattr("awaken.stores.sqlite.checks.read_versions", lambda _connection: older)
    answer = call("threads", "list", "--json")
    assert (answer.code, answer.error["code"]) == (1, "store_unavailable")
    assert "`awaken db migrate`" in answer.error["message"]
