"""A tenant's requests reach its own threads only; to them every other thread does not exist."""

import asyncio
from typing import Any

import pytest

from awaken import (
    Agent,
    AgentRuntime,
    InputMode,
    RunRequest,
    RunStatus,
    SuspendTicket,
    ToolContext,
    UnknownRun,
    UnknownThread,
    tool,
    user,
)
from awaken.errors import InvalidResume
from awaken.mailbox.submissions import hash_of
from awaken.services.threads import ThreadEdit
from awaken.stores import DispatchStatus, MemoryStore, ThreadQuery
from awaken.testing import ScriptedModel, ToolCalls

from .nodes import Node, TruthStore, settled
from .posts import Post, decision, played
from .workers import Talking
from .worlds import simulated


def runtime_on(store: MemoryStore) -> AgentRuntime:
    return AgentRuntime([Agent("a", model=ScriptedModel(["ok"], cycle=True))], store=store)


@tool(effect="none")
async def ask(ctx: ToolContext) -> SuspendTicket:
    """Ask."""
    return ctx.suspend("sure?")


async def owner(store: MemoryStore, thread_id: str = "@ann:t") -> str | None:
    thread = await store.load_thread(thread_id)
    assert thread is not None
    return thread.tenant_id


# --- runs ---


def test_a_request_to_a_busy_thread_waits_for_it_by_whichever_id_the_thread_is_named() -> None:
    async def scenario() -> None:
        entered, let_go = asyncio.Event(), asyncio.Event()

        async def wait(_: Any) -> str:
            entered.set()
            await let_go.wait()
            return "first"

        agent = Agent("a", model=ScriptedModel([wait, "second", "third"]))
        async with asyncio.timeout(20), AgentRuntime([agent], store=MemoryStore()) as runtime:
            first = await runtime.start("a", "1", thread_id="t", tenant_id="ann")
            await entered.wait()
            second = await runtime.start("a", "2", thread_id="t", tenant_id="ann")
            third = await runtime.start("a", "3", thread_id="@ann:t")
            let_go.set()
            results = [await it.result() for it in (first, second, third)]
            assert [it.text for it in results] == ["first", "second", "third"]
            assert {it.thread_id for it in results} == {"@ann:t"}
            branch = await runtime.fork("@ann:t")
            assert (branch.tenant_id, branch.id.startswith("@ann:")) == ("ann", True)

    asyncio.run(scenario())


def test_the_hash_of_a_request_does_not_depend_on_how_its_ids_are_written() -> None:
    """What was sent under a key before ids had the tenant in them is the same when sent again."""
    given = RunRequest(tenant_id="ann", thread_id="t", run_id_hint="r", messages=(user("hi"),))
    assert given.with_stored_ids() != given
    assert given.with_stored_ids().with_given_ids() == given
    assert hash_of(InputMode.QUEUE, given.with_stored_ids()) == hash_of(InputMode.QUEUE, given)


def test_a_run_on_a_new_thread_makes_it_its_tenants() -> None:
    async def scenario() -> None:
        store = MemoryStore()
        async with runtime_on(store) as runtime:
            for _ in range(2):
                await runtime.run("a", "hi", thread_id="t", tenant_id="ann")
            # Whoever names no tenant is the operator, who may do anything.
            await runtime.run("a", "hi", thread_id="@ann:t")
            own = await runtime.run("a", "hi", tenant_id="bob")
            await runtime.run("a", "hi", thread_id="nobodys")
        assert await owner(store) == "ann"
        assert await owner(store, own.thread_id) == "bob"
        assert await owner(store, "nobodys") is None
        found = await store.list_threads(ThreadQuery(tenant_id="ann"))
        assert [thread.id for thread in found.items] == ["@ann:t"]

    asyncio.run(scenario())


