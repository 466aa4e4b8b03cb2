"""Workflows on every store: steps, waits, events, branches, and what a restart leaves of them."""

import asyncio
import functools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from awaken import (
    Agent,
    AgentRuntime,
    AwakenError,
    Cancelled,
    Failed,
    RunResult,
    RunStatus,
    ToolError,
    WorkflowContext,
    tool,
    workflow,
)
from awaken.contracts.storage.outbox import end_message_id
from awaken.contracts.storage.queries import DispatchQuery
from awaken.contracts.workflows.steps import read_path
from awaken.errors import (
    DedupeConflict,
    EventRefused,
    InvalidWorkflowInput,
    NotAWorkflow,
    RunFailed,
    RunHasEnded,
    StepDeclined,
    StepFailed,
    StepTimedOut,
)
from awaken.mailbox.workflow_runs import plan_reset, reset_run
from awaken.testing import ScriptedModel, ToolCalls, assert_valid_events, assert_valid_transcript
from awaken.tools import StepRetry

from .each_store import NewStore, each_store, memory, sqlite

SOON_S = 20


def awaited(story: Callable[..., Any]) -> Callable[..., None]:
    """Run an async test to its end."""

    @functools.wraps(story)
    def test(**given: Any) -> None:
        asyncio.run(story(**given))

    return test


class Order(msgspec.Struct):
    id: str
    amount: int


class Receipt(msgspec.Struct):
    order: str
    paid: int


