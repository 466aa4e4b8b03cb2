"""Agents that the host's own code names: found, pinned, handed over to and asked as others."""

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from awaken import (
    Agent,
    AgentRuntime,
    AgentSpec,
    Blocked,
    Cancelled,
    Limits,
    NaturalEnd,
    RemoteEndpoint,
    RunStatus,
    ToolContext,
    UnknownAgent,
    tool,
)
from awaken.bootstrap.registries import source_of
from awaken.bootstrap.upgrade import check_upgrade
from awaken.errors import AgentResolverFailed, UnknownReference
from awaken.extensions.background import BackgroundTasksPlugin
from awaken.extensions.handoff import HandoffPlugin
from awaken.models import InferenceRequest
from awaken.testing import ScriptedModel, ToolCalls
from awaken.tools import Delegation

from .delegating import NO_RETRIES, WAIT_MS, Door, asks, ended, nothing_ordered
from .each_store import NewStore, each_store
from .mortal import PROMPT, Mortal, dying, on_shared_stores
from .remoting import FakeBackend, behind, far, said
from .resolving import (
    WRONG,
    Book,
    Counter,
    Mistaken,
    agent,
    careful,
    host,
    play,
    suspend_run,
)
from .worlds import simulated


@each_store
def test_an_agent_that_only_the_host_knows_runs_as_a_registered_one(
    new_store: NewStore, tmp_path: Path
) -> None:
    async def scenario() -> None:
        counter = Counter()
        book = Book(agent("bob", "one", "two", plugins=[counter]))
        async with host(new_store(tmp_path)(), book, agent("ann", "here")) as rt:
            first = await rt.run("bob", "hi", thread_id="t")
            again = await rt.run("local/bob", "hi", thread_id="t")
            assert (first.text, again.text) == ("one", "two")
            assert (first.agent_id, (await rt.get_run(again.run_id)).agent_id) == ("bob", "bob")
            # The same object is compiled once; it is asked for by each run.
            assert (counter.count, book.asked) == (1, ["bob", "bob"])
            assert (await rt.run("ann", "hi")).text == "here"
            assert book.asked == ["bob", "bob"]
            with pytest.raises(UnknownAgent) as refusal:
                await rt.run("eve", "hi", thread_id="u")
            with pytest.raises(UnknownAgent) as usual:
                AgentRuntime([agent("ann")]).registry.snapshot().resolve("eve")
            assert str(refusal.value) == str(usual.value)
            assert await rt.store.load_thread("u") is None
            assert (await rt.registry.resolve("bob")).spec.id == "bob"

    play(scenario)


@each_store
def test_a_run_keeps_its_agent_and_new_runs_have_the_changed_one(
    new_store: NewStore, tmp_path: Path
) -> None:
    async def scenario() -> None:
        @tool
        async def change() -> str:
            book.agents["bob"] = agent("bob", "I am new")
            return "changed"

        book = Book(agent("bob", ToolCalls([("change", {})]), "I am old", tools=[change]))
        async with host(new_store(tmp_path)(), book) as rt:
            assert (await rt.run("bob", "go", thread_id="t")).text == "I am old"
            assert (await rt.run("bob", "go", thread_id="t")).text == "I am new"
            del book.agents["bob"]
            with pytest.raises(UnknownAgent):
                await rt.run("bob", "go", thread_id="t")

    play(scenario)


@each_store
def test_a_suspended_run_goes_on_after_a_restart_with_what_the_resolver_says_then(
    new_store: NewStore, tmp_path: Path
) -> None:
    async def scenario() -> None:
        opener = new_store(tmp_path)
        waiting = await suspend_run(opener())
        ticket = waiting.tickets[0]
        other = Book(careful("done"))
        async with host(opener(), other) as rt:
            await rt.decide(ticket.ticket_id, result="yes")
            ended = await rt.wait(waiting.run_id, timeout_ms=WAIT_MS)
            assert (ended.text, ended.termination) == ("done", NaturalEnd())
            assert set(other.asked) == {"careful"}

    play(scenario)


