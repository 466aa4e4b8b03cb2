"""Ids that clients choose: whoever names something like another's thread or run reaches neither."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from awaken import (
    Agent,
    AgentRuntime,
    Cancelled,
    InputMode,
    MailboxConfig,
    NaturalEnd,
    RunRequest,
    RunStatus,
    ToolContext,
    tool,
    user,
)
from awaken.errors import InvalidResume
from awaken.messages import Role
from awaken.models import InferenceRequest
from awaken.server import TenantView
from awaken.services.threads import ThreadEdit
from awaken.stores import Commit, CommitReceipt, DispatchStatus, MemoryStore, RunDispatch
from awaken.testing import Answer, ScriptedModel, ToolCalls

QUICK = MailboxConfig(poll_ms=10, lease_ms=20_000, renew_ms=500)
NAME = "same"
"""Ann's thread and Bob's run have it."""


class Stage:
    """Agents that answer, ask or wait, and two tenants who use them."""

    def __init__(self, store: Any = None, **options: Any) -> None:
        self.entered, self.opened = asyncio.Event(), asyncio.Event()
        agents = [
            Agent("quick", model=ScriptedModel(["hi"], cycle=True)),
            Agent("wait", model=ScriptedModel([using("wait")], cycle=True), tools=[self._wait()]),
            Agent("ask", model=ScriptedModel([using("ask")], cycle=True), tools=[ask]),
        ]
        self.runtime = AgentRuntime(agents, store=store, mailbox=QUICK, **options)
        self.ann, self.bob = (self.runtime._services.view(name) for name in ("ann", "bob"))

    def _wait(self) -> Any:
        @tool(effect="none")
        async def wait() -> str:
            """Wait."""
            self.entered.set()
            await self.opened.wait()
            return "waited"

        return wait


def using(name: str) -> Callable[[InferenceRequest], Answer]:
    """Call a tool, then end."""

    def answer(request: InferenceRequest) -> Answer:
        is_done = request.messages[-1].role is Role.TOOL
        return "Done." if is_done else ToolCalls([(name, {})])

    return answer


@tool(effect="none")
async def ask(ctx: ToolContext) -> Any:
    """Ask."""
    return ctx.suspend("sure?")


def asked(agent_id: str, thread_id: str, **fields: Any) -> RunRequest:
    return RunRequest(agent_id=agent_id, thread_id=thread_id, messages=(user("go"),), **fields)


async def begun(stage: Stage, view: TenantView, agent_id: str, thread_id: str, **ids: Any) -> str:
    """Start a run and let it come as far as its agent goes."""
    started = await view.start(asked(agent_id, thread_id, **ids))
    started.stream.close()
    if agent_id == "wait":
        await stage.entered.wait()
        stage.entered.clear()
    else:
        await view.wait(started.run_id, 5_000)
    return started.run_id


def played(scenario: Callable[[Stage], Awaitable[None]], store: Any = None, **options: Any) -> None:
    async def play() -> None:
        stage = Stage(store, **options)
        async with asyncio.timeout(20), stage.runtime:
            await scenario(stage)

    asyncio.run(play())


async def is_cancelled(view: TenantView, run_id: str) -> bool:
    return (await view.wait(run_id, 5_000)).termination == Cancelled(cause="user")


# --- cancelling ---


@pytest.mark.parametrize("hers", ["wait", "ask"])
@pytest.mark.parametrize("his", ["quick", "wait", "ask"])
def test_a_run_named_like_a_foreign_thread_and_that_thread_are_cancelled_apart(
    hers: str, his: str
) -> None:
    async def scenario(stage: Stage) -> None:
        run_id = await begun(stage, stage.ann, hers, NAME)
        await begun(stage, stage.bob, his, "bobs", run_id_hint=NAME)
        is_over = his == "quick"
        assert await stage.bob.cancel_run(NAME) is not is_over
        assert is_over or await is_cancelled(stage.bob, NAME)
        assert (await stage.ann.run(run_id)).status is not RunStatus.DONE
        assert await stage.ann.cancel_thread(NAME)
        assert await is_cancelled(stage.ann, run_id)

    played(scenario)


@pytest.mark.parametrize("hers", ["wait", "ask"])
@pytest.mark.parametrize("his", ["wait", "ask"])
def test_nobody_makes_a_foreign_thread_unstoppable(hers: str, his: str) -> None:
    async def scenario(stage: Stage) -> None:
        run_id = await begun(stage, stage.ann, hers, NAME)
        await begun(stage, stage.bob, his, "bobs", run_id_hint=NAME)
        assert await stage.ann.cancel_thread(NAME)
        assert await is_cancelled(stage.ann, run_id)
        assert (await stage.bob.run(NAME)).status is not RunStatus.DONE

    played(scenario)


@pytest.mark.parametrize("hers", ["wait", "ask"])
def test_a_thread_named_like_a_foreign_run_is_cancelled_apart(hers: str) -> None:
    async def scenario(stage: Stage) -> None:
        run_id = await begun(stage, stage.ann, hers, "anns")
        await stage.bob.create_thread(ThreadEdit(), run_id)
        assert not await stage.bob.cancel_thread(run_id)
        his = await begun(stage, stage.bob, "ask", run_id)
        assert await stage.bob.cancel_thread(run_id)
        assert await is_cancelled(stage.bob, his)
        assert (await stage.ann.run(run_id)).status is not RunStatus.DONE
        assert await stage.ann.cancel_run(run_id)

    played(scenario)


def test_what_is_queued_under_one_name_is_cancelled_apart(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        store = stage.runtime.store
        hers = await stage.ann.send(asked("quick", NAME), InputMode.QUEUE)
        his = await stage.bob.send(asked("quick", "bobs", run_id_hint=NAME), InputMode.QUEUE)

        async def statuses() -> list[DispatchStatus]:
            found = [await store.find_dispatch(it.dispatch_id) for it in (hers, his)]
            return [it.status for it in found if it is not None]

        assert await stage.bob.cancel_run(NAME)
        assert await statuses() == [DispatchStatus.QUEUED, DispatchStatus.CANCELLED]
        assert not await stage.bob.cancel_run(NAME)
        assert await statuses() == [DispatchStatus.QUEUED, DispatchStatus.CANCELLED]
        assert await stage.ann.cancel_thread(NAME)
        assert await statuses() == [DispatchStatus.CANCELLED] * 2

    played(scenario, f"sqlite:///{tmp_path}/s.db", has_worker=False)


# --- run ids ---


@pytest.mark.parametrize("is_durable", [False, True], ids=["memory", "sqlite"])
def test_a_run_id_that_is_queued_cannot_be_taken_by_another_run(
    is_durable: bool, tmp_path: Path
) -> None:
    async def scenario(stage: Stage) -> None:
        first = await begun(stage, stage.ann, "wait", "anns")
        await stage.ann.send(asked("quick", "anns", run_id_hint=NAME), InputMode.QUEUE)
        with pytest.raises(InvalidResume):
            await stage.ann.start(asked("quick", "more", run_id_hint=NAME))
        his = await begun(stage, stage.bob, "quick", "anns", run_id_hint=NAME)
        assert (await stage.bob.wait(his, 5_000)).thread_id == "anns"
        stage.opened.set()
        await stage.ann.wait(first, 5_000)
        assert (await stage.ann.wait(NAME, 5_000)).termination == NaturalEnd()
        assert (await stage.ann.run(NAME)).thread_id == "anns"

    played(scenario, f"sqlite:///{tmp_path}/s.db" if is_durable else None)


def test_a_run_does_not_take_the_id_of_what_its_own_thread_has_queued() -> None:
    async def scenario(stage: Stage) -> None:
        later = asked("quick", "anns", run_id_hint=NAME)
        receipt = await stage.ann.send(later, InputMode.QUEUE, {"delay_ms": 60_000})
        with pytest.raises(InvalidResume):
            await stage.ann.start(asked("quick", "anns", run_id_hint=NAME))
        queued = await stage.runtime.store.find_dispatch(receipt.dispatch_id)
        assert queued is not None
        assert queued.status is DispatchStatus.QUEUED

    played(scenario)


class SlowBeginning(MemoryStore):
    """A store in which something comes between a run's admission and its first commit."""

    def __init__(self) -> None:
        super().__init__()
        self.before: Callable[[], Awaitable[object]] | None = None

    async def commit(self, commit: Commit) -> CommitReceipt:
        if self.before is not None and commit.run is not None and commit.run.run_id.endswith(NAME):
            before, self.before = self.before, None
            await before()
        return await super().commit(commit)


