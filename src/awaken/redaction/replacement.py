"""Replaces findings in texts and in JSON."""

import unicodedata
from collections.abc import Iterable
from itertools import count
from typing import Any

import re2

from .detectors import DETECTORS, SECRETS, Detector, Finding, select_detectors

ALL = tuple(DETECTORS.values())
ALL_SECRETS = select_detectors((SECRETS,))
DEPTH_MAX = 200
TOO_DEEP = "[too deep]"
CHARS_MAX = 1_000_000
"""How much of a text is searched; the rest counts as found."""
FOLDED_CHARS_MAX = 300_000
"""How much is searched of a text whose folded form differs."""
TEXTS_MAX = 2_000
"""How many texts of one value are searched one by one, once it is known to have findings."""
UNCHECKED = "unchecked"
"""The kind of text that exceeds the limits and was not searched."""
SECRET_NAME = "secrets.assigned"

_NAME = re2.compile(
    r"(?i)(?:^|[_\-. ])(?:password|passwd|passphrase|secret|token|api[_-]?key|access[_-]?key|"
    r"private[_-]?key|authorization|credentials?)$"
)
"""Names of fields whose values are secret."""
_NAMES = re2.compile(r"(?i)pass|secret|token|key|authorization|credential")
"""A text that every such name contains."""
_NO_SECRET = re2.compile(
    r"(?i)(?:^|[_\-. ])(?:page|next|continuation|cursor|sync|max|min)[_-]token$"
)
"""Names of fields that look secret but are page cursors or counts."""
_HUMP = re2.compile(r"([a-z0-9])([A-Z])")
"""The boundary of two words in a `camelCase` name."""


def find_all(text: str, detectors: Iterable[Detector] = ALL, at: int = 0) -> list[Finding]:
    """Find everything in a text from a position on, in order; of overlapping ones the first counts.

    Compatibility characters and invisible characters hide nothing.
    """
    chosen, whole = tuple(detectors), text
    text = text[:CHARS_MAX]
    # Custom detectors may take no position: they always search whole texts.
    found = [it for detector in chosen for it in detector.find(text, *((at,) if at else ()))]
    if len(whole) > CHARS_MAX:
        found.append(Finding(kind=UNCHECKED, start=CHARS_MAX, end=len(whole)))
    if not text.isascii() and (table := _build_fold_table(text)):
        found += _find_in_folded(text, table, chosen, at)
    found.sort(key=lambda it: (it.start, -it.end))
    kept: list[Finding] = []
    for it in found:
        if not kept or it.start >= kept[-1].end:
            kept.append(it)
        elif it.end > kept[-1].end:
            kept[-1] = Finding(kind=kept[-1].kind, start=kept[-1].start, end=it.end)
    return kept


def _find_in_folded(
    text: str, table: dict[int, str], detectors: tuple[Detector, ...], at: int
) -> list[Finding]:
    """Find everything in the folded form of a text."""
    whole, text = text, text[:FOLDED_CHARS_MAX]
    folded = text.translate(table)
    if len(folded) > 2 * FOLDED_CHARS_MAX:
        return [Finding(kind=UNCHECKED, start=at, end=len(whole))]
    since = len(text[:at].translate(table)) if at else 0
    found = [it for one in detectors for it in one.find(folded, *((since,) if since else ()))]
    places = _map_places(text, table) if found else []
    mapped = [
        Finding(kind=it.kind, start=places[it.start], end=places[it.end - 1] + 1) for it in found
    ]
    if len(whole) > len(text):
        mapped.append(Finding(kind=UNCHECKED, start=len(text), end=len(whole)))
    return mapped


def redact_text(text: str, detectors: Iterable[Detector] = ALL) -> str:
    """Replace every finding in a text by `[kind]`."""
    found = find_all(text, detectors)
    return replace_findings(text, found) if found else text


def replace_findings(text: str, found: Iterable[Finding], at: int = 0) -> str:
    """The text from a position on, with each finding replaced by `[kind]`."""
    parts: list[str] = []
    for it in found:
        parts += (text[at : it.start], f"[{it.kind}]")
        at = it.end
    return "".join((*parts, text[at:]))


