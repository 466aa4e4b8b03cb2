"""The edges of tasks and messages: letters given up, told twice, told to nobody, told for ever."""

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from awaken import Agent, AgentRuntime, Limits, MailboxConfig, RunRequest, ToolContext, tool
from awaken.errors import QueueFull, RuntimeClosing, StoreUnavailable
from awaken.extensions.background import BackgroundTasksPlugin
from awaken.models import InferenceRequest
from awaken.stores import Commit, RunDispatch
from awaken.testing import ScriptedModel, ToolCalls
from awaken.tools import TaskContext

from .delegating import asking, asks, boss, child_of, runtime
from .remoting import Door, FakeBackend, behind, remote_runtime
from .task_worlds import BOUND_S, CONFIG, Town, Works, both_stores, obeying, play, until, use
from .test_agent_messages import Patient, letters, receipts, to_child, to_thread


@both_stores
def test_nobody_waits_for_an_end_that_can_not_be_told(kind: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Town(kind, tmp_path) as town:
            store: Any = town.runtime.store
            enqueue = store.enqueue

            async def full(dispatch: RunDispatch, **options: Any) -> RunDispatch:
                if dispatch.is_notification:
                    raise QueueFull(what="t", size=1, limit=1, retry_after_ms=1)
                stored: RunDispatch = await enqueue(dispatch, **options)
                return stored

            store.enqueue = full
            told = use("spawn", {"name": "a"})
            running = asyncio.create_task(town.runtime.run("boss", told, thread_id="t"))
            await town.works.has_begun("a")
            town.works.end("a")
            result = await asyncio.wait_for(running, BOUND_S)
            assert result.status == "done"
            assert await store.list_dead_outbox()

    play(scenario)


def spawn_helper(prompt: str = "hi") -> str:
    return use("spawn_agent", {"agent_id": "helper", "prompt": prompt, "name": "h"})


@both_stores
def test_what_a_call_writes_to_a_task_again_is_read_once(kind: str, tmp_path: Path) -> None:
    @tool(effect="idempotent")
    async def tell_twice(ctx: ToolContext) -> str:
        task = await ctx.sub_runs.find_task("h")
        assert task is not None
        first = await ctx.sub_runs.tell_task(task.task_id, "hello")
        # A call that is run again begins to count anew.
        ctx.sub_runs._count -= 1
        assert await ctx.sub_runs.tell_task(task.task_id, "hello") == first
        return first

    async def scenario() -> None:
        patient = Patient()
        async with Town(kind, tmp_path, tools=[tell_twice], helper=patient.model) as town:
            await town.start(spawn_helper())
            await patient.has_begun("hi")
            await town.start(use("tell_twice", {}))
            patient.let_go("hi")
            await town.until_told(1)
            task = await town.ended("h")
            (letter,) = await letters(town, task.task_id)
            assert letter.id == (await town.answers())[-1]
            assert len(await town.runtime.list_runs(task.task_id)) == 1

    play(scenario)


def test_what_was_written_to_a_task_outlives_the_process_that_executed_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        patient = Patient()
        async with Town("sqlite", tmp_path, helper=patient.model) as town:
            await town.start(spawn_helper())
            await patient.has_begun("hi")
            await town.start(use(*to_child("h", "important")))
            assert (await receipts(town))[-1]["status"] == "accepted"
        async with Town("sqlite", tmp_path) as later:
            await later.until_told(1)
            task = await later.ended("h")
            assert len(await letters(later, task.task_id)) == 1
            assert "important" in task.result

    play(scenario)


@both_stores
def test_a_letter_to_a_task_that_has_just_ended_starts_nothing(kind: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        patient = Patient()
        async with Town(kind, tmp_path, helper=patient.model) as town:
            await town.start(spawn_helper())
            await patient.has_begun("hi")
            outbox: Any = town.runtime._outbox
            task, post = await town.task("h"), outbox.deliver_message

            async def late(*given: Any) -> bool:
                patient.let_go("hi")
                await town.ended("h")
                return bool(await post(*given))

            outbox.deliver_message = late
            await town.start(use(*to_child("h", "hello?")))
            await town.quiet(task.task_id)
            assert len(await town.runtime.list_runs(task.task_id)) == 1
            assert await letters(town, task.task_id) == []

    play(scenario)


def test_a_task_at_a_remote_backend_takes_no_messages() -> None:
    def answer(request: InferenceRequest) -> Any:
        match request.messages[-1].text:
            case "spawn":
                given = {"agent_id": "far", "prompt": "x", "name": "w"}
                return ToolCalls([("spawn_agent", given)])
            case "tell":
                return ToolCalls([to_child("w", "hello?")])
        return "ok"

    async def scenario() -> None:
        door = Door()
        model = ScriptedModel([answer], cycle=True)
        plugins = [BackgroundTasksPlugin()]
        asker = Agent("boss", model=model, plugins=plugins, delegates=["far"])
        async with remote_runtime(FakeBackend(behind(door)), None, asker) as rt:
            handle = await rt.start("boss", "spawn", thread_id="t")
            await door.opened()
            await asyncio.wait_for(handle.result(), BOUND_S)
            (task,) = await rt.tasks("t")
            await rt.submit("boss", "tell", thread_id="t")

            async def is_answered() -> bool:
                return any("recipient_unavailable" in it.message.text for it in await heard())

            async def heard() -> Any:
                return await rt.messages("t")

            await until(is_answered)
            door.let_go.set()
            assert len(await rt.list_runs(task.task_id)) == 1

    play(scenario)


def test_a_run_that_nobody_could_wake_waits_for_its_tasks_in_process() -> None:
    async def scenario() -> None:
        works = Works()
        plugins = [BackgroundTasksPlugin()]
        lead = Agent("boss", model=obeying(), tools=works.tools, plugins=plugins)
        async with AgentRuntime([lead], mailbox=CONFIG, has_worker=False) as rt:
            handle = await rt.start("boss", use("spawn", {"name": "a"}), thread_id="t")
            await works.has_begun("a")
            works.end("a")
            result = await asyncio.wait_for(handle.result(), BOUND_S)
            assert (result.status, "completed" in result.text) == ("done", True)

    play(scenario)


def test_a_delegate_that_is_answered_lets_its_parent_go_on_without_a_worker() -> None:
    async def scenario() -> None:
        agents = [boss(asks("worker"), "end"), asking("worker")]
        async with runtime(agents, None, has_worker=False) as rt:
            waiting = await rt.run("boss", "hi", thread_id="t")
            child = await child_of(rt, waiting.run_id)
            (ticket,) = await rt.tickets(child.thread_id)
            await rt.decide(ticket.ticket_id, result="yes")
            result = await rt.wait(waiting.run_id, timeout_ms=BOUND_S * 1000)
            assert (result.status, result.text) == ("done", "end")

    play(scenario)


@both_stores
def test_agents_that_write_to_each_other_come_to_an_end(kind: str, tmp_path: Path) -> None:
    refused = asyncio.Event()

    def answering(other: str) -> ScriptedModel:
        def answer(request: InferenceRequest) -> Any:
            last = request.messages[-1]
            if last.role == "tool":
                if "a person's message starts anew" in last.text:
                    refused.set()
                return "ok"
            return ToolCalls([to_thread(other, "again", agent_id=other)])

        return ScriptedModel([answer], cycle=True)

    def talker(name: str, other: str) -> Agent:
        plugins = [BackgroundTasksPlugin()]
        return Agent(name, model=answering(other), plugins=plugins, delegates=[other])

    async def scenario() -> None:
        store = None if kind == "memory" else f"sqlite:///{tmp_path / 'store.db'}"
        agents, limits = [talker("a", "b"), talker("b", "a")], Limits(message_hops=5)
        async with AgentRuntime(agents, store=store, limits=limits, mailbox=CONFIG) as rt:
            await rt.run("a", "go", thread_id="a")
            await asyncio.wait_for(refused.wait(), BOUND_S)
            seen = [*await rt.messages("a"), *await rt.messages("b")]
            hops = [it.message.sender.hops for it in seen if it.message.sender is not None]
            assert sorted(hops) == [1, 2, 3, 4, 5]
            refused.clear()
            await until(lambda: _is_idle(rt, "b"))
            await rt.run("a", "go on", thread_id="a")
            await asyncio.wait_for(refused.wait(), BOUND_S)

    play(scenario)


async def _is_idle(rt: AgentRuntime, thread_id: str) -> bool:
    return all(it.status == "done" for it in await rt.list_runs(thread_id))


def test_a_message_names_only_readers_that_its_writer_may_start(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Town("memory", tmp_path) as town:
            await town.start(use(*to_thread("fresh", "begin", agent_id="boss")))
            (receipt,) = await receipts(town)
            assert (receipt["status"], receipt["error"]) == ("failed", "permission_denied")
            assert await town.runtime.store.list_outbox() == ()

    play(scenario)


def test_the_end_of_a_task_is_written_however_long_the_store_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("awaken.runtime.children.function_tasks._FIRST_PAUSE_S", 0.001)
    config = MailboxConfig(poll_ms=10, relay_ms=20, lease_ms=60_000)

    async def scenario() -> None:
        async with Town("sqlite", tmp_path, config=config) as town:
            await town.runtime.start("boss", use("spawn", {"name": "a"}), thread_id="t")
            await town.works.has_begun("a")
            task, store, failures = await town.task("a"), town.runtime.store, 8
            commit: Any = store.commit

            async def away(wanted: Commit) -> Any:
                nonlocal failures
                if wanted.thread_id == task.task_id and failures:
                    failures -= 1
                    raise StoreUnavailable(store="s", problem="failover")
                return await commit(wanted)

            store.commit = away  # type: ignore[method-assign]
            town.works.end("a")
            ended = await town.ended("a")
            assert (ended.status, ended.result) == ("completed", {"did": "a"})

    play(scenario)


@both_stores
def test_a_cancelled_thread_is_free_for_whoever_comes_next(kind: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Town(kind, tmp_path) as town:
            rt = town.runtime
            for n in range(8):
                thread_id, name = f"t{n}", f"a{n}"
                waiting = await town.start(use("spawn", {"name": name}), thread_id)
                await town.works.has_begun(name)
                await rt.cancel(waiting.run_id)
                await rt.wait(waiting.run_id)

                async def is_being_told(thread_id: str = thread_id) -> bool:
                    is_held = rt._engine.active.of_thread(thread_id) is not None
                    return is_held or bool(await town.notices(thread_id))

                if n % 2:
                    await until(is_being_told)
                result = await rt.run("boss", "hello", thread_id=thread_id)
                assert result.status == "done"

    play(scenario)


def test_a_function_that_does_not_stop_is_named_and_none_is_started_while_closing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    over = asyncio.Event()

    @tool(effect="idempotent")
    async def deaf(ctx: ToolContext) -> str:
        async def work(_: TaskContext) -> None:
            while not over.is_set():
                try:
                    await over.wait()
                except asyncio.CancelledError:
                    continue

        return (await ctx.spawn(work, name="deaf")).task_id

    async def scenario() -> None:
        limits = Limits(cancel_grace_ms=50)
        town = Town("memory", tmp_path, tools=[deaf], limits=limits)
        async with town:
            await town.start(use("deaf", {}))
            task = await town.task("deaf")
            functions = town.runtime._engine.tasks._functions
            (execution,) = [it.execution for it in functions._running.values()]
            request = RunRequest(run_id_hint="late")
            with caplog.at_level(logging.ERROR):
                await functions.close()
            assert any(task.task_id in it.getMessage() for it in caplog.records)
            with pytest.raises(RuntimeClosing):
                await functions.start(request, None, None, None)  # type: ignore[arg-type]
            over.set()
            await asyncio.wait([execution], timeout=BOUND_S)

    play(scenario)
