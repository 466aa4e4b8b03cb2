"""A conversation in the terminal: runs, questions of tools, commands, and Ctrl-C."""

import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any

from awaken.authoring.run_contexts import ContextType
from awaken.bootstrap.agent_runtime import AgentRuntime
from awaken.contracts.errors import AwakenError
from awaken.contracts.events import RunFinish
from awaken.contracts.lifecycle import Cancelled, Failed, Suspended, Termination
from awaken.contracts.suspension.tickets import Ticket, ToolCallResume
from awaken.contracts.workflows.waits import awaits_message

from .approvals import (
    Approval,
    decide_without_asking,
    describe_outside_wait,
    describe_waiting,
)
from .chat_screen import PROMPT, ChatScreen, JsonScreen, PlainScreen
from .chat_thread import ChatThread, Events
from .loop_thread import LoopThread
from .model_hints import NOT_FOUND, suggest_known_model
from .output import can_draw, plain, print_stderr
from .ticket_prompts import ask_ticket, decline

INTERRUPTED = 130
COMMANDS = {
    "/help": "show this",
    "/new": "start a new conversation",
    "/agent": "NAME: talk to another agent on this thread; without a name, list them",
    "/thread": "show the id of this conversation; `--thread ID` continues it later",
    "/exit": "end, as Ctrl-D does",
}
_HELP = "\n".join([*(f"{name:8} {text}" for name, text in COMMANDS.items()),
    "A line that ends with \\ goes on in the next. A text that begins with / needs a space first.",
])  # fmt: skip


def choose_screen(*, is_json: bool = False) -> ChatScreen:
    """The screen for this process: of a terminal, plain for pipes, or JSON for programs."""
    if is_json:
        return JsonScreen()
    if not can_draw(sys.stdout):
        return PlainScreen()
    # Only a terminal needs it, and it takes as long to load as all the rest.
    from .chat_terminal import TerminalScreen  # noqa: PLC0415
    from .line_editor import LineEditor  # noqa: PLC0415

    return TerminalScreen(LineEditor([*COMMANDS]))


