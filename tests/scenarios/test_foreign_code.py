"""Every place that calls code of the application, with every kind of bad behaviour.

Whatever that code does, its place reports its own failure, the process and other runs go on, and
no run is left without an end.
"""

import asyncio
import sys
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from awaken import (
    Agent,
    AgentRuntime,
    Delegate,
    Failed,
    Limits,
    Phase,
    Plugin,
    PluginRegistrar,
    RunResult,
    RunStatus,
    tool,
)
from awaken.errors import AwakenError, RunFailed
from awaken.extensions.handoff import Handoff, HandoffPlugin
from awaken.plugins import EffectSpec, ScheduledActionSpec, StateCommand
from awaken.testing import ScriptedModel, ToolCalls

LIMITS = Limits(
    hook_ms=50,
    instructions_ms=50,
    resolver_ms=50,
    tool_timeout_ms=50,
    cancel_grace_ms=50,
    model_idle_ms=50,
    run_end_ms=50,
)
RAISED: dict[str, Callable[[], BaseException]] = {
    "an exception": lambda: KeyError("k"),
    "sys.exit": lambda: SystemExit(3),
    "a cancellation": asyncio.CancelledError,
    "the end of an iterator": lambda: StopIteration("x"),
    "an interrupt": KeyboardInterrupt,
}
released = threading.Event()


def misbehave(kind: str) -> Any:
    """Do it in a plain function."""
    if kind == "hangs":
        released.wait(10)
        return None
    if kind == "another type":
        return object()
    raise RAISED[kind]()


async def misbehave_later(kind: str) -> Any:
    """Do it in an async function; one that hangs ignores that it is cancelled, once."""
    if kind != "hangs":
        return misbehave(kind)
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        await asyncio.Event().wait()


Function = Callable[..., Any]


@dataclass
class Trip:
    city: str


class Registering(Plugin):
    """A plugin that registers what the test wants."""

    name = "p"

    def __init__(self, register: Callable[[PluginRegistrar], None]) -> None:
        self._register = register

    def register(self, registrar: PluginRegistrar) -> None:
        self._register(registrar)


def call(name: str, **arguments: Any) -> ScriptedModel:
    return ScriptedModel([ToolCalls([(name, arguments)]), "done"], cycle=True)


def answer(*texts: str) -> ScriptedModel:
    return ScriptedModel(texts or ["done"], cycle=True)


async def ask(*agents: Agent, **options: Any) -> tuple[str, str]:
    """Run the first agent; return how that ended and what the model read last."""
    async with AgentRuntime(agents, limits=LIMITS, **options) as runtime:
        try:
            result = await runtime.run(agents[0].id, "go")
        except RunFailed as error:
            outcome = error.cause_code
            result = error.result
        except AwakenError as error:
            assert await runtime.list_runs() == (), "a refused run leaves no record"
            return error.code, ""
        else:
            outcome = describe(result)
        for record in await runtime.list_runs():
            assert record.status in (RunStatus.DONE, RunStatus.WAITING), "each run has an end"
        read = [it.message.text for it in await runtime.messages(result.thread_id)]
        return outcome, " ".join(read)


def describe(result: RunResult) -> str:
    match result.termination:
        case Failed(code=code):
            return code
    return type(result.termination).__name__


async def of_instructions(bad: Function) -> tuple[str, str]:
    return await ask(Agent("a", model=answer(), instructions=lambda _ctx: bad()))


async def of_async_instructions(bad: Function) -> tuple[str, str]:
    async def instruct(_ctx: Any) -> Any:
        return await bad()

    return await ask(Agent("a", model=answer(), instructions=instruct))


async def of_validator(bad: Function) -> tuple[str, str]:
    return await ask(Agent("a", model=answer(), output_validators=[lambda _text: bad()]))


async def of_async_validator(bad: Function) -> tuple[str, str]:
    async def validate(_text: str) -> Any:
        return await bad()

    return await ask(Agent("a", model=answer(), output_validators=[validate]))


