"""Hooks in a run: when they are called, what they see, and what they can do."""

import asyncio
from typing import Any

import pytest

from awaken import (
    BehaviorRequested,
    Failed,
    NaturalEnd,
    Phase,
    Plugin,
    PluginRegistrar,
    RunStatus,
    StateCommand,
    StateKey,
    ToolContext,
    tool,
)
from awaken.errors import RateLimited
from awaken.messages import (
    ContextMessage,
    ContextTarget,
    emit_once,
    suffix_context,
    system_context,
)
from awaken.models import InferenceFailure, InferenceOverride, StreamResult
from awaken.plugins import (
    ADD_CONTEXT_MESSAGE,
    RUN_LIFECYCLE,
    SET_INFERENCE_OVERRIDE,
    TOOL_CALL_STATES,
    TOOL_FILTER,
    AfterInferenceContext,
    AfterToolExecuteContext,
    End,
    PhaseContext,
    StateScope,
    ToolFilter,
    ToolPhaseContext,
)
from awaken.testing import Entry, ToolCalls, Turn

from .worlds import Hooks, Story, World, play, simulated

HOOKED = [phase for phase in Phase if phase is not Phase.TOOL_GATE]


@tool(effect="none")
async def echo(text: str) -> str:
    return text


@tool(effect="none")
async def ask(ctx: ToolContext) -> object:
    return ctx.suspend("May I?")


CALL = ToolCalls([("echo", {"text": "a"}, "c1")])


class Watcher(Plugin):
    """Notes every context it is given, as a hook and as a gate."""

    def __init__(self, name: str = "watcher") -> None:
        self.name = name
        self.seen: list[tuple[Phase, Any]] = []

    def register(self, registrar: PluginRegistrar) -> None:
        for phase in HOOKED:
            registrar.hook(phase, self._note(phase))
        registrar.gate(self._note(Phase.TOOL_GATE))

    def _note(self, phase: Phase) -> Any:
        async def note(context: PhaseContext) -> None:
            self.seen.append((phase, context))

        return note

    @property
    def phases(self) -> list[str]:
        return [str(phase) for phase, _ in self.seen]

    def at(self, phase: Phase) -> list[Any]:
        return [context for seen, context in self.seen if seen is phase]


INFERENCE = ["step_start", "before_inference", "after_inference"]
TOOL = ["tool_gate", "before_tool_execute", "after_tool_execute"]


@pytest.mark.parametrize(
    ("script", "phases"),
    [
        (["hi"], ["run_start", *INFERENCE, "step_end", "run_end"]),
        (
            [CALL, "hi"],
            ["run_start", *INFERENCE, *TOOL, "step_end", *INFERENCE, "step_end", "run_end"],
        ),
        (
            [ToolCalls([("ask", {})])],
            ["run_start", *INFERENCE, "tool_gate", "before_tool_execute", "step_end"],
        ),
    ],
    ids=["text", "tool", "suspension"],
)
def test_phases_come_in_order_for_every_plugin(script: list[Entry], phases: list[str]) -> None:
    plugins = [Watcher("one"), Watcher("two")]
    play(script, tools=[echo, ask], plugins=plugins)

    assert [plugin.phases for plugin in plugins] == [phases, phases]


def test_hooks_see_who_runs_what_was_said_and_what_a_tool_did() -> None:
    watcher = Watcher()
    story = play([Turn("hm", calls=CALL), "hi"], tools=[echo], plugins=[watcher])

    assert {context.run.thread_id for _, context in watcher.seen} == {"t"}
    assert {context.agent.id for _, context in watcher.seen} == {"agent"}
    assert [context.step for context in watcher.at(Phase.BEFORE_INFERENCE)] == [1, 2]
    assert [context.tool_ids for context in watcher.at(Phase.BEFORE_INFERENCE)] == [("echo",)] * 2
    answered: list[AfterInferenceContext] = watcher.at(Phase.AFTER_INFERENCE)
    assert [it.response.text for it in answered if isinstance(it.response, StreamResult)] == [
        "hm",
        "hi",
    ]
    for phase in (Phase.TOOL_GATE, Phase.BEFORE_TOOL_EXECUTE, Phase.AFTER_TOOL_EXECUTE):
        (about,) = watcher.at(phase)
        assert isinstance(about, ToolPhaseContext)
        assert (about.call.id, about.call.name, about.call.arguments) == (
            "c1",
            "echo",
            {"text": "a"},
        )
    (after,) = watcher.at(Phase.AFTER_TOOL_EXECUTE)
    assert isinstance(after, AfterToolExecuteContext)
    assert after.result.data == "a"
    (ended,) = watcher.at(Phase.RUN_END)
    assert ended.termination == story.termination == NaturalEnd()


