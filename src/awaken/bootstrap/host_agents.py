"""Connects the host's own agent resolver with the runtime; checks it and its agents."""

import inspect
from dataclasses import replace
from typing import Any

from awaken.authoring.resolvers import Written
from awaken.contracts.errors import DuplicateRegistration, InvalidInput, InvalidSpec
from awaken.contracts.models.model_specs import ModelPool, ModelSpec
from awaken.contracts.plugins.plugin import Plugin
from awaken.runtime.resolution.host_agents import HostAgents
from awaken.runtime.resolution.registries import AgentSource, RegistrySet
from awaken.runtime.resolution.registry import RegistryHandle

from .plugins import has_lifecycle, load_installed_plugins
from .registries import source_of


def registry_handle(registries: RegistrySet, resolver: Any, timeout_ms: int) -> RegistryHandle:
    """Build the registry of a runtime, with the resolver for agents that are not in it.

    Raises:
        InvalidInput: The resolver is not an `AgentResolver`.
        InvalidSpec: Some agent cannot be resolved; the message names every problem.
    """
    host = host_agents(resolver, timeout_ms)
    return RegistryHandle(replace(registries, is_open=host is not None), host)


def host_agents(resolver: Any, timeout_ms: int) -> HostAgents | None:
    """Wrap a resolver; None when there is none.

    Raises:
        InvalidInput: It is not an `AgentResolver`.
    """
    if resolver is None:
        return None
    kind = type(resolver).__name__
    if isinstance(resolver, type):
        problem = f"{resolver.__name__} is a class; pass what it makes"
        raise InvalidInput(what="resolver", problem=problem)
    if not inspect.iscoroutinefunction(getattr(resolver, "resolve", None)):
        problem = f"a {kind} is no AgentResolver; it needs `async def resolve(self, agent_id)`"
        raise InvalidInput(what="resolver", problem=problem)
    listing = getattr(resolver, "list_agents", None)
    if listing is not None and not inspect.iscoroutinefunction(listing):
        problem = f"`list_agents` of {kind} is optional, and `async def list_agents(self)`"
        raise InvalidInput(what="resolver", problem=problem)
    return HostAgents(resolver, _HostRegistration().add, timeout_ms)


class _HostRegistration:
    """Adds agents of a resolver to registries, as if they had been passed to the runtime."""

    def __init__(self) -> None:
        self._installed: dict[str, Plugin] = {}

    def add(self, registries: RegistrySet, agent: Written) -> RegistrySet:
        """Add the agent, with the plugins and the model that only it has.

        Raises:
            InvalidSpec: The agent cannot be accepted.
            DuplicateRegistration: It has a different model under an id that is taken.
        """
        source = source_of(agent)
        known = {**self._installed, **registries.plugins}
        self._installed |= load_installed_plugins((), known, [source])
        plugins = {**self._installed, **registries.plugins}
        _check_lives(source, plugins, registries)
        changed = registries.with_agent(source)
        return replace(changed, plugins=plugins, models=_models(registries, source))


def _check_lives(source: AgentSource, known: dict[str, Plugin], registries: RegistrySet) -> None:
    """Refuse plugins that must be opened and closed, unless the runtime has them."""
    named = [known[name] for name in source.spec.plugin_ids if name in known]
    for plugin in {id(it): it for it in (*source.plugins, *named)}.values():
        if has_lifecycle(plugin) and registries.plugins.get(plugin.name) is not plugin:
            problem = (
                "it is opened and closed with the runtime, which does not have it; pass it in "
                "AgentRuntime(plugins=[…]) and give the agent the same object, or its name"
            )
            what = f"Agent '{source.spec.id}': plugin '{plugin.name}'"
            raise InvalidSpec(what=what, problem=problem)


def _models(registries: RegistrySet, source: AgentSource) -> dict[str, ModelSpec | ModelPool]:
    models, own = dict(registries.models), source.model
    if isinstance(own, ModelSpec | ModelPool) and models.setdefault(own.id, own) != own:
        raise DuplicateRegistration(kind="Model", name=own.id)
    return models
