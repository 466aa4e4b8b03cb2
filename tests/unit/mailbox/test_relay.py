"""Orders of commits are carried out at least once, and what fails holds up nothing else."""

import asyncio
import logging
from typing import Any

import pytest

from awaken.contracts.config.errors import AgentUnusable, UnknownPublication
from awaken.contracts.errors import CorruptRecord, InvalidInput, StoreUnavailable, UnknownAgent
from awaken.contracts.identity import RunMode, RunOrigin
from awaken.contracts.messages.inbox import AgentMessage, PlainMessages, TaskEnded
from awaken.contracts.messages.message import SenderKind, Visibility, user
from awaken.contracts.runs.records import RunRequest
from awaken.contracts.runs.threads import Thread
from awaken.contracts.storage.bus import SignalKind
from awaken.contracts.storage.dispatch import DispatchStatus, InputMode
from awaken.contracts.storage.outbox import AbortRemote, QueueRun, ThreadMessage
from awaken.contracts.storage.store import OutboxEntry
from awaken.mailbox.config import MailboxConfig
from awaken.mailbox.relay import AT_ONCE, LEFT_TO_OTHERS_MAX, PAGE
from awaken.testing.store_conformance.writing import dispatch

HOUR_MS = 60 * 60 * 1000


def letter(thread_id: str, text: str = "hi", **fields: Any) -> ThreadMessage:
    written = AgentMessage(content=text, agent_id="writer", thread_id="owner", run_id="r")
    known = {"agent_id": "reader", "payload": written}
    return ThreadMessage(thread_id=thread_id, **(known | fields))


def abort(number: int = 0) -> AbortRemote:
    return AbortRemote(thread_id="owner", run_id=f"run-{number}", agent_id="far")


def away(method: str = "enqueue") -> StoreUnavailable:
    return StoreUnavailable(store="store", problem=f"{method} failed")


def texts(dispatches: Any) -> list[str]:
    return [it.request.messages[0].text.splitlines()[1] for it in dispatches]


# --- letters ---


def test_a_letter_becomes_one_steering_dispatch_that_workers_hear_of(worlds: Any) -> None:
    async def scenario() -> None:
        async with worlds() as world:
            node = world.node()
            await node.bus.open()
            await world.store.save_thread(Thread(id="@ann:there", tenant_id="ann"))
            ended = TaskEnded(task_id="task-1", status="completed", result=42)
            sent = ThreadMessage(thread_id="@ann:there", tenant_id="ann", payload=ended)
            (entry_id,) = await world.give(sent)
            await node.relay.relay_once()
            (sent_on,) = await world.dispatches()
            assert await world.due() == []
            assert (sent_on.dispatch_id, sent_on.thread_id) == (entry_id, "@ann:there")
            assert (sent_on.mode, sent_on.status) == (InputMode.STEER, DispatchStatus.QUEUED)
            request = sent_on.request
            assert (request.tenant_id, request.agent_id) == ("ann", None)
            assert request.origin is RunOrigin.INTERNAL
            assert request.run_mode is RunMode.INTERNAL_WAKE
            (message,) = request.messages
            assert (message.id, message.visibility) == (entry_id, Visibility.INTERNAL)
            assert message.sender is not None
            assert (message.sender.kind, message.sender.is_end) == (SenderKind.TASK, True)
            assert [signal.kind for signal in node.heard] == [
                SignalKind.CONTROL,
                SignalKind.DISPATCH_QUEUED,
            ]
            assert {signal.thread_id for signal in node.heard} == {"@ann:there"}
            assert node.queued == ["@ann:there"]

    asyncio.run(scenario())


