"""Registries and resolution: what can be named, what fits, and what is refused before the swap."""

import asyncio
from typing import Any

import msgspec
import pytest

from awaken import Agent, AgentRuntime, AgentSpec, ModelSpec, Plugin, PluginRegistrar, tool
from awaken.backends.local import LocalBackend
from awaken.bootstrap.registries import registry_set, source_of
from awaken.contracts.errors import (
    AwakenError,
    DuplicateRegistration,
    InvalidPluginConfig,
    InvalidSpec,
    UnknownAgent,
    UnknownReference,
)
from awaken.contracts.models.inference import InferenceOverride
from awaken.contracts.models.model_specs import ModelPool, PoolMember, PoolRole, PoolRouting
from awaken.contracts.plugins.plugin import ConfigSection
from awaken.contracts.specs.agents import ContentMatch, RemoteEndpoint
from awaken.runtime.resolution.models import ModelRoute
from awaken.runtime.resolution.registries import AgentSource, RegistrySet
from awaken.runtime.resolution.registry import RegistryHandle
from awaken.runtime.resolution.resolver import ResolvedAgent
from awaken.runtime.resolution.snapshots import RegistrySnapshot
from awaken.testing import ScriptedModel


def named(tool_id: str) -> Any:
    @tool(id=tool_id, effect="none", description=f"Does {tool_id}.")
    async def anything() -> str:
        return tool_id

    return anything


class Shouting(Plugin):
    """Brings a tool and reads one section."""

    name = "shouting"

    def __init__(self, tool_id: str = "shout") -> None:
        self._tool = named(tool_id)

    def register(self, registrar: PluginRegistrar) -> None:
        registrar.tool(self._tool)

    def config_sections(self) -> list[ConfigSection]:
        return [ConfigSection.of("volume", Volume)]


class Volume(msgspec.Struct, forbid_unknown_fields=True):
    level: int = 3


GLOBAL = [named("read_file"), named("read_mail"), named("write_file")]


def resolved(agent: Agent, **shared: Any) -> Any:
    registries = registry_set(
        [agent], shared.get("tools", GLOBAL), shared.get("plugins", ()), {}, {}
    )
    return RegistrySnapshot(1, registries).resolve(agent.id)


def agent(**fields: Any) -> Agent:
    return Agent("a", **{"model": ScriptedModel([]), **fields})


@pytest.mark.parametrize(
    ("fields", "offered"),
    [
        ({}, ["read_file", "read_mail", "write_file"]),
        ({"tools": [named("own")]}, ["own", "read_file", "read_mail", "write_file"]),
        ({"allowed_tools": ["read_*"]}, ["read_file", "read_mail"]),
        ({"allowed_tools": []}, []),
        ({"excluded_tools": ["*_file"]}, ["read_mail"]),
        ({"allowed_tools": ["read_*"], "excluded_tools": ["read_mail"]}, ["read_file"]),
        ({"allowed_tools": ["READ_*"]}, []),
        (
            {"plugins": [Shouting()], "excluded_tools": ["read_*"]},
            ["shout", "write_file"],
        ),
        ({"plugins": [Shouting()], "allowed_tools": ["shout"]}, ["shout"]),
    ],
)
def test_an_agent_is_offered_the_tools_its_lists_leave_sorted_by_id(
    fields: dict[str, Any], offered: list[str]
) -> None:
    found = resolved(agent(**fields))
    assert [model_tool.id for model_tool in found.model_tools] == offered
    assert sorted(found.tools) == offered


def test_a_pattern_that_matches_nothing_is_reported_and_harmless() -> None:
    found = resolved(agent(allowed_tools=["read_*", "reed_*"], excluded_tools=["nothing"]))
    assert found.diagnostics == (
        "Agent 'a': tool pattern 'reed_*' matches nothing.",
        "Agent 'a': tool pattern 'nothing' matches nothing.",
    )


def test_a_delegate_that_can_never_be_asked_or_is_listed_twice_is_reported() -> None:
    agents = [agent(delegates=["a", "b", "local/b"]), Agent("b", model="scripted")]
    found = RegistrySnapshot(1, registry_set(agents, GLOBAL, [], {}, {})).resolve("a")
    assert found.diagnostics == (
        "Agent 'a': it is its own delegate, but an agent cannot delegate to itself.",
        "Agent 'a': delegate 'b' is listed 2 times.",
    )


