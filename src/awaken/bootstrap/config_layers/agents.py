"""Agents of a configuration: rulesets expanded, references checked, the code's parts kept."""

import asyncio
from dataclasses import replace
from typing import Any

import msgspec

from awaken.bootstrap.config_kinds.agents import find_rulesets, find_servers
from awaken.contracts.config.compiler import EffectiveRecord
from awaken.contracts.config.publications import OVERRIDE
from awaken.contracts.config.specs import RulesetSpec
from awaken.contracts.specs.agents import AgentSpec
from awaken.contracts.suspension.permissions import ToolBehavior
from awaken.runtime.resolution.registries import AgentSource

from .build import LayerBuild
from .models import check_model

AT_ONCE = 200
"""How many agents are looked at before the event loop gets a turn."""
_STRICTEST = (ToolBehavior.DENY, ToolBehavior.ASK, ToolBehavior.ALLOW)
_BEATS = (ToolBehavior.DENY, ToolBehavior.ALLOW, ToolBehavior.ASK)
MCP = "mcp"


class SourceCache:
    """Agents as the registry takes them; the same object while nothing in it changes."""

    def __init__(self) -> None:
        self._sources: dict[str, tuple[Any, AgentSource]] = {}

    def find(self, agent_id: str, key: Any) -> AgentSource | None:
        """Return the source that was made for a key, if it was the last one of the agent."""
        known = self._sources.get(agent_id)
        return known[1] if known is not None and known[0] == key else None

    def keep(self, agent_id: str, key: Any, source: AgentSource) -> AgentSource:
        """Keep a source for the next compilation."""
        self._sources[agent_id] = (key, source)
        return source

    def prune(self, used: set[str]) -> None:
        """Forget agents that no configuration has."""
        self._sources = {name: it for name, it in self._sources.items() if name in used}


async def add_agents(build: LayerBuild, cache: SourceCache) -> None:
    """Add every agent that can be used; the others are unusable, each with its problems."""
    for at, (agent_id, record) in enumerate(build.candidates("agents").items()):
        if at % AT_ONCE == AT_ONCE - 1:
            await asyncio.sleep(0)
        check_agent(build, agent_id, record)
        if ("agents", agent_id) not in build.broken:
            build.agents[agent_id] = _find_source(build, cache, agent_id, record)
    for agent_id, source in build.code.registries.agents.items():
        if agent_id in build.config.records.get("agents", {}):
            continue
        _check_code_agent(build, agent_id, source)
        changed = _adapt_code_agent(build, cache, agent_id, source)
        if changed is not source:
            build.agents[agent_id] = changed


def check_agent(build: LayerBuild, agent_id: str, record: EffectiveRecord) -> None:
    """Note every name in an agent that is unknown, or that cannot be used."""
    spec: AgentSpec = record.spec
    base = _find_base(build, agent_id, record)
    keeps_model = base is not None and base.model is not None
    if spec.endpoint is None and not (
        keeps_model and base is not None and spec.model_id == base.spec.model_id
    ):
        check_model(build, agent_id, spec.model_id)
    registries = build.code.registries
    agents = build.names("agents")
    remotes = {*build.names("a2a-servers"), registries.local_name}
    for at, name in enumerate(spec.delegates):
        source, has_source, _ = name.partition("/")
        if name not in agents and not (has_source and source in remotes):
            if registries.is_open or _find_remote_agent(build, name):
                continue
            path = f"agents/{agent_id}/delegates/{at}"
            build.refuse(path, "unknown_reference", f"No agent '{name}' is known.", agents)
    for at, name in enumerate(find_rulesets(spec) or ()):
        _check_name(build, f"agents/{agent_id}/sections/permission/include/{at}", "rulesets", name)
    for at, name in enumerate(find_servers(spec)):
        _check_name(build, f"agents/{agent_id}/sections/mcp/servers/{at}", "mcp-servers", name)


def _check_name(build: LayerBuild, path: str, namespace: str, name: str) -> None:
    known, word = build.names(namespace), namespace.removesuffix("s").replace("-", " ")
    if name not in known:
        build.refuse(path, "unknown_reference", f"No {word} '{name}' is known.", known)
    elif (namespace, name) in build.broken:
        build.refuse(path, "unusable_reference", f"The {word} '{name}' cannot be used.")


def _find_remote_agent(build: LayerBuild, name: str) -> bool:
    """Whether a plain name may be an agent of a remote registry, which shows it later."""
    return "/" not in name and bool(build.names("a2a-servers"))


def _check_code_agent(build: LayerBuild, agent_id: str, source: AgentSource) -> None:
    """An agent of the code whose model was broken by a record cannot be used."""
    if source.spec.endpoint is None and source.model is None and build.broken:
        check_model(build, agent_id, source.spec.model_id)


def _find_base(build: LayerBuild, agent_id: str, record: EffectiveRecord) -> AgentSource | None:
    if record.source != OVERRIDE:
        return None
    return build.code.registries.agents.get(agent_id)


