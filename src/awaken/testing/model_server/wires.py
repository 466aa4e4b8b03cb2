"""Which wire format a request speaks."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol
from urllib.parse import urlsplit

from awaken.contracts.models.inference import TokenUsage
from awaken.testing.scripted_model import DEFAULT_USAGE, Answer

from . import anthropic, gemini, openai_chat, openai_responses
from .answers import Said, split_answer
from .failures import ScriptedRefusal
from .sse import Json


class ServedWire(Protocol):
    """A vendor's format, from the side of the vendor."""

    def stream(self, said: Said, body: Json, /) -> Iterator[bytes]:
        """Yield the server-sent events of an answer."""
        ...

    def failure(self, refusal: ScriptedRefusal, /) -> Json:
        """Return the body of an error."""
        ...

    def turns(self, body: Json, /) -> Iterable[tuple[str, str]]:
        """Role and text of every message."""
        ...


WIRES: Mapping[str, ServedWire] = {
    "openai_chat": openai_chat,
    "openai_responses": openai_responses,
    "anthropic": anthropic,
    "gemini": gemini,
}
_ENDINGS = {
    "/chat/completions": openai_chat,
    "/responses": openai_responses,
    "/messages": anthropic,
    ":streamGenerateContent": gemini,
}


def wire_of(path: str) -> ServedWire | None:
    """Return the format that is spoken under a path, whatever it begins with."""
    route = urlsplit(path).path
    return next((wire for end, wire in _ENDINGS.items() if route.endswith(end)), None)


def stream_of(
    wire: str, answer: Answer | Said, usage: TokenUsage | None = DEFAULT_USAGE
) -> list[bytes]:
    """Return the server-sent events of an answer in one of `WIRES`, without any server."""
    body = {"stream_options": {"include_usage": True}}
    return list(WIRES[wire].stream(split_answer(answer, usage), body))
