"""Markdown on a terminal: blocks are printed when they are finished, and none controls it."""

import io

import pytest
from rich.console import Console

from awaken.cli.markdown_blocks import render_markdown, split_blocks

from .conftest import EVIL


@pytest.mark.parametrize(
    ("text", "done"),
    [
        ("one", ""),
        ("one\n\n", ""),
        ("one\n\ntwo", "one\n\n"),
        ("one\n\ntwo\n\nthree", "one\n\ntwo\n\n"),
        ("- item\n\n  goes on", ""),
        ("```py\na = 1\n\nb = 2\n", ""),
        ("```py\na = 1\n\nb = 2\n```\n\nend", "```py\na = 1\n\nb = 2\n```\n\n"),
        ("~~~\n```\n\nstill\n", ""),
    ],
)
def test_a_block_is_finished_when_nothing_can_change_it(text: str, done: str) -> None:
    assert split_blocks(text) == (done, text[len(done) :])


def render(text: str, *, is_terminal: bool = False) -> str:
    file = io.StringIO()
    console = Console(file=file, width=80, force_terminal=is_terminal, color_system=None)
    console.print(render_markdown(text))
    return file.getvalue()


@pytest.mark.parametrize(
    "text", [EVIL, f"```\n{EVIL}\n```", f"`{EVIL}`", "&#8238;x &#x9b;2J", f"[a](http://x/{EVIL})"]
)
def test_no_text_controls_the_terminal(text: str) -> None:
    shown = render(text)
    assert not {"\x1b", "\x9b", "\r", "\u202e"} & set(shown)


def test_html_and_addresses_are_shown_and_no_hyperlink_is_made() -> None:
    shown = render("<b>x</b> and List<int>, [bank](https://evil.example)", is_terminal=True)
    assert "<b>x</b> and List<int>" in shown
    assert "https://evil.example" in shown
    assert "\x1b]8" not in shown
