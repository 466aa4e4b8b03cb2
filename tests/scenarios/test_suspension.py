"""A run that suspends holds nothing, and goes on from any process exactly as it was promised."""

import asyncio
import gc
from typing import Any

import pytest

from awaken import (
    Cancelled,
    NaturalEnd,
    Phase,
    Plugin,
    PluginRegistrar,
    RunFinish,
    RunRequest,
    RunStart,
    RunStatus,
    Suspended,
    ToolCallDone,
    ToolContext,
    tool,
    user,
)
from awaken.errors import AlreadyDecided
from awaken.events import ToolCallResumed
from awaken.plugins import TOOL_CALL_STATES
from awaken.runtime.run import Run
from awaken.stores import WaitingReason
from awaken.testing import ToolCalls, simulate
from awaken.tools import ResumeMode, TicketStatus, ToolCallResume

from .asking import (
    Asking,
    SlowReads,
    another_process,
    asks_permission,
    finished,
    open_tickets,
    retold,
    tool_answers,
)
from .worlds import World, simulated


def test_a_suspended_run_is_one_commit_of_everything_and_nothing_stays_in_memory() -> None:
    asking = Asking()

    async def scenario() -> None:
        calls = [("add", {"a": 1, "b": 2}), ("ask", {"question": "sure?"})]
        world = World([ToolCalls(calls)], tools=asking.tools)
        story = await world.tell()
        assert story.termination == Suspended()
        (ticket,) = await world.runtime.tickets("t")
        assert (ticket.call_id, ticket.tool_name) == ("call_2", "ask")
        assert (ticket.run_id, ticket.thread_id) == (story.of(RunStart)[0].run_id, "t")
        assert ticket.arguments == {"question": "sure?"}
        assert ticket.resume_mode is ResumeMode.PASS_DECISION_TO_TOOL
        assert (ticket.suspension.message, ticket.suspension.action) == ("sure?", "tool:ask")
        *earlier, last = world.store.commits
        assert last.run is not None
        assert last.run.status is RunStatus.WAITING
        assert last.run.waiting is not None
        assert last.run.waiting.reason is WaitingReason.TOOL_PERMISSION
        assert last.run.waiting.ticket_ids == (ticket.ticket_id,)
        assert (last.tickets, type(last.events[-1])) == ((ticket,), RunFinish)
        assert not any(commit.tickets for commit in earlier)
        outcomes = [(done.id, done.outcome) for done in story.of(ToolCallDone)]
        assert outcomes == [("call_1", "succeeded"), ("call_2", "suspended")]
        gc.collect()
        runs = [thing for thing in gc.get_objects() if isinstance(thing, Run)]
        assert ticket.run_id not in {run.identity.run_id for run in runs}

    simulated(scenario)


@pytest.mark.parametrize("elsewhere", [False, True], ids=["same process", "other process"])
@pytest.mark.parametrize(
    ("mode", "ran", "result", "told"),
    [
        (ResumeMode.USE_DECISION_AS_TOOL_RESULT, [], "yes", '"yes"'),
        (ResumeMode.PASS_DECISION_TO_TOOL, [("sure?", "yes")], "told yes", "told yes"),
    ],
)
def test_a_decision_means_what_the_resume_mode_says(
    mode: ResumeMode, ran: list[Any], result: str, told: str, elsewhere: bool
) -> None:
    asking = Asking()

    async def scenario() -> None:
        agent = {"tools": asking.tools, "plugins": [asks_permission(mode)]}
        world = World([ToolCalls([("ask", {"question": "sure?"})]), "bye"], **agent)
        suspended = (await world.tell()).result
        assert suspended is not None
        assert (asking.ran, suspended.tickets[0].resume_mode) == ([], mode)
        runtime = (another_process(world, **agent) if elsewhere else world).runtime
        await runtime.decide(suspended.tickets[0].ticket_id, result="yes")
        ended = await runtime.wait(suspended.run_id)
        assert (ended.status, ended.text) == (RunStatus.DONE, "bye")
        assert asking.ran == ran
        story = await retold(world)
        assert story.answers == [told]
        (resumed,) = story.of(ToolCallResumed)
        assert (resumed.target_id, resumed.result) == ("call_1", result)
        assert [event.run_id for event in story.of(RunStart)] == [suspended.run_id] * 2
        marks = [message.metadata for message in story.messages if message.metadata]
        assert {mark.run_id for mark in marks} == {suspended.run_id}
        assert [mark.step_index for mark in marks] == [None, 0, 0, 1]

    simulated(scenario)


