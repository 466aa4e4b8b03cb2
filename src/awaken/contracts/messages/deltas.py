"""The pieces a model streams. They are also events of the run, so nothing is copied."""

from awaken.contracts.record import Record


class Event(Record, frozen=True, kw_only=True, tag_field="event_type"):
    """Root of every event; `event_type` is its discriminator on the wire."""


class TextDelta(Event, frozen=True, kw_only=True, tag="text_delta"):
    """A piece of the model's text."""

    delta: str


class ReasoningDelta(Event, frozen=True, kw_only=True, tag="reasoning_delta"):
    """A piece of the model's reasoning."""

    delta: str


class ToolCallStart(Event, frozen=True, kw_only=True, tag="tool_call_start"):
    """The model opened a tool call."""

    id: str
    name: str


class ToolCallDelta(Event, frozen=True, kw_only=True, tag="tool_call_delta"):
    """A piece of a tool call's arguments, as JSON text."""

    id: str
    args_delta: str