def test_observers_learn_of_a_failed_inference_before_the_run_ends() -> None:
    watcher = Watcher()
    play([CALL, RateLimited("slow down")], tools=[echo], plugins=[watcher])

    failure = watcher.at(Phase.AFTER_INFERENCE)[-1].response
    assert failure == InferenceFailure(
        type="RateLimited", message="slow down", error_class="rate_limited"
    )
    (ended,) = watcher.at(Phase.RUN_END)
    assert ended.termination == Failed(message="slow down", code="rate_limited")


def test_tool_states_are_kept_for_a_step_and_gone_when_the_next_begins() -> None:
    watcher = Watcher()
    calls = [("echo", {"text": "a"}, "c1"), ("nowhere", {}, "c2"), ("echo", {"text": "a"}, "c3")]
    play([ToolCalls(calls), "hi"], tools=[echo], plugins=[watcher])

    first, second = watcher.at(Phase.STEP_END)
    states = first.state(TOOL_CALL_STATES)
    assert {name: str(state.status) for name, state in states.items()} == {
        "c1": "succeeded",
        "c2": "failed",
        "c3": "succeeded",
    }
    assert states["c1"].arguments == {"text": "a"}
    assert watcher.at(Phase.STEP_START)[1].state(TOOL_CALL_STATES) == {}
    assert second.state(TOOL_CALL_STATES) == {}


async def end(_context: PhaseContext) -> StateCommand:
    return StateCommand().update(RUN_LIFECYCLE, End(termination=BehaviorRequested()))


@pytest.mark.parametrize(
    ("phase", "requests", "steps", "answers"),
    [
        (Phase.RUN_START, 0, 0, []),
        (Phase.STEP_START, 0, 1, []),
        (Phase.BEFORE_INFERENCE, 0, 1, []),
        (Phase.AFTER_INFERENCE, 1, 1, ["[Tool execution was interrupted]"]),
        (Phase.AFTER_TOOL_EXECUTE, 1, 1, ["a"]),
        (Phase.STEP_END, 1, 1, ["a"]),
    ],
)
def test_a_hook_ends_the_run_where_it_says_so(
    phase: Phase, requests: int, steps: int, answers: list[str]
) -> None:
    story = play([Turn("hm", calls=CALL), "never"], tools=[echo], plugins=[Hooks({phase: end})])

    assert story.termination == BehaviorRequested()
    assert len(story.requests) == requests
    assert story.answers == answers
    assert story.result is not None
    assert (story.result.steps, story.types.count("step_start")) == (steps, steps)
    if requests:
        # What the model said is never thrown away.
        assert story.result.text == "hm"


def test_the_first_end_stays_and_a_run_that_ended_cannot_be_ended_again() -> None:
    story = play(["hi"], plugins=[Hooks({Phase.AFTER_INFERENCE: end, Phase.RUN_END: end})])
    late = play(["hi"], plugins=[Hooks({Phase.RUN_END: end})])

    assert (story.termination, late.termination) == (BehaviorRequested(), NaturalEnd())


@pytest.mark.parametrize("phase", HOOKED)
def test_a_failing_hook_fails_the_run_except_at_its_very_end(phase: Phase) -> None:
    async def fail(_context: PhaseContext) -> None:
        raise ValueError("no good")

    story = play([CALL, "hi"], tools=[echo], plugins=[Hooks({phase: fail})])

    if phase is Phase.RUN_END:
        assert story.termination == NaturalEnd()
    else:
        assert isinstance(story.termination, Failed)
        assert story.termination.code == "plugin_failed"
        assert "plugin 'hooks' raised ValueError: no good" in story.termination.message
    assert story.record is not None
    assert story.record.status is RunStatus.DONE