def test_a_pattern_that_matches_nothing_is_warned_about_when_the_registry_is_validated(
    caplog: pytest.LogCaptureFixture,
) -> None:
    handle = RegistryHandle(
        registry_set([agent(allowed_tools=["read_*", "reed_*"])], GLOBAL, [], {}, {})
    )
    handle.snapshot().resolve("a")
    assert [(each.levelname, each.message) for each in caplog.records] == [
        ("WARNING", "Agent 'a': tool pattern 'reed_*' matches nothing.")
    ]
    caplog.clear()
    with pytest.raises(InvalidSpec):
        handle.update(lambda old: old.with_agent(source_of(Agent("b", model="nowhere"))))
    assert caplog.records == []


def test_what_the_agent_says_is_what_runs() -> None:
    spoken = agent(model=ModelSpec(id="m", provider_id="scripted", upstream_model="tiny"))
    found = resolved(spoken)
    assert found.upstream_model == "tiny"
    assert found.models[0].client.name == "scripted"
    assert resolved(Agent("a", model="scripted:large")).upstream_model == "large"
    assert resolved(Agent("a", model="scripted", instructions="Hi.")).system == ("Hi.",)
    assert isinstance(found.backend, LocalBackend)


@pytest.mark.parametrize(
    ("fields", "error", "words"),
    [
        (
            {"model": "opnai:gpt"},
            UnknownReference,
            [
                "Agent 'a': no provider 'opnai' is registered",
                "pass providers={'opnai': ProviderSpec(…)} or a client",
                "known: scripted",
            ],
        ),
        ({"delegates": ["nobody"]}, UnknownReference, ["agent 'nobody'", "known: a"]),
        ({"plugins": [Shouting("read_file")]}, DuplicateRegistration, ["read_file"]),
        ({"tools": [named("write_file")]}, DuplicateRegistration, ["write_file"]),
        (
            {"plugins": [Shouting()], "config": {"volume": {"level": "loud"}}},
            InvalidPluginConfig,
            ["volume", "level"],
        ),
        (
            {"plugins": [Shouting()], "config": {"volume": {"lvl": 3}}},
            InvalidPluginConfig,
            ["volume", "lvl"],
        ),
        (
            {"plugins": [Shouting()], "config": {"volum": {}}},
            InvalidPluginConfig,
            ["volum", "known sections:", "volume"],
        ),
        ({"stop": [ContentMatch(pattern="(")]}, InvalidSpec, ["RE2"]),
    ],
)
def test_an_agent_that_cannot_run_is_refused_by_name_before_it_is_registered(
    fields: dict[str, Any], error: type[AwakenError], words: list[str]
) -> None:
    with pytest.raises(error) as refused:
        resolved(agent(**fields))
    assert all(word in str(refused.value) for word in words)
    with pytest.raises(InvalidSpec, match="Agent 'a'"):
        AgentRuntime(agents=[agent(**fields)], tools=GLOBAL)


def test_a_spec_may_name_only_what_is_registered() -> None:
    spec = AgentSpec(id="a", model_id="scripted", plugin_ids=("gone",))
    registries = registry_set([], [], [], {}, {}).with_agent(AgentSource(spec=spec))
    with pytest.raises(UnknownReference, match="plugin 'gone'"):
        RegistrySnapshot(1, registries).resolve("a")
    remote = AgentSpec(
        id="a",
        model_id="scripted",
        endpoint=RemoteEndpoint(base_url="http://127.0.0.1", backend="b"),
    )
    with pytest.raises(UnknownReference, match="backend 'b'"):
        RegistrySnapshot(1, registries.with_agent(AgentSource(spec=remote))).resolve("a")
    with pytest.raises(UnknownAgent, match="known agents: a"):
        RegistrySnapshot(1, registries).resolve("b")
    with pytest.raises(UnknownAgent, match="no agent was named and the thread has none"):
        RegistrySnapshot(1, registries).resolve("default")


