"""What a trial is judged by: each promise has its check, and each check sees its violation."""

import asyncio
from typing import Any

import msgspec
import pytest

from awaken.contracts.errors import StoreUnavailable
from awaken.contracts.events import RunFinish, RunStart
from awaken.contracts.identity import RunIdentity
from awaken.contracts.lifecycle import NaturalEnd, RunStatus
from awaken.contracts.messages.message import Message, MessageMetadata, tool_answer, user
from awaken.contracts.runs.records import RunRecord, RunRequest
from awaken.contracts.storage.dispatch import Claim, DispatchStatus, Release, RunDispatch
from awaken.contracts.storage.store import Commit
from awaken.contracts.tools.tool import ToolDescriptor, ToolEffect
from awaken.stores.memory import MemoryStore
from awaken.testing.crash_points import (
    CrashPoint,
    Dead,
    Fate,
    Lifeline,
    crashes_of,
    every_point,
)
from awaken.testing.trial_checks import final_problems
from awaken.testing.watched_tools import EffectLog, WatchedExecution

WHO = RunIdentity(thread_id="t", run_id="r", agent_id="a")
STARTED = RunStart(thread_id="t", run_id="r", identity=WHO)
ENDED = RunFinish(thread_id="t", run_id="r", identity=WHO, result={}, termination=NaturalEnd())


def named(text: str) -> Message:
    return msgspec.structs.replace(user(text), id=text)


def done(**changes: Any) -> Commit:
    """A whole run in one commit."""
    run = RunRecord(
        run_id="r", thread_id="t", agent_id="a", status=RunStatus.DONE, termination=NaturalEnd()
    )
    given = {"run": run, "messages": (named("hi"),), "events": (STARTED, ENDED), **changes}
    return Commit(commit_id="c", thread_id="t", expected_version=0, committed_at=1, **given)


def judged(*commits: Commit, store: MemoryStore | None = None) -> str:
    async def scenario() -> list[str]:
        kept = store or MemoryStore(is_shared=True)
        for commit in commits:
            await kept.commit(commit)
        return await final_problems(kept)

    return "\n".join(asyncio.run(scenario()))


def test_a_run_that_is_over_has_no_problem() -> None:
    assert judged(done()) == ""


def test_a_claim_that_is_left_is_seen() -> None:
    left = done(fencing_token="token", claim=Claim(worker_id="w", lease_ms=1000))
    assert judged(left) == "thread 't': it is still claimed"
    assert judged(done(fencing_token="x", claim=left.claim, release=Release())) == ""


def test_a_run_that_neither_ended_nor_waits_is_seen() -> None:
    run = RunRecord(run_id="r", thread_id="t", agent_id="a", status=RunStatus.RUNNING)
    assert "run 'r' neither ended nor waits" in judged(done(run=run, events=(STARTED,)))


def test_events_in_a_wrong_order_are_seen() -> None:
    assert "thread 't': event 0 (run_finish)" in judged(done(events=(ENDED, STARTED)))


def test_a_gap_in_the_numbers_of_events_is_seen() -> None:
    class Gapped(MemoryStore):
        async def list_events(self, thread_id: str, *, after: int = 0, limit: int = 1000) -> Any:
            events = await super().list_events(thread_id, after=after, limit=limit)
            return [event for event in events if event.seq != 2]

    middle = (STARTED, ENDED, STARTED, ENDED)
    assert "numbered without gaps: [1, 3, 4]" in judged(done(events=middle), store=Gapped())


@pytest.mark.parametrize(
    ("status", "problem"),
    [(DispatchStatus.DEAD_LETTER, "is dead: because"), (DispatchStatus.ACKED, "is lost")],
)
def test_input_that_is_dead_or_lost_is_seen(status: DispatchStatus, problem: str) -> None:
    async def scenario() -> list[str]:
        store = MemoryStore()
        request = RunRequest(messages=(user("never taken in"),))
        await store.enqueue(
            RunDispatch(dispatch_id="d", thread_id="t", run_id="r", request=request)
        )
        await store.claim("w", "token", 1000)
        release = Release(status=status, error="because")
        await store.commit(done(fencing_token="token", release=release))
        return await final_problems(store)

    assert problem in "\n".join(asyncio.run(scenario()))


def result_of(step: int) -> Commit:
    metadata = MessageMetadata(run_id="r", step_index=step - 1)
    message = msgspec.structs.replace(tool_answer("c", "done"), metadata=metadata)
    return Commit(
        commit_id="c", thread_id="t", expected_version=0, committed_at=1, messages=(message,)
    )


def executed(effect: str, *commits_before: int, **marks: bool) -> list[str]:
    log = EffectLog()
    tool = ToolDescriptor(id="act", effect=ToolEffect(effect))
    log.executions = [WatchedExecution("r:1:c", tool, count, **marks) for count in commits_before]
    return log.problems([done(), result_of(1)])


def test_an_execution_after_its_result_was_durable_is_seen_whatever_the_effect() -> None:
    for effect in ("none", "idempotent", "once"):
        assert executed(effect, 1) == []
        (problem,) = executed(effect, 2)
        assert problem == "tool 'act' ran for call r:1:c although its result was durable"


def test_a_second_execution_before_the_result_is_seen_for_once_tools_only() -> None:
    assert executed("none", 1, 1) == executed("idempotent", 1, 1) == []
    assert executed("once", 1, 1) == ["tool 'act' has effect 'once' and ran 2 times for call r:1:c"]
    assert executed("once", 1, 1, is_pending=True) == []
    assert executed("once", 1, 1, is_taken_back=True) == []


def test_crash_points_are_read_as_they_are_written() -> None:
    points = every_point(commits=3, tools=2)
    assert len(points) == len(set(points)) == 10
    assert crashes_of(", ".join(map(str, points))) == tuple(points)
    assert crashes_of(None) == ()
    assert str(CrashPoint("tool", 1, is_after=True)) == "after tool 1"


def test_nothing_of_a_dead_process_reaches_the_store() -> None:
    async def scenario() -> None:
        store = MemoryStore(is_shared=True)
        life = Lifeline(store, Fate(), lambda: None)
        life.die()
        with pytest.raises(Dead):
            await life.commit(done())
        with pytest.raises(Dead):
            await life.load_thread("t")
        with pytest.raises(StoreUnavailable):
            life.lease_keeper().extend(["token"], 1000)
        assert await store.load_thread("t") is None

    asyncio.run(scenario())
