"""Reads lines on a terminal: with the keys and the history of readline where Python has it."""

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from typing import Any

from .output import has_colors
from .terminal_modes import drop_typed

readline: Any = None
if importlib.util.find_spec("readline"):  # Windows has its own line editor.
    readline = importlib.import_module("readline")

_GOES_ON = "\\"


class LineEditor:
    """Reads lines; those for the agent are remembered until the program ends, answers are not."""

    def __init__(self, commands: Sequence[str] = ()) -> None:
        self._commands = commands
        if readline is None:
            return
        readline.set_auto_history(False)
        readline.set_completer(self._complete)
        readline.set_completer_delims(" ")
        is_editline = "libedit" in (readline.__doc__ or "")
        readline.parse_and_bind("bind ^I rl_complete" if is_editline else "tab: complete")

    def read_line(self, prompt: str) -> str | None:
        """Read a line, or several: one that ends with a backslash goes on; None at the end."""
        lines: list[str] = []
        while True:
            try:
                line = input(_show_prompt(prompt if not lines else "...> "))
            except EOFError:
                return None if not lines else "\n".join(lines)
            lines.append(line.removesuffix(_GOES_ON))
            if not line.endswith(_GOES_ON):
                break
        text = "\n".join(lines)
        if readline is not None and text.strip():
            readline.add_history(text)
        # A terminal may send bytes that are no text.
        return text.encode(errors="replace").decode()

    def read_answer(self, prompt: str) -> str | None:
        """Read the answer to a question; what was typed before the question does not count."""
        drop_typed(sys.stdin)
        try:
            return input(_show_prompt(prompt)).encode(errors="replace").decode()
        except EOFError:
            return None

    def _complete(self, text: str, state: int) -> str | None:
        found = [it for it in self._commands if text and it.startswith(text)]
        return found[state] if state < len(found) else None


def _show_prompt(prompt: str) -> str:
    if readline is None or not has_colors(sys.stdout):
        return prompt
    # Marked, so that readline does not count them as columns.
    return f"\x01\x1b[1m\x02{prompt}\x01\x1b[0m\x02"