@pytest.mark.parametrize("elsewhere", [False, True], ids=["same process", "other process"])
def test_who_lets_a_call_pass_a_gate_has_not_answered_what_its_tool_asks(elsewhere: bool) -> None:
    asking = Asking()

    async def scenario() -> None:
        agent = {"tools": asking.tools, "plugins": [asks_permission()]}
        world = World([ToolCalls([("ask", {"question": "sure?"})]), "bye"], **agent)
        await world.tell()
        runtime = (another_process(world, **agent) if elsewhere else world).runtime
        for asked_by, ran in (("gate", []), ("", [("sure?", None)])):
            (ticket,) = await runtime.tickets("t")
            assert (ticket.asked_by, asking.ran) == (asked_by, ran)
            await runtime.decide(ticket.ticket_id, result="yes")
            await runtime.wait(ticket.run_id)
        assert asking.ran == [("sure?", None), ("sure?", "yes")]
        assert (await retold(world)).answers == ["told yes"]

    simulated(scenario)


def test_tickets_decided_at_the_same_time_all_go_on_once() -> None:
    async def scenario() -> None:
        asking = Asking()
        calls = [("ask", {"question": name}) for name in ("a", "b", "c")]
        world = World([ToolCalls(calls), "bye"], tools=asking.tools, store=SlowReads())
        await world.tell()
        tickets = await open_tickets(world)
        asking.ran.clear()
        await asyncio.gather(*(world.runtime.decide(it, result="yes") for it in tickets))
        await asyncio.sleep(1)
        assert (await finished(world)).termination == NaturalEnd()
        assert sorted(asking.ran) == [("a", "yes"), ("b", "yes"), ("c", "yes")]
        assert sorted((await retold(world)).answers) == ["told yes"] * 3

    simulate(scenario, seeds=range(40))


def test_a_call_whose_tool_is_gone_when_it_is_decided_gets_a_result_that_says_so() -> None:
    asking = Asking()

    async def scenario() -> None:
        world = World([ToolCalls([("ask", {"question": "?"})]), "bye"], tools=asking.tools)
        await world.tell()
        (ticket,) = await open_tickets(world)
        await another_process(world, tools=asking.tools[1:]).runtime.decide(ticket)
        await asyncio.sleep(1)
        assert (await finished(world)).termination == NaturalEnd()
        assert (await retold(world)).answers == ["Not found: tool 'ask' not found"]

    simulated(scenario)


def test_declined_calls_are_answered_in_call_order_without_running() -> None:
    asking = Asking()

    async def scenario() -> None:
        calls = [("ask", {"question": name}) for name in ("a", "b", "c")]
        # Hooks watch the statuses, so that every move of a call is checked.
        world = World([ToolCalls(calls), "bye"], tools=asking.tools, plugins=[Statuses()])
        await world.tell()
        first, second, third = await open_tickets(world)
        asking.ran.clear()
        await world.runtime.decide_all(
            {
                first: ToolCallResume(decision_id="1", action="cancel", reason="no way"),
                second: ToolCallResume(decision_id="2", result="ok"),
                third: ToolCallResume(decision_id="3", action="cancel", result={"why": 1}),
            }
        )
        assert (await finished(world)).termination == NaturalEnd()
        assert asking.ran == [("b", "ok")]
        story = await retold(world)
        assert story.answers == ["no way", "told ok", '{"why":1}']
        assert [it.target_id for it in story.of(ToolCallResumed)] == ["call_1", "call_2", "call_3"]

    simulated(scenario)


