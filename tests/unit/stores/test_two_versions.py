"""Two versions of the code on one store: roll forward, roll back, contract.

The code of these tests is the older version; the newer one has the migrations of this file as well.
"""

import asyncio
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.postgres.server import new_schema, server
from tests.postgres.stores import opened

from awaken.contracts.errors import StoreTooNew, StoreUnavailable
from awaken.contracts.runs.threads import Thread
from awaken.stores.postgres import PostgresStore, schema
from awaken.stores.sql import migrations as numbered
from awaken.stores.sqlite import SqliteStore, connection
from awaken.testing.store_conformance.writing import refusal

Opener = Callable[[], SqliteStore | PostgresStore]

ADDED = """ALTER TABLE threads ADD COLUMN note TEXT;
CREATE TABLE notes (thread_no BIGINT NOT NULL, note TEXT NOT NULL);
"""
INDEXED = "CREATE INDEX CONCURRENTLY IF NOT EXISTS threads_note ON threads (note);\n"
TAKEN_AWAY = "DROP INDEX tickets_decided;\n"
KNOWN = {name: len(numbered.migrations(f"awaken.stores.{name}")) for name in ("postgres", "sqlite")}


@contextmanager
def newer_code(*expands: str, closing: str = TAKEN_AWAY) -> Iterator[None]:
    """Code that has further migrations, the first of which a contract migration closes."""
    with pytest.MonkeyPatch.context() as patch:
        for module, name in ((schema, "postgres"), (connection, "sqlite")):
            package = f"awaken.stores.{name}"
            scripts = [*numbered.migrations(package), *(expands or (ADDED,))]
            patch.setattr(module, "migrations", lambda _, scripts=scripts: scripts)
            closed = {KNOWN[name] + 1: closing}
            patch.setattr(module, "contracts", lambda _, closed=closed: closed)
        yield