@pytest.mark.parametrize("phase", HOOKED)
def test_a_hook_that_hangs_can_be_cancelled_and_the_last_one_is_not_waited_for(
    phase: Phase,
) -> None:
    async def hang(_context: PhaseContext) -> None:
        await asyncio.sleep(3600)

    async def scenario() -> Story:
        async with World([CALL, "hi"], tools=[echo], plugins=[Hooks({phase: hang})]) as world:
            asyncio.get_running_loop().call_later(
                60, lambda: asyncio.ensure_future(world.runtime.cancel("t"))
            )
            return await world.tell()

    story = simulated(scenario)
    record = story.record
    assert record is not None
    assert record.finished_at is not None
    is_last = phase is Phase.RUN_END
    expected = "natural_end" if is_last else "cancelled"
    assert story.termination.__struct_config__.tag == expected
    assert record.finished_at - record.created_at == (30_000 if is_last else 60_000)


def test_step_overrides_merge_last_wins_and_hold_for_one_step() -> None:
    async def first(context: PhaseContext) -> StateCommand | None:
        if context.step > 1:
            return None
        override = InferenceOverride(temperature=0.1, max_tokens=5)
        return StateCommand().schedule(SET_INFERENCE_OVERRIDE, override)

    async def second(context: PhaseContext) -> StateCommand | None:
        if context.step > 1:
            return None
        override = InferenceOverride(temperature=0.9)
        return (
            StateCommand()
            .schedule(SET_INFERENCE_OVERRIDE, override)
            .update(TOOL_FILTER, ToolFilter(excluded=("ask",)))
        )

    plugins = [
        Hooks({Phase.BEFORE_INFERENCE: first}, name="first"),
        Hooks({Phase.BEFORE_INFERENCE: second}, name="second"),
    ]
    story = play([CALL, "hi"], tools=[echo, ask], plugins=plugins)

    first_request, second_request = story.requests
    assert first_request.overrides == InferenceOverride(temperature=0.9, max_tokens=5)
    assert second_request.overrides is None
    assert [[offered.id for offered in it.tools] for it in story.requests] == [
        ["echo"],
        ["ask", "echo"],
    ]


def test_context_messages_stand_around_the_history_and_never_in_the_transcript() -> None:
    def at(target: ContextTarget, text: str) -> ContextMessage:
        return emit_once(text, text, target=target)

    async def inject(context: PhaseContext) -> StateCommand:
        command = StateCommand().schedule(ADD_CONTEXT_MESSAGE, suffix_context("end", "suffix"))
        if context.step > 1:
            return command
        kept = system_context("kept", "rule", persistent=True)
        once = at(ContextTarget.SESSION, "session")
        return command.schedule(ADD_CONTEXT_MESSAGE, kept).schedule(ADD_CONTEXT_MESSAGE, once)

    hooks = Hooks({Phase.BEFORE_INFERENCE: inject})
    story = play([CALL, "hi"], tools=[echo], instructions="Base.", plugins=[hooks])

    first, second = story.requests
    assert (first.system, second.system) == (("Base.", "rule"), ("Base.", "rule"))
    assert [message.text for message in first.messages] == ["session", "go", "suffix"]
    assert [message.text for message in second.messages] == ["go", "", "a", "suffix"]
    assert [text for _, text in story.lines] == ["go", "", "a", "hi"]


def test_hooks_of_one_phase_do_not_see_each_others_changes() -> None:
    key = StateKey("count", default=0, apply=lambda value, more: value + more, merge="commutative")
    seen: list[int] = []

    async def count(context: PhaseContext) -> StateCommand:
        seen.append(context.state(key))
        return StateCommand().update(key, 1)

    plugins = [
        Hooks({Phase.STEP_START: count}, name="one", keys=[key]),
        Hooks({Phase.STEP_START: count}, name="two"),
    ]
    play([CALL, "hi"], tools=[echo], plugins=plugins)

    assert seen == [0, 0, 2, 2]


@pytest.mark.parametrize(
    ("scope", "expected"), [(StateScope.THREAD, [0, 1]), (StateScope.RUN, [0, 0])]
)
def test_thread_state_is_back_before_the_first_hook_and_run_state_is_not(
    scope: StateScope, expected: list[int]
) -> None:
    key = StateKey("count", default=0, scope=scope)
    seen: list[int] = []

    async def count(context: PhaseContext) -> StateCommand:
        seen.append(context.state(key))
        return StateCommand().update(key, context.state(key) + 1)

    async def scenario() -> None:
        hooks = Hooks({Phase.RUN_START: count}, keys=[key])
        async with World(["a", "b"], plugins=[hooks]) as world:
            await world.tell()
            await world.tell()

    simulated(scenario)
    assert seen == expected
