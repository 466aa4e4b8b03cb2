"""From agents, tools and plugins as written to one registry set."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from awaken.authoring.agents import Agent
from awaken.authoring.functions import as_tool
from awaken.authoring.plugin_names import plugin_problem
from awaken.backends.local import LocalBackend
from awaken.contracts.backends import ExecutionBackend
from awaken.contracts.errors import DuplicateRegistration, InvalidInput, InvalidSpec
from awaken.contracts.inference import ModelClient
from awaken.contracts.plugins import Plugin
from awaken.contracts.specs import AgentSpec, ModelSpec, decode_spec
from awaken.contracts.tools import Tool
from awaken.providers.scripted import ScriptedProvider
from awaken.runtime.resolution.registries import AgentSource, RegistrySet

from .arguments import check_members, listed

T = TypeVar("T")


def registry_set(
    agents: Iterable[Agent | AgentSpec],
    tools: Iterable[Tool | Callable[..., Any]],
    plugins: Iterable[Plugin],
    providers: Mapping[str, ModelClient],
    backends: Mapping[str, ExecutionBackend],
    models: Iterable[ModelSpec] = (),
) -> RegistrySet:
    """Collect everything by id.

    Raises:
        InvalidInput: Something is of the wrong type.
        InvalidSpec: A spec or a plugin cannot be accepted.
        DuplicateRegistration: Two things of one kind have the same id.
    """
    written = _agents(agents)
    made = [as_tool(tool) for tool in listed("tools", tools, "…")]
    sources = [source_of(agent) for agent in written]
    return RegistrySet(
        agents=_by_id("Agent", ((source.spec.id, source) for source in sources)),
        tools=_by_id("Tool", ((tool.descriptor.id, tool) for tool in made)),
        models=_models(written, models),
        providers={"scripted": ScriptedProvider(), **_providers(providers)},
        plugins=_by_id("Plugin", ((plugin.name, plugin) for plugin in _plugins(plugins))),
        backends={"local": LocalBackend(), **_backends(backends)},
    )


def source_of(agent: Agent | AgentSpec) -> AgentSource:
    """The registry's entry for an agent: all of it, or its data, which names what it uses.

    Raises:
        InvalidSpec: The data does not fit; a spec made in code has not been checked before.
    """
    if isinstance(agent, AgentSpec):
        return AgentSource(spec=_checked_spec(agent))
    return AgentSource(
        spec=agent.spec,
        tools=agent.own_tools,
        plugins=tuple(agent.plugins),
        model=None if isinstance(agent.model, str) else agent.model,
        output=agent.output,
    )


def _agents(agents: object) -> list[Agent | AgentSpec]:
    if isinstance(agents, Agent | AgentSpec):
        problem = f"pass a list, AgentRuntime([{type(agents).__name__}({agents.id!r}, …)])"
        raise InvalidInput(what="agents", problem=problem)
    found = listed("agents", agents, "Agent(…)")
    for agent in found:
        if not isinstance(agent, Agent | AgentSpec):
            problem = f"{agent!r} is no Agent and no AgentSpec"
            raise InvalidInput(what="agents", problem=problem)
    return found


def _checked_spec(spec: AgentSpec) -> AgentSpec:
    try:
        data = msgspec.to_builtins(spec)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidSpec(what=f"agent {spec.id!r}", problem=str(error)) from error
    return decode_spec(data, AgentSpec)


def _models(
    agents: Iterable[Agent | AgentSpec], models: Iterable[ModelSpec]
) -> dict[str, ModelSpec]:
    shared = listed("models", models, "ModelSpec(…)")
    check_members("models", shared, ModelSpec, "clients go into providers={name: client}")
    found = _by_id("Model", ((model.id, model) for model in shared))
    for agent in agents:
        own = agent.model if isinstance(agent, Agent) else None
        if isinstance(own, ModelSpec) and found.setdefault(own.id, own) != own:
            raise DuplicateRegistration(kind="Model", name=own.id)
    return found


def _plugins(plugins: object) -> list[Plugin]:
    found = listed("plugins", plugins, "…")
    for plugin in found:
        if problem := plugin_problem(plugin):
            raise InvalidSpec(what="plugins", problem=problem)
    return found


def _providers(providers: Mapping[str, ModelClient]) -> Mapping[str, ModelClient]:
    for name, client in _named("providers", providers).items():
        if isinstance(client, type) or not isinstance(client, ModelClient):
            problem = f"{client!r} is no ModelClient: it needs a `name` and `stream(request)`"
            raise InvalidInput(what=f"provider '{name}'", problem=problem)
    return providers


def _backends(backends: Mapping[str, ExecutionBackend]) -> Mapping[str, ExecutionBackend]:
    for name, backend in _named("backends", backends).items():
        if isinstance(backend, type) or not hasattr(backend, "execute_root"):
            problem = f"{backend!r} is no ExecutionBackend"
            raise InvalidInput(what=f"backend '{name}'", problem=problem)
    return backends


def _named(kind: str, things: Any) -> Mapping[str, Any]:
    if not isinstance(things, Mapping) or not all(isinstance(name, str) for name in things):
        raise InvalidInput(what=kind, problem=f"pass a mapping, {kind}={{'name': …}}")
    return things


def _by_id(kind: str, pairs: Iterable[tuple[str, T]]) -> dict[str, T]:
    found: dict[str, T] = {}
    for name, thing in pairs:
        if name in found:
            raise DuplicateRegistration(kind=kind, name=name)
        found[name] = thing
    return found
