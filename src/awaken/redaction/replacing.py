"""Taking what was found out of texts and of JSON."""

import unicodedata
from bisect import bisect_left
from collections.abc import Iterable
from itertools import count
from typing import Any

import re2

from .detectors import DETECTORS, Detector, Finding

ALL = tuple(DETECTORS.values())
DEPTH_MAX = 200
TOO_DEEP = "[too deep]"
SECRET_NAME = "secrets.assigned"

_NAME = re2.compile(
    r"(?i)(?:^|[_\-. ])(?:password|passwd|passphrase|secret|token|api[_-]?key|access[_-]?key|"
    r"private[_-]?key|authorization|credentials?)$"
)
"""Names of fields whose values are nobody's business."""
_NO_SECRET = re2.compile(
    r"(?i)(?:^|[_\-. ])(?:page|next|continuation|cursor|sync|max|min)[_-]token$"
)
"""Names of fields that say where a listing goes on, and are sent back for the rest, or count."""
_HUMP = re2.compile(r"([a-z0-9])([A-Z])")
"""Where a word of a `camelCase` name begins."""


def findings(text: str, detectors: Iterable[Detector] = ALL, at: int = 0) -> list[Finding]:
    """What is in a text from one place on, by place; of what overlaps the first counts.

    Characters that only look different, and those that nobody sees, hide nothing.
    """
    chosen = tuple(detectors)
    # Checks of one's own always look at whole texts.
    found = [it for detector in chosen for it in detector.find(text, *((at,) if at else ()))]
    if not text.isascii():
        folded, places = folding(text)
        since = bisect_left(places, at)
        found += [
            Finding(kind=it.kind, start=places[it.start], end=places[it.end - 1] + 1)
            for detector in chosen
            for it in detector.find(folded, *((since,) if since else ()))
        ]
    found.sort(key=lambda it: (it.start, -it.end))
    kept: list[Finding] = []
    for it in found:
        if not kept or it.start >= kept[-1].end:
            kept.append(it)
        elif it.end > kept[-1].end:
            kept[-1] = Finding(kind=kept[-1].kind, start=kept[-1].start, end=it.end)
    return kept


def redacted(text: str, detectors: Iterable[Detector] = ALL) -> str:
    """A text with `[kind]` in the place of what was found."""
    found = findings(text, detectors)
    return replaced(text, found) if found else text


def replaced(text: str, found: Iterable[Finding], at: int = 0) -> str:
    """A text from one place on, with `[kind]` in the place of each finding."""
    parts: list[str] = []
    for it in found:
        parts += (text[at : it.start], f"[{it.kind}]")
        at = it.end
    return "".join((*parts, text[at:]))


def redacted_value(value: Any, detectors: Iterable[Detector] = ALL, depth: int = 0) -> Any:
    """JSON with every text in it redacted, keys included; the same object when nothing was found.

    What is nested too deep to be looked at is taken out. No entry is lost: keys that would become
    the same are numbered.
    """
    if isinstance(value, str):
        return redacted(value, detectors)
    if not isinstance(value, dict | list | tuple):
        return value
    if depth >= DEPTH_MAX:
        return TOO_DEEP
    chosen = tuple(detectors)
    made: Any
    if isinstance(value, dict):
        made = {}
        for key, it in value.items():
            made[_free(redacted_value(key, chosen), made)] = _entry(key, it, chosen, depth + 1)
    else:
        made = [redacted_value(it, chosen, depth + 1) for it in value]
    return value if made == value else made


def _free(key: Any, taken: dict[Any, Any]) -> Any:
    if key not in taken:
        return key
    return next(name for n in count(2) if (name := f"{key} {n}") not in taken)


def _entry(key: Any, value: Any, detectors: tuple[Detector, ...], depth: int) -> Any:
    """A value of a mapping; its name may tell what it is, also what is inside of it."""
    is_named = any(it.kind == SECRET_NAME for it in detectors)
    if is_named and isinstance(key, str) and _is_secret(key):
        return _hidden(value, depth)
    return redacted_value(value, detectors, depth)


def _is_secret(name: str) -> bool:
    words = _HUMP.sub(r"\1_\2", name)
    return bool(_NAME.search(words)) and not _NO_SECRET.search(words)


def _hidden(value: Any, depth: int) -> Any:
    if depth >= DEPTH_MAX:
        return TOO_DEEP
    if isinstance(value, dict):
        return {key: _hidden(it, depth + 1) for key, it in value.items()}
    if isinstance(value, list | tuple):
        return [_hidden(it, depth + 1) for it in value]
    # Whether there is one, and that there is none, is no secret.
    is_secret = value not in (None, "") and not isinstance(value, bool)
    return f"[{SECRET_NAME}]" if is_secret else value


def folding(text: str) -> tuple[str, list[int]]:
    """A text as it is read, and where each of its characters stands as it is written."""
    letters: list[str] = []
    places: list[int] = []
    for place, char in enumerate(text):
        if is_unseen(char):
            continue
        plain = unicodedata.normalize("NFKC", char)
        letters.append(plain)
        places += [place] * len(plain)
    return "".join(letters), places


def is_unseen(char: str) -> bool:
    """Whether a character only changes others, or nothing."""
    return unicodedata.category(char) in ("Cf", "Mn")
