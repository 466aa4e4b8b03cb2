"""Files that clients send: from an address or bytes to content, by one rule for all protocols."""

import base64
import mimetypes
from collections.abc import Callable, Mapping
from urllib.parse import unquote_to_bytes

from awaken.contracts import content

from .problems import Problem

FILE_BYTES_MAX = 32 * 1024 * 1024
_KINDS: Mapping[str, Callable[..., content.ContentBlock]]
_KINDS = {"image": content.Image, "audio": content.Audio, "video": content.Video}


def linked(
    url: str, media_type: str | None = None, title: str | None = None, kind: str | None = None
) -> content.ContentBlock:
    """The content at a web address, or inside a data URI, which knows its own media type best.

    It is of the kind that is named, else of its media type's; what is no picture, sound or film
    is a document, and only documents have titles.

    Raises:
        Problem: 400, it is neither.
    """
    if url.startswith(("https://", "http://")):
        return _block(content.UrlSource(url=url), media_type or _guessed(title, url), title, kind)
    head, comma, payload = url.removeprefix("data:").partition(",")
    if not url.startswith("data:") or not comma:
        raise _refused("its URL must be http or https, or a whole data URI")
    own, *options = head.split(";")
    data = unquote_to_bytes(payload)
    if "base64" not in options:
        data = base64.b64encode(data)
    text = data.decode("ascii", "replace")
    return inline(text, own or media_type or "text/plain", title, kind)


def inline(
    data: str, media_type: str | None = None, title: str | None = None, kind: str | None = None
) -> content.ContentBlock:
    """The content that base64 of either alphabet, padded or not, is; see `linked`.

    Raises:
        Problem: 400, it is no base64, or too long.
    """
    plain = data.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        found = base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except ValueError as error:
        raise _refused(f"it is no base64: {error}") from error
    if len(found) > FILE_BYTES_MAX:
        raise _refused(f"it may have {FILE_BYTES_MAX} bytes")
    media_type = media_type or _guessed(title)
    text = base64.b64encode(found).decode()
    source = content.Base64Source(media_type=media_type, data=text)
    return _block(source, media_type, title, kind)


def _block(
    source: content.Source, media_type: str, title: str | None, kind: str | None
) -> content.ContentBlock:
    make = _KINDS.get(kind or media_type.partition("/")[0].lower())
    return content.Document(source=source, title=title) if make is None else make(source=source)


def _guessed(*names: str | None) -> str:
    found = (mimetypes.guess_type(name)[0] for name in names if name)
    return next(filter(None, found), "application/octet-stream")


def _refused(problem: str) -> Problem:
    return Problem(400, "invalid_file", f"A file cannot be taken: {problem}.")
