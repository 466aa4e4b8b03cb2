"""A conversation on a terminal: answers as they come, tools at work, questions, a line editor."""

import contextlib
import os
import sys
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.spinner import Spinner
from rich.text import Text

from awaken.contracts.clock import Clock, SystemClock
from awaken.contracts.events import (
    ActivitySnapshot,
    AgentEvent,
    ErrorEvent,
    InferenceComplete,
    RunFinish,
    RunStart,
    StreamReset,
    ToolCallDone,
    ToolCallReady,
    ToolCallResumed,
    ToolCallStreamDelta,
)
from awaken.contracts.lifecycle import Suspended
from awaken.contracts.messages.deltas import ReasoningDelta, TextDelta, ToolCallStart
from awaken.contracts.suspension.tickets import Ticket, ToolCallOutcome
from awaken.contracts.tools.context import PROGRESS_ACTIVITY

from .chat_screen import count_rows, end_text, has_person, show_parts
from .line_editor import LineEditor
from .markdown_blocks import render_markdown, split_blocks
from .output import plain, safe_text, short
from .terminal_modes import hide_typing
from .ticket_text import call_text, ticket_lines

TAIL_LINES = 12
"""How much of an unfinished block is shown while it grows."""
RESULT_CHARS = 160
_FRAME_COLUMNS = 4


class RunningCall:
    """A call of a tool that has not ended."""

    def __init__(self, name: str, began_ms: int) -> None:
        self.name = name
        self.began_ms = began_ms
        self.arguments: Any = None
        self.progress = ""


