"""Builds one registry set from the agents, tools, plugins and models that a developer passes."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar, cast

from awaken.authoring.agents import Agent
from awaken.authoring.functions import as_tool
from awaken.authoring.plugin_names import plugin_problem
from awaken.backends.local import LocalBackend
from awaken.contracts.backends.backend import ExecutionBackend, ExecutionBackendFactory
from awaken.contracts.errors import DuplicateRegistration, InvalidInput, InvalidSpec
from awaken.contracts.models.inference import ModelClient
from awaken.contracts.models.model_specs import ModelPool, ModelSpec, ProviderSpec
from awaken.contracts.plugins.plugin import Plugin
from awaken.contracts.secrets import to_builtins_with_secrets
from awaken.contracts.specs.agents import AgentSpec, decode_spec
from awaken.contracts.specs.remote_registries import RemoteRegistry
from awaken.contracts.tools.tool import Tool
from awaken.providers.scripted import ScriptedProvider
from awaken.runtime.resolution.registries import AgentSource, RegistrySet

from .arguments import check_list, check_members
from .plugins import load_installed_plugins

if TYPE_CHECKING:
    from awaken.authoring.workflows import Workflow

T = TypeVar("T")
S = TypeVar("S", bound=AgentSpec | ModelSpec | ModelPool | ProviderSpec)


def registry_set(
    agents: Iterable[Agent | AgentSpec],
    tools: Iterable[Tool | Callable[..., Any]],
    plugins: Iterable[Plugin],
    providers: Mapping[str, ModelClient],
    backends: Mapping[str, ExecutionBackend | ExecutionBackendFactory],
    models: Iterable[ModelSpec | ModelPool] = (),
) -> RegistrySet:
    """Collect everything by id.

    Raises:
        InvalidInput: An argument has the wrong type.
        InvalidSpec: A spec or a plugin cannot be accepted.
        DuplicateRegistration: Two things of one kind have the same id.
    """
    written = _agents(agents)
    made = [as_tool(tool) for tool in check_list("tools", tools, "…")]
    sources = [source_of(agent) for agent in written]
    return RegistrySet(
        agents=_by_id("Agent", ((source.spec.id, source) for source in sources)),
        tools=_by_id("Tool", ((tool.descriptor.id, tool) for tool in made)),
        models=_models(written, models),
        providers={"scripted": ScriptedProvider(), **_providers(providers)},
        plugins=_by_id("Plugin", ((plugin.name, plugin) for plugin in _plugins(plugins))),
        backends={"local": LocalBackend(), **backends},
    )


def with_everywhere(registries: RegistrySet, everywhere: Iterable[Plugin]) -> RegistrySet:
    """Add plugins that every agent has, and those that installed packages offer.

    Raises:
        InvalidSpec: A plugin cannot be accepted.
        DuplicateRegistration: Two plugins have the same name.
    """
    general = _plugins(everywhere, "everywhere")
    names = tuple(plugin.name for plugin in general)
    passed = [*registries.plugins.values(), *general]
    known = _by_id("Plugin", ((plugin.name, plugin) for plugin in passed))
    installed = load_installed_plugins(names, known, registries.agents.values())
    return replace(registries, plugins={**known, **installed}, everywhere=names)


def source_of(agent: Agent | AgentSpec) -> AgentSource:
    """Build the registry entry of an agent, or of a spec, which names what it uses by id.

    Raises:
        InvalidSpec: The spec is malformed; one made in code has not been checked before.
    """
    if isinstance(agent, AgentSpec):
        return AgentSource(spec=check_spec("agent", agent), written=agent)
    return AgentSource(
        spec=agent.spec,
        tools=agent.own_tools,
        plugins=tuple(agent.plugins),
        workflow=_find_workflow(agent),
        model=_own_model(agent),
        output=agent.output,
        context=agent.context,
        instructions=None if isinstance(agent.instructions, str) else agent.instructions,
        written=agent,
    )


def _find_workflow(agent: Agent) -> "Workflow[Any] | None":
    # Read by a name: only a program with a workflow loads the module of its class.
    if type(agent) is Agent or not hasattr(agent, "event_schemas"):
        return None
    return cast("Workflow[Any]", agent)


def _own_model(agent: Agent) -> ModelClient | ModelSpec | ModelPool | None:
    model = agent.model
    if isinstance(model, ModelSpec | ModelPool):
        return check_spec("model", model)
    return None if isinstance(model, str) else model


def _agents(agents: object) -> list[Agent | AgentSpec]:
    if isinstance(agents, Agent | AgentSpec):
        problem = f"pass a list, AgentRuntime([{type(agents).__name__}({agents.id!r}, …)])"
        raise InvalidInput(what="agents", problem=problem)
    found = check_list("agents", agents, "Agent(…)")
    for agent in found:
        if not isinstance(agent, Agent | AgentSpec):
            problem = f"{agent!r} is no Agent and no AgentSpec"
            raise InvalidInput(what="agents", problem=problem)
    known = {agent.id: agent for agent in found}
    for agent in found:  # It grows: an agent that is found here may name others.
        for other in agent.named_agents if isinstance(agent, Agent) else ():
            if known.setdefault(other.id, other) is not other:
                raise DuplicateRegistration(kind="Agent", name=other.id)
            if not any(it is other for it in found):
                found.append(other)
    return found


def check_spec(what: str, spec: S) -> S:
    """Check a spec that was made in code as if it was read from a file; converts text to enums.

    Raises:
        InvalidSpec: A field does not fit.
    """
    try:
        data = to_builtins_with_secrets(spec)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidSpec(what=f"{what} {spec.id!r}", problem=str(error)) from error
    return decode_spec(data, type(spec))


def _models(
    agents: Iterable[Agent | AgentSpec], models: Iterable[ModelSpec | ModelPool]
) -> dict[str, ModelSpec | ModelPool]:
    shared = check_list("models", models, "ModelSpec(…)")
    others = [model for model in shared if not isinstance(model, ModelPool)]
    check_members("models", others, ModelSpec, "clients go into providers={name: client}")
    found = _by_id("Model", ((model.id, check_spec("model", model)) for model in shared))
    for agent in agents:
        own = _own_model(agent) if isinstance(agent, Agent) else None
        if isinstance(own, ModelSpec | ModelPool) and found.setdefault(own.id, own) != own:
            raise DuplicateRegistration(kind="Model", name=own.id)
    return found


def _plugins(plugins: object, what: str = "plugins") -> list[Plugin]:
    found = check_list(what, plugins, "…")
    for plugin in found:
        if problem := plugin_problem(plugin):
            raise InvalidSpec(what=what, problem=problem)
    return found


def _providers(providers: Mapping[str, ModelClient]) -> Mapping[str, ModelClient]:
    for name, client in check_mapping("providers", providers).items():
        if isinstance(client, type) or not isinstance(client, ModelClient):
            # Only its type is shown: it may be a mapping that contains a key.
            kind = client.__name__ if isinstance(client, type) else type(client).__name__
            problem = f"a {kind} is no ProviderSpec and no ModelClient (`name`, `stream(…)`)"
            raise InvalidInput(what=f"provider '{name}'", problem=problem)
    return providers


def check_mapping(kind: str, things: Any) -> Mapping[str, Any]:
    """Check that an argument is a mapping with string keys, and return it.

    Raises:
        InvalidInput: It is not.
    """
    if not isinstance(things, Mapping) or not all(isinstance(name, str) for name in things):
        raise InvalidInput(what=kind, problem=f"pass a mapping, {kind}={{'name': …}}")
    return things


def check_remotes(remotes: Any) -> tuple[RemoteRegistry, ...]:
    """Check registries that were made in code as if they were read from a file.

    Raises:
        InvalidInput: It is not a list of registries.
        InvalidSpec: A field of one of them does not fit.
    """
    found = check_list("remotes", remotes, "RemoteRegistry(…)")
    check_members("remotes", found, RemoteRegistry, "write RemoteRegistry(name=…, base_url=…)")
    written = map(to_builtins_with_secrets, found)
    return tuple(decode_spec(it, RemoteRegistry) for it in written)


def _by_id(kind: str, pairs: Iterable[tuple[str, T]]) -> dict[str, T]:
    found: dict[str, T] = {}
    for name, thing in pairs:
        if name in found:
            raise DuplicateRegistration(kind=kind, name=name)
        found[name] = thing
    return found
