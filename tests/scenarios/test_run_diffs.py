"""The diff of two runs, and recordings of which something is missing."""

import asyncio
import random
from typing import Any

import pytest

from awaken import Agent, AgentRuntime, StateKey, ToolContext, tool
from awaken.bootstrap.replays import build_recorder, build_replays
from awaken.contracts.evals.recordings import Recording
from awaken.evals.comparing import align, compare_runs
from awaken.plugins import StateScope
from awaken.testing import ScriptedModel, ToolCalls

COUNT: StateKey[int, int] = StateKey("diffed_count", default=0, scope=StateScope.THREAD)


@tool(effect="none")
async def look(what: str, ctx: ToolContext) -> str:
    """Look."""
    ctx.state.set(COUNT, ctx.state.get(COUNT) + 1)
    return f"saw {what}"


def calls(*names: str) -> ToolCalls:
    return ToolCalls([("look", {"what": it}) for it in names])


def record_script(script: list[Any]) -> Recording:
    async def main() -> Recording:
        agent = Agent("a", model=ScriptedModel(script), tools=[look])
        async with AgentRuntime([agent], history="full") as runtime:
            run_id = (await runtime.run("a", "go")).run_id
            return await build_recorder(runtime.view("test").engine).record(run_id)

    return asyncio.run(main())


def test_two_equal_runs_are_the_same() -> None:
    one, two = record_script([calls("a"), "done"]), record_script([calls("a"), "done"])
    diff = compare_runs(one, two)
    assert diff.is_same
    assert (diff.before.steps, diff.before.calls, diff.before.tokens) == (2, 1, 60)
    assert diff.first is None


def test_steps_are_aligned_by_what_they_called() -> None:
    one = record_script([calls("a"), calls("b"), calls("c"), "done"])
    two = record_script([calls("a"), calls("x"), calls("y"), calls("c"), "other"])
    diff = compare_runs(one, two)
    shown = [(it.change, it.before, it.after) for it in diff.steps]
    assert shown == [
        ("same", 1, 1),
        ("changed", 2, 2),
        ("added", None, 3),
        ("same", 3, 4),
        ("changed", 4, 5),
    ]
    assert diff.first == 1
    changed = diff.steps[1].calls
    assert [(it.change, it.before["arguments"], it.after["arguments"]) for it in changed] == [
        ("changed", {"what": "b"}, {"what": "x"})
    ]
    assert [(it.key, it.before, it.after) for it in diff.state] == [("diffed_count", 3, 4)]
    assert (diff.before.text, diff.after.text) == ("done", "other")


def test_calls_are_added_and_removed_within_a_step() -> None:
    one, two = record_script([calls("a", "b"), "done"]), record_script([calls("b"), "done"])
    (step, _) = compare_runs(one, two).steps
    assert [(it.change, it.tool) for it in step.calls] == [("removed", "look")]


def test_the_alignment_is_the_longest() -> None:
    chance = random.Random(1)
    for _ in range(300):
        left = [chance.choice((b"a", b"b", b"c")) for _ in range(chance.randrange(9))]
        right = [chance.choice((b"a", b"b", b"c")) for _ in range(chance.randrange(9))]
        pairs = align(left, right)
        assert all(left[one] == right[two] for one, two in pairs)
        assert pairs == sorted(pairs)
        assert len({one for one, _ in pairs}) == len({two for _, two in pairs}) == len(pairs)
        assert len(pairs) == longest(left, right)


def longest(left: list[bytes], right: list[bytes]) -> int:
    if not left or not right:
        return 0
    if left[0] == right[0]:
        return 1 + longest(left[1:], right[1:])
    return max(longest(left[1:], right), longest(left, right[1:]))


@pytest.mark.parametrize("history", ["full", "lean"])
def test_what_a_recording_lacks_is_named(history: str) -> None:
    async def main() -> Recording:
        script = [calls("a"), "one", calls("b"), "two"]
        agent = Agent("a", model=ScriptedModel(script), tools=[look])
        async with AgentRuntime([agent], history=history) as runtime:
            await runtime.run("a", "go", thread_id="t")
            run_id = (await runtime.run("a", "go", thread_id="t")).run_id
            engine = runtime.view("test").engine
            recording = await build_recorder(engine).record(run_id)
            result = await build_replays(engine).replay(recording)
            assert result.is_same is (history == "full") or result.incomplete
            return recording

    found = asyncio.run(main())
    missing = () if history == "full" else ("state: not kept (history='lean')",)
    assert found.incomplete == missing


def test_a_run_whose_log_was_purged_has_its_messages_and_says_what_is_gone() -> None:
    async def main() -> Recording:
        script = [calls("a"), "one"]
        agent = Agent("a", model=ScriptedModel(script), tools=[look])
        async with AgentRuntime([agent], history="full") as runtime:
            first = (await runtime.run("a", "go", thread_id="t")).run_id
            # The latest run of a thread stays when its log is purged.
            await runtime.store.purge(1 << 50)
            return await build_recorder(runtime.view("test").engine).record(first)

    found = asyncio.run(main())
    assert any(it.startswith("the log was purged") for it in found.incomplete)
    assert found.steps[0].digest is None
    assert found.steps[0].calls[0].result.message == "saw a"