async def of_approval(bad: Function) -> tuple[str, str]:
    @tool(approval=lambda: bad())
    def pay() -> str:
        return "paid"

    return await ask(Agent("a", model=call("pay"), tools=[pay]))


async def of_async_approval(bad: Function) -> tuple[str, str]:
    async def decide() -> Any:
        return await bad()

    @tool(approval=decide)
    def pay() -> str:
        return "paid"

    return await ask(Agent("a", model=call("pay"), tools=[pay]))


async def of_check(bad: Function) -> tuple[str, str]:
    @tool(check=lambda x: bad())
    def pay(x: int) -> str:
        return "paid"

    outcome, read = await ask(Agent("a", model=call("pay", x=1), tools=[pay]))
    assert "paid" not in read
    return outcome, read


async def of_async_check(bad: Function) -> tuple[str, str]:
    async def check(x: int) -> None:
        await bad()

    @tool(check=check)
    def pay(x: int) -> str:
        return "paid"

    outcome, read = await ask(Agent("a", model=call("pay", x=1), tools=[pay]))
    assert "paid" not in read
    return outcome, read


async def of_tool(bad: Function) -> tuple[str, str]:
    @tool
    def pay() -> Any:
        return bad()

    return await ask(Agent("a", model=call("pay"), tools=[pay]))


async def of_async_tool(bad: Function) -> tuple[str, str]:
    @tool
    async def pay() -> Any:
        return await bad()

    return await ask(Agent("a", model=call("pay"), tools=[pay]))


async def of_prompt(bad: Function) -> tuple[str, str]:
    sub = Agent("sub", model=answer())
    delegate = Delegate(sub, arguments=Trip, prompt=lambda _trip: bad())
    return await ask(Agent("a", model=call("agent_run_sub", city="x"), delegates=[delegate]), sub)


async def of_handoff(bad: Function) -> tuple[str, str]:
    sub = Agent("sub", model=answer())
    plugin = HandoffPlugin([Handoff("sub", on_handoff=lambda _ctx: bad())])
    model = call("transfer_to_agent", agent_id="sub")
    return await ask(Agent("a", model=model, plugins=[plugin]), sub)


async def of_dependencies(bad: Function) -> tuple[str, str]:
    async def open_deps() -> Any:
        return await bad()

    return await ask_open(deps=open_deps)


async def of_plugin_open(bad: Function) -> tuple[str, str]:
    class Opened(Plugin):
        name = "opened"

        async def open(self, _host: Any) -> None:
            await bad()

    return await ask_open(everywhere=[Opened()])


async def ask_open(**options: Any) -> tuple[str, str]:
    try:
        async with AgentRuntime([Agent("a", model=answer())], **options):
            return "open", ""
    except AwakenError as error:
        return error.code, ""


def with_plugin(register: Callable[[PluginRegistrar], None], model: Any = None) -> Agent:
    return Agent("a", model=model or answer(), plugins=[Registering(register)])


def in_phase(bad: Function) -> Callable[[Any], Awaitable[Any]]:
    async def hook(_context: Any) -> Any:
        return await bad()

    return hook


async def of_hook(bad: Function) -> tuple[str, str]:
    return await ask(with_plugin(lambda it: it.hook(Phase.STEP_START, in_phase(bad))))


async def of_observer(bad: Function) -> tuple[str, str]:
    return await ask(with_plugin(lambda it: it.observer(Phase.STEP_START, in_phase(bad))))


async def of_last_hook(bad: Function) -> tuple[str, str]:
    return await ask(with_plugin(lambda it: it.hook(Phase.RUN_END, in_phase(bad))))


async def of_gate(bad: Function) -> tuple[str, str]:
    @tool
    def pay() -> str:
        return "paid"

    plugin = Registering(lambda it: it.gate(in_phase(bad)))
    return await ask(Agent("a", model=call("pay"), tools=[pay], plugins=[plugin]))


ACT = ScheduledActionSpec[int]("p.act", phase=Phase.BEFORE_INFERENCE, payload_type=int)
EFFECT = EffectSpec[int]("p.effect", payload_type=int)


