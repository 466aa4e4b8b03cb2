"""Plugins: what they declare, which of it acts, and what their hooks are given."""

import asyncio
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from awaken import AgentRuntime, Plugin, PluginRegistrar, StateCommand, StateKey, tool
from awaken.contracts.errors import (
    DuplicateRegistration,
    HandlerAlreadyRegistered,
    InvalidSpec,
    KeyAlreadyRegistered,
)
from awaken.contracts.identity import Adapter, RunIdentity, RunMode
from awaken.contracts.messages.message import Message, user
from awaken.contracts.models.inference import ModelTool, StreamResult
from awaken.contracts.phases import Phase
from awaken.contracts.plugins.plugin import ConfigSection, PhaseContext, ToolGateContext
from awaken.contracts.specs.agents import AgentSpec
from awaken.contracts.state.keys import EffectSpec, ScheduledActionSpec, Snapshot
from awaken.contracts.state.profile import GLOBAL_SCOPE, ProfileKey
from awaken.contracts.tools.tool import Tool, ToolKind
from awaken.runtime.plugins.environment import ExecutionEnv
from awaken.runtime.resolution.registries import RegistrySet
from awaken.runtime.run import Run
from awaken.testing.scripted_model import ScriptedModel, ToolCalls

from .worlds import Made, play, runtime_of, with_run

ACT = ScheduledActionSpec[int]("act", Phase.STEP_START, int)
PING = EffectSpec[int]("ping", int)


async def nothing(*_given: Any) -> None:
    """A hook, an observer, a gate, an action or an effect that does nothing."""


def unchanged(messages: list[Message], _tools: tuple[ModelTool, ...]) -> list[Message]:
    return messages


def a_tool(name: str) -> Tool:
    async def call() -> str:
        return name

    return tool(id=name, description="d", effect="none")(call)


def everything(name: str) -> Plugin:
    """A plugin with one of everything, named after it."""

    def declare(registrar: PluginRegistrar) -> None:
        registrar.key(StateKey(f"{name}.key", default=0))
        registrar.profile_key(ProfileKey(f"{name}.profile", default=0))
        registrar.action(ScheduledActionSpec(f"{name}.action", Phase.STEP_START), nothing)
        registrar.effect(EffectSpec(f"{name}.effect"), nothing)
        registrar.hook(Phase.STEP_START, nothing)
        registrar.observer(Phase.STEP_END, nothing)
        registrar.gate(nothing)
        registrar.tool(a_tool(f"{name}_tool"))
        registrar.transform(unchanged)

    return Made(name, declare)


def behaviour(env: ExecutionEnv) -> dict[str, Any]:
    return {
        "hooks": [name for name, _ in env.hooks.get(Phase.STEP_START, [])],
        "observers": [name for name, _ in env.observers.get(Phase.STEP_END, [])],
        "gates": [name for name, _ in env.gates],
        "tools": list(env.tools),
        "transforms": len(env.transforms),
    }


def structure(env: ExecutionEnv) -> list[list[str]]:
    return [list(part) for part in (env.keys, env.profile_keys, env.actions, env.effects)]


@pytest.mark.parametrize(
    ("active", "acting"),
    [((), "abc"), (("a", "b", "c"), "abc"), (("b",), "b"), (("c", "a"), "ac"), (("x",), "")],
)
@pytest.mark.parametrize("owned", ["", "o"])
def test_the_filter_switches_behaviour_off_but_never_structure_or_the_runtimes_own(
    active: tuple[str, ...], acting: str, owned: str
) -> None:
    env = ExecutionEnv.compile(
        [everything(name) for name in "abc"],
        active=active,
        runtime_owned=[everything(name) for name in owned],
    )
    names = list(owned + acting)
    assert behaviour(env) == {
        "hooks": names,
        "observers": names,
        "gates": list(names),
        "tools": [f"{name}_tool" for name in names],
        "transforms": len(names),
    }
    every = list(owned + "abc")
    assert structure(env) == [
        [f"{name}.{part}" for name in every] for part in ("key", "profile", "action", "effect")
    ]
    assert [plugin.name for plugin in env.plugins] == every
    assert list(env.own_objects(RunIdentity(thread_id="t"), AgentSpec(id="a", model_id="m"))) == []


