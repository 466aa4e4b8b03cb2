"""Redacting a text while it comes."""

from bisect import bisect_left
from collections.abc import Iterator

from .detectors import Detector
from .replacing import findings, folding, is_unseen, replaced

_STRIDE = 24
_GROWTH = 8


class RedactedStream:
    """Gives a text out as `redacted` would, as soon as nothing that follows can change it.

    What it has given out is at every moment the beginning of the redacted whole, however the text
    was cut: what could still become something to take out is kept back from its first character on.
    It looks once per few characters, more rarely the more it keeps back, so that no text takes
    long. Each detector must be able to stream.
    """

    __slots__ = ("_at", "_detectors", "_length", "_look_at", "_parts", "_stride")

    def __init__(self, detectors: tuple[Detector, ...], *, stride: int = _STRIDE) -> None:
        self._detectors = detectors
        self._stride = stride
        self._parts: list[str] = []
        self._length = 0
        self._look_at = stride
        self._at = 0
        """How much of what is kept was given out: only what stands behind it is judged by it."""

    def hear(self, piece: str) -> str:
        """Take in what comes next; returns what may be seen now."""
        self._parts.append(piece)
        self._length += len(piece)
        if self._length < self._look_at:
            return ""
        text = "".join(self._parts)
        return self._given(text, _settled(text, self._detectors, self._at))

    def end(self) -> str:
        """The rest: nothing follows."""
        text = "".join(self._parts)
        return self._given(text, len(text))

    def _given(self, text: str, upto: int) -> str:
        found = [it for it in findings(text, self._detectors, self._at) if it.start < upto]
        shown = replaced(text[:upto], found, self._at)
        rest = text[max(0, upto - 1) :]
        self._parts, self._length, self._at = [rest], len(rest), min(upto, 1)
        self._look_at = len(rest) + max(self._stride, len(rest) // _GROWTH)
        return shown


def _settled(text: str, detectors: tuple[Detector, ...], at: int) -> int:
    """How much of a text is found, or not found, in it whatever follows."""
    upto, spans = len(text), []
    for opening, span in _looks(text, detectors, at):
        upto = min(upto, opening)
        spans += span
    before = -1
    while upto != before:
        before = upto
        for start, end in spans:
            if start < upto and (upto < end or end == len(text)):
                upto = start
        # What stands behind it must be seen from there.
        while upto > at and is_unseen(text[upto - 1]):
            upto -= 1
    return max(at, upto)


def _looks(
    text: str, detectors: tuple[Detector, ...], at: int
) -> Iterator[tuple[int, list[tuple[int, int]]]]:
    """From where on each detector waits for more, and what it takes for one, as yet."""
    for it in detectors:
        yield it.opening(text, at), list(it.spans(text, at))
    if text.isascii():
        return
    folded, places = folding(text)
    since = bisect_left(places, at)
    places.append(len(text))
    for it in detectors:
        spans = [(places[s], max(places[e], places[e - 1] + 1)) for s, e in it.spans(folded, since)]
        yield places[it.opening(folded, since)], spans
