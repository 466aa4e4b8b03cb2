"""The remote backends that every runtime has, and the source of agent cards."""

import importlib
import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from awaken.authoring.functions import is_interruption
from awaken.contracts.backends.backend import ExecutionBackend, ExecutionBackendFactory
from awaken.contracts.clock import Clock
from awaken.contracts.errors import InvalidInput
from awaken.contracts.specs.agents import RemoteEndpoint
from awaken.contracts.specs.remote_registries import RemoteRegistry
from awaken.runtime.resolution.backends import complete_backend, complete_factory

from .registries import check_mapping

logger = logging.getLogger(__name__)

AnyBackend = ExecutionBackend | ExecutionBackendFactory


class Backends:
    """Backends by name; closed with the runtime."""

    def __init__(self, given: Mapping[str, AnyBackend], clock: Clock) -> None:
        known: dict[str, AnyBackend] = {
            "a2a": _LazyFactory(partial(_a2a, clock)),
            "acp": _LazyFactory(partial(_acp, clock)),
        }
        self.by_name = known | _check_backends(given)

    async def fetch_card(self, registry: RemoteRegistry) -> bytes:
        """Fetch the card that describes another server's agent."""
        module: Any = importlib.import_module("awaken.backends.a2a.cards")
        card: bytes = await module.A2ACards(_guard()).fetch_card(registry)
        return card

    async def close(self) -> None:
        """Close connections and processes; one that fails does not prevent the others."""
        for backend in self.by_name.values():
            if isinstance(backend, ExecutionBackendFactory):
                try:
                    await backend.close()
                except BaseException as error:
                    if is_interruption(error):
                        raise
                    # The others must be closed too.
                    logger.exception("Backend %s could not be closed.", type(backend).__name__)


class _LazyFactory:
    """A factory that is imported when the first agent needs it; most runtimes never do."""

    def __init__(self, make: Callable[[], ExecutionBackendFactory]) -> None:
        self._make = make
        self._made: ExecutionBackendFactory | None = None

    def validate(self, endpoint: RemoteEndpoint) -> None:
        """Check an endpoint without network access."""
        self._factory().validate(endpoint)

    def build(self, endpoint: RemoteEndpoint) -> ExecutionBackend:
        """Make the backend of an endpoint."""
        return self._factory().build(endpoint)

    async def close(self) -> None:
        """Close the factory, if it was imported."""
        if self._made is not None:
            await self._made.close()

    def _factory(self) -> ExecutionBackendFactory:
        if self._made is None:
            self._made = self._make()
        return self._made


def _a2a(clock: Clock) -> ExecutionBackendFactory:
    module: Any = importlib.import_module("awaken.backends.a2a.backend")
    factory: ExecutionBackendFactory = module.A2ABackendFactory(_guard(), clock)
    return factory


def _acp(clock: Clock) -> ExecutionBackendFactory:
    module: Any = importlib.import_module("awaken.backends.acp.backend")
    factory: ExecutionBackendFactory = module.AcpBackendFactory(clock=clock)
    return factory


def _guard() -> Any:
    module: Any = importlib.import_module("awaken.outbound.guard")
    return module.Outbound()


def _check_backends(backends: Mapping[str, AnyBackend]) -> dict[str, AnyBackend]:
    found: dict[str, AnyBackend] = {}
    for name, given in check_mapping("backends", backends).items():
        what, kind = f"backend '{name}'", type(given).__name__
        if isinstance(given, type):
            problem = f"{given.__name__} is a class; pass what it makes"
            raise InvalidInput(what=what, problem=problem)
        backend = complete_backend(given) or complete_factory(given)
        if backend is None:
            problem = (
                f"a {kind} is no ExecutionBackend, it has neither execute_root nor "
                "execute_delegate; nor is it an ExecutionBackendFactory, it has no build"
            )
            raise InvalidInput(what=what, problem=problem)
        found[name] = backend
    return found
