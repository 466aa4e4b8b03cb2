"""Requests and answers of `POST /v1/messages`."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal

import msgspec

from awaken.contracts.models.inference import InferenceRequest, ModelTool
from awaken.contracts.record import StrictRecord
from awaken.contracts.secrets import RedactedString
from awaken.providers.http.codec import WireRequest, build_wire_request
from awaken.providers.http.encoding_cache import EncodedMessages, EncodedParts
from awaken.providers.http.options import read_options
from awaken.providers.http.turns import (
    FIRST_WORDS,
    join_turns,
    make_call_ids_distinct,
    order_results,
    split_system,
)

from .decode import AnthropicDecoder
from .encode import ORIGIN, encode_message, encode_system, encode_tools, parameters

_OPENINGS = {
    "user": b'{"role":"user","content":[',
    "assistant": b'{"role":"assistant","content":[',
}
_FIRST_WORDS = msgspec.json.encode({"type": "text", "text": FIRST_WORDS})


class AnthropicOptions(StrictRecord, frozen=True, kw_only=True):
    """What a provider of this format may set in `adapter_options`."""

    version: str = "2026-10-21"
    key_header: Literal["authorization", "x-api-key"] = "authorization"
    """The header of the key; older endpoints expect it in `x-api-key`."""
    betas: tuple[str, ...] = ()
    max_tokens: Annotated[int, msgspec.Meta(gt=0)] = 16_384
    """The default length limit of an answer, without the budget for reasoning."""
    cache_ttl: Literal["5m", "1h"] | None = None


class AnthropicCodec:
    """Speaks the Anthropic Messages format."""

    __slots__ = ("_marked_tools", "_marker", "_messages", "_options", "_tools", "origin")
    base_url = "https://api.anthropic.com"

    def __init__(
        self, options: Mapping[str, Any] = MappingProxyType({}), origin: str = ORIGIN
    ) -> None:
        self.origin = origin
        self._options = read_options("anthropic", AnthropicOptions, options)
        ttl = self._options.cache_ttl
        self._marker = {"type": "ephemeral", **({"ttl": ttl} if ttl else {})}
        self._messages = EncodedMessages(lambda message: encode_message(message, origin))
        self._tools = EncodedParts[tuple[ModelTool, ...]](encode_tools)
        self._marked_tools = EncodedParts[tuple[ModelTool, ...]](
            lambda tools: encode_tools(tools, self._marker)
        )

    def encode(self, request: InferenceRequest) -> WireRequest:
        """Build the request.

        Raises:
            InvalidRequest: The format cannot express a part of it.
        """
        return build_wire_request("/v1/messages", self._body, request)

    def _body(self, request: InferenceRequest) -> bytes:
        leading, messages = split_system(request.messages)
        marker = self._marker if request.enable_prompt_cache else None
        head = parameters(request, self._options.max_tokens, marker, self.origin)
        parts = [msgspec.json.encode(head)[:-1]]
        if system := encode_system((*request.system, *leading), marker):
            parts += (b',"system":', system)
        if request.tools:
            tools = self._marked_tools if marker else self._tools
            parts += (b',"tools":', tools.of(request.tools))
        of = self._messages.of
        pieces = [of(message) for message in make_call_ids_distinct(order_results(messages))]
        parts += (b',"messages":[', join_turns(pieces, _OPENINGS, _FIRST_WORDS), b"]}")
        return b"".join(parts)

    def headers(self, key: RedactedString | None) -> Mapping[str, str]:
        """Return the headers of every request, including the key."""
        headers = {"anthropic-version": self._options.version}
        if self._options.betas:
            headers["anthropic-beta"] = ",".join(self._options.betas)
        if key is not None:
            is_bearer = self._options.key_header == "authorization"
            headers[self._options.key_header] = (
                f"Bearer {key.reveal()}" if is_bearer else key.reveal()
            )
        return headers

    def decoder(self) -> AnthropicDecoder:
        """Return a new decoder for one answer."""
        return AnthropicDecoder(self.origin)
