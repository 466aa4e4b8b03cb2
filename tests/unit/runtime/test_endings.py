"""A plugin ends the run: wherever it says so, the run ends once, whole and for that reason."""

import asyncio
from typing import Any

import pytest

from awaken import Plugin, PluginRegistrar, StateCommand, ToolContext, tool
from awaken.contracts.events import RunFinish, is_terminal
from awaken.contracts.lifecycle import (
    BehaviorRequested,
    Blocked,
    Failed,
    NaturalEnd,
    RunStatus,
    Termination,
)
from awaken.contracts.phases import Phase
from awaken.contracts.plugins.loop_state import RUN_LIFECYCLE, CompleteStep, End, RunLifecycle, Wait
from awaken.contracts.plugins.plugin import (
    Block,
    GateDecision,
    PhaseContext,
    Suspend,
    ToolGateContext,
)
from awaken.contracts.runs.records import WaitingReason
from awaken.contracts.suspension.tickets import SuspendTicket, TicketStatus
from awaken.testing import assert_valid_events, assert_valid_transcript
from awaken.testing.scripted_model import ScriptedModel, ToolCalls

from .worlds import Made, runtime_of


@tool(effect="none")
async def echo() -> str:
    """Answer."""
    return "x"


@tool(effect="none")
async def ask(ctx: ToolContext) -> SuspendTicket:
    """Wait for somebody."""
    return ctx.suspend("well?")


def saying(phase: Phase, command: StateCommand) -> Plugin:
    async def hook(_context: PhaseContext) -> StateCommand:
        return command

    return Made("ender", lambda r: r.hook(phase, hook))


class Ended:
    """A run to its end, held to what is promised of every run."""

    def __init__(self, *plugins: Plugin, calls: list[Any]) -> None:
        self.model = ScriptedModel([ToolCalls(calls), "done"] if calls else ["done"])
        self.termination: Termination | None = None
        self.inferences = 0
        asyncio.run(self._play(plugins))

    async def _play(self, plugins: tuple[Plugin, ...]) -> None:
        async with runtime_of(*plugins, model=self.model, tools=[echo, ask]) as runtime:
            events = [event async for event in runtime.stream("a", "go", thread_id="t")]
            assert_valid_events(events)
            assert [event for event in events if is_terminal(event)] == events[-1:]
            assert isinstance(events[-1], RunFinish)
            self.termination = events[-1].termination
            (self.record,) = await runtime.list_runs("t")
            stored = await runtime.store.checkout("t")
            assert stored is not None
            waiting = [t.call_id for t in stored.tickets if t.status is TicketStatus.OPEN]
            assert_valid_transcript(stored.messages, open_calls=waiting)
            self.tickets = waiting
        self.inferences = len(self.model.requests)


BEFORE = (Phase.RUN_START, Phase.STEP_START, Phase.BEFORE_INFERENCE)
AROUND_TOOLS = (Phase.BEFORE_TOOL_EXECUTE, Phase.AFTER_TOOL_EXECUTE)
STOP = StateCommand().update(RUN_LIFECYCLE, End(termination=BehaviorRequested()))


@pytest.mark.parametrize("phase", [p for p in Phase if p is not Phase.TOOL_GATE])
@pytest.mark.parametrize("calls", [[], [("echo", {})], [("echo", {}), ("ask", {})]])
def test_a_run_ends_where_a_plugin_says_so_also_while_calls_wait(
    phase: Phase, calls: list[Any]
) -> None:
    ended = Ended(saying(phase, STOP), calls=calls)
    is_too_late = phase is Phase.RUN_END or (phase in AROUND_TOOLS and not calls)
    if is_too_late and len(calls) == 2:
        assert (ended.record.status, ended.tickets) == (RunStatus.WAITING, ["call_2"])
        return
    assert ended.termination == (NaturalEnd() if is_too_late else BehaviorRequested())
    assert ended.record.termination == ended.termination
    assert (ended.record.status, ended.tickets) == (RunStatus.DONE, [])
    whole = 2 if calls else 1
    assert ended.inferences == (whole if is_too_late else int(phase not in BEFORE))


def test_the_first_word_counts_when_two_plugins_end_a_run() -> None:
    stop = StateCommand().update(RUN_LIFECYCLE, End(termination=Blocked(reason="second")))
    later = Made("later", lambda r: r.hook(Phase.STEP_START, hook))

    async def hook(_context: PhaseContext) -> StateCommand:
        return stop

    ended = Ended(saying(Phase.STEP_START, STOP), later, calls=[])
    assert ended.termination == ended.record.termination == BehaviorRequested()


@pytest.mark.parametrize("update", [Wait(reason=WaitingReason.MANUAL_PAUSE), CompleteStep()])
def test_after_its_end_a_run_makes_no_other_move_and_a_plugin_that_tries_fails_it(
    update: Any,
) -> None:
    command = STOP.update(RUN_LIFECYCLE, update)
    ended = Ended(saying(Phase.STEP_START, command), calls=[])
    assert isinstance(ended.termination, Failed)
    assert ended.termination.code == "illegal_transition"


def test_a_block_closes_the_tickets_of_the_calls_before_it() -> None:
    async def gate(context: ToolGateContext) -> GateDecision | None:
        is_first = context.call.id == "call_1"
        return Suspend(ticket=SuspendTicket()) if is_first else Block(reason="no")

    ended = Ended(Made("g", lambda r: r.gate(gate)), calls=[("echo", {}), ("echo", {})])
    assert ended.termination == ended.record.termination == Blocked(reason="no")
    assert ended.tickets == []


def test_a_run_that_ended_by_itself_says_so_to_its_last_hooks() -> None:
    seen: list[RunLifecycle] = []

    async def look(context: PhaseContext) -> None:
        seen.append(context.state(RUN_LIFECYCLE))

    def declare(registrar: PluginRegistrar) -> None:
        registrar.hook(Phase.STEP_END, look)
        registrar.hook(Phase.RUN_END, look)

    ended = Ended(Made("eye", declare), calls=[("echo", {})])
    assert [(each.status.value, each.step_count) for each in seen] == [
        ("running", 1),
        ("running", 2),
        ("done", 2),
    ]
    assert (seen[-1].termination, ended.record.steps) == (NaturalEnd(), 2)


def test_a_hook_that_fails_fails_the_run_with_its_words_and_run_end_cannot() -> None:
    async def broken(_context: PhaseContext) -> None:
        raise RuntimeError("boom")

    for phase in (Phase.RUN_START, Phase.STEP_END):
        ended = Ended(Made("p", lambda r, phase=phase: r.hook(phase, broken)), calls=[])
        assert isinstance(ended.termination, Failed)
        assert "plugin 'p' raised RuntimeError: boom" in ended.termination.message
    ended = Ended(Made("p", lambda r: r.hook(Phase.RUN_END, broken)), calls=[])
    assert ended.termination == NaturalEnd()
