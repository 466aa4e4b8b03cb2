"""Stopping what executes elsewhere: the other side is told, once, and again if that fails."""

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from awaken import AgentRuntime, AwakenError, Cancelled
from awaken.backends import (
    BackendAbortRequest,
    BackendCapabilities,
    BackendRunResult,
    BackendRunStatus,
    CancellationCapability,
    RemoteTarget,
)
from awaken.errors import RemoteUnreachable

from .delegating import (
    WAIT_S,
    Door,
    StoreOf,
    answers,
    asks,
    boss,
    child_of,
    ended,
    file,
    heard,
    nothing_ordered,
    on_both_stores,
    runtime,
    ticket_on,
    within,
)
from .remoting import (
    STATELESS,
    TARGET,
    FakeBackend,
    Request,
    behind,
    remote_runtime,
    said,
    waits,
)

BY_PARENT = Cancelled(cause="parent")


def known(run_id: str) -> RemoteTarget:
    return RemoteTarget(run_id=run_id, task_id="task-1")


@on_both_stores
@pytest.mark.parametrize(
    ("can", "aborts"),
    [
        (STATELESS, 0),
        (BackendCapabilities(), 0),
        (BackendCapabilities(cancellation=CancellationCapability.REMOTE_ABORT), 1),
        (
            BackendCapabilities(
                cancellation=CancellationCapability.COOPERATIVE_TOKEN_AND_REMOTE_ABORT
            ),
            1,
        ),
    ],
    ids=["none", "token", "abort", "both"],
)
def test_the_other_side_is_told_once_if_it_can_be_told(
    store_of: StoreOf, can: BackendCapabilities, aborts: int, tmp_path: Path
) -> None:
    async def scenario() -> None:
        door = Door()
        backend = FakeBackend(behind(door), can=can)
        async with remote_runtime(backend, store_of(tmp_path)) as rt:
            handle = await rt.start("far", "hi", thread_id="t")
            await door.opened()
            assert await rt.cancel(handle.run_id)
            result = await within(handle.result())
            assert result.termination == Cancelled(cause="user")
            assert (await ended(rt, handle.run_id)).termination == Cancelled(cause="user")
            await nothing_ordered(rt)
            assert door.is_cancelled
            assert len(backend.aborted) == aborts
            assert backend.targets == [None, *[known(handle.run_id)] * aborts]
            for asked in backend.aborted:
                assert (asked.agent_id, asked.run_identity.run_id) == ("far", handle.run_id)

    asyncio.run(scenario())


@on_both_stores
def test_a_caller_that_goes_away_stops_the_other_side(store_of: StoreOf, tmp_path: Path) -> None:
    async def scenario() -> None:
        door = Door()
        backend = FakeBackend(behind(door))
        async with remote_runtime(backend, store_of(tmp_path)) as rt:
            caller = asyncio.create_task(rt.run("far", "hi", thread_id="t"))
            await door.opened()
            caller.cancel()
            with suppress(asyncio.CancelledError):
                await caller
            (record,) = await rt.list_runs("t")
            assert record.termination == Cancelled(cause="caller")
            assert len(backend.aborted) == 1

    asyncio.run(scenario())


@on_both_stores
def test_a_second_cancellation_does_not_get_in_the_way_of_the_first(
    store_of: StoreOf, tmp_path: Path
) -> None:
    class Slow(FakeBackend):
        telling, told = asyncio.Event(), asyncio.Event()

        async def abort(self, request: BackendAbortRequest) -> None:
            self.telling.set()
            await self.told.wait()
            await super().abort(request)

    async def scenario() -> None:
        door = Door()
        backend = Slow(behind(door))
        backend.telling, backend.told = asyncio.Event(), asyncio.Event()
        async with remote_runtime(backend, store_of(tmp_path)) as rt:
            caller = asyncio.create_task(rt.run("far", "hi", thread_id="t"))
            await door.opened()
            caller.cancel()
            await within(backend.telling.wait())
            caller.cancel()
            await asyncio.sleep(0)
            backend.told.set()
            with suppress(asyncio.CancelledError):
                await caller
            (record,) = await rt.list_runs("t")
            assert record.termination == Cancelled(cause="caller")
            assert len(backend.aborted) == 1

    asyncio.run(scenario())


@on_both_stores
def test_an_abort_that_fails_is_tried_again_until_it_succeeds(
    store_of: StoreOf, tmp_path: Path
) -> None:
    async def scenario() -> None:
        door = Door()
        backend = FakeBackend(behind(door))
        backend.abort_failures = [RemoteUnreachable(problem="away"), OSError("away")]
        async with remote_runtime(backend, store_of(tmp_path)) as rt:
            handle = await rt.start("far", "hi", thread_id="t")
            await door.opened()
            assert await rt.cancel(handle.run_id)
            assert (await ended(rt, handle.run_id)).termination == Cancelled(cause="user")
            async with asyncio.timeout(WAIT_S):
                while len(backend.aborted) < 3:
                    await asyncio.sleep(0.005)
            await nothing_ordered(rt)
            assert backend.targets == [None, *[known(handle.run_id)] * 3]

    asyncio.run(scenario())


@pytest.mark.parametrize("is_error", [True, False])
def test_work_that_a_backend_has_left_is_stopped_by_an_order(
    tmp_path: Path, is_error: bool
) -> None:
    async def leaves(_: Request) -> BackendRunResult:
        if is_error:
            error = RemoteUnreachable(problem="away")
            error.is_work_left = True
            raise error
        return said(status=BackendRunStatus.TIMEOUT, is_work_left=True)

    async def scenario() -> None:
        backend = FakeBackend(leaves)
        async with remote_runtime(backend, file(tmp_path)) as rt:
            handle = await rt.start("far", "hi", thread_id="t")
            await ended(rt, handle.run_id)
            async with asyncio.timeout(WAIT_S):
                while not backend.aborted:
                    await asyncio.sleep(0.005)
            assert backend.aborted[0].run_identity.run_id == handle.run_id
            await nothing_ordered(rt)

    asyncio.run(scenario())


