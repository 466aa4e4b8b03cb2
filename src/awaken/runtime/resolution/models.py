"""From the name of a model to its route, or to the routes of a pool."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from awaken.contracts.errors import InvalidSpec, UnknownProvider
from awaken.contracts.models.inference import InferenceOverride, ModelClient
from awaken.contracts.models.model_specs import ModelPool, ModelSpec

from .registries import AgentSource, RegistrySet

_REASONERS = ("o1", "o3", "o4")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRoute:
    """A model and the client that reaches it."""

    spec: ModelSpec
    client: ModelClient
    id: str = field(init=False)
    """The model's id, which is also the key of its health."""
    has_defaults: bool = field(init=False)
    """Whether the model has its own limit or options."""
    is_reasoner: bool = field(init=False)
    """Whether the model is known to think before it sends anything."""

    def __post_init__(self) -> None:
        """Compute once per model what every call needs."""
        object.__setattr__(self, "id", self.spec.id)
        is_limited = self.spec.max_output_tokens is not None
        object.__setattr__(self, "has_defaults", is_limited or bool(self.spec.options))
        name = self.spec.upstream_model.lower()
        is_reasoner = name.startswith(_REASONERS) or "thinking" in name or "reasoning" in name
        object.__setattr__(self, "is_reasoner", is_reasoner)

    def overrides(self, given: InferenceOverride | None) -> InferenceOverride | None:
        """The overrides for a call of this model.

        Given values win over the model's own options; `max_tokens` never exceeds the model's limit.
        """
        limit, options = self.spec.max_output_tokens, self.spec.options
        if not self.has_defaults:
            return given
        own = InferenceOverride(max_tokens=limit, provider_options=options or None)
        merged = own.merge(given)
        if limit is not None and merged.max_tokens is not None and merged.max_tokens > limit:
            merged = msgspec.structs.replace(merged, max_tokens=limit)
        return merged


def routes_of(
    registries: RegistrySet, source: AgentSource
) -> tuple[tuple[ModelRoute, ...], ModelPool | None]:
    """The models that may answer for an agent, and the pool they belong to if there is one.

    Raises:
        UnknownReference: The agent, or its pool, names something that is not registered.
        InvalidSpec: A name is blank, or a pool names a pool.
    """
    own, model_id, owner = source.model, source.spec.model_id, f"Agent '{source.spec.id}'"
    if own is not None and not isinstance(own, ModelSpec | ModelPool):
        return (_own_route(own, model_id),), None
    found = own or registries.models.get(model_id) or _parse_model_name(owner, model_id)
    if isinstance(found, ModelPool):
        return pool_routes(registries, found), found
    return (_route(registries, found, owner),), None


def route_of(registries: RegistrySet, model_id: str) -> ModelRoute:
    """The route of one `provider:model`.

    Raises:
        UnknownReference: No such provider is registered.
        InvalidSpec: The name is blank.
    """
    owner = f"Model '{model_id}'"
    return _route(registries, _parse_model_name(owner, model_id), owner)


def pool_routes(registries: RegistrySet, pool: ModelPool) -> tuple[ModelRoute, ...]:
    """The routes of a pool's members, in their order.

    Raises:
        UnknownReference: The provider of a member is not registered.
        InvalidSpec: A member is a pool, or its name is blank.
    """
    return tuple(
        _route(registries, _member(registries, pool, member.model_id), f"Pool '{pool.id}'")
        for member in pool.members
    )


def _own_route(client: ModelClient, model_id: str) -> ModelRoute:
    provider_id = str(client.name).strip() or model_id
    spec = ModelSpec(id=model_id, provider_id=provider_id, upstream_model=model_id)
    return ModelRoute(spec=spec, client=client)


def _member(registries: RegistrySet, pool: ModelPool, model_id: str) -> ModelSpec:
    found, owner = registries.models.get(model_id), f"Pool '{pool.id}'"
    if isinstance(found, ModelPool):
        problem = "it is a pool; name its models instead"
        raise InvalidSpec(what=f"{owner}: member '{model_id}'", problem=problem)
    return found or _parse_model_name(owner, model_id)


def _parse_model_name(owner: str, model_id: str) -> ModelSpec:
    """Read `provider:model`; a bare word is a provider with one model of its own name."""
    provider, _, upstream = model_id.partition(":")
    if not provider.strip():
        raise InvalidSpec(what=f"{owner}: model '{model_id}'", problem="write provider:model")
    return ModelSpec(id=model_id, provider_id=provider, upstream_model=upstream.strip() or provider)


def _route(registries: RegistrySet, spec: ModelSpec, owner: str) -> ModelRoute:
    client = registries.providers.get(spec.provider_id)
    if client is None:
        raise _unknown_provider(owner, spec, registries)
    if spec.id.rstrip(": ") == spec.provider_id and getattr(client, "needs_model", False):
        problem = f"it names no model; write {spec.provider_id}:MODEL"
        raise InvalidSpec(what=f"{owner}: model '{spec.id}'", problem=problem)
    return ModelRoute(spec=spec, client=client)


def _unknown_provider(owner: str, model: ModelSpec, registries: RegistrySet) -> UnknownProvider:
    name, known = model.provider_id, names(registries.providers)
    models = f", known models: {names(registries.models)}" if registries.models else ""
    # Only a mistake needs it.
    from .model_names import suggest_model  # noqa: PLC0415

    near = suggest_model(model.id, registries.providers, registries.models)
    return UnknownProvider(
        owner=f"Model '{model.id}'",
        kind="provider",
        name=name,
        known=known,
        agent=owner,
        model_id=model.id,
        models=models,
        hint=f"did you mean '{near}'? Known" if near else "known",
    )


def names(known: Mapping[str, Any]) -> str:
    """The known names, for an error message."""
    return ", ".join(sorted(known)) or "none"
