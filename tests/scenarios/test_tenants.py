"""A tenant's requests reach its own threads only; to them every other thread does not exist."""

import asyncio
from typing import Any

import msgspec
import pytest

from awaken import Agent, AgentRuntime, ToolContext, tool
from awaken.contracts.dispatch import DispatchStatus, InputMode, RunDispatch
from awaken.contracts.errors import InvalidResume, UnknownThread
from awaken.contracts.lifecycle import RunStatus
from awaken.contracts.messages import user
from awaken.contracts.queries import DispatchQuery, ThreadQuery
from awaken.contracts.runs import RunRequest
from awaken.contracts.storage import Commit, CommitReceipt
from awaken.contracts.suspension import SuspendTicket
from awaken.contracts.threads import Thread
from awaken.services.threads import ThreadEdit
from awaken.stores.memory import MemoryStore
from awaken.testing import ScriptedModel, ToolCalls
from awaken.testing.store_conformance.writing import everything

from .nodes import Node, TruthStore, settled
from .posts import Post, decision, played
from .workers import Talking, asking_agent
from .worlds import simulated


def runtime_on(store: MemoryStore) -> AgentRuntime:
    return AgentRuntime([Agent("a", model=ScriptedModel(["ok"], cycle=True))], store=store)


async def owner(store: MemoryStore, thread_id: str = "t") -> str | None:
    thread = await store.load_thread(thread_id)
    assert thread is not None
    return thread.tenant_id


# --- runs ---


def test_a_run_on_a_new_thread_makes_it_its_tenants() -> None:
    async def scenario() -> None:
        store = MemoryStore()
        async with runtime_on(store) as runtime:
            for _ in range(2):
                await runtime.run("a", "hi", thread_id="t", tenant_id="ann")
            # Whoever names no tenant is the operator, who may do anything.
            await runtime.run("a", "hi", thread_id="t")
            own = await runtime.run("a", "hi", tenant_id="bob")
            await runtime.run("a", "hi", thread_id="nobodys")
        assert await owner(store) == "ann"
        assert await owner(store, own.thread_id) == "bob"
        assert await owner(store, "nobodys") is None
        found = await store.list_threads(ThreadQuery(tenant_id="ann"))
        assert [thread.id for thread in found.items] == ["t"]

    asyncio.run(scenario())


@pytest.mark.parametrize("thread_id", ["anns", "nobodys", "saved"])
def test_a_thread_that_is_not_the_tenants_is_not_found_and_not_written_to(thread_id: str) -> None:
    async def scenario() -> None:
        store = MemoryStore()
        await store.save_thread(Thread(id="saved"))
        async with runtime_on(store) as runtime:
            await runtime.run("a", "hi", thread_id="anns", tenant_id="ann")
            await runtime.run("a", "hi", thread_id="nobodys")
            before = await everything(store)
            with pytest.raises(UnknownThread, match=f"^thread not found: {thread_id}$") as caught:
                await runtime.run("a", "hi", thread_id=thread_id, tenant_id="bob")
            assert (caught.value.code, caught.value.thread_id) == ("unknown_thread", thread_id)
            assert await everything(store) == before

    asyncio.run(scenario())


@pytest.mark.parametrize("fields", [{}, {"continue_run_id": "r"}])
def test_a_run_that_waits_is_gone_on_with_by_its_threads_owner_only(fields: dict[str, str]) -> None:
    async def scenario() -> None:
        store = MemoryStore()
        _, agent = asking_agent()
        async with AgentRuntime([agent], store=store) as runtime:
            await runtime.run("agent", "hi", thread_id="t", run_id_hint="r", tenant_id="ann")
            before = await everything(store)
            with pytest.raises(UnknownThread):
                await runtime.run("agent", "never mind", thread_id="t", tenant_id="bob", **fields)
            assert await everything(store) == before
            ended = await runtime.run("agent", "well", thread_id="t", tenant_id="ann", **fields)
            assert (ended.run_id, ended.status) == ("r", RunStatus.DONE)

    asyncio.run(scenario())


class Overtaken(MemoryStore):
    """A store in which somebody else's submission creates the thread before the first commit."""

    async def commit(self, commit: Commit) -> CommitReceipt:
        if await self.load_thread(commit.thread_id) is None:
            request = RunRequest(thread_id=commit.thread_id, tenant_id="bob", messages=(user("x"),))
            rival = RunDispatch(
                dispatch_id="d", thread_id=commit.thread_id, run_id="rival", request=request
            )
            await self.enqueue(rival)
        return await super().commit(commit)


def test_of_two_tenants_that_create_one_thread_only_the_first_gets_it() -> None:
    async def scenario() -> None:
        store = Overtaken()
        async with runtime_on(store) as runtime:
            with pytest.raises(UnknownThread):
                await runtime.run("a", "hi", thread_id="t", tenant_id="ann", run_id_hint="mine")
        assert await owner(store) == "bob"
        assert await store.load_run("mine") is None
        checkout = await store.checkout("t")
        assert checkout is not None
        assert list(checkout.messages) == []

    asyncio.run(scenario())


# --- the mailbox ---


