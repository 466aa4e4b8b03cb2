"""What the code of this process declares, as records of managed configuration."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from awaken.bootstrap.config_kinds.stored import encode_stored
from awaken.bootstrap.known_providers import KNOWN_PROVIDERS
from awaken.bootstrap.providers import ProviderClient
from awaken.contracts.config.kinds import SECRET_KEY
from awaken.contracts.config.publications import encode_canonical, hash_object
from awaken.contracts.config.specs import ManagedSkill, ToolOverride
from awaken.contracts.errors import AwakenError
from awaken.contracts.models.model_specs import ModelPool, ProviderSpec
from awaken.contracts.secrets import RedactedString
from awaken.contracts.specs.remote_registries import RemoteRegistry
from awaken.contracts.tools.tool import ToolDescriptor
from awaken.extensions.mcp import McpPlugin, McpServer
from awaken.extensions.skills import Skill, SkillsPlugin
from awaken.runtime.plugins.environment import ExecutionEnv
from awaken.runtime.resolution.registries import RegistrySet

IN_CODE = "code"
"""The reference that stands for a secret whose text is given in code."""
RUNTIME_TOOL = "runtime"
AGENT_PREFIX = "agent:"
PLUGIN_PREFIX = "plugin:"


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeLayer:
    """The code layer of a registry, and what lives beside it."""

    registries: RegistrySet
    servers: tuple[McpServer, ...]
    """The MCP servers of the runtime's own plugin."""
    remotes: tuple[RemoteRegistry, ...]
    records: Mapping[str, Mapping[str, Any]]
    """The records that it declares, as specs."""


def read_code_layer(registries: RegistrySet, remotes: tuple[RemoteRegistry, ...]) -> CodeLayer:
    """List what the code declares; nothing is opened."""
    plugins = registries.plugins.values()
    servers = tuple(
        it for plugin in plugins if isinstance(plugin, McpPlugin) for it in plugin.servers()
    )
    skills = [it for plugin in plugins if isinstance(plugin, SkillsPlugin) for it in plugin.skills]
    models = registries.models
    records: dict[str, Mapping[str, Any]] = {
        "agents": {name: it.spec for name, it in registries.agents.items()},
        "models": {n: it for n, it in models.items() if not isinstance(it, ModelPool)},
        "model-pools": {name: it for name, it in models.items() if isinstance(it, ModelPool)},
        "providers": dict(_list_providers(registries)),
        "mcp-servers": {it.name: it for it in servers},
        "a2a-servers": {it.name: it for it in remotes},
        "skills": {it.name: _describe_skill(it) for it in skills if it.body},
        "tools": list_tools(registries),
        "rulesets": {},
        "budgets": {},
        "scorers": {},
    }
    return CodeLayer(registries=registries, servers=servers, remotes=remotes, records=records)


def hash_code(code: CodeLayer) -> dict[str, str]:
    """Hash the agents and tools of the code, by `agents/id` and `tools/id`."""
    return {
        f"{namespace}/{name}": hash_spec(spec)
        for namespace in ("agents", "tools")
        for name, spec in code.records[namespace].items()
    }


def hash_spec(spec: Any) -> str:
    """Return the hash of the stored form of a spec; no secret is part of it."""
    return hash_object(encode_canonical(encode_stored(spec, _refer_to)))


def _refer_to(secret: RedactedString) -> dict[str, str]:
    return {SECRET_KEY: getattr(secret, "ref", IN_CODE)}


def _list_providers(registries: RegistrySet) -> Iterator[tuple[str, ProviderSpec]]:
    """The providers that were given as specs; a vendor that is only known can be configured."""
    for name, client in registries.providers.items():
        if isinstance(client, ProviderClient):
            known, spec = KNOWN_PROVIDERS.get(name), client.spec
            usual = known and (known.adapter, known.base_url, known.options)
            is_usual = (spec.adapter, spec.base_url, spec.adapter_options) == usual
            if not is_usual or spec.api_key is not None:
                yield name, spec


def _describe_skill(skill: Skill) -> ManagedSkill:
    return ManagedSkill(
        id=skill.name,
        description=skill.description,
        body=skill.body[:1000],
        when_to_use=skill.when_to_use,
        arguments=skill.arguments,
        argument_hint=skill.argument_hint,
        allowed_tools=skill.allowed_tools,
        user_invocable=skill.user_invocable,
        model_invocable=skill.model_invocable,
        model=skill.model,
        context=skill.context,
        agent=skill.agent,
        paths=skill.paths,
    )


def list_tools(registries: RegistrySet) -> dict[str, ToolOverride]:
    """List the tools of the runtime, its agents and its plugins; those of MCP servers are not."""
    return {name: _describe_tool(*it) for name, it in list_descriptors(registries).items()}


def list_descriptors(registries: RegistrySet) -> dict[str, tuple[ToolDescriptor, str]]:
    """List the descriptors of the same tools, each with its source."""
    found: dict[str, tuple[ToolDescriptor, str]] = {}
    for name, tool in registries.tools.items():
        found[name] = tool.descriptor, RUNTIME_TOOL
    for agent_id, source in registries.agents.items():
        for name, tool in source.tools.items():
            found.setdefault(name, (tool.descriptor, f"{AGENT_PREFIX}{agent_id}"))
    for plugin in registries.plugins.values():
        if isinstance(plugin, McpPlugin):
            # What a server offers is not declared by the code.
            continue
        try:
            offered = ExecutionEnv.compile((plugin,)).tools
        except AwakenError:
            # An agent that names it is refused, with the reason.
            continue
        for name, tool in offered.items():
            found.setdefault(name, (tool.descriptor, f"{PLUGIN_PREFIX}{plugin.name}"))
    return found


def _describe_tool(descriptor: ToolDescriptor, source: str) -> ToolOverride:
    return ToolOverride(
        id=descriptor.id,
        name=descriptor.name,
        description=descriptor.description,
        category=descriptor.category,
        parameters_schema=descriptor.parameters,
        source=source,
    )