@each_store
def test_a_suspended_run_whose_agent_the_resolver_cannot_say_waits_until_it_can(
    new_store: NewStore, tmp_path: Path
) -> None:
    async def scenario() -> None:
        opener = new_store(tmp_path)
        waiting = await suspend_run(opener())
        ticket = waiting.tickets[0]
        book = Book()
        book.agents["careful"] = "no agent"
        async with host(opener(), book) as rt:
            with pytest.raises(AgentResolverFailed):
                await rt.decide(ticket.ticket_id, result="yes")
            assert (await rt.get_run(waiting.run_id)).status is RunStatus.WAITING
            assert [it.ticket_id for it in await rt.tickets("t")] == [ticket.ticket_id]
            book.agents["careful"] = careful("done")
            await rt.decide(ticket.ticket_id, result="yes")
            assert (await rt.wait(waiting.run_id, timeout_ms=WAIT_MS)).text == "done"

    play(scenario)


@each_store
def test_a_waiting_run_is_cancelled_though_the_resolver_fails(
    new_store: NewStore, tmp_path: Path
) -> None:
    async def scenario() -> None:
        opener = new_store(tmp_path)
        waiting = await suspend_run(opener())
        book = Book()
        book.agents["careful"] = 7
        async with host(opener(), book) as rt:
            assert await rt.cancel(waiting.run_id)
            assert (await rt.get_run(waiting.run_id)).status is RunStatus.DONE

    play(scenario)


@each_store
def test_a_run_is_handed_over_to_an_agent_that_only_the_host_knows(
    new_store: NewStore, tmp_path: Path
) -> None:
    async def scenario() -> None:
        to = {"billing": "invoices", "nobody": "nothing"}
        front = agent(
            "front",
            ToolCalls([("transfer_to_agent", {"agent_id": "billing"})]),
            ToolCalls([("transfer_to_agent", {"agent_id": "nobody"})]),
            plugins=[HandoffPlugin(to)],
        )
        book = Book(agent("billing", "paid", "still here"))
        async with host(new_store(tmp_path)(), book, front) as rt:
            result = await rt.run("front", "go", thread_id="t")
            assert (result.text, result.agent_id) == ("paid", "billing")
            assert book.asked == ["billing"]
            assert (await rt.run(None, "more", thread_id="t")).text == "still here"
            lost = await rt.run("front", "go", thread_id="u")
            assert isinstance(lost.termination, Blocked)
            assert "Agent 'nobody' is not registered" in lost.termination.reason

    play(scenario)


def test_a_handoff_to_an_agent_that_names_others_in_vain_is_refused_as_its_own_run_is() -> None:
    async def scenario() -> None:
        call = ToolCalls([("transfer_to_agent", {"agent_id": "boss"})])
        front = agent("front", call, plugins=[HandoffPlugin({"boss": "all"})])
        boss = agent("boss", "never said", delegates=["ghost"])
        async with host(None, Book(), front, boss) as rt:
            with pytest.raises(UnknownReference) as refusal:
                await rt.run("boss", "go")
            lost = await rt.run("front", "go", thread_id="t")
            assert isinstance(lost.termination, Blocked)
            assert str(refusal.value) in lost.termination.reason

    simulated(scenario)


def test_a_run_that_hands_back_and_forth_keeps_both_agents() -> None:
    async def scenario() -> None:
        @tool
        async def change() -> str:
            book.agents["b"] = agent("b", "I am new")
            return "changed"

        def to(name: str) -> ToolCalls:
            return ToolCalls([("transfer_to_agent", {"agent_id": name})])

        hands = [HandoffPlugin({"a": "a", "b": "b"})]
        first = agent("a", to("b"), to("b"), plugins=hands)
        second = agent(
            "b", ToolCalls([("change", {})]), to("a"), "I am old", tools=[change], plugins=hands
        )
        book = Book(first, second)
        async with host(None, book) as rt:
            assert (await rt.run("a", "go", thread_id="t")).text == "I am old"
            assert book.asked == ["a", "b"]
            assert (await rt.run(None, "go", thread_id="t")).text == "I am new"

    simulated(scenario)