def test_messages_of_one_letter_have_ids_of_their_own(worlds: Any) -> None:
    async def scenario() -> None:
        async with worlds() as world:
            plain = PlainMessages(messages=(user("one"), user("two"), user("three")))
            given = ThreadMessage(thread_id="t", agent_id="reader", payload=plain)
            (entry_id,) = await world.give(given)
            await world.node().relay.relay_once()
            (sent,) = await world.dispatches()
            ids = [message.id for message in sent.request.messages]
            assert (ids[0], len(set(ids)), None in ids) == (entry_id, 3, False)

    asyncio.run(scenario())


def test_a_thread_is_made_only_for_an_agent_that_is_named(worlds: Any) -> None:
    async def scenario() -> None:
        async with worlds() as world:
            await world.give(
                letter("@ann:new", tenant_id="ann"),
                letter("@ann:nowhere", agent_id=None, tenant_id="ann"),
            )
            await world.node().relay.relay_once()
            made = await world.store.load_thread("@ann:new")
            assert made is not None
            assert made.tenant_id == "ann"
            assert await world.store.load_thread("@ann:nowhere") is None
            (dead,) = await world.dead()
            assert (dead.attempts, dead.error) == (
                1,
                "UnknownThread: thread not found: @ann:nowhere",
            )

    asyncio.run(scenario())


def test_a_letter_to_a_thread_of_another_tenant_is_given_up_at_once(worlds: Any) -> None:
    async def scenario() -> None:
        async with worlds() as world:
            await world.store.save_thread(Thread(id="@bob:t", tenant_id="bob"))
            await world.give(letter("@bob:t", tenant_id="ann"))
            await world.node().relay.relay_once()
            (dead,) = await world.dead()
            assert "UnknownThread" in (dead.error or "")
            assert await world.dispatches() == []

    asyncio.run(scenario())


@pytest.mark.parametrize("payload", [{"kind": "nonsense"}, None, [], {"kind": "ended"}])
def test_a_letter_that_cannot_be_read_is_given_up_at_once(worlds: Any, payload: Any) -> None:
    async def scenario() -> None:
        async with worlds() as world:
            await world.give(ThreadMessage(thread_id="t", agent_id="reader", payload=payload))
            await world.node().relay.relay_once()
            (dead,) = await world.dead()
            assert (dead.attempts, (dead.error or "")[:12]) == (1, "InvalidInput")
            assert await world.store.load_thread("t") is None

    asyncio.run(scenario())


def test_a_letter_waits_for_room_in_a_full_thread(worlds: Any) -> None:
    async def scenario() -> None:
        async with worlds(thread_backlog=1) as world:
            node = world.node()
            first = await node.mailbox.submit(RunRequest(thread_id="t", agent_id="reader"))
            await world.give(letter("t"))
            await node.relay.relay_once()
            full = await world.the_failed(1000)
            assert (full.attempts, full.is_dead) == (1, False)
            assert "QueueFull" in (full.error or "")
            await node.mailbox.cancel(first.dispatch_id)
            await node.relay.relay_once()
            assert node.queued == ["t"]
            assert await world.due() == []

    asyncio.run(scenario())


def test_two_relays_that_deliver_the_same_letter_queue_it_once(worlds: Any) -> None:
    async def scenario() -> None:
        async with worlds() as world:
            nodes = [world.node(), world.node()]
            both_here = asyncio.Barrier(2)

            async def enqueue(*given: Any, **named: Any) -> Any:
                await both_here.wait()
                return await world.store.enqueue(*given, **named)

            for node in nodes:
                node.wire.hooks["enqueue"] = enqueue
            await world.give(letter("t"))
            await asyncio.gather(*(node.relay.relay_once() for node in nodes))
            assert [node.queued for node in nodes] == [["t"], ["t"]]
            assert len(await world.dispatches()) == 1
            assert (await world.due(), await world.dead()) == ([], [])

    asyncio.run(scenario())


