"""What each order does to the runs that it is about, and what becomes of orders given up."""

import asyncio
from typing import Any

import pytest

from awaken.contracts.errors import InvalidInput, RecordNotFound
from awaken.contracts.lifecycle import Cancelled, NaturalEnd, RunStatus, TicketStatus
from awaken.contracts.runs.records import RunRequest
from awaken.contracts.runs.threads import Thread
from awaken.contracts.storage.dispatch import DispatchStatus
from awaken.contracts.storage.outbox import (
    AbortRemote,
    ReportToParent,
    StopChildren,
    ThreadMessage,
    build_end_notice,
    deletion_report_id,
)
from awaken.contracts.storage.queries import LIMIT_MAX
from awaken.contracts.suspension.tickets import Suspension
from awaken.contracts.tasks import TaskFate, TaskInfo
from awaken.mailbox.outbox_handlers import OutboxHandlers
from awaken.mailbox.relay import Relay
from awaken.runtime.tools.delegate_tickets import load_deleted_child
from awaken.testing.store_conformance.writing import (
    DONE,
    WAITING,
    Writer,
    build_call_message,
    build_user_message,
    dispatch,
    run,
    ticket,
)

REPORT = ReportToParent(parent_thread_id="up", parent_run_id="up-run", child_run_id="child")
STOP = StopChildren(thread_id="up", run_id="up-run")


async def a_child(world: Any, run_id: str, status: RunStatus = WAITING, **fields: Any) -> Writer:
    """A run on a thread of its own, below `up`."""
    writer = Writer(world.store, run_id)
    known = {"thread_id": run_id, "parent_thread_id": "up", "parent_run_id": "up-run"}
    if status is DONE:
        fields.setdefault("termination", NaturalEnd())
    begun = run(run_id, **(known | {k: v for k, v in fields.items() if k != "termination"}))
    await writer.commit(messages=(build_user_message(f"{run_id}-m"),), run=begun)
    await writer.commit(run=run(run_id, status, **(known | fields)))
    return writer


async def a_parent(world: Any, waits_for: str = "delegate_run:child") -> Writer:
    """A run on `up` that waits with one ticket."""
    writer, names = Writer(world.store, "up"), {"thread_id": "up", "run_id": "up-run"}
    messages = (build_user_message("up-1"), build_call_message("up-2", "call"))
    await writer.commit(messages=messages, run=run("up-run", thread_id="up"))
    opened = ticket("ticket", "call", suspension=Suspension(id=waits_for), **names)
    await writer.commit(run=run("up-run", WAITING, thread_id="up"), tickets=(opened,))
    return writer


# --- reports ---


def test_the_end_of_a_child_lets_the_parent_that_waits_for_it_go_on(worlds: Any) -> None:
    async def scenario() -> None:
        async with worlds() as world:
            node = world.node()
            await a_parent(world)
            await a_child(world, "child", DONE)
            await world.give(REPORT, REPORT)
            await node.relay.relay_once()
            decided = await world.store.find_ticket("ticket")
            assert decided is not None
            assert decided.status is TicketStatus.DECIDED
            assert decided.decision is not None
            assert decided.decision.decision_id == "report:child"
            assert decided.decision.decided_by == "delegate"
            (going_on,) = await world.dispatches("up")
            assert going_on.request.continue_run_id == "up-run"
            assert node.queued[0] == "up"
            assert (await world.due(), await world.dead()) == ([], [])

    asyncio.run(scenario())


def test_a_child_that_has_not_ended_lets_nobody_go_on(worlds: Any) -> None:
    async def scenario() -> None:
        async with worlds() as world:
            node = world.node()
            await a_parent(world)
            await a_child(world, "child", WAITING)
            await world.give(REPORT)
            await node.relay.relay_once()
            (waiting,) = await world.store.list_tickets("up")
            assert waiting.status is TicketStatus.OPEN
            assert (node.queued, await world.due(), await world.dead()) == ([], [], [])

    asyncio.run(scenario())


def test_the_parent_of_a_child_that_is_gone_goes_on(worlds: Any) -> None:
    async def scenario() -> None:
        async with worlds() as world:
            node = world.node()
            await a_parent(world)
            await world.give(REPORT)
            await node.relay.relay_once()
            assert await world.store.list_tickets("up") == ()
            assert node.queued == ["up"]
            assert (await world.due(), await world.dead()) == ([], [])

    asyncio.run(scenario())


