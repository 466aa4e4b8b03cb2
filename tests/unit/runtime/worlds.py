"""Small worlds for tests of the runtime's parts: a plugin made on the spot, a run ready to use."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from awaken import Agent, AgentRuntime, Plugin, PluginRegistrar, StateCommand
from awaken.contracts.identity import RunIdentity
from awaken.contracts.messages.message import Message, user
from awaken.contracts.phases import Phase
from awaken.contracts.plugins.plugin import (
    AfterInferenceContext,
    AfterToolExecuteContext,
    BeforeInferenceContext,
    BeforeToolExecuteContext,
    PhaseContext,
    RunEndContext,
    RunStartContext,
    StepEndContext,
    StepStartContext,
)
from awaken.contracts.runs.records import RunRequest
from awaken.contracts.specs.agents import AgentSpec
from awaken.runtime.limits import Limits
from awaken.runtime.loop.opening import open_run
from awaken.runtime.phases.contexts import phase_context
from awaken.runtime.phases.runner import PhaseReport, run_phase
from awaken.runtime.run import Run
from awaken.testing.fakes import FakeClock, SequentialIds
from awaken.testing.scripted_model import Entry, ScriptedModel

T = TypeVar("T")
Declare = Callable[[PluginRegistrar], None]

CONTEXTS: dict[Phase, type[PhaseContext]] = {
    Phase.RUN_START: RunStartContext,
    Phase.STEP_START: StepStartContext,
    Phase.BEFORE_INFERENCE: BeforeInferenceContext,
    Phase.AFTER_INFERENCE: AfterInferenceContext,
    Phase.BEFORE_TOOL_EXECUTE: BeforeToolExecuteContext,
    Phase.AFTER_TOOL_EXECUTE: AfterToolExecuteContext,
    Phase.STEP_END: StepEndContext,
    Phase.RUN_END: RunEndContext,
}


class Made(Plugin):
    """A plugin that declares what a test tells it to."""

    def __init__(
        self,
        name: str,
        declare: Declare = lambda _: None,
        *,
        own: Callable[[RunIdentity, AgentSpec], Any] = lambda _run, _agent: None,
        first: StateCommand | None = None,
    ) -> None:
        self.name = name
        self._declare = declare
        self._own = own
        self._first = first

    def register(self, registrar: PluginRegistrar) -> None:
        self._declare(registrar)

    def activate(self, run: RunIdentity, agent: AgentSpec) -> Any:
        return self._own(run, agent)

    def on_activate(self, agent: AgentSpec) -> StateCommand | None:
        return self._first


def runtime_of(
    *plugins: Plugin, script: Sequence[Entry] = ("ok",), limits: Limits | None = None, **agent: Any
) -> AgentRuntime:
    """A runtime with one agent "a" whose model says what the script says."""
    model = agent.pop("model", None) or ScriptedModel(script, cycle=True)
    return AgentRuntime(
        [Agent("a", model=model, plugins=plugins, **agent)],
        limits=limits or Limits(),
        clock=FakeClock(),
        ids=SequentialIds(),
    )


async def opened(runtime: AgentRuntime, messages: tuple[Message, ...] = (user("hi"),)) -> Run:
    """A run that has begun with these messages and taken no step."""
    request = RunRequest(agent_id="a", messages=messages)
    run = await runtime._engine._admission.prepare(request, "t")
    await open_run(run)
    return run


def with_run(
    use: Callable[[Run], Awaitable[T]],
    *plugins: Plugin,
    limits: Limits | None = None,
    messages: tuple[Message, ...] = (user("hi"),),
    **agent: Any,
) -> T:
    """Use a run that has begun in a world of its own."""

    async def main() -> T:
        return await use(await opened(runtime_of(*plugins, limits=limits, **agent), messages))

    return asyncio.run(main())


async def play(run: Run, phase: Phase = Phase.STEP_START, **more: Any) -> PhaseReport:
    """Run one phase on the current state."""
    return await run_phase(run, phase, phase_context(run, CONTEXTS[phase], **more))
