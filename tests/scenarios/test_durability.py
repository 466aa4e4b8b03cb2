"""What is durable, and when: intents before tools run, commits before events, all or nothing.

That no event is shown before its commit, and no result is used before it is durable, is held by
the judge in `worlds` for every run of every scenario.
"""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from awaken import (
    ErrorEvent,
    Failed,
    NaturalEnd,
    Phase,
    RunFailed,
    RunFinish,
    RunStatus,
    ToolContext,
    tool,
)
from awaken.errors import (
    CommitUnknown,
    LeaseLost,
    StorageError,
    StoreUnavailable,
    VersionConflict,
)
from awaken.events import encode_event, is_terminal
from awaken.stores import Commit, CommitReceipt, ToolRecord, ToolRecordStatus
from awaken.testing import Chunks, ToolCalls, Turn, assert_valid_transcript
from awaken.tools import ToolEffect

from .worlds import (
    Hooks,
    Lost,
    Story,
    WatchedStore,
    World,
    assert_valid_at_every_commit,
    open_calls,
    play,
    simulated,
)

STARTED, FINISHED = ToolRecordStatus.STARTED, ToolRecordStatus.FINISHED
DOWN = StoreUnavailable(store="test", problem="down")


@tool
async def send(text: str) -> str:
    return f"sent {text}"


@tool
async def wait(seconds: float) -> float:
    await asyncio.sleep(seconds)
    return seconds


def records(store: WatchedStore) -> list[ToolRecord]:
    return [record for commit in store.commits for record in commit.tool_records]


@pytest.mark.parametrize("effect", list(ToolEffect))
@pytest.mark.parametrize("parallel", [True, False])
def test_an_intent_is_durable_before_a_tool_with_effects_runs(
    effect: ToolEffect, parallel: bool
) -> None:
    seen: dict[str, list[ToolRecord]] = {}

    async def scenario() -> World:
        store = WatchedStore()

        @tool(effect=effect)
        async def act(text: str, ctx: ToolContext) -> str:
            seen[text] = [it for it in records(store) if it.call_id == ctx.call_id]
            return text

        calls = ToolCalls([("act", {"text": "a"}), ("act", {"text": "b"}), ("act", {})])
        agent = {"tools": [act], "parallel_tools": parallel}
        async with World([calls, "done"], store=store, **agent) as world:
            await world.tell()
            return world

    world = simulated(scenario)
    written = records(world.store)
    if effect is ToolEffect.NONE:
        assert written == []
        return
    for intents in seen.values():
        assert [(it.status, it.attempt, it.effect, it.step) for it in intents] == [
            (STARTED, 1, effect, 1)
        ]
    first, second = (intents[0].arguments_hash for intents in seen.values())
    assert first != second
    ended = {record.call_id: record for record in written if record.status is FINISHED}
    assert [ended[f"call_{n}"].result.data for n in (1, 2)] == ["a", "b"]  # type: ignore[union-attr]
    # Arguments that do not fit never reach the tool, so there is nothing to journal.
    assert "call_3" not in {record.call_id for record in written}


def test_each_result_of_a_batch_is_durable_as_it_comes_also_behind_a_slower_call() -> None:
    async def scenario() -> dict[float, list[str]]:
        calls = ToolCalls([("wait", {"seconds": 9}, "slow"), ("wait", {"seconds": 1}, "fast")])
        async with World([calls, "done"], tools=[wait]) as world:
            handle = await world.runtime.start("agent", "go", thread_id="t")
            await asyncio.sleep(5)
            known = await world.store.list_tool_records(handle.run_id)
            return {record.call_id: record.status for record in known}

    assert simulated(scenario) == {"slow": STARTED, "fast": FINISHED}


def test_a_hook_after_the_model_or_a_tool_finds_what_it_is_told_about_durable() -> None:
    stored: list[list[str]] = []

    async def scenario() -> None:
        async def look(_context: object) -> None:
            messages = [m for commit in world.store.commits for m in commit.messages]
            stored.append([str(message.role) for message in messages])

        phases = (Phase.AFTER_INFERENCE, Phase.AFTER_TOOL_EXECUTE, Phase.STEP_END, Phase.RUN_END)
        hooks = Hooks(dict.fromkeys(phases, look))
        calls = ToolCalls([("send", {"text": "a"})])
        async with World([calls, "done"], tools=[send], plugins=[hooks]) as world:
            await world.tell()

    simulated(scenario)
    call, result = ["user", "assistant"], ["user", "assistant", "tool"]
    whole = [*result, "assistant"]
    assert stored == [call, result, result, whole, whole, whole]


def script() -> list[Any]:
    first = Turn("one ", calls=[("send", {"text": "a"}), ("wait", {"seconds": 1})])
    return [first, Turn(calls=[("send", {"text": "b"})]), "done"]


async def _told(store: WatchedStore) -> tuple[Story, World]:
    async with World(script(), tools=[send, wait], store=store) as world:
        return await world.tell(), world


COMMITS = 7
"""How many the script takes when nothing goes wrong."""
ALL = range(1, COMMITS + 1)


def test_the_script_of_the_next_tests_takes_this_many_commits() -> None:
    story, world = simulated(lambda: _told(WatchedStore()))

    assert story.termination == NaturalEnd()
    assert len(world.store.commits) == COMMITS