@pytest.mark.parametrize("crash", [away("delete_outbox"), RuntimeError("crash")])
def test_a_crash_after_the_delivery_delivers_nothing_twice(worlds: Any, crash: Exception) -> None:
    async def scenario() -> None:
        async with worlds() as world:
            node = world.node()

            async def crashing(_entry_ids: Any) -> None:
                del node.wire.hooks["delete_outbox"]
                raise crash

            node.wire.hooks["delete_outbox"] = crashing
            (entry_id,) = await world.give(letter("t"))
            await node.relay.relay_once()
            assert await world.due() == [entry_id]
            # Somebody takes it in before it is delivered again.
            (claimed,) = await world.store.claim("worker", "token", 1000)
            await world.store.release(claimed.dispatch_id, "token")
            await world.node().relay.relay_once()
            (only,) = await world.dispatches()
            assert (only.dispatch_id, only.status) == (entry_id, DispatchStatus.ACKED)
            assert (await world.due(), await world.dead()) == ([], [])

    asyncio.run(scenario())


def test_letters_to_one_thread_arrive_in_the_order_of_their_commits(worlds: Any) -> None:
    async def scenario() -> None:
        async with worlds() as world:
            node = world.node()
            calls = 0

            async def uneven(*given: Any, **named: Any) -> Any:
                nonlocal calls
                calls += 1
                for _ in range(calls * 7 % 5):
                    await asyncio.sleep(0)
                return await world.store.enqueue(*given, **named)

            node.wire.hooks["enqueue"] = uneven
            for number in range(20):
                await world.give(letter("a", f"{number}"), letter("b", f"{number}"))
            await node.relay.relay_once()
            for thread_id in ("a", "b"):
                arrived = texts(await world.store.list_inputs(thread_id))
                assert arrived == [str(number) for number in range(20)]

    asyncio.run(scenario())


def test_a_later_pass_does_not_overtake_a_letter_that_is_on_its_way(worlds: Any) -> None:
    async def scenario() -> None:
        async with worlds() as world:
            node = world.node()
            begun, held = asyncio.Event(), asyncio.Event()

            async def slow(*given: Any, **named: Any) -> Any:
                del node.wire.hooks["enqueue"]
                begun.set()
                await held.wait()
                return await world.store.enqueue(*given, **named)

            node.wire.hooks["enqueue"] = slow
            await world.give(letter("t", "first"))
            passing = [asyncio.create_task(node.relay.relay_once())]
            await begun.wait()
            await world.give(letter("t", "second"), letter("other", "aside"))
            passing.append(asyncio.create_task(node.relay.relay_once()))
            await node.until(lambda: node.queued == ["other"])
            held.set()
            await asyncio.gather(*passing)
            assert texts(await world.store.list_inputs("t")) == ["first", "second"]

    asyncio.run(scenario())


# --- failures ---