async def asks_back(request: Request) -> object:
    assert request.checkpoint is not None
    await request.checkpoint.save(TARGET, known(request.run_identity.run_id))
    return waits(BackendRunStatus.WAITING_INPUT, "which city?")


@on_both_stores
def test_a_run_that_waits_for_input_there_is_stopped_there(
    store_of: StoreOf, tmp_path: Path
) -> None:
    async def scenario() -> None:
        backend = FakeBackend(asks_back)  # type: ignore[arg-type]
        async with remote_runtime(backend, store_of(tmp_path)) as rt:
            waiting = await rt.run("far", "hi", thread_id="t")
            assert waiting.is_waiting
            assert await rt.cancel(waiting.run_id)
            assert (await ended(rt, waiting.run_id)).termination == Cancelled(cause="user")
            await nothing_ordered(rt)
            assert (len(backend.roots), len(backend.aborted)) == (1, 1)
            assert backend.targets[-1] == known(waiting.run_id)

    asyncio.run(scenario())


def test_a_run_that_is_ended_by_force_is_stopped_there(tmp_path: Path) -> None:
    """Somebody without the agent ends the run; whoever has it tells the other side."""

    async def scenario() -> None:
        backend = FakeBackend(asks_back)  # type: ignore[arg-type]
        async with remote_runtime(backend, file(tmp_path)) as rt:
            waiting = await rt.run("far", "hi", thread_id="t")
            async with runtime([], file(tmp_path), has_worker=False) as other:
                assert await other.cancel(waiting.run_id)
                assert (await ended(other, waiting.run_id)).termination == Cancelled(cause="user")
                await nothing_ordered(rt)
            assert backend.targets[-1] == known(waiting.run_id)
            assert len(backend.aborted) == 1

    asyncio.run(scenario())


@on_both_stores
def test_whoever_cancels_the_parent_of_a_remote_delegate_stops_it_there(
    store_of: StoreOf, tmp_path: Path
) -> None:
    async def scenario() -> None:
        door = Door()
        backend = FakeBackend(behind(door))
        asker = boss(asks("far"), "ok", delegates=["far"])
        async with remote_runtime(backend, store_of(tmp_path), asker) as rt:
            handle = await rt.start("boss", "hi", thread_id="t")
            await door.opened()
            child = await child_of(rt, handle.run_id)
            assert await rt.cancel("t")
            assert (await ended(rt, child.run_id)).termination == BY_PARENT
            await nothing_ordered(rt)
            (asked,) = backend.aborted
            assert asked.run_identity.run_id == child.run_id
            assert asked.parent is not None
            assert asked.parent.parent_run_id == handle.run_id

    asyncio.run(scenario())


@on_both_stores
def test_whoever_declines_to_answer_a_remote_delegate_stops_it_there(
    store_of: StoreOf, tmp_path: Path
) -> None:
    async def scenario() -> None:
        backend = FakeBackend(asks_back)  # type: ignore[arg-type]
        asker = boss(asks("far"), heard, delegates=["far"])
        async with remote_runtime(backend, store_of(tmp_path), asker) as rt:
            waiting = await rt.run("boss", "hi", thread_id="t")
            child = await child_of(rt, waiting.run_id)
            await rt.decide((await ticket_on(rt, "t")).ticket_id, "cancel", reason="not now")
            assert (await ended(rt, waiting.run_id)).final_output == "heard not now"
            assert (await ended(rt, child.run_id)).termination == BY_PARENT
            await nothing_ordered(rt)
            assert backend.targets[-1] == known(child.run_id)

    asyncio.run(scenario())


def test_a_delegate_that_is_stopped_there_is_an_error_of_the_call() -> None:
    async def scenario() -> None:
        backend = FakeBackend(said(status=BackendRunStatus.CANCELLED))
        asker = boss(asks("far"), "went on", delegates=["far"])
        async with remote_runtime(backend, None, asker) as rt:
            assert (await rt.run("boss", "hi", thread_id="t")).text == "went on"
            (answer,) = await answers(rt, "t")
            assert "Agent 'far' did not answer (cancelled)" in answer

    asyncio.run(scenario())


def test_a_process_that_closes_leaves_the_other_side_alone(tmp_path: Path) -> None:
    async def scenario() -> None:
        door = Door()
        backend = FakeBackend(behind(door))
        asker = boss(asks("far"), delegates=["far"])
        async with remote_runtime(backend, file(tmp_path), asker) as first:
            handle = await first.start("boss", "hi", thread_id="t")
            await door.opened()
            child = await child_of(first, handle.run_id)
        with suppress(AwakenError):
            await handle.result()
        assert backend.aborted == []
        again = FakeBackend(said("from there"))
        second = remote_runtime(again, file(tmp_path), boss(heard, delegates=["far"]))
        async with second as rt:
            assert "from there" in ((await ended(rt, handle.run_id)).final_output or "")
            await _taken_up(rt, again, child.run_id)

    asyncio.run(scenario())


async def _taken_up(rt: AgentRuntime, backend: FakeBackend, child_id: str) -> None:
    (asked,) = backend.delegates
    assert (asked.run_identity.run_id, asked.is_recovered) == (child_id, True)
    assert asked.is_continuation is False
    assert [it.text for it in asked.new_messages] == ["go"]
    assert backend.targets == [known(child_id)]
    assert len(await answers(rt, "t")) == 1
    assert backend.aborted == []
