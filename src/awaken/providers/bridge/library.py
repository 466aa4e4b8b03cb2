"""One call through pydantic-ai: its model, its stream, our events. Imports the library."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any

from pydantic_ai.direct import model_request_stream
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import ModelResponseStreamEvent
from pydantic_ai.models import Model, StreamedResponse, infer_model
from pydantic_ai.providers import Provider, infer_provider, infer_provider_class

from awaken.contracts.models.errors import ModelError, ModelNotFound, ModelTimeout, Unauthorized
from awaken.contracts.models.inference import InferenceRequest, ModelEvent
from awaken.contracts.models.model_specs import ProviderSpec
from awaken.contracts.secrets import RedactedString, SecretUnresolved

from .answer import AnswerReader
from .failures import failure_of
from .request import messages_of, parameters_of, settings_of

_MODELS = 64


class Library:
    """The library for one provider; models are built once, and the newest ones are cached."""

    __slots__ = ("_key", "_make_model", "_models", "_spec")

    def __init__(self, spec: ProviderSpec, make_model: Callable[[str], Model] | None) -> None:
        self._spec = spec
        self._make_model = make_model or self._infer
        self._models: dict[str, Model] = {}
        self._key: RedactedString | None = None

    async def ask(self, request: InferenceRequest) -> AsyncGenerator[ModelEvent, None]:
        """Ask the model and yield its answer as it comes.

        Raises:
            ModelError: The call failed.
        """
        reader = AnswerReader()
        try:
            model = await self._model(request.upstream_model)
            async with AsyncExitStack() as stack:
                stream = await self._open_stream(stack, model, request)
                events = aiter(stream)
                while (event := await self._next(events)) is not None:
                    for made in reader.take(event):
                        yield made
                for made in reader.end(stream.get()):
                    yield made
        except Exception as error:  # noqa: BLE001 - it wraps a dozen SDKs with their own errors
            # Not chained: the text of the cause may contain the key.
            made_of = failure_of(error, has_begun=reader.has_begun)
            raise _scrub_key(made_of, self._key) from None

    async def _open_stream(
        self, stack: AsyncExitStack, model: Model, request: InferenceRequest
    ) -> StreamedResponse:
        context = model_request_stream(
            model,
            messages_of(request),
            model_settings=settings_of(request),
            model_request_parameters=parameters_of(request, model.profile),
        )
        try:
            async with asyncio.timeout(self._spec.timeout_ms / 1000):
                return await stack.enter_async_context(context)
        except TimeoutError as error:
            raise self._timeout_error() from error

    async def _next(
        self, events: AsyncIterator[ModelResponseStreamEvent]
    ) -> ModelResponseStreamEvent | None:
        try:
            async with asyncio.timeout(self._spec.timeout_ms / 1000):
                return await anext(events, None)
        except TimeoutError as error:
            raise self._timeout_error() from error

    def _timeout_error(self) -> ModelTimeout:
        return ModelTimeout(f"nothing came for {self._spec.timeout_ms} ms")

    async def _model(self, name: str) -> Model:
        try:
            key = self._spec.read_key()
        except SecretUnresolved as error:
            raise Unauthorized(f"provider '{self._spec.id}' has no key: {error}") from None
        if key != self._key:
            # The models keep the key that they were built with.
            self._key = key
            self._models.clear()
        known = self._models.get(name)
        if known is None:
            # In a thread: it imports the vendor's SDK, which takes a while.
            known = await asyncio.to_thread(self._make_model, name)
            if len(self._models) >= _MODELS:
                self._models.pop(next(iter(self._models)))
            self._models[name] = known
        return known

    def _infer(self, name: str) -> Model:
        try:
            return infer_model(name, self._provider)
        except (UserError, ImportError, TypeError, ValueError) as error:
            message = f"'{name}' cannot be asked: {error}"
            is_key_missing = isinstance(error, UserError) and "key" in str(error).lower()
            raise (Unauthorized if is_key_missing else ModelNotFound)(message) from error

    def _provider(self, name: str) -> Provider[Any]:
        options = dict(self._spec.adapter_options)
        if self._key is not None:
            options["api_key"] = self._key.reveal()
        if self._spec.base_url is not None:
            options["base_url"] = self._spec.base_url
        return infer_provider_class(name)(**options) if options else infer_provider(name)


def _scrub_key(error: ModelError, key: RedactedString | None) -> ModelError:
    """Return the error without the key: some vendors repeat parts of the request."""
    if key is None or key.reveal() not in str(error):
        return error
    message = str(error).replace(key.reveal(), str(key))
    return type(error)(message, retry_after_ms=error.retry_after_ms)
