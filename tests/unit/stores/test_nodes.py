"""Nodes on Postgres: one lease for all claims of a process."""

import asyncio
from collections.abc import Callable
from typing import Any

import asyncpg
import pytest
from tests.postgres.server import server
from tests.postgres.stores import opened

from awaken import Agent, AgentRuntime, MailboxConfig
from awaken.contracts.errors import LeaseLost
from awaken.contracts.storage.nodes import QUEUE_COUNT_MAX, NodeBeat, NodeReport, NodeStore
from awaken.services.cluster import read_scale
from awaken.stores.postgres import PostgresStore
from awaken.stores.postgres.texts import STATEMENTS
from awaken.stores.sql.store import SqlStore
from awaken.testing import ScriptedModel
from awaken.testing.store_conformance.writing import dispatch, find, refusal

LEASE_MS = 60_000
CLAIM_MS = 6 * LEASE_MS


def node(name: str = "a", **fields: Any) -> NodeReport:
    about = {"kind": "worker", "version": "1", "host": "h", "pid": 1, "slots": 4}
    return NodeReport(node_id=f"h:1:{name * 12}", **{**about, **fields})


async def begin(store: PostgresStore, name: str, *threads: str) -> NodeReport:
    """A node that has claimed a dispatch of each of these threads; its tokens name them."""
    about = node(name)
    await store.begin_node(about, LEASE_MS)
    for thread_id in threads:
        await store.enqueue(dispatch(f"d-{thread_id}", thread_id=thread_id))
        (claimed,) = await store.claim(about.node_id, f"token-{thread_id}", CLAIM_MS)
        assert claimed.thread_id == thread_id
    return about


async def beat(store: PostgresStore, about: NodeReport, *confirmed: str) -> NodeBeat:
    keeper = store.node_keeper()

    def work() -> NodeBeat:
        try:
            return keeper.beat(about, LEASE_MS, confirmed or None)
        finally:
            keeper.close()

    return await asyncio.to_thread(work)


async def lapse(store: PostgresStore, about: NodeReport) -> None:
    """Let the lease of a node run out now."""
    back = "beat_at = beat_at - (lease_until - beat_at), lease_until = beat_at"
    await sql(store, f"UPDATE {{}}.nodes SET {back} WHERE node_id = $1", about.node_id)


async def sql(store: PostgresStore, text: str, *args: Any) -> list[Any]:
    return list(await server().sql(text.format(store.database._server.schema), *args))


def test_a_node_that_lapsed_loses_all_its_threads_with_one_sweep_and_others_keep_theirs() -> None:
    async def check() -> None:
        async with opened() as store:
            assert isinstance(store, NodeStore)
            gone = await begin(store, "a", "t1", "t2")
            there = await begin(store, "b", "t3")
            assert await store.reclaim() == ()
            await lapse(store, gone)
            back = await store.reclaim()
            assert {it.thread_id for it in back} == {"t1", "t2"}
            assert (await beat(store, gone)).is_over
            assert [it.claim_token for it in (await beat(store, there)).leases] == ["token-t3"]
            # The fence: nothing can be written with a token that was taken back.
            await refusal(LeaseLost, store.requeue("d-t1", "token-t1"))
            (again,) = await store.claim(there.node_id, "token-new", CLAIM_MS)
            assert again.claim_token == "token-new"

    asyncio.run(check())


def test_a_node_that_is_over_stays_over_however_often_it_beats() -> None:
    async def check() -> None:
        async with opened() as store:
            about = await begin(store, "a", "t1")
            await lapse(store, about)
            await store.reclaim()
            assert (await beat(store, about)).is_over
            assert (await beat(store, about)).is_over
            figures = await store.read_nodes()
            assert [(it.node_id, it.is_over) for it in figures.nodes] == [(about.node_id, True)]

    asyncio.run(check())


