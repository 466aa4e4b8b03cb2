"""Requests and answers of `POST /responses`."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from awaken.contracts.models.inference import InferenceRequest, ModelTool
from awaken.contracts.secrets import RedactedString
from awaken.providers.http.codec import WireRequest, build_wire_request
from awaken.providers.http.encoding_cache import EncodedMessages, EncodedParts
from awaken.providers.http.options import read_options

from .decode import ResponsesDecoder
from .encode import ResponsesOptions, encode_message, encode_tools, parameters
from .reasoning_items import ORIGIN


class OpenAiResponsesCodec:
    """Speaks Responses; `options` are the fields of `ResponsesOptions`.

    Raises:
        InvalidSpec: An option is unknown or has a wrong value.
    """

    __slots__ = ("_messages", "_options", "_tools", "origin")
    base_url = "https://api.openai.com/v1"

    def __init__(
        self, options: Mapping[str, Any] = MappingProxyType({}), origin: str = ORIGIN
    ) -> None:
        self.origin = origin
        self._options = read_options("openai_responses", ResponsesOptions, options)
        self._messages = EncodedMessages(lambda message: encode_message(message, origin))
        self._tools = EncodedParts[tuple[ModelTool, ...]](encode_tools)

    def encode(self, request: InferenceRequest) -> WireRequest:
        """Build the request.

        Raises:
            InvalidRequest: The format cannot express a part of it.
        """
        return build_wire_request("/responses", self._body, request)

    def _body(self, request: InferenceRequest) -> bytes:
        head = parameters(request, self._options)
        if request.tools:
            head["tools"] = msgspec.Raw(self._tools.of(request.tools))
        of = self._messages.of
        items = [item for message in request.messages if (item := of(message))]
        return b'%b,"input":[%b]}' % (msgspec.json.encode(head)[:-1], b",".join(items))

    def headers(self, key: RedactedString | None) -> Mapping[str, str]:
        """Return the key as a bearer token; self-hosted servers often need none."""
        return {"authorization": f"Bearer {key.reveal().strip()}"} if key else {}

    def decoder(self) -> ResponsesDecoder:
        """Return a new decoder for one answer."""
        return ResponsesDecoder(self.origin)