async def of_action(bad: Function) -> tuple[str, str]:
    async def handle(_context: Any, _payload: int) -> Any:
        return await bad()

    async def schedule(_context: Any) -> StateCommand:
        return StateCommand().schedule(ACT, 1)

    def register(it: PluginRegistrar) -> None:
        it.action(ACT, handle)
        it.hook(Phase.STEP_START, schedule)

    return await ask(with_plugin(register))


async def of_effect(bad: Function) -> tuple[str, str]:
    async def handle(_payload: int, _snapshot: Any) -> None:
        await bad()

    async def emit(_context: Any) -> StateCommand:
        return StateCommand().emit(EFFECT, 1)

    def register(it: PluginRegistrar) -> None:
        it.effect(EFFECT, handle)
        it.hook(Phase.STEP_START, emit)

    return await ask(with_plugin(register))


async def of_transform(bad: Function) -> tuple[str, str]:
    return await ask(with_plugin(lambda it: it.transform(lambda _messages, _tools: bad())))


async def of_message_screen(bad: Function) -> tuple[str, str]:
    return await ask(with_plugin(lambda it: it.screen_messages(lambda _own, _message: bad())))


async def of_answer_screen(bad: Function) -> tuple[str, str]:
    return await ask(with_plugin(lambda it: it.screen_answers(lambda _ctx, _answer: bad())))


async def of_result_screen(bad: Function) -> tuple[str, str]:
    @tool
    def pay() -> str:
        return "paid"

    plugin = Registering(lambda it: it.screen_results(lambda _own, _value: bad()))
    return await ask(Agent("a", model=call("pay"), tools=[pay], plugins=[plugin]))


async def of_instrument(bad: Function) -> tuple[str, str]:
    return await ask(with_plugin(lambda it: it.instrument(lambda _run, _agent: bad())))


async def of_resolver(bad: Function) -> tuple[str, str]:
    class Resolver:
        async def resolve(self, agent_id: str) -> Any:
            return None if agent_id == "a" else await bad()

    resolver = Resolver()
    async with AgentRuntime(limits=LIMITS, resolver=resolver) as runtime:
        try:
            await runtime.run("elsewhere", "go")
        except AwakenError as error:
            assert await runtime.list_runs() == ()
            return error.code, ""
    return "ran", ""


async def of_model(bad: Function) -> tuple[str, str]:
    class Client:
        name = "broken"

        async def stream(self, _request: Any) -> Any:
            await bad()
            yield None

    return await ask(Agent("a", model=Client()))  # type: ignore[arg-type]


async def of_state(bad: Function) -> tuple[str, str]:
    """What a tool's state update is applied with."""
    from awaken import StateKey, ToolContext  # noqa: PLC0415

    key: StateKey[Any, Any] = StateKey("p.key", default=0, apply=lambda _value, _update: bad())

    @tool
    async def note(ctx: ToolContext) -> str:
        ctx.state.update(key, 1)
        return "noted"

    return await ask(Agent("a", model=call("note"), tools=[note]))


async def of_plugin_close(bad: Function) -> tuple[str, str]:
    class Closed(Plugin):
        name = "closed"

        async def close(self) -> None:
            await bad()

    return await ask_open(everywhere=[Closed()])


Place = Callable[[Function], Awaitable[tuple[str, str]]]
THREADED: dict[Place, str] = {
    of_instructions: "instructions_failed",
    of_validator: "validator_failed",
    of_approval: "Suspended",
    of_check: "NaturalEnd",
    of_tool: "NaturalEnd",
    of_prompt: "NaturalEnd",
    of_handoff: "NaturalEnd",
}
"""Places that call plain functions, in threads; they survive a function that hangs."""
AWAITED: dict[Place, str] = {
    of_async_instructions: "instructions_failed",
    of_async_validator: "validator_failed",
    of_async_approval: "Suspended",
    of_async_check: "NaturalEnd",
    of_async_tool: "NaturalEnd",
    of_hook: "plugin_failed",
    of_observer: "plugin_failed",
    of_last_hook: "NaturalEnd",
    of_gate: "Blocked",
    of_action: "NaturalEnd",
    of_effect: "NaturalEnd",
    of_resolver: "agent_resolver_failed",
    of_dependencies: "dependencies_failed",
    of_plugin_open: "plugin_failed",
    of_model: "provider_broken",
    of_plugin_close: "open",
}
ON_THE_LOOP: dict[Place, str] = {
    of_transform: "plugin_failed",
    of_message_screen: "plugin_failed",
    of_answer_screen: "plugin_failed",
    of_result_screen: "NaturalEnd",
    of_instrument: "NaturalEnd",
    of_state: "NaturalEnd",
}
"""Plain functions that must be fast: one that hangs here hangs the process, as documented."""


