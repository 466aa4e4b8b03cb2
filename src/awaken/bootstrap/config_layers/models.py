"""Providers, models and pools of a configuration; what did not change keeps its objects."""

import asyncio
from collections.abc import Mapping
from typing import Any

from awaken.bootstrap.providers import (
    Connections,
    ProviderClient,
    apply_base_url,
    complete_spec,
)
from awaken.contracts.errors import AwakenError
from awaken.contracts.models.budgets import PriceList
from awaken.contracts.models.inference import ModelClient, TokenUsage
from awaken.contracts.models.model_specs import ModelPool, ModelSpec, ProviderSpec

from .build import LayerBuild

_ONE_OF_EACH = TokenUsage(prompt_tokens=1, completion_tokens=1)


class ClientCache:
    """Provider clients by the hash of their spec and the address that they call."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._clients: dict[tuple[str, str, str | None], ProviderClient] = {}

    async def find_client(self, spec: ProviderSpec, hash_: str) -> ModelClient:
        """Return the client of a provider; the same one while neither spec nor address changes.

        Raises:
            AwakenError: The spec cannot be used.
        """
        # The environment may move a vendor's address while the process runs.
        key = (spec.id, hash_, apply_base_url(spec).base_url)
        if key not in self._clients:
            # Its codec, which checks the options, may have to be imported.
            whole = await asyncio.to_thread(complete_spec, spec.id, spec)
            self._clients[key] = ProviderClient(whole, self._connections)
        return self._clients[key]

    def prune(self, used: set[int]) -> None:
        """Forget the clients whose `id()` is not among those in use."""
        self._clients = {key: it for key, it in self._clients.items() if id(it) in used}


async def add_providers(build: LayerBuild, clients: ClientCache) -> None:
    """Add a client for each provider."""
    for name, record in build.records("providers").items():
        try:
            build.providers[name] = await clients.find_client(record.spec, record.hash)
        except AwakenError as error:
            build.refuse_error(f"providers/{name}", error)


def add_models(build: LayerBuild, prices: PriceList) -> None:
    """Add models and pools whose providers and members are known."""
    for name, record in build.records("models").items():
        model: ModelSpec = record.spec
        if not _has_provider(build, model.provider_id):
            message = f"No provider '{model.provider_id}' is known."
            path = f"models/{name}/provider_id"
            build.refuse(path, "unknown_reference", message, _known_providers(build))
            continue
        build.models[name] = model
        if prices.nanos(model, _ONE_OF_EACH) is None:
            message = f"Model '{name}' has no price: what it costs is not known."
            build.warn(f"models/{name}", "no_price", message)
    for name, record in build.records("model-pools").items():
        pool: ModelPool = record.spec
        for at, member in enumerate(pool.members):
            path = f"model-pools/{name}/members/{at}/model_id"
            if find_model(build, member.model_id) is ModelPool:
                build.refuse(path, "invalid", "A member of a pool is a model, not a pool.")
            elif find_model(build, member.model_id) is None:
                message = f"No model '{member.model_id}' is known."
                known = {*_known_models(build)} - _known_pools(build)
                build.refuse(path, "unknown_reference", message, known)
    for name, record in build.records("model-pools").items():
        build.models[name] = record.spec


def find_model(build: LayerBuild, model_id: str) -> type | None:
    """What a name of a model stands for; None if it cannot be used."""
    if model_id in _known_pools(build):
        return None if ("model-pools", model_id) in build.broken else ModelPool
    if model_id in build.names("models"):
        return None if ("models", model_id) in build.broken else ModelSpec
    return ModelSpec if _has_provider(build, model_id.partition(":")[0]) else None


def check_model(build: LayerBuild, agent_id: str, model_id: str) -> None:
    """Refuse an agent whose model is unknown, or cannot be used."""
    if find_model(build, model_id) is not None:
        return
    path = f"agents/{agent_id}/model_id"
    if model_id in _known_models(build):
        build.refuse(path, "unusable_reference", f"The model '{model_id}' cannot be used.")
        return
    message = f"No model or pool '{model_id}' is known."
    build.refuse(path, "unknown_reference", message, _known_models(build))


def _has_provider(build: LayerBuild, name: str) -> bool:
    is_known = name in build.providers or name in build.code.registries.providers
    return is_known and ("providers", name) not in build.broken


def _known_providers(build: LayerBuild) -> Mapping[str, Any]:
    return {**build.code.registries.providers, **build.providers}


def _known_pools(build: LayerBuild) -> set[str]:
    return build.names("model-pools")


def _known_models(build: LayerBuild) -> set[str]:
    return {*build.names("models"), *build.names("model-pools")}
