"""What a resolver can do wrong, and what its agents can be: named, bounded, nothing written."""

import asyncio
import logging
from pathlib import Path
from typing import Any

import msgspec
import pytest

from awaken import (
    Agent,
    AgentRuntime,
    AgentSpec,
    Blocked,
    Failed,
    InvalidInput,
    Limits,
    Plugin,
    ToolContext,
    UnknownAgent,
    tool,
)
from awaken.errors import AgentResolverFailed, InvalidSpec
from awaken.extensions.background import BackgroundTasksPlugin
from awaken.extensions.handoff import HandoffPlugin
from awaken.runtime.resolution.host_agents import KEPT_MAX
from awaken.testing import ToolCalls
from awaken.tools import Delegation

from .delegating import QUICK, WAIT_MS
from .each_store import NewStore, each_store
from .resolving import SECRET, WRONG, Book, Counter, Mistaken, Wrong, agent, host, play
from .worlds import simulated


@pytest.mark.parametrize("mistake", WRONG)
@each_store
def test_mistakes_of_a_resolver_are_named_and_nothing_is_written(
    new_store: NewStore, tmp_path: Path, mistake: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        book, limits = Mistaken(WRONG[mistake]), Limits(resolver_ms=50)
        async with host(new_store(tmp_path)(), book, limits=limits) as rt:
            for begin in (rt.run, rt.start, rt.submit):
                with pytest.raises(AgentResolverFailed) as failure:
                    await begin("bob", "hi", thread_id="t")
                assert failure.value.problem == WRONG[mistake].problem
                assert failure.value.agent_id == "bob"
                assert SECRET not in str(failure.value)
            assert await rt.store.load_thread("t") is None
            assert await rt.list_runs() == ()
            assert SECRET not in caplog.text
            assert WRONG[mistake].problem in caplog.text
            book.agents["bob"] = agent("bob", "well again")
            assert (await rt.run("bob", "hi", thread_id="t")).text == "well again"

    with caplog.at_level(logging.WARNING, "awaken"):
        play(scenario)


def test_a_resolver_that_takes_other_arguments_is_named() -> None:
    class Odd:
        async def resolve(self) -> None: ...

        async def list_agents(self, tenant: str) -> list[Agent]:
            return []

    async def scenario() -> None:
        async with AgentRuntime(resolver=Odd()) as rt:  # type: ignore[typeddict-item]
            for ask in (rt.registry.list_agents(), rt.run("bob", "hi")):
                with pytest.raises(AgentResolverFailed, match="it raised TypeError"):
                    await ask

    play(scenario)


@each_store
def test_a_worker_tries_again_what_the_resolver_could_not_say(
    new_store: NewStore, tmp_path: Path
) -> None:
    async def scenario() -> None:
        opener, book = new_store(tmp_path), Mistaken(WRONG["raises"], agent("bob", "at last"))
        async with host(opener(), book, has_worker=False) as rt:
            receipt = await rt.submit("bob", "hi", thread_id="t")
        bob, failures = book.agents.pop("bob"), 2

        async def fail(_: str) -> Any:
            nonlocal failures
            failures -= 1
            if not failures:
                book.agents["bob"] = bob
            raise ConnectionError

        book.wrong = Wrong(fail, "")
        mailbox = msgspec.structs.replace(QUICK, retry_base_ms=1)
        async with AgentRuntime(resolver=book, store=opener(), mailbox=mailbox) as rt:
            if not rt.store.is_shared:
                # In memory a worker begins with the first input that is queued.
                await rt.submit("other", "wake up", thread_id="v")
            assert (await rt.wait(receipt.run_id, timeout_ms=WAIT_MS)).text == "at last"
            assert failures == 0

    play(scenario)


@each_store
def test_input_for_an_agent_that_is_gone_leaves_the_thread_to_its_own(
    new_store: NewStore, tmp_path: Path
) -> None:
    async def scenario() -> None:
        book, opener = Book(agent("amy", "hello", "still me"), agent("bob")), new_store(tmp_path)
        mailbox = msgspec.structs.replace(QUICK, unknown_agent_ms=0)
        async with AgentRuntime(resolver=book, store=opener(), mailbox=mailbox) as rt:
            await rt.run("amy", "hi", thread_id="t")
            receipt = await rt.submit("bob", "hi", thread_id="t", delay_ms=200)
            del book.agents["bob"]
            lost = await rt.wait(receipt.run_id, timeout_ms=WAIT_MS)
            assert isinstance(lost.termination, Failed)
            again = await rt.run(None, "who is there?", thread_id="t")
            assert (again.agent_id, again.text) == ("amy", "still me")

    play(scenario)


@pytest.mark.parametrize("mistake", WRONG)
def test_mistakes_in_the_middle_of_a_run_end_the_handoff_and_the_call_alone(mistake: str) -> None:
    async def scenario() -> None:
        transfer = ToolCalls([("transfer_to_agent", {"agent_id": "bob"})])
        front = agent("front", transfer, plugins=[HandoffPlugin({"bob": "all"})])

        @tool
        async def ask_bob(ctx: ToolContext) -> str:
            answer = await ctx.sub_runs.delegate(Delegation(agent_id="bob", prompt="hi"))
            return answer.response

        asking = agent("asking", ToolCalls([("ask_bob", {})]), "went on", tools=[ask_bob])
        book, limits = Mistaken(WRONG[mistake]), Limits(resolver_ms=50)
        async with host(None, book, front, asking, limits=limits) as rt:
            handed = await rt.run("front", "go", thread_id="t")
            assert isinstance(handed.termination, Blocked)
            assert WRONG[mistake].problem in handed.termination.reason
            result = await rt.run("asking", "go", thread_id="u")
            assert result.text == "went on"
            texts = " ".join(it.message.text for it in await rt.messages("u"))
            assert WRONG[mistake].problem in texts
            assert SECRET not in texts + handed.termination.reason

    simulated(scenario)


def test_a_resolver_that_hangs_holds_up_nothing_else() -> None:
    async def scenario() -> None:
        book = Mistaken(WRONG["hangs"], agent("ann", "quick", "quick"))
        async with host(None, book) as rt:
            slow = asyncio.create_task(rt.run("bob", "hi", thread_id="t"))
            await asyncio.sleep(0)
            assert (await rt.run("ann", "hi")).text == "quick"
            with pytest.raises(AgentResolverFailed, match="within 10000 ms"):
                await slow
            # The thread is free again.
            assert (await rt.run("ann", "hi", thread_id="t")).text == "quick"

    simulated(scenario)


def test_what_is_wrong_with_an_agent_is_said_as_it_is_of_registered_ones() -> None:
    async def scenario() -> None:
        broken = [
            AgentSpec(id="bob", model_id="nowhere:model"),
            AgentSpec(id="bob", model_id="scripted", plugin_ids=("missing",)),
            AgentSpec(id="bob", model_id="scripted", delegates=("nobody",)),
            AgentSpec(id="bob", model_id="scripted", sections={"odd": {}}),
            agent("bob", plugins=[BackgroundTasksPlugin()], config={"background_tasks": {"x": 1}}),
        ]
        book = Book()
        async with host(None, book) as rt:
            for it in broken:
                with pytest.raises(InvalidSpec) as usual:
                    AgentRuntime([it])
                book.agents["bob"] = it
                with pytest.raises(Exception) as refusal:  # noqa: PT011 - compared below
                    await rt.run("bob", "hi")
                assert str(refusal.value).rstrip(".") in str(usual.value)
            book.agents["bob"] = AgentSpec(id="bob", model_id=7)  # type: ignore[arg-type]
            with pytest.raises(InvalidSpec):
                await rt.run("bob", "hi")

    simulated(scenario)


class Living(Plugin):
    """A plugin that is opened with the runtime."""

    name = "living"
    is_open = False

    async def open(self, host: Any) -> None:
        self.is_open = True


def test_a_plugin_with_a_life_of_its_own_must_be_the_runtimes() -> None:
    async def scenario() -> None:
        living = Living()
        book = Book(agent("bob", "hi", plugins=[living]))
        async with host(None, book) as rt:
            with pytest.raises(InvalidSpec, match=r"plugin 'living'.*AgentRuntime\(plugins="):
                await rt.run("bob", "hi")
        async with host(None, book, plugins=[living]) as rt:
            assert (await rt.run("bob", "hi")).text == "hi"
            assert living.is_open

    simulated(scenario)


def test_only_so_many_agents_are_kept_compiled() -> None:
    async def scenario() -> None:
        counter = Counter()
        book = Book()
        async with host(None, book, plugins=[counter]) as rt:
            for number in range(KEPT_MAX + 10):
                name = f"a{number}"
                book.agents[name] = AgentSpec(id=name, model_id="scripted", plugin_ids=("counter",))
                await rt.registry.resolve(name)
            before = counter.count
            await rt.registry.resolve(f"a{KEPT_MAX}")
            assert counter.count == before
            await rt.registry.resolve("a0")
            assert counter.count == before + 1

    simulated(scenario)


def test_what_cannot_be_an_id_is_never_asked_for() -> None:
    async def scenario() -> None:
        book = Book()
        async with host(None, book) as rt:
            for name in (" ", "x" * 300, "a\nb"):
                with pytest.raises((UnknownAgent, InvalidInput)):
                    await rt.run(name, "hi")
                with pytest.raises(UnknownAgent):
                    await rt.registry.resolve(name)
        assert book.asked == []

    simulated(scenario)


class Blocking:
    """A resolver that is not async."""

    def resolve(self, agent_id: str, /) -> Agent | None:
        return None


class Listing(Book):
    """Its listing is not async."""

    def list_agents(self) -> list[Agent]:
        return []


@pytest.mark.parametrize("resolver", [Book, object(), Blocking(), Listing(), lambda _: None, "x"])
def test_what_is_no_resolver_is_refused_at_once(resolver: Any) -> None:
    with pytest.raises(InvalidInput, match="resolver"):
        AgentRuntime(resolver=resolver)
