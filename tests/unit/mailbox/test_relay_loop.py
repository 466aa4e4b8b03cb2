"""When the relay looks for orders: woken, by itself, after an outage, and after a stop."""

import asyncio
import logging
from typing import Any

import pytest

from awaken.contracts.errors import StoreUnavailable
from awaken.contracts.messages.inbox import PlainMessages
from awaken.contracts.messages.message import user
from awaken.contracts.storage.outbox import AbortRemote, ThreadMessage
from awaken.mailbox.relay import AT_ONCE, PAGE, Relay

HOUR_MS = 60 * 60 * 1000


def letter(thread_id: str) -> ThreadMessage:
    plain = PlainMessages(messages=(user("hi"),))
    return ThreadMessage(thread_id=thread_id, agent_id="reader", payload=plain)


def abort(number: int) -> AbortRemote:
    return AbortRemote(thread_id="owner", run_id=f"run-{number}", agent_id="far")


def away() -> StoreUnavailable:
    return StoreUnavailable(store="store", problem="the line is cut")


def test_a_relay_that_is_woken_does_not_wait_for_its_time(worlds: Any) -> None:
    async def scenario() -> None:
        async with worlds(relay_ms=HOUR_MS) as world:
            node = world.node()
            looked = 0

            async def counted(**named: Any) -> Any:
                nonlocal looked
                looked += 1
                node.changed.set()
                return await world.store.list_outbox(**named)

            node.wire.hooks["list_outbox"] = counted
            node.relay.start()
            node.relay.start()
            await node.until(lambda: looked == 1)
            await world.give(letter("t"))
            for _ in range(100):
                node.relay.wake()
            await node.until(lambda: node.queued == ["t"])
            await node.relay.stop()
            assert looked == 2

    asyncio.run(scenario())


def test_who_wakes_the_relay_while_it_looks_is_not_forgotten(worlds: Any) -> None:
    async def scenario() -> None:
        async with worlds(relay_ms=HOUR_MS) as world:
            node = world.node()

            async def looking(**named: Any) -> Any:
                del node.wire.hooks["list_outbox"]
                seen = await world.store.list_outbox(**named)
                await world.give(letter("t"))
                node.relay.wake()
                return seen

            node.wire.hooks["list_outbox"] = looking
            node.relay.start()
            await node.until(lambda: node.queued == ["t"])
            await node.relay.stop()

    asyncio.run(scenario())


def test_an_order_that_is_settled_while_the_relay_looks_is_not_done_again(worlds: Any) -> None:
    async def scenario() -> None:
        async with worlds() as world:
            node, begun, held = world.node(), asyncio.Event(), asyncio.Event()

            async def slow(order: AbortRemote) -> None:
                begun.set()
                await held.wait()
                await node.note_abort(order)

            node.abort = slow
            await world.give(abort(1))
            first = asyncio.create_task(node.relay.relay_once())
            await begun.wait()

            async def looking(**named: Any) -> Any:
                seen = await world.store.list_outbox(**named)
                held.set()
                await first
                return seen

            node.wire.hooks["list_outbox"] = looking
            await node.relay.relay_once()
            assert len(node.aborted) == 1

    asyncio.run(scenario())


def test_orders_of_the_dead_are_found_without_a_call(worlds: Any) -> None:
    async def scenario() -> None:
        async with worlds(relay_ms=1) as world:
            node = world.node()
            node.relay.start()
            for number in range(3):
                await world.give(letter(f"t{number}"))
                await node.until(lambda count=number + 1: len(node.queued) == count)
            await node.relay.stop()

    asyncio.run(scenario())


def test_more_orders_than_a_page_are_carried_out_with_one_call(worlds: Any) -> None:
    async def scenario() -> None:
        async with worlds(relay_ms=HOUR_MS) as world:
            node = world.node()
            count = 2 * PAGE + 10
            await world.give(*(letter(f"t{number % 50}") for number in range(count)))
            node.relay.start()
            await node.until(lambda: len(node.queued) == count)
            await node.relay.stop()

    asyncio.run(scenario())


def test_a_relay_that_was_stopped_in_the_middle_does_the_rest_when_it_is_started_again(
    worlds: Any,
) -> None:
    async def scenario() -> None:
        async with worlds(relay_ms=HOUR_MS) as world:
            node, begun = world.node(), asyncio.Event()

            async def hanging(_order: AbortRemote) -> None:
                begun.set()
                await asyncio.Event().wait()

            node.abort = hanging
            await world.give(*(abort(number) for number in range(AT_ONCE + 5)))
            node.relay.start()
            await begun.wait()
            await node.relay.stop()
            await node.relay.stop()
            node.abort = node.note_abort
            assert len(await world.due()) == AT_ONCE + 5
            node.relay.start()
            await node.until(lambda: len(node.aborted) == AT_ONCE + 5)
            await node.relay.stop()

    asyncio.run(scenario())


def test_what_a_stop_kept_from_beginning_is_begun_after_the_next_start(worlds: Any) -> None:
    async def scenario() -> None:
        async with worlds() as world:
            node, stopping = world.node(), []

            async def looking(**named: Any) -> Any:
                del node.wire.hooks["list_outbox"]
                seen = await world.store.list_outbox(**named)
                # It takes its turn before anything that this look makes begin.
                stopping.append(asyncio.create_task(node.relay.stop()))
                return seen

            node.wire.hooks["list_outbox"] = looking
            await world.give(abort(1))
            await node.relay.relay_once()
            await asyncio.gather(*stopping)
            assert node.aborted == []
            await node.relay.relay_once()
            assert len(node.aborted) == 1

    asyncio.run(scenario())


def test_an_outage_is_told_when_it_begins_and_when_it_ends(
    worlds: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with worlds(relay_ms=1, retry_cap_ms=250) as world:
            node, failures = world.node(), 0

            async def failing(**named: Any) -> Any:
                nonlocal failures
                failures += 1
                if failures > 3:
                    node.changed.set()
                    return await world.store.list_outbox(**named)
                raise away()

            node.wire.hooks["list_outbox"] = failing
            await world.give(letter("t"))
            node.relay.start()
            await node.until(lambda: node.queued == ["t"] and failures > 4)
            await node.relay.stop()

    with caplog.at_level(logging.INFO, "awaken.mailbox.relay"):
        asyncio.run(scenario())
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]


def test_pauses_grow_while_the_store_refuses_what_it_lists(worlds: Any) -> None:
    async def scenario() -> None:
        async with worlds(relay_ms=1, retry_cap_ms=HOUR_MS) as world:
            node, pauses = world.node(), []

            async def failing(*_given: Any, **_named: Any) -> Any:
                raise away()

            node.wire.hooks["enqueue"] = failing
            await world.give(letter("t"))
            for _ in range(4):
                pauses.append(await one_pass(node.relay))
            assert pauses == [1, 1, 2, 4]

    asyncio.run(scenario())


async def one_pass(relay: Relay) -> int:
    """Have the relay's loop pass once, and wait for what it has begun."""
    pause_ms = await relay._relay_due()
    await asyncio.gather(*(task for _, task in relay._lanes.values()))
    return pause_ms