def test_a_report_decides_no_other_ticket(worlds: Any) -> None:
    async def scenario() -> None:
        async with worlds() as world:
            node = world.node()
            await a_parent(world, waits_for="delegate_run:other")
            await a_child(world, "child", DONE)
            await world.give(REPORT)
            await node.relay.relay_once()
            assert len(await world.store.list_tickets("up")) == 1
            assert (node.queued, await world.due(), await world.dead()) == ([], [], [])

    asyncio.run(scenario())


def test_a_report_for_a_ticket_that_somebody_decided_meanwhile_is_done(worlds: Any) -> None:
    async def scenario() -> None:
        async with worlds() as world:
            node = world.node()
            await a_parent(world)
            await a_child(world, "child", DONE)
            before = await world.store.list_run_tickets("up", "up-run")

            async def stale(*_given: Any) -> Any:
                return before

            node.wire.hooks["list_run_tickets"] = stale
            await world.give(REPORT)
            await node.mailbox.cancel_run("up-run")
            await node.relay.relay_once()
            assert (node.queued, await world.due(), await world.dead()) == ([], [], [])

    asyncio.run(scenario())


def test_a_report_to_a_parent_that_is_gone_is_done(worlds: Any) -> None:
    async def scenario() -> None:
        async with worlds() as world:
            await Writer(world.store, "up").commit()
            await a_child(world, "child", DONE)
            await world.give(REPORT)
            await world.node().relay.relay_once()
            assert (await world.due(), await world.dead()) == ([], [])

    asyncio.run(scenario())


def test_the_report_of_a_deleted_child_stays_until_its_parent_has_ended(worlds: Any) -> None:
    """It is looked at ever less often, and never given up."""

    async def scenario() -> None:
        async with worlds() as world:
            relay, up = world.node().relay, Writer(world.store, "up")
            await up.commit(run=run("up-run", thread_id="up"))
            await a_child(world, "child")
            await world.store.delete_thread("child")
            config = world.config
            for look in range(config.relay_attempts + 5):
                assert await world.due() == [deletion_report_id("child")]
                await relay.relay_once()
                pause_ms = min(config.relay_cap_ms, config.relay_base_ms * 2**look)
                kept = await world.the_failed(pause_ms)
                assert (kept.delays, kept.attempts, kept.error) == (look + 1, 0, None)
            done = run("up-run", DONE, thread_id="up", termination=NaturalEnd())
            await up.commit(run=done)
            await relay.relay_once()
            assert (await world.due(), await world.dead()) == ([], [])
            assert await world.store.find_outbox(deletion_report_id("child")) is None

    asyncio.run(scenario())


def test_a_child_that_is_deleted_while_its_end_is_relayed_stays_known(worlds: Any) -> None:
    """The relay deletes the order that it has carried out, and no more than that."""

    async def scenario() -> None:
        async with worlds() as world:
            node = world.node()
            await Writer(world.store, "up").commit(run=run("up-run", thread_id="up"))
            below = {"thread_id": "child", "parent_thread_id": "up", "parent_run_id": "up-run"}
            done = run("child", DONE, termination=NaturalEnd(), **below)
            await Writer(world.store, "child").commit(run=done, outbox=(build_end_notice(done),))

            async def delete_late(entry_ids: Any) -> None:
                node.wire.hooks.pop("delete_outbox")
                await world.store.delete_thread("child")
                await world.store.delete_outbox(entry_ids)

            node.wire.hooks["delete_outbox"] = delete_late
            await node.relay.relay_once()
            known = await load_deleted_child(world.store, "child")
            assert known is not None
            assert known.termination == NaturalEnd()

    asyncio.run(scenario())


# --- stops ---


