"""Messages between agents reach whom they name, and their receipts say what was promised."""

import asyncio
import re
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest

from awaken import Agent, AgentRuntime, InvalidInput, Limits, ToolContext, UnknownAgent, tool
from awaken.contracts.messages.inbox import AgentMessage
from awaken.contracts.storage.outbox import ThreadMessage
from awaken.errors import AmbiguousId
from awaken.extensions.background import (
    SEND_MESSAGE_TOOL_ID,
    DurableMessageRequest,
    MessageError,
    SendMessageReceipt,
    SendMessageTool,
)
from awaken.models import InferenceRequest
from awaken.plugins import ACTIVE_AGENT
from awaken.stores import DispatchQuery, DispatchStatus, RunDispatch, RunRecord
from awaken.testing import InjectionPoint, ScriptedModel, ToolCalls, enumerate_awaits

from .each_store import NewStore, Opener, each_store, postgres, sqlite
from .task_worlds import BOUND_S, CONFIG, Town, play, until, use
from .test_agent_messages import Patient, letters, receipts, to_child, to_parent, to_thread
from .worlds import WatchedStore


class Hold:
    """A tool that a call stays in until the test lets it go."""

    def __init__(self) -> None:
        self.inside, self.go = asyncio.Event(), asyncio.Event()

        @tool(effect="idempotent")
        async def hold() -> str:
            self.inside.set()
            await self.go.wait()
            return "let go"

        self.tool = hold

    async def is_inside(self) -> None:
        async with asyncio.timeout(BOUND_S):
            await self.inside.wait()


@tool(effect="idempotent")
async def hand_over(ctx: ToolContext, to: str) -> str:
    ctx.state.set(ACTIVE_AGENT, to)
    return "handed over"


@tool
async def wait() -> str:
    await asyncio.sleep(5)
    return "waited"


def town_on(opener: Opener, tmp_path: Path, *tools: Any, **options: Any) -> Town:
    return Town("", tmp_path, store=opener(), tools=[hand_over, *tools], **options)


async def queued(town: Town, thread_id: str = "other") -> list[RunDispatch]:
    query = DispatchQuery(thread_id=thread_id, status=DispatchStatus.QUEUED)
    return list((await town.runtime.store.list_dispatches(query)).items)


async def until_queued(town: Town, count: int, thread_id: str = "other") -> None:
    """Wait until so many dispatches wait on a thread, and nothing is on its way to it."""

    async def is_there() -> bool:
        store = town.runtime.store
        orders = await store.list_outbox()
        query = DispatchQuery(thread_id=thread_id)
        sent = (await store.list_dispatches(query)).items
        moving = [it.status for it in sent if not it.status.is_terminal]
        return not orders and moving == [DispatchStatus.QUEUED] * count

    await until(is_there)


async def until_read(town: Town, count: int, thread_id: str = "other") -> None:
    async def is_there() -> bool:
        return len(await letters(town, thread_id)) >= count

    await until(is_there)
    await town.quiet(thread_id)
    assert len(await letters(town, thread_id)) == count


async def run_that_read(town: Town, n: int = 0, thread_id: str = "other") -> RunRecord:
    """The run that has taken a letter in."""
    letter = (await letters(town, thread_id))[n]
    assert letter.metadata is not None
    assert letter.metadata.run_id is not None
    return await town.runtime.get_run(letter.metadata.run_id)


async def said(town: Town, thread_id: str = "other") -> list[str]:
    """What the letters of a thread say, in order."""
    return [it.text.split("\n")[1] for it in await letters(town, thread_id)]


# A message for an agent reaches that agent.


