"""What a conversation shows and asks: the port, and plain lines for pipes and simple terminals."""

import sys
from typing import Protocol

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

from .output import plain, print_stderr, print_stdout, safe_text
from .standard_input import read_input_line
from .terminal_modes import drop_typed

PROMPT = "you> "


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

    def show_ticket(self, ticket: Ticket) -> None:
        """Show what is asked: the tool, every argument, and the rule that asks."""

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

    def show_ticket(self, ticket: Ticket) -> None:
        """Print the call and the question on one line."""
        # The decision is about the arguments, which the message need not contain.
        asked = f"[{plain(ticket.tool_name)} {plain(ticket.arguments)}]"
        self._print_question(f"\n{asked} {plain(ticket.suspension.message)}".rstrip())

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

    def show_ticket(self, ticket: Ticket) -> None:
        """Print nothing: the event of the call has the id of its ticket."""

    def say(self, text: str) -> None:
        """Print a text of the program beside the events."""
        print_stderr(safe_text(text))
