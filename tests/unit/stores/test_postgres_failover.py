"""A URL with several hosts: the one that takes writes is found, also after a failover."""

import asyncio
import getpass
from pathlib import Path

import asyncpg
import pytest
from tests.postgres.proxy import mute_server
from tests.postgres.server import new_schema, server
from tests.postgres.standby import Standby, primary_and_standby
from tests.postgres.stores import opened
from tests.postgres.writing import append, commit_at, message_ids

from awaken.buses.postgres import PostgresBus
from awaken.contracts.errors import InvalidInput, StorageError, StoreUnavailable
from awaken.contracts.storage.bus import Signal, SignalKind
from awaken.contracts.storage.nodes import NodeKeeper, NodeReport
from awaken.outbound.postgres_hosts import PostgresHosts
from awaken.stores.postgres import PostgresStore
from awaken.testing.store_conformance.writing import refusal

NODE = NodeReport(node_id="node-1", kind="worker", version="1", host="here", pid=1)
LEASE_MS = 60_000


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("postgresql://ann@one,two/app", "postgresql://ann@one:5432,two:5432/app"),
        ("postgresql://ann:a%2Cb@one:1,two:2/app", "postgresql://ann@one:1,two:2/app"),
        ("postgresql://[::1]:1,[::2]/app", "postgresql://::1:1,::2:5432/app"),
        ("postgresql:///app?host=/a,/b", "postgresql:///a:5432,/b:5432/app"),
        ("postgresql:///app?host=one,two&port=1,2", "postgresql://one:1,two:2/app"),
    ],
)
def test_each_host_of_a_url_gets_a_url_of_its_own_that_asks_for_writes(url: str, name: str) -> None:
    hosts = PostgresHosts(url)
    assert hosts.name == name
    assert len(hosts.urls) == 2
    assert all("target_session_attrs=read-write" in it for it in hosts.urls)
    assert not any("," in it.rpartition("@")[2] for it in hosts.urls)


def test_a_url_with_one_host_reaches_the_driver_as_it_is() -> None:
    url = "postgresql://ann@db/app?target_session_attrs=any&sslmode=disable"
    assert PostgresHosts(url).urls == (url,)


def test_a_primary_may_be_asked_for_by_name() -> None:
    urls = PostgresHosts("postgresql://one,two/app?target_session_attrs=primary").urls
    assert all("target_session_attrs=primary" in it for it in urls)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://one,/app",
        "postgresql://one:1,two:many/app",
        "postgresql://ann:a@b@one,two/app",
        "postgresql:///app?host=/a,",
        "postgresql:///app?host=/a,/b,/c&port=1,2",
        "postgresql://one,two/app?target_session_attrs=standby",
        "postgresql://one/app?target_session_attrs=read-only",
    ],
)
def test_hosts_that_make_no_sense_are_refused(url: str) -> None:
    with pytest.raises(InvalidInput):
        PostgresStore(url)
    with pytest.raises(InvalidInput):
        PostgresBus(url)


