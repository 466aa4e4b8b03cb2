"""The model port: requests to a provider, the events it streams back, and its results."""

from collections.abc import AsyncGenerator, Sequence
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

import msgspec

from awaken.contracts.messages.content import ContentBlock, Text, text_of
from awaken.contracts.messages.deltas import ReasoningDelta, TextDelta, ToolCallDelta, ToolCallStart
from awaken.contracts.messages.message import Message, ToolCall
from awaken.contracts.messages.message import TokenUsage as TokenUsage
from awaken.contracts.record import Record, StrictRecord

from .addresses import ServerAddress


class StopReason(StrEnum):
    """Why the model stopped."""

    END_TURN = "end_turn"
    MAX_TOKENS = "max_tokens"
    TOOL_USE = "tool_use"
    STOP_SEQUENCE = "stop_sequence"


class VendorAnswer(Record, frozen=True, kw_only=True):
    """The vendor's id of an answer and the model that gave it, as far as it reports them."""

    id: str | None = None
    model: str | None = None


class StreamResult(Record, frozen=True, kw_only=True):
    """One whole model turn."""

    content: tuple[ContentBlock, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    usage: TokenUsage | None = None
    stop_reason: StopReason | None = None
    has_incomplete_tool_calls: bool = False
    dropped_calls: tuple[str, ...] = ()
    """Why calls of this turn cannot be executed, one text per call."""
    vendor: VendorAnswer | None = None

    @property
    def text(self) -> str:
        """The text blocks, joined."""
        return text_of(self.content)

    @property
    def needs_truncation_recovery(self) -> bool:
        """Whether the output limit cut the model off in the middle of a text or a call."""
        if self.stop_reason is not StopReason.MAX_TOKENS:
            return False
        has_text = any(type(block) is Text and block.text for block in self.content)
        return self.has_incomplete_tool_calls or (not self.tool_calls and has_text)


class InferenceFailure(Record, frozen=True, kw_only=True):
    """A failed model turn as hooks see it."""

    type: str
    message: str
    error_class: str | None = None


class CompactionMode(StrEnum):
    """Where a compaction may cut the history."""

    KEEP_RECENT_RAW_SUFFIX = "keep_recent_raw_suffix"
    COMPACT_TO_SAFE_FRONTIER = "compact_to_safe_frontier"


class ContextWindowPolicy(StrictRecord, frozen=True, kw_only=True):
    """How much history a request may contain."""

    max_context_tokens: int = 200_000
    max_output_tokens: int = 16_384
    min_recent_messages: int = 10
    enable_prompt_cache: bool = True
    autocompact_threshold: int | None = None
    compaction_mode: CompactionMode = CompactionMode.KEEP_RECENT_RAW_SUFFIX
    compaction_raw_suffix_messages: int = 2


class Effort(StrEnum):
    """How hard the model should think."""

    NONE = "none"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    MAX = "max"


class EffortBudget(StrictRecord, frozen=True, kw_only=True):
    """A budget of thinking tokens."""

    budget: int


ReasoningEffort = Effort | EffortBudget


class InferenceOverride(StrictRecord, frozen=True, kw_only=True):
    """Parameters that replace the agent's own for a run or a step."""

    upstream_model: str | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    top_p: float | None = None
    reasoning_effort: ReasoningEffort | None = None
    provider_options: dict[str, Any] | None = None
    """Vendor-specific fields, put into the request unchanged."""

    def merge(self, other: "InferenceOverride | None") -> "InferenceOverride":
        """Combine two overrides; a field set in `other` wins, provider options one by one."""
        if other is None:
            return self
        changes = {
            name: value
            for name in self.__struct_fields__
            if (value := getattr(other, name)) is not None
        }
        if self.provider_options and other.provider_options:
            changes["provider_options"] = {**self.provider_options, **other.provider_options}
        return msgspec.structs.replace(self, **changes) if changes else self

    @property
    def is_empty(self) -> bool:
        """Whether nothing is overridden."""
        return all(getattr(self, name) is None for name in self.__struct_fields__)


class ModelTool(Record, frozen=True, kw_only=True):
    """A tool as the model sees it."""

    id: str
    description: str
    parameters: dict[str, Any]


class InferenceRequest(Record, frozen=True, kw_only=True):
    """One request to a model.

    `messages` is a view of the runtime's own transcript: copy what is kept beyond the call.
    """

    upstream_model: str
    messages: Sequence[Message]
    system: tuple[str, ...] = ()
    tools: tuple[ModelTool, ...] = ()
    overrides: InferenceOverride | None = None
    enable_prompt_cache: bool = False
    output_schema: dict[str, Any] | None = None
    """The JSON Schema that the answer must fit, for providers that can enforce one."""
    tool_choice: str | None = None
    """The tool that must be called, `required` for any, or `none`; absent: the model chooses."""


class BlockStop(Record, frozen=True, kw_only=True):
    """A content block ended; the next text starts a new one."""


class ThinkingSignature(Record, frozen=True, kw_only=True):
    """The end of a reasoning block, with the signature that the vendor requires back with it."""

    signature: str | None
    origin: str | None = None
    """The format and provider of the signature; requests to others omit it."""


class CallSignature(Record, frozen=True, kw_only=True):
    """The signature that the vendor requires back with a tool call."""

    id: str
    signature: str


class UsageReport(Record, frozen=True, kw_only=True):
    """Tokens used by this call."""

    usage: TokenUsage


class Stop(Record, frozen=True, kw_only=True):
    """The model stopped."""

    reason: StopReason


class Alive(Record, frozen=True, kw_only=True):
    """A keep-alive without content: the vendor still works on the answer."""


ModelEvent = (
    TextDelta
    | ReasoningDelta
    | ToolCallStart
    | ToolCallDelta
    | BlockStop
    | ThinkingSignature
    | CallSignature
    | UsageReport
    | Stop
    | VendorAnswer
    | Alive
)


@runtime_checkable
class ModelClient(Protocol):
    """A model vendor.

    `stream` is called concurrently by many runs. It raises `ModelError`s only; it must let
    cancellation pass and release what it holds when its iterator is closed.
    """

    name: str

    def stream(self, request: InferenceRequest) -> AsyncGenerator[ModelEvent, None]:
        """Call the model and yield its answer as it arrives."""
        ...


@runtime_checkable
class Addressed(Protocol):
    """A model client that names the server it calls, for telemetry."""

    @property
    def server(self) -> ServerAddress | None:
        """The server, or None if it is not known."""
        ...