def test_tenants_that_choose_the_same_ids_have_each_their_own() -> None:
    async def scenario() -> None:
        store = MemoryStore()
        asks = ToolCalls([("ask", {})])
        agent = Agent("agent", model=ScriptedModel([asks, asks, asks, "done"]), tools=[ask])
        async with AgentRuntime([agent], store=store) as runtime:
            named = {"thread_id": "t", "run_id_hint": "r"}
            await runtime.run("agent", "hi", tenant_id="ann", **named)
            await runtime.run("agent", "hi", **named)
            before = await store.load_run("@ann:r")
            other = await runtime.run("agent", "hi", tenant_id="bob", **named)
            assert (other.thread_id, other.run_id) == ("@bob:t", "@bob:r")
            fields = {"thread_id": "u", "continue_run_id": "r"}
            with pytest.raises(InvalidResume):
                await runtime.run("agent", "go on", tenant_id="ann", **fields)
            assert await store.load_run("@ann:r") == before
            again = {"thread_id": "t", "continue_run_id": "r"}
            ended = await runtime.run("agent", "well", tenant_id="ann", **again)
            assert (ended.run_id, ended.status) == ("@ann:r", RunStatus.DONE)
            assert (await runtime.get_run("r")).status is RunStatus.WAITING
            assert (await runtime.get_run("@bob:r")).status is RunStatus.WAITING

    asyncio.run(scenario())


def test_an_operator_without_a_tenant_writes_to_a_tenants_thread_by_its_stored_id() -> None:
    async def scenario() -> None:
        store = MemoryStore()
        async with runtime_on(store) as runtime:
            run = await runtime.run("a", "hi", thread_id="@ann:t", run_id_hint="r")
            assert (run.thread_id, run.run_id) == ("@ann:t", "@ann:r")
            assert await owner(store) == "ann"
            view = runtime._services.view("ann")
            assert (await view.run("r")).thread_id == "t"
            assert (await view.threads(ThreadQuery())).items[0].id == "t"
            with pytest.raises(UnknownThread, match="not found: @ann:t"):
                await runtime._services.view("bob").thread("@ann:t")

    asyncio.run(scenario())


# --- the mailbox ---


async def send(post: Post, tenant: str | None, mode: InputMode, **fields: Any) -> Any:
    fields = {"thread_id": "t", "messages": (user("hi"),), "tenant_id": tenant} | fields
    return await post.mailbox.submit(RunRequest(**fields), mode=mode)


def test_a_submission_creates_the_thread_for_its_tenant() -> None:
    async def scenario(post: Post) -> None:
        await send(post, " ann ", InputMode.QUEUE)
        await send(post, "ann", InputMode.INTERRUPT, thread_id="u")
        assert (await owner(post.store), await owner(post.store, "@ann:u")) == ("ann", "ann")
        await send(post, "ann", InputMode.STEER)
        await send(post, None, InputMode.QUEUE, thread_id="@ann:t")

    played(scenario)


@pytest.mark.parametrize("mode", [InputMode.QUEUE, InputMode.STEER, InputMode.INTERRUPT])
@pytest.mark.parametrize("tenant", ["ann", None])
def test_input_that_names_a_thread_of_others_is_for_another_thread(
    mode: InputMode, tenant: str | None
) -> None:
    async def scenario(post: Post) -> None:
        sent = await send(post, tenant, InputMode.QUEUE, run_id_hint="r")
        before = await post.store.find_dispatch(sent.dispatch_id)
        for fields in ({}, {"run_id_hint": "r"}):
            receipt = await send(post, "bob", mode, **fields)
            assert receipt.thread_id == "@bob:t"
            assert receipt.run_id.startswith("@bob:")
            await post.store.delete_thread("@bob:t")
        assert await post.store.find_dispatch(sent.dispatch_id) == before

    played(scenario)


def test_nobody_resumes_a_run_of_another_tenant() -> None:
    async def scenario(post: Post) -> None:
        await post.wait_for_decisions()
        given = {"decisions": (("r-c0", decision()),)}
        for fields in ({}, given, {"continue_run_id": "r"}, {"continue_run_id": "r", **given}):
            with pytest.raises((InvalidResume, UnknownRun)):
                await send(post, "bob", InputMode.RESUME, **fields)
        receipt = await send(post, None, InputMode.RESUME, **given)
        assert receipt.run_id == "r"

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


def test_a_thread_named_like_a_foreign_run_does_not_reach_that_run() -> None:
    async def scenario() -> None:
        model = ScriptedModel([ToolCalls([("ask", {})]), "never"])
        async with AgentRuntime([Agent("a", model=model, tools=[ask])]) as runtime:
            theirs = await runtime.run("a", "go", thread_id="theirs", tenant_id="them")
            mine = runtime._services.view("me")
            await mine.create_thread(ThreadEdit(), theirs.run_id)
            assert not await mine.cancel_thread(theirs.run_id)
            assert (await runtime.get_run(theirs.run_id)).status is RunStatus.WAITING
            assert await runtime._services.view("them").cancel_thread("theirs")

    asyncio.run(scenario())
