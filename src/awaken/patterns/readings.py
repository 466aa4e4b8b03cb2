"""How a value reads as text: as it stands, and as somebody may have meant it to be taken.

`Reading.given` is the text that an allowing rule has to fit. `Reading.forms` are the texts of which
a denying rule has to fit only one: disguises (case, compatibility
characters, zero-width characters, more space) and other shapes (a list for a string) are seen
through, so that a denial covers at least whatever an allowance does.
"""

import re
import unicodedata
from typing import Any

import msgspec

from .regexes import MAX_INPUT

_MAX_FORMS = 1_000
_MAX_FOLDS = 8
_ENCODE = msgspec.json.Encoder(order="deterministic").encode

_UNSEEN = (
    "\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890-\u0891"
    "\u08e2\u115f-\u1160\u17b4-\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\u2800\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U000110bd\U000110cd\U00013430-\U00013440"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""Characters that nobody sees: controls, formats, fillers, variation selectors, tags."""
_BLANKS = re.compile("[\u115f\u1160\u180e\u2800\u3164\uffa0]")
"""Those of them that look like a space."""
_BREAKS = "\t-\r\x1c-\x1f\x85\u2028\u2029"
_STRIPPED = re.compile(f"[{_UNSEEN}]+")
_SUSPICIOUS = re.compile(f"[{_UNSEEN}{_BREAKS}]")
_SPACES = re.compile(r"\s+")


class Reading(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One value of a call as UTF-8 texts."""

    given: bytes | None
    """As it stands; absent if it is too large or no valid text, so that nothing is certain."""
    plain: bool = False
    """Whether it is free of line breaks and of characters that nobody sees."""
    forms: tuple[tuple[bytes, bytes], ...] = ()
    """Every text that it may be taken for, each as it stands and folded."""


_UNREADABLE = Reading(given=None)


def reading_of(value: Any) -> Reading:
    """Read a JSON value: a string as it is, null as nothing, the rest as JSON with sorted keys."""
    try:
        given = text_of(value)
        if len(given) > MAX_INPUT:
            return _UNREADABLE
        texts, keys = [given], list[str]()
        folded = _looked_into(value, texts, keys)
        if not isinstance(value, str):
            texts.append(text_of(folded))
        texts += [_BLANKS.sub(" ", it) for it in texts if _BLANKS.search(it)]
        if len(texts) > _MAX_FORMS:
            return _UNREADABLE
        return Reading(
            given=given.encode(),
            plain=not any(map(_SUSPICIOUS.search, [*texts, *keys])),
            forms=tuple(
                (text.encode(), fold(text).strip().encode()) for text in dict.fromkeys(texts)
            ),
        )
    except (RecursionError, UnicodeEncodeError):
        # Too deep, or half a surrogate pair: whoever asks takes the careful side.
        return _UNREADABLE


def text_of(value: Any) -> str:
    """The text that a condition compares: null is empty, an object has its keys sorted."""
    if isinstance(value, str):
        return value
    return "" if value is None else _ENCODE(value).decode()


def fold(text: str) -> str:
    """The text without its disguises: one case, one width, nothing unseen, single spaces."""
    seen = _STRIPPED.sub("", text).casefold()
    if not seen.isascii():
        # What one step takes away or joins can be a disguise that another one sees through.
        for _ in range(_MAX_FOLDS):
            before, seen = seen, unicodedata.normalize("NFKC", seen)
            seen = _STRIPPED.sub("", seen).casefold()
            if seen == before:
                break
    return _SPACES.sub(" ", seen)


def _looked_into(value: Any, texts: list[str], keys: list[str]) -> Any:
    """The value with its strings folded; what it is made of is added to `texts` and `keys`."""
    match value:
        case dict():
            keys.extend(value)
            return {key: _looked_into(item, texts, keys) for key, item in value.items()}
        case list() | tuple():
            scalars = [text_of(it) for it in value if not isinstance(it, dict | list | tuple)]
            texts.append(" ".join(scalars))
            return [_looked_into(item, texts, keys) for item in value]
        case float() if value.is_integer():
            texts.append(str(int(value)))
    texts.append(text_of(value))
    return fold(value) if isinstance(value, str) else value