def test_agents_that_are_asked_side_by_side_are_all_known_afterwards() -> None:
    async def scenario() -> None:
        names = [f"w{number}" for number in range(5)]

        @tool
        async def ask(name: str, ctx: ToolContext) -> str:
            delegation = Delegation(agent_id=name, prompt="hi")
            return (await ctx.sub_runs.delegate(delegation)).response

        class Slow(Book):
            async def resolve(self, agent_id: str, /) -> Any:
                await asyncio.sleep(10 - len(self.asked))
                return await super().resolve(agent_id)

        calls = ToolCalls([("ask", {"name": name}) for name in names])
        boss = agent("boss", calls, calls, "done", tools=[ask])
        book = Slow(*(agent(name, "yes", "yes") for name in names))
        limits = Limits(resolver_ms=60_000)
        async with host(None, book, boss, limits=limits) as rt:
            assert (await rt.run("boss", "go", thread_id="t")).text == "done"
            # By the run once, and by each of the two runs that answer it.
            assert sorted(book.asked) == sorted(names * 3)

    simulated(scenario)


def test_of_two_answers_at_once_a_run_keeps_the_first() -> None:
    async def scenario() -> None:
        async with host(None, Book()) as rt:
            asked, pinned = rt.registry.host, rt.registry.snapshot()
            assert asked is not None
            for text in ("first", "second"):
                pinned = asked.extend(pinned, {"b": agent("b", description=text)})
            assert pinned.resolve("b").spec.description == "first"

    simulated(scenario)


@each_store
def test_registered_agents_delegate_to_agents_that_only_the_host_knows(
    new_store: NewStore, tmp_path: Path
) -> None:
    async def scenario() -> None:
        seen: list[InferenceRequest] = []

        async def ask(request: InferenceRequest) -> Any:
            seen.append(request)
            return asks("worker")

        async def ask_far(request: InferenceRequest) -> Any:
            return asks("far")

        boss = agent("boss", ask, ask_far, "both answered", delegates=["worker", "far"])
        book = Book(agent("worker", "I worked", description="It works."), far())
        backend = FakeBackend(said("from far away"))
        options: dict[str, Any] = {"backends": {"fake": backend}}
        async with host(new_store(tmp_path)(), book, boss, **options) as rt:
            result = await rt.run("boss", "go", thread_id="t")
            assert result.text == "both answered"
            texts = [it.message.text for it in await rt.messages("t")]
            assert any("I worked" in it for it in texts)
            assert any("from far away" in it for it in texts)
            offered = {it.id: it.description for it in seen[0].tools}
            assert "It works." in offered["agent_run_worker"]
            assert len(backend.delegates) == 1
            del book.agents["worker"]
            with pytest.raises(UnknownReference):
                await rt.run("boss", "go", thread_id="u")
            assert await rt.store.load_thread("u") is None

    play(scenario)


@each_store
def test_an_agent_that_only_the_host_knows_works_in_the_background(
    new_store: NewStore, tmp_path: Path
) -> None:
    async def scenario() -> None:
        config = {**NO_RETRIES, "background_tasks": {"agents": ["helper"]}}
        call = {"agent_id": "helper", "prompt": "look", "name": "h"}
        boss = Agent(
            "boss",
            model=ScriptedModel([ToolCalls([("spawn_agent", call)]), "started", "told"]),
            plugins=[BackgroundTasksPlugin()],
            config=config,
        )
        book = Book(boss, agent("helper", "found it"))
        async with host(new_store(tmp_path)(), book) as rt:
            await rt.run("boss", "go", thread_id="t")
            while not all(it.completed_at for it in await rt.tasks("t")):
                await asyncio.sleep(0.01)
            (task,) = await rt.tasks("t")
            assert (task.status, task.error) == ("completed", None)
            assert {"boss", "helper"} <= set(book.asked)

    play(scenario)


