"""Workflows whose code does what it should not, or what nobody thought of."""

import asyncio
import inspect
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from awaken import (
    Agent,
    AgentRuntime,
    RunResult,
    SuspendTicket,
    WorkflowContext,
    tool,
    user,
    workflow,
)
from awaken.contracts.runs.records import OnBusy, RunRequest
from awaken.contracts.suspension.tickets import Suspension
from awaken.errors import (
    ForeignTask,
    InvalidInput,
    LimitExceeded,
    ResultTooLarge,
    RunFailed,
    RunHasEnded,
    StepTimedOut,
    ThreadHasWorkflow,
    TooManyEvents,
    TooManySteps,
    WorkflowMisuse,
)
from awaken.testing import (
    ScriptedModel,
    make_virtual_runtime,
    run_in_virtual_time,
    wait_for_end,
)

from .each_store import sqlite
from .test_workflows import World, ended, until

DAY_S = 24 * 60 * 60
DONE: list[str] = []


@tool(effect="none")
async def slow(text: str, seconds: float = 0.0) -> str:
    """Take a time."""
    await asyncio.sleep(seconds)
    DONE.append(text)
    return text


@tool(effect="none")
async def count(texts: list[str]) -> int:
    """Count texts."""
    return len(texts)


TOOLS = [slow, count]


def play(made: Any, given: Any = None, story: Callable[..., Any] | None = None) -> RunResult:
    """Run a workflow to its end, however many days it takes."""
    DONE.clear()

    async def run() -> RunResult:
        async with make_virtual_runtime([made]) as runtime:
            started = await runtime.run(made.id, given or {})
            if story is not None:
                await story(runtime, started)
            async with asyncio.timeout(30 * DAY_S):
                return await wait_for_end(runtime, started.run_id)

    return run_in_virtual_time(run)


def fails_with(code: str, made: Any, given: Any = None) -> str:
    with pytest.raises(RunFailed) as caught:
        play(made, given)
    assert caught.value.cause_code == code
    return str(caught.value)


def test_what_branches_append_to_one_list_is_replayed_in_its_order() -> None:
    @workflow(tools=TOOLS)
    async def order(ctx: WorkflowContext) -> str:
        seen: list[str] = []

        async def work(text: str, seconds: float) -> None:
            seen.append(await ctx.call(slow, text, seconds))

        await ctx.gather(work("a", 0.3), work("b", 0.1))
        await ctx.call(count, seen)
        await ctx.sleep(days=1)
        return ",".join(seen)

    assert play(order).text == "b,a"


def test_what_a_loser_did_is_there_after_a_wait() -> None:
    @workflow(tools=TOOLS)
    async def lost(ctx: WorkflowContext) -> str:
        seen: list[str] = []

        async def lose() -> None:
            try:
                seen.append(await ctx.call(slow, "a"))
                await ctx.sleep(days=9)
            finally:
                seen.append("lost")

        await ctx.race(lose(), ctx.sleep(days=1))
        await ctx.call(count, seen)
        await ctx.sleep(days=1)
        return ",".join(seen)

    assert play(lost).text == "a,lost"


@pytest.mark.parametrize("retry", [None, 3])
def test_a_loser_takes_no_more_steps(retry: int | None) -> None:
    @workflow(tools=TOOLS)
    async def race(ctx: WorkflowContext) -> str:
        async def lose() -> None:
            try:
                await ctx.call(slow, "a", 5.0, retry=retry)
            finally:
                await ctx.call(slow, "too late")

        winner, _ = await ctx.race(lose(), ctx.call(slow, "b", 0.1))
        await ctx.call(slow, "c", 0.2)
        return str(winner)

    assert play(race).text == "1"
    assert DONE == ["b", "c"]


def test_a_step_that_the_code_cancels_fails_the_run_and_says_what_to_use() -> None:
    @workflow(tools=TOOLS)
    async def impatient(ctx: WorkflowContext) -> str:
        try:
            async with asyncio.timeout(0.1):
                await ctx.call(slow, "a", 5.0)
        except TimeoutError:
            await ctx.call(slow, "too late")
        return "ok"

    assert "timeout" in fails_with("workflow_misuse", impatient)
    assert DONE == []


