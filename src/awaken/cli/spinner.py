"""A sign of life on stderr while a command works, where stderr is a terminal that can draw it."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from .output import can_draw


@contextmanager
def show_spinner(text: str) -> Iterator[None]:
    """Show a text that moves, and take it away at the end; nothing without a terminal."""
    if not can_draw(sys.stderr):
        yield
        return
    # Only a terminal needs it.
    from rich.console import Console  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    with Console(stderr=True).status(Text(text)):
        yield