@each_store
def test_a_message_for_an_agent_waits_while_another_one_works_and_then_starts_it(
    new_store: NewStore, tmp_path: Path
) -> None:
    async def scenario() -> None:
        hold = Hold()
        async with town_on(new_store(tmp_path), tmp_path, hold.tool) as town:
            busy = await town.runtime.start("boss", use("hold", {}), thread_id="other")
            await hold.is_inside()
            named = {"agent_id": "second"}
            first, last = to_thread("other", "one", **named), to_thread("other", "two", **named)
            await town.start(use(*first, *last))
            await until_queued(town, 2)
            hold.go.set()
            result = await busy.result()
            await until_read(town, 2)
            assert await said(town) == ["one", "two"]
            assert "agent-message" not in result.text
            for n in range(2):
                read = await run_that_read(town, n)
                assert (read.agent_id, read.status) == ("second", "done")
                assert read.run_id != busy.run_id
            sent = await receipts(town)
            assert [it["message_id"] for it in sent] == [
                it.id for it in await letters(town, "other")
            ]
            assert all("'second' reads it" in it["detail"] for it in sent)

    play(scenario)


@each_store
def test_a_message_for_an_agent_waits_behind_a_persons_decision_also_over_a_restart(
    new_store: NewStore, tmp_path: Path
) -> None:
    async def scenario() -> None:
        opener = new_store(tmp_path)
        async with AsyncExitStack() as open_towns:
            town = await open_towns.enter_async_context(town_on(opener, tmp_path))
            waiting = await town.start(use("ask", {}), thread_id="other")
            await town.start(use(*to_thread("other", "for second", agent_id="second")))
            await until_queued(town, 1)
            # What a task or an unaddressed message says is taken in by the run that waits.
            await town.start(use(*to_thread("other", "for all")))
            await until_queued(town, 1)
            assert [it.agent_id for it in await town.runtime.list_runs("other")] == ["boss"]
            if town.runtime.store.is_shared:
                await open_towns.aclose()
                town = await open_towns.enter_async_context(town_on(opener, tmp_path))
            (ticket,) = await town.runtime.tickets("other")
            assert len(await queued(town)) == 1
            await town.runtime.decide(ticket.ticket_id, result="yes")
            await until_read(town, 2)
            assert await said(town) == ["for all", "for second"]
            assert await town.answers("other") == ["told yes"]
            assert (await run_that_read(town, 0)).run_id == waiting.run_id
            read = await run_that_read(town, 1)
            assert (read.agent_id, read.status) == ("second", "done")
            boss = await town.runtime.get_run(waiting.run_id)
            assert (boss.status, boss.active_agent_id) == ("done", None)

    play(scenario)


