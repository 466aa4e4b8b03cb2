"""Plugins that live as long as their runtime, that every agent has, that packages offer."""

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import pytest

from awaken import Agent, AgentRuntime, AgentSpec, Blocked, Phase, Plugin, PluginRegistrar
from awaken import tool as as_tool
from awaken.bootstrap import plugins as bootstrap_plugins
from awaken.errors import DuplicateRegistration, InvalidPluginConfig, InvalidSpec, PluginFailed
from awaken.plugins import BeforeInferenceContext, Block, ConfigSection, PluginHost, StrictRecord
from awaken.testing import ScriptedModel, ToolCalls
from awaken.tools import Tool, ToolDescriptor


@as_tool(effect="none")
async def first() -> str:
    """The first."""
    return "one"


@as_tool(effect="none")
async def second() -> str:
    """The second."""
    return "two"


class Growing(Plugin):
    """Offers what it has; it may get more."""

    name = "growing"

    def __init__(self) -> None:
        self.tools: list[Tool] = [first]
        self.host: PluginHost | None = None
        self.life: list[str] = []

    def register(self, registrar: PluginRegistrar) -> None:
        for it in self.tools:
            registrar.tool(it)

    async def open(self, host: PluginHost) -> None:
        self.host = host
        self.life.append("open")

    async def close(self) -> None:
        self.life.append("close")


def test_a_plugin_lives_as_long_as_its_runtime_however_many_agents_have_it() -> None:
    async def scenario() -> None:
        growing = Growing()
        agents = [Agent(name, model=ScriptedModel(["hi"]), plugins=[growing]) for name in "ab"]
        runtime = AgentRuntime(agents)
        assert growing.life == []
        async with runtime:
            assert growing.life == ["open"]
        assert growing.life == ["open", "close"]

    asyncio.run(scenario())


def test_what_a_plugin_adds_later_is_offered_to_runs_that_begin_later() -> None:
    async def scenario() -> None:
        growing = Growing()
        offered: list[list[str]] = []

        async def look(request: Any) -> Any:
            offered.append([it.id for it in request.tools])
            if len(offered) == 1:
                growing.tools.append(second)
                assert growing.host is not None
                await growing.host.renew()
                return ToolCalls([("first", {})])
            return "done"

        agent = Agent("a", model=ScriptedModel([look], cycle=True), plugins=[growing])
        async with AgentRuntime([agent]) as runtime:
            await runtime.run("a", "go")
            await runtime.run("a", "go")
        assert offered == [["first"], ["first"], ["first", "second"]]

    asyncio.run(scenario())


def test_a_renewal_that_some_agent_cannot_bear_changes_nothing() -> None:
    async def scenario() -> None:
        growing = Growing()
        model = ScriptedModel(["hi"], cycle=True)
        agent = Agent("a", model=model, tools=[second], plugins=[growing])
        async with AgentRuntime([agent]) as runtime:
            growing.tools.append(as_tool(effect="none")(_other_second()))
            assert growing.host is not None
            with pytest.raises(InvalidSpec, match="second"):
                await growing.host.renew()
            await runtime.run("a", "go")
        assert [it.id for it in model.requests[-1].tools] == ["first", "second"]

    asyncio.run(scenario())


def _other_second() -> Any:
    async def second() -> str:
        """Another one."""
        return "2"

    return second


def test_a_plugin_that_cannot_be_opened_keeps_the_runtime_closed_and_others_are_closed() -> None:
    class Failing(Growing):
        name = "failing"

        def register(self, registrar: PluginRegistrar) -> None: ...

        async def open(self, host: PluginHost) -> None:
            await super().open(host)
            message = "no network"
            raise OSError(message)

    async def scenario() -> None:
        growing, failing = Growing(), Failing()
        agent = Agent("a", model=ScriptedModel([]), plugins=[growing, failing])
        runtime = AgentRuntime([agent])
        with pytest.raises(PluginFailed, match=r"failing.*no network"):
            await runtime.__aenter__()
        assert growing.life == failing.life == ["open", "close"]

    asyncio.run(scenario())


class Limits(StrictRecord, frozen=True, kw_only=True):
    limit: int = 3


class Prepared(Plugin):
    """Compiles its section once."""

    name = "prepared"

    def __init__(self) -> None:
        self.seen: list[tuple[str, tuple[str, ...]]] = []
        self.found: list[Any] = []

    def config_sections(self) -> tuple[ConfigSection, ...]:
        return (ConfigSection.of("prepared", Limits),)

    def register(self, registrar: PluginRegistrar) -> None:
        registrar.hook(Phase.BEFORE_INFERENCE, self._look)

    def prepare(self, agent: AgentSpec, tools: Mapping[str, ToolDescriptor]) -> Any:
        self.seen.append((agent.id, tuple(sorted(tools))))
        limit = agent.config("prepared", Limits).limit
        if limit > 10:
            problem = "limit is at most 10"
            raise InvalidPluginConfig(section="prepared", agent_id=agent.id, problem=problem)
        return limit * 2

    async def _look(self, context: BeforeInferenceContext) -> None:
        self.found.append(context.prepared)