@each_store
def test_a_message_wakes_an_agent_that_only_the_host_knows(
    new_store: NewStore, tmp_path: Path
) -> None:
    async def scenario() -> None:
        to = {"relation": "agent", "thread_id": "r"}
        call = ToolCalls([("send_message", {"to": to, "message": "news"})])
        book = Book(
            agent("writer", call, "written", plugins=[BackgroundTasksPlugin()]),
            agent("reader", "hello", "I have read it"),
        )
        async with host(new_store(tmp_path)(), book) as rt:
            await rt.run("reader", "hi", thread_id="r")
            assert (await rt.run("writer", "go", thread_id="w")).text == "written"
            while "I have read it" not in [it.message.text for it in await rt.messages("r")]:
                await asyncio.sleep(0.01)
            runs = await rt.list_runs("r")
            assert [it.agent_id for it in runs] == ["reader", "reader"]

    play(scenario)


@each_store
def test_a_remote_agent_that_only_the_host_knows_executes_at_its_endpoint(
    new_store: NewStore, tmp_path: Path
) -> None:
    async def scenario() -> None:
        backend = FakeBackend(said("hello from there"))
        book = Book(far())
        store = new_store(tmp_path)()
        async with host(store, book, backends={"fake": backend}) as rt:
            assert (await rt.run("far", "hi", thread_id="t")).text == "hello from there"
            assert len(backend.roots) == 1
            unknown = RemoteEndpoint(backend="missing", base_url="http://x")
            book.agents["far"] = Agent("far", endpoint=unknown)
            with pytest.raises(UnknownReference, match="missing"):
                await rt.run("far", "hi", thread_id="u")

    play(scenario)


@on_shared_stores
def test_a_run_whose_process_died_goes_on_with_the_agent_of_the_next_ones_resolver(
    stores_of: Any, tmp_path: Path
) -> None:
    async def scenario() -> None:
        first, second = stores_of(tmp_path)
        door = Door()

        async def stay(_: InferenceRequest) -> str:
            return await door.answer()

        def process(book: Book, store: Any) -> AgentRuntime:
            return AgentRuntime(resolver=book, store=store, mailbox=PROMPT)

        async with dying(process(Book(agent("bob", stay)), Mortal(first))) as rt:
            handle = await rt.start("bob", "hi", thread_id="t")
            await door.opened()
        async with process(Book(agent("bob", "found again")), second) as rt:
            assert (await ended(rt, handle.run_id)).final_output == "found again"

    play(scenario)


@on_shared_stores
def test_a_remote_run_of_a_dead_process_is_stopped_there_by_what_the_resolver_says(
    stores_of: Any, tmp_path: Path
) -> None:
    async def scenario() -> None:
        first, second = stores_of(tmp_path)
        door, after, mortal = Door(), FakeBackend(), Mortal(first, leases_lapse=False)

        def process(backend: FakeBackend, store: Any) -> AgentRuntime:
            book, backends = Book(far()), {"fake": backend}
            return AgentRuntime(resolver=book, store=store, mailbox=PROMPT, backends=backends)

        async with dying(process(FakeBackend(behind(door, saves=None)), mortal)) as rt:
            handle = await rt.start("far", "hi", thread_id="t")
            await door.opened()
        async with process(after, second) as rt:
            assert await rt.cancel(handle.run_id)
            mortal.let_leases_lapse()
            assert (await ended(rt, handle.run_id)).termination == Cancelled(cause="user")
            await nothing_ordered(rt)
        assert [it.run_identity.run_id for it in after.aborted] == [handle.run_id]

    play(scenario)


