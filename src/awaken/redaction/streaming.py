"""Redacts a text while it is streamed."""

from bisect import bisect_left
from collections.abc import Iterator

from .detectors import Detector
from .replacement import find_all, fold_text, is_invisible, replace_findings

_STRIDE = 24
_GROWTH = 8


class RedactedStream:
    """Releases the redacted text as soon as no later text can change it.

    At every moment, the released text is a prefix of the redacted whole, however the text was cut:
    a part that could still become a finding is held back from its first character on. It searches
    once per few characters, and less often the more it holds back, so that the time stays bounded.
    Each detector must be able to stream.
    """

    __slots__ = ("_at", "_detectors", "_length", "_look_at", "_parts", "_stride")

    def __init__(self, detectors: tuple[Detector, ...], *, stride: int = _STRIDE) -> None:
        self._detectors = detectors
        self._stride = stride
        self._parts: list[str] = []
        self._length = 0
        self._look_at = stride
        self._at = 0
        """How much of the buffer was released; it is only context for the rest."""

    def feed(self, piece: str) -> str:
        """Add the next piece; return the text that may be shown now."""
        self._parts.append(piece)
        self._length += len(piece)
        if self._length < self._look_at:
            return ""
        text = "".join(self._parts)
        return self._release(text, _find_settled_end(text, self._detectors, self._at))

    def end(self) -> str:
        """Return the rest; the text is complete."""
        text = "".join(self._parts)
        return self._release(text, len(text))

    def _release(self, text: str, upto: int) -> str:
        found = [it for it in find_all(text, self._detectors, self._at) if it.start < upto]
        shown = replace_findings(text[:upto], found, self._at)
        rest = text[max(0, upto - 1) :]
        self._parts, self._length, self._at = [rest], len(rest), min(upto, 1)
        self._look_at = len(rest) + max(self._stride, len(rest) // _GROWTH)
        return shown


def _find_settled_end(text: str, detectors: tuple[Detector, ...], at: int) -> int:
    """The length of the prefix whose findings cannot change, whatever follows."""
    upto, spans = len(text), []
    for opening, span in _examine(text, detectors, at):
        upto = min(upto, opening)
        spans += span
    before = -1
    while upto != before:
        before = upto
        for start, end in spans:
            if start < upto and (upto < end or end == len(text)):
                upto = start
        # The character before the end is the context of the rest, so it must be visible.
        while upto > at and is_invisible(text[upto - 1]):
            upto -= 1
    return max(at, upto)


def _examine(
    text: str, detectors: tuple[Detector, ...], at: int
) -> Iterator[tuple[int, list[tuple[int, int]]]]:
    """For each detector: the position from which it needs more text, and its candidates so far."""
    for it in detectors:
        yield it.find_opening(text, at), list(it.spans(text, at))
    if text.isascii():
        return
    folded, places = fold_text(text)
    since = bisect_left(places, at)
    places.append(len(text))
    for it in detectors:
        spans = [(places[s], max(places[e], places[e - 1] + 1)) for s, e in it.spans(folded, since)]
        yield places[it.find_opening(folded, since)], spans