@pytest.mark.parametrize(
    ("parallel", "ran", "third"),
    [
        (True, [3, ("sure?", None), 7], "7"),
        (False, [3, ("sure?", None)], "[Tool execution was interrupted]"),
    ],
)
def test_calls_after_a_suspended_one_run_side_by_side_and_are_answered_one_by_one(
    parallel: bool, ran: list[Any], third: str
) -> None:
    asking = Asking()

    async def scenario() -> None:
        add = [("add", {"a": 1, "b": 2}), ("add", {"a": 3, "b": 4})]
        calls = [add[0], ("ask", {"question": "sure?"}), add[1]]
        world = World([ToolCalls(calls), "bye"], tools=asking.tools, parallel_tools=parallel)
        await world.tell()
        assert asking.ran == ran
        (ticket,) = await open_tickets(world)
        await world.runtime.decide(ticket, result="yes")
        await finished(world)
        assert asking.ran == [*ran, ("sure?", "yes")]
        answers = tool_answers(await retold(world))
        assert answers == {"call_1": "3", "call_2": "told yes", "call_3": third}

    simulated(scenario)


def survey(seen: list[Any], asked: int) -> Any:
    @tool
    async def survey(topic: str, ctx: ToolContext) -> Any:
        seen.append((topic, ctx.resume and ctx.resume.result))
        step = len(seen)
        return ctx.suspend(suspension_id=f"s{step}") if step <= asked else "thanks"

    return survey


@pytest.mark.parametrize("plugins", [[], [asks_permission()]], ids=["no gate", "a gate"])
def test_one_call_may_suspend_again_and_again_and_nothing_is_asked_twice(
    plugins: list[Plugin],
) -> None:
    seen: list[Any] = []

    async def scenario() -> None:
        agent = {"tools": [survey(seen, 3)], "plugins": plugins}
        world = World([ToolCalls([("survey", {"topic": "x"})]), "bye"], **agent)
        await world.tell()
        expected = [("", "tool:survey", f"s{n}") for n in (1, 2, 3)]
        for answer, question in enumerate(
            [("gate", "may", ""), *expected] if plugins else expected
        ):
            (ticket,) = await world.runtime.tickets("t")
            assert ticket.question == question
            said = True if question[0] else answer
            await another_process(world, **agent).runtime.decide(ticket.ticket_id, result=said)
            await asyncio.sleep(1)
        assert (await finished(world)).termination == NaturalEnd()
        # Whoever lets the call pass the gate has not answered what the tool asks.
        assert seen == [
            ("x", answer) for answer in ([None, 1, 2, 3] if plugins else [None, 0, 1, 2])
        ]
        (resumed,) = (await retold(world)).of(ToolCallResumed)
        assert resumed.result == "thanks"

    simulated(scenario)


def test_whoever_edits_a_call_does_not_answer_for_those_who_approved_it() -> None:
    seen: list[Any] = []

    async def scenario() -> None:
        agent = {"tools": [survey(seen, 1)], "plugins": [asks_permission()]}
        world = World([ToolCalls([("survey", {"topic": "x"})]), "bye"], **agent)
        await world.tell()
        questions = []
        for decision in ({}, {"result": "mine", "arguments": {"topic": "y"}}, {"result": "ok"}):
            (ticket,) = await world.runtime.tickets("t")
            questions.append((ticket.question[1], ticket.arguments["topic"]))
            await world.runtime.decide(ticket.ticket_id, **decision)
            await finished(world)
        assert questions == [("may", "x"), ("tool:survey", "x"), ("may", "y")]
        # The tool hears the answer to its own question, although the gate asked in between.
        assert seen == [("x", None), ("y", "mine")]

    simulated(scenario)


class Statuses(Plugin):
    """Notes where the calls stand, in every phase that changes it."""

    name = "statuses"

    def __init__(self) -> None:
        self.seen: list[tuple[str, dict[str, str]]] = []

    def register(self, registrar: PluginRegistrar) -> None:
        for phase in (
            Phase.RUN_START,
            Phase.BEFORE_TOOL_EXECUTE,
            Phase.AFTER_TOOL_EXECUTE,
            Phase.STEP_END,
        ):
            registrar.hook(phase, self._hook(phase))

    def _hook(self, phase: Phase) -> Any:
        async def note(context: Any) -> None:
            states = context.state(TOOL_CALL_STATES)
            self.seen.append((phase.value, {name: it.status.value for name, it in states.items()}))

        return note


