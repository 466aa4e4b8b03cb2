"""From agents, tools and plugins as written to one registry set."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from awaken.authoring.agents import Agent
from awaken.authoring.functions import as_tool
from awaken.backends.local import LocalBackend
from awaken.contracts.backends import ExecutionBackend
from awaken.contracts.errors import DuplicateRegistration
from awaken.contracts.inference import ModelClient
from awaken.contracts.plugins import Plugin
from awaken.contracts.specs import ModelSpec
from awaken.contracts.tools import Tool
from awaken.providers.scripted import ScriptedProvider
from awaken.runtime.resolution.registries import AgentSource, RegistrySet

T = TypeVar("T")


def registry_set(
    agents: Iterable[Agent],
    tools: Iterable[Tool | Callable[..., Any]],
    plugins: Iterable[Plugin],
    providers: Mapping[str, ModelClient],
    backends: Mapping[str, ExecutionBackend],
) -> RegistrySet:
    """Collect everything by id.

    Raises:
        DuplicateRegistration: Two things of one kind have the same id.
    """
    agents = list(agents)
    made = [as_tool(tool) for tool in tools]
    return RegistrySet(
        agents=_by_id("Agent", ((agent.id, source_of(agent)) for agent in agents)),
        tools=_by_id("Tool", ((tool.descriptor.id, tool) for tool in made)),
        models={
            agent.model.id: agent.model for agent in agents if isinstance(agent.model, ModelSpec)
        },
        providers={"scripted": ScriptedProvider(), **providers},
        plugins=_by_id("Plugin", ((plugin.name, plugin) for plugin in plugins)),
        backends={"local": LocalBackend(), **backends},
    )


def source_of(agent: Agent) -> AgentSource:
    """The registry's entry for an agent written in code."""
    return AgentSource(
        spec=agent.spec,
        tools=agent.own_tools,
        plugins=tuple(agent.plugins),
        model=None if isinstance(agent.model, str) else agent.model,
        output=agent.output,
    )


def _by_id(kind: str, pairs: Iterable[tuple[str, T]]) -> dict[str, T]:
    found: dict[str, T] = {}
    for name, thing in pairs:
        if name in found:
            raise DuplicateRegistration(kind=kind, name=name)
        found[name] = thing
    return found
