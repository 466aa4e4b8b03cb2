"""Requests and answers of `POST /chat/completions`."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from awaken.contracts.models.inference import InferenceRequest, ModelTool
from awaken.contracts.secrets import RedactedString
from awaken.providers.http.codec import WireRequest, build_wire_request
from awaken.providers.http.encoding_cache import EncodedMessages, EncodedParts
from awaken.providers.http.options import read_options
from awaken.providers.http.turns import order_results

from .decode import ORIGIN, ChatDecoder
from .encode import ChatOptions, encode_message, encode_tools, order_messages, parameters


class OpenAiChatCodec:
    """Speaks Chat Completions; `options` are the fields of `ChatOptions`.

    Raises:
        InvalidSpec: An option is unknown or has a wrong value.
    """

    __slots__ = ("_messages", "_options", "_tools", "origin")
    base_url = "https://api.openai.com/v1"

    def __init__(
        self, options: Mapping[str, Any] = MappingProxyType({}), origin: str = ORIGIN
    ) -> None:
        self.origin = origin
        self._options = chosen = read_options("openai_chat", ChatOptions, options)
        self._messages = EncodedMessages(lambda message: encode_message(message, chosen, origin))
        self._tools = EncodedParts[tuple[ModelTool, ...]](encode_tools)

    def encode(self, request: InferenceRequest) -> WireRequest:
        """Build the request.

        Raises:
            InvalidRequest: The format cannot express a part of it.
        """
        return build_wire_request("/chat/completions", self._body, request)

    def _body(self, request: InferenceRequest) -> bytes:
        head = parameters(request, self._options)
        if request.tools:
            head["tools"] = msgspec.Raw(self._tools.of(request.tools))
        of = self._messages.of
        messages = [of(message) for message in order_results(request.messages)]
        items = order_messages(request.system, messages, self._options.system_role)
        return b'%b,"messages":[%b]}' % (msgspec.json.encode(head)[:-1], b",".join(items))

    def headers(self, key: RedactedString | None) -> Mapping[str, str]:
        """Return the key as a bearer token; self-hosted servers often need none."""
        return {"authorization": f"Bearer {key.reveal().strip()}"} if key else {}

    def decoder(self) -> ChatDecoder:
        """Return a new decoder for one answer."""
        return ChatDecoder(self.origin)