def test_an_agent_may_be_a_spec_that_names_what_the_runtime_has() -> None:
    spec = AgentSpec(
        id="a",
        model_id="small",
        plugin_ids=["shouting"],  # type: ignore[arg-type]  # Becomes what the field says.
        allowed_tools=("shout",),
        sections={"volume": {"level": 1}},
    )
    small = ModelSpec(id="small", provider_id="mine", upstream_model="tiny")
    model = ScriptedModel(["hello"])

    async def scenario() -> str:
        runtime = AgentRuntime(
            [spec, Agent("b", model=small)],
            tools=GLOBAL,
            plugins=[Shouting()],
            models=[small],
            providers={"mine": model},
        )
        async with runtime:
            return (await runtime.run("a", "hi")).text

    assert asyncio.run(scenario()) == "hello"
    (request,) = model.requests
    assert request.upstream_model == "tiny"
    assert [each.id for each in request.tools] == ["shout"]


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"model_id": 5}, "model_id"),
        ({"delegates": "other"}, "delegates"),
        ({"sections": {"x": object()}}, "object"),
    ],
)
def test_a_spec_made_in_code_is_checked_when_it_is_registered(
    fields: dict[str, Any], word: str
) -> None:
    with pytest.raises(InvalidSpec, match=word):
        AgentRuntime([AgentSpec(**{"id": "a", "model_id": "scripted", **fields})])


def test_two_different_models_of_one_id_are_refused() -> None:
    small, large = (
        ModelSpec(id="m", provider_id="scripted", upstream_model=name) for name in ("s", "l")
    )
    AgentRuntime([Agent("a", model=small), Agent("b", model=small)], models=[small])
    for agents, models in (([Agent("a", model=small), Agent("b", model=large)], []),
                           ([], [small, small]), ([Agent("a", model=small)], [large])):  # fmt: skip
        with pytest.raises(DuplicateRegistration, match="Model 'm'"):
            AgentRuntime(agents, models=models)


@pytest.mark.parametrize("kind", ["agents", "tools", "plugins"])
def test_two_things_of_one_kind_with_one_id_are_refused(kind: str) -> None:
    twice: dict[str, Any] = {
        "agents": [agent(), agent()],
        "tools": [named("x"), named("x")],
        "plugins": [Shouting(), Shouting()],
    }
    with pytest.raises(DuplicateRegistration):
        AgentRuntime(**{kind: twice[kind]})


def test_a_new_registry_is_validated_whole_and_an_invalid_one_changes_nothing() -> None:
    handle = RegistryHandle(registry_set([agent()], [], [], {}, {}))
    before = handle.snapshot()
    assert handle.version == 1
    with pytest.raises(InvalidSpec, match=r"Agent 'b': .*; Agent 'c': "):
        handle.update(
            lambda old: old.with_agent(source_of(Agent("b", model="nowhere"))).with_agent(
                source_of(Agent("c", model="nowhere"))
            )
        )
    assert handle.snapshot() is before
    assert handle.update(lambda old: old.with_agent(source_of(Agent("b", model="scripted")))) == 2
    assert sorted(handle.snapshot().registries.agents) == ["a", "b"]
    assert sorted(before.registries.agents) == ["a"]
    assert handle.replace(RegistrySet()) == 3


def test_a_run_keeps_the_registry_it_started_with() -> None:
    async def scenario() -> list[str]:
        started, go_on = asyncio.Event(), asyncio.Event()

        async def slow(_request: Any) -> str:
            started.set()
            await go_on.wait()
            return "old"

        async with AgentRuntime(agents=[agent(model=ScriptedModel([slow]))]) as runtime:
            first = await runtime.start("a", "hello")
            await started.wait()
            new = source_of(agent(model=ScriptedModel(["new"])))
            runtime.registry.update(lambda old: old.with_agent(new))
            go_on.set()
            answers = [(await first.result()).text, (await runtime.run("a", "hello")).text]
            return [*answers, str(runtime.registry.version)]

    assert asyncio.run(scenario()) == ["old", "new", "2"]


POOL = ModelPool(
    id="pool", members=(PoolMember(model_id="small"), PoolMember(model_id="scripted:large"))
)
SMALL = ModelSpec(id="small", provider_id="scripted", upstream_model="tiny")


def routed(speaker: Agent, *models: ModelSpec | ModelPool) -> ResolvedAgent:
    registries = registry_set([speaker], GLOBAL, [], {}, {}, models)
    return RegistrySnapshot(1, registries).resolve("a")


@pytest.mark.parametrize("model", ["pool", POOL])
def test_an_agent_may_name_a_pool_like_a_model(model: Any) -> None:
    found = routed(agent(model=model), SMALL, *([POOL] if model == "pool" else []))
    assert [route.id for route in found.models] == ["small", "scripted:large"]
    assert [route.spec.upstream_model for route in found.models] == ["tiny", "large"]
    assert found.pool == POOL
    assert routed(agent(model="small"), SMALL).pool is None


