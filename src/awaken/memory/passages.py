"""Cuts a text into passages that can be found and quoted, along its own structure."""

import re
from collections.abc import Iterator

from awaken.contracts.record import Record

_BREAKS = (
    re.compile(r"\n\s*\n"),
    re.compile(r"\n"),
    re.compile("(?<=[.!?…])\\s+|(?<=[\u3002\uff01\uff1f])"),
    re.compile(r"\s+"),
)
"""Where a long text may be cut, the best places first: paragraphs, lines, sentences, words."""
HEADING_CHARS = 300


class Passage(Record, frozen=True, kw_only=True):
    """A part of a document: its text, the headings above it, and where it begins."""

    text: str
    start: int
    heading: str = ""
    page: int | None = None


def cut_text(text: str, size: int, start: int = 0) -> Iterator[Passage]:
    """Cut a plain text at paragraphs; only one that is too long is cut inside."""
    for first, end in _pack(text, 0, len(text), size, 0):
        shown = text[first:end].strip()
        if shown:
            lead = len(text[first:end]) - len(text[first:end].lstrip())
            yield Passage(text=shown, start=start + first + lead)


def cut_markdown(text: str, size: int) -> Iterator[Passage]:
    """Cut a markdown text at its headings; code and tables that fit stay whole."""
    # Loaded when the first document is ingested.
    from markdown_it import MarkdownIt  # noqa: PLC0415

    lines = text.splitlines(keepends=True)
    offsets = [0]
    for line in lines:
        offsets.append(offsets[-1] + len(line))
    headings: dict[int, str] = {}
    blocks: list[tuple[int, int]] = []
    # Only blocks count: what is inside of them takes long to parse, and most of it hostile texts.
    tokens = MarkdownIt("commonmark").enable("table").disable("inline").parse(text)
    for at, token in enumerate(tokens):
        if token.level != 0 or token.map is None or token.nesting < 0:
            continue
        first, end = offsets[token.map[0]], offsets[min(token.map[1], len(lines))]
        if token.type == "heading_open":
            yield from _join(text, blocks, size, _path(headings))
            blocks = []
            level = int(token.tag[1:])
            headings = {depth: it for depth, it in headings.items() if depth < level}
            headings[level] = tokens[at + 1].content
        # The heading is the first block of its own section, so that its words are found as well.
        blocks.append((first, end))
    yield from _join(text, blocks, size, _path(headings))


def _path(headings: dict[int, str]) -> str:
    return " > ".join(headings[depth] for depth in sorted(headings))[:HEADING_CHARS]


def _join(text: str, blocks: list[tuple[int, int]], size: int, heading: str) -> Iterator[Passage]:
    """Yield the blocks of one section, as many together as fit."""
    first: int | None = None
    last = 0
    for start, end in [*blocks, (len(text) + size + 1, len(text) + size + 1)]:
        if first is not None and end - first > size:
            for part in cut_text(text[first:last], size, first):
                yield Passage(text=part.text, start=part.start, heading=heading)
            first = None
        if first is None:
            first = start
        last = end


def _pack(text: str, first: int, end: int, size: int, depth: int) -> Iterator[tuple[int, int]]:
    """Yield stretches of at most `size` characters, cut at the best places there are."""
    if end - first <= size:
        yield first, end
        return
    if depth == len(_BREAKS):
        for at in range(first, end, size):
            yield at, min(at + size, end)
        return
    begin = first
    cut = first
    for place in [*_BREAKS[depth].finditer(text, first, end), None]:
        at = end if place is None else place.end()
        if at - begin > size:
            if cut > begin:
                yield begin, cut
                begin = cut
            if at - begin > size:
                yield from _pack(text, begin, at, size, depth + 1)
                begin = at
        cut = at
    if end > begin:
        yield begin, end
