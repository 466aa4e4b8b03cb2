"""The events of a run, as one union in the native wire form.

`LIVE_EVENTS` are shown while they happen and never stored; every other event is also part of
the canonical log, where a step's text is kept as one delta per block.
"""

from typing import Any, Literal

import msgspec

from .identity import RunIdentity
from .lifecycle import Suspended, Termination
from .messages.deltas import (
    Event,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    ToolCallStart,
)
from .messages.message import Message
from .models.inference import TokenUsage
from .record import Record, always
from .suspension.tickets import ToolCallOutcome
from .tool_results import ToolResult


class RunStart(Event, frozen=True, kw_only=True, tag="run_start"):
    """A run begins, or continues after it was suspended."""

    thread_id: str
    run_id: str
    parent_run_id: str | None = None
    identity: RunIdentity | None = None


class RunFinish(Event, frozen=True, kw_only=True, tag="run_finish"):
    """A run ended, was suspended, or waits until one of its background tasks reports."""

    thread_id: str
    run_id: str
    identity: RunIdentity | None = None
    result: Any = None
    termination: Termination
    awaits_tasks: bool = False
    """Whether the run continues by itself when one of its tasks has ended."""


class ReasoningEncryptedValue(Event, frozen=True, kw_only=True, tag="reasoning_encrypted_value"):
    """An opaque signature over reasoning, to be sent back unchanged."""

    encrypted_value: str


class ToolCallReady(Event, frozen=True, kw_only=True, tag="tool_call_ready"):
    """The stream ended and the arguments parsed."""

    id: str
    name: str
    arguments: Any = always(None)


class ToolCallDone(Event, frozen=True, kw_only=True, tag="tool_call_done"):
    """A call succeeded, failed or was suspended."""

    id: str
    message_id: str = always("")
    result: ToolResult
    outcome: ToolCallOutcome
    ticket_id: str | None = None
    """The ticket that a suspended call waits for."""
    started_at: int | None = None
    """When its tool began, in milliseconds; absent if no tool ran for it in this activation."""
    duration_ms: int = 0
    attempts: int = 1
    """How often the call was executed, over all processes."""


class ToolCallStreamDelta(Event, frozen=True, kw_only=True, tag="tool_call_stream_delta"):
    """Output of a tool that is still running."""

    id: str
    name: str
    delta: str


class ToolCallResumed(Event, frozen=True, kw_only=True, tag="tool_call_resumed"):
    """A call that was suspended reached its outcome."""

    target_id: str
    message_id: str = always("")
    result: Any = always(None)
    is_declined: bool = False
    """Whether the decision was not to make the call."""
    is_failed: bool = False
    """Whether the call was made or gated after the decision, and failed."""
    ticket_id: str | None = None
    """The ticket that it waited for."""
    started_at: int | None = None
    """When its tool began after the decision; absent if the decision itself is the result."""
    duration_ms: int = 0
    attempts: int = 1
    """How often the call was executed, over all processes."""


class ToolCallCancel(Event, frozen=True, kw_only=True, tag="tool_call_cancel"):
    """A call that was being streamed was abandoned; it gets no result."""

    id: str
    name: str
    reason: str


class StreamReset(Event, frozen=True, kw_only=True, tag="stream_reset"):
    """Drop what was streamed and is not in the log: it comes again, perhaps otherwise."""

    reason: str
    scope: Literal["turn", "step"] = "turn"
    """`turn`: the answer begins anew, in the same step: drop its deltas. `step`: drop everything
    after the latest event with an id; the unfinished step comes again from its `step_start`."""


class MessagesSnapshot(Event, frozen=True, kw_only=True, tag="messages_snapshot"):
    """The whole transcript."""

    messages: tuple[Message, ...]


class ActivitySnapshot(Event, frozen=True, kw_only=True, tag="activity_snapshot"):
    """What a tool is doing, whole."""

    message_id: str
    activity_type: str
    content: Any = always(None)
    replace: bool | None = None


class ActivityDelta(Event, frozen=True, kw_only=True, tag="activity_delta"):
    """What a tool is doing, as a change."""

    message_id: str
    activity_type: str
    patch: list[Any]