def test_what_an_ended_run_left_behind_is_cancelled_and_nothing_else(worlds: Any) -> None:
    async def scenario() -> None:
        async with worlds() as world:
            await Writer(world.store, "up").commit()
            await a_child(world, "delegate")
            await a_child(world, "bound", task=TaskInfo(fate=TaskFate.CASCADE))
            await a_child(world, "detached", task=TaskInfo(fate=TaskFate.DETACH))
            await a_child(world, "awaited", task=TaskInfo(fate=TaskFate.AWAIT))
            await a_child(world, "of-another", parent_run_id="earlier-run")
            await a_child(world, "ended", DONE)
            await world.give(STOP, STOP)
            await world.node().relay.relay_once()
            for run_id in ("delegate", "bound"):
                assert (await world.run(run_id)).termination == Cancelled(cause="parent")
            for run_id in ("detached", "awaited", "of-another"):
                assert (await world.run(run_id)).status is WAITING
            assert (await world.run("ended")).termination == NaturalEnd()
            ours = {"order-0001", "order-0002"}
            assert not ours & {*await world.due(), *(it.entry_id for it in await world.dead())}

    asyncio.run(scenario())


def test_a_child_that_was_only_queued_never_begins(worlds: Any) -> None:
    async def scenario() -> None:
        async with worlds() as world:
            await Writer(world.store, "up").commit()
            below = {"thread_id": "c", "parent_thread_id": "up", "parent_run_id": "up-run"}
            detached = TaskInfo(fate=TaskFate.DETACH)
            for name, task in (("bound", None), ("detached", detached)):
                await world.store.save_thread(Thread(id=name, parent_thread_id="up"))
                request = RunRequest(**(below | {"thread_id": name}), task=task)
                await world.store.enqueue(dispatch(f"d-{name}", name, request=request))
            await world.give(STOP)
            await world.node().relay.relay_once()
            found = {it.dispatch_id: it.status for it in await world.dispatches()}
            assert found == {
                "d-bound": DispatchStatus.CANCELLED,
                "d-detached": DispatchStatus.QUEUED,
            }

    asyncio.run(scenario())


def test_a_child_that_somebody_has_just_claimed_is_asked_to_stop(worlds: Any) -> None:
    async def scenario() -> None:
        async with worlds() as world:
            await Writer(world.store, "up").commit()
            await world.store.save_thread(Thread(id="c", parent_thread_id="up"))
            request = RunRequest(thread_id="c", parent_run_id="up-run")
            await world.store.enqueue(dispatch("d", "c", request=request))
            await world.store.claim("worker", "token", 1000)
            await world.give(STOP)
            await world.node().relay.relay_once()
            (claimed,) = await world.dispatches()
            assert claimed.cancel_cause == "parent"

    asyncio.run(scenario())


def test_one_child_can_be_stopped_alone_whatever_its_fate(worlds: Any) -> None:
    async def scenario() -> None:
        async with worlds() as world:
            await Writer(world.store, "up").commit()
            await a_child(world, "meant", task=TaskInfo(fate=TaskFate.DETACH))
            await a_child(world, "sibling")
            await world.give(StopChildren(thread_id="up", run_id="up-run", child_run_id="meant"))
            await world.node().relay.relay_once()
            assert (await world.run("meant")).termination == Cancelled(cause="parent")
            assert (await world.run("sibling")).status is WAITING

    asyncio.run(scenario())


def test_no_child_is_missed_while_the_listing_changes_under_the_reader(worlds: Any) -> None:
    async def scenario() -> None:
        async with worlds() as world:
            node, cancelled = world.node(), []
            await Writer(world.store, "up").commit()
            count = LIMIT_MAX + 5
            writers = {}
            for number in range(count):
                world.clock.advance(1)
                name = f"c{number:03d}"
                writers[name] = Writer(world.store, name)
                below = {"thread_id": name, "parent_thread_id": "up", "parent_run_id": "up-run"}
                at = 1_000_000 + number
                await writers[name].commit(run=run(name, **below), committed_at=at)

            async def shifting(query: Any) -> Any:
                page = await world.store.list_threads(query)
                if query.offset == 0:
                    # The last of the listing is written to, and moves to its front.
                    last = await world.store.list_threads(
                        type(query)(parent_id="up", offset=count - 1, limit=1)
                    )
                    await writers[last.items[0].id].commit(committed_at=2_000_000)
                    node.wire.hooks.pop("list_threads", None)
                return page

            async def cancel(run_id: str) -> bool:
                cancelled.append(run_id)
                return True

            node.wire.hooks["list_threads"] = shifting
            handlers = OutboxHandlers(node.mailbox, node.note_abort, cancel_run=cancel)
            await world.give(STOP)
            await Relay(node.mailbox, handlers).relay_once()
            assert sorted(cancelled) == sorted(writers)

    asyncio.run(scenario())