def test_a_run_whose_id_is_queued_while_it_begins_is_refused_before_anything_is_written() -> None:
    store = SlowBeginning()

    async def scenario(stage: Stage) -> None:
        dispatch = RunDispatch(
            dispatch_id="d",
            thread_id="@ann:anns",
            run_id=f"@ann:{NAME}",
            request=asked("quick", "anns", run_id_hint=NAME, tenant_id="ann").with_stored_ids(),
        )
        store.before = lambda: store.enqueue(dispatch)
        with pytest.raises(InvalidResume):
            await stage.ann.start(asked("quick", "more", run_id_hint=NAME))
        assert await store.load_thread("@ann:more") is None
        stage.runtime._start_worker()
        assert (await stage.ann.wait(NAME, 5_000)).termination == NaturalEnd()

    played(scenario, store)


def test_a_run_that_is_about_to_begin_is_not_stopped_by_another_that_asks_for_its_id() -> None:
    store = SlowBeginning()

    async def scenario(stage: Stage) -> None:
        begins, goes_on = asyncio.Event(), asyncio.Event()

        async def held() -> None:
            begins.set()
            await goes_on.wait()

        store.before = held
        hers = asyncio.create_task(begun(stage, stage.ann, "quick", "anns", run_id_hint=NAME))
        await begins.wait()
        with pytest.raises(InvalidResume) as refused:
            await stage.ann.start(asked("quick", "more", run_id_hint=NAME))
        assert "anns" not in str(refused.value)
        goes_on.set()
        assert (await stage.ann.wait(await hers, 5_000)).termination == NaturalEnd()

    played(scenario, store)