def test_a_thread_is_a_foreign_task() -> None:
    @workflow
    async def threads(ctx: WorkflowContext) -> str:
        for use in (lambda: ctx.set_status(1), lambda: ctx.patched("x")):
            with pytest.raises(ForeignTask):
                await asyncio.to_thread(use)
        return "ok"

    assert play(threads).text == "ok"


SWALLOWING = """
    import asyncio, sys
    from awaken import AgentRuntime, WorkflowContext, tool, workflow
    from awaken.runtime.limits import Limits

    @workflow
    async def stubborn(ctx: WorkflowContext) -> str:
        while True:
            try:
                ctx.set_status("again")
                await ctx.call("nothing", 1, 2, 3) if sys.argv[1] == "misuse" else None
                await ctx.sleep(0.2 if sys.argv[1] == "once" else 2000)
                return "ok"
            except BaseException:
                pass

    async def main():
        limits = Limits(cancel_grace_ms=200)
        async with AgentRuntime([stubborn], limits=limits) as runtime:
            try:
                started = await runtime.run("stubborn", {})
                if sys.argv[1] == "cancel":
                    await runtime.cancel(started.run_id)
                result = started
                while result.status != "done":
                    await asyncio.sleep(0.05)
                    result = await runtime.wait(started.run_id)
                print(result.text, result.termination)
            except Exception as error:
                print(error)

    asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("how", "end"),
    [("once", "ok NaturalEnd"), ("cancel", "Cancelled"), ("misuse", "10000 steps")],
)
def test_code_that_swallows_everything_never_keeps_its_process_busy(
    tmp_path: Path, how: str, end: str
) -> None:
    script = tmp_path / "stubborn.py"
    script.write_text(textwrap.dedent(SWALLOWING), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(script), how], capture_output=True, text=True, timeout=60, check=False
    )
    assert end in done.stdout, done.stderr


def test_sys_exit_fails_the_run_and_not_its_process() -> None:
    @workflow
    async def leaves(ctx: WorkflowContext) -> str:
        sys.exit(3)

    assert "sys.exit(3)" in fails_with("workflow_misuse", leaves)


def test_events_that_no_step_has_taken_go_to_the_fresh_run() -> None:
    @workflow
    async def chain(ctx: WorkflowContext, left: int = 2) -> list[Any]:
        if left:
            await ctx.sleep(10)
            ctx.continue_as_new({"left": left - 1})
        said = await ctx.wait_for("message", timeout=100)
        return [said, *[await ctx.wait_for("n", timeout=100) for _ in range(3)]]

    async def story() -> list[Any]:
        async with make_virtual_runtime([chain]) as runtime:
            started = await runtime.run("chain", {})
            for number in range(3):
                await runtime.send_event(started.run_id, "n", number)
            await runtime.run(None, "Hello!", thread_id=started.thread_id)
            await asyncio.sleep(1000)
            runs = await runtime.list_runs(thread_id=started.thread_id)
            return [it.final_output for it in runs]

    assert '["Hello!",0,1,2]' in run_in_virtual_time(story)


@workflow(tools=TOOLS)
async def payment(ctx: WorkflowContext) -> str:
    winner, paid = await ctx.race(ctx.wait_for("payment"), ctx.sleep(days=1))
    await ctx.call(slow, f"{winner} {paid}")
    await ctx.wait_for("go")
    return f"{winner} {paid}"


@pytest.mark.parametrize("step", ["1", "1.0.1", "1.1.1"])
def test_a_reset_into_a_race_holds_it_again_as_a_whole(step: str) -> None:
    async def story(runtime: AgentRuntime, started: RunResult) -> None:
        await asyncio.sleep(2 * DAY_S)
        assert DONE == ["1 None"]
        plan = await runtime.reset_run(started.run_id, step, is_dry=True)
        assert set(plan.steps) == {"1", "1.0.1", "1.1.1", "2", "3"}
        assert await runtime.reset_run(started.run_id, step) == plan
        await asyncio.sleep(60)
        assert DONE == ["1 None"]
        await runtime.send_event(started.run_id, "payment", 7)
        await runtime.send_event(started.run_id, "go")

    assert play(payment, story=story).text == "0 7"


@workflow(tools=TOOLS)
async def misuses(ctx: WorkflowContext, which: str) -> str:
    match which:
        case "blank name":
            await ctx.wait_for(" ")
        case "long name":
            await ctx.wait_for("x" * 300)
        case "no retry":
            await ctx.call(slow, "x", retry=0)
        case "no time":
            await ctx.call(slow, "x", timeout=0)
        case "negative time":
            await ctx.wait_for("x", timeout=-1)
        case "endless sleep":
            await ctx.sleep(float("inf"))
        case "no JSON":
            await ctx.call(slow, object())
        case "by position":
            await ctx.call("unknown", 5)
    return "ok"


@pytest.mark.parametrize(
    ("which", "said"),
    [
        ("blank name", "1 to 200 characters"),
        ("long name", "1 to 200 characters"),
        ("no retry", "retry=0"),
        ("no time", "0 seconds"),
        ("negative time", "-1 seconds"),
        ("endless sleep", "inf seconds"),
        ("no JSON", "argument 'text' of tool 'slow'"),
        ("by position", "by name"),
    ],
)
def test_misuse_is_told_at_once(which: str, said: str) -> None:
    assert said in fails_with("workflow_misuse", misuses, {"which": which})


def test_a_sleep_until_a_time_that_is_over_is_none() -> None:
    @workflow
    async def late(ctx: WorkflowContext) -> str:
        await ctx.sleep(-5)
        with pytest.raises(WorkflowMisuse):
            await ctx.sleep(float("nan"))
        with pytest.raises(StepTimedOut):
            await ctx.wait_for("x", timeout=0)
        return "ok"

    assert play(late).text == "ok"


@pytest.mark.parametrize("how", ["raises", "continues", "is over"])
def test_other_code_that_ends_before_a_recorded_step_ends_no_run(tmp_path: Path, how: str) -> None:
    def code(version: str) -> Any:
        @workflow(id="flow", tools=TOOLS)
        async def flow(ctx: WorkflowContext) -> str:
            await ctx.call(slow, "one")
            match version:
                case "raises":
                    raise RuntimeError("a bad deployment")
                case "continues":
                    ctx.continue_as_new()
                case "is over":
                    return "over"
            await ctx.wait_for("go")
            return "went"

        return flow

    async def story() -> None:
        async def is_diverged() -> Any:
            waiting = (await runtime.get_run(run_id)).waiting
            return waiting is not None and waiting.diverged

        world = World(sqlite, tmp_path)
        async with world.process(code("old")) as runtime:
            run_id = (await runtime.run("flow", {})).run_id
        async with world.process(code(how)) as runtime:
            await runtime.send_event(run_id, "go")
            found = await until(runtime, is_diverged)
            assert (found.step, found.recorded) == ("2", "wait_for go")
        async with world.process(code("old")) as runtime:
            assert (await ended(runtime, run_id)).text == "went"

    asyncio.run(story())


BAD_STEPS: dict[str, Callable[[WorkflowContext], Any]] = {
    "deciders str": lambda ctx: ctx.approve("Pay?", deciders="boss"),  # type: ignore[arg-type]
    "deciders int": lambda ctx: ctx.approve("Pay?", deciders=(1,)),  # type: ignore[arg-type]
    "deciders None": lambda ctx: ctx.approve("Pay?", deciders=(None,)),  # type: ignore[arg-type]
    "message int": lambda ctx: ctx.approve(5),  # type: ignore[arg-type]
    "message None": lambda ctx: ctx.approve(None),  # type: ignore[arg-type]
    "timeout str": lambda ctx: ctx.approve("Pay?", timeout="5"),  # type: ignore[arg-type]
    "event int": lambda ctx: ctx.wait_for(5),  # type: ignore[arg-type]
    "sleep str": lambda ctx: ctx.sleep("5"),  # type: ignore[arg-type]
    "sleep nan": lambda ctx: ctx.sleep(float("nan")),
    "retry str": lambda ctx: ctx.call(slow, "x", retry="3"),
    "patched int": lambda ctx: ctx.patched(5),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("bad", BAD_STEPS)
def test_arguments_that_no_store_could_read_again_are_refused_before_the_step(bad: str) -> None:
    @workflow(tools=TOOLS)
    async def errs(ctx: WorkflowContext) -> str:
        async def take() -> None:
            if inspect.isawaitable(step := BAD_STEPS[bad](ctx)):
                await step

        with pytest.raises(WorkflowMisuse):
            await take()
        return "refused"

    assert play(errs).text == "refused"


def test_a_tool_cannot_suspend_with_a_ticket_that_no_store_could_read() -> None:
    for deciders in ("boss", (1,), (None,), 7):
        with pytest.raises(InvalidInput, match="deciders"):
            SuspendTicket(deciders=deciders)  # type: ignore[arg-type]
    assert SuspendTicket(deciders=["ann"]).deciders == ("ann",)  # type: ignore[arg-type]
    for more in ({"message": 5}, {"action": None}, {"response_schema": "x"}, {"choices": [1]}):
        with pytest.raises(InvalidInput):
            Suspension(**more)  # type: ignore[arg-type]


CHANGES = ("race 3", "race 1", "gather 2", "gather 3", "a parameter", "another type")


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("before", ["race 2", "gather 2"])
def test_other_branches_and_other_parameters_execute_nothing_and_end_no_run(
    tmp_path: Path, before: str, change: str
) -> None:
    done: list[str] = []

    @tool(effect="once")
    async def act() -> str:
        """Act."""
        done.append("acted")
        return "acted"

    def code(version: str) -> Any:
        async def body(ctx: WorkflowContext) -> str:
            kind, _, count = version.partition(" ")
            if not count.isdigit():
                kind, count = before.split()
            makers = [
                lambda: ctx.wait_for("go"),
                lambda: ctx.wait_for("more"),
                lambda: ctx.call(act),
            ]
            branches = [make() for make in makers[: int(count)]]
            await (ctx.race if kind == "race" else ctx.gather)(*branches)
            return "went"

        async def takes_text(ctx: WorkflowContext, n: str = "x") -> str:
            return await body(ctx)

        async def takes_number(ctx: WorkflowContext, n: int) -> str:
            return await body(ctx)

        async def takes_more(ctx: WorkflowContext, n: str, must: int) -> str:
            return await body(ctx)

        chosen = {"a parameter": takes_more, "another type": takes_number}
        return workflow(id="flow", tools=[act])(chosen.get(version, takes_text))

    async def story() -> None:
        async def is_diverged() -> Any:
            waiting = (await runtime.get_run(run_id)).waiting
            return waiting is not None and waiting.diverged

        world = World(sqlite, tmp_path)
        async with world.process(code(before)) as runtime:
            run_id = (await runtime.run("flow", {"n": "x"})).run_id
        if change == before:
            return
        async with world.process(code(change)) as runtime:
            await runtime.send_event(run_id, "go", event_id="e")
            found = await until(runtime, is_diverged)
            assert found.step in ("0", "1")
        async with world.process(code(before)) as runtime:
            await runtime.send_event(run_id, "go", event_id="e")
            await runtime.send_event(run_id, "more")
            assert (await ended(runtime, run_id)).text == "went"
        assert done == []

    asyncio.run(story())


def test_the_arguments_that_a_decider_gives_are_those_of_the_call() -> None:
    @tool(effect="once", approval=True)
    async def pay(amount: int) -> int:
        """Pay."""
        return amount

    @workflow(tools=[pay])
    async def pays(ctx: WorkflowContext) -> list[int]:
        paid = await ctx.call(pay, 100)
        await ctx.sleep(60)
        return [paid, (await ctx.approve("Fine?")).result["amount"]]

    async def story(runtime: AgentRuntime, started: RunResult) -> None:
        (ticket,) = started.tickets
        await runtime.decide(ticket.ticket_id, "resume", arguments={"amount": 5})
        await asyncio.sleep(120)
        (asked,) = await runtime.tickets()
        await runtime.decide(asked.ticket_id, "resume", result={"amount": 6})

    assert play(pays, story=story).output == [5, 6]


def test_a_run_that_has_taken_all_its_steps_can_continue_as_a_new_one() -> None:
    @workflow
    async def long(ctx: WorkflowContext, is_new: bool = False) -> str:
        if is_new:
            return "new"
        try:
            while True:
                ctx.set_status(1)
        except TooManySteps:
            ctx.continue_as_new({"is_new": True})

    async def story() -> list[Any]:
        async with make_virtual_runtime([long]) as runtime:
            started = await runtime.run("long", {})
            await asyncio.sleep(60)
            return [it.final_output for it in await runtime.list_runs(thread_id=started.thread_id)]

    assert "new" in run_in_virtual_time(story)


def test_whoever_writes_to_the_thread_of_a_workflow_sends_it_an_event() -> None:
    other = Agent("other", model=ScriptedModel(["I answer."] * 9))

    @workflow
    async def chat(ctx: WorkflowContext) -> list[Any]:
        return [await ctx.wait_for("message") for _ in range(3)]

    async def story() -> None:
        async with make_virtual_runtime([chat, other]) as runtime:
            started = await runtime.run("chat", {})
            thread = {"thread_id": started.thread_id}
            named = RunRequest(
                messages=(user("one"),), run_id_hint="mine", on_busy=OnBusy.INTERRUPT, **thread
            )
            assert (await runtime.start(named)).run_id == started.run_id
            await asyncio.sleep(1)
            with pytest.raises(ThreadHasWorkflow):
                await runtime.run("other", "no", **thread)
            with pytest.raises(ThreadHasWorkflow):
                await runtime.submit("other", "no", **thread)
            assert (await runtime.run("chat", "two", **thread)).run_id == started.run_id
            await runtime.submit("chat", "three", **thread)
            ended = await wait_for_end(runtime, started.run_id)
            assert ended.text == '["one","two","three"]'

    run_in_virtual_time(story)


def test_timers_that_are_due_one_after_the_other_all_wake_in_time(tmp_path: Path) -> None:
    late: list[int] = []

    @workflow
    async def nap(ctx: WorkflowContext) -> None:
        due = await ctx.now() + 1_000
        await ctx.sleep(1)
        late.append(await ctx.now() - due)

    async def story() -> None:
        async with World(sqlite, tmp_path).process(nap) as runtime:
            started = await asyncio.gather(*(runtime.run("nap", {}) for _ in range(20)))
            for it in started:
                await ended(runtime, it.run_id)

    asyncio.run(story())
    # The next sweep would come after ten seconds and more.
    assert max(late) < 4_000


@workflow
async def texts(ctx: WorkflowContext, order_id: str = "default") -> str:
    return order_id


@pytest.mark.parametrize(
    ("given", "read"), [("{}", "default"), ('{"order_id": "A"}', "A"), ("Hello!", "Hello!")]
)
def test_a_json_object_is_always_the_arguments(given: str, read: str) -> None:
    assert play(texts, given).text == read


def test_a_queue_full_of_other_events_holds_no_run_up() -> None:
    @workflow
    async def waits(ctx: WorkflowContext) -> str:
        return str(await ctx.wait_for("go"))

    async def story(runtime: AgentRuntime, started: RunResult) -> None:
        with pytest.raises(LimitExceeded):
            await runtime.send_event(started.run_id, "go", "x" * 1_000_001)
        for number in range(1_000):
            await runtime.send_event(started.run_id, "flood", number)
            if number % 100 == 0:
                await asyncio.sleep(5)
        await asyncio.sleep(5)
        with pytest.raises(TooManyEvents):
            await runtime.send_event(started.run_id, "flood", 1_001)
        await runtime.send_event(started.run_id, "go", "went")

    assert play(waits, story=story).text == "went"


@pytest.mark.parametrize("size", [900_000, 1_100_000])
def test_a_result_of_a_megabyte_fits_and_a_larger_one_is_an_error(size: int) -> None:
    @tool(effect="none")
    async def write(size: int) -> str:
        """Write much."""
        return "x" * size

    @workflow(tools=[write])
    async def writes(ctx: WorkflowContext) -> int:
        try:
            return len(await ctx.call(write, size))
        except ResultTooLarge:
            return 0

    assert play(writes).output == (size if size < 1_000_000 else 0)


def test_an_event_that_is_sent_again_after_the_end_gets_its_receipt() -> None:
    @workflow
    async def waits(ctx: WorkflowContext) -> str:
        return str(await ctx.wait_for("go"))

    async def story(runtime: AgentRuntime, started: RunResult) -> None:
        first = await runtime.send_event(started.run_id, "go", "went", event_id="E1")
        await wait_for_end(runtime, started.run_id)
        again = await runtime.send_event(started.run_id, "go", "went", event_id="E1")
        assert (again.event_id, again.is_duplicate) == (first.event_id, True)
        with pytest.raises(RunHasEnded):
            await runtime.send_event(started.run_id, "go", "went", event_id="E2")

    assert play(waits, story=story).text == "went"