@pytest.mark.parametrize("number", ALL)
@pytest.mark.parametrize(
    "error",
    [
        DOWN,
        VersionConflict(thread_id="t", expected=1, actual=2),
        LeaseLost(thread_id="t"),
        OSError("disk"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_commit_that_fails_once_ends_the_run_with_one_typed_and_durable_error(
    number: int, error: Exception
) -> None:
    store = WatchedStore(lambda asked: error if asked == number else None)
    story, _ = simulated(lambda: _told(store))

    assert len([event for event in story.events if is_terminal(event)]) == 1
    code = error.code if isinstance(error, StorageError) else "internal_error"
    if number == COMMITS:
        # The end itself could not be written: the run is still open in the store.
        assert type(story.error) is type(error)
        assert story.events[-1] == ErrorEvent(message=str(error), code=code)
        return
    assert isinstance(story.termination, Failed)
    assert story.termination.code == code
    assert story.record is not None
    assert story.record.status is RunStatus.DONE
    assert len({message.id for message in story.messages}) == len(story.messages)


@pytest.mark.parametrize("number", ALL)
def test_a_store_that_stays_down_leaves_a_valid_prefix_and_raises_its_error(number: int) -> None:
    store = WatchedStore(lambda asked: DOWN if asked >= number else None)
    story, world = simulated(lambda: _told(store))

    assert story.error is DOWN
    assert [type(event) for event in story.events if is_terminal(event)] == [ErrorEvent]
    assert len(store.commits) == number - 1
    assert_valid_at_every_commit(store.commits)
    assert_valid_transcript(story.messages, open_calls(story.messages))
    assert (story.record is None) is (number == 1)
    if story.record is not None:
        assert story.record.status is RunStatus.RUNNING
    assert world.runtime._engine.active.find("t") is None


@pytest.mark.parametrize("number", ALL)
def test_a_run_whose_caller_waits_for_it_raises_the_same(number: int) -> None:
    async def scenario(fault: Callable[[int], Exception | None]) -> Exception:
        async with World(script(), tools=[send, wait], store=WatchedStore(fault)) as world:
            with pytest.raises((StorageError, RunFailed)) as caught:
                await world.runtime.run("agent", "go", thread_id="t")
            return caught.value

    lasting = simulated(lambda: scenario(lambda asked: DOWN if asked >= number else None))
    once = simulated(lambda: scenario(lambda asked: DOWN if asked == number else None))
    assert isinstance(lasting, StoreUnavailable)
    if number < COMMITS:
        assert isinstance(once, RunFailed)
        assert once.cause_code == "store_unavailable"


@pytest.mark.parametrize("number", ALL)
@pytest.mark.parametrize("error", [CommitUnknown(commit_id="x"), DOWN])
def test_a_lost_reply_is_looked_up_and_the_run_goes_on_as_if_nothing_happened(
    number: int, error: StorageError
) -> None:
    store = WatchedStore(lambda asked: Lost(error) if asked == number else None)
    story, _ = simulated(lambda: _told(store))
    whole, _ = simulated(lambda: _told(WatchedStore()))

    assert story.termination == NaturalEnd()
    assert story.lines == whole.lines
    assert story.types == whole.types
    assert len(store.commits) == COMMITS
    assert [commit.expected_version for commit in store.commits] == [n - 1 for n in ALL]


class Deaf(WatchedStore):
    """Takes commits, loses the reply to one, and does not answer questions about it at first."""

    deaf_for = 1

    async def find_commit(self, commit_id: str, thread_id: str) -> CommitReceipt | None:
        if self.deaf_for:
            self.deaf_for -= 1
            raise DOWN
        return await super().find_commit(commit_id, thread_id)


@pytest.mark.parametrize("number", ALL[:-1])
def test_a_commit_whose_fate_is_learned_late_is_neither_lost_nor_written_twice(number: int) -> None:
    store = Deaf(lambda asked: Lost(DOWN) if asked == number else None)
    story, _ = simulated(lambda: _told(store))

    assert isinstance(story.termination, Failed)
    assert story.termination.code == "store_unavailable"
    ids = [message.id for commit in store.commits for message in commit.messages]
    assert len(ids) == len(set(ids))
    events = [id(event) for commit in store.commits for event in commit.events]
    assert len(events) == len(set(events))


def test_a_crowd_of_deltas_costs_no_commit_and_a_step_costs_one() -> None:
    async def scenario() -> WatchedStore:
        async with World([Chunks(["x"] * 500, delay_ms=1)]) as world:
            await world.tell()
            return world.store

    store = simulated(scenario)
    assert len(store.commits) == 2
    assert len(encode_event(store.commits[-1].events[1])) > 500


def test_a_commit_carries_state_messages_record_and_events_of_its_step_together() -> None:
    story, world = simulated(lambda: _told(WatchedStore()))

    last: Commit = world.store.commits[-1]
    assert last.run is not None
    assert (last.run.status, last.run.termination) == (RunStatus.DONE, NaturalEnd())
    assert last.run.usage == (story.result and story.result.usage)
    assert [message.text for message in last.messages] == ["done"]
    assert isinstance(last.events[-1], RunFinish)
    assert [commit.committed_at for commit in world.store.commits] == sorted(
        commit.committed_at for commit in world.store.commits
    )


def test_a_pure_tool_costs_no_commit_of_its_own() -> None:
    @tool(effect="none")
    async def read() -> str:
        return "x"

    async def scenario() -> int:
        async with World([ToolCalls([("read", {})] * 5), "done"], tools=[read]) as world:
            await world.tell()
            return len(world.store.commits)

    assert simulated(scenario) == 3
    assert play(["hi"]).termination == NaturalEnd()
