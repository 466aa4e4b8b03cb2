"""The texts of a value: as it is, and every other text that a program may take it for.

`Reading.given` is the text that an allowing rule has to match. `Reading.forms` are the texts of
which a denying rule has to match only one: they undo disguises (case, compatibility characters,
zero-width characters, extra space) and cover other shapes (a list for a string), so that a denial
covers at least what an allowance does.
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
"""Invisible characters: controls, formats, fillers, variation selectors, tags."""
_BLANKS = re.compile("[\u115f\u1160\u180e\u2800\u3164\uffa0]")
"""Invisible characters that look like a space."""
_BREAKS = "\t-\r\x1c-\x1f\x85\u2028\u2029"
_STRIPPED = re.compile(f"[{_UNSEEN}]+")
_SUSPICIOUS = re.compile(f"[{_UNSEEN}{_BREAKS}]")
_SPACES = re.compile(r"\s+")


class Reading(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One value of a call as UTF-8 texts."""

    given: bytes | None
    """The value as it is; absent if it is too large or not valid text: then nothing is certain."""
    plain: bool = False
    """Whether it has no line breaks and no invisible characters."""
    forms: tuple[tuple[bytes, bytes], ...] = ()
    """Every text that it may be taken for, each as it is and folded."""


_UNREADABLE = Reading(given=None)


def read_value(value: Any) -> Reading:
    """Read a JSON value: a string as it is, null as empty, the rest as JSON with sorted keys."""
    try:
        given = text_of(value)
        if len(given) > MAX_INPUT:
            return _UNREADABLE
        texts, keys = [given], list[str]()
        folded = _collect_texts(value, texts, keys)
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
        # Too deep, or half a surrogate pair: every rule then takes the careful side.
        return _UNREADABLE


def text_of(value: Any) -> str:
    """The text that a condition compares: null is empty, object keys are sorted."""
    if isinstance(value, str):
        return value
    return "" if value is None else _ENCODE(value).decode()


def fold(text: str) -> str:
    """Fold a text: one case, one width, nothing invisible, single spaces."""
    seen = _STRIPPED.sub("", text).casefold()
    if not seen.isascii():
        # The result of one step can contain a disguise that another step removes.
        for _ in range(_MAX_FOLDS):
            before, seen = seen, unicodedata.normalize("NFKC", seen)
            seen = _STRIPPED.sub("", seen).casefold()
            if seen == before:
                break
    return _SPACES.sub(" ", seen)


def _collect_texts(value: Any, texts: list[str], keys: list[str]) -> Any:
    """Return the value with its strings folded; add its parts to `texts` and `keys`."""
    match value:
        case dict():
            keys.extend(value)
            return {key: _collect_texts(item, texts, keys) for key, item in value.items()}
        case list() | tuple():
            scalars = [text_of(it) for it in value if not isinstance(it, dict | list | tuple)]
            texts.append(" ".join(scalars))
            return [_collect_texts(item, texts, keys) for item in value]
        case float() if value.is_integer():
            texts.append(str(int(value)))
    texts.append(text_of(value))
    return fold(value) if isinstance(value, str) else value
