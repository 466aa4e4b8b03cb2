"""Removes secrets and personal data from all texts that leave the process.

In doubt it removes too much.
"""

import re
from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any

from awaken.contracts.messages.content import replace_surrogates
from awaken.redaction.replacement import redact_text

MARK = "[redacted]"
CUT = "…[cut]"
_SCANNED_CHARS = 1_000_000
_DEPTH_MAX = 32
_INT_MAX = 2**63
_ITEMS_MAX = 1_000
_SECRET_NAME = re.compile(
    r"(?i)pass(?:word|wd|phrase)?$|secret|token$|api[-_]?key|authorization|credential|cookie"
    r"|private[-_]?key|signature"
)


class Redactor:
    """Removes secrets and personal data, and then applies `more`."""

    __slots__ = ("_more",)

    def __init__(self, more: Callable[[str], str] | None = None) -> None:
        self._more = more

    def text(self, text: str, limit: int | None = None) -> str:
        """Redact a text and cut it to a length; a cut never leaves part of a secret."""
        head = text if len(text) <= _SCANNED_CHARS else _whole_words(text[:_SCANNED_CHARS])
        clean = redact_text(replace_surrogates(head))
        if self._more is not None:
            clean = self._more(clean)
        is_cut = len(head) < len(text)
        if limit is not None and len(clean) > limit:
            clean, is_cut = clean[:limit], True
        return clean + CUT if is_cut else clean

    def value(self, value: Any, limit: int | None = None, depth: int = 0) -> Any:
        """Redact a JSON value; the value of a field with a secret's name is removed."""
        # JSON has neither infinities nor NaN: those become texts.
        is_finite = isinstance(value, float) and isfinite(value)
        if value is None or isinstance(value, bool) or is_finite:
            return value
        if isinstance(value, int) and abs(value) < _INT_MAX:
            return value
        if depth >= _DEPTH_MAX:
            return CUT
        if isinstance(value, Mapping):
            return dict(self._field(*it, limit, depth) for it in list(value.items())[:_ITEMS_MAX])
        if isinstance(value, list | tuple):
            return [self.value(item, limit, depth + 1) for item in value[:_ITEMS_MAX]]
        return self.text(str(value), limit)

    def _field(self, name: Any, value: Any, limit: int | None, depth: int) -> tuple[str, Any]:
        key = self.text(str(name), limit)
        is_secret = _SECRET_NAME.search(key) and value is not None
        return key, MARK if is_secret else self.value(value, limit, depth + 1)


def _whole_words(text: str) -> str:
    """A cut text without its last word, which may be half a secret."""
    end = max(text.rfind(space) for space in " \n\t")
    return text[: max(end, 0)]
