"""Requests and answers of `models/{model}:streamGenerateContent`."""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any
from urllib.parse import quote

import msgspec

from awaken.contracts.messages.message import Message
from awaken.contracts.models.errors import InvalidRequest
from awaken.contracts.models.inference import InferenceRequest, ModelTool
from awaken.contracts.record import StrictRecord
from awaken.contracts.secrets import RedactedString
from awaken.providers.http.codec import WireRequest, build_wire_request
from awaken.providers.http.encoding_cache import EncodedMessages, EncodedParts
from awaken.providers.http.options import read_options
from awaken.providers.http.turns import FIRST_WORDS, join_turns, order_results, split_system

from .decode import GeminiDecoder
from .encode import MODEL, ORIGIN, RESULTS, USER, encode_message, encode_tools, parameters

_OPENINGS = {
    USER: b'{"role":"user","parts":[',
    MODEL: b'{"role":"model","parts":[',
    # The vendor counts the results of a turn: nothing else may be in it.
    RESULTS: b'{"role":"user","parts":[',
}
_FIRST_WORDS = msgspec.json.encode({"text": FIRST_WORDS})


class GeminiOptions(StrictRecord, frozen=True, kw_only=True):
    """What a provider of this format may set in `adapter_options`."""

    api_version: str = "v1"


class GeminiCodec:
    """Speaks the Gemini format."""

    __slots__ = ("_messages", "_options", "_tools", "origin")
    base_url = "https://generativelanguage.googleapis.com"

    def __init__(
        self, options: Mapping[str, Any] = MappingProxyType({}), origin: str = ORIGIN
    ) -> None:
        self.origin = origin
        self._options = read_options("gemini", GeminiOptions, options)
        self._messages = EncodedMessages(lambda message: encode_message(message, origin))
        self._tools = EncodedParts[tuple[ModelTool, ...]](encode_tools)

    def encode(self, request: InferenceRequest) -> WireRequest:
        """Build the request.

        Raises:
            InvalidRequest: The format cannot express a part of it.
        """
        return build_wire_request(self._path(request.upstream_model), self._body, request)

    def _path(self, model: str) -> str:
        name = quote(model if "/" in model else f"models/{model}", safe="/")
        return f"/{self._options.api_version}/{name}:streamGenerateContent?alt=sse"

    def _body(self, request: InferenceRequest) -> bytes:
        leading, messages = split_system(request.messages)
        head = parameters(request, (*request.system, *leading))
        fields = [msgspec.json.encode(head)[1:-1]] if head else []
        if request.tools:
            fields.append(b'"tools":' + self._tools.of(request.tools))
        pieces = self._pieces(order_results(messages))
        contents = join_turns(pieces, _OPENINGS, _FIRST_WORDS)
        fields.append(b'"contents":[' + contents + b"]")
        return b"{" + b",".join(fields) + b"}"

    def _pieces(self, messages: Sequence[Message]) -> Iterator[tuple[str, bytes]]:
        of = self._messages.of
        names: dict[str, bytes] = {}
        for message in messages:
            encoded = of(message)
            if encoded.called:
                names.update(encoded.called)
            if encoded.answered is None:
                yield encoded.piece
                continue
            name = names.get(encoded.answered)
            if name is None:
                text = f"the result of call '{encoded.answered}' has no call before it"
                raise InvalidRequest(text)
            role, body = encoded.piece
            yield role, body % name

    def headers(self, key: RedactedString | None) -> Mapping[str, str]:
        """Return the headers of every request, including the key."""
        return {} if key is None else {"x-goog-api-key": key.reveal()}

    def decoder(self) -> GeminiDecoder:
        """Return a new decoder for one answer."""
        return GeminiDecoder(self.origin)
