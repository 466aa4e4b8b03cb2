"""The registry of three layers: what a change concerns, what it leaves alone, what it may break."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from awaken import AgentSpec, ModelSpec, Plugin, PluginRegistrar, tool
from awaken.backends.local import LocalBackend
from awaken.bootstrap.registries import registry_set
from awaken.contracts.config.errors import AgentUnusable
from awaken.contracts.errors import InvalidSpec, UnknownAgent
from awaken.contracts.models.model_specs import ModelPool, PoolMember
from awaken.contracts.plugins.plugin import ConfigSection
from awaken.contracts.specs.agents import RemoteEndpoint
from awaken.runtime.resolution import snapshots
from awaken.runtime.resolution.layers import DiscoveredLayer, ManagedLayer
from awaken.runtime.resolution.registries import AgentSource, RegistrySet
from awaken.runtime.resolution.registry import RESOLVED_AT_ONCE, RegistryHandle
from awaken.runtime.resolution.resolver import resolve
from awaken.runtime.resolution.snapshots import RegistrySnapshot
from awaken.testing import ScriptedModel


def named(tool_id: str, description: str = "Does something.") -> Any:
    @tool(id=tool_id, effect="none", description=description)
    async def anything() -> str:
        return tool_id

    return anything


class Growing(Plugin):
    """Offers the tools that it has now."""

    def __init__(self, name: str = "growing", *tools: Any) -> None:
        self.name = name
        self.tools = [*tools]

    def register(self, registrar: PluginRegistrar) -> None:
        for it in self.tools:
            registrar.tool(it)


class Naming(Plugin):
    """Has a section that names agents."""

    name = "naming"

    def config_sections(self) -> list[ConfigSection]:
        return [ConfigSection.of("naming", Names, agent_fields=("agents",))]


class Names(msgspec.Struct, forbid_unknown_fields=True):
    agents: tuple[str, ...] = ()


def spec(agent_id: str, **fields: Any) -> AgentSpec:
    return AgentSpec(id=agent_id, **{"model_id": "scripted", **fields})


def source(agent_id: str, **fields: Any) -> AgentSource:
    return AgentSource(spec=spec(agent_id, **fields))


def code(*agents: AgentSpec, tools: Iterable[Any] = (), plugins: Iterable[Plugin] = ()) -> Any:
    model = ScriptedModel(["hi"], cycle=True)
    providers = {"scripted": model, "other": model}
    return registry_set(agents, tools, plugins, providers, {})


def layer(*agents: AgentSource, no: int | None = 1, **fields: Any) -> ManagedLayer:
    return ManagedLayer(publication=no, agents={it.spec.id: it for it in agents}, **fields)


class Resolved:
    """The agents that were resolved, and how many of them between two turns of the event loop."""

    def __init__(self) -> None:
        self.agents: list[str] = []
        self.batches: list[int] = [0]

    def __call__(self, registries: RegistrySet, agent_id: str) -> Any:
        self.agents.append(agent_id)
        self.batches[-1] += 1
        return resolve(registries, agent_id)

    def take(self) -> list[str]:
        taken, self.agents = sorted(self.agents), []
        return taken


@pytest.fixture
def resolved(monkeypatch: pytest.MonkeyPatch) -> Resolved:
    recorder = Resolved()
    monkeypatch.setattr(snapshots, "resolve", recorder)
    return recorder


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(20):
            await scenario()

    asyncio.run(bounded())


def agents_of(snapshot: RegistrySnapshot) -> dict[str, Any]:
    return {name: snapshot.resolve(name) for name in snapshot.usable_agents()}


# ---- what is resolved again ----


def test_one_changed_agent_of_five_hundred_is_one_resolve(resolved: Resolved) -> None:
    async def scenario() -> None:
        handle = RegistryHandle(code(spec("code")))
        sources = [source(f"a{number}") for number in range(500)]
        await handle.install(await handle.prepare(layer(*sources)))
        before = agents_of(handle.snapshot())
        resolved.take()
        sources[250] = source("a250", system_prompt="Be brief.")
        await handle.install(await handle.prepare(layer(*sources, no=2)))
        assert resolved.take() == ["a250"]
        after = agents_of(handle.snapshot())
        assert [name for name, it in after.items() if it is not before[name]] == ["a250"]
        assert after["a250"].system == ("Be brief.",)
        assert handle.snapshot().publication == 2

    run(scenario)


def test_a_renewed_plugin_concerns_its_own_agents_only(resolved: Resolved) -> None:
    async def scenario() -> None:
        shared, own, general = Growing(), Growing("own"), Growing("general")
        named_plugin = spec("names-it", plugin_ids=("growing",))
        registries = code(named_plugin, spec("plain"), plugins=[shared])
        has_own = AgentSource(spec=spec("has-own", plugin_ids=("own",)), plugins=(own,))
        handle = RegistryHandle(registries.with_agent(has_own))
        resolved.take()
        for plugin, agent in ((shared, "names-it"), (own, "has-own")):
            plugin.tools.append(named(f"tool_of_{plugin.name}"))
            assert await handle.renew(plugin) == handle.version
            assert resolved.take() == [agent]
            assert f"tool_of_{plugin.name}" in handle.snapshot().resolve(agent).tools
        everywhere = replace(registries, plugins={"general": general}, everywhere=("general",))
        handle = RegistryHandle(replace(everywhere, agents={"plain": source("plain")}))
        resolved.take()
        await handle.renew(general)
        assert resolved.take() == ["plain"]

    run(scenario)


def _pool() -> ModelPool:
    members = (PoolMember(model_id="fast"), PoolMember(model_id="other:deep"))
    return ModelPool(id="pool", members=members)


def _model(model_id: str, **fields: Any) -> ModelSpec:
    values = {"provider_id": "scripted", "upstream_model": model_id, **fields}
    return ModelSpec(id=model_id, **values)


BASE = [
    spec("plain"),
    spec("fast", model_id="fast"),
    spec("pooled", model_id="pool"),
    spec("other", model_id="other:deep"),
    spec("caller", delegates=("plain",)),
    spec("narrow", allowed_tools=("read_*",)),
    spec("names", plugin_ids=("naming",), sections={"naming": {"agents": ["fast"]}}),
]
EVERY = sorted(it.id for it in BASE)
OFFERED_ALL = sorted({*EVERY} - {"narrow"})


def _full_code() -> RegistrySet:
    registries: RegistrySet = code(*BASE, tools=[named("read_file")], plugins=[Naming()])
    return replace(registries, models={"fast": _model("fast"), "pool": _pool()})


def _with(kind: str, **entries: Any) -> Callable[[RegistrySet], RegistrySet]:
    def change(registries: RegistrySet) -> RegistrySet:
        return replace(registries, **{kind: {**getattr(registries, kind), **entries}})

    return change


@pytest.mark.parametrize(
    ("change", "again"),
    [
        (lambda it: it, []),
        (_with("models", fast=_model("fast", options={"a": 1})), ["fast", "pooled"]),
        (_with("models", unused=_model("unused")), []),
        (_with("providers", other=ScriptedModel(["hi"])), ["other", "pooled"]),
        (_with("plugins", naming=Naming()), ["names"]),
        (_with("agents", plain=source("plain", description="Knows all.")), ["caller", "plain"]),
        (_with("agents", plain=source("plain", max_rounds=3)), ["plain"]),
        (_with("agents", more=source("more")), ["more"]),
        (_with("tools", read_file=named("read_file", "Another.")), EVERY),
        (_with("tools", write_file=named("write_file")), OFFERED_ALL),
        (lambda it: replace(it, disabled_tools=frozenset({"read_file"})), EVERY),
        (_with("backends", local=LocalBackend()), EVERY),
        (lambda it: replace(it, local_name="home"), EVERY),
        (lambda it: replace(it, remotes={"far": "https://far.example"}), EVERY),
    ],
    ids=[
        "nothing", "model", "unused model", "provider", "plugin", "description", "other field",
        "new agent", "tool", "new tool", "disabled tool", "backend", "local name", "remotes",
    ],
)  # fmt: skip
def test_a_change_of_the_code_resolves_the_agents_that_read_it(
    change: Callable[[RegistrySet], RegistrySet], again: list[str], resolved: Resolved
) -> None:
    handle = RegistryHandle(_full_code())
    assert resolved.take() == EVERY
    handle.update(change)
    assert resolved.take() == again
    changed = handle.snapshot()
    fresh = RegistryHandle(changed.registries).snapshot()
    for name in changed.registries.agents:
        kept, anew = changed.resolve(name), fresh.resolve(name)
        assert (kept.spec, kept.models, kept.model_tools) == (
            anew.spec, anew.models, anew.model_tools,
        )  # fmt: skip


def test_an_agent_that_is_gone_breaks_those_that_name_it() -> None:
    handle = RegistryHandle(_full_code())
    for gone, user in (("plain", "caller"), ("fast", "names")):

        def remove(it: RegistrySet, gone: str = gone) -> RegistrySet:
            return replace(it, agents={name: at for name, at in it.agents.items() if name != gone})

        version = handle.version
        with pytest.raises(InvalidSpec, match=f"'{user}'.*{gone}"):
            handle.update(remove)
        assert handle.version == version


def test_a_plain_name_that_a_nearer_agent_takes_over_is_looked_up_again(
    resolved: Resolved,
) -> None:
    async def scenario() -> None:
        registries = replace(
            code(spec("caller", delegates=("far/helper",)), spec("mine")),
            remotes={"far": "https://far.example"},
            backends={**code().backends, "a2a": LocalBackend()},
        )
        handle = RegistryHandle(registries)
        await handle.update_discovered(_discover("helper", "Helps."))
        resolved.take()
        handle.update(lambda it: it.with_agent(source("user", delegates=("helper",))))
        assert resolved.take() == ["user"]
        handle.update(lambda it: it.with_agent(source("helper", description="Is nearer.")))
        assert resolved.take() == ["helper", "user"]
        (offered,) = handle.snapshot().resolve("user").model_tools
        assert offered.description.startswith("Is nearer.")

    run(scenario)


def _discover(name: str, description: str) -> Callable[[DiscoveredLayer], DiscoveredLayer]:
    endpoint = RemoteEndpoint(backend="a2a", base_url="https://far.example/a2a")
    found = AgentSpec(id=f"far/{name}", description=description, endpoint=endpoint, registry="far")
    return lambda it: it.with_agent(AgentSource(spec=found), "far", "https://far.example")


@pytest.mark.parametrize("count", [500, 1_600])
def test_the_event_loop_gets_a_turn_after_every_twenty_agents(
    count: int, resolved: Resolved
) -> None:
    async def scenario() -> None:
        plugin = Growing()
        handle = RegistryHandle(code(plugins=[plugin]))
        sources = [source(f"a{number}", plugin_ids=("growing",)) for number in range(count)]
        resolved.take()

        async def watch() -> None:
            while True:
                resolved.batches.append(0)
                await asyncio.sleep(0)

        watching = asyncio.create_task(watch())
        prepared = await handle.prepare(layer(*sources))
        assert len(resolved.take()) == count
        await handle.install(prepared)
        assert resolved.take() == []
        await handle.renew(plugin)
        assert len(resolved.take()) == count
        watching.cancel()
        assert max(resolved.batches) <= RESOLVED_AT_ONCE == 20

    run(scenario)


# ---- layers ----


def test_each_layer_is_replaced_alone() -> None:
    async def scenario() -> None:
        registries = replace(code(spec("mine")), remotes={"far": "https://far.example"})
        backends = {**registries.backends, "a2a": LocalBackend()}
        handle = RegistryHandle(replace(registries, backends=backends))
        await handle.update_discovered(_discover("one", "First."))
        await handle.install(await handle.prepare(layer(source("managed"))))
        await handle.update_discovered(_discover("two", "Second."))
        handle.update(lambda it: it.with_agent(source("more")))
        assert sorted(handle.snapshot().registries.agents) == ["far/two", "managed", "mine", "more"]
        await handle.install(await handle.prepare(layer(no=2)))
        assert sorted(handle.snapshot().registries.agents) == ["far/two", "mine", "more"]
        assert handle.version == 6

    run(scenario)


def test_no_update_is_lost_when_several_overlap() -> None:
    async def scenario() -> None:
        plugin = Growing()
        count = RESOLVED_AT_ONCE * 3
        agents = [spec(f"a{number}", plugin_ids=("growing",)) for number in range(count)]
        registries = replace(code(*agents, plugins=[plugin]), remotes={"far": "https://f.example"})
        backends = {**registries.backends, "a2a": LocalBackend()}
        handle = RegistryHandle(replace(registries, backends=backends))
        prepared = await handle.prepare(layer(source("managed")))
        plugin.tools.append(named("late"))
        updates = [
            asyncio.create_task(handle.renew(plugin)),
            asyncio.create_task(handle.install(prepared)),
            asyncio.create_task(handle.update_discovered(_discover("one", "First."))),
        ]
        await asyncio.sleep(0)
        handle.update(lambda it: it.with_agent(source("meanwhile", plugin_ids=("growing",))))
        await asyncio.gather(*updates)
        snapshot = handle.snapshot()
        assert {"managed", "meanwhile", "far/one", "a0"} <= {*snapshot.registries.agents}
        for name in ("a0", "a59", "meanwhile"):
            assert "late" in snapshot.resolve(name).tools
        assert handle.version == 5

    run(scenario)


@pytest.mark.parametrize("kind", ["renew", "discover"])
def test_code_that_is_replaced_during_another_update_stays(kind: str) -> None:
    async def scenario() -> None:
        plugin = Growing()
        names = [f"a{number}" for number in range(RESOLVED_AT_ONCE * 3)]
        agents = [spec(name, plugin_ids=("growing",), delegates=("far/one",)) for name in names]
        registries = replace(code(*agents, plugins=[plugin]), remotes={"far": "https://f.example"})
        backends = {**registries.backends, "a2a": LocalBackend()}
        handle = RegistryHandle(replace(registries, backends=backends))
        await handle.update_discovered(_discover("one", "First."))
        update = (
            handle.renew(plugin)
            if kind == "renew"
            else handle.update_discovered(_discover("one", "Second."))
        )
        updating = asyncio.create_task(update)
        await asyncio.sleep(0)
        handle.update(lambda it: it.with_agent(source("meanwhile")))
        assert not updating.done()
        await updating
        assert "meanwhile" in handle.snapshot().registries.agents

    run(scenario)


def test_a_renewal_that_an_agent_cannot_bear_changes_nothing_and_is_forgotten() -> None:
    async def scenario() -> None:
        plugin = Growing()
        own = AgentSource(spec=spec("a", plugin_ids=("growing",)), tools={"same": named("same")})
        handle = RegistryHandle(code(plugins=[plugin]).with_agent(own))
        before = handle.snapshot()
        plugin.tools.append(named("same"))
        with pytest.raises(InvalidSpec, match="same"):
            await handle.renew(plugin)
        assert handle.snapshot() is before
        plugin.tools = [named("good")]
        await handle.renew(plugin)
        assert {*handle.snapshot().resolve("a").tools} == {"same", "good"}

    run(scenario)


def test_what_changes_after_a_layer_was_prepared_is_in_it_when_it_is_installed() -> None:
    async def scenario() -> None:
        plugin = Growing()
        handle = RegistryHandle(code(spec("mine"), plugins=[plugin]))
        prepared = await handle.prepare(layer(source("managed", plugin_ids=("growing",))))
        assert handle.snapshot().publication is None
        assert "managed" not in handle.snapshot().registries.agents
        plugin.tools.append(named("late"))
        await handle.renew(plugin)
        handle.update(lambda it: it.with_agent(source("more")))
        await handle.install(prepared)
        assert "late" in handle.snapshot().resolve("managed").tools
        assert "more" in handle.snapshot().registries.agents
        assert handle.snapshot().publication == 1

    run(scenario)


# ---- what cannot be used here ----


def test_a_layer_with_bad_agents_is_prepared_and_says_which_cannot_be_used() -> None:
    async def scenario() -> None:
        handle = RegistryHandle(code(spec("mine"), spec("both")))
        bad = layer(
            source("good"),
            source("broken", plugin_ids=("nowhere",)),
            source("calls-broken", delegates=("broken",)),
            source("calls-caller", delegates=("calls-broken", "good")),
            source("odd", excluded_tools=("nothing_*",)),
            unusable={"unreadable": "it is of a newer version", "both": "the code has it too"},
        )
        prepared = await handle.prepare(bad)
        assert sorted(prepared.unusable) == [
            "both", "broken", "calls-broken", "calls-caller", "unreadable",
        ]  # fmt: skip
        assert any("nothing_*" in warning for warning in prepared.warnings)
        await handle.install(prepared)
        snapshot = handle.snapshot()
        assert sorted(snapshot.usable_agents()) == ["good", "mine", "odd"]
        for name, problem in (
            ("broken", "nowhere"),
            ("calls-broken", "delegate 'broken'"),
            ("calls-caller", "delegate 'calls-broken'"),
            ("unreadable", "newer version"),
            ("local/both", "the code has it too"),
        ):
            with pytest.raises(AgentUnusable, match=problem):
                snapshot.resolve(name)
        with pytest.raises(UnknownAgent):
            snapshot.resolve("never")
        # What was broken before does not prevent other updates, and can be repaired.
        handle.update(lambda it: replace(it, plugins={"nowhere": Growing("nowhere")}))
        assert sorted(handle.snapshot().unusable) == ["both", "unreadable"]

    run(scenario)


def test_an_update_of_another_layer_may_not_break_a_managed_agent() -> None:
    async def scenario() -> None:
        plugin = Growing()
        handle = RegistryHandle(code(spec("mine"), plugins=[plugin]))
        await handle.install(await handle.prepare(layer(source("m", plugin_ids=("growing",)))))
        before = handle.snapshot()
        with pytest.raises(InvalidSpec, match="growing"):
            handle.update(lambda it: replace(it, plugins={}))
        assert handle.snapshot() is before

    run(scenario)


def test_disabled_tools_are_offered_by_none() -> None:
    async def scenario() -> None:
        plugin = Growing("growing", named("grown"))
        own = AgentSource(spec=spec("a", plugin_ids=("growing",)), tools={"own": named("own")})
        registries = code(tools=[named("shared")], plugins=[plugin]).with_agent(own)
        handle = RegistryHandle(registries)
        disabled = frozenset({"own", "grown", "shared"})
        for taken in ({"own"}, {"grown", "shared"}):
            await handle.install(
                await handle.prepare(layer(disabled_tools=disabled - frozenset(taken)))
            )
            assert {*handle.snapshot().resolve("a").tools} == taken

    run(scenario)