def test_a_claim_that_a_node_takes_after_it_was_declared_over_is_taken_back() -> None:
    async def check() -> None:
        async with opened() as store:
            about = await begin(store, "a")
            await lapse(store, about)
            await store.reclaim()
            # It does not know yet: it has not beaten since.
            await store.enqueue(dispatch("d-1", thread_id="t1"))
            await store.claim(about.node_id, "token-1", CLAIM_MS)
            assert [it.thread_id for it in await store.reclaim()] == ["t1"]

    asyncio.run(check())


@pytest.mark.parametrize("is_gone", [None, lambda _node_id: True])
def test_a_damaged_thread_of_a_node_that_is_over_is_left_alone_for_a_while(
    is_gone: Callable[[str], bool] | None, caplog: pytest.LogCaptureFixture
) -> None:
    async def check() -> None:
        async with opened() as store:
            gone = await begin(store, "a", "t1", "t2")
            await sql(store, "UPDATE {}.threads SET head = 'x' WHERE id = $1", "t1")
            await lapse(store, gone)
            assert [it.thread_id for it in await store.reclaim(is_gone=is_gone)] == ["t2"]
            assert await store.reclaim(is_gone=is_gone) == ()
            told = [it for it in caplog.messages if "is damaged" in it]
            assert told == ["Thread 't1' is damaged; its claim is left alone."]

    asyncio.run(check())


def test_a_node_that_stops_leaves_its_threads_at_once() -> None:
    async def check() -> None:
        async with opened() as store:
            about = await begin(store, "a", "t1")
            await store.end_node(about.node_id)
            assert [it.thread_id for it in await store.reclaim()] == ["t1"]

    asyncio.run(check())


def test_a_node_whose_process_is_certainly_gone_is_over_before_its_lease_ends() -> None:
    async def check() -> None:
        async with opened() as store:
            about = await begin(store, "a", "t1")
            there = await begin(store, "b", "t2")
            back = await store.reclaim(is_gone=lambda worker_id: worker_id == about.node_id)
            assert [it.thread_id for it in back] == ["t1"]
            assert not (await beat(store, there)).is_over

    asyncio.run(check())


def test_a_claim_that_its_living_node_forgot_ends_by_its_own_lease() -> None:
    async def check() -> None:
        async with opened() as store:
            about = await begin(store, "a", "t1", "t2")
            await sql(store, "UPDATE {}.threads SET lease_until = 1")
            await beat(store, about, "token-t1")
            # What the node holds is confirmed; the other claim lost its reply, say.
            assert [it.thread_id for it in await store.reclaim()] == ["t2"]

    asyncio.run(check())