def _find_source(
    build: LayerBuild, cache: SourceCache, agent_id: str, record: EffectiveRecord
) -> AgentSource:
    base, spec = _find_base(build, agent_id, record), record.spec
    rules = tuple(
        (name, build.config.records["rulesets"][name].hash) for name in find_rulesets(spec) or ()
    )
    servers = _visible_servers(build, spec, base)
    tools = _described_tools(build, base)
    key = (record.hash, record.source, rules, servers, tuple(map(id, tools.values())))
    if (known := cache.find(agent_id, key)) is not None:
        return known
    spec = _limit_servers(expand_rulesets(spec, build.records("rulesets")), servers)
    if base is None:
        return cache.keep(agent_id, key, AgentSource(spec=spec))
    if spec == base.spec and not tools:
        return cache.keep(agent_id, key, base)
    # The code's own client serves the code's own model only.
    model = base.model if spec.model_id == base.spec.model_id else None
    source = replace(base, spec=spec, model=model, tools={**base.tools, **tools})
    return cache.keep(agent_id, key, source)


def _adapt_code_agent(
    build: LayerBuild, cache: SourceCache, agent_id: str, base: AgentSource
) -> AgentSource:
    """Return an agent of the code with what the configuration changes around it."""
    servers, tools = _visible_servers(build, base.spec, base), _described_tools(build, base)
    if servers is None and not tools:
        return base
    key = ("code", servers, tuple(map(id, tools.values())))
    if (known := cache.find(agent_id, key)) is not None:
        return known
    spec = _limit_servers(base.spec, servers)
    source = replace(base, spec=spec, tools={**base.tools, **tools})
    return cache.keep(agent_id, key, source)


def _described_tools(build: LayerBuild, base: AgentSource | None) -> dict[str, Any]:
    own = base.tools if base is not None else {}
    return {name: it for name, it in build.own_tools.items() if name in own}


def _visible_servers(
    build: LayerBuild, spec: AgentSpec, base: AgentSource | None
) -> tuple[str, ...] | None:
    """The MCP servers of this configuration, for an agent that takes all; None: no limit needed.

    The plugin may have more: those of other publications that runs are pinned to.
    """
    section = spec.sections.get(MCP)
    is_limited = isinstance(section, dict) and section.get("servers") is not None
    everywhere = build.code.registries.everywhere
    has_own = base is not None and any(it.name == MCP for it in base.plugins)
    if is_limited or has_own or MCP not in (*spec.plugin_ids, *everywhere):
        return None
    if not build.has_managed_servers:
        return None
    return tuple(sorted({*build.code.records["mcp-servers"], *build.records("mcp-servers")}))


def _limit_servers(spec: AgentSpec, servers: tuple[str, ...] | None) -> AgentSpec:
    if servers is None:
        return spec
    section = {**spec.sections.get(MCP, {}), "servers": [*servers]}
    return msgspec.structs.replace(spec, sections={**spec.sections, MCP: section})


def expand_rulesets(spec: AgentSpec, rulesets: Any) -> AgentSpec:
    """Return an agent with the rules of its rulesets before its own; a denial beats all others."""
    include = find_rulesets(spec)
    section = spec.sections.get("permission")
    if not isinstance(section, dict) or "include" not in section:
        return spec
    found: list[RulesetSpec] = [rulesets[name].spec for name in include or ()]
    own = {name: it for name, it in section.items() if name != "include"}
    lists = [[msgspec.to_builtins(rule) for rule in it.rules] for it in found]
    own["rules"] = _merge_rules([*lists, own.get("rules", [])])
    defaults = [it.default_behavior for it in found if it.default_behavior is not None]
    if defaults and "default_behavior" not in own:
        own["default_behavior"] = min(defaults, key=_STRICTEST.index).value
    return msgspec.structs.replace(spec, sections={**spec.sections, "permission": own})


def _merge_rules(lists: list[Any]) -> list[Any]:
    """Join lists of rules; of two lists with one pattern, the rule counts that beats the other.

    The plugin refuses contradictions, which are mistakes only within one list.
    """
    merged: list[Any] = []
    known: dict[str, int] = {}
    for rules in lists:
        places: dict[str, int] = {}
        for rule in rules if isinstance(rules, list) else [rules]:
            pattern = rule.get("tool") if isinstance(rule, dict) else None
            if not isinstance(pattern, str) or pattern not in known:
                merged.append(rule)
                if isinstance(pattern, str):
                    places[pattern] = len(merged) - 1
            elif _strength(rule) < _strength(merged[known[pattern]]):
                merged[known[pattern]] = rule
        known |= places
    return merged


def _strength(rule: Any) -> int:
    """The rank of a rule: a denial beats a permission, and a permission beats a question."""
    behavior = rule.get("behavior")
    return _BEATS.index(behavior) if behavior in _BEATS else len(_BEATS)
