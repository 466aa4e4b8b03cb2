"""Workflows, and what is not an agent of this process, in replays and worlds: nothing escapes."""

import asyncio
from typing import Any

import msgspec
import pytest

from awaken import Agent, AgentRuntime, RunRequest, WorkflowContext, tool, user, workflow
from awaken.bootstrap.evals import find_eval_store
from awaken.bootstrap.replays import build_recorder, build_replays
from awaken.contracts.evals.errors import CannotReplay
from awaken.contracts.evals.recordings import Recording
from awaken.contracts.evals.replays import ReplayResult
from awaken.contracts.evals.worlds import World
from awaken.contracts.workflows.steps import read_path
from awaken.errors import RunFailed
from awaken.evals.recording_files import decode_recording, encode_recording
from awaken.evals.worlds import pack_world
from awaken.testing import ScriptedModel, ToolCalls

from .remoting import FakeBackend, far, said

DONE: list[int] = []


async def charge(amount: int) -> str:
    """Charge."""
    DONE.append(amount)
    return f"charged {amount}"


@tool
async def pay(amount: int) -> str:
    """Pay."""
    DONE.append(amount)
    return f"paid {amount}"


@tool(effect="none")
async def fail(amount: int) -> str:
    """Fail."""
    DONE.append(amount)
    raise ValueError("not today")


def make_flow(body: Any) -> Any:
    @workflow(id="flow")
    async def flow(ctx: WorkflowContext, amount: int) -> str:
        """Do it."""
        return str(await body(ctx, amount))

    return flow


async def record(flow: Any) -> Recording:
    async with asyncio.timeout(60), AgentRuntime([flow], history="full") as runtime:
        try:
            run_id = (await runtime.run("flow", {"amount": 5})).run_id
        except RunFailed as error:
            run_id = error.run_id
        made = await build_recorder(runtime.view("test").engine).record(run_id)
        return decode_recording(encode_recording(made))


def verify(recording: Recording, flow: Any) -> ReplayResult:
    async def main() -> ReplayResult:
        async with asyncio.timeout(60), AgentRuntime([flow]) as runtime:
            return await build_replays(runtime.view("test").engine).replay(recording)

    return asyncio.run(main())


async def raise_plainly(ctx: WorkflowContext, amount: int) -> str:
    await ctx.call(pay, amount)
    raise ValueError("broken")


async def call_failing(ctx: WorkflowContext, amount: int) -> Any:
    return await ctx.call(fail, amount)


async def call_both(ctx: WorkflowContext, amount: int) -> Any:
    return [await ctx.call(pay, amount), await ctx.call(charge, amount)]


@pytest.mark.parametrize("body", [raise_plainly, call_failing, call_both])
def test_a_workflow_is_the_same_if_it_ends_the_same_way(body: Any) -> None:
    recording = asyncio.run(record(make_flow(body)))
    count = len(DONE)
    result = verify(recording, make_flow(body))
    assert result.is_same, result.divergences
    assert len(DONE) == count


@pytest.mark.parametrize(("was", "now"), [(raise_plainly, call_both), (call_both, raise_plainly)])
def test_a_workflow_that_ends_otherwise_has_diverged(was: Any, now: Any) -> None:
    result = verify(asyncio.run(record(make_flow(was))), make_flow(now))
    assert not result.is_same


def test_a_result_of_a_workflow_that_is_made_otherwise_is_found_at_its_end() -> None:
    async def shout(ctx: WorkflowContext, amount: int) -> str:
        return (await ctx.call(pay, amount)).upper()

    async def say(ctx: WorkflowContext, amount: int) -> Any:
        return await ctx.call(pay, amount)

    async def raise_then(ctx: WorkflowContext, amount: int) -> Any:
        await ctx.call(pay, amount)
        raise ValueError("after all steps")

    recording = asyncio.run(record(make_flow(say)))
    (found,) = verify(recording, make_flow(shout)).divergences
    assert (found.kind, found.path, found.replayed) == ("end", "/final_output", "PAID 5")
    (found,) = verify(recording, make_flow(raise_then)).divergences
    assert (found.path, found.replayed) == ("/end", "error: workflow_failed")
    failed = asyncio.run(record(make_flow(raise_then)))
    (found,) = verify(failed, make_flow(say)).divergences
    assert (found.recorded, found.replayed) == ("error: workflow_failed", "natural_end")