def test_an_order_that_fails_is_tried_five_times_with_growing_pauses(
    worlds: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with worlds() as world:
            node, tries = world.node(), []

            async def failing(order: AbortRemote) -> None:
                tries.append(order.run_id)
                raise RuntimeError("the line is cut " + "x" * 5000)

            node.abort = failing
            (entry_id,) = await world.give(abort())
            for attempt, pause_ms in enumerate((1_000, 5_000, 25_000, 120_000), start=1):
                await node.relay.relay_once()
                failed = await world.the_failed(pause_ms)
                assert (failed.attempts, failed.is_dead) == (attempt, False)
            await node.relay.relay_once()
            (dead,) = await world.dead()
            assert dead.due_at == await world.store.now_ms(), "when it was given up"
            world.clock.advance(HOUR_MS)
            await node.relay.relay_once()
            assert (dead.entry_id, dead.attempts, len(tries)) == (entry_id, 5, 5)
            assert (dead.error or "").startswith("RuntimeError: the line is cut")
            assert len(dead.error or "") <= 1000
            assert await world.due() == []

    with caplog.at_level(logging.WARNING, "awaken.mailbox.relay"):
        asyncio.run(scenario())
    warnings = [record.getMessage() for record in caplog.records]
    assert len(warnings) == 5
    assert [("given up" in text) for text in warnings] == [False] * 4 + [True]


def test_an_order_of_no_known_form_is_given_up_and_blocks_nothing(worlds: Any) -> None:
    async def scenario() -> None:
        async with worlds() as world:
            poison = OutboxEntry(entry_id="poison", kind="letter", payload={"order": "nonsense"})
            await world.owner.commit(outbox=(poison,))
            await world.give(letter("t", payload=7), letter("t", "good"), abort())
            node = world.node()
            await node.relay.relay_once()
            assert texts(await world.dispatches()) == ["good"]
            assert len(node.aborted) == 1
            assert [it.entry_id for it in await world.dead()] == ["poison", "order-0001"]
            assert await world.due() == []

    asyncio.run(scenario())


def test_an_order_that_only_a_newer_version_knows_stays_for_its_processes(worlds: Any) -> None:
    async def scenario() -> None:
        async with worlds() as world:
            later = OutboxEntry(entry_id="later", kind="later", payload={"order": "later"})
            await world.owner.commit(outbox=(later,))
            await world.give(letter("t", "good"))
            node = world.node()
            for _ in range(20):
                await node.relay.relay_once()
                world.clock.advance(HOUR_MS)
            assert texts(await world.dispatches()) == ["good"]
            assert await world.dead() == []
            assert await world.due() == ["later"]

    asyncio.run(scenario())


def test_processes_without_an_agent_use_up_no_attempt_of_the_one_that_has_it(worlds: Any) -> None:
    async def scenario() -> None:
        async with worlds() as world:
            without, serving = world.node(), world.node()

            async def refuse(order: AbortRemote) -> None:
                raise UnknownAgent(agent_id=order.agent_id, known="none")

            without.abort = refuse
            await world.give(abort())
            # More often than an order is tried.
            for _ in range(8):
                await without.relay.relay_once()
                world.clock.advance(HOUR_MS)
            assert await world.dead() == []
            await serving.relay.relay_once()
            assert len(serving.aborted) == 1
            assert await world.due() == []

    asyncio.run(scenario())


def test_an_order_for_an_agent_that_no_process_has_is_given_up_in_the_end(worlds: Any) -> None:
    async def scenario() -> None:
        async with worlds() as world:
            node, tries = world.node(), []

            async def refuse(order: AbortRemote) -> None:
                tries.append(order)
                raise UnknownAgent(agent_id=order.agent_id, known="none")

            node.abort = refuse
            await world.give(abort())
            for _ in range(30):
                await node.relay.relay_once()
                world.clock.advance(HOUR_MS)
            (dead,) = await world.dead()
            assert (dead.attempts, len(tries)) == (5, LEFT_TO_OTHERS_MAX + 5)
            assert "'far' is not registered" in (dead.error or "")

    asyncio.run(scenario())


def test_a_run_that_is_ordered_is_queued_once_on_its_thread(worlds: Any) -> None:
    async def scenario() -> None:
        async with worlds() as world:
            wanted = [dispatch(f"d-{number}", "elsewhere") for number in range(2)]
            given = await world.give(*(QueueRun(dispatch=it) for it in wanted))
            node = world.node()
            # As a relay that dies before it has deleted the order.
            await node.handlers.carry_out(given[0], QueueRun(dispatch=wanted[0]))
            await node.relay.relay_once()
            found = await world.dispatches("elsewhere")
            assert sorted(it.dispatch_id for it in found) == ["d-0", "d-1"]
            assert set(node.queued) == {"elsewhere"}
            assert await world.due() == []

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("error", "is_dead"),
    [
        (UnknownAgent(agent_id="far", known="none"), False),
        (AgentUnusable(agent_id="far", problem="its plugin is missing"), False),
        (UnknownPublication(no=7), False),
        (InvalidInput(what="It", problem="it is wrong"), True),
        (CorruptRecord(what="It", problem="it is damaged"), True),
        (TimeoutError(), False),
    ],
)
def test_only_what_would_fail_everywhere_is_given_up_at_once(
    worlds: Any, error: Exception, is_dead: bool
) -> None:
    async def scenario() -> None:
        async with worlds() as world:
            node = world.node()

            async def failing(_order: AbortRemote) -> None:
                raise error

            node.abort = failing
            await world.give(abort())
            await node.relay.relay_once()
            assert bool(await world.dead()) is is_dead

    asyncio.run(scenario())