@each_store
def test_a_message_for_an_agent_is_read_when_the_run_before_it_is_cancelled(
    new_store: NewStore, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with town_on(new_store(tmp_path), tmp_path) as town:
            waiting = await town.start(use("ask", {}), thread_id="other")
            await town.start(use(*to_thread("other", "hello", agent_id="second")))
            await until_queued(town, 1)
            assert await town.runtime.cancel(waiting.run_id)
            await until_read(town, 1)
            assert (await run_that_read(town)).agent_id == "second"
            assert (await town.runtime.get_run(waiting.run_id)).status == "done"

    play(scenario)


@each_store
def test_a_message_for_an_agent_goes_with_its_thread(new_store: NewStore, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with town_on(new_store(tmp_path), tmp_path) as town:
            await town.start(use("ask", {}), thread_id="other")
            await town.start(use(*to_thread("other", "hello", agent_id="second")))
            await until_queued(town, 1)
            store = town.runtime.store
            await store.delete_thread("other")
            # A second message to the thread makes a new one, where the first is not told.
            await town.start(use(*to_thread("other", "again", agent_id="second")))
            await until_read(town, 1)
            assert await said(town) == ["again"]
            assert [it.agent_id for it in await town.runtime.list_runs("other")] == ["second"]

    play(scenario)


@each_store
def test_a_run_that_waits_for_its_tasks_wakes_for_its_own_messages_only(
    new_store: NewStore, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with town_on(new_store(tmp_path), tmp_path) as town:
            spawn = use("spawn", {"name": "a"})
            handle = await town.runtime.start("second", spawn, thread_id="other")
            await town.works.has_begun("a")
            await town.start(use(*to_thread("other", "for helper", agent_id="helper")))
            await town.start(use(*to_thread("other", "for second", agent_id="second")))

            async def is_read() -> bool:
                return bool(await letters(town, "other"))

            await until(is_read)
            await until_queued(town, 1)
            assert await said(town) == ["for second"]
            assert (await run_that_read(town)).run_id == handle.run_id
            town.works.end("a")
            await until_read(town, 2)
            assert await said(town) == ["for second", "for helper"]
            assert (await run_that_read(town, 1)).agent_id == "helper"

    play(scenario)


@each_store
def test_after_a_handoff_a_message_still_reaches_the_agent_that_it_names(
    new_store: NewStore, tmp_path: Path
) -> None:
    async def scenario() -> None:
        hold = Hold()
        async with town_on(new_store(tmp_path), tmp_path, hold.tool) as town:
            # The helper holds the thread, and hands it over to the second agent in that step.
            work = use("hold", {}, "hand_over", {"to": "second"})
            handle = await town.runtime.start("helper", work, thread_id="other")
            await hold.is_inside()
            to_both = [
                *to_thread("other", "for helper", agent_id="helper"),
                *to_thread("other", "for second", agent_id="second"),
            ]
            await town.start(use(*to_both))
            await until_queued(town, 2)
            hold.go.set()
            await handle.result()
            await until_read(town, 2)
            texts = await said(town)
            for n, text in enumerate(texts):
                read = await run_that_read(town, n)
                reader = read.active_agent_id or read.agent_id
                assert text == f"for {reader}"
            helper = await run_that_read(town, texts.index("for helper"))
            assert helper.run_id != handle.run_id

    play(scenario)


@pytest.mark.parametrize("reader", ["first", "second"])
def test_a_message_that_comes_at_any_moment_of_a_handoff_is_read_by_the_agent_that_it_names(
    reader: str,
) -> None:
    in_first_run: set[bool] = set()

    async def scenario(hook: InjectionPoint) -> None:
        seen: list[str] = []

        def watching(agent_id: str, *turns: Any) -> ScriptedModel:
            """A model that notes when its agent is the first that reads the letter."""
            left = list(turns)

            def answer(request: InferenceRequest) -> Any:
                if any("agent-message" in it.text for it in request.messages):
                    seen.append(agent_id)
                return left.pop(0) if left else "nothing more"

            return ScriptedModel([answer], cycle=True)

        work = ToolCalls([("hand_over", {"to": "second"})])
        models = {
            "first": watching("first", ToolCalls([("wait", {})]), work),
            "second": watching("second", ToolCalls([("wait", {})]), "done"),
        }
        agents = [Agent(it, model=models[it], tools=[hand_over, wait]) for it in models]
        options: Any = {"store": WatchedStore(), "mailbox": CONFIG}
        async with AgentRuntime(agents, **options) as runtime:
            payload = AgentMessage(content="hi", agent_id="x", thread_id="x", run_id="x")
            letter = ThreadMessage(
                thread_id="t", agent_id=reader, payload=msgspec.to_builtins(payload)
            )
            post = runtime._outbox.deliver_message
            hook.arm(lambda: post(letter, "letter"))
            result = await runtime.run("first", "go", thread_id="t")
            await hook.settle()
            if not hook.fired:
                assert seen == []
                return
            async with asyncio.timeout(600):
                while not seen or runtime._engine.active.of_thread("t") is not None:
                    await asyncio.sleep(1)
            told = [it.message.id for it in await runtime.messages("t")]
            assert told.count("letter") == 1
            assert seen[0] == reader
            letter_at = (await runtime.messages("t"))[told.index("letter")]
            assert letter_at.message.metadata is not None
            in_first_run.add(letter_at.message.metadata.run_id == result.run_id)

    assert enumerate_awaits(scenario) > 20
    # Some of them went into the run that was there, others into a run of their own.
    assert in_first_run == {True, False}


# Who may be written to, and what a name means.


@each_store
def test_a_name_of_a_finished_and_of_a_running_task_means_the_running_one(
    new_store: NewStore, tmp_path: Path
) -> None:
    async def scenario() -> None:
        patient = Patient()
        async with town_on(new_store(tmp_path), tmp_path, helper=patient.model) as town:
            first = {"agent_id": "helper", "prompt": "go one", "name": "one"}
            patient.let_go("go one")
            await town.start(use("spawn_agent", first))
            await town.until_told(1)
            ended = (await town.ended("one")).task_id
            # The name of the second task is the id of the first.
            second = {"agent_id": "helper", "prompt": "go two", "name": ended}
            await town.start(use("spawn_agent", second))
            await patient.has_begun("go two")
            await town.start(use(*to_child(ended, "hurry"), "task_status", {"name": ended}))
            sent, status = (await receipts(town))[-2:]
            assert sent["status"] == "accepted"
            assert [it["status"] for it in status["tasks"]] == ["running"]
            patient.let_go("go two")
            await town.until_told(2)
            running = (await town.task(ended)).task_id
            assert await said(town, running) == ["hurry"]
            assert await letters(town, ended) == []

    play(scenario)


@each_store
def test_an_empty_name_is_nobody_and_an_empty_thread_is_refused_by_the_sink(
    new_store: NewStore, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with town_on(new_store(tmp_path), tmp_path) as town:
            calls = [*to_child("", "hi"), *to_child(" ", "hi"), *to_thread("", "hi")]
            calls += [*to_thread("", "hi", agent_id="second"), *to_thread("\n", "hi")]
            cancel = {"target": {"relation": "child", "name": ""}}
            await town.start(use(*calls, "cancel_task", cancel))
            answers = await receipts(town)
            errors = [it["error"].partition(":")[0] for it in answers]
            assert errors == [
                *["recipient_not_found"] * 2, *["transport_failed"] * 3, "task_not_found",
            ]  # fmt: skip
            assert all(it["status"] == "failed" for it in answers)
            assert all(it["message_id"] == "" for it in answers[:5])
            assert await town.runtime.store.list_outbox() == ()
            await town.quiet("t")
            assert await town.runtime.store.list_dead_outbox() == ()

    play(scenario)


@each_store
def test_who_may_be_written_to_is_said_in_the_refusal(new_store: NewStore, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with town_on(new_store(tmp_path), tmp_path) as town:
            await town.runtime.run("second", "hello", thread_id="other")
            # The boss may name its delegates, and neither itself nor an agent that is not there.
            calls = [*to_thread("other", "hi", agent_id="boss")]
            calls += [*to_thread("other", "hi", agent_id="nobody")]
            await town.start(use(*calls))
            for receipt in await receipts(town):
                assert (receipt["status"], receipt["error"]) == ("failed", "permission_denied")
                assert "may name 'helper', 'second'" in receipt["detail"]
                assert "without agent_id" in receipt["detail"]
            # Both ways out lead there, also for an agent that may name nobody.
            await town.start(use(*to_thread("other", "one", agent_id="second")))
            await until_read(town, 1)
            await town.start(use(*to_thread("other", "two")))
            await until_read(town, 2)
            named = use(*to_thread("t", "hi", agent_id="boss"))
            await town.runtime.run("second", named, thread_id="third")
            (receipt,) = await receipts(town, "third")
            assert receipt["error"] == "permission_denied"
            assert "'second' may name no agent_id" in receipt["detail"]

    play(scenario)


@each_store
def test_a_reader_that_does_not_exist_is_refused_where_the_message_is_written(
    new_store: NewStore, tmp_path: Path
) -> None:
    @tool(effect="idempotent")
    async def write_to_nobody(ctx: ToolContext) -> str:
        request = DurableMessageRequest(
            recipient_thread_id="other",
            recipient_agent_id="nobody",
            sender_agent_id="",
            message="hi",
        )
        with pytest.raises(UnknownAgent) as refused:
            await ctx.sub_runs.send_agent_message(request)
        return refused.value.code

    async def scenario() -> None:
        async with town_on(new_store(tmp_path), tmp_path, write_to_nobody) as town:
            await town.start(use("write_to_nobody", {}))
            assert await town.answers() == ["unknown_agent"]
            assert await town.runtime.store.load_thread("other") is None

    play(scenario)


# A host's own transport.


class Sink:
    """A transport of the host's that keeps what it was given."""

    def __init__(self, error: BaseException | None = None, answer: Any = None) -> None:
        self.requests: list[DurableMessageRequest] = []
        self.asked = asyncio.Event()
        self.error = error
        self.answer = answer

    async def send_agent_message(self, request: DurableMessageRequest) -> str:
        self.requests.append(request)
        self.asked.set()
        if self.error is not None:
            raise self.error
        if self.answer == "never":
            await asyncio.Event().wait()
        return self.answer if self.answer is not None else f"sent-{len(self.requests)}"


@each_store
def test_a_host_can_carry_messages_itself(new_store: NewStore, tmp_path: Path) -> None:
    async def scenario() -> None:
        sink: Any = Sink()
        async with town_on(new_store(tmp_path), tmp_path, message_sink=sink) as town:
            helper = {"agent_id": "helper", "prompt": use(*to_parent("half done")), "name": "h"}
            calls = [*to_thread("far away", "one", agent_id="second"), *to_thread("", "two")]
            result = await town.start(use(*calls, "spawn_agent", helper))
            await town.until_told(1)
            one, two, up = sorted(sink.requests, key=lambda it: it.message == "half done")
            first = (one.recipient_thread_id, one.recipient_agent_id, one.message)
            assert first == ("far away", "second", "one")
            assert (one.sender_agent_id, one.sender_thread_id) == ("boss", "t")
            assert one.sender_run_id == result.run_id
            assert (two.recipient_thread_id, two.recipient_agent_id) == ("", None)
            assert (up.recipient_thread_id, up.sender_agent_id) == ("t", "helper")
            keys = [it.idempotency_key for it in sink.requests]
            assert all(keys)
            assert len(set(keys)) == 3
            accepted = (await receipts(town))[:2]
            assert [it["message_id"] for it in accepted] == ["sent-1", "sent-2"]
            assert all("transport" in it["detail"] for it in accepted)
            # Nothing of it goes through the store.
            assert await town.runtime.store.load_thread("far away") is None
            assert await letters(town, "t") == []
            assert await town.runtime.store.list_outbox() == ()

    play(scenario)


class Unsayable(Exception):
    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    ("sink", "said"),
    [
        (Sink(ConnectionError("the broker is away")), "the broker is away"),
        (Sink(ConnectionError("password=hunter2-hunter2 refused")), "refused"),
        (Sink(TimeoutError("the broker was slow")), "the broker was slow"),
        (Sink(ValueError("x" * 100_000)), "xxx"),
        (Sink(ValueError()), "ValueError"),
        (Sink(Unsayable()), "Unsayable"),
        (Sink(answer="never"), "within 50 ms"),
        (Sink(answer=""), "no message id"),
        (Sink(answer=7), "no message id"),
    ],
)
@each_store
def test_what_goes_wrong_in_a_hosts_transport_is_a_receipt(
    new_store: NewStore, tmp_path: Path, sink: Any, said: str
) -> None:
    async def scenario() -> None:
        limits = Limits(message_sink_ms=50)
        async with town_on(new_store(tmp_path), tmp_path, message_sink=sink, limits=limits) as town:
            result = await town.start(use(*to_thread("far away", "hello")))
            (receipt,) = await receipts(town)
            assert (receipt["status"], receipt["message_id"]) == ("failed", "")
            assert receipt["error"].startswith("transport_failed: ")
            assert said in receipt["error"]
            assert "hunter2" not in receipt["error"]
            assert len(receipt["error"]) < 600
            assert result.status == "done"

    play(scenario)


@pytest.mark.parametrize("new_store", [sqlite, postgres])
def test_a_transport_that_is_asked_again_after_a_crash_gets_the_same_key(
    new_store: NewStore, tmp_path: Path
) -> None:
    async def scenario() -> None:
        opener = new_store(tmp_path)
        first: Any = Sink(answer="never")
        again: Any = Sink()
        async with town_on(opener, tmp_path, message_sink=first) as town:
            calls = use(*to_thread("far away", "one"), *to_thread("far away", "two"))
            handle = await town.runtime.start("boss", calls, thread_id="t")

            async def are_asked() -> bool:
                return len(first.requests) == 2

            await until(are_asked)
        async with town_on(opener, tmp_path, message_sink=again) as town:
            await town.runtime.wait(handle.run_id, timeout_ms=BOUND_S * 1000)
            assert [it["status"] for it in await receipts(town)] == ["accepted"] * 2
        keys = {it.message: it.idempotency_key for it in first.requests}
        assert {it.message: it.idempotency_key for it in again.requests} == keys
        assert len(set(keys.values())) == 2

    play(scenario)


class Blocking:
    def send_agent_message(self, request: DurableMessageRequest) -> str:
        return request.idempotency_key


@pytest.mark.parametrize("sink", [object(), Blocking(), Blocking, lambda _: "id"])
def test_a_sink_that_is_none_is_refused(sink: Any) -> None:
    with pytest.raises(InvalidInput, match="message_sink"):
        AgentRuntime(message_sink=sink)


def test_the_names_of_messages_are_public() -> None:
    assert SEND_MESSAGE_TOOL_ID == SendMessageTool().descriptor.id == "send_message"
    assert set(MessageError) == {
        "recipient_not_found", "permission_denied", "recipient_unavailable", "transport_failed",
    }  # fmt: skip
    receipt = SendMessageReceipt(message_id="", status="failed", error="recipient_not_found")
    assert msgspec.to_builtins(receipt) == {
        "message_id": "",
        "status": "failed",
        "error": "recipient_not_found",
    }


@each_store
def test_a_receiving_model_reads_the_frame_that_is_documented(
    new_store: NewStore, tmp_path: Path
) -> None:
    page = Path(__file__).parents[2] / "docs" / "how-to" / "background-tasks.md"
    (frame,) = re.findall(r"```text\n(<agent-message .*?)\n```", page.read_text("utf-8"), re.S)
    heard = re.search(r'from="(.*)" thread_id="(.*)">\n(.*)\n<', frame, re.S)
    assert heard is not None
    assert heard.group(1, 2) == ("boss", "t")

    async def scenario() -> None:
        async with town_on(new_store(tmp_path), tmp_path) as town:
            await town.start(use(*to_thread("other", heard.group(3), agent_id="second")))
            await until_read(town, 1)
            (letter,) = await letters(town, "other")
            assert letter.text == frame

    play(scenario)


# Steering.


@each_store
def test_an_id_that_means_a_run_and_another_runs_thread_steers_nobody(
    new_store: NewStore, tmp_path: Path
) -> None:
    async def scenario() -> None:
        hold = Hold()
        async with town_on(new_store(tmp_path), tmp_path, hold.tool) as town:
            runtime, started = town.runtime, []
            for thread_id, run_id in (("a", "b"), ("b", "run-b")):
                options = {"thread_id": thread_id, "run_id_hint": run_id}
                started.append(await runtime.start("boss", use("hold", {}), **options))
            await hold.is_inside()
            with pytest.raises(AmbiguousId) as refused:
                await runtime.steer("b", "who?")
            assert refused.value.code == "ambiguous_id"
            facts = {"given": "b", "thread_id": "a", "run_id": "run-b"}
            assert refused.value.fields == facts
            assert "name thread 'a'" in str(refused.value)
            assert "run 'run-b'" in str(refused.value)
            # Both ways out lead to one run each.
            for id_, run_id in (("a", "b"), ("run-b", "run-b")):
                receipt = await runtime.steer(id_, f"for {run_id}")
                assert (receipt.is_accepted, receipt.run_id) == (True, run_id)
            hold.go.set()
            for handle in started:
                await handle.result()
            for thread_id, run_id in (("a", "b"), ("b", "run-b")):
                await town.quiet(thread_id)
                told = [it for it in await town.lines(thread_id) if it.startswith("for ")]
                assert told == [f"for {run_id}"]
            # Nothing runs any more, so that nothing is meant.
            assert not (await runtime.steer("b", "too late")).is_accepted

    play(scenario)
