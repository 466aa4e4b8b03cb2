"""Following a run: from any cursor and any process, each logged event once, in order."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, aclosing
from pathlib import Path
from typing import Any

import pytest

from awaken import (
    Agent,
    AgentRuntime,
    Cancelled,
    ErrorEvent,
    InputMode,
    MailboxConfig,
    NaturalEnd,
    OnBusy,
    RunFinish,
    RunRequest,
    StepEnd,
    StreamReset,
    Suspended,
    ToolContext,
    UnknownRun,
    UnknownThread,
    tool,
    user,
)
from awaken.contracts.events import unwrap_event
from awaken.errors import CursorInvalid, ReaderDropped
from awaken.events import LoggedEvent
from awaken.runtime.journal import streams
from awaken.runtime.journal.streams import StreamItem
from awaken.server import TenantView
from awaken.services import event_streams as following
from awaken.services.event_streams import EventStream
from awaken.testing import ScriptedModel, ToolCalls
from awaken.tools import ResumeMode, ToolCallResume

from .serving import Gate

QUICK = MailboxConfig(poll_ms=10, lease_ms=20_000, renew_ms=500)


@tool(effect="none")
async def ask(ctx: ToolContext) -> Any:
    """Ask."""
    return ctx.suspend("question", mode=ResumeMode.USE_DECISION_AS_TOOL_RESULT)


def model() -> ScriptedModel:
    return ScriptedModel([ToolCalls([("wait", {})]), "All done."])


def view_of(runtime: AgentRuntime) -> TenantView:
    return runtime._services.view(None)


def request(**fields: Any) -> RunRequest:
    return RunRequest(agent_id="a", thread_id="t", messages=(user("go"),), **fields)


async def collected(stream: EventStream) -> list[StreamItem]:
    found: list[StreamItem] = []
    async with asyncio.timeout(20):
        async for batch in stream.batches():
            found += batch
            if stream.is_over:
                # Transports send nothing after the batch of which this is said.
                break
    return found


def logged(items: list[StreamItem]) -> list[int]:
    return [item.seq for item in items if isinstance(item, LoggedEvent)]


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(scenario())


def test_a_reader_from_every_cursor_gets_the_rest_once() -> None:
    async def scenario() -> None:
        gate = Gate()
        gate.opened.set()
        async with AgentRuntime([Agent("a", model=model(), tools=[gate.tool()])]) as runtime:
            view = view_of(runtime)
            started = await view.start(request())
            await collected(started.stream)
            whole = await collected(await view.follow_run(started.run_id))
            last = logged(whole)[-1]
            assert logged(whole) == list(range(1, last + 1))
            for cursor in range(last + 1):
                stream = await view.follow_run(started.run_id, cursor)
                rest = await collected(stream)
                assert logged(rest) == list(range(cursor + 1, last + 1))
                assert [*stream.before, *map(unwrap_event, rest)] == [
                    unwrap_event(it) for it in whole
                ]
            with pytest.raises(CursorInvalid):
                await view.follow_run(started.run_id, last + 1)
            with pytest.raises(CursorInvalid):
                await view.follow_thread("t", -1)
            with pytest.raises(UnknownRun):
                await view.follow_run("nobody")
            with pytest.raises(UnknownThread):
                await view.follow_thread("nobody")

    run(scenario)


@pytest.mark.parametrize("executes", ["here", "elsewhere"])
def test_a_late_reader_gets_the_log_the_unfinished_step_and_the_rest(
    executes: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        gate = Gate()
        store = f"sqlite:///{tmp_path}/s.db"
        agent = Agent("a", model=model(), tools=[gate.tool()])
        async with AsyncExitStack() as stack:
            first = AgentRuntime([agent], store=store, mailbox=QUICK)
            second = AgentRuntime([agent], store=store, mailbox=QUICK, has_worker=False)
            await stack.enter_async_context(first)
            await stack.enter_async_context(second)
            started = await view_of(first).start(request())
            await gate.entered.wait()
            view = view_of(first if executes == "here" else second)
            stream = await view.follow_run(started.run_id)
            reading = asyncio.create_task(collected(stream))
            firsthand = asyncio.create_task(collected(started.stream))
            await asyncio.sleep(0.05)
            gate.opened.set()
            items, own = await reading, await firsthand
            whole = await collected(await view.follow_run(started.run_id))
            assert isinstance(unwrap_event(items[-1]), RunFinish)
            # Every event that has a place came with it, or was shown before it had one.
            assert set(logged(items)) <= set(logged(whole))
            assert logged(items) == sorted(set(logged(items)))
            assert logged(items)[-1] == logged(own)[-1] == logged(whole)[-1]
            assert _steps(items) == _steps(whole) == _steps(own)

    run(scenario)


def _steps(items: list[StreamItem]) -> tuple[int, str]:
    events = [unwrap_event(item) for item in items]
    text = "".join(getattr(it, "delta", "") for it in events)
    return sum(isinstance(it, StepEnd) for it in events), text


def test_a_suspended_run_ends_its_stream_and_a_decision_opens_the_next(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = f"sqlite:///{tmp_path}/s.db"
        script = [ToolCalls([("ask", {})]), "Thanks."]
        agent = Agent("a", model=ScriptedModel(script), tools=[ask])
        async with AsyncExitStack() as stack:
            first = AgentRuntime([agent], store=store, mailbox=QUICK)
            second = AgentRuntime([agent], store=store, mailbox=QUICK, has_worker=False)
            await stack.enter_async_context(first)
            await stack.enter_async_context(second)
            started = await view_of(first).start(request())
            before = await collected(started.stream)
            end = unwrap_event(before[-1])
            assert isinstance(end, RunFinish)
            assert isinstance(end.termination, Suspended)
            # Decided by a process that did not start it.
            view = view_of(second)
            target = await view.run(started.run_id)
            ticket = (await view.tickets("t"))[0]
            decision = ToolCallResume(decision_id="d", result="yes")
            stream = await view.decide_and_follow(target, {ticket.ticket_id: decision})
            after = await collected(stream)
            assert logged(after)[0] == logged(before)[-1] + 1
            end = unwrap_event(after[-1])
            assert isinstance(end, RunFinish)
            assert isinstance(end.termination, NaturalEnd)
            # The whole run again goes over both parts.
            whole = await collected(await view.follow_run(started.run_id))
            assert logged(whole) == list(range(1, logged(after)[-1] + 1))

    run(scenario)


def test_a_start_that_interrupts_cancels_what_runs() -> None:
    async def scenario() -> None:
        gate = Gate()
        agent = Agent("a", model=model(), tools=[gate.tool()])
        async with AgentRuntime([agent], mailbox=QUICK) as runtime:
            view = view_of(runtime)
            first = await view.start(request())
            await gate.entered.wait()
            second = await view.start(request(on_busy=OnBusy.INTERRUPT))
            old = await collected(first.stream)
            gate.opened.set()
            new = await collected(second.stream)
            end = unwrap_event(old[-1])
            assert isinstance(end, RunFinish)
            assert isinstance(end.termination, Cancelled)
            assert first.run_id != second.run_id
            end = unwrap_event(new[-1])
            assert isinstance(end, RunFinish)
            assert end.run_id == second.run_id

    run(scenario)


def test_a_thread_is_followed_over_several_runs() -> None:
    async def scenario() -> None:
        agent = Agent("a", model=ScriptedModel(["one", "two"]))
        async with AgentRuntime([agent], mailbox=QUICK) as runtime:
            view = view_of(runtime)
            await collected((await view.start(request())).stream)
            stream = await view.follow_thread("t", 0)
            finished = 0
            async with asyncio.timeout(20), aclosing(stream.batches()) as batches:
                async for batch in batches:
                    finished += sum(isinstance(unwrap_event(it), RunFinish) for it in batch)
                    if finished == 1 and batch:
                        await view.send(request(), InputMode.QUEUE)
                    if finished == 2:
                        break
            assert finished == 2

    run(scenario)


def test_what_was_cancelled_in_the_queue_ends_its_stream(tmp_path: Path) -> None:
    async def scenario() -> None:
        agent = Agent("a", model=ScriptedModel(["never"]))
        store = f"sqlite:///{tmp_path}/s.db"
        async with AgentRuntime([agent], store=store, mailbox=QUICK, has_worker=False) as runtime:
            view = view_of(runtime)
            receipt = await view.send(request(), InputMode.QUEUE)
            reading = asyncio.create_task(collected(await view.follow_run(receipt.run_id)))
            await asyncio.sleep(0.02)
            assert await view.cancel_run(receipt.run_id)
            items = await reading
            assert [type(it) for it in items] == [RunFinish]

    run(scenario)


def test_every_stream_says_that_the_server_stops() -> None:
    async def scenario() -> None:
        gate = Gate()
        agent = Agent("a", model=model(), tools=[gate.tool()])
        async with AgentRuntime([agent]) as runtime:
            view = view_of(runtime)
            started = await view.start(request())
            await gate.entered.wait()
            streams = [started.stream, await view.follow_run(started.run_id)]
            streams.append(await view.follow_thread("t"))
            reading = [asyncio.create_task(collected(stream)) for stream in streams]
            await asyncio.sleep(0.01)
            runtime._services.streams.close()
            for items in await asyncio.gather(*reading):
                assert isinstance(items[-1], ErrorEvent)
                assert items[-1].code == "server_stopping"
                assert not any(isinstance(item, StreamReset) for item in items)
            assert not runtime._engine.active.watchers
            gate.opened.set()

    run(scenario)


def test_a_reader_that_does_not_read_is_dropped_and_can_attach_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario() -> None:
        monkeypatch.setattr(streams, "READER_BYTES", 4096)
        text = "x" * 500
        agent = Agent("a", model=ScriptedModel([" ".join([text] * 40)]))
        async with AgentRuntime([agent]) as runtime:
            view = view_of(runtime)
            started = await view.start(request())
            await runtime.wait(started.run_id)
            with pytest.raises(ReaderDropped):
                await collected(started.stream)
            items = await collected(await view.follow_run(started.run_id))
            assert isinstance(unwrap_event(items[-1]), RunFinish)

    run(scenario)


def test_a_run_that_another_process_goes_on_with_is_followed_to_its_end(tmp_path: Path) -> None:
    async def scenario() -> None:
        here, there = Gate(), Gate()
        there.opened.set()
        store = f"sqlite:///{tmp_path}/s.db"
        # A beat may extend the lease once more after it was ended: it is short.
        config = MailboxConfig(poll_ms=10, lease_ms=5_000, renew_ms=100, sweep_ms=50)
        agent = Agent("a", model=model(), tools=[here.tool()])
        async with AgentRuntime([agent], store=store, mailbox=config, has_worker=False) as first:
            view = view_of(first)
            started = await view.start(request())
            await here.entered.wait()
            streams = [started.stream, await view.follow_run(started.run_id)]
            reading = [asyncio.create_task(collected(stream)) for stream in streams]
            await asyncio.sleep(0.02)
            active = first._engine.active.of_thread("t")
            assert active is not None
            assert active.lease is not None
            active.lease_lost()
            keeper, token = first.store.lease_keeper(), active.lease.token

            async def expire() -> None:
                while True:
                    # Again: a renewal that was on its way would prolong it by twenty seconds.
                    keeper.extend([token], 0)
                    await asyncio.sleep(0.05)

            expiring = asyncio.create_task(expire())
            other = Agent("a", model=ScriptedModel(["All done."]), tools=[there.tool()])
            async with AgentRuntime([other], store=store, mailbox=config):
                ended = await asyncio.gather(*reading)
                expiring.cancel()
                await asyncio.wait([expiring])
                keeper.close()
                for items in ended:
                    events = [unwrap_event(item) for item in items]
                    assert not any(isinstance(event, ErrorEvent) for event in events)
                    assert isinstance(events[-1], RunFinish)
                    assert isinstance(events[-1].termination, NaturalEnd)
                    assert logged(items) == sorted(set(logged(items)))

    run(scenario)


def test_the_stream_of_input_that_another_run_took_in_is_that_runs(tmp_path: Path) -> None:
    async def scenario() -> None:
        gate = Gate()
        agent = Agent("a", model=model(), tools=[gate.tool()])
        store = f"sqlite:///{tmp_path}/s.db"
        async with AgentRuntime([agent], store=store, mailbox=QUICK) as runtime:
            view = view_of(runtime)
            started = await view.start(request())
            await gate.entered.wait()
            receipt = await view.send(request(), InputMode.STEER)
            assert receipt.run_id != started.run_id
            reading = asyncio.create_task(collected(await view.follow_run(receipt.run_id)))
            await asyncio.sleep(0.02)
            gate.opened.set()
            end = unwrap_event((await reading)[-1])
            assert isinstance(end, RunFinish)
            assert end.run_id == started.run_id

    run(scenario)


def test_what_comes_at_once_does_not_drop_a_reader_that_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario() -> None:
        monkeypatch.setattr(streams, "READER_BYTES", 4096)
        gate = Gate()
        big = "x" * 3000

        @tool(effect="none")
        async def fetch() -> str:
            """Fetch."""
            await gate.opened.wait()
            return big

        script = [ToolCalls([("fetch", {})] * 8), "Done."]
        async with AgentRuntime(
            [Agent("a", model=ScriptedModel(script), tools=[fetch])]
        ) as runtime:
            started = await view_of(runtime).start(request())
            reading = asyncio.create_task(collected(started.stream))
            await asyncio.sleep(0.02)
            gate.opened.set()
            assert isinstance(unwrap_event((await reading)[-1]), RunFinish)

    run(scenario)


def test_a_reader_that_leaves_while_it_catches_up_is_gone() -> None:
    async def scenario() -> None:
        gate = Gate()
        agent = Agent("a", model=model(), tools=[gate.tool()])
        async with AgentRuntime([agent]) as runtime:
            view = view_of(runtime)
            started = await view.start(request())
            await gate.entered.wait()
            active = runtime._engine.active.of_thread("t")
            assert active is not None
            assert active.run is not None
            feed = active.run.feed
            assert len(feed.readers) == 1
            late = (await view.follow_run(started.run_id)).batches()
            await anext(late)
            assert len(feed.readers) == 2
            await late.aclose()
            started.stream.close()
            assert feed.readers == ()
            assert not runtime._services.streams.readers
            assert not runtime._engine.active.watchers
            gate.opened.set()

    run(scenario)


def test_the_same_decision_again_shows_what_came_of_it() -> None:
    async def scenario() -> None:
        script = [ToolCalls([("ask", {})]), "Thanks."]
        async with AgentRuntime([Agent("a", model=ScriptedModel(script), tools=[ask])]) as runtime:
            view = view_of(runtime)
            started = await view.start(request())
            await collected(started.stream)
            (ticket,) = await view.tickets("t")
            target = await view.run(started.run_id)
            given = {ticket.ticket_id: ToolCallResume(decision_id="d", result="yes")}
            first = await collected(await view.decide_and_follow(target, given))
            again = await collected(await view.decide_and_follow(target, given))
            assert unwrap_event(again[-1]) == unwrap_event(first[-1])
            assert logged(again)[0] == 1

    run(scenario)


def test_a_queued_run_that_begins_while_one_attaches_is_seen_from_its_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        gate = Gate()
        agent = Agent("a", model=model(), tools=[gate.tool()])
        store = f"sqlite:///{tmp_path}/s.db"
        async with AgentRuntime([agent], store=store, mailbox=QUICK, has_worker=False) as runtime:
            view = view_of(runtime)
            receipt = await view.send(request(), InputMode.QUEUE)
            load = runtime.store.load_thread

            async def begin_first(thread_id: str) -> Any:
                monkeypatch.setattr(runtime.store, "load_thread", load)
                runtime._node.start_worker(runtime._engine)
                await gate.entered.wait()
                return await load(thread_id)

            monkeypatch.setattr(runtime.store, "load_thread", begin_first)
            stream = await runtime._services.streams.stream_run(receipt.run_id)
            gate.opened.set()
            items = await collected(stream)
            assert logged(items)[0] == 1

    run(scenario)


def test_a_silent_stream_gives_a_sign_of_life_now_and_then_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        monkeypatch.setattr(following, "SILENCE_S", 0.2)
        agent = Agent("a", model=ScriptedModel(["one"]))
        store = f"sqlite:///{tmp_path}/s.db"
        async with AgentRuntime([agent], store=store, mailbox=QUICK) as runtime:
            view = view_of(runtime)
            await collected((await view.start(request())).stream)
            stream = await view.follow_thread("t")
            beats: list[float] = []
            async with aclosing(stream.batches()) as batches:
                async for batch in batches:
                    assert batch == []
                    beats.append(asyncio.get_running_loop().time())
                    if len(beats) == 3:
                        break
            assert beats[2] - beats[0] >= 0.4

    run(scenario)