async def send(post: Post, tenant: str | None, mode: InputMode, **fields: Any) -> Any:
    fields = {"thread_id": "t", "messages": (user("hi"),), "tenant_id": tenant} | fields
    return await post.mailbox.submit(RunRequest(**fields), mode=mode)


def test_a_submission_creates_the_thread_for_its_tenant() -> None:
    async def scenario(post: Post) -> None:
        await send(post, " ann ", InputMode.QUEUE)
        await send(post, "ann", InputMode.INTERRUPT, thread_id="u")
        assert (await owner(post.store), await owner(post.store, "u")) == ("ann", "ann")
        await send(post, "ann", InputMode.STEER)
        await send(post, None, InputMode.QUEUE)

    played(scenario)


@pytest.mark.parametrize("mode", list(InputMode))
@pytest.mark.parametrize("tenant", ["ann", None])
def test_input_for_a_thread_that_is_not_the_tenants_is_refused(
    mode: InputMode, tenant: str | None
) -> None:
    async def scenario(post: Post) -> None:
        await post.store.save_thread(Thread(id="t", tenant_id=tenant))
        await post.wait_for_decisions()
        await send(post, tenant, InputMode.QUEUE)
        before, told = await everything(post.store), list(post.signals)
        requests: list[dict[str, Any]] = [{}, {"continue_run_id": "r"}, {"run_id_hint": "fresh"}]
        if mode is InputMode.RESUME:
            decided = {"decisions": (("r-c0", decision()),)}
            requests = [{}, decided, {"continue_run_id": "r"}, {"continue_run_id": "none"}]
        for fields in requests:
            with pytest.raises(UnknownThread):
                await send(post, "bob", mode, **fields)
        assert await everything(post.store) == before
        assert post.signals == told

    played(scenario)


def test_the_owner_resumes_its_run() -> None:
    async def scenario(post: Post) -> None:
        await post.store.save_thread(Thread(id="t", tenant_id="ann"))
        await post.wait_for_decisions()
        receipt = await send(post, "ann", InputMode.RESUME, decisions=(("r-c0", decision()),))
        assert receipt.run_id == "r"
        with pytest.raises(UnknownThread):
            # The same decision again would be answered with the receipt of the first.
            await send(post, "bob", InputMode.RESUME, decisions=(("r-c0", decision()),))
        with pytest.raises(InvalidResume):
            await send(post, "ann", InputMode.RESUME, thread_id="none")

    played(scenario)


def test_a_worker_executes_what_a_tenant_submitted_on_its_own_thread() -> None:
    async def scenario() -> None:
        truth = TruthStore()
        async with Node(truth, [Talking().agent()]) as node:
            request = RunRequest(
                agent_id="agent", thread_id="t", messages=(user("hi"),), tenant_id="ann"
            )
            receipt = await node.mailbox.submit(request)
            ended = await settled(truth, receipt.dispatch_id)
            assert ended.status is DispatchStatus.ACKED
        assert await owner(truth) == "ann"
        run = await truth.load_run(receipt.run_id)
        assert run is not None
        assert (run.status, run.tenant_id) == (RunStatus.DONE, "ann")

    simulated(scenario)


def test_what_was_queued_on_a_thread_before_it_had_an_owner_is_buried_and_touches_no_run() -> None:
    async def scenario() -> None:
        truth = TruthStore()
        request = RunRequest(
            agent_id="agent", thread_id="t", messages=(user("hi"),), tenant_id="ann"
        )
        queued = RunDispatch(dispatch_id="d", thread_id="t", run_id="r", request=request)
        await truth.enqueue(queued)
        # As a store has it that was written before threads had tenants.
        stored = truth._tables.threads["t"]
        stored.shown = msgspec.structs.replace(stored.shown, tenant_id=None)
        async with Node(truth, [Talking().agent()]):
            ended = await settled(truth, "d")
        assert (ended.status, ended.attempt_count) == (DispatchStatus.DEAD_LETTER, 1)
        assert "thread not found: t" in (ended.last_error or "")
        assert (truth.commits, await truth.load_run("r")) == ([], None)
        dead = await truth.list_dispatches(DispatchQuery(status=DispatchStatus.DEAD_LETTER))
        assert [it.dispatch_id for it in dead.items] == ["d"]

    simulated(scenario)


def test_a_thread_named_like_a_foreign_run_does_not_reach_that_run() -> None:
    async def scenario() -> None:
        @tool(effect="none")
        async def ask(ctx: ToolContext) -> SuspendTicket:
            """Ask."""
            return ctx.suspend("sure?")

        model = ScriptedModel([ToolCalls([("ask", {})]), "never"])
        async with AgentRuntime([Agent("a", model=model, tools=[ask])]) as runtime:
            theirs = await runtime.run("a", "go", thread_id="theirs", tenant_id="them")
            mine = runtime._desk.view("me")
            await mine.create_thread(ThreadEdit(), theirs.run_id)
            assert not await mine.cancel_thread(theirs.run_id)
            assert (await runtime.get_run(theirs.run_id)).status is RunStatus.WAITING
            assert await runtime._desk.view("them").cancel_thread("theirs")

    asyncio.run(scenario())
