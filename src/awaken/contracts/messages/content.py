"""Content blocks: what a message is made of."""

from typing import Any

import msgspec

from awaken.contracts.record import Record, always


class Base64Source(Record, frozen=True, kw_only=True, tag_field="type", tag="base64"):
    """Bytes carried inside the message."""

    media_type: str
    data: str


class UrlSource(Record, frozen=True, kw_only=True, tag_field="type", tag="url"):
    """Bytes that the reader fetches from a URL."""

    url: str


Source = Base64Source | UrlSource


class Text(Record, frozen=True, kw_only=True, tag_field="type", tag="text"):
    """Plain text."""

    text: str


class Image(Record, frozen=True, kw_only=True, tag_field="type", tag="image"):
    """A picture."""

    source: Source


class Document(Record, frozen=True, kw_only=True, tag_field="type", tag="document"):
    """A file such as a PDF."""

    source: Source
    title: str | None = None


class Audio(Record, frozen=True, kw_only=True, tag_field="type", tag="audio"):
    """A sound recording."""

    source: Source


class Video(Record, frozen=True, kw_only=True, tag_field="type", tag="video"):
    """A video recording."""

    source: Source


class ToolUse(Record, frozen=True, kw_only=True, tag_field="type", tag="tool_use"):
    """A tool call as some providers put it between text."""

    id: str
    name: str
    input: Any = always(None)


class ToolResultContent(Record, frozen=True, kw_only=True, tag_field="type", tag="tool_result"):
    """A tool result as some providers put it between text."""

    tool_use_id: str
    content: tuple["ContentBlock", ...] = always(())


class Thinking(Record, frozen=True, kw_only=True, tag_field="type", tag="thinking"):
    """The model's reasoning; `signature` is opaque and goes back to the provider unchanged."""

    thinking: str
    signature: str | None = None
    origin: str | None = None
    """The format and provider that made the signature; requests to others omit the block."""


ContentBlock = Text | Image | Document | Audio | Video | ToolUse | ToolResultContent | Thinking


def text_of(blocks: "tuple[ContentBlock, ...] | None") -> str:
    """Concatenate the text blocks; every other block is ignored."""
    if not blocks:
        return ""
    first, *others = blocks
    if not others and type(first) is Text:
        return first.text
    return "".join(block.text for block in blocks if type(block) is Text)


def replace_surrogates(text: str) -> str:
    """Return the text, with lone surrogates replaced so that it can be written as UTF-8."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


def escape_unprintable(text: str) -> str:
    """Return the text on one line, with everything invisible spelled out.

    Text from models and other parties must not reach a terminal or a log as control characters.
    """
    if text.isprintable():
        return text
    return "".join(
        mark if mark.isprintable() else mark.encode("unicode_escape").decode() for mark in text
    )


decode_block = msgspec.json.Decoder(ContentBlock).decode
