"""The compiler: records become what agents name, problems have paths, what stays is the same."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from functools import wraps
from typing import Any

import msgspec

from awaken import Agent, tool
from awaken.bootstrap.config_compiler import CompiledLayer, CompilerParts, RuntimeConfigCompiler
from awaken.bootstrap.config_kinds import config_kinds
from awaken.bootstrap.providers import Connections, provider_clients
from awaken.bootstrap.registries import registry_set, with_everywhere
from awaken.contracts.config.compiler import CompiledConfig, EffectiveConfig, EffectiveRecord
from awaken.contracts.config.publications import OVERRIDE, USER, encode_canonical, hash_object
from awaken.contracts.errors import AwakenError, PluginFailed
from awaken.contracts.models.budgets import Budget, BudgetScope, TenantBudget
from awaken.contracts.models.model_specs import ModelSpec, ProviderSpec
from awaken.contracts.plugins.plugin import Plugin
from awaken.contracts.specs.agents import AgentSpec, decode_spec
from awaken.contracts.specs.remote_registries import RemoteRegistry
from awaken.extensions.mcp import McpPlugin, McpServer, Stdio
from awaken.extensions.skills import Skill, SkillsPlugin, StaticSkills
from awaken.runtime.resolution.layers import DiscoveredLayer, ManagedLayer, compose
from awaken.runtime.resolution.registries import RegistrySet
from awaken.runtime.resolution.registry import RegistrySnapshot
from awaken.testing import ScriptedModel

KINDS = config_kinds()


def in_loop(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """Run a test in an event loop of its own."""

    @wraps(test)
    def run() -> None:
        asyncio.run(test())

    return run


class PreparedSnapshot:
    """The registry of a layer; its agents are resolved like those of a runtime."""

    def __init__(self, code: RegistrySet, layer: ManagedLayer | None) -> None:
        self.layer = layer
        self.registries = compose(code, layer, DiscoveredLayer())
        self.resolved = RegistrySnapshot(1, self.registries)
        self.unusable: dict[str, AwakenError] = {}
        self.warnings: tuple[str, ...] = ()
        for agent_id in self.registries.agents:
            if layer is None or agent_id not in layer.unusable:
                try:
                    self.warnings += self.resolved.resolve(agent_id).diagnostics
                except AwakenError as error:
                    self.unusable[agent_id] = error


class PreparingRegistry:
    """Stands in for the handle of a registry; nothing is resolved incrementally."""

    def __init__(self, code: RegistrySet) -> None:
        self.code = code
        self.current = PreparedSnapshot(code, None)
        self.kept: list[PreparedSnapshot] = []

    def snapshot(self) -> PreparedSnapshot:
        return self.current

    def snapshots(self) -> Iterator[PreparedSnapshot]:
        return iter([*self.kept, self.current])

    async def prepare(self, layer: ManagedLayer) -> PreparedSnapshot:
        return PreparedSnapshot(self.code, layer)

    async def install(self, snapshot: PreparedSnapshot, publication: int | None = None) -> int:
        self.current = snapshot
        return 1

    async def keep(self, snapshot: PreparedSnapshot, publication: int | None = None) -> None:
        self.kept.append(snapshot)


class RecordingOpener:
    """Records which plugins are open."""

    def __init__(self, registry: PreparingRegistry) -> None:
        self.opened: list[Plugin] = []
        self.refused: set[str] = set()
        self._registry = registry

    async def ensure(self, plugins: Iterable[Plugin]) -> None:
        for plugin in plugins:
            if plugin.name in self.refused:
                raise PluginFailed(what="open()", plugin=plugin.name, problem="it hangs")
            if plugin not in self.opened:
                self.opened.append(plugin)

    async def release(self, plugins: Iterable[Plugin]) -> None:
        for plugin in plugins:
            if plugin in self.opened:
                self.opened.remove(plugin)


class RecordingWatcher:
    """Records which registries are watched."""

    def __init__(self) -> None:
        self.remotes: tuple[RemoteRegistry, ...] = ()

    async def apply(self, remotes: Iterable[RemoteRegistry]) -> None:
        self.remotes = tuple(remotes)


class CompilerTrial:
    """A compiler over some code, and what it did."""

    def __init__(self, agents: Iterable[Agent | AgentSpec] = (), **code: Any) -> None:
        connections = Connections()
        clients = provider_clients(code.get("providers", {}), connections)
        registries = registry_set(
            agents,
            code.get("tools", ()),
            code.get("plugins", ()),
            clients,
            {},
            code.get("models", ()),
        )
        registries = with_everywhere(registries, ())
        self.registry = PreparingRegistry(registries)
        self.opener = RecordingOpener(self.registry)
        self.watcher = RecordingWatcher()
        self.compiler = RuntimeConfigCompiler(
            CompilerParts(
                code=registries,
                remotes=tuple(code.get("remotes", ())),
                registry=self.registry,
                plugins=self.opener,
                discovery=self.watcher,
                connections=connections,
            )
        )

    async def compile(
        self, records: Mapping[str, Iterable[dict[str, Any]]], **overrides: dict[str, Any]
    ) -> CompiledConfig:
        """Compile whole records by namespace, and patches of agents and tools by id."""
        found: dict[str, dict[str, EffectiveRecord]] = {}
        for namespace, bodies in records.items():
            kind = KINDS[namespace]
            for body in bodies:
                spec: Any = decode_spec(body, kind.spec)
                name = body.get("id") or body["name"]
                found.setdefault(namespace, {})[name] = EffectiveRecord(
                    spec=spec, hash=hash_object(encode_canonical(body)), source=USER
                )
        for name, patch in overrides.items():
            namespace = "agents" if name in self.compiler.code_records()["agents"] else "tools"
            found.setdefault(namespace, {})[name] = self._override(namespace, name, patch)
        return await self.compiler.compile(EffectiveConfig(publication=1, records=found))

    def _override(self, namespace: str, name: str, patch: dict[str, Any]) -> EffectiveRecord:
        is_hidden = patch.pop("is_hidden", False)
        base = self.compiler.code_records()[namespace][name]
        spec = msgspec.structs.replace(base, **patch)
        hash_ = hash_object(encode_canonical(patch))
        return EffectiveRecord(spec=spec, hash=hash_, source=OVERRIDE, is_hidden=is_hidden)

    def layer(self, compiled: CompiledConfig) -> CompiledLayer:
        """The layer of a compiled configuration without problems."""
        assert compiled.problems == ()
        layer: CompiledLayer = compiled.layer
        return layer


MODEL = {"id": "fast", "provider_id": "acme", "upstream_model": "m-1"}
PROVIDER = {"id": "acme", "adapter": "openai_chat", "base_url": "https://acme.example/v1"}
SUPPORT: dict[str, Any] = {"id": "support", "model_id": "fast"}
WHOLE: dict[str, list[dict[str, Any]]] = {
    "providers": [PROVIDER],
    "models": [MODEL],
    "agents": [SUPPORT],
}


def paths_of(compiled: CompiledConfig) -> dict[str, str]:
    return {it.path: it.code for it in compiled.problems}


@tool
async def look_up(word: str) -> str:
    """Look a word up."""
    return word


@in_loop
async def test_an_agent_a_model_and_a_provider_without_code_can_run() -> None:
    trial = CompilerTrial()
    compiled = await trial.compile(WHOLE)
    layer = trial.layer(compiled)
    assert layer.publication == 1
    await trial.compiler.install(compiled)
    agent = trial.registry.current.resolved.resolve("support")
    assert agent.upstream_model == "m-1"
    assert agent.models[0].client is layer.providers["acme"]


@in_loop
async def test_what_did_not_change_keeps_its_objects() -> None:
    trial = CompilerTrial()
    first = trial.layer(await trial.compile(WHOLE))
    second = trial.layer(await trial.compile({**WHOLE, "budgets": [{"id": "b", "tokens": 1}]}))
    assert second.agents["support"] is first.agents["support"]
    assert second.models["fast"] is first.models["fast"]
    assert second.providers["acme"] is first.providers["acme"]
    moved = [{**PROVIDER, "base_url": "https://other.example/v1"}]
    slower = [{**PROVIDER, "timeout_ms": 1}]
    other = trial.layer(await trial.compile({**WHOLE, "providers": slower}))
    assert other.providers["acme"] is not first.providers["acme"]
    third = trial.layer(await trial.compile({**WHOLE, "providers": moved}))
    assert third.providers["acme"] is not first.providers["acme"]
    assert third.agents["support"] is first.agents["support"]


@in_loop
async def test_unknown_names_are_problems_with_paths_and_known_names() -> None:
    trial = CompilerTrial([Agent("helper", model=ScriptedModel([]))])
    compiled = await trial.compile(
        {
            "models": [{**MODEL, "provider_id": "nowhere"}],
            "model-pools": [{"id": "best", "members": [{"model_id": "nope"}]}],
            "agents": [
                {
                    "id": "support",
                    "model_id": "gpt-6",
                    "delegates": ["helper", "nobody"],
                    "plugin_ids": ["permission", "nonsense"],
                    "sections": {
                        "permission": {"include": ["strict"]},
                        "mcp": {"servers": ["git"]},
                    },
                }
            ],
        }
    )
    assert paths_of(compiled) == dict.fromkeys(
        [
            "models/fast/provider_id",
            "model-pools/best/members/0/model_id",
            "agents/support/model_id",
            "agents/support/delegates/1",
            "agents/support/plugin_ids/1",
            "agents/support/sections/permission/include/0",
            "agents/support/sections/mcp/servers/0",
        ],
        "unknown_reference",
    )
    found = {it.path: it for it in compiled.problems}
    assert found["agents/support/model_id"].known == ("best", "fast")
    assert found["agents/support/delegates/1"].known == ("helper", "support")
    assert compiled.unusable.keys() == {"support"}
    assert compiled.layer.unusable.keys() == {"support"}


@in_loop
async def test_one_broken_agent_leaves_the_others_usable() -> None:
    trial = CompilerTrial()
    agents: list[dict[str, Any]] = [
        SUPPORT,
        {"id": "broken", "model_id": "fast", "sections": {"nonsense": {}}},
    ]
    compiled = await trial.compile({**WHOLE, "agents": agents})
    assert [*paths_of(compiled)] == ["agents/broken/sections/nonsense"]
    await trial.compiler.install(compiled)
    assert trial.registry.current.resolved.resolve("support").spec.id == "support"


@in_loop
async def test_rules_of_included_rulesets_come_first_and_a_denial_wins() -> None:
    trial = CompilerTrial(tools=[look_up])
    rulesets: list[dict[str, Any]] = [
        {"id": "open", "rules": [{"tool": "look_up", "behavior": "allow"}]},
        {
            "id": "strict",
            "rules": [
                {"tool": "look_*", "behavior": "deny"},
                {"tool": "look_up", "behavior": "deny"},
            ],
            "default_behavior": "deny",
        },
        {"id": "lax", "default_behavior": "allow"},
    ]
    own = {"tool": "look_*", "behavior": "ask"}
    section = {"include": ["open", "strict", "lax"], "rules": [own]}
    agent: dict[str, Any] = {
        **SUPPORT,
        "plugin_ids": ["permission"],
        "sections": {"permission": section},
    }
    compiled = await trial.compile({**WHOLE, "rulesets": rulesets, "agents": [agent]})
    expanded = trial.layer(compiled).agents["support"].spec.sections["permission"]
    assert [(it["tool"], it["behavior"]) for it in expanded["rules"]] == [
        ("look_up", "deny"),
        ("look_*", "deny"),
    ]
    assert expanded["default_behavior"] == "deny"
    assert "include" not in expanded
    assert [it.name for it in trial.opener.opened] == ["permission"]
    changed = [{**rulesets[0], "rules": []}, *rulesets[1:]]
    again = await trial.compile({**WHOLE, "rulesets": changed, "agents": [agent]})
    rules = trial.layer(again).agents["support"].spec.sections["permission"]["rules"]
    assert [it["tool"] for it in rules] == ["look_*", "look_up"]


@in_loop
async def test_an_override_keeps_what_belongs_to_the_code() -> None:
    model = ScriptedModel([])
    trial = CompilerTrial([Agent("support", model=model, tools=[look_up])])
    compiled = await trial.compile({}, support={"system_prompt": "Be kind."})
    source = trial.layer(compiled).agents["support"]
    assert source.spec.system_prompt == "Be kind."
    assert source.model is model
    assert [*source.tools] == ["look_up"]
    moved = await trial.compile(
        {"providers": [PROVIDER], "models": [MODEL]}, support={"model_id": "fast"}
    )
    assert trial.layer(moved).agents["support"].model is None
    assert [*trial.layer(moved).agents["support"].tools] == ["look_up"]


@in_loop
async def test_a_record_with_the_id_of_the_code_makes_it_unusable() -> None:
    trial = CompilerTrial(
        [
            Agent("support", model=ScriptedModel([])),
            AgentSpec(id="other", model_id="fast"),
            AgentSpec(id="apart", model_id="scripted"),
        ],
        models=[ModelSpec(id="fast", provider_id="openai", upstream_model="m")],
        providers={"acme": ProviderSpec(id="acme", adapter="openai_chat")},
    )
    compiled = await trial.compile({**WHOLE, "providers": [PROVIDER]})
    found = paths_of(compiled)
    assert found["agents/support"] == "owned_by_code"
    assert found["models/fast"] == "owned_by_code"
    assert found["providers/acme"] == "owned_by_code"
    assert found["agents/other/model_id"] == "unusable_reference"
    assert compiled.unusable.keys() == {"support", "other"}


@in_loop
async def test_a_vendor_that_is_only_known_can_be_configured() -> None:
    trial = CompilerTrial()
    assert "openai" not in trial.compiler.code_records()["providers"]
    provider = {"id": "openai", "adapter": "openai_chat", "api_key": "sk-canary"}
    agent = {"id": "a", "model_id": "openai:gpt-5-mini"}
    compiled = await trial.compile({"providers": [provider], "agents": [agent]})
    client: Any = trial.layer(compiled).providers["openai"]
    assert client.spec.base_url == "https://api.openai.com/v1"
    assert "sk-canary" not in repr(compiled)


@in_loop
async def test_a_provider_that_cannot_be_used_breaks_what_needs_it() -> None:
    trial = CompilerTrial()
    wrong = {**PROVIDER, "base_url": "https://acme.example/v1/chat/completions"}
    compiled = await trial.compile({**WHOLE, "providers": [wrong]})
    assert paths_of(compiled) == {
        "providers/acme": "invalid_input",
        "models/fast/provider_id": "unknown_reference",
        "agents/support/model_id": "unusable_reference",
    }


@in_loop
async def test_tools_get_other_descriptions_and_can_be_disabled() -> None:
    @tool
    async def own(word: str) -> str:
        """Its own."""
        return word

    trial = CompilerTrial([Agent("a", model=ScriptedModel([]), tools=[own])], tools=[look_up])
    records = trial.compiler.code_records()["tools"]
    assert {name: it.source for name, it in records.items()} == {
        "look_up": "runtime",
        "own": "agent:a",
    }
    compiled = await trial.compile(
        {}, look_up={"description": "Better."}, own={"description": "Mine.", "enabled": False}
    )
    layer = trial.layer(compiled)
    assert layer.tools["look_up"].descriptor.description == "Better."
    assert layer.disabled_tools == {"own"}
    await trial.compiler.install(compiled)
    tools = trial.registry.current.resolved.resolve("a").tools
    assert "own" not in tools
    assert tools["look_up"].descriptor.description == "Better."
    again = trial.layer(await trial.compile({}, look_up={"description": "Better."}))
    assert again.tools["look_up"] is layer.tools["look_up"]


@in_loop
async def test_hidden_agents_and_budgets_are_part_of_the_layer() -> None:
    trial = CompilerTrial([Agent("a", model=ScriptedModel([]))])
    budgets = [
        {"id": "all", "tokens": 5},
        {"id": "tenants", "scope": "tenant", "cost_usd": 1.0},
        {"id": "one", "scope": "tenant", "tenant_id": "t", "tokens": 9, "soft": True},
    ]
    layer = trial.layer(await trial.compile({"budgets": budgets}, a={"is_hidden": True}))
    assert layer.hidden == {"a"}
    assert layer.budgets == (
        Budget(tokens=5),
        Budget(scope=BudgetScope.TENANT, cost_usd=1.0),
        TenantBudget(scope=BudgetScope.TENANT, tokens=9, soft=True, tenant_id="t"),
    )


@in_loop
async def test_a_managed_mcp_server_needs_no_code() -> None:
    trial = CompilerTrial()
    server = {"name": "git", "transport": {"type": "stdio", "command": "git-mcp"}}
    agent: dict[str, Any] = {**SUPPORT, "plugin_ids": ["mcp"]}
    compiled = await trial.compile({**WHOLE, "mcp-servers": [server], "agents": [agent]})
    layer = trial.layer(compiled)
    plugin = layer.plugins["mcp"]
    assert isinstance(plugin, McpPlugin)
    assert plugin.servers() == (), "nothing is started before it is installed"
    assert plugin in trial.opener.opened
    await trial.compiler.install(compiled)
    assert [it.name for it in plugin.servers()] == ["git"]
    assert layer.agents["support"].spec.sections["mcp"] == {"servers": ["git"]}
    without = await trial.compile({**WHOLE, "agents": [agent]})
    assert trial.layer(without).plugins["mcp"] is plugin
    await trial.compiler.install(without)
    assert plugin.servers() == ()


@in_loop
async def test_servers_stay_while_a_kept_publication_needs_them() -> None:
    trial = CompilerTrial()
    server = {"name": "git", "transport": {"type": "stdio", "command": "git-mcp"}}
    agent: dict[str, Any] = {
        **SUPPORT,
        "plugin_ids": ["mcp"],
        "sections": {"mcp": {"servers": ["git"]}},
    }
    kept = await trial.compile({**WHOLE, "mcp-servers": [server], "agents": [agent]})
    await trial.compiler.keep(kept)
    without = await trial.compile({**WHOLE, "agents": [{**SUPPORT, "plugin_ids": ["mcp"]}]})
    await trial.compiler.install(without)
    plugin: Any = trial.layer(without).plugins["mcp"]
    assert [it.name for it in plugin.servers()] == ["git"]
    limited = trial.layer(without).agents["support"].spec.sections["mcp"]
    assert limited == {"servers": []}, "an agent sees the servers of its own publication"
    trial.registry.kept.clear()
    await trial.compiler.discard(kept)
    assert plugin.servers() == ()


@in_loop
async def test_servers_of_the_code_stay_beside_managed_ones() -> None:
    code = McpServer(name="own", transport=Stdio(command="own-mcp"))
    plugin = McpPlugin([code])
    agent = Agent("a", model=ScriptedModel([]), plugins=[])
    spec = AgentSpec(id="b", model_id="scripted", plugin_ids=("mcp",))
    trial = CompilerTrial([agent, spec], plugins=[plugin])
    assert [*trial.compiler.code_records()["mcp-servers"]] == ["own"]
    server = {"name": "git", "transport": {"type": "stdio", "command": "git-mcp"}}
    compiled = await trial.compile({"mcp-servers": [server]})
    assert "mcp" not in trial.layer(compiled).plugins
    assert trial.layer(compiled).agents["b"].spec.sections["mcp"]["servers"] == ["git", "own"]
    await trial.compiler.install(compiled)
    assert {it.name for it in plugin.servers()} == {"own", "git"}
    clash = {**server, "name": "o-w-n"}
    twice = await trial.compile({"mcp-servers": [clash, {**clash, "name": "o_w_n"}]})
    assert len(twice.problems) <= 1


@in_loop
async def test_skills_come_from_the_publication() -> None:
    code = SkillsPlugin(sources=[StaticSkills(Skill(name="own", description="d", body="b"))])
    spec = AgentSpec(id="a", model_id="scripted", plugin_ids=("skills",))
    trial = CompilerTrial([spec], plugins=[code])
    skill = {"id": "pdf", "description": "Reads PDFs.", "body": "Read."}
    layer = trial.layer(await trial.compile({"skills": [skill]}))
    plugin: Any = layer.plugins["skills"]
    assert [it.name for it in plugin.skills] == ["own", "pdf"]
    assert [it.name for it in code.skills] == ["own"], "pinned runs keep what they had"
    again = trial.layer(await trial.compile({"skills": [skill]}))
    assert again.plugins["skills"] is plugin
    other = trial.layer(await trial.compile({"skills": [{**skill, "body": "Other."}]}))
    assert other.plugins["skills"] is not plugin
    owned = await trial.compile({"skills": [{**skill, "id": "own"}]})
    assert paths_of(owned) == {"skills/own": "owned_by_code"}


@in_loop
async def test_an_agent_can_name_the_skills_plugin_without_code() -> None:
    trial = CompilerTrial()
    skill = {"id": "pdf", "description": "Reads PDFs.", "body": "Read."}
    agent: dict[str, Any] = {**SUPPORT, "plugin_ids": ["skills"]}
    compiled = await trial.compile({**WHOLE, "skills": [skill], "agents": [agent]})
    plugin: Any = trial.layer(compiled).plugins["skills"]
    assert [it.name for it in plugin.skills] == ["pdf"]
    assert "unseen_skill" not in {it.code for it in compiled.diagnostics}


@in_loop
async def test_diagnostics_refuse_nothing() -> None:
    trial = CompilerTrial([Agent("other", model=ScriptedModel([]))])
    agent: dict[str, Any] = {**SUPPORT, "allowed_tools": ["nothing*"]}
    skill = {"id": "pdf", "description": "Reads PDFs.", "body": "Read."}
    compiled = await trial.compile({**WHOLE, "agents": [agent], "skills": [skill]})
    assert compiled.problems == ()
    assert {(it.path, it.code) for it in compiled.diagnostics} == {
        ("models/fast", "no_price"),
        ("skills/pdf", "unseen_skill"),
        ("agents/support", "pattern_matches_nothing"),
    }


@in_loop
async def test_a_plugin_that_cannot_be_opened_breaks_the_agents_that_name_it() -> None:
    trial = CompilerTrial()
    trial.opener.refused = {"permission"}
    agents: list[dict[str, Any]] = [
        SUPPORT,
        {**SUPPORT, "id": "guarded", "plugin_ids": ["permission"]},
    ]
    compiled = await trial.compile({**WHOLE, "agents": agents})
    assert paths_of(compiled) == {"agents/guarded/plugin_ids/0": "plugin_failed"}
    assert compiled.unusable.keys() == {"guarded"}


@in_loop
async def test_a_discarded_candidate_closes_its_plugins() -> None:
    trial = CompilerTrial()
    agents: list[dict[str, Any]] = [{**SUPPORT, "plugin_ids": ["permission"]}]
    compiled = await trial.compile({**WHOLE, "agents": agents})
    assert trial.opener.opened
    await trial.compiler.discard(compiled)
    assert trial.opener.opened == []


@in_loop
async def test_remote_registries_are_watched_when_they_are_installed() -> None:
    own = RemoteRegistry(name="own", base_url="https://own.example")
    trial = CompilerTrial(remotes=[own])
    peer = {"name": "peer", "base_url": "https://peer.example"}
    agents: list[dict[str, Any]] = [{**SUPPORT, "delegates": ["peer/them"]}]
    compiled = await trial.compile({**WHOLE, "a2a-servers": [peer], "agents": agents})
    assert trial.layer(compiled).remotes == {"peer": "https://peer.example"}
    assert trial.watcher.remotes == ()  # Nothing is watched before it is installed.
    await trial.compiler.install(compiled)
    watched = trial.watcher.remotes
    assert [remote.name for remote in watched] == ["own", "peer"]
    wrong = await trial.compile({"a2a-servers": [{**peer, "name": "local"}]})
    assert paths_of(wrong) == {"a2a-servers/local": "reserved"}


@in_loop
async def test_hashes_of_the_code_change_with_the_code_alone() -> None:
    first = CompilerTrial([Agent("a", model=ScriptedModel([]))], tools=[look_up])
    same = CompilerTrial([Agent("a", model=ScriptedModel([]))], tools=[look_up])
    other = CompilerTrial([Agent("a", model=ScriptedModel([]), instructions="x")], tools=[look_up])
    hashes = first.compiler.code_hashes()
    assert hashes.keys() == {"agents/a", "tools/look_up"}
    assert same.compiler.code_hashes() == hashes
    assert other.compiler.code_hashes()["agents/a"] != hashes["agents/a"]
    assert other.compiler.code_hashes()["tools/look_up"] == hashes["tools/look_up"]


@in_loop
async def test_a_thousand_agents_are_compiled() -> None:
    trial = CompilerTrial()
    agents: list[dict[str, Any]] = [{**SUPPORT, "id": f"a{at}"} for at in range(1000)]
    compiled = await trial.compile({**WHOLE, "agents": agents})
    assert len(trial.layer(compiled).agents) == 1000