def play(place: Place, bad: Function) -> tuple[str, str]:
    async def scenario() -> tuple[str, str]:
        async with asyncio.timeout(20):
            try:
                return await place(bad)
            finally:
                released.set()

    released.clear()
    return asyncio.run(scenario())


@pytest.mark.parametrize("kind", [*RAISED])
@pytest.mark.parametrize("place", [*THREADED, *ON_THE_LOOP])
def test_what_a_plain_function_raises_is_the_failure_of_its_place(place: Place, kind: str) -> None:
    expected = {**THREADED, **ON_THE_LOOP}[place]
    outcome, read = play(place, lambda: misbehave(kind))
    assert outcome == expected
    assert "paid" not in read.replace("done", "") or place in (of_instrument,)


@pytest.mark.parametrize("kind", [*RAISED])
@pytest.mark.parametrize("place", [*AWAITED])
def test_what_an_async_function_raises_is_the_failure_of_its_place(place: Place, kind: str) -> None:
    outcome, _ = play(place, lambda: misbehave_later(kind))
    assert outcome == AWAITED[place]


SLOW_TO_OPEN = (of_dependencies, of_plugin_open, of_plugin_close)
"""They have seconds of their own, which no limit of a run shortens."""


@pytest.mark.parametrize("place", [*THREADED])
def test_a_plain_function_that_hangs_is_the_failure_of_its_place(place: Place) -> None:
    assert play(place, lambda: misbehave("hangs"))[0] == THREADED[place]


@pytest.mark.parametrize("place", [it for it in AWAITED if it not in SLOW_TO_OPEN])
def test_an_async_function_that_hangs_is_the_failure_of_its_place(place: Place) -> None:
    expected = "model_timeout" if place is of_model else AWAITED[place]

    async def hang() -> None:
        await asyncio.Event().wait()

    assert play(place, hang)[0] == expected


@pytest.mark.parametrize("place", [of_async_instructions, of_async_validator, of_async_approval])
def test_a_function_that_ignores_its_cancellation_is_left_behind(place: Place) -> None:
    assert play(place, lambda: misbehave_later("hangs"))[0] == AWAITED[place]


@pytest.mark.parametrize("place", [of_instructions, of_approval, of_hook, of_gate, of_resolver])
def test_a_value_of_another_type_is_the_failure_of_its_place(place: Place) -> None:
    is_plain = place in THREADED
    expected = {**THREADED, **AWAITED}[place]
    bad = misbehave if is_plain else misbehave_later
    assert play(place, lambda: bad("another type"))[0] == expected


def test_dependencies_that_call_sys_exit_when_they_close_do_not_end_the_program() -> None:
    class Pool:
        async def __aenter__(self) -> "Pool":
            return self

        async def __aexit__(self, *_: object) -> None:
            sys.exit(3)

    assert Agent("a", model=answer()).run_sync("go", deps=Pool()).text == "done"


def test_a_cancelled_run_cancels_the_function_that_it_waits_for() -> None:
    ended: list[str] = []

    async def instruct(_ctx: Any) -> str:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cleaned up")
        return ""

    began = asyncio.Event()

    async def scenario() -> None:
        async with AgentRuntime([Agent("a", model=answer(), instructions=instruct)]) as runtime:
            running = asyncio.create_task(runtime.run("a", "go"))
            await began.wait()
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            assert ended == ["cleaned up"]

    asyncio.run(scenario())
