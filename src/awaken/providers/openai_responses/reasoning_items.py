"""The parts of an answer's items that a block of reasoning carries in its signature."""

import msgspec

from awaken.contracts.messages.content import Thinking
from awaken.contracts.models.inference import ThinkingSignature

ORIGIN = "openai_responses"


class ReasoningItem(msgspec.Struct, omit_defaults=True):
    """The item behind a block of reasoning, or the phase of the text that follows it."""

    id: str | None = None
    encrypted_content: str | None = None
    is_raw: bool = False
    """Whether the text is the reasoning itself, not a summary of it."""
    phase: str | None = None
    calls_before: tuple[str, ...] = ()
    """The answer's tool calls before this item; some may have been dropped since."""


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(ReasoningItem).decode


def make_signature(kept: ReasoningItem, origin: str = ORIGIN) -> ThinkingSignature:
    """Return the event that carries an item into the transcript."""
    return ThinkingSignature(signature=_encode(kept).decode(), origin=origin)


def read_reasoning_item(block: Thinking, origin: str = ORIGIN) -> ReasoningItem | None:
    """Read the item that an earlier answer stored in a block; None if the origin differs."""
    if block.origin != origin or block.signature is None:
        return None
    return _decode(block.signature)