def test_a_plugin_prepares_each_agent_once_with_its_tools_and_finds_it_in_its_hooks() -> None:
    async def scenario() -> None:
        plugin = Prepared()
        config = {"prepared": {"limit": 4}}
        model = ScriptedModel(["hi"], cycle=True)
        agents = [
            Agent("a", model=model, tools=[first], config=config),
            Agent("b", model=model),
        ]
        async with AgentRuntime(agents, everywhere=[plugin]) as runtime:
            for name in ("a", "b", "a"):
                await runtime.run(name, "go")
        assert plugin.seen == [("a", ("first",)), ("b", ())]
        assert plugin.found == [8, 6, 8]

    asyncio.run(scenario())


def test_an_agent_whose_plugin_cannot_use_its_config_is_refused() -> None:
    agent = Agent("a", model=ScriptedModel([]), config={"prepared": {"limit": 11}})
    with pytest.raises(InvalidSpec, match="limit is at most 10"):
        AgentRuntime([agent], everywhere=[Prepared()])


def test_a_plugin_is_not_both_everywhere_and_named_twice() -> None:
    with pytest.raises(DuplicateRegistration):
        AgentRuntime([], plugins=[Growing()], everywhere=[Growing()])
    with pytest.raises(InvalidSpec, match="is a class"):
        AgentRuntime([], everywhere=[Growing])  # type: ignore[list-item]


def _offers(monkeypatch: pytest.MonkeyPatch, value: str, name: str = "growing") -> None:
    entry = EntryPoint(name=name, value=value, group=bootstrap_plugins.GROUP)
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [entry])


def test_an_agent_names_a_plugin_that_an_installed_package_offers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _offers(monkeypatch, f"{__name__}:Growing")
    spec = AgentSpec(id="a", model_id="scripted", plugin_ids=("growing",))
    runtime = AgentRuntime([spec])
    assert "first" in runtime.registry.snapshot().resolve("a").tools


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (f"{__name__}:Nothing", "could not be made"),
        (f"{__name__}:Limits", "is not a plugin"),
        (f"{__name__}:Prepared", "it calls itself 'prepared'"),
    ],
)
def test_a_package_that_offers_nonsense_is_named(
    monkeypatch: pytest.MonkeyPatch, value: str, problem: str
) -> None:
    _offers(monkeypatch, value)
    spec = AgentSpec(id="a", model_id="scripted", plugin_ids=("growing",))
    with pytest.raises(InvalidSpec, match=f"The installed plugin 'growing'.*{problem}"):
        AgentRuntime([spec])


def test_the_packaged_extensions_are_offered_like_anybody_elses() -> None:
    offered = entry_points(group=bootstrap_plugins.GROUP)
    ours = {it.name: it for it in offered if it.value.startswith("awaken.")}
    assert {"permission", "reminder", "guardrails", "observability"} <= ours.keys()
    for name, entry in ours.items():
        spec = AgentSpec(id="a", model_id="scripted", plugin_ids=(name,))
        resolved = AgentRuntime([spec]).registry.snapshot().resolve("a")
        assert type(resolved.env.plugins[-1]) is entry.load()


class Refusing(Plugin):
    name = "refusing"

    def register(self, registrar: PluginRegistrar) -> None:
        registrar.gate(_refuse)


async def _refuse(_: Any) -> Block:
    return Block(reason="no")


def test_an_agent_cannot_switch_off_what_every_agent_has() -> None:
    async def scenario() -> None:
        model = ScriptedModel([ToolCalls([("first", {})]), "done"])
        spec = AgentSpec(id="a", model_id="m", active_hook_filter=("other",))
        runtime = AgentRuntime(
            [spec],
            tools=[first],
            providers={"m": model},
            everywhere=[Refusing()],
        )
        async with runtime:
            result = await runtime.run("a", "go")
        assert isinstance(result.termination, Blocked)

    asyncio.run(scenario())
    own = Agent("a", model=ScriptedModel([]), plugins=[Refusing()])
    with pytest.raises(InvalidSpec, match="refusing"):
        AgentRuntime([own], everywhere=[Refusing()])


class Confused(Plugin):
    name = "confused"

    def prepare(self, agent: AgentSpec, tools: Mapping[str, ToolDescriptor]) -> Any:
        return {}["nothing"]


def test_a_plugin_that_cannot_prepare_is_named() -> None:
    with pytest.raises(InvalidSpec, match=r"confused.*KeyError"):
        AgentRuntime([Agent("a", model=ScriptedModel([]), plugins=[Confused()])])


def test_a_runtime_that_could_not_be_opened_is_opened_again_by_the_next_request() -> None:
    class Late(Growing):
        name = "late"

        def register(self, registrar: PluginRegistrar) -> None: ...

        async def open(self, host: PluginHost) -> None:
            await super().open(host)
            if len(self.life) == 1:
                message = "not yet"
                raise OSError(message)

    async def scenario() -> None:
        late = Late()
        runtime = AgentRuntime([Agent("a", model=ScriptedModel(["hi"]), plugins=[late])])
        async with AsyncExitStack() as stack:
            with pytest.raises(PluginFailed):
                await runtime._ensure_open(stack)
            # As a server does with each request until it is open.
            await runtime._ensure_open(stack)
            assert (await runtime.run("a", "go")).text == "hi"
        assert late.life == ["open", "close", "open", "close"]

    asyncio.run(scenario())
