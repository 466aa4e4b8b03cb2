"""What a conversation shows and asks: the port, and plain lines for pipes and simple terminals."""

import shutil
import sys
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from awaken.contracts.events import (
    AgentEvent,
    ErrorEvent,
    RunFinish,
    ToolCallDone,
    ToolCallReady,
    ToolCallResumed,
    encode_event,
)
from awaken.contracts.lifecycle import Cancelled, Failed, Stopped, Termination, reason_text
from awaken.contracts.messages.deltas import TextDelta
from awaken.contracts.suspension.tickets import Ticket, ToolCallOutcome
from awaken.contracts.suspension.verdicts import read_text

from .output import plain, print_stderr, print_stdout, safe_text
from .standard_input import read_input_line
from .terminal_modes import drop_typed
from .ticket_text import spell_out

PROMPT = "you> "
_ROWS_AROUND = 6
_Part = TypeVar("_Part")


class ChatScreen(Protocol):
    """Shows a conversation, and reads what the person types."""

    is_for_programs: bool
    """Whether a program reads it, which decides itself on what waits."""
    ends_on_empty: bool
    """Whether an empty line ends the conversation."""

    @property
    def is_asking(self) -> bool:
        """Whether questions of tools can be asked here: a person sees them and types."""

    def greet(self, agent_id: str, model: str) -> None:
        """Say whom the person talks to."""

    def show(self, event: AgentEvent) -> None:
        """Show an event of a run; text of models and tools never controls the terminal."""

    def say(self, text: str) -> None:
        """Show a text of the program itself."""

    def show_ticket(self, ticket: Ticket) -> bool:
        """Show what is asked: the tool, every argument, and the rule that asks.

        What is longer than the screen comes in parts, each when the person asks for it. False: the
        person declined before all of it was shown.

        Raises:
            KeyboardInterrupt: The person pressed Ctrl-C.
        """

    def read_line(self, prompt: str) -> str | None:
        """Read a line for the agent; None at the end of the input.

        Raises:
            KeyboardInterrupt: The person pressed Ctrl-C.
        """

    def read_answer(self, prompt: str) -> str | None:
        """Read the answer to a question: only what is typed after the question counts.

        Raises:
            KeyboardInterrupt: The person pressed Ctrl-C.
        """

    def rest(self) -> None:
        """Stop everything that moves, and make the terminal as it was. May be called twice."""

    def leave(self) -> None:
        """Make the terminal as it was, at once: a signal handler leaves the program."""


def end_text(termination: Termination) -> str:
    """How a run ended, if a person must know; empty if it just answered."""
    match termination:
        case Failed(message=message):
            return f"failed: {plain(message)}"
        case Stopped() | Cancelled():
            return plain(reason_text(termination))
    return ""


def has_person() -> bool:
    """Whether a person sees a question and answers it.

    A line of a pipe is no answer: it was written before the question.
    """
    return sys.stdin.isatty() and (sys.stdout.isatty() or sys.stderr.isatty())


def count_rows(height: int) -> int:
    """How many rows of a screen a part of a question may take; its frame and prompt need some."""
    return max(height - _ROWS_AROUND, 1)


def show_parts(
    parts: Sequence[_Part], show: Callable[[_Part], object], read: Callable[[str], str | None]
) -> bool:
    """Show parts one by one; False if the person declines, or ends, before the last one."""
    for number, part in enumerate(parts, 1):
        show(part)
        if number < len(parts):
            line = read(f"part {number} of {len(parts)}: Enter shows the next, [n]o declines> ")
            if line is None or read_text(line) is False:
                return False
    return True


class PlainScreen:
    """Plain lines, without colours and without moving the cursor."""

    is_for_programs = False
    ends_on_empty = True

    @property
    def is_asking(self) -> bool:
        """Whether there is a terminal; questions go to stderr if stdout is none."""
        return has_person()

    def greet(self, agent_id: str, model: str) -> None:
        """Say whom the person talks to."""
        print_stdout(
            f"You talk to '{plain(agent_id)}'. An empty line or Ctrl-D ends the conversation."
        )

    def show(self, event: AgentEvent) -> None:
        """Print text as it comes, and a line for each call of a tool."""
        match event:
            case TextDelta(delta=delta):
                print_stdout(safe_text(delta), has_end=False)
            case ToolCallReady(name=name, arguments=arguments):
                print_stdout(f"[{plain(name)} {plain(arguments)}]")
            case ToolCallDone(outcome=ToolCallOutcome.FAILED, result=result):
                print_stdout(f"[failed: {plain(result.message)}]")
            case ToolCallResumed(is_declined=True):
                print_stdout("[declined]")
            case ErrorEvent(message=message):
                print_stdout(f"\n[error: {plain(message)}]")
            case RunFinish(awaits_tasks=True):
                print_stdout("\n[waits for its tasks]")
            case RunFinish(termination=termination):
                end = end_text(termination)
                print_stdout(f"\n[{end}]" if end else "")

    def say(self, text: str) -> None:
        """Print a line."""
        print_stdout(safe_text(text))

    def show_ticket(self, ticket: Ticket) -> bool:
        """Print the call and the question on one line, or in parts if a screen has no room."""
        # The decision is about the arguments, which the message need not contain.
        asked = f"[{spell_out(ticket.tool_name)} {spell_out(str(ticket.arguments))}]"
        text = f"{asked} {spell_out(ticket.suspension.message or '')}".rstrip()
        columns, rows = shutil.get_terminal_size()
        size = max(columns * count_rows(rows), 1)
        parts = [text[at : at + size] for at in range(0, len(text), size)]
        self._print_question("")
        return show_parts(parts, self._print_question, self.read_answer)

    def read_line(self, prompt: str) -> str | None:
        """Read a line from stdin."""
        print_stdout(prompt, has_end=False)
        return read_input_line()

    def read_answer(self, prompt: str) -> str | None:
        """Read a line from the terminal; what was typed before the question is thrown away."""
        drop_typed(sys.stdin)
        self._print_question(prompt, has_end=False)
        return read_input_line()

    def _print_question(self, text: str, *, has_end: bool = True) -> None:
        # Where a person sees it.
        show = print_stdout if sys.stdout.isatty() or not sys.stderr.isatty() else print_stderr
        show(text, has_end=has_end)

    def rest(self) -> None:
        """Do nothing: nothing moves."""

    def leave(self) -> None:
        """Do nothing: the terminal was not changed."""


class JsonScreen(PlainScreen):
    """Every event as one line of JSON; questions are not asked."""

    is_for_programs = True

    @property
    def is_asking(self) -> bool:
        """Never: a program reads."""
        return False

    def greet(self, agent_id: str, model: str) -> None:
        """Say nothing: a program reads."""

    def show(self, event: AgentEvent) -> None:
        """Print an event in its native wire form."""
        print_stdout(encode_event(event).decode())

    def show_ticket(self, ticket: Ticket) -> bool:
        """Print nothing: the event of the call has the id of its ticket."""
        return True

    def say(self, text: str) -> None:
        """Print a text of the program beside the events."""
        print_stderr(safe_text(text))
