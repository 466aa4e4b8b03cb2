"""Makes the memory of a runtime from its store and its embedding model."""

from collections.abc import Mapping

from awaken.contracts.clock import Clock, IdSource
from awaken.contracts.errors import InvalidInput
from awaken.contracts.memory.engine import Embedder, MemoryEngine
from awaken.contracts.memory.errors import MemoryUnavailable
from awaken.contracts.memory.records import EmbeddingSpec, MemoryLimits
from awaken.contracts.models.inference import ModelClient
from awaken.contracts.storage.store import Store
from awaken.memory.service import MemoryService
from awaken.providers.openai_embeddings import HttpEmbedder

from .arguments import convert_argument
from .providers import Connections, ProviderClient, apply_base_url, find_key
from .runtime_options import RuntimeOptions


def build_memory(
    store: Store,
    clock: Clock,
    ids: IdSource,
    options: RuntimeOptions,
    providers: Mapping[str, ModelClient],
    connections: Connections,
) -> MemoryService:
    """Make memory over a store.

    Raises:
        MemoryUnavailable: The store keeps no memory.
        InvalidInput: There is no such embedding model.
    """
    limits = convert_argument(
        "memory_limits", options.get("memory_limits") or MemoryLimits(), MemoryLimits
    )
    embedder = _build_embedder(options.get("embeddings"), providers, connections)
    return MemoryService(engine_of(store), store, clock, ids, embedder=embedder, limits=limits)


def engine_of(store: Store) -> MemoryEngine:
    """Return where a store keeps memory.

    Raises:
        MemoryUnavailable: It does not.
    """
    open_memory = getattr(store, "open_memory", None)
    if open_memory is None:
        problem = f"store '{getattr(store, 'name', type(store).__name__)}' has no open_memory()"
        raise MemoryUnavailable(problem=problem)
    engine: MemoryEngine = open_memory()
    return engine


def _build_embedder(
    given: object, providers: Mapping[str, ModelClient], connections: Connections
) -> Embedder | None:
    if given is None:
        return None
    if not isinstance(given, EmbeddingSpec):
        if not (hasattr(given, "embed") and isinstance(getattr(given, "model", None), str)):
            problem = "give an EmbeddingSpec, or an object with `model` and `embed`"
            raise InvalidInput(what="embeddings", problem=problem)
        embedder: Embedder = given  # type: ignore[assignment]
        return embedder
    client = providers.get(given.provider_id)
    if not isinstance(client, ProviderClient):
        problem = f"there is no HTTP provider '{given.provider_id}'; pass it in `providers`"
        raise InvalidInput(what="embeddings", problem=problem)
    spec = apply_base_url(client.spec)
    return HttpEmbedder(given, spec, connections.pool(), lambda: find_key(spec))
