"""Images, documents, audio and video for Converse: bytes with one of its formats."""

import re
from hashlib import sha256
from typing import Any

from awaken.contracts.messages.content import Audio, Base64Source, Document, Image, Video
from awaken.contracts.models.errors import InvalidRequest

_OFFICE = "application/vnd.openxmlformats-officedocument"
_FORMATS = {
    "image/png": "png",
    "image/jpeg": "jpeg",
    "image/gif": "gif",
    "image/webp": "webp",
    "application/pdf": "pdf",
    "text/csv": "csv",
    "application/msword": "doc",
    f"{_OFFICE}.wordprocessingml.document": "docx",
    "application/vnd.ms-excel": "xls",
    f"{_OFFICE}.spreadsheetml.sheet": "xlsx",
    "text/html": "html",
    "text/plain": "txt",
    "text/markdown": "md",
    "audio/mpeg": "mp3",
    "audio/wav": "wav",
    "audio/x-wav": "wav",
    "audio/aac": "aac",
    "audio/flac": "flac",
    "audio/ogg": "ogg",
    "audio/mp4": "mp4",
    "audio/webm": "webm",
    "video/mp4": "mp4",
    "video/quicktime": "mov",
    "video/x-matroska": "mkv",
    "video/webm": "webm",
    "video/mpeg": "mpeg",
}
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9()\[\]-]+")
_NAME_CHARS = 200


def media_block(block: Image | Document | Audio | Video) -> dict[str, Any]:
    """Return the Converse block.

    Raises:
        InvalidRequest: It is given by a URL, or Converse does not accept its type.
    """
    kind, source = type(block).__name__.lower(), block.source
    if not isinstance(source, Base64Source):
        # The query may contain a signature of the URL, which is a secret.
        place = re.split(r"[?#]", source.url)[0]
        message = f"Bedrock fetches nothing: send the bytes of {kind} '{place}' instead of its URL"
        raise InvalidRequest(message)
    media_type = source.media_type.partition(";")[0].strip().lower()
    family = media_type.partition("/")[0]
    is_fitting = family == kind or (kind == "document" and family in ("application", "text"))
    if not is_fitting or media_type not in _FORMATS:
        message = f"Bedrock takes no {kind} of type '{source.media_type}'"
        raise InvalidRequest(message)
    name = {"name": _name(block)} if isinstance(block, Document) else {}
    content = {"format": _FORMATS[media_type], **name, "source": {"bytes": source.data}}
    return {kind: content}


def _name(document: Document) -> str:
    """Return a name of allowed characters; without a title it is a hash of the contents."""
    title = _NOT_IN_NAMES.sub(" ", document.title or "").strip()[:_NAME_CHARS]
    if title:
        return title
    assert isinstance(document.source, Base64Source)
    return f"document-{sha256(document.source.data.encode()).hexdigest()[:12]}"