def test_a_process_of_an_older_version_leaves_the_threads_of_a_living_node() -> None:
    """Older code knows the leases of threads only: `SqlStore.reclaim` is its way."""

    async def check() -> None:
        async with opened() as store:
            about = await begin(store, "a", "t1", "t2")
            await beat(store, about)
            assert await SqlStore.reclaim(store) == ()
            # A long run: its claim is confirmed before older code would take it back.
            now = await store.now_ms()
            await sql(store, "UPDATE {}.threads SET lease_until = $1", now + CLAIM_MS // 2)
            await beat(store, about, "token-t1", "token-t2")
            (least,) = await sql(store, "SELECT min(lease_until) FROM {}.threads")
            assert least[0] >= now + CLAIM_MS

    asyncio.run(check())


def test_a_claim_of_an_older_version_ends_with_the_lease_of_its_thread() -> None:
    async def check() -> None:
        async with opened() as store:
            await begin(store, "b")
            await store.enqueue(dispatch("d-1", thread_id="t1"))
            await store.claim("older", "token-1", 60_000)
            assert await store.reclaim() == ()
            await sql(store, "UPDATE {}.threads SET lease_until = 1")
            assert [it.thread_id for it in await store.reclaim()] == ["t1"]

    asyncio.run(check())


def test_a_node_that_begins_anew_is_over_under_its_earlier_id() -> None:
    async def check() -> None:
        async with opened() as store:
            before, after = await begin(store, "a", "t1", "t2"), node("b")
            keeper = store.node_keeper()

            def work() -> None:
                # The reply to the first may be lost.
                for _ in range(2):
                    keeper.begin_anew(after, LEASE_MS, before.node_id)
                keeper.close()

            await asyncio.to_thread(work)
            figures = await store.read_nodes()
            assert {it.node_id: it.is_over for it in figures.nodes} == {
                before.node_id: True,
                after.node_id: False,
            }
            assert (await store.survey(after.node_id, 0, 1)).has_lost_claims
            assert {it.thread_id for it in await store.reclaim()} == {"t1", "t2"}
            assert not (await beat(store, after)).is_over

    asyncio.run(check())


def test_claims_that_are_freed_are_taken_back_and_no_others() -> None:
    async def check() -> None:
        async with opened() as store:
            about, other = await begin(store, "a", "t1", "t2"), await begin(store, "b", "t3")
            keeper = store.node_keeper()

            def work() -> None:
                keeper.free(about.node_id, ["token-t1", "token-t3", "unknown"])
                keeper.close()

            await asyncio.to_thread(work)
            assert (await store.survey(about.node_id, 0, 1)).has_lost_claims
            assert [it.thread_id for it in await store.reclaim()] == ["t1"]
            assert len((await beat(store, about)).leases) == 1
            assert len((await beat(store, other)).leases) == 1

    asyncio.run(check())


def test_a_beat_of_many_runs_is_one_statement_and_so_is_a_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def check() -> None:
        async with opened() as store:
            threads = [f"t{number:02}" for number in range(64)]
            about = await begin(store, "a", *threads)
            await store.request_cancel("t07", "user")
            keeper, asked = store.node_keeper(), []

            def count(name: str) -> None:
                real = getattr(asyncpg.Connection, name)

                async def counted(self: Any, query: str, *args: Any, **options: Any) -> Any:
                    asked.append(query)
                    return await real(self, query, *args, **options)

                monkeypatch.setattr(asyncpg.Connection, name, counted)

            def work() -> None:
                keeper.look(["token-t00"])
                for name in ("execute", "fetch", "fetchrow", "fetchval", "executemany"):
                    count(name)
                answer = keeper.beat(about, LEASE_MS)
                assert len(answer.leases) == 64
                assert [it.cancel_cause for it in answer.leases if it.cancel_cause] == ["user"]
                assert len(asked) == 1
                asked.clear()
                keeper.beat(about, LEASE_MS, [it.claim_token for it in answer.leases])
                assert len(asked) == 1
                asked.clear()
                (found,) = keeper.look(["token-t07"])
                assert found.cancel_cause == "user"
                assert len(asked) == 1
                keeper.close()

            await asyncio.to_thread(work)

    asyncio.run(check())


def test_one_node_at_a_time_takes_a_turn() -> None:
    async def check() -> None:
        async with opened() as store:
            taken = await asyncio.gather(
                *(store.take_turn("x", f"n{it}", 60_000) for it in range(8))
            )
            assert sum(taken) == 1
            assert await store.take_turn("another", "n1", 60_000)
            await sql(store, "UPDATE {}.turns SET taken_at = taken_at - 60000")
            assert await store.take_turn("x", "n1", 60_000)
            # The clock of the server was set back: nobody waits until it has caught up.
            await sql(store, "UPDATE {}.turns SET taken_at = taken_at + 3600000")
            assert await store.take_turn("x", "n2", 60_000)

    asyncio.run(check())


def test_ended_nodes_are_forgotten_when_they_hold_nothing() -> None:
    async def check() -> None:
        async with opened() as store:
            about = await begin(store, "a", "t1")
            await store.end_node(about.node_id)
            await sql(store, "UPDATE {}.nodes SET beat_at = 0")
            await store.reclaim()
            await store.reclaim()
            assert (await store.read_nodes()).nodes == ()
            assert (await find(store, "d-t1")).claim_token is None

    asyncio.run(check())


def test_figures_tell_what_waits_and_who_holds_what() -> None:
    async def check() -> None:
        async with opened() as store:
            await begin(store, "a", "t1", "t2")
            now = await store.now_ms()
            await store.enqueue(dispatch("d-3", thread_id="t3"))
            await store.enqueue(dispatch("d-4", thread_id="t4", available_at=now + 3_600_000))
            await store.take_turn("sweep", "h:1:aaaaaaaaaaaa", 1)
            figures = await store.read_nodes()
            assert (figures.queue.due, figures.queue.delayed) == (1, 1)
            assert figures.queue.oldest_due_ms is not None
            assert [it.claims for it in figures.nodes] == [2]
            assert figures.swept_by == "h:1:aaaaaaaaaaaa"

    asyncio.run(check())


def test_input_behind_a_run_of_its_own_thread_is_not_due_because_no_slot_could_take_it() -> None:
    async def check() -> None:
        async with opened() as store:
            about = await begin(store, "a", "t1")
            await store.enqueue(dispatch("d-behind", thread_id="t1"))
            figures = await store.read_nodes()
            assert (figures.queue.due, figures.queue.oldest_due_ms) == (0, None)
            await lapse(store, about)
            await store.reclaim()
            # Of a thread that is free again, one slot takes the first; the next one waits for it.
            assert (await store.read_nodes()).queue.due == 1

    asyncio.run(check())


def test_a_long_queue_of_one_thread_asks_for_one_slot() -> None:
    async def check() -> None:
        async with opened() as store:
            for number in range(50):
                await store.enqueue(dispatch(f"d-{number}", thread_id="t1"))
            await store.enqueue(dispatch("d-other", thread_id="t2"))
            assert (await store.read_nodes()).queue.due == 2
            assert (await read_scale(store, store)).desired_slots == 3

    asyncio.run(check())


def test_what_waits_until_later_does_not_hide_what_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    async def check() -> None:
        async with opened() as store:
            later = await store.now_ms() + 3_600_000
            for number in range(10):
                await store.enqueue(dispatch(f"l-{number}", thread_id=f"l{number}", **{AT: later}))
            # Due since a moment: what waited for a time, and what stands behind something delayed.
            await store.enqueue(dispatch("d-1", thread_id="t1", **{AT: 1}))
            await store.enqueue(dispatch("d-2", thread_id="t2"))
            await store.enqueue(dispatch("d-3", thread_id="l0"))
            figures = await store.read_nodes()
            assert figures.queue.due == 2
            assert figures.queue.oldest_due_ms is not None

    AT = "available_at"
    few = STATEMENTS["queue_due"].replace(str(QUEUE_COUNT_MAX), "5")
    monkeypatch.setitem(STATEMENTS, "queue_due", few)
    asyncio.run(check())


def test_a_row_that_cannot_be_read_costs_no_other_node_its_lease() -> None:
    async def check() -> None:
        async with opened() as store:
            about = await begin(store, "a", "t1")
            await begin(store, "b")
            for text in ("garbage", "{}", "[1]", ""):
                damage = "UPDATE {}.nodes SET agents = $1 WHERE node_id = $2"
                await sql(store, damage, text, node("b").node_id)
                answer = await beat(store, about)
                assert [it.claim_token for it in answer.leases] == ["token-t1"]
                assert {it.agents for it in answer.live} == {None, ()}
                assert [it.agents for it in (await store.read_nodes()).nodes] == [None, ()]

    asyncio.run(check())


def test_a_runtime_that_begins_to_serve_after_it_was_opened_is_listed_as_a_server() -> None:
    async def check() -> None:
        async with opened() as store:
            agent = Agent("x", model=ScriptedModel(["hi."]))
            times = MailboxConfig(lease_ms=LEASE_MS, renew_ms=20)
            async with AgentRuntime([agent], store=store, mailbox=times) as runtime:
                runtime.asgi()
                async with asyncio.timeout(30):
                    while [it.kind for it in (await store.read_nodes()).nodes] != ["server"]:
                        await asyncio.sleep(0.01)

    asyncio.run(check())
