"""A model of pydantic-ai behind our port. The library is loaded when the first call needs it."""

import asyncio
import importlib
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from awaken.contracts.errors import InvalidSpec
from awaken.contracts.models.addresses import server_of
from awaken.contracts.models.inference import InferenceRequest, ModelEvent
from awaken.contracts.models.model_specs import ProviderSpec

if TYPE_CHECKING:
    from .library import Library

_MakeModel = Callable[[str], Any]


class BridgeClient:
    """Calls any model that pydantic-ai knows: `cohere:command-r` names its provider and model.

    `make_model` builds the library's model for such a name; by default the library builds it with
    the key, the base URL and the adapter options of the spec.

    Raises:
        InvalidSpec: The extra is not installed.
    """

    __slots__ = ("_library", "_make_model", "_spec", "name", "server")

    def __init__(self, spec: ProviderSpec, make_model: _MakeModel | None = None) -> None:
        if find_spec("pydantic_ai") is None:
            problem = "it needs pydantic-ai: pip install 'awaken[providers]'"
            raise InvalidSpec(what=f"provider '{spec.id}'", problem=problem)
        self.name = spec.id
        self._spec = spec
        self._make_model = make_model
        self._library: Library | None = None
        self.server = server_of(spec.base_url)

    def __repr__(self) -> str:
        return f"BridgeClient({self.name!r})"

    async def stream(self, request: InferenceRequest) -> AsyncGenerator[ModelEvent, None]:
        """Ask the model and yield its answer as it comes.

        Raises:
            ModelError: The call failed; no error contains the key.
        """
        if self._library is None:
            # Loaded in a thread: it takes a while, and other runs must not wait.
            self._library = await asyncio.to_thread(_load_library, self._spec, self._make_model)
        async with aclosing(self._library.ask(request)) as events:
            async for event in events:
                yield event


def _load_library(spec: ProviderSpec, make_model: _MakeModel | None) -> "Library":
    library: Library = importlib.import_module("awaken.providers.bridge.library").Library(
        spec, make_model
    )
    return library