class Shop:
    """Tools that note what they did."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.fails = 0

        @tool(effect="none")
        async def look(x: int) -> int:
            """Look something up."""
            self.done.append(f"look {x}")
            return x * 2

        @tool(effect="idempotent")
        async def save(text: str) -> str:
            """Save a text."""
            self.done.append(f"save {text}")
            return text.upper()

        @tool(effect="once")
        async def charge(order: str, amount: int) -> Receipt:
            """Charge an amount."""
            self.done.append(f"charge {order}")
            return Receipt(order=order, paid=amount)

        @tool(effect="none")
        async def shaky() -> str:
            """Fail as often as wanted."""
            self.done.append("shaky")
            if self.fails:
                self.fails -= 1
                raise ToolError("not yet")
            return "stable"

        self.look, self.save, self.charge, self.shaky = look, save, charge, shaky
        self.tools = [look, save, charge, shaky]


class World:
    """One store, and one process after another on it."""

    def __init__(self, new_store: NewStore, folder: Path) -> None:
        self._open = new_store(folder)
        self.shop = Shop()

    @asynccontextmanager
    async def process(self, *agents: Any, **options: Any) -> AsyncIterator[AgentRuntime]:
        async with AgentRuntime(agents, store=self._open(), has_worker=True, **options) as runtime:
            yield runtime


async def until(runtime: AgentRuntime, is_so: Callable[[], Any]) -> Any:
    """Wait until something is so; a worker acts within milliseconds."""
    async with asyncio.timeout(SOON_S):
        while not (found := await is_so()):
            await asyncio.sleep(0.01)
    return found


async def ended(runtime: AgentRuntime, run_id: str) -> RunResult:
    async def is_over() -> bool:
        return (await runtime.get_run(run_id)).status is RunStatus.DONE

    await until(runtime, is_over)
    return await runtime.wait(run_id)


async def ticket(runtime: AgentRuntime, run_id: str, name: str) -> str:
    async def find() -> str | None:
        for it in await runtime.tickets():
            if (it.run_id, it.tool_name) == (run_id, name):
                return it.ticket_id
        return None

    return str(await until(runtime, find))


async def journal(runtime: AgentRuntime, run_id: str) -> list[tuple[str, str]]:
    records = await runtime.store.list_tool_records(run_id)
    return [(read_path(it.call_id), it.kind) for it in records]


@each_store
@awaited
async def test_steps_run_in_order_and_the_result_is_typed(
    new_store: NewStore, tmp_path: Path
) -> None:
    world = World(new_store, tmp_path)
    shop = world.shop

    @workflow(tools=shop.tools)
    async def refund(ctx: WorkflowContext, order: Order) -> Receipt:
        """Refund an order."""
        doubled = await ctx.call(shop.look, order.amount)
        ctx.set_status({"doubled": doubled})
        both = await ctx.gather(ctx.call(shop.save, "a"), ctx.call("save", text="b"))
        assert both == ["A", "B"]
        assert await ctx.now() > 0
        assert 0 <= await ctx.random() < 1
        assert await ctx.uuid()
        receipt = await ctx.call(shop.charge, order.id, amount=doubled)
        assert isinstance(receipt, Receipt)
        return receipt

    async with world.process(refund) as runtime:
        events = [
            event async for event in runtime.stream("refund", {"order": {"id": "o", "amount": 4}})
        ]
        assert_valid_events(events)
        result = await runtime.run("refund", '{"order": {"id": "p", "amount": 5}}')
        assert result.output == Receipt(order="p", paid=10)
        messages = [it.message for it in await runtime.messages(result.thread_id)]
        assert_valid_transcript(messages)
        assert sum(len(it.tool_calls or ()) for it in messages) == 4
        assert await journal(runtime, result.run_id) == [
            ("1", "call"), ("2", "status"), ("3", "gather"), ("3.0.1", "call"),
            ("3.1.1", "call"), ("4", "now"), ("5", "random"), ("6", "uuid"), ("7", "call"),
        ]  # fmt: skip


@each_store
@awaited
async def test_a_run_parks_and_another_process_wakes_it_without_repeating_a_step(
    new_store: NewStore, tmp_path: Path
) -> None:
    world = World(new_store, tmp_path)
    shop = world.shop

    @workflow(tools=shop.tools)
    async def nap(ctx: WorkflowContext, seconds: float) -> str:
        await ctx.call(shop.look, 1)
        await ctx.call(shop.charge, "o", 1)
        await ctx.sleep(seconds)
        answer = await ctx.approve("Go on?", parameters={"why": 1})
        paid = await ctx.wait_for("payment", Order)
        return f"{bool(answer)} {paid.amount}"

    async with world.process(nap) as runtime:
        result = await runtime.run("nap", {"seconds": 0.2})
        assert result.status is RunStatus.WAITING
        run_id = result.run_id
    async with world.process(nap) as runtime:
        question = await ticket(runtime, run_id, "approve")
    async with world.process(nap) as runtime:
        await runtime.decide(question, "resume")
        await ticket(runtime, run_id, "payment")
        with pytest.raises(EventRefused):
            await runtime.send_event(run_id, "payment", {"id": "x"})
        await runtime.send_event(run_id, "payment", {"id": "x", "amount": 7})
        result = await ended(runtime, run_id)
        assert result.text == "True 7"
        assert world.shop.done == ["look 1", "charge o"]


@each_store
@awaited
async def test_events_wait_in_order_for_their_step_and_come_once(
    new_store: NewStore, tmp_path: Path
) -> None:
    world = World(new_store, tmp_path)

    @workflow
    async def listen(ctx: WorkflowContext) -> list[Any]:
        await ctx.wait_for("go")
        return [await ctx.wait_for("n") for _ in range(3)]

    async with world.process(listen) as runtime:
        run_id = (await runtime.run("listen", {})).run_id
        for number in range(3):
            for _ in range(2):
                await runtime.send_event(run_id, "n", number, event_id=f"id {number}")
        with pytest.raises(DedupeConflict):
            await runtime.send_event(run_id, "n", 99, event_id="id 0")
    async with world.process(listen) as runtime:
        await runtime.send_event(run_id, "go")
        result = await ended(runtime, run_id)
        assert result.text == "[0,1,2]"
        with pytest.raises(RunHasEnded):
            await runtime.send_event(run_id, "n", 4)


@each_store
@awaited
async def test_a_chat_message_is_an_event_and_supersedes_nothing(
    new_store: NewStore, tmp_path: Path
) -> None:
    world = World(new_store, tmp_path)

    @workflow
    async def chat(ctx: WorkflowContext) -> str:
        said, _ = await ctx.gather(ctx.wait_for("message"), ctx.approve("ok?"))
        return str(said)

    async with world.process(chat) as runtime:
        started = await runtime.run("chat", {})
        question = await ticket(runtime, started.run_id, "approve")
        result = await runtime.run(None, "Hello!", thread_id=started.thread_id)
        assert result.run_id == started.run_id
        assert result.status is RunStatus.WAITING
        assert await ticket(runtime, started.run_id, "approve") == question
        await runtime.decide(question, "resume")
        assert (await ended(runtime, started.run_id)).text == "Hello!"


@each_store
@awaited
async def test_a_race_keeps_its_winner_and_closes_what_the_losers_wait_for(
    new_store: NewStore, tmp_path: Path
) -> None:
    world = World(new_store, tmp_path)

    @workflow
    async def race(ctx: WorkflowContext) -> str:
        winner, value = await ctx.race(ctx.wait_for("pay"), ctx.sleep(days=3), ctx.wait_for("no"))
        await ctx.wait_for("then")
        return f"{winner} {value}"

    async with world.process(race) as runtime:
        run_id = (await runtime.run("race", {})).run_id
        await runtime.send_event(run_id, "pay", "card")
        await ticket(runtime, run_id, "then")
        assert [it.tool_name for it in await runtime.tickets()] == ["then"]
    async with world.process(race) as runtime:
        # It could win now, and must not: the winner is recorded.
        await runtime.send_event(run_id, "no")
        await runtime.send_event(run_id, "then")
        assert (await ended(runtime, run_id)).text == "0 card"


@each_store
@awaited
async def test_cancelling_a_parked_run_enters_it_again_to_clean_up(
    new_store: NewStore, tmp_path: Path
) -> None:
    world = World(new_store, tmp_path)
    shop = world.shop

    @workflow(tools=shop.tools)
    async def tidy(ctx: WorkflowContext) -> None:
        await ctx.call(shop.save, "begin")
        try:
            await ctx.gather(ctx.sleep(days=3), ctx.wait_for("never"))
        finally:
            await ctx.call(shop.save, "undo")

    async with world.process(tidy) as runtime:
        run_id = (await runtime.run("tidy", {})).run_id
        assert shop.done == ["save begin"]
    async with world.process(tidy) as runtime:
        assert await runtime.cancel(run_id)
        result = await ended(runtime, run_id)
        assert isinstance(result.termination, Cancelled)
        assert shop.done == ["save begin", "save undo"]
        assert await runtime.tickets() == ()


@each_store
@awaited
async def test_code_that_differs_executes_nothing_and_old_code_patch_or_reset_go_on(
    new_store: NewStore, tmp_path: Path
) -> None:
    world = World(new_store, tmp_path)
    shop = world.shop

    def code(version: int) -> Any:
        @workflow(id="flow", tools=shop.tools)
        async def flow(ctx: WorkflowContext) -> str:
            first = await ctx.call(shop.save, "one")
            if version == 2 or (version == 3 and ctx.patched("check")):
                await ctx.call(shop.look, 9)
            await ctx.wait_for("go")
            return f"{first} {version} {await ctx.call(shop.save, 'two')}"

        return flow

    async with world.process(code(1)) as runtime:
        run_id = (await runtime.run("flow", {})).run_id
        other_id = (await runtime.run("flow", {})).run_id
    before = list(shop.done)

    async def is_diverged(of: AgentRuntime = None) -> Any:  # type: ignore[assignment]
        waiting = (await runtime.get_run(run_id)).waiting
        return waiting is not None and waiting.diverged

    async with world.process(code(2)) as runtime:
        await runtime.send_event(run_id, "go")
        found = await until(runtime, is_diverged)
        assert (found.step, found.recorded) == ("2", "wait_for go")
        assert found.found == "call look"
        assert shop.done == before
    async with world.process(code(3)) as runtime:
        # A process that starts tries it again: its code fits the journal.
        assert (await ended(runtime, run_id)).text == "ONE 3 TWO"
        assert "look 9" not in shop.done
        fresh = await runtime.run("flow", {})
        assert "look 9" in shop.done
        assert (await journal(runtime, fresh.run_id))[1] == ("2", "patched")
        await runtime.cancel(fresh.run_id)
    async with world.process(code(2)) as runtime:
        await runtime.send_event(other_id, "go")
        run_id = other_id
        await until(runtime, is_diverged)
        services = runtime._control.mailbox.services
        record = await runtime.store.load_run(other_id)
        assert record is not None
        plan = await plan_reset(services, record, "1")
        assert plan.effects == ("1 save (idempotent)",)
        await reset_run(services, record, plan)
        await runtime.send_event(other_id, "go")
        assert (await ended(runtime, other_id)).text == "ONE 2 TWO"


@each_store
@awaited
async def test_a_workflow_asks_agents_and_workflows_and_an_agent_asks_a_workflow(
    new_store: NewStore, tmp_path: Path
) -> None:
    world = World(new_store, tmp_path)

    class Verdict(msgspec.Struct):
        is_fine: bool

    judge = Agent("judge", model=ScriptedModel(['{"is_fine": true}'] * 9), output_type=Verdict)
    plain = Agent("plain", model=ScriptedModel(['{"is_fine": false}'] * 9))

    @workflow
    async def inner(ctx: WorkflowContext, order: Order) -> int:
        await ctx.sleep(0.05)
        return order.amount + 1

    @workflow
    async def outer(ctx: WorkflowContext, order: Order) -> dict[str, Any]:
        first = await ctx.ask(judge, "Fine?", Verdict)
        second = await ctx.ask("plain", "Fine?", Verdict)
        third = await ctx.ask(inner, {"order": order})
        return {"first": first.is_fine, "second": second.is_fine, "third": third}

    script = [ToolCalls([("agent_run_inner", {"prompt": '{"order":{"id":"x","amount":1}}'})]), "2!"]
    boss = Agent("boss", model=ScriptedModel(script), delegates=[inner])
    async with world.process(outer, inner, judge, plain, boss) as runtime:
        started = await runtime.run("outer", {"order": {"id": "a", "amount": 41}})
        result = await ended(runtime, started.run_id)
        assert result.output == {"first": True, "second": False, "third": 42}
        asked = await runtime.run("boss", "Do it.")
        assert (await ended(runtime, asked.run_id)).text == "2!"


@each_store
@awaited
async def test_failures_are_typed_and_an_uncaught_one_names_its_step(
    new_store: NewStore, tmp_path: Path
) -> None:
    world = World(new_store, tmp_path)
    shop = world.shop
    shop.fails = 100

    @tool(approval=True)
    async def risky() -> str:
        """Do something risky."""
        return "done"

    @tool(effect="none")
    async def huge() -> str:
        """Return much."""
        return "x" * 2_000_000

    @workflow(tools=shop.tools)
    async def fragile(ctx: WorkflowContext, kind: str) -> str:
        if kind == "timeout":
            try:
                await ctx.wait_for("never", timeout=0.05)
            except StepTimedOut as error:
                return error.code
        if kind == "declined":
            try:
                await ctx.call(risky)
            except StepDeclined as error:
                return error.code
        if kind == "huge":
            await ctx.call(huge)
        await ctx.call(shop.look, 1)
        return str(await ctx.call(shop.shaky))

    async with world.process(fragile) as runtime:
        with pytest.raises(RunFailed) as failed:
            await runtime.run("fragile", {"kind": "plain"})
        assert isinstance(failed.value.result.termination, Failed)
        assert "Step 2 (shaky)" in failed.value.result.termination.message
        with pytest.raises(RunFailed, match="too large"):
            await runtime.run("fragile", {"kind": "huge"})
        late = await runtime.run("fragile", {"kind": "timeout"})
        assert (await ended(runtime, late.run_id)).text == "step_timed_out"
        asked = await runtime.run("fragile", {"kind": "declined"})
        await runtime.decide(await ticket(runtime, asked.run_id, "risky"), "cancel")
        assert (await ended(runtime, asked.run_id)).text == "step_declined"


@each_store
@awaited
async def test_a_failed_step_is_tried_again_and_a_long_pause_parks_the_run(
    new_store: NewStore, tmp_path: Path
) -> None:
    world = World(new_store, tmp_path)
    shop = world.shop

    @workflow(tools=shop.tools)
    async def stubborn(ctx: WorkflowContext, first_ms: int) -> str:
        retry = StepRetry(attempts=3, first_ms=first_ms, factor=1)
        return str(await ctx.call(shop.shaky, retry=retry))

    async with world.process(stubborn) as runtime:
        shop.fails = 2
        result = await runtime.run("stubborn", {"first_ms": 1})
        assert result.text == "stable"
        assert [path for path, _ in await journal(runtime, result.run_id)] == [
            "1", "1.0.1", "1.0.2", "1.0.3",
        ]  # fmt: skip
        shop.fails = 3
        with pytest.raises(RunFailed, match="not yet"):
            await runtime.run("stubborn", {"first_ms": 1})
        shop.fails = 1
        parked = await runtime.run("stubborn", {"first_ms": 60_000})
        assert parked.status is RunStatus.WAITING
        assert [path for path, _ in await journal(runtime, parked.run_id)] == [
            "1",
            "1.0.1",
            "1.0.2",
        ]


@each_store
@awaited
async def test_a_run_continues_as_a_new_one_with_a_fresh_journal(
    new_store: NewStore, tmp_path: Path
) -> None:
    world = World(new_store, tmp_path)
    shop = world.shop

    @workflow(tools=shop.tools)
    async def count(ctx: WorkflowContext, left: int) -> str:
        await ctx.call(shop.look, left)
        if left:
            ctx.continue_as_new({"left": left - 1})
        return "done"

    async with world.process(count) as runtime:
        first = await runtime.run("count", {"left": 2})

        async def all_runs() -> Any:
            page = await runtime.list_runs(thread_id=first.thread_id)
            done = [it for it in page if it.status is RunStatus.DONE]
            return done if len(done) == 3 else None

        runs = await until(runtime, all_runs)
        assert [it.final_output for it in runs][-1] == "done"
        # Each run names the next one; only the last has an output.
        assert [it.continued_as for it in runs] == [it.run_id for it in runs[1:]] + [None]
        ends = [await runtime.wait(it.run_id) for it in runs]
        assert [it.continued_as for it in ends] == [it.continued_as for it in runs]
        assert [it.output for it in ends] == [None, None, "done"]
        assert (first.continued_as, first.output) == (runs[0].continued_as, None)
        assert shop.done == ["look 2", "look 1", "look 0"]


@awaited
async def test_arguments_are_checked_at_the_door(tmp_path: Path) -> None:
    @workflow
    async def strict(ctx: WorkflowContext, order: Order) -> int:
        return order.amount

    @workflow
    async def words(ctx: WorkflowContext, topic: str) -> str:
        return topic

    async with AgentRuntime([strict, words]) as runtime:
        for bad in ({"order": {"id": "a"}}, {}, "plain words", {"order": 3, "x": 1}):
            with pytest.raises(InvalidWorkflowInput, match=r"order|object|JSON|malformed"):
                await runtime.run("strict", bad)
        assert await runtime.list_runs() == ()
        assert (await runtime.run("words", "Any text at all")).text == "Any text at all"
        assert (await runtime.run("words", {"topic": "t"})).text == "t"


@awaited
async def test_a_foreign_task_and_a_used_up_context_are_refused(tmp_path: Path) -> None:
    seen: list[str] = []

    @workflow
    async def wild(ctx: WorkflowContext) -> str:
        try:
            await asyncio.gather(ctx.sleep(1), ctx.sleep(2))
        except StepFailed:
            raise
        except AwakenError as error:
            seen.append(error.code)
        return "ok"

    async with AgentRuntime([wild]) as runtime:
        assert (await runtime.run("wild", {})).text == "ok"
        assert seen == ["workflow_foreign_task"]
        agent_run = await runtime.run("wild", {})
        with pytest.raises(RunHasEnded):
            await runtime.send_event(agent_run.run_id, "x")


@awaited
async def test_an_event_for_an_agents_run_is_refused(tmp_path: Path) -> None:
    agent = Agent("a", model=ScriptedModel(["Hi."]))
    async with AgentRuntime([agent]) as runtime:
        result = await runtime.run("a", "Hello")
        with pytest.raises(NotAWorkflow):
            await runtime.send_event(result.run_id, "x")


@awaited
async def test_declared_events_are_checked_before_any_step_waits(tmp_path: Path) -> None:
    world = World(memory, tmp_path)

    @workflow(events={"pay": Order})
    async def typed(ctx: WorkflowContext) -> int:
        await ctx.wait_for("message")
        return int((await ctx.wait_for("pay", Order)).amount)

    async with world.process(typed) as runtime:
        started = await runtime.run("typed", {})
        with pytest.raises(EventRefused):
            await runtime.send_event(started.run_id, "other")
        with pytest.raises(EventRefused):
            await runtime.send_event(started.run_id, "pay", {"id": 1})
        await runtime.send_event(started.run_id, "pay", {"id": "x", "amount": 3})
        await runtime.run(None, "go on", thread_id=started.thread_id)
        assert (await ended(runtime, started.run_id)).text == "3"


@awaited
async def test_a_step_costs_no_more_commits_than_a_durable_tool_call(tmp_path: Path) -> None:
    world, calls = World(sqlite, tmp_path), 12
    shop = world.shop

    @workflow(tools=shop.tools)
    async def steps(ctx: WorkflowContext, name: str) -> None:
        for number in range(calls):
            given = {"x": number} if name == "look" else {"text": f"{number}"}
            await ctx.call(name, **given)

    async def count_commits(runtime: AgentRuntime, run: RunResult) -> int:
        thread = await runtime.store.load_thread(run.thread_id)
        assert thread is not None
        return thread.version

    for name in ("look", "save"):
        given = {"look": "x", "save": "text"}[name]
        value: Any = 1 if name == "look" else "t"
        script = [ToolCalls([(name, {given: value})])] * calls
        agent = Agent(
            f"agent_{name}", model=ScriptedModel([*script, "Done."]), tools=shop.tools, max_rounds=0
        )
        async with world.process(steps, agent) as runtime:
            of_steps = await count_commits(runtime, await runtime.run("steps", {"name": name}))
            of_calls = await count_commits(runtime, await runtime.run(agent, "Go."))
            assert of_steps <= of_calls, name


@awaited
async def test_a_timer_fires_within_a_second_and_an_idle_sweeper_asks_once(tmp_path: Path) -> None:
    world = World(sqlite, tmp_path)

    @workflow
    async def nap(ctx: WorkflowContext) -> int:
        due = await ctx.now() + 300
        await ctx.sleep(0.3)
        return await ctx.now() - due

    async with world.process(nap) as runtime:
        started = await runtime.run("nap", {})
        late_ms = int((await ended(runtime, started.run_id)).text)
        assert 0 <= late_ms < 1_000 * SOON_S


@each_store
@awaited
async def test_what_was_asked_is_cancelled_and_what_was_started_goes_on(
    new_store: NewStore, tmp_path: Path
) -> None:
    world = World(new_store, tmp_path)

    @workflow
    async def child(ctx: WorkflowContext, name: str) -> str:
        return f"{name} {await ctx.wait_for('go')}"

    @workflow
    async def parent(ctx: WorkflowContext) -> str:
        started = await ctx.start(child, {"name": "free"})
        ctx.set_status(started)
        return str(await ctx.ask(child, {"name": "bound"}))

    async with world.process(parent, child) as runtime:
        run = await runtime.run("parent", {})

        async def children() -> Any:
            found = [it for it in await runtime.list_runs() if it.agent_id == "child"]
            return found if len(found) == 2 and all(it.waiting for it in found) else None

        await until(runtime, children)
        records = await runtime.store.list_tool_records(run.run_id)
        free = next(it.result.data for it in records if it.kind == "status" and it.result)
        await runtime.cancel(run.run_id)

        async def bound() -> Any:
            found = [it for it in await runtime.list_runs() if it.agent_id == "child"]
            return [it for it in found if isinstance(it.termination, Cancelled)]

        (gone,) = await until(runtime, bound)
        assert gone.run_id != free
        await runtime.send_event(free, "go", "on")
        assert (await ended(runtime, free)).text == "free on"


@each_store
@awaited
async def test_the_end_of_what_a_workflow_started_does_not_begin_it_again(
    new_store: NewStore, tmp_path: Path
) -> None:
    world = World(new_store, tmp_path)

    @workflow
    async def child(_ctx: WorkflowContext) -> str:
        return "done"

    @workflow
    async def parent(ctx: WorkflowContext, order: str) -> str:
        return f"{order} {await ctx.start(child, {})}"

    async with world.process(parent, child) as runtime:
        run = await runtime.run("parent", "first")
        started = run.text.removeprefix("first ")

        async def told() -> Any:
            page = await runtime.store.list_dispatches(DispatchQuery(thread_id=run.thread_id))
            news = [it for it in page.items if it.dispatch_id == end_message_id(started)]
            return news if news and news[0].status.is_terminal else None

        await until(runtime, told)
        assert [it.run_id for it in await runtime.list_runs(thread_id=run.thread_id)] == [
            run.run_id
        ]
