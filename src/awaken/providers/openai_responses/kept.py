"""What is kept of an answer's items between turns, in the signature of a block of reasoning."""

import msgspec

from awaken.contracts.messages.content import Thinking
from awaken.contracts.models.inference import ThinkingSignature

ORIGIN = "openai_responses"


class Kept(msgspec.Struct, omit_defaults=True):
    """The item behind a block of reasoning, or the phase of the text that follows it."""

    id: str | None = None
    encrypted_content: str | None = None
    is_raw: bool = False
    """Whether the text is the reasoning itself, not a summary of it."""
    phase: str | None = None
    calls_before: tuple[str, ...] = ()
    """The answer's tool calls that came before this, some of which may have been dropped since."""


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Kept).decode


def signed(kept: Kept, origin: str = ORIGIN) -> ThinkingSignature:
    """The event that carries it into the transcript."""
    return ThinkingSignature(signature=_encode(kept).decode(), origin=origin)


def kept_of(block: Thinking, origin: str = ORIGIN) -> Kept | None:
    """What an earlier answer left in a block; nothing if it is of another origin."""
    if block.origin != origin or block.signature is None:
        return None
    return _decode(block.signature)