# --- the other side ---


def test_the_other_side_is_asked_to_abort_once(worlds: Any) -> None:
    async def scenario() -> None:
        async with worlds() as world:
            node = world.node()
            order = AbortRemote(thread_id="up", run_id="up-run", agent_id="far")
            await world.give(order)
            await node.relay.relay_once()
            await node.relay.relay_once()
            assert (node.aborted, await world.due()) == ([order], [])

    asyncio.run(scenario())


# --- orders that were given up ---


def test_an_order_that_was_given_up_is_carried_out_when_it_is_tried_again(worlds: Any) -> None:
    async def scenario() -> None:
        async with worlds() as world:
            node = world.node()
            payload = {"kind": "agent_message", "content": "hi", "agent_id": "a"}
            payload |= {"thread_id": "owner", "run_id": "r"}
            (entry_id,) = await world.give(ThreadMessage(thread_id="late", payload=payload))
            await node.relay.relay_once()
            assert [it.entry_id for it in await node.mailbox.list_dead_orders("owner")] == [
                entry_id
            ]
            assert await node.mailbox.list_dead_orders("late") == ()
            await world.store.save_thread(Thread(id="late"))
            again = await node.mailbox.retry_order(entry_id)
            assert (again.attempts, again.is_dead) == (0, False)
            assert await world.due() == [entry_id]
            await node.relay.relay_once()
            assert node.queued == ["late"]

    asyncio.run(scenario())


def test_only_an_order_that_was_given_up_can_be_tried_again(worlds: Any) -> None:
    async def scenario() -> None:
        async with worlds() as world:
            mailbox = world.node().mailbox
            (waiting,) = await world.give(AbortRemote(thread_id="t", run_id="r", agent_id="a"))
            for entry_id in (waiting, "nope"):
                with pytest.raises(RecordNotFound, match=entry_id):
                    await mailbox.retry_order(entry_id)
            with pytest.raises(InvalidInput):
                await mailbox.retry_order(" ")

    asyncio.run(scenario())


def test_however_many_orders_were_given_up_each_can_be_found(worlds: Any) -> None:
    async def scenario() -> None:
        async with worlds() as world:
            node = world.node()
            count = 2 * LIMIT_MAX + 1
            ids = await world.give(
                *(ThreadMessage(thread_id="t", payload=None) for _ in range(count))
            )
            while await world.due():
                await node.relay.relay_once()
            assert [it.entry_id for it in await node.mailbox.list_dead_orders()] == ids
            assert not (await node.mailbox.retry_order(ids[-1])).is_dead

    asyncio.run(scenario())


# --- letters for one run, and letters that are never refused ---


def _ended(task_id: str) -> ThreadMessage:
    payload = {"kind": "ended", "task_id": task_id, "status": "completed"}
    return ThreadMessage(thread_id="up", payload=payload)


def test_the_end_of_a_task_is_told_to_a_thread_whose_queue_is_full(worlds: Any) -> None:
    async def scenario() -> None:
        async with worlds(thread_backlog=1) as world:
            node = world.node()
            await a_parent(world)
            news = {"kind": "custom", "task_id": "t", "event_type": "progress"}
            await world.give(
                _ended("one"), _ended("two"), ThreadMessage(thread_id="up", payload=news)
            )
            await node.relay.relay_once()
            assert len(await world.dispatches("up")) == 2
            world.clock.advance(60_000)
            assert len(await world.due()) == 1

    asyncio.run(scenario())


def test_a_letter_for_one_run_goes_on_with_that_run_only(worlds: Any) -> None:
    async def scenario() -> None:
        async with worlds() as world:
            node = world.node()
            await a_parent(world)
            await a_child(world, "child")
            letter = ThreadMessage(
                thread_id="child",
                run_id="child",
                payload={
                    "kind": "agent_message",
                    "content": "hi",
                    "agent_id": "boss",
                    "thread_id": "up",
                    "run_id": "up-run",
                },
            )
            await world.give(letter)
            await node.relay.relay_once()
            (sent,) = await world.dispatches("child")
            assert (sent.run_id, sent.request.continue_run_id) == ("child", "child")

    asyncio.run(scenario())