def redact_value(value: Any, detectors: Iterable[Detector] = ALL) -> Any:
    """Redact every text in a JSON value, keys included; the same object if nothing was found.

    Values that are nested too deeply are replaced, and so is everything after too many texts. No
    entry is lost: keys that would become equal are numbered.
    """
    if isinstance(value, str):
        return redact_text(value, detectors)
    if not isinstance(value, dict | list | tuple):
        return value
    chosen = tuple(detectors)
    if all(it in ALL for it in chosen) and _is_clean(value, chosen):
        return value
    return _Redaction(chosen).value(value, 0)


def _is_clean(value: Any, detectors: tuple[Detector, ...]) -> bool:
    """Whether a value has no findings, checked by one search over all its texts together."""
    texts: list[str] = []
    names: list[str] = []
    level, depth = [value], 0
    while level:
        depth += 1
        below: list[Any] = []
        for it in level:
            if isinstance(it, str):
                texts.append(it)
            elif isinstance(it, dict):
                names += map(str, it)
                below += it.values()
            elif isinstance(it, list | tuple):
                below += it
        level = below
        if depth >= DEPTH_MAX and level:
            return False
    joined = "\n".join(names)
    return not (_NAMES.search(joined) or find_all("\n".join((joined, *texts)), detectors))


class _Redaction:
    """One walk over one value, with a limit on its texts."""

    __slots__ = ("_detectors", "_is_named", "_texts_left")

    def __init__(self, detectors: tuple[Detector, ...]) -> None:
        self._detectors = detectors
        self._is_named = any(it.kind == SECRET_NAME for it in detectors)
        self._texts_left = TEXTS_MAX

    def value(self, value: Any, depth: int) -> Any:
        if isinstance(value, str):
            return self._redact_text(value)
        if not isinstance(value, dict | list | tuple):
            return value
        if depth >= DEPTH_MAX:
            return TOO_DEEP
        made: Any
        if isinstance(value, dict):
            made = {}
            for key, it in value.items():
                named = self._redact_text(key) if isinstance(key, str) else key
                made[_choose_free_key(named, made)] = self._redact_entry(key, it, depth + 1)
        else:
            made = [self.value(it, depth + 1) for it in value]
            # A tuple equals no list: compared as it is, it would always count as changed.
            return value if made == [*value] else made
        return value if made == value else made

    def _redact_text(self, text: str) -> str:
        self._texts_left -= 1
        return redact_text(text, self._detectors) if self._texts_left >= 0 else f"[{UNCHECKED}]"

    def _redact_entry(self, key: Any, value: Any, depth: int) -> Any:
        """Redact a value of a mapping; a secret name makes everything inside secret."""
        if self._is_named and isinstance(key, str) and _is_secret(key):
            return _hide_values(value, depth)
        return self.value(value, depth)


def _choose_free_key(key: Any, taken: dict[Any, Any]) -> Any:
    if key not in taken:
        return key
    return next(name for n in count(2) if (name := f"{key} {n}") not in taken)


def _is_secret(name: str) -> bool:
    words = _HUMP.sub(r"\1_\2", name)
    return bool(_NAME.search(words)) and not _NO_SECRET.search(words)


def _hide_values(value: Any, depth: int) -> Any:
    if depth >= DEPTH_MAX:
        return TOO_DEEP
    if isinstance(value, dict):
        return {key: _hide_values(it, depth + 1) for key, it in value.items()}
    if isinstance(value, list | tuple):
        return [_hide_values(it, depth + 1) for it in value]
    # Whether a value is present is no secret.
    is_secret = value not in (None, "") and not isinstance(value, bool)
    return f"[{SECRET_NAME}]" if is_secret else value


def fold_text(text: str) -> tuple[str, list[int]]:
    """The folded form of a text, and the position of each of its characters in the text."""
    table = _build_fold_table(text)
    return text.translate(table), _map_places(text, table)


def _build_fold_table(text: str) -> dict[int, str]:
    """The translation of the characters whose folded form differs."""
    readings = (
        (char, "" if is_invisible(char) else unicodedata.normalize("NFKC", char))
        for char in set(text)
    )
    return {ord(char): plain for char, plain in readings if plain != char}


def _map_places(text: str, table: dict[int, str]) -> list[int]:
    places: list[int] = []
    for place, char in enumerate(text):
        places += (place,) * len(table.get(ord(char), char))
    return places


def is_invisible(char: str) -> bool:
    """Whether a character is invisible: a format character or a combining mark."""
    return unicodedata.category(char) in ("Cf", "Mn")