def flip_entry(recording: Recording, place: int) -> Recording:
    journal = [dict(it) for it in recording.journal]
    journal[place]["result"] = {**journal[place]["result"], "data": "charged 6"}
    return msgspec.structs.replace(recording, journal=tuple(journal))


def test_a_flipped_result_of_a_workflow_is_found_at_its_own_step() -> None:
    async def forget(ctx: WorkflowContext, amount: int) -> str:
        await ctx.call(pay, amount)
        await ctx.call(pay, amount)
        return "done"

    for body in (call_both, forget):
        recording = asyncio.run(record(make_flow(body)))
        assert verify(recording, make_flow(body)).is_same
        places = [n for n, it in enumerate(recording.journal) if it.get("result")]
        assert len(places) >= 2
        seen = set()
        for place in places:
            flipped = decode_recording(encode_recording(flip_entry(recording, place)))
            (found,) = verify(flipped, make_flow(body)).divergences
            step = read_path(recording.journal[place]["call_id"])
            assert (found.kind, found.path) == ("result", f"/journal/{step}")
            seen.add(found.path)
        assert len(seen) == len(places), "each is found at its own step, used or not"


def test_a_recording_without_digests_shows_a_flipped_result_by_what_comes_of_it() -> None:
    recording = asyncio.run(record(make_flow(call_both)))
    old = msgspec.structs.replace(recording, journal_digests=())
    assert verify(old, make_flow(call_both)).is_same
    last = max(n for n, it in enumerate(old.journal) if it.get("result"))
    (found,) = verify(flip_entry(old, last), make_flow(call_both)).divergences
    assert (found.kind, found.path) == ("end", "/final_output")


def test_a_journal_with_an_entry_taken_out_is_no_verified_run() -> None:
    recording = asyncio.run(record(make_flow(call_both)))
    cut = msgspec.structs.replace(recording, journal=recording.journal[:-1])
    assert not verify(cut, make_flow(call_both)).is_same


def test_a_journal_that_is_none_is_refused() -> None:
    recording = asyncio.run(record(make_flow(call_both)))
    hostile = msgspec.structs.replace(recording, journal=({"call_id": 5},))
    with pytest.raises(CannotReplay, match="journal cannot be read"):
        verify(hostile, make_flow(call_both))


def test_a_workflow_that_slept_for_days_and_retried_for_hours_is_verified_at_once() -> None:
    """The journal has the pauses: entering it again waits for none of them."""

    async def rest(ctx: WorkflowContext, amount: int) -> Any:
        await ctx.sleep(days=3)
        return "rested"

    async def main() -> Recording:
        flow = make_flow(rest)
        async with asyncio.timeout(60), AgentRuntime([flow], history="full") as runtime:
            result = await runtime.run("flow", {"amount": 5})
            assert result.is_waiting
            made = await build_recorder(runtime.view("test").engine).record(result.run_id)
            return decode_recording(encode_recording(made))

    recording = asyncio.run(main())
    result = verify(recording, make_flow(rest))
    assert result.is_same, result.divergences

    async def go_on(ctx: WorkflowContext, amount: int) -> Any:
        return "at once"

    assert not verify(recording, make_flow(go_on)).is_same


@pytest.mark.parametrize("called", [charge, pay])
def test_what_a_workflow_calls_in_a_world_is_not_executed(called: Any) -> None:
    async def body(ctx: WorkflowContext, amount: int) -> Any:
        return await ctx.call(called, amount)

    async def main() -> None:
        async with asyncio.timeout(60), AgentRuntime([make_flow(body)]) as runtime:
            engine = runtime.view("test").engine
            name, objects = pack_world(World(), None)
            await find_eval_store(engine.store).put_eval_objects(objects)
            request = RunRequest(agent_id="flow", messages=(user('{"amount": 5}'),), world=name)
            count = len(DONE)
            result = await engine.run(request)
            assert "diverged" in str(result.termination)
            assert len(DONE) == count

    asyncio.run(main())


