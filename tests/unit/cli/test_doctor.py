"""`awaken doctor`: finds what is wrong, says how to mend it, and creates nothing."""

import asyncio
import os
import socket
import sqlite3
from pathlib import Path
from urllib.parse import quote

import msgspec
import pytest
from tests.nats_servers.cluster import nats_server
from tests.postgres.server import new_schema, server

from awaken.cli import doctor_checks, doctor_store
from awaken.cli.doctor_checks import CheckStatus
from awaken.contracts.state.profile import ProfileEntry
from awaken.services.workers import OWNER, WorkerEntry
from awaken.stores.postgres import PostgresStore

from .conftest import Answer, Call

KEY = "sk-very-secret-0123456789"


@pytest.fixture(autouse=True)
def calm(monkeypatch: pytest.MonkeyPatch) -> None:
    """No keys, and any free port."""
    for name in list(os.environ):
        if name.endswith(("_API_KEY", "_BASE_URL")) or name.startswith("AWS_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWAKEN_HTTP_ADDR", "127.0.0.1:0")


def check(answer: Answer, name: str) -> dict[str, str]:
    (found,) = [it for it in answer.document["checks"] if it["name"] == name]
    return {"status": "ok", "detail": "", **found}


def test_an_empty_folder_is_fine_and_stays_empty(call: Call, tmp_path: Path) -> None:
    done = call("doctor", "--json")
    assert (done.code, done.document["is_good"]) == (0, True)
    for name in ("awaken", "python", "port", "clock"):
        assert check(done, name)["status"] == CheckStatus.OK
    assert check(done, "store")["status"] == CheckStatus.ABSENT
    assert check(done, "keys")["status"] == CheckStatus.ABSENT
    assert check(done, "extra mcp")["detail"].startswith("mcp ")
    assert list(tmp_path.iterdir()) == []
    assert "Nothing is wrong." in call("doctor").out