@each_store
def test_queued_input_for_an_agent_that_only_the_host_knows_is_executed_by_any_worker(
    new_store: NewStore, tmp_path: Path
) -> None:
    async def scenario() -> None:
        opener = new_store(tmp_path)
        async with host(opener(), Book(), has_worker=False) as rt:
            # This process does not know the agent; others may.
            receipt = await rt.submit("bob", "hi", thread_id="t")
            lost = await rt.submit("nobody", "hi", thread_id="u")
        async with host(opener(), Book(agent("bob", "worked"))) as rt:
            if not rt.store.is_shared:
                await rt.submit("bob", "wake up", thread_id="v")
            assert (await rt.wait(receipt.run_id, timeout_ms=WAIT_MS)).text == "worked"
            assert (await rt.get_run(lost.run_id)).status is RunStatus.CREATED

    play(scenario)


def test_an_equal_spec_is_compiled_once_and_a_changed_one_again() -> None:
    async def scenario() -> None:
        counter, book = Counter(), Book()
        async with host(None, book, plugins=[counter]) as rt:
            compiled = counter.count
            for round_ in (1, 2, 3):
                book.agents["bob"] = AgentSpec(
                    id="bob", model_id="scripted", plugin_ids=("counter",)
                )
                await rt.registry.resolve("bob")
                assert (round_, counter.count) == (round_, compiled + 1)
            book.agents["bob"] = AgentSpec(
                id="bob", model_id="scripted", plugin_ids=("counter",), description="new"
            )
            assert (await rt.registry.resolve("bob")).spec.description == "new"
            assert counter.count == compiled + 2

    simulated(scenario)


def test_a_run_that_waits_takes_the_agent_as_it_is_when_it_goes_on_as_registered_ones_do() -> None:
    async def scenario(is_registered: bool) -> str:
        old, new = careful(ToolCalls([("confirm", {})]), "old"), careful("new")
        book = Book() if is_registered else Book(old)
        async with host(None, book, *([old] if is_registered else [])) as rt:
            waiting = await rt.run("careful", "go", thread_id="t")
            book.agents["careful"] = new
            if is_registered:
                rt.registry.update(lambda it: it.with_agent(source_of(new)))
            await rt.decide(waiting.tickets[0].ticket_id, result="yes")
            return (await rt.wait(waiting.run_id)).text

    assert [simulated(partial(scenario, it)) for it in (True, False)] == ["new", "new"]


@each_store
def test_an_upgrade_is_judged_by_what_the_resolver_says(
    new_store: NewStore, tmp_path: Path
) -> None:
    async def scenario() -> None:
        opener = new_store(tmp_path)
        await suspend_run(opener())
        store = opener()
        await store.open()
        try:
            for book, problem in (
                (Book(careful()), None),
                (Book(), "Agent 'careful' is not registered"),
                (Book(agent("careful")), "confirm"),
                (Mistaken(WRONG["raises"], wrong_about="careful"), "it raised ConnectionError"),
            ):
                report = await check_upgrade(store, [], resolver=book)
                assert (report.checked, report.is_safe) == (1, problem is None)
                assert problem is None or problem in report.stranded[0].problems[0]
        finally:
            await store.close()

    play(scenario)


def test_a_worker_leaves_input_alone_for_a_while_that_its_resolver_knows_no_agent_for() -> None:
    async def scenario() -> None:
        book = Book(agent("bob", "worked"))
        async with AgentRuntime(resolver=book) as rt:
            await rt.submit("nobody", "hi", thread_id="u")
            receipt = await rt.submit("bob", "hi", thread_id="t")
            assert (await rt.wait(receipt.run_id)).text == "worked"
            # The worker looks many times meanwhile, and the clock of the store stands still.
            await asyncio.sleep(60)
            assert book.asked.count("nobody") == 2

    simulated(scenario)
