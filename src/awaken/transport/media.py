"""Turns files that clients send, as URLs or as bytes, into content; one rule for all protocols."""

import base64
import binascii
import mimetypes
from collections.abc import Callable, Mapping
from urllib.parse import unquote_to_bytes

import re2

from awaken.contracts.messages import content

from .problems import HttpError

FILE_BYTES_MAX = 32 * 1024 * 1024
_HEAD_CHARS_MAX = 1_000
_STRAY_MAX = 1_000
_STRAY = re2.compile(rb"%(?:[^0-9A-Fa-f]|[0-9A-Fa-f](?:[^0-9A-Fa-f]|\z)|\z)")
"""A percent sign that does not begin an escape."""
_KINDS: Mapping[str, Callable[..., content.ContentBlock]]
_KINDS = {"image": content.Image, "audio": content.Audio, "video": content.Video}


def content_from_url(
    url: str, media_type: str | None = None, title: str | None = None, kind: str | None = None
) -> content.ContentBlock:
    """Build content from a web address or a data URI; the media type of a data URI wins.

    `kind` decides the type of the block, else the media type does. Everything but an image, audio
    or video is a document, and only documents have titles.

    Raises:
        HttpError: 400, the URL is neither.
    """
    if url.startswith(("https://", "http://")):
        return _block(
            content.UrlSource(url=url), media_type or _guess_media_type(title, url), title, kind
        )
    head, comma, payload = url.removeprefix("data:").partition(",")
    if not url.startswith("data:") or not comma:
        raise _file_error("its URL must be http or https, or a whole data URI")
    if len(head) > _HEAD_CHARS_MAX:
        raise _file_error("its media type is too long")
    own, *options = head.split(";")
    data = _unescape(payload)
    if "base64" not in options:
        data = base64.b64encode(data)
    text = data.decode("ascii", "replace")
    return content_from_base64(text, own or media_type or "text/plain", title, kind)


def content_from_base64(
    data: str, media_type: str | None = None, title: str | None = None, kind: str | None = None
) -> content.ContentBlock:
    """Build content from base64 of either alphabet, padded or not; see `content_from_url`.

    Raises:
        HttpError: 400, it is not base64, or it is too long.
    """
    plain = data.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        found = base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except ValueError as error:
        raise _file_error(f"it is no base64: {error}") from error
    if len(found) > FILE_BYTES_MAX:
        raise _file_error(f"it may have {FILE_BYTES_MAX} bytes")
    media_type = media_type or _guess_media_type(title)
    text = base64.b64encode(found).decode()
    source = content.Base64Source(media_type=media_type, data=text)
    return _block(source, media_type, title, kind)


def _unescape(text: str) -> bytes:
    """Decode a percent-encoded text, many times faster than the standard library does."""
    data = text.encode(errors="replace")
    if b"%" not in data:
        return data
    if _STRAY.search(data) is None:
        # Quoted-printable uses the same escapes with another sign.
        return binascii.a2b_qp(data.replace(b"=", b"%3D").replace(b"%", b"="))
    if data.count(b"%") > _STRAY_MAX:
        raise _file_error("it has percent signs that begin no escape")
    return unquote_to_bytes(text)


def _block(
    source: content.Source, media_type: str, title: str | None, kind: str | None
) -> content.ContentBlock:
    make = _KINDS.get(kind or media_type.partition("/")[0].lower())
    return content.Document(source=source, title=title) if make is None else make(source=source)


def _guess_media_type(*names: str | None) -> str:
    found = (mimetypes.guess_type(name)[0] for name in names if name)
    return next(filter(None, found), "application/octet-stream")


def _file_error(problem: str) -> HttpError:
    return HttpError(400, "invalid_file", f"A file cannot be taken: {problem}.")
