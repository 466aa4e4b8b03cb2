"""What a conversation shows and asks: the port, and plain lines for pipes and simple terminals."""

import sys
from typing import Protocol

from awaken.contracts.events import (
    AgentEvent,
    ErrorEvent,
    RunFinish,
    ToolCallDone,
    ToolCallReady,
    encode_event,
)
from awaken.contracts.lifecycle import Cancelled, Failed, Stopped, Termination, reason_text
from awaken.contracts.messages.deltas import TextDelta
from awaken.contracts.suspension.tickets import Ticket, ToolCallOutcome

from .output import plain, print_stdout, safe_text

PROMPT = "you> "


class ChatScreen(Protocol):
    """Shows a conversation, and reads what the person types."""

    is_asking: bool
    """Whether questions of tools can be asked here."""
    ends_on_empty: bool
    """Whether an empty line ends the conversation."""

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


class PlainScreen:
    """Plain lines, without colours and without moving the cursor."""

    is_asking = True
    ends_on_empty = True

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
        print_stdout(f"\n{asked} {plain(ticket.suspension.message)}".rstrip())

    def read_line(self, prompt: str) -> str | None:
        """Read a line from stdin."""
        print_stdout(prompt, has_end=False)
        return sys.stdin.readline() or None

    def read_answer(self, prompt: str) -> str | None:
        """Read a line from stdin; a pipe has its answers ready."""
        return self.read_line(prompt)

    def rest(self) -> None:
        """Do nothing: nothing moves."""

    def leave(self) -> None:
        """Do nothing: the terminal was not changed."""


class JsonScreen(PlainScreen):
    """Every event as one line of JSON; questions are not asked."""

    is_asking = False

    def greet(self, agent_id: str, model: str) -> None:
        """Say nothing: a program reads."""

    def show(self, event: AgentEvent) -> None:
        """Print an event in its native wire form."""
        print_stdout(encode_event(event).decode())

    def show_ticket(self, ticket: Ticket) -> None:
        """Print nothing: the event of the call has the id of its ticket."""