def test_a_client_of_the_agents_own_is_its_only_route() -> None:
    model = ScriptedModel(["x"])
    (route,) = routed(agent(model=model)).models
    assert route.client is model
    assert route.id == "a:model"


def test_clients_can_be_replaced_on_every_route() -> None:
    found = routed(agent(model=POOL), SMALL)
    other = ScriptedModel([])
    assert {id(it.client) for it in found.with_clients(lambda _: other).models} == {id(other)}
    assert found.models[0].client.name == "scripted"
    assert all(it.client is not other for it in found.models)


@pytest.mark.parametrize(
    ("members", "words"),
    [
        (["nowhere:x"], ["Pool 'bad'", "no provider 'nowhere'"]),
        (["gone"], ["Pool 'bad'", "no provider 'gone'"]),
        (["pool"], ["Pool 'bad'", "'pool' is invalid: it is a pool"]),
        ([" "], ["Pool 'bad'", "provider:model"]),
    ],
)
def test_a_pool_with_a_member_that_is_no_model_is_refused_even_if_nobody_uses_it(
    members: list[str], words: list[str]
) -> None:
    bad = ModelPool(id="bad", members=tuple(PoolMember(model_id=name) for name in members))
    with pytest.raises(InvalidSpec) as refused:
        AgentRuntime(models=[POOL, SMALL, bad])
    assert all(word in str(refused.value) for word in words)


def test_a_pool_and_a_model_cannot_have_one_id() -> None:
    twin = ModelSpec(id="pool", provider_id="scripted", upstream_model="x")
    with pytest.raises(DuplicateRegistration, match="Model 'pool'"):
        AgentRuntime(models=[SMALL, POOL, twin])
    with pytest.raises(DuplicateRegistration, match="Model 'pool'"):
        AgentRuntime([Agent("b", model=twin)], models=[SMALL, POOL])


@pytest.mark.parametrize("name", [" ", ":x"])
def test_a_model_without_a_name_is_refused_and_says_how_to_write_it(name: str) -> None:
    with pytest.raises(InvalidSpec, match="provider:model"):
        AgentRuntime([AgentSpec(id="a", model_id=name)])


@pytest.mark.parametrize("is_shared", [False, True])
def test_words_in_a_pool_made_in_code_become_what_they_mean(is_shared: bool) -> None:
    member: Any = {"model_id": "scripted", "role": "failover_only"}
    pool = ModelPool(
        id="p",
        members=(PoolMember(model_id="scripted:a"), PoolMember(**member)),
        routing="round_robin",  # type: ignore[arg-type]  # As somebody without a type checker does.
    )
    runtime = AgentRuntime(
        [agent(model="p" if is_shared else pool)], models=[pool] if is_shared else []
    )
    found = runtime.registry.snapshot().resolve("a").pool
    assert found is not None
    assert found.routing is PoolRouting.ROUND_ROBIN
    assert found.members[1].role is PoolRole.FAILOVER_ONLY


def route(**fields: Any) -> ModelRoute:
    spec = ModelSpec(id="m", provider_id="p", upstream_model="u", **fields)
    return ModelRoute(spec=spec, client=ScriptedModel([]))


def test_a_models_own_options_go_into_every_call_and_what_is_asked_for_wins() -> None:
    asked = InferenceOverride(temperature=0.5, provider_options={"seed": 1, "tier": "flex"})
    merged = route(options={"tier": "auto", "user": "x"}).overrides(asked)
    assert merged == InferenceOverride(
        temperature=0.5, provider_options={"tier": "flex", "user": "x", "seed": 1}
    )
    assert route(options={"a": 1}).overrides(None) == InferenceOverride(provider_options={"a": 1})
    assert route().overrides(asked) is asked
    assert route().overrides(None) is None


@pytest.mark.parametrize(("asked", "sent"), [(None, 100), (50, 50), (100, 100), (500, 100)])
def test_no_answer_is_asked_to_be_longer_than_the_models_limit(
    asked: int | None, sent: int
) -> None:
    given = None if asked is None else InferenceOverride(max_tokens=asked)
    found = route(max_output_tokens=100).overrides(given)
    assert found is not None
    assert found.max_tokens == sent
