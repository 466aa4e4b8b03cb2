"""What an idle node asks of Postgres: statements of each period, counted, and their sum a second.

Nothing here waits for a period: what a node does in one is done once, and its statements are
counted. How often it does it comes from the times that a node has by default.
"""

import asyncio
from collections.abc import Awaitable, Callable
from inspect import signature

import pytest
from tests.postgres.counting import counted
from tests.postgres.server import new_schema, server
from tests.postgres.stores import opened

from awaken import Agent, AgentRuntime, MailboxConfig
from awaken.buses.postgres import PostgresBus
from awaken.contracts.storage.dispatch import Release
from awaken.contracts.storage.nodes import NodeStore, Survey
from awaken.mailbox.config import choose_times
from awaken.managed import live
from awaken.protocols.a2a import delivery
from awaken.services import workers
from awaken.stores import PostgresStore
from awaken.testing import ScriptedModel
from awaken.testing.store_conformance.writing import DONE, THREAD, Writer, dispatch, run

HOUR_MS = 3_600_000
NEVER = MailboxConfig(
    poll_ms=HOUR_MS, sweep_ms=HOUR_MS, relay_ms=HOUR_MS, renew_ms=HOUR_MS, lease_ms=3 * HOUR_MS
)
IDLE_MAX = 3.0
"""Statements a second, with signals."""


async def count(work: Callable[[], Awaitable[object]]) -> int:
    with counted() as sent:
        await work()
    return sent.round_trips


@pytest.mark.parametrize("is_managed", [False, True])
def test_an_idle_node_asks_less_than_three_times_a_second(is_managed: bool) -> None:
    async def check() -> None:
        store = PostgresStore(server().url, schema=(schema := new_schema()))
        bus = PostgresBus(server().url, channel=schema)
        agent = Agent("agent", model=ScriptedModel(["done"], cycle=True))
        options = {"managed": True} if is_managed else {}
        async with AgentRuntime([agent], store=store, bus=bus, mailbox=NEVER, **options) as runtime:
            parts = runtime._parts
            sweeper, heartbeat = parts.node._sweeper, parts.node._node
            assert sweeper is not None
            assert heartbeat is not None
            await sweeper.stop()
            # The first sweep does all that is done when a process starts.
            await sweeper.sweep()
            keeper = store.node_keeper()
            beat = heartbeat.make_report()
            await asyncio.to_thread(keeper.beat, beat, HOUR_MS)
            asked = {
                "sweep": await count(sweeper.sweep),
                "relay": await count(lambda: parts.outbox._relay._relay_due(is_woken=False)),
                "beat": await count(lambda: asyncio.to_thread(keeper.beat, beat, HOUR_MS)),
                "look": await count(lambda: store.claim("w", "token", HOUR_MS, agents=("agent",))),
                "report": await count(parts.report.write),  # type: ignore[union-attr]
            }
            await asyncio.to_thread(keeper.close)
            assert asked == {"sweep": 1, "relay": 0, "beat": 1, "look": 1, "report": 1}
            if is_managed:
                assert await count(runtime.managed.live.refresh) == 1  # type: ignore[union-attr]
        times = choose_times(MailboxConfig(), has_nodes=True)
        probe_ms = signature(PostgresBus).parameters["probe_ms"].default
        # A node that hears signals looks every second `poll_ms`; a server lists push targets too.
        pauses = [times.sweep_ms, times.renew_ms, 2 * times.poll_ms, workers.REPORT_MS, probe_ms]
        if is_managed:
            pauses += [live.POLL_MS * (1 - live.JITTER / 2), delivery.LIST_MS]
        assert sum(1000 / it for it in pauses) <= IDLE_MAX

    asyncio.run(check())


async def survey(store: PostgresStore) -> Survey:
    return await store.survey("h:1:aaaaaaaaaaaa", 0, 120_000)


def test_a_survey_of_an_idle_store_finds_nothing_and_takes_the_turn() -> None:
    async def check() -> None:
        async with opened() as store:
            assert isinstance(store, NodeStore)
            found = await store.survey("h:1:aaaaaaaaaaaa", 60_000, 120_000)
            assert found.is_turn
            assert not (await store.survey("h:1:bbbbbbbbbbbb", 60_000, 120_000)).is_turn
            nothing = (found.deadline_ms, found.due_ms, found.wake_ms)
            assert nothing == (None, None, None)
            has = (found.has_lost_claims, found.has_unfilled_runs, found.has_uncounted_runs)
            assert not any((*has, found.has_orders, found.has_evals))

    asyncio.run(check())


async def add_claim(store: PostgresStore) -> None:
    await store.enqueue(dispatch("d-1"))
    await store.claim("gone", "token", 60_000)
    await server().sql(f"UPDATE {store.database._server.schema}.threads SET lease_until = 1")


async def add_run(store: PostgresStore, change: str) -> None:
    writer = Writer(store)
    await writer.commit(run=run("r"))
    await writer.commit(run=run("r", status=DONE))
    await server().sql(f"UPDATE {store.database._server.schema}.runs SET {change}")


async def add_later(store: PostgresStore) -> None:
    at = await store.now_ms() + 60_000
    await store.enqueue(dispatch("d-1", available_at=at))


async def add_order(store: PostgresStore) -> None:
    schema = store.database._server.schema
    text = "INSERT INTO {}.outbox (entry_id, thread_no, due_at, is_dead, record)"
    await server().sql(f"{text.format(schema)} VALUES ('e', 1, 0, 0, '')")


@pytest.mark.parametrize(
    ("field", "add"),
    [
        ("has_lost_claims", add_claim),
        ("has_unfilled_runs", lambda it: add_run(it, "agent_id = NULL")),
        ("has_uncounted_runs", lambda it: add_run(it, "finished_at = 1")),
        ("has_orders", add_order),
    ],
)
def test_a_survey_finds_what_there_is_to_do(
    field: str, add: Callable[[PostgresStore], Awaitable[None]]
) -> None:
    async def check() -> None:
        async with opened() as store:
            assert not getattr(await survey(store), field)
            await add(store)
            assert getattr(await survey(store), field)

    asyncio.run(check())


def test_a_survey_tells_when_the_first_delayed_input_is_due() -> None:
    async def check() -> None:
        async with opened() as store:
            await add_later(store)
            due_ms = (await survey(store)).due_ms
            assert due_ms is not None
            assert 0 < due_ms <= 60_000

    asyncio.run(check())


@pytest.mark.parametrize("is_queued", [False, True])
def test_a_thread_is_drained_if_this_process_released_it_with_an_empty_queue(
    is_queued: bool,
) -> None:
    async def check() -> None:
        async with opened() as store:
            assert not store.is_drained(THREAD)
            await store.enqueue(dispatch("d-1", run_id="r"))
            if is_queued:
                await store.enqueue(dispatch("d-2"))
            await store.claim("w", "token", 60_000)
            await store.checkout(THREAD)
            writer = Writer(store)
            await writer.commit(run=run("r"), fencing_token="token")
            assert not store.is_drained(THREAD)
            done = run("r", status=DONE)
            await writer.commit(run=done, fencing_token="token", release=Release())
            assert store.is_drained(THREAD) is not is_queued

    asyncio.run(check())