class Chat:
    """Talks with a person on a screen, and with agents in a loop of their own."""

    def __init__(
        self,
        screen: ChatScreen,
        loop: LoopThread,
        runtime: AgentRuntime,
        agent_id: str,
        context: dict[str, Any] | None = None,
        approval: Approval | None = None,
    ) -> None:
        self._screen = screen
        self._loop = loop
        self._runtime = runtime
        self._context = context
        self._approval = approval
        self._talk = ChatThread(loop, runtime, agent_id, None, context)
        self.is_waiting = False
        """Whether a run waits for a decision that nobody can be asked for here."""

    def check_agent(self, agent_id: str, *, is_continued: bool = False) -> None:
        """Check that an agent can be talked to.

        Raises:
            AwakenError: It is not registered, or its configuration is wrong.
            InvalidContext: It does not take the context of this conversation.
        """
        agent = self._loop.call(self._runtime.registry.resolve(agent_id))
        # An open run of a thread that is continued has its own context.
        if agent.context is not None and not (is_continued and self._context is None):
            agent.context.decode(agent_id, self._context)

    def find_context_type(self, agent_id: str) -> ContextType | None:
        """The context type of an agent that is registered."""
        return self._loop.call(self._runtime.registry.resolve(agent_id)).context

    def begin(self, text: str | None, thread_id: str | None) -> Termination | None:
        """Go on with a thread if there is one; then answer a text, or talk until the end."""
        if thread_id is not None and self._talk.continue_thread(thread_id):
            self._follow(Suspended)
            if self.is_waiting:
                return None
        if text is not None:
            return self.answer(text)
        return self.converse()

    def converse(self) -> Termination | None:
        """Answer lines until there are no more; returns an end that a script must know."""
        self._screen.greet(self._talk.agent_id, self._name_model())
        is_leaving, failed = False, None
        while not self.is_waiting:
            try:
                with raise_interrupts():
                    line = self._screen.read_line(PROMPT)
            except KeyboardInterrupt:
                if is_leaving:
                    return None
                is_leaving = True
                self._screen.say("\nCtrl-C again, or Ctrl-D, ends the conversation.")
                continue
            is_leaving = False
            if line is None or (self._screen.ends_on_empty and not line.strip()):
                break
            if not line.strip():
                continue
            if line.startswith("/"):
                if self._obey(line.strip()):
                    break
                continue
            try:
                end = self.answer(line.strip())
            except AwakenError as error:
                self._screen.rest()
                self._screen.say(f"awaken: {plain(error)}")
                end = Failed(code=error.code, message=str(error))
            failed = end if isinstance(end, Failed) else failed
        # A person has seen it.
        return None if self._screen.is_asking else failed

    def answer(self, text: str) -> Termination | None:
        """Run the agent once, show it, ask its questions, and return how it ended."""
        return self._follow(lambda: self._show(self._talk.say(text)))

    def _follow(self, begin: Callable[[], Termination | None]) -> Termination | None:
        """Show a run, and ask its questions, until it ends or waits for a message."""
        with Interrupts(self._screen.leave, self._talk.cancel):
            try:
                end = begin()
                while isinstance(end, Suspended):
                    tickets = self._talk.list_questions()
                    if not tickets:
                        self._report_waits()
                        break
                    decisions = self._decide(tickets)
                    if decisions is None:
                        self._talk.cancel()
                        return Cancelled()
                    if not decisions:
                        break
                    end = self._show(self._talk.decide(decisions, tickets))
            finally:
                self._screen.rest()
        is_unknown = isinstance(end, Failed) and end.code == NOT_FOUND
        if is_unknown and (hint := suggest_known_model(self._name_model())):
            self._screen.say(hint)
        return end

    def _show(self, events: Events) -> Termination | None:
        end: Termination | None = None
        while (event := events.take()) is not None:
            self._screen.show(event)
            if isinstance(event, RunFinish):
                end = event.termination
        return end

    def _decide(self, tickets: list[Ticket]) -> Mapping[str, ToolCallResume] | None:
        """Decide on tickets; nothing where nobody can be asked, None if a person gives up."""
        if (decided := decide_without_asking(self._approval, tickets)) is not None:
            for ticket in tickets:
                self._screen.show_ticket(ticket)
                self._screen.say(f"Decided by --approve {self._approval}.")
            return decided
        if self._screen.is_asking:
            with raise_interrupts():
                return self._ask(tickets)
        self.is_waiting = not self._screen.is_for_programs
        if self.is_waiting:
            self._screen.rest()
            is_kept = self._runtime.store.is_shared
            print_stderr(describe_waiting(tickets, self._talk.thread_id, is_kept=is_kept))
        return {}

    def _report_waits(self) -> None:
        """Say what a workflow waits for that nobody is asked for, and who continues it."""
        run_id, waits = self._talk.list_waits()
        # What is said next continues it.
        if not waits or any(map(awaits_message, waits)) or self._screen.is_for_programs:
            return
        self.is_waiting = not self._screen.is_asking
        self._screen.rest()
        is_kept = self._runtime.store.is_shared
        print_stderr(describe_outside_wait(run_id, waits, is_kept=is_kept))

    def _ask(self, tickets: list[Ticket]) -> dict[str, ToolCallResume] | None:
        """Ask about each ticket; None if the person pressed Ctrl-C instead."""
        decisions: dict[str, ToolCallResume] = {}
        try:
            for ticket in tickets:
                is_shown = self._screen.show_ticket(ticket)
                decisions[ticket.ticket_id] = self._ask_one(ticket) if is_shown else decline()
        except KeyboardInterrupt:
            self._screen.say("\nThe run is cancelled; nothing of this was approved.")
            return None
        return decisions

    def _ask_one(self, ticket: Ticket) -> ToolCallResume:
        # Labels of a form come from tools and their servers.
        given = ask_ticket(
            ticket, lambda prompt: self._screen.read_answer(plain(prompt)), self._screen.say
        )
        # The decision is about what was shown.
        return ToolCallResume(
            decision_id="",
            action=given.action,
            result=given.result,
            remember=given.remember,
            arguments_hash=ticket.call_hash,
        )

    def _obey(self, line: str) -> bool:
        """Execute a command; returns whether the conversation is over."""
        name, _, rest = line.partition(" ")
        match name:
            case "/exit" | "/quit":
                return True
            case "/help":
                self._screen.say(_HELP)
            case "/new":
                self._talk = self._talk.begin_again()
                self._screen.say("A new conversation begins.")
            case "/agent":
                self._choose_agent(rest.strip())
            case "/thread":
                self._screen.say(self._talk.thread_id or "It has no id before the first message.")
            case _:
                self._screen.say(f"There is no command {plain(name)}; /help shows all.")
        return False

    def _choose_agent(self, agent_id: str) -> None:
        known = list(self._runtime.registry.snapshot().registries.agents)
        if not agent_id:
            self._screen.say(", ".join(map(plain, known)))
            return
        try:
            self.check_agent(agent_id)
        except AwakenError as error:
            self._screen.say(plain(error))
            return
        self._talk.agent_id = agent_id
        self._screen.say(f"You talk to '{plain(agent_id)}'.")

    def _name_model(self) -> str:
        """The model that the agent asks first; empty if it has no name that says something."""
        try:
            agent = self._runtime.registry.snapshot().resolve(self._talk.agent_id)
        except AwakenError:
            return ""
        name = agent.models[0].id if agent.models else ""
        # A client in code has a name that was made from the agent's.
        return "" if name == f"{self._talk.agent_id}:model" else name


class Interrupts:
    """Ctrl-C and SIGTERM leave the program at once; the first Ctrl-C may do something else."""

    def __init__(
        self, leave: Callable[[], None], on_first: Callable[[], None] | None = None
    ) -> None:
        self._leave = leave
        self._on_first = on_first
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "Interrupts":
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGINT and self._on_first is not None:
            on_first, self._on_first = self._on_first, None
            on_first()
            return
        # Not an exception: leaving must not wait for a tool that hangs.
        self._leave()
        os._exit(128 + number)


@contextmanager
def raise_interrupts() -> Iterator[None]:
    """Raise `KeyboardInterrupt` at Ctrl-C: while something is read, it ends the reading."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