def test_a_run_can_be_tried_with_another_agent_but_not_with_a_workflow() -> None:
    script = [ToolCalls([("pay", {"amount": 3})]), "paid"]
    first = Agent("first", model=ScriptedModel(script), instructions="A", tools=[pay])
    second = Agent("second", model=ScriptedModel([*script]), instructions="B", tools=[pay])
    flow = make_flow(call_both)

    async def main() -> None:
        async with (
            asyncio.timeout(60),
            AgentRuntime([first, second, flow], history="full") as runtime,
        ):
            run = await runtime.run("first", "go")
            count = len(DONE)
            tried = await runtime.replays.what_if(run.run_id, agent_id="second")
            assert tried.replayed.run.agent_id == "second"
            assert tried.replayed.config.agents["second"].system_prompt == "B"
            assert tried.replayed.run.final_output == "paid"
            for changes, problem in (
                ({"agent_id": "flow"}, "'flow' is a workflow"),
                ({"agent_id": "nobody"}, "no agent 'nobody'"),
                ({"agent_id": "second", "from_step": 2}, "leave from_step out"),
            ):
                with pytest.raises(CannotReplay, match=problem):
                    await runtime.replays.what_if(run.run_id, **changes)
            assert len(DONE) == count

    asyncio.run(main())


def test_an_agent_that_executes_elsewhere_is_not_asked_in_a_replay() -> None:
    remote = FakeBackend(said("there"), said("again"))

    async def main() -> None:
        runtime = AgentRuntime([far()], backends={"fake": remote}, history="full")
        async with asyncio.timeout(60), runtime:
            run = await runtime.run("far", "go")
            count = len(remote.roots)
            with pytest.raises(CannotReplay, match="executes elsewhere"):
                await runtime.replays.verify(run.run_id)
            assert len(remote.roots) == count

    asyncio.run(main())


def test_a_call_that_its_check_refused_is_refused_again() -> None:
    def check(amount: int) -> None:
        if amount > 5:
            raise ValueError("too much")

    @tool(check=check)
    async def spend(amount: int) -> str:
        """Spend."""
        return f"spent {amount}"

    script = [ToolCalls([("spend", {"amount": 9})]), ToolCalls([("spend", {"amount": 3})]), "x"]
    agent = Agent("a", model=ScriptedModel(script), tools=[spend])

    async def main() -> None:
        async with asyncio.timeout(60), AgentRuntime([agent], history="full") as runtime:
            run = await runtime.run("a", "go")
            result = await runtime.replays.verify(run.run_id)
            assert result.is_same, result.divergences

    asyncio.run(main())


def test_a_workflow_that_another_user_continued_is_replayed_as_the_first_ones() -> None:
    @tool(effect="none")
    async def note(text: str) -> str:
        """Note a text."""
        return text

    @workflow(id="flow", tools=[note])
    async def flow(ctx: WorkflowContext) -> list[str]:
        noted = await ctx.call(note, f"for {ctx.run.user_id}")
        return [noted, await ctx.wait_for("message"), f"of {ctx.run.user_id}"]

    async def main() -> tuple[Recording, ReplayResult]:
        async with asyncio.timeout(60), AgentRuntime([flow], history="full") as runtime:
            begun = RunRequest(agent_id="flow", messages=(user("{}"),), user_id="ann")
            run = await (await runtime.start(begun)).result()
            said = RunRequest(thread_id=run.thread_id, messages=(user("hi"),), user_id="bob")
            await runtime.start(said)
            await runtime.wait(run.run_id)
            recording = await runtime.replays.record(run.run_id)
            kept = decode_recording(encode_recording(recording))
            return kept, await runtime.replays.verify(kept)

    recording, result = asyncio.run(main())
    assert (recording.run.user_id, recording.run.begun_by) == ("bob", ("ann",))
    assert result.is_same, result.divergences