def test_the_way_of_a_call_through_suspension_can_be_followed_by_hooks() -> None:
    statuses, asking = Statuses(), Asking()

    async def scenario() -> None:
        calls = [("add", {"a": 1, "b": 1}), ("ask", {"question": "?"})]
        entries = [ToolCalls([("add", {"a": 2, "b": 2})]), ToolCalls(calls), "bye"]
        agent = {"tools": asking.tools, "plugins": [statuses]}
        world = World(entries, **agent)
        await world.tell()
        (ticket,) = await open_tickets(world)
        await another_process(world, **agent).runtime.decide(ticket)
        await asyncio.sleep(1)
        ended = await finished(world)
        assert (ended.status, ended.steps) == (RunStatus.DONE, 3)
        assert asking.ran == [4, 2, ("?", None), ("?", None)]
        assert statuses.seen[-6:] == [
            ("after_tool_execute", {"call_2": "succeeded", "call_3": "running"}),
            ("step_end", {"call_2": "succeeded", "call_3": "suspended"}),
            ("run_start", {"call_3": "resuming"}),
            ("before_tool_execute", {"call_3": "resuming"}),
            ("after_tool_execute", {"call_3": "succeeded"}),
            ("step_end", {}),
        ]

    simulated(scenario)


def test_a_new_message_takes_the_place_of_all_decisions_in_one_commit() -> None:
    asking = Asking()

    async def scenario() -> None:
        calls = [("add", {"a": 1, "b": 2}), ("ask", {"question": "a"}), ("ask", {"question": "b"})]
        world = World([ToolCalls(calls), "never mind"], tools=asking.tools)
        await world.tell()
        tickets = await open_tickets(world)
        before = len(world.store.commits)
        assert (await world.runtime.run("agent", "forget it", thread_id="t")).text == "never mind"
        commit = world.store.commits[before]
        assert {(it.status, it.closed_because) for it in commit.tickets} == {
            (TicketStatus.CLOSED, "superseded")
        }
        assert [str(message.role) for message in commit.messages] == ["tool", "tool", "user"]
        assert commit.run is not None
        assert commit.run.status is RunStatus.RUNNING
        assert asking.ran == [3, ("a", None), ("b", None)]
        story = await retold(world)
        superseded = "[Not executed: a new message came instead of a decision]"
        assert story.answers == ["3", superseded, superseded]
        for ticket in tickets:
            with pytest.raises(AlreadyDecided):
                await world.runtime.decide(ticket)

    simulated(scenario)


def test_messages_that_come_with_decisions_follow_the_results() -> None:
    asking = Asking()

    async def scenario() -> None:
        calls = [("ask", {"question": "a"}), ("ask", {"question": "b"})]
        world = World([ToolCalls(calls), "bye"], tools=asking.tools)
        await world.tell()
        for ticket, text in zip(await open_tickets(world), ("one", "two"), strict=True):
            decisions = ((ticket, ToolCallResume(decision_id=ticket, result=text)),)
            request = RunRequest(thread_id="t", messages=(user(text),), decisions=decisions)
            await (await world.runtime.start(request)).result()
        story = await retold(world)
        assert story.lines[2:] == [
            ("tool", "told one"),
            ("tool", "told two"),
            ("user", "one"),
            ("user", "two"),
            ("assistant", "bye"),
        ]

    simulated(scenario)


@pytest.mark.parametrize("elsewhere", [False, True], ids=["same process", "other process"])
def test_cancelling_a_waiting_run_closes_its_tickets_and_frees_the_thread(elsewhere: bool) -> None:
    asking = Asking()

    async def scenario() -> None:
        world = World([ToolCalls([("ask", {"question": "?"})]), "hello"], tools=asking.tools)
        waiting = (await world.tell()).record
        assert waiting is not None
        (ticket,) = await open_tickets(world)
        other = another_process(world, tools=asking.tools) if elsewhere else world
        assert await other.runtime.cancel(waiting.run_id if elsewhere else "t")
        last = world.store.commits[-1]
        assert last.run is not None
        assert (last.run.status, last.run.termination) == (RunStatus.DONE, Cancelled(cause="user"))
        assert [(it.status, it.closed_because) for it in last.tickets] == [("closed", "cancelled")]
        assert not await other.runtime.cancel("t")
        with pytest.raises(AlreadyDecided):
            await world.runtime.decide(ticket)
        assert (await retold(world)).answers == ["[The run was cancelled]"]
        again = await world.runtime.run("agent", "hi", thread_id="t")
        assert (again.text, again.run_id != waiting.run_id) == ("hello", True)
        assert asking.ran == [("?", None)]

    simulated(scenario)
