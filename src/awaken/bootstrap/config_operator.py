"""Access to the configuration of a store for operators: compiles and publishes, runs nothing."""

from types import TracebackType
from typing import Any

import msgspec

from awaken.contracts.storage.store import Store
from awaken.managed.configuration import ManagedConfig
from awaken.runtime.resolution.registries import RegistrySet

from .composition import Declared, RuntimeCalls, compose_runtime
from .runtime_options import ManagedOptions, RuntimeOptions

NO_CODE = Declared(agents=(), tools=(), plugins=(), providers={}, backends={})
"""Without an app: patches on records of the code cannot be checked."""


class OperatorCode(msgspec.Struct, frozen=True, kw_only=True):
    """The code of an app, against which an operator compiles."""

    declared: Declared = NO_CODE
    options: dict[str, Any] = {}


def read_code(registries: RegistrySet) -> OperatorCode:
    """Return what the code of a runtime declares; its own objects are shared, not opened."""
    everywhere = tuple(registries.plugins[name] for name in registries.everywhere)
    written = [it.written for it in registries.agents.values() if it.written is not None]
    return OperatorCode(
        declared=Declared(
            agents=written,
            tools=tuple(registries.tools.values()),
            plugins=tuple(
                it for name, it in registries.plugins.items() if name not in registries.everywhere
            ),
            providers={name: it for name, it in registries.providers.items() if name != "scripted"},
            backends={name: it for name, it in registries.backends.items() if name != "local"},
        ),
        options={"everywhere": everywhere, "models": tuple(registries.models.values())},
    )


class ConfigOperator:
    """The managed configuration of a store. Use it as an async context manager.

    Nothing is executed, installed or connected: what it publishes reaches the processes that serve.
    """

    def __init__(self, store: Store, code: OperatorCode | None = None) -> None:
        given = code or OperatorCode()
        options = RuntimeOptions(managed=ManagedOptions(is_installing=False), has_worker=False)
        options.update(given.options)  # type: ignore[typeddict-item]
        calls = RuntimeCalls(start_worker=lambda: None, has_claiming_worker=lambda: False)
        self._parts = compose_runtime(given.declared, store, options, calls)
        assert self._parts.managed is not None
        self.managed: ManagedConfig = self._parts.managed
        self.store: Store = self._parts.node.store
        self.registry = self._parts.registry

    async def __aenter__(self) -> "ConfigOperator":
        await self._parts.node.open()
        # Whether a secret exists is part of every plan.
        await self.managed.parts.resolver.reload(self.managed.parts.store)
        return self

    async def __aexit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        try:
            await self._parts.node.close(self._parts.engine.close)
        finally:
            await self.release()

    async def release(self) -> None:
        """Close what compiling opened; for one that was not entered, over a store that is open."""
        await self._parts.plugins.close()
        await self._parts.backends.close()
        await self._parts.connections.close()
