"""OpenRouter's own form of reasoning: it comes in pieces and is sent back as a whole."""

from collections.abc import Iterable
from typing import Any

import msgspec

_GROWING = {"reasoning.text": "text", "reasoning.summary": "summary"}
"""The kinds that come in pieces, and the field that grows."""


class ChatDetails:
    """The details of one block of reasoning."""

    __slots__ = ("_found",)

    def __init__(self) -> None:
        self._found: list[tuple[dict[str, Any], list[str]]] = []

    def take(self, pieces: Iterable[dict[str, Any]]) -> None:
        """Add the pieces of one chunk: new details, or more of the newest one."""
        for piece in pieces:
            name = _GROWING.get(str(piece.get("type")), "")
            text = piece.get(name)
            if not self._found or not name or not _continues(self._found[-1][0], piece):
                self._found.append(({}, []))
            fields, texts = self._found[-1]
            fields.update((key, value) for key, value in piece.items() if value is not None)
            if isinstance(text, str):
                texts.append(text)

    def close(self) -> str | None:
        """Return the details so far as JSON, to be sent back unchanged, and start a new block."""
        found, self._found = self._found, []
        for fields, texts in found:
            if texts:
                fields[_GROWING[fields["type"]]] = "".join(texts)
        return msgspec.json.encode([fields for fields, _ in found]).decode() if found else None


def details_of(signatures: Iterable[str]) -> list[Any]:
    """Return all details of a message from the signatures of its blocks.

    Raises:
        ValueError: A signature was not made by `ChatDetails`.
    """
    return [it for signature in signatures for it in msgspec.json.decode(signature, type=list[Any])]


def _continues(known: dict[str, Any], piece: dict[str, Any]) -> bool:
    is_same = all(known.get(name) == piece.get(name) for name in ("type", "index"))
    return is_same and piece.get("id") in (None, known.get("id"))
