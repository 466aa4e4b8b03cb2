"""One answer: a run up to its next end or suspension; shared by both APIs."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, ClassVar

from msgspec.structs import replace

from awaken.contracts import events as ev
from awaken.contracts.lifecycle import Blocked, Cancelled, Failed, Stopped, Suspended, Termination
from awaken.contracts.messages.deltas import ReasoningDelta, TextDelta
from awaken.contracts.models.inference import TokenUsage
from awaken.contracts.suspension.tickets import SuspendTicket
from awaken.services.event_streams import Batch, EventStream
from awaken.transport.asgi import encode_json

_ON_PURPOSE = ("stop_on_tool", "content_match")
"""Stop conditions that are a goal, not a limit."""

Handlers = Mapping[type, Callable[[Any, Any], None]]


class AnswerEncoder:
    """Reads the events of a run; each API adds handlers that encode them."""

    def __init__(self, frame: Mapping[str, Any], run_id: str) -> None:
        self.frame = frame
        self.run_id = run_id
        self.lines: list[bytes] = []
        self.calls: dict[str, dict[str, str]] = {}
        """Name and arguments by the call's id."""
        self.usage: TokenUsage | None = None
        self.is_resting = False
        """Whether the run waits for its tasks: it will resume, and the answer continues."""
        self.is_formed = False
        """Whether the client asked for a schema: then only a text that fits it is the answer."""
        self.held = ""
        """Text that may not fit the schema, and is held back."""

    def encode(self, event: ev.AgentEvent) -> Sequence[bytes]:
        """Encode an event as frames."""
        self.lines = []
        handle = self.HANDLERS.get(type(event))
        if isinstance(event, ev.RunFinish) and event.awaits_tasks:
            self.is_resting = True
        elif isinstance(event, ev.RunStart) and self.is_resting:
            self.is_resting = False
            self.go_on()
        elif handle is not None:
            handle(self, event)
        return self.lines

    def go_on(self) -> None:
        """Continue an answer after a rest."""

    def state(self) -> object:
        """Everything that later frames depend on."""
        return {name: it for name, it in vars(self).items() if name != "lines"}

    async def read(self, activation: "Activation") -> None:
        """Read a whole answer without sending its frames."""
        for event in activation.before:
            self.encode(event)
        async for batch in activation.batches():
            for item in batch:
                self.encode(ev.unwrap_event(item))

    def call_of(self, call_id: str, name: str = "") -> dict[str, str]:
        """The name and the arguments of a call."""
        return self.calls.setdefault(call_id, {"name": name, "arguments": "{}"})

    def usage_fields(self, sent: str, said: str) -> dict[str, Any]:
        """The token usage, with the API's names for input and output."""
        usage = self.usage or TokenUsage()
        cached, written = usage.cache_read_tokens or 0, usage.cache_creation_tokens or 0
        return {
            f"{sent}_tokens": usage.prompt_tokens or 0,
            f"{sent}_tokens_details": {"cached_tokens": cached, "cache_write_tokens": written},
            f"{said}_tokens": usage.completion_tokens or 0,
            f"{said}_tokens_details": {"reasoning_tokens": usage.thinking_tokens or 0},
            "total_tokens": (usage.prompt_tokens or 0) + (usage.completion_tokens or 0),
        }

    def keep_call(self, event: ev.ToolCallReady) -> None:
        """Store the name and the arguments of a call."""
        self.calls[event.id] = {"name": event.name, "arguments": as_text(event.arguments or {})}

    def count(self, event: ev.InferenceComplete) -> None:
        """Add up the token usage."""
        self.usage = (self.usage or TokenUsage()).plus(event.usage)

    def hold_back(self, event: TextDelta | ReasoningDelta) -> bool:
        """Hold text back until it is known whether it is the answer; True if it was held."""
        if self.is_formed and isinstance(event, TextDelta):
            self.held += event.delta
            return True
        return False

    def take_held_text(self, termination: Termination) -> TextDelta | None:
        """Take the text that was held back, if it is the answer."""
        held, self.held, self.is_formed = self.held, "", False
        is_over = not isinstance(termination, Suspended | Failed)
        return TextDelta(delta=held) if held and is_over else None

    HANDLERS: ClassVar[Handlers] = {ev.ToolCallReady: keep_call, ev.InferenceComplete: count}


class Activation:
    """The first answer in a stream; what the run does after it is resumed is not included.

    With `is_later` the events before are an earlier answer, even if the run waited for its tasks.
    """

    def __init__(self, stream: EventStream, *, is_later: bool = False) -> None:
        self.source = stream
        self.before = stream.before
        latest = self.before[-1] if self.before else None
        if is_later and isinstance(latest, ev.RunFinish):
            self.before[-1] = replace(latest, awaits_tasks=False)
        self.on_drop: Callable[[], None] | None = None

    async def batches(self) -> AsyncGenerator[Batch, None]:
        """Yield the events in order, until the answer is complete."""
        self.source.on_drop = self.on_drop
        async with aclosing(self.source.batches()) as batches:
            async for batch in batches:
                ends = [at for at, it in enumerate(batch, 1) if is_last(ev.unwrap_event(it))]
                yield batch[: ends[0]] if ends else batch
                if ends:
                    return

    def close(self) -> None:
        """Close the stream."""
        self.source.close()


def is_last(event: ev.AgentEvent) -> bool:
    """Whether an answer is complete with this event, or cannot be read any further."""
    return ev.ends_stream(event) or isinstance(event, ev.ErrorEvent)


def response_status(termination: Termination) -> tuple[str, dict[str, Any]]:
    """The status of a response, and the fields that explain it."""
    match termination:
        case Failed(message=message):
            return "failed", {"error": {"code": "server_error", "message": message}}
        case Cancelled():
            return "cancelled", {}
        case Blocked():
            return "incomplete", {"incomplete_details": {"reason": "content_filter"}}
        case Stopped(reason=reason) if reason.code not in _ON_PURPOSE:
            limit = "max_messages" if reason.code == "max_rounds" else "max_output_tokens"
            return "incomplete", {"incomplete_details": {"reason": limit}}
        case _:
            return "completed", {}


def outside_id(call_id: str, run_id: str) -> str:
    """The client's id of a tool call; it contains the run's id."""
    return f"{call_id}~{run_id}"


def form_of(ticket: SuspendTicket, call: dict[str, str]) -> dict[str, str]:
    """The call as the client gets it; a question by form has the form as arguments."""
    asked = ticket.suspension
    if asked.response_schema is None:
        return call
    form = {"message": asked.message, "response_schema": asked.response_schema}
    return {**call, "arguments": as_text(form)}


def inside_id(call_id: str) -> str:
    """The run's id of a tool call, from the client's id."""
    return call_id.rpartition("~")[0] or call_id


def as_text(value: Any) -> str:
    """Return text as it is, everything else as JSON."""
    return value if isinstance(value, str) else encode_json(value).decode()