SAME_KEY, SAME_PROFILE = StateKey("k", default=0), ProfileKey("k", default=0)
ONE_OF_EACH: dict[str, Any] = {
    "key": lambda r: r.key(StateKey("k", default=0)),
    "profile key": lambda r: r.profile_key(ProfileKey("k", default=0)),
    "action": lambda r: r.action(ACT, nothing),
    "effect": lambda r: r.effect(PING, nothing),
    "tool": lambda r: r.tool(a_tool("t")),
}
ERRORS = {
    "key": KeyAlreadyRegistered,
    "profile key": KeyAlreadyRegistered,
    "action": HandlerAlreadyRegistered,
    "effect": HandlerAlreadyRegistered,
    "tool": DuplicateRegistration,
}


@pytest.mark.parametrize("what", ONE_OF_EACH)
def test_one_thing_declared_twice_is_an_error_within_a_plugin_and_between_two(what: str) -> None:
    declare = ONE_OF_EACH[what]

    def twice(registrar: PluginRegistrar) -> None:
        declare(registrar)
        declare(registrar)

    for plugins in ([Made("p", twice)], [Made("p", declare), Made("q", declare)]):
        with pytest.raises(ERRORS[what]):
            ExecutionEnv.compile(plugins)
        with pytest.raises(InvalidSpec, match="'a': "):
            runtime_of(*plugins)


def test_two_plugins_may_share_one_key_and_no_two_may_share_a_name() -> None:
    def declare(registrar: PluginRegistrar) -> None:
        registrar.key(SAME_KEY)
        registrar.profile_key(SAME_PROFILE)

    env = ExecutionEnv.compile([Made("p", declare), Made("q", declare)])
    assert (env.keys, env.profile_keys) == ({"k": SAME_KEY}, {"k": SAME_PROFILE})
    with pytest.raises(DuplicateRegistration, match="'p'"):
        ExecutionEnv.compile([Made("p"), Made("p")])


@pytest.mark.parametrize("method", ["hook", "observer"])
def test_a_hook_that_would_never_run_is_refused(method: str) -> None:
    with pytest.raises(InvalidSpec, match="gate"):
        ExecutionEnv.compile([Made("p", lambda r: getattr(r, method)(Phase.TOOL_GATE, nothing))])


class Tone(msgspec.Struct, frozen=True):
    style: str = "plain"
    volume: int = 3


class Toned(Made):
    """A plugin that reads the section "tone"."""

    def config_sections(self) -> list[ConfigSection]:
        return [ConfigSection.of("tone", Tone)]


@pytest.mark.parametrize(
    ("config", "seen"),
    [
        ({}, Tone()),
        ({"tone": {"style": "dry"}}, Tone("dry")),
        ({"tone": Tone("loud", 9)}, Tone("loud", 9)),
    ],
)
def test_hooks_read_their_agents_config_as_a_type(config: dict[str, Any], seen: Tone) -> None:
    found: list[Tone] = []

    async def hook(context: PhaseContext) -> None:
        found.append(context.config("tone", Tone))

    async def use(run: Run) -> None:
        await play(run)

    with_run(use, Toned("p", lambda r: r.hook(Phase.STEP_START, hook)), config=config)
    assert found == [seen]


@pytest.mark.parametrize(
    ("plugin", "config"),
    [(Toned("p"), {"tone": {"volume": "loud"}}), (Made("p"), {"tone": {}})],
)
def test_a_config_section_that_fits_no_plugin_is_refused_before_anything_runs(
    plugin: Plugin, config: dict[str, Any]
) -> None:
    assert "style" in str(ConfigSection.of("tone", Tone).schema)
    with pytest.raises(InvalidSpec, match="tone"):
        runtime_of(plugin, config=config)


def filtered(runtime: AgentRuntime, *active: str) -> AgentRuntime:
    def change(registries: RegistrySet) -> RegistrySet:
        source = registries.agents["a"]
        spec = msgspec.structs.replace(source.spec, active_hook_filter=active)
        return registries.with_agent(replace(source, spec=spec))

    runtime.registry.update(change)
    return runtime


@pytest.mark.parametrize(
    ("active", "fired"), [((), ["p", "q"]), (("q",), ["q"]), (("p", "q"), ["p", "q"])]
)
def test_in_a_run_only_the_hooks_of_the_filter_fire(
    active: tuple[str, ...], fired: list[str]
) -> None:
    seen: list[str] = []

    def named(name: str) -> Plugin:
        async def hook(_context: PhaseContext) -> None:
            seen.append(name)

        return Made(name, lambda r: r.hook(Phase.RUN_START, hook))

    async def main() -> None:
        await filtered(runtime_of(named("p"), named("q")), *active).run("a", "hi")

    asyncio.run(main())
    assert seen == fired