class TerminalScreen:
    """Shows a conversation on a terminal that can move its cursor."""

    is_for_programs = False
    ends_on_empty = False

    def __init__(self, editor: LineEditor, clock: Clock | None = None) -> None:
        self._console = Console(highlight=False, markup=False, emoji=False, soft_wrap=False)
        self._editor = editor
        self._clock = clock or SystemClock()
        self._live: Live | None = None
        self._typing = contextlib.ExitStack()
        self._text = ""
        self._calls: dict[str, RunningCall] = {}
        self._waiting: dict[str, RunningCall] = {}
        """Calls that wait for a decision."""
        self._is_thinking = False
        self._run_id = ""
        self._began_ms = 0
        self._worked_ms = 0
        """How long the run worked before it asked; the time of the person does not count."""
        self._tokens = 0

    @property
    def is_asking(self) -> bool:
        """Whether stdin is a terminal too."""
        return has_person()

    def greet(self, agent_id: str, model: str) -> None:
        """Say whom the person talks to, and how to leave."""
        asks = f", which asks {plain(model)}." if model else "."
        self._print(Text.assemble("You talk to ", (plain(agent_id), "bold"), asks))
        self._print(
            Text("Ctrl-C stops a run, Ctrl-D ends the conversation, /help shows more.", "dim")
        )

    def show(self, event: AgentEvent) -> None:
        """Show an event: finished things are printed, unfinished ones move at the end."""
        match event:
            case RunStart(run_id=run_id):
                self._begin(run_id)
            case TextDelta(delta=delta):
                self._add_text(safe_text(delta))
            case ReasoningDelta():
                self._is_thinking = True
            case StreamReset():
                self._text = ""
                self._print(Text("The answer starts again.", "dim"))
            case InferenceComplete(usage=usage):
                self._is_thinking = False
                self._tokens += 0 if usage is None else usage.total_tokens or 0
            case RunFinish():
                self._finish(event)
            case ErrorEvent(message=message):
                self._print(Text(f"✗ {plain(message)}", "red"))
            case _:
                self._show_call(event)

    def say(self, text: str) -> None:
        """Print a text of the program."""
        self._print(Text(safe_text(text)))

    def show_ticket(self, ticket: Ticket) -> bool:
        """Print panels with the tool, every argument, and the rule that asks."""
        self.rest()
        width = self._console.width - _FRAME_COLUMNS
        texts = [Text(text, look) for text, look in ticket_lines(ticket)]
        lines = [line for it in texts for line in it.wrap(self._console, width)]
        size = count_rows(self._console.height)
        parts = [lines[at : at + size] for at in range(0, len(lines), size)]
        return show_parts(parts, self._print_panel, self.read_answer)

    def _print_panel(self, lines: list[Text]) -> None:
        title = Text("Your decision is needed", "bold yellow")
        self._print(Panel(Group(*lines), title=title, title_align="left", border_style="yellow"))

    def read_line(self, prompt: str) -> str | None:
        """Read a line with the line editor."""
        self.rest()
        return self._editor.read_line(prompt)

    def read_answer(self, prompt: str) -> str | None:
        """Read an answer; what was typed before the question is thrown away."""
        self.rest()
        return self._editor.read_answer(prompt)

    def rest(self) -> None:
        """Stop the moving part, and let the terminal show what is typed again."""
        self._print_text()
        live, self._live = self._live, None
        if live is not None:
            live.stop()
        self._typing.close()

    def leave(self) -> None:
        """Show the cursor and what is typed again; whatever is drawn stays as it is."""
        self._typing.close()
        os.write(sys.stdout.fileno(), b"\x1b[?25h\x1b[0m\n")

    def _begin(self, run_id: str) -> None:
        self._text, self._is_thinking = "", False
        if run_id != self._run_id:
            self._run_id, self._tokens, self._worked_ms = run_id, 0, 0
        self._calls.clear()
        self._began_ms = self._clock.monotonic_ms()
        if self._live is None:
            self._typing.enter_context(hide_typing(sys.stdin))
            self._live = Live(
                console=self._console,
                get_renderable=self._moving_part,
                transient=True,
                refresh_per_second=8,
            )
            self._live.start()

    def _finish(self, event: RunFinish) -> None:
        self.rest()
        self._worked_ms += self._clock.monotonic_ms() - self._began_ms
        if isinstance(event.termination, Suspended):
            return
        if event.awaits_tasks:
            self._print(Text("Waits for its background tasks.", "dim"))
        elif end := end_text(event.termination):
            look = "red" if end.startswith("failed") else "yellow"
            self._print(Text(f"✗ {end}", look))
        seconds = self._worked_ms / 1000
        tokens = f" · {self._tokens:,} tokens" if self._tokens else ""
        self._print(Text(f"{seconds:.1f} s{tokens}\n", "dim"))

    def _add_text(self, delta: str) -> None:
        self._is_thinking = False
        self._text += delta
        if "\n" in delta:
            done, self._text = split_blocks(self._text)
            if done:
                self._print(render_markdown(done))
                self._print(Text())

    def _print_text(self) -> None:
        text, self._text = self._text, ""
        if text.strip():
            self._print(render_markdown(text))

    def _show_call(self, event: AgentEvent) -> None:
        match event:
            case ToolCallStart(id=id_, name=name):
                self._calls[id_] = RunningCall(name, self._clock.monotonic_ms())
            case ToolCallReady(id=id_, name=name, arguments=arguments):
                self._print_text()
                call = self._calls.setdefault(id_, RunningCall(name, self._clock.monotonic_ms()))
                call.arguments = arguments
            case ToolCallStreamDelta(id=id_, delta=delta):
                if id_ in self._calls and (lines := delta.strip().splitlines()):
                    self._calls[id_].progress = short(lines[-1])
            case ActivitySnapshot(message_id=id_, activity_type=kind, content=content):
                if id_ in self._calls and kind == PROGRESS_ACTIVITY:
                    self._calls[id_].progress = _progress_text(content)
            case ToolCallDone(id=id_, outcome=outcome, result=result, duration_ms=duration):
                call = self._calls.pop(id_, RunningCall(result.tool_name, 0))
                if outcome is ToolCallOutcome.SUSPENDED:
                    self._waiting[id_] = call
                else:
                    is_good = outcome is ToolCallOutcome.SUCCEEDED
                    text = result.message if result.message and not is_good else result.data
                    self._print_call(call, text, duration, is_good=is_good)
            case ToolCallResumed(target_id=id_, is_declined=is_declined, is_failed=is_failed):
                call = self._waiting.pop(id_, RunningCall("the call", 0))
                said = "declined" if is_declined else _unwrap_resumed(event.result)
                is_good = not is_declined and not is_failed
                self._print_call(call, said, event.duration_ms, is_good=is_good)

    def _print_call(
        self, call: RunningCall, result: Any, duration_ms: int, *, is_good: bool
    ) -> None:
        self._print_text()
        mark, look = ("✓", "green") if is_good else ("✗", "red")
        took = f"  {duration_ms / 1000:.1f} s" if duration_ms >= 100 else ""
        line = Text.assemble(
            (f"{mark} ", look), call_text(call.name, call.arguments), (took, "dim")
        )
        line.truncate(self._console.width - 1, overflow="ellipsis")
        self._print(line)
        if result is not None and result != "":
            self._print(Text(f"  {short(result, RESULT_CHARS)}", "dim" if is_good else "red"))

    def _moving_part(self) -> RenderableType:
        """What is not finished: the end of the text, the calls, and a sign of life."""
        # Another thread draws it: each part is read once.
        text, calls, now = self._text, list(self._calls.values()), self._clock.monotonic_ms()
        width, parts = self._console.width - 2, list[RenderableType]()
        if text.strip():
            parts.append(Text("\n".join(text.splitlines()[-TAIL_LINES:])))
        for call in calls:
            seconds = (now - call.began_ms) / 1000
            line = f"{call_text(call.name, call.arguments)}  {seconds:.0f} s  {call.progress}"
            parts.append(Text(f"• {line.rstrip()}"[:width], "cyan"))
        if not text.strip():
            seconds = (now - self._began_ms) / 1000
            doing = "Waits for tools" if calls else "Thinks" if self._is_thinking else "Works"
            parts.append(Spinner("dots", Text(f"{doing}… {seconds:.0f} s, Ctrl-C stops it", "dim")))
        return Group(*parts)

    def _print(self, what: RenderableType) -> None:
        self._console.print(what)


def _progress_text(content: Any) -> str:
    if not isinstance(content, dict):
        return ""
    fraction, message = content.get("progress"), content.get("message")
    percent = f"{fraction:.0%}" if isinstance(fraction, int | float) else ""
    return f"{percent} {short(message) if message else ''}".strip()


def _unwrap_resumed(result: Any) -> Any:
    """The part of a resumed call's result that a person reads: its data, or its error."""
    match result:
        case {"data": data, "metadata": dict(), **rest} if not rest:
            return data
        case {"error": str() as error, **rest} if not rest:
            return error
    return result
