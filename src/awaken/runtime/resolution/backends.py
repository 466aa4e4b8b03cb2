"""Adds the port's defaults to backends and factories that implement only a part of it.

A subclass of the port inherits the defaults. Any other object is wrapped here.
"""

from typing import Any

from awaken.contracts.backends.backend import ExecutionBackend, ExecutionBackendFactory
from awaken.contracts.specs.agents import RemoteEndpoint

_EXECUTES = ("execute_root", "execute_delegate")
_OF_BACKEND = ("capabilities", *_EXECUTES, "abort")
_OF_FACTORY = ("validate", "build", "close")


def complete_backend(given: Any) -> ExecutionBackend | None:
    """The backend with all methods of the port; None if the object can execute nothing."""
    found = _methods(given, _OF_BACKEND)
    if len(found) == len(_OF_BACKEND):
        backend: ExecutionBackend = given
        return backend
    return _PartBackend(found) if any(name in found for name in _EXECUTES) else None


def complete_factory(given: Any) -> ExecutionBackendFactory | None:
    """The factory with all methods of the port; None if the object can build nothing."""
    found = _methods(given, _OF_FACTORY)
    if len(found) == len(_OF_FACTORY):
        factory: ExecutionBackendFactory = given
        return factory
    return _PartFactory(found) if "build" in found else None


class _PartBackend(ExecutionBackend):
    """The backend methods that an object has, and the defaults of the port for the others."""

    def __init__(self, methods: dict[str, Any]) -> None:
        self.__dict__.update(methods)


class _PartFactory(ExecutionBackendFactory):
    """The factory methods that an object has, and the defaults of the port for the others."""

    def __init__(self, methods: dict[str, Any]) -> None:
        self.__dict__.update(methods)
        self._build = methods["build"]

    def build(self, endpoint: RemoteEndpoint) -> ExecutionBackend:
        """Make the backend of an endpoint."""
        made: ExecutionBackend = self._build(endpoint)
        return made


def _methods(given: Any, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: found for name in names if callable(found := getattr(given, name, None))}