class StepStart(Event, frozen=True, kw_only=True, tag="step_start"):
    """A step begins; `message_id` is the id its assistant message will have."""

    message_id: str = always("")


class StepEnd(Event, frozen=True, kw_only=True, tag="step_end"):
    """A step is durable."""


class InferenceComplete(Event, frozen=True, kw_only=True, tag="inference_complete"):
    """One model turn finished."""

    model: str
    usage: TokenUsage | None = None
    duration_ms: int = always(0)
    started_at: int | None = None
    """When it began, in milliseconds; absent in logs of earlier versions."""
    first_token_ms: int | None = None
    """How long after its start the model sent its first output."""
    attempts: int = 1
    """How many calls of models it took: repeated, continued, or with another model."""
    request_digest: str | None = None
    """Equal digests mean the same question: 16 digits for instructions, tools and parameters, and
    16 for the messages. Of a whole transcript those cover its length and its end."""
    sent_from: int = 0
    """The place in the transcript of the first message that was sent as it is; a summary may
    replace those before it."""


class StateSnapshot(Event, frozen=True, kw_only=True, tag="state_snapshot"):
    """The exported state after a step and at the end."""

    snapshot: Any


class StateDelta(Event, frozen=True, kw_only=True, tag="state_delta"):
    """The exported state as a change."""

    delta: list[Any]


class ErrorEvent(Event, frozen=True, kw_only=True, tag="error"):
    """A run's outcome could not be stored, or something failed outside any run."""

    message: str
    code: str | None = None


AgentEvent = (
    RunStart
    | RunFinish
    | TextDelta
    | ReasoningDelta
    | ReasoningEncryptedValue
    | ToolCallStart
    | ToolCallDelta
    | ToolCallReady
    | ToolCallDone
    | ToolCallStreamDelta
    | ToolCallResumed
    | ToolCallCancel
    | StreamReset
    | MessagesSnapshot
    | ActivitySnapshot
    | ActivityDelta
    | StepStart
    | StepEnd
    | InferenceComplete
    | StateSnapshot
    | StateDelta
    | ErrorEvent
)

LIVE_EVENTS = (
    ToolCallDelta,
    ToolCallStreamDelta,
    ToolCallCancel,
    StreamReset,
    ActivitySnapshot,
    ActivityDelta,
    StateSnapshot,
)

decode_event = msgspec.json.Decoder(AgentEvent).decode
encode_event = msgspec.json.Encoder().encode


def is_terminal(event: AgentEvent) -> bool:
    """Whether this is the last event of the activation."""
    return isinstance(event, RunFinish | ErrorEvent)


def ends_stream(event: AgentEvent) -> bool:
    """Whether the run emits no further events until a caller resumes it."""
    return isinstance(event, RunFinish) and not event.awaits_tasks


def message_wait_reason(event: RunFinish) -> str | None:
    """Why a run waits for a message, such as `input_required`; None if it has tickets or ended.

    Only runs at remote backends wait for messages: their status names the reason, where the status
    of a local run is `waiting`.
    """
    result = event.result if isinstance(event.result, dict) else {}
    if not isinstance(event.termination, Suspended) or result.get("status", "waiting") == "waiting":
        return None
    return str(result.get("status_reason") or result["status"])


def extract_response(result: Any) -> str:
    """The response text inside a `run_finish` result, or an empty text."""
    response = result.get("response") if isinstance(result, dict) else None
    return response if isinstance(response, str) else ""


def ends_run(event: AgentEvent) -> bool:
    """Whether a run has no more events after this one."""
    is_suspended = isinstance(event, RunFinish) and isinstance(event.termination, Suspended)
    return ends_stream(event) and not is_suspended


class LoggedEvent(Record, frozen=True, kw_only=True):
    """An event of the canonical log with its sequence number in the thread."""

    seq: int
    """1-based and contiguous within the thread; the cursor of every reader."""
    run_id: str | None = None
    event: AgentEvent
    created_at: int = 0


def unwrap_event(item: AgentEvent | LoggedEvent) -> AgentEvent:
    """The event itself, whether or not it is wrapped in a log entry."""
    return item.event if type(item) is LoggedEvent else item  # type: ignore[return-value]