@pytest.mark.parametrize("hosts", ["one", "one,two"])
@pytest.mark.parametrize(
    ("options", "reason"),
    [("sslmode=verify-full", "root.crt"), ("sslmode=always", "verify-full")],
)
def test_what_the_driver_says_of_an_option_is_said_to_the_operator(
    hosts: str, options: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Where the driver looks for the certificate of the authority.
    monkeypatch.setenv("HOME", str(tmp_path))

    async def main() -> None:
        url = f"postgresql://ann:hidden@{hosts}/app?{options}"
        store, bus = PostgresStore(url), PostgresBus(url)
        for opened_one in (store, bus):
            with pytest.raises((InvalidInput, StoreUnavailable)) as raised:
                await opened_one.open()
            told = str(raised.value)
            assert reason in told
            assert "hidden" not in told
            assert "\n" not in told
            assert "special characters" not in told

    asyncio.run(main())


def test_a_url_without_a_user_is_refused_where_the_process_has_no_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def raise_unknown() -> str:
        message = "getpwuid(): uid not found: 10001"
        raise KeyError(message)

    monkeypatch.setattr(getpass, "getuser", raise_unknown)
    for name in ("PGUSER", "PGSERVICE"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(InvalidInput, match="it names no user"):
        PostgresHosts("postgresql://one,two/app")
    assert PostgresHosts("postgresql://ann@one,two/app").urls
    assert PostgresHosts("postgresql:///app?host=/a&user=ann").urls
    monkeypatch.setenv("PGUSER", "ann")
    assert PostgresHosts("postgresql://one,two/app").urls


def test_a_host_that_never_answers_leaves_time_for_the_next_one() -> None:
    async def check() -> None:
        async with mute_server() as port:
            # The driver reads hosts of both kinds from the option only.
            url = (
                f"postgresql://postgres@/postgres?host=127.0.0.1,{server().folder}&port={port},5432"
            )
            store = PostgresStore(url, schema=new_schema(), connect_timeout_ms=2_000)
            bus = PostgresBus(url, connect_timeout_ms=2_000)
            async with asyncio.timeout(60):
                await store.open()
                await bus.open()
            assert bus.is_up
            await bus.close()
            await store.close()

    asyncio.run(check())


def test_when_no_host_accepts_the_error_has_the_reason_of_each(tmp_path: Path) -> None:
    async def check() -> None:
        one, two = tmp_path / "one", tmp_path / "two"
        url = f"postgresql://ann:s3cr3t@/app?host={one},{two}"
        for opening in (PostgresStore(url).open(), PostgresBus(url).open()):
            raised = await refusal(StoreUnavailable, opening)
            assert f"{one}:5432: " in str(raised)
            assert f"{two}:5432: " in str(raised)
            assert "s3cr3t" not in str(raised)

    asyncio.run(check())


def test_store_bus_and_heartbeat_go_on_at_the_promoted_standby_and_stay_there() -> None:
    async def check() -> None:
        with primary_and_standby() as (primary, standby):
            schema = new_schema()
            url = f"postgresql://postgres@/postgres?host={primary.folder},{standby.folder}"
            store = PostgresStore(url, schema=schema, pool_size=2)
            bus, keeper = PostgresBus(url, channel=schema), store.node_keeper()
            await store.open()
            await bus.open()
            await store.begin_node(NODE, LEASE_MS)
            await store.commit(commit_at(0, "c-1"))
            await standby.until_caught_up()
            backwards = f"postgresql://postgres@/postgres?host={standby.folder},{primary.folder}"
            async with opened(url=backwards, schema=schema) as other:
                assert await message_ids(other) == ["c-1"]
                await other.commit(commit_at(0, "c-0", "thread-2"))

            await asyncio.to_thread(primary.stop)
            await refusal(StoreUnavailable, store.commit(commit_at(1, "c-2")))
            raised = await refusal(StoreUnavailable, store.commit(commit_at(1, "c-2")))
            assert f"{standby.folder}:5432: it takes no writes" in str(raised)
            await asyncio.to_thread(standby.promote)
            await until_all_work(store, bus, keeper)
            await append(store, "c-2")

            # The former primary is back and does not know: it must not be used again.
            await asyncio.to_thread(primary.start)
            await end_sessions(standby)
            await store.commit(commit_at(2, "c-3"))
            await until_all_work(store, bus, keeper)
            assert await message_ids(store) == ["c-1", "c-2", "c-3"]
            async with opened(url=primary.url, schema=schema) as former:
                assert await message_ids(former) == ["c-1"]

            await asyncio.to_thread(keeper.close)
            await bus.close()
            await store.close()

    asyncio.run(check())


async def until_all_work(store: PostgresStore, bus: PostgresBus, keeper: NodeKeeper) -> None:
    """Wait until the store is read, a signal is heard and the lease is renewed."""
    heard: list[Signal] = []
    stop = bus.subscribe(heard.append)
    async with asyncio.timeout(30):
        while not heard or not await beats(keeper) or not await reads(store):
            bus.tell(Signal(kind=SignalKind.CONFIG_CHANGED))
            await asyncio.sleep(0.05)
    stop()


async def beats(keeper: NodeKeeper) -> bool:
    try:
        return not (await asyncio.to_thread(keeper.beat, NODE, LEASE_MS)).is_over
    except StorageError:
        return False


async def reads(store: PostgresStore) -> bool:
    try:
        return await store.load_thread("thread-1") is not None
    except StorageError:
        return False


async def end_sessions(standby: Standby) -> None:
    """End all sessions of a server, so that everything connects anew."""
    connection = await asyncpg.connect(standby.url)
    await connection.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
    )
    await connection.close()
