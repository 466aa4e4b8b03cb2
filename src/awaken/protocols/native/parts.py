"""Content that clients send: the same blocks as stored ones, but unknown fields are refused."""

from collections.abc import Iterable
from typing import Any

from awaken.contracts.messages import content
from awaken.contracts.record import StrictRecord


class Base64Data(StrictRecord, frozen=True, kw_only=True, tag_field="type", tag="base64"):
    """Bytes carried inside the message."""

    media_type: str
    data: str


class UrlData(StrictRecord, frozen=True, kw_only=True, tag_field="type", tag="url"):
    """Bytes at an address."""

    url: str


class TextPart(StrictRecord, frozen=True, kw_only=True, tag_field="type", tag="text"):
    """Plain text."""

    text: str


class ImagePart(StrictRecord, frozen=True, kw_only=True, tag_field="type", tag="image"):
    """An image."""

    source: Base64Data | UrlData


class DocumentPart(StrictRecord, frozen=True, kw_only=True, tag_field="type", tag="document"):
    """A file such as a PDF."""

    source: Base64Data | UrlData
    title: str | None = None


class AudioPart(StrictRecord, frozen=True, kw_only=True, tag_field="type", tag="audio"):
    """A sound recording."""

    source: Base64Data | UrlData


class VideoPart(StrictRecord, frozen=True, kw_only=True, tag_field="type", tag="video"):
    """A video."""

    source: Base64Data | UrlData


Part = TextPart | ImagePart | DocumentPart | AudioPart | VideoPart

_STORED: dict[type, Any] = {
    TextPart: content.Text, ImagePart: content.Image, DocumentPart: content.Document,
    AudioPart: content.Audio, VideoPart: content.Video,
    Base64Data: content.Base64Source, UrlData: content.UrlSource,
}  # fmt: skip


def build_blocks(parts: Iterable[Part]) -> tuple[content.ContentBlock, ...]:
    """Convert parts to stored content blocks."""
    return tuple(map(_build_stored, parts))


def _build_stored(part: Any) -> Any:
    given = ((name, getattr(part, name)) for name in part.__struct_fields__)
    return _STORED[type(part)](
        **{name: _build_stored(it) if name == "source" else it for name, it in given}
    )