@pytest.fixture(params=["postgres", "sqlite"])
def kind(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture
def make(kind: str, tmp_path: Path) -> Opener:
    if kind == "sqlite":
        return lambda: SqliteStore(tmp_path / "store.db")
    name = new_schema()
    return lambda: PostgresStore(server().url, schema=name)


def test_older_code_goes_on_starts_again_and_is_refused_after_the_contract(
    kind: str, make: Opener
) -> None:
    known = KNOWN[kind]

    async def check() -> None:
        old = make()
        await old.open()
        await old.save_thread(Thread(id="by-old"))
        with newer_code():
            new = make()
            await new.open()
            assert (await new.schema_versions()).found == known + 1
            await new.save_thread(Thread(id="by-new"))
        # The old process goes on, and sees what the new one writes.
        await old.save_thread(Thread(id="by-old-later"))
        assert await old.load_thread("by-new") is not None
        assert await new.load_thread("by-old-later") is not None
        await new.close()
        await old.close()
        # Back to the old version: nothing of the newer schema is lost or undone.
        back = make()
        await back.open()
        await back.save_thread(Thread(id="by-old-again"))
        await back.close()
        versions = await back.schema_versions()
        assert (versions.found, versions.known) == (known + 1, known)
        with newer_code():
            assert (await make().contract_schema()).readable_from == known + 1
            assert (await make().contract_schema()).readable_from == known + 1
            forward = make()
            await forward.open()
            assert await forward.load_thread("by-old-again") is not None
            await forward.close()
        raised = await refusal(StoreTooNew, make().open())
        assert (raised.found, raised.readable_from, raised.known) == (known + 1, known + 1, known)
        await refusal(StoreTooNew, make().contract_schema())

    asyncio.run(check())


def test_a_contract_needs_the_schema_that_it_closes(make: Opener) -> None:
    async def check() -> None:
        old = make()
        await old.open()
        await old.close()
        before = await old.schema_versions()
        with newer_code():
            assert "schema" in str(await refusal(StoreUnavailable, make().contract_schema()))
        assert await old.schema_versions() == before

    asyncio.run(check())


def test_a_contract_that_fails_leaves_the_store_readable(make: Opener) -> None:
    async def check() -> None:
        first = make()
        await first.open()
        await first.close()
        with newer_code(closing="DROP INDEX tickets_decided;\nDROP INDEX is_not_there;\n"):
            new = make()
            await new.open()
            await new.close()
            await refusal(StoreUnavailable, make().contract_schema())
        old = make()
        await old.open()
        await old.close()

    asyncio.run(check())


def test_a_new_store_is_contracted_from_its_beginning() -> None:
    async def check() -> None:
        async with opened(schema=new_schema()) as store:
            versions = await store.schema_versions()
            assert versions.readable_from == max(numbered.contracts("awaken.stores.postgres"))
            assert await store.contract_schema() == versions

    asyncio.run(check())


def test_many_processes_start_at_once_and_one_builds_the_index() -> None:
    async def check() -> None:
        name = new_schema()
        async with opened(schema=name) as old:
            await old.save_thread(Thread(id="thread-1"))
            with newer_code(ADDED, INDEXED):
                stores = [PostgresStore(server().url, schema=name) for _ in range(6)]
                async with asyncio.timeout(100):
                    await asyncio.gather(*(store.open() for store in stores))
                await asyncio.gather(*(store.close() for store in stores))
            assert (await old.schema_versions()).found == KNOWN["postgres"] + 2
        assert await is_valid(name) == [True]

    asyncio.run(check())


def test_an_index_that_a_crash_left_unfinished_is_built_again() -> None:
    async def check() -> None:
        name = new_schema()
        async with opened(schema=name):
            pass
        with newer_code(ADDED):
            await migrate(name)
        await server().sql(f"CREATE INDEX threads_note ON {name}.threads (note)")
        await server().sql(
            "UPDATE pg_index SET indisvalid = false WHERE indexrelid = to_regclass($1)",
            f"{name}.threads_note",
        )
        assert await is_valid(name) == [False]
        with newer_code(ADDED, INDEXED):
            await migrate(name)
        assert await is_valid(name) == [True]

    asyncio.run(check())


def test_a_locked_table_is_not_waited_for_with_others_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(schema, "LOCK_MS", 50)
    monkeypatch.setattr(schema, "PAUSE_S", 0.01)
    monkeypatch.setattr(schema, "TRIES", 3)

    async def check() -> None:
        name = new_schema()
        async with opened(schema=name) as old:
            left = asyncio.Event()
            entered = asyncio.Event()

            async def read(session: object) -> None:
                await session.one("find_thread", "thread-1")  # type: ignore[attr-defined]
                entered.set()
                await left.wait()

            reading = asyncio.create_task(old.database.read(read))
            await entered.wait()
            with newer_code():
                async with asyncio.timeout(60):
                    refused = await refusal(StoreUnavailable, migrate(name))
                assert "pg_stat_activity" in str(refused)
                left.set()
                await reading
                await migrate(name)
            assert (await old.schema_versions()).found == KNOWN["postgres"] + 1

    asyncio.run(check())


async def migrate(name: str) -> None:
    store = PostgresStore(server().url, schema=name)
    await store.open()
    await store.close()


async def is_valid(name: str) -> list[bool]:
    rows = await server().sql(
        "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass($1)", f"{name}.threads_note"
    )
    return [row["indisvalid"] for row in rows]


# What an expand script may not do.


ALLOWED = (
    r"CREATE TABLE .*",
    r"CREATE (UNIQUE )?INDEX CONCURRENTLY IF NOT EXISTS .*",
    r"ALTER TABLE \w+ ADD COLUMN \w+ (?!.*NOT NULL(?!.*DEFAULT)).*",
    r"ALTER TABLE \w+ SET \(.*\)",
    r"INSERT INTO .*",
)


def list_breaking(script: str) -> list[str]:
    """The statements that older code, or a table that is in use, would not bear."""
    text = re.sub(r"--[^\n]*", "", script)
    statements = [" ".join(it.split()) for it in text.split(";") if it.strip()]
    made = {it.split()[2] for it in statements if it.startswith("CREATE TABLE")}
    found = []
    for statement in statements:
        index = re.match(r"CREATE (?:UNIQUE )?INDEX (?:IF NOT EXISTS )?\w+ ON (\w+)", statement)
        if index is not None and index[1] in made:
            continue
        if not any(re.fullmatch(rule, statement) for rule in ALLOWED):
            found.append(statement)
    if "CONCURRENTLY" in text and not all("IF NOT EXISTS" in it for it in statements):
        found.append("CONCURRENTLY beside statements that cannot be run again")
    return found


@pytest.mark.parametrize(
    "script",
    [
        "DROP TABLE notes;",
        "ALTER TABLE threads DROP COLUMN note;",
        "ALTER TABLE threads RENAME COLUMN note TO text;",
        "ALTER TABLE threads ADD COLUMN note TEXT NOT NULL;",
        "ALTER TABLE threads ALTER COLUMN note TYPE BIGINT;",
        "CREATE INDEX threads_note ON threads (note);",
        f"{ADDED}{INDEXED}",
    ],
)
def test_what_breaks_older_code_is_found(script: str) -> None:
    assert list_breaking(script)


def test_expand_scripts_leave_what_older_code_uses() -> None:
    assert list_breaking(ADDED) == list_breaking(INDEXED) == []
    assert list_breaking("ALTER TABLE t ADD COLUMN n BIGINT NOT NULL DEFAULT 0;") == []
    later = numbered.migrations("awaken.stores.postgres")[schema.FIRST_READABLE :]
    # What replaces a table in steps is shown with both versions: test_postgres_log_migration.py.
    plain = [it for it in later if "PARTITION BY" not in it]
    assert len(later) - len(plain) == 1
    steps = [step for it in plain for step in schema.STEP.split(it)]
    assert {it: found for it in steps if (found := list_breaking(it))} == {}


def test_a_file_that_says_neither_expand_nor_contract_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "migrations"
    folder.mkdir()
    monkeypatch.setattr(numbered, "files", lambda _: tmp_path)
    (folder / "0001_first.expand.sql").write_text("SELECT 1;", "utf-8")
    (folder / "0001_first.contract.sql").write_text("SELECT 2;", "utf-8")
    assert numbered.migrations("any") == ["SELECT 1;"]
    assert numbered.contracts("any") == {1: "SELECT 2;"}
    (folder / "0003_third.expand.sql").write_text("SELECT 3;", "utf-8")
    with pytest.raises(ValueError, match="not numbered"):
        numbered.migrations("any")
    (folder / "0002_second.sql").write_text("SELECT 2;", "utf-8")
    with pytest.raises(ValueError, match=r"0002_second\.sql"):
        numbered.migrations("any")