COUNT: StateKey[int, int] = StateKey("count", default=0, apply=lambda value, more: value + more)


def test_every_run_has_its_own_object_of_each_plugin_and_the_first_state_it_asked_for() -> None:
    seen: list[tuple[str, Any, int]] = []

    def counting(name: str) -> Plugin:
        async def hook(context: PhaseContext) -> StateCommand:
            context.own.append(context.run.run_id)
            seen.append((name, list(context.own), context.state(COUNT)))
            return StateCommand()

        def declare(registrar: PluginRegistrar) -> None:
            registrar.key(COUNT)
            registrar.hook(Phase.RUN_START, hook)

        first = StateCommand().update(COUNT, 1)
        return Made(name, declare, own=lambda _run, agent: [agent.id], first=first)

    async def main() -> None:
        runtime = runtime_of(counting("p"), counting("q"))
        for run_id in ("r1", "r2"):
            await runtime.run("a", "hi", thread_id="t", run_id_hint=run_id)

    asyncio.run(main())
    assert seen == [(name, ["a", run], 2) for run in ("r1", "r2") for name in ("p", "q")]


def test_a_context_tells_who_runs_what_and_every_plugin_may_use_its_profile() -> None:
    contexts: dict[str, Any] = {}
    visits = ProfileKey("visits", default=0, type=int)

    def noting(phase: str) -> Any:
        async def hook(context: PhaseContext) -> None:
            contexts[phase] = context
            if phase == "run_start":
                assert context.profile is not None
                seen = await context.profile.read(visits, GLOBAL_SCOPE)
                await context.profile.write(visits, GLOBAL_SCOPE, seen + 1)
                contexts["visits"] = seen

        return hook

    def declare(registrar: PluginRegistrar) -> None:
        registrar.profile_key(visits)
        registrar.gate(noting("tool_gate"))
        for phase in Phase:
            if phase is not Phase.TOOL_GATE:
                registrar.hook(phase, noting(phase.value))

    async def main() -> None:
        script = [ToolCalls([("read_it", {}, "c1")]), "done"]
        runtime = runtime_of(
            Made("p", declare),
            model=ScriptedModel(script, cycle=True),
            tools=[a_tool("read_it")],
        )
        for thread in ("t1", "t2"):
            await runtime.run(
                "a",
                "hi",
                thread_id=thread,
                run_id_hint=f"r-{thread}",
                dispatch_id=" d ",
                session_id=" ",
                run_mode=RunMode.SCHEDULED,
                adapter=Adapter.A2A,
            )

    asyncio.run(main())
    assert contexts.pop("visits") == 1
    assert set(contexts) == {phase.value for phase in Phase}
    for context in contexts.values():
        identity = context.run
        assert (identity.thread_id, identity.run_id, identity.agent_id) == ("t2", "r-t2", "a")
        assert (identity.dispatch_id, identity.session_id) == ("d", None)
        assert (identity.run_mode, identity.adapter) == (RunMode.SCHEDULED, Adapter.A2A)
        assert (context.agent.id, context.own) == ("a", None)
        assert isinstance(context.snapshot, Snapshot)
    gate = contexts["tool_gate"]
    assert isinstance(gate, ToolGateContext)
    assert (gate.call.id, gate.call.arguments) == ("c1", {})
    assert (gate.tool_kind, gate.is_kind_declared) == (ToolKind.READ, False)
    assert (gate.resume, gate.suspension_id) == (None, None)
    assert contexts["after_tool_execute"].result.data == "read_it"
    assert contexts["before_inference"].tool_ids == ("read_it",)
    assert isinstance(contexts["after_inference"].response, StreamResult)
    assert (contexts["run_start"].step, contexts["step_end"].step) == (0, 2)


def test_a_context_shows_the_messages_so_far_and_nothing_of_tools_outside_their_phases() -> None:
    seen: list[PhaseContext] = []

    async def hook(context: PhaseContext) -> None:
        seen.append(context)

    def declare(registrar: PluginRegistrar) -> None:
        registrar.key(COUNT)
        registrar.hook(Phase.STEP_START, hook)

    async def use(run: Run) -> None:
        await play(run)

    with_run(use, Made("p", declare), messages=(user("one"), user("two")))
    (context,) = seen
    assert [message.text for message in context.messages] == ["one", "two"]
    assert context.state(COUNT) == 0
    assert not hasattr(context, "call")
