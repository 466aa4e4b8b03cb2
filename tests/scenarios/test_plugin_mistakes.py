"""Mistakes in plugins and providers: named, and never in favour of the call."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any
from unittest.mock import AsyncMock

import msgspec
import pytest

from awaken import (
    Agent,
    AgentRuntime,
    Blocked,
    Cancelled,
    Phase,
    Plugin,
    PluginRegistrar,
    RunFailed,
    StateKey,
    ToolContext,
    tool,
)
from awaken.contracts.plugins import plugin
from awaken.contracts.plugins.plugin import RunStartContext, StepStartContext, ToolPhaseContext
from awaken.errors import InvalidSpec
from awaken.plugins import PhaseContext
from awaken.runtime.plugins.registrar import Registrations
from awaken.testing import ScriptedModel, ToolCalls

from .worlds import simulated

ran: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    ran.clear()


@tool
async def launch() -> str:
    ran.append("launch")
    return "launched"


class Registering(Plugin):
    """A plugin that registers whatever the test wants."""

    name = "p"

    def __init__(self, register: Callable[[PluginRegistrar], None]) -> None:
        self._register = register

    def register(self, registrar: PluginRegistrar) -> None:
        self._register(registrar)


def run_with(register: Callable[[PluginRegistrar], None]) -> Any:
    async def scenario() -> Any:
        model = ScriptedModel([ToolCalls([("launch", {})]), "done"])
        agent = Agent("a", model=model, tools=[launch], plugins=[Registering(register)])
        async with AgentRuntime(agents=[agent]) as runtime:
            return await runtime.run("a", "go")

    return simulated(scenario)


def answering(answer: Any) -> Any:
    async def gate(_context: Any) -> Any:
        return answer

    return gate


@pytest.mark.parametrize("answer", ["no", False, True, Cancelled(), {"block": True}])
def test_a_gate_with_a_wrong_answer_blocks_and_is_named(answer: Any) -> None:
    result = run_with(lambda registrar: registrar.gate(answering(answer)))
    assert isinstance(result.termination, Blocked)
    assert "gate of 'p' failed" in result.termination.reason
    assert type(answer).__name__ in result.termination.reason
    assert ran == []


@pytest.mark.parametrize("phase", ["before_tool_exec", "", "tool_gate", None])
@pytest.mark.parametrize("kind", ["hook", "observer"])
def test_a_phase_that_does_not_exist_is_refused_at_registration(kind: str, phase: Any) -> None:
    with pytest.raises(InvalidSpec, match="Plugin 'p'"):
        run_with(lambda registrar: getattr(registrar, kind)(phase, answering(None)))


async def at_step_start(_context: StepStartContext) -> None:
    """A hook of one phase."""


async def at_step_start_as_text(_context: "plugin.StepStartContext") -> None:
    """The same with an annotation that is not evaluated."""


class AtStepStart:
    """The same as an object, as a method, and as a method of a class."""

    async def __call__(self, _context: StepStartContext) -> None: ...

    async def look(self, _context: StepStartContext) -> None: ...

    @staticmethod
    async def look_statically(_context: StepStartContext) -> None: ...

    @classmethod
    async def look_as_class(cls, _context: StepStartContext) -> None: ...


STEP_START_HOOKS = [
    at_step_start,
    at_step_start_as_text,
    AtStepStart(),
    AtStepStart().look,
    AtStepStart.look_statically,
    AtStepStart.look_as_class,
]


@pytest.mark.parametrize("hook", STEP_START_HOOKS)
def test_a_hook_that_takes_the_context_of_another_phase_is_refused(hook: Any) -> None:
    declared = Registrations("p")
    for phase in set(Phase) - {Phase.STEP_START, Phase.TOOL_GATE}:
        for declare in (declared.hook, declared.observer):
            with pytest.raises(InvalidSpec, match=f"StepStartContext, and {phase} gives a"):
                declare(phase, hook)
    with pytest.raises(InvalidSpec, match="and tool_gate gives a ToolGateContext"):
        declared.gate(hook)
    assert not declared.hooks
    assert not declared.observers
    assert not declared.gates


async def of_any(_context: PhaseContext) -> None: ...


async def of_calls(_context: ToolPhaseContext) -> None: ...


async def of_two(_context: RunStartContext | StepStartContext) -> None: ...


async def of_numbers(_context: int) -> None: ...


async def of_rest(*_context: Any) -> None: ...


@pytest.mark.parametrize(
    ("phase", "hook"),
    [
        *((Phase.STEP_START, hook) for hook in STEP_START_HOOKS),
        *((phase, of_any) for phase in Phase if phase is not Phase.TOOL_GATE),
        (Phase.AFTER_TOOL_EXECUTE, of_calls),
        (Phase.STEP_START, of_two),
        # What no annotation says is not judged.
        *((Phase.RUN_END, hook) for hook in (of_numbers, of_rest, partial(of_any), AsyncMock())),
    ],
)
def test_a_hook_that_takes_what_its_phase_gives_is_registered(phase: Phase, hook: Any) -> None:
    declared = Registrations("p")
    declared.hook(phase, hook)
    declared.observer(phase, hook)
    assert declared.hooks == declared.observers == [(phase, hook)]


def test_a_phase_may_be_named_by_its_text() -> None:
    seen: list[str] = []

    async def look(context: Any) -> None:
        seen.append(type(context).__name__)

    run_with(lambda registrar: registrar.hook("run_start", look))  # type: ignore[arg-type]
    assert seen == ["RunStartContext"]


async def raising(_context: Any) -> None:
    message = "boom"
    raise ValueError(message)


@pytest.mark.parametrize(
    ("hook", "words"),
    [
        (answering({"a": 1}), ["returned dict", "StateCommand"]),
        (raising, ["raised ValueError: boom"]),
        (lambda _context: None, ["raised TypeError"]),
    ],
)
def test_a_hook_that_fails_ends_the_run_and_names_its_plugin(hook: Any, words: list[str]) -> None:
    with pytest.raises(RunFailed) as failed:
        run_with(lambda registrar: registrar.hook(Phase.BEFORE_INFERENCE, hook))
    assert failed.value.cause_code == "plugin_failed"
    assert all(word in str(failed.value) for word in ["plugin 'p'", "BeforeInference", *words])
    assert ran == []


def test_a_transform_that_forgets_to_return_is_named() -> None:
    with pytest.raises(RunFailed, match="request transform of plugin 'p' returned NoneType"):
        run_with(lambda registrar: registrar.transform(lambda *_: None))  # type: ignore[arg-type]


class TextProvider:
    """A first attempt at a provider: it yields plain text."""

    name = "mine"

    async def stream(self, _request: Any) -> Any:
        yield "hello"


class AnsweringProvider:
    """Another: it returns the text."""

    name = "mine"

    async def stream(self, _request: Any) -> str:
        return "hello"


@pytest.mark.parametrize(
    ("provider", "words"),
    [(TextProvider(), "yielded a str"), (AnsweringProvider(), "not an async generator")],
)
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
def test_a_provider_that_streams_something_else_is_named(provider: Any, words: str) -> None:
    async def scenario() -> None:
        async with AgentRuntime(agents=[Agent("a", model=provider)]) as runtime:
            with pytest.raises(RunFailed, match=f"'mine'.*{words}"):
                await runtime.run("a", "hi")

    simulated(scenario)


class Box(msgspec.Struct, frozen=True):
    items: list[int]


@pytest.mark.parametrize("default", [Box([]), ([],), [], {"a": []}])
def test_what_a_tool_changes_in_a_value_it_read_changes_nobody_elses(default: Any) -> None:
    key: StateKey[Any, Any] = StateKey("box", default=default, type=Any)

    @tool(effect="none")
    async def meddle(ctx: ToolContext) -> str:
        value = ctx.state.get(key)
        first = value.items if isinstance(value, Box) else value
        target = first["a"] if isinstance(first, dict) else first
        (target[0] if isinstance(target, tuple) else target).append(1)
        return repr(ctx.state.get(key))

    async def scenario() -> list[str]:
        model = ScriptedModel([ToolCalls([("meddle", {})]), "ok"], cycle=True)
        answers = []
        async with AgentRuntime(agents=[Agent("a", model=model, tools=[meddle])]) as runtime:
            for thread_id in ("ann", "bob"):
                await runtime.run("a", "go", thread_id=thread_id)
                answers.append((await runtime.messages(thread_id))[2].message.text)
        return answers

    untouched = repr(default)
    assert simulated(scenario) == [untouched, untouched]


async def hanging(_context: Any) -> None:
    await asyncio.Event().wait()


def test_a_hook_that_hangs_fails_the_run_and_a_gate_that_hangs_blocks_the_call() -> None:
    with pytest.raises(RunFailed, match="plugin 'p' raised TimeoutError"):
        run_with(lambda registrar: registrar.hook(Phase.STEP_START, hanging))
    result = run_with(lambda registrar: registrar.gate(hanging))
    assert result.termination == Blocked(reason="gate of 'p' failed: TimeoutError")
    assert ran == []