def test_a_store_that_is_away_costs_no_attempt_and_no_order(worlds: Any) -> None:
    async def scenario() -> None:
        async with worlds() as world:
            node = world.node()

            async def failing(*_given: Any, **_named: Any) -> Any:
                del node.wire.hooks["enqueue"]
                raise away()

            node.wire.hooks["enqueue"] = failing
            ids = await world.give(letter("t", "first"), letter("t", "second"))
            await node.relay.relay_once()
            waiting = await world.store.list_outbox()
            assert [(it.entry_id, it.attempts) for it in waiting] == [(id_, 0) for id_ in ids]
            await node.relay.relay_once()
            assert texts(await world.store.list_inputs("t")) == ["first", "second"]

    asyncio.run(scenario())


def test_an_attempt_that_takes_too_long_has_failed(worlds: Any) -> None:
    async def scenario() -> None:
        async with worlds(relay_timeout_ms=5) as world:
            node, is_cancelled = world.node(), asyncio.Event()

            async def hanging(_order: AbortRemote) -> None:
                try:
                    await asyncio.Event().wait()
                finally:
                    is_cancelled.set()

            node.abort = hanging
            await world.give(abort())
            await node.relay.relay_once()
            assert is_cancelled.is_set()
            assert "TimeoutError" in ((await world.the_failed(1000)).error or "")

    asyncio.run(scenario())


def test_slow_orders_are_begun_once_few_at_a_time_and_hold_up_no_letter(worlds: Any) -> None:
    async def scenario() -> None:
        async with worlds(relay_ms=1) as world:
            node, held, begun = world.node(), asyncio.Event(), []

            async def slow(order: AbortRemote) -> None:
                begun.append(order.run_id)
                node.changed.set()
                await held.wait()

            node.abort = slow
            count = PAGE + AT_ONCE
            await world.give(*(abort(number) for number in range(count)))
            await world.give(letter("t"))
            node.relay.start()
            await node.until(lambda: node.queued == ["t"] and len(begun) == AT_ONCE)
            held.set()
            await node.until(lambda: len(begun) == count)
            await world.give(letter("t", "over"))
            await node.until(lambda: len(node.queued) == 2)
            await node.relay.stop()
            assert len(set(begun)) == len(begun) == count

    asyncio.run(scenario())


# --- settings ---


@pytest.mark.parametrize("name", ["ms", "attempts", "base_ms", "cap_ms", "timeout_ms"])
def test_a_setting_of_the_relay_that_is_out_of_range_is_refused_by_name(name: str) -> None:
    with pytest.raises(InvalidInput, match=f"relay_{name}"):
        MailboxConfig(**{f"relay_{name}": 0})


def test_pauses_of_the_relay_do_not_begin_above_their_cap() -> None:
    with pytest.raises(InvalidInput, match="relay_base_ms"):
        MailboxConfig(relay_base_ms=500, relay_cap_ms=499)


def test_nobody_else_sends_under_the_keys_of_letters(worlds: Any) -> None:
    async def scenario() -> None:
        async with worlds() as world:
            request = RunRequest(thread_id="t", agent_id="reader", messages=(user("hi"),))
            with pytest.raises(InvalidInput, match="dedupe_key"):
                await world.node().mailbox.submit(request, dedupe_key="outbox:order-0001")

    asyncio.run(scenario())