def test_the_carrier_is_named_and_a_carrier_that_is_away_is_a_warning(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert check(call("doctor", "--json"), "carrier")["status"] == CheckStatus.ABSENT
    place = nats_server().url.removeprefix("nats://")
    monkeypatch.setenv("AWAKEN_BUS", f"nats://ann:s3cr3t@{place}")
    there = call("doctor", "--json")
    assert check(there, "carrier")["detail"] == f"nats://{place}: connected"
    away = call("doctor", "--bus", "nats://127.0.0.1:1", "--json")
    assert (away.code, check(away, "carrier")["status"]) == (0, CheckStatus.WARNING)
    wrong = call("doctor", "--bus", "carrier-pigeon", "--json")
    assert (wrong.code, check(wrong, "carrier")["status"]) == (1, CheckStatus.FAILED)
    assert "s3cr3t" not in there.out + away.out


def test_a_store_is_reached_written_and_left_as_it_was(call: Call, db: Path) -> None:
    before = count_entries(db)
    done = call("doctor", "--json")
    assert done.code == 0, done.out
    assert "schema" in check(done, "store")["detail"]
    assert check(done, "store writable")["status"] == CheckStatus.OK
    assert "ms from this process" in check(done, "store clock")["detail"]
    assert count_entries(db) == before


def count_entries(db: Path) -> int:
    connection = sqlite3.connect(db)
    try:
        (count,) = connection.execute("SELECT count(*) FROM profiles").fetchone()
    finally:
        connection.close()
    return int(count)


def test_a_store_that_cannot_be_used_fails_the_check(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = call("doctor", "--store", f"sqlite:///{tmp_path / 'gone' / 'a.db'}", "--json")
    assert (gone.code, check(gone, "store")["status"]) == (1, CheckStatus.FAILED)
    (tmp_path / "no.db").write_text("This is no database, but a text that is long enough. " * 90)
    odd = call("doctor", "--store", "sqlite:///no.db", "--json")
    assert check(odd, "store")["status"] == CheckStatus.FAILED
    unknown = call("doctor", "--store", "mysql://x", "--json")
    assert check(unknown, "store")["status"] == CheckStatus.FAILED
    away = call("doctor", "--store", "postgresql://u:hunter2@127.0.0.1:1/x", "--json")
    assert check(away, "store")["status"] == CheckStatus.FAILED
    assert "hunter2" not in away.out


def test_a_store_of_another_schema_is_not_migrated(call: Call, db: Path) -> None:
    with sqlite3.connect(db) as connection:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        connection.execute(f"PRAGMA user_version = {version - 1}")
    older = check(call("doctor", "--json"), "store")
    assert older["status"] == CheckStatus.WARNING
    assert "awaken db migrate" in older["remedy"]
    with sqlite3.connect(db) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (version - 1,)
        connection.execute(f"PRAGMA user_version = {version + 1}")
    assert check(call("doctor", "--json"), "store")["status"] == CheckStatus.OK
    with sqlite3.connect(db) as connection:
        newest = (version + 1,)
        connection.execute("UPDATE facts SET value = ? WHERE name = 'readable_from'", newest)
    newer = call("doctor", "--json")
    assert (newer.code, check(newer, "store")["status"]) == (1, CheckStatus.FAILED)


def test_a_server_is_reached_and_a_schema_that_is_not_there_is_not_made(call: Call) -> None:
    store = PostgresStore(server().url, schema=new_schema())

    async def versions() -> tuple[int, int]:
        found = await store.schema_versions()
        return found.found, found.known

    async def make() -> None:
        await store.open()
        await store.close()

    found, known = asyncio.run(versions())
    assert (found, known > 0) == (0, True)
    assert asyncio.run(versions()) == (0, known)
    asyncio.run(make())
    assert asyncio.run(versions()) == (known, known)
    done = call("doctor", "--store", server().url, "--json")
    assert check(done, "store")["status"] in (CheckStatus.OK, CheckStatus.WARNING)


def test_a_server_with_too_few_connections_is_noticed(call: Call) -> None:
    url = server().url

    async def make(live: int) -> None:
        # The command takes the default schema, which an earlier test may have filled.
        await server().sql("DROP SCHEMA IF EXISTS awaken CASCADE")
        store = PostgresStore(url)
        await store.open()
        now = await store.now_ms()
        for number in range(live):
            entry = WorkerEntry(id=f"p-{number}", version="1", host="h", pid=1, at=now)
            value = msgspec.to_builtins(entry)
            await store.save_entry(ProfileEntry(owner=OWNER, key=entry.id, value=value))
        await store.close()

    asyncio.run(make(live=2))
    enough = check(call("doctor", "--store", url, "--json"), "store connections")
    assert enough["status"] == CheckStatus.OK
    assert "takes up to 10 of" in enough["detail"]
    assert "processes: 2" in enough["detail"]
    too_many = call("doctor", "--store", f"{url}&pool=60", "--json")
    short = check(too_many, "store connections")
    assert short["status"] == CheckStatus.WARNING
    assert "max_connections" in short["remedy"]
    assert "124" in short["remedy"]
    # With a pooler before the server, a process has two sessions of its own.
    pooled = call("doctor", "--store", f"{url}&pool=60&direct={quote(url, safe='')}", "--json")
    assert "takes up to 2 of" in check(pooled, "store connections")["detail"]
    asyncio.run(make(live=0))


def test_a_clock_that_is_off_is_noticed(
    call: Call, db: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Late:
        def now_ms(self) -> int:
            return 1_000_000

    monkeypatch.setattr(doctor_store, "SystemClock", Late)
    monkeypatch.setattr(doctor_checks, "SystemClock", Late)
    done = call("doctor", "--json")
    assert check(done, "store clock")["status"] == CheckStatus.WARNING
    assert check(done, "clock")["status"] == CheckStatus.WARNING


def test_keys_are_named_and_never_shown(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GROQ_API_KEY", KEY)
    monkeypatch.setenv("XAI_API_KEY", f"{KEY}\u200b")
    done = call("doctor", "--json")
    assert done.code == 1
    assert check(done, "key groq")["status"] == CheckStatus.OK
    assert check(done, "key xai")["status"] == CheckStatus.FAILED
    text = call("doctor")
    assert KEY not in done.out + text.out + text.err


def test_agents_without_a_key_fail_the_check(call: Call, tmp_path: Path) -> None:
    app = "from awaken import Agent\na = Agent('a', model='openai:gpt-5-mini')\n"
    (tmp_path / "app.py").write_text(app)
    done = call("doctor", "app.py", "--json")
    assert done.code == 1
    assert "OPENAI_API_KEY" in check(done, "agent's key")["detail"]
    (tmp_path / "app.py").write_text(app.replace("openai:", ""))
    wrong = call("doctor", "app.py", "--json")
    assert "did you mean 'openai:gpt-5-mini'?" in check(wrong, "agents")["detail"]


def test_a_port_that_is_taken_and_one_that_is_open_to_all_fail_the_check(call: Call) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = call("doctor", "--port", port, "--json")
    assert (done.code, check(done, "port")["status"]) == (1, CheckStatus.FAILED)
    exposed = call("doctor", "--host", "0.0.0.0", "--json")
    assert check(exposed, "port")["status"] == CheckStatus.FAILED


def test_a_machine_without_a_sandbox_is_told(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("awaken.extensions.skills.sandbox.shutil.which", lambda _: None)
    found = check(call("doctor", "--json"), "sandbox")
    assert found["status"] == CheckStatus.ABSENT
    assert "bubblewrap" in found["detail"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("import nothing_of_that_name", "ModuleNotFoundError"),
        ("def broken(", "SyntaxError"),
        ("x = 1", "defines no agent"),
        ("print('hi')\nraise SystemExit(3)", "sys.exit(3)"),
        ("import sys\nsys.exit('bye')", "sys.exit('bye')"),
        ("from awaken import Agent\na = Agent('')", "id"),
        (None, "is not a file"),
    ],
)
def test_an_app_that_is_ill_fails_one_check_and_the_others_are_made(
    call: Call, tmp_path: Path, content: str | None, words: str
) -> None:
    if content is not None:
        (tmp_path / "app.py").write_text(content)
    done = call("doctor", "app.py", "--json")
    assert done.code == 1
    found = check(done, "app")
    assert (found["status"], words in found["detail"]) == (CheckStatus.FAILED, True), found
    for name in ("python", "keys", "store", "port", "clock"):
        assert check(done, name)["status"] != CheckStatus.FAILED
    assert "1 of " in call("doctor", "app.py").out


@pytest.mark.parametrize("command", ["run", "serve", "worker", "chat"])
def test_an_app_that_exits_while_it_is_imported_is_named_by_every_command(
    call: Call, tmp_path: Path, command: str
) -> None:
    (tmp_path / "app.py").write_text("import sys\nsys.exit(0)\n")
    done = call(command, "app.py", "--store", "sqlite:///new.db")
    assert (done.code, "it calls sys.exit(0)" in done.err) == (2, True)


@pytest.mark.parametrize("kind", ["malformed", "binary", "missing"])
def test_a_file_of_variables_that_is_ill_fails_one_check(
    call: Call, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind == "missing":
        monkeypatch.setenv("AWAKEN_ENV_FILE", "gone.env")
    else:
        (tmp_path / ".env").write_bytes(KEY.encode() if kind == "malformed" else b"A=\xff\n")
    done = call("doctor", "--json")
    assert (done.code, done.err) == (1, "")
    found = check(done, ".env")
    assert found["status"] == CheckStatus.FAILED
    assert "AWAKEN_ENV_FILE" in found["remedy"]
    assert KEY not in done.out
    assert [it["name"] for it in done.document["checks"] if it.get("status") == "failed"] == [
        ".env"
    ]
