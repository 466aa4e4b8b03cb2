"""Renders text of models for a terminal: whole blocks of Markdown, and nothing that controls it."""

from collections.abc import Iterable

from markdown_it import MarkdownIt
from rich.console import Console, ConsoleOptions, RenderableType
from rich.markdown import Markdown
from rich.segment import Segment

from .output import safe_text

_FENCES = ("```", "~~~")


def split_blocks(text: str) -> tuple[str, str]:
    """Split a text that still grows into its finished blocks and the rest.

    A block is finished when an empty line and the beginning of another block follow, outside of
    a fenced code block: nothing that comes later changes how it looks.
    """
    cut, place, fence, was_empty = 0, 0, "", False
    for line in text.splitlines(keepends=True):
        bare = line.lstrip()
        if was_empty and not fence and line[:1].strip():
            cut = place
        if fence:
            fence = "" if bare.startswith(fence) else fence
        elif bare.startswith(_FENCES):
            fence = bare[:3]
        was_empty = not line.strip()
        place += len(line)
    return text[:cut], text[cut:]


def render_markdown(text: str) -> RenderableType:
    """Render Markdown; HTML is shown as it was written, and a link shows its address."""
    found = Markdown(safe_text(text), hyperlinks=False, code_theme="ansi_dark")
    # Rich would leave HTML out: what is not shown cannot be judged.
    parser = MarkdownIt("commonmark", {"html": False}).enable("strikethrough").enable("table")
    found.parsed = parser.parse(found.markup)
    return _Harmless(found)


class _Harmless:
    """Escapes control characters of what is rendered: Markdown can spell them (`&#8238;`)."""

    def __init__(self, inner: RenderableType) -> None:
        self._inner = inner

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterable[Segment]:
        for segment in console.render(self._inner, options):
            is_text = segment.control is None
            yield Segment(safe_text(segment.text), segment.style) if is_text else segment
