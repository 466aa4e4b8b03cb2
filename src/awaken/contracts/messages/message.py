"""Chat messages. A message is content only; queue items and events have other names."""

import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from enum import StrEnum
from itertools import chain, islice
from typing import Any, overload

from awaken.contracts.record import Record, always

from .content import ContentBlock, Text, text_of


class Role(StrEnum):
    """The author of a message."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class Visibility(StrEnum):
    """`internal` messages reach the model and stay hidden from API consumers."""

    ALL = "all"
    INTERNAL = "internal"


class Provenance(StrEnum):
    """The source of a message's text. Only the system's own text may be an instruction."""

    SYSTEM = "system"
    """The operator, or the runtime itself."""
    USER = "user"
    MODEL = "model"
    TOOL = "tool"
    """The output of a tool, whatever its source."""
    REMOTE = "remote"
    """Another agent, a task, or a server outside of the operator's control."""


class TokenUsage(Record, frozen=True, kw_only=True):
    """Tokens of one call or of several; absent means that the provider did not report it."""

    prompt_tokens: int | None = None
    """All tokens of the request, those read from and written to a cache among them."""
    completion_tokens: int | None = None
    total_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_creation_tokens: int | None = None
    thinking_tokens: int | None = None
    """Part of the completion tokens."""
    cost_nanos: int | None = None
    """Billionths of a US dollar; absent when the price is not known."""

    @property
    def cost_usd(self) -> float | None:
        """The cost in US dollars, or None if the price is not known."""
        return None if self.cost_nanos is None else self.cost_nanos / 1e9

    def plus(self, other: "TokenUsage | None") -> "TokenUsage":
        """Add two counts field by field; negative counts add nothing."""
        if other is None:
            return self
        prompt, completion = self.prompt_tokens, self.completion_tokens
        total, thinking, cost = self.total_tokens, self.thinking_tokens, self.cost_nanos
        read, created = self.cache_read_tokens, self.cache_creation_tokens
        if (more := other.prompt_tokens) is not None and more >= 0:
            prompt = more + (prompt or 0)
        if (more := other.completion_tokens) is not None and more >= 0:
            completion = more + (completion or 0)
        if (more := other.total_tokens) is not None and more >= 0:
            total = more + (total or 0)
        if (more := other.cache_read_tokens) is not None and more >= 0:
            read = more + (read or 0)
        if (more := other.cache_creation_tokens) is not None and more >= 0:
            created = more + (created or 0)
        if (more := other.thinking_tokens) is not None and more >= 0:
            thinking = more + (thinking or 0)
        if (more := other.cost_nanos) is not None and more >= 0:
            cost = more + (cost or 0)
        return TokenUsage(
            prompt_tokens=prompt,
            completion_tokens=completion,
            total_tokens=total,
            cache_read_tokens=read,
            cache_creation_tokens=created,
            thinking_tokens=thinking,
            cost_nanos=cost,
        )


NO_USAGE = TokenUsage()
"""Nothing used, and nothing reported."""


class ToolCall(Record, frozen=True, kw_only=True):
    """The model's request to run one tool."""

    id: str
    name: str
    arguments: Any = always(None)
    signature: str | None = None
    """Opaque; goes back to the provider that made it unchanged."""


class MessageMetadata(Record, frozen=True, kw_only=True):
    """Which run and step produced a message. The runtime fills it in, whatever a client sends."""

    run_id: str | None = None
    step_index: int | None = None
    provenance: Provenance | None = None
    """The source of the text if the role does not say it: a plugin put it into the request."""
    user_id: str | None = None
    """The user who said it, if the run began with another one; blank: no known user said it."""


class SenderKind(StrEnum):
    """Senders into a thread other than a person or a model."""

    TASK = "task"
    AGENT = "agent"
    EVENT = "event"
    """An event from outside for a workflow."""


class Sender(Record, frozen=True, kw_only=True):
    """The sender of a message that is not a person's. Only the runtime fills it in.

    Such a message never replaces a decision that a run waits for.
    """

    kind: SenderKind
    agent_id: str | None = None
    thread_id: str | None = None
    run_id: str | None = None
    task_id: str | None = None
    is_end: bool = False
    """Whether it reports the end of the task."""
    is_quiet: bool = False
    """Whether it wakes no run: the task was cancelled with the run that had started it."""
    usage: TokenUsage | None = None
    """The usage of a task that was an agent's run; its owner is charged for it."""
    hops: int = 0
    """How many agent messages in a row caused this one, since a person's last message."""
    event: str | None = None
    """The name of the event that the message carries."""

    @property
    def is_progress(self) -> bool:
        """Whether a task reports progress, which alone is no reason to call the model."""
        return self.kind is SenderKind.TASK and not self.is_end


class Message(Record, frozen=True, kw_only=True, gc=True, weakref=True):
    """One entry of a thread's transcript.

    `id` is absent until the message enters a thread; then the runtime's `IdSource` assigns one.
    """

    role: Role
    id: str | None = None
    content: tuple[ContentBlock, ...] = always(())
    tool_calls: tuple[ToolCall, ...] | None = None
    tool_call_id: str | None = None
    visibility: Visibility = Visibility.ALL
    metadata: MessageMetadata | None = None
    sender: Sender | None = None

    @property
    def text(self) -> str:
        """The text blocks, joined without a separator."""
        return text_of(self.content)

    @property
    def provenance(self) -> Provenance:
        """The source of the text; clients cannot claim another one."""
        if self.sender is not None:
            return Provenance.REMOTE
        recorded = self.metadata.provenance if self.metadata is not None else None
        return recorded or _PROVENANCE[self.role]

    @property
    def is_for_agent(self) -> bool:
        """Whether it is sent on to a remote agent: its author is a user, an agent or a task."""
        is_open = self.visibility is Visibility.ALL or self.sender is not None
        return self.role is Role.USER and is_open

    def with_producer(self, run_id: str, step_index: int | None = None) -> "Message":
        """Return the message with its producer filled in where it is absent."""
        known = self.metadata or MessageMetadata()
        index = known.step_index if known.step_index is not None else step_index
        metadata = MessageMetadata(run_id=known.run_id or run_id, step_index=index)
        return Message(
            role=self.role,
            id=self.id,
            content=self.content,
            tool_calls=self.tool_calls,
            tool_call_id=self.tool_call_id,
            visibility=self.visibility,
            metadata=metadata,
            sender=self.sender,
        )


_PROVENANCE = {
    Role.SYSTEM: Provenance.SYSTEM,
    Role.USER: Provenance.USER,
    Role.ASSISTANT: Provenance.MODEL,
    Role.TOOL: Provenance.TOOL,
}

Content = str | ContentBlock | tuple[ContentBlock, ...] | list[ContentBlock]


def system(content: Content, *, visibility: Visibility = Visibility.ALL) -> Message:
    """Build a system message."""
    return Message(role=Role.SYSTEM, content=as_blocks(content), visibility=visibility)


def user(content: Content, *, visibility: Visibility = Visibility.ALL) -> Message:
    """Build a user message from text or content blocks."""
    return Message(role=Role.USER, content=as_blocks(content), visibility=visibility)


def assistant(
    content: Content, tool_calls: tuple[ToolCall, ...] | list[ToolCall] | None = None
) -> Message:
    """Build an assistant message; an empty list of calls means no calls."""
    return Message(
        role=Role.ASSISTANT,
        content=as_blocks(content),
        tool_calls=tuple(tool_calls) if tool_calls else None,
    )


def tool_answer(call_id: str, content: Content) -> Message:
    """Build the message that answers one tool call."""
    return Message(role=Role.TOOL, content=as_blocks(content), tool_call_id=call_id)


def as_blocks(content: Content) -> tuple[ContentBlock, ...]:
    """Turn text, one block or several blocks into the stored form."""
    if isinstance(content, str):
        return (Text(text=content),)
    if isinstance(content, tuple | list):
        return tuple(content)
    return (content,)


class MessageRecord(Record, frozen=True, kw_only=True):
    """A message as the store lists it, with its sequence number and its producer."""

    message_id: str
    thread_id: str
    seq: int
    """1-based and contiguous within the thread."""
    message: Message
    produced_by_run_id: str | None = None
    step_index: int | None = None
    tool_call_id: str | None = None
    created_at: int | None = None


def record_of(message: Message, *, thread_id: str, seq: int, created_at: int) -> MessageRecord:
    """Build the stored record of a message; the producer comes from its metadata."""
    metadata = message.metadata or MessageMetadata()
    return MessageRecord(
        message_id=message.id or f"{thread_id}:{seq}",
        thread_id=thread_id,
        seq=seq,
        message=message,
        produced_by_run_id=metadata.run_id,
        step_index=metadata.step_index,
        tool_call_id=message.tool_call_id,
        created_at=created_at,
    )


class MessageList(list[Message]):
    """A list of messages, only ever appended to, that knows the ids of its tool calls."""

    __slots__ = ("_call_ids", "_seen")

    def __init__(self, messages: Iterable[Message] = ()) -> None:
        super().__init__(messages)
        self._call_ids: set[str] = set()
        self._seen = 0

    @property
    def call_ids(self) -> AbstractSet[str]:
        """The ids of all tool calls; each message is read for it once."""
        if self._seen < len(self):
            for message in islice(self, self._seen, None):
                for call in message.tool_calls or ():
                    self._call_ids.add(call.id)
            self._seen = len(self)
        return self._call_ids


class Transcript(Sequence[Message]):
    """A view of the first messages of an append-only list, followed by messages of its own.

    Creating one is cheap however long the list is, because nothing is copied. Messages that are
    appended to the list later are not visible in it.
    """

    __slots__ = ("_call_ids", "base", "length", "own")

    def __init__(self, base: Sequence[Message] = ()) -> None:
        self.base = base
        self.length = len(base)
        """How many messages of the underlying list belong to it."""
        self.own: list[Message] = []
        """The messages after them; only `append` adds to it."""
        self._call_ids: set[str] | None = None

    @property
    def call_ids(self) -> AbstractSet[str]:
        """The ids of all tool calls; the first use reads all messages, later ones none.

        A list that knows its calls is not read. It may know of messages that are not visible here.
        """
        if self._call_ids is None:
            base = self.base
            unread: Iterable[Message] = self
            self._call_ids = set()
            if type(base) is Transcript or type(base) is MessageList:
                self._call_ids |= base.call_ids
                unread = self.own
            for message in unread:
                for call in message.tool_calls or ():
                    self._call_ids.add(call.id)
        return self._call_ids

    def append(self, message: Message) -> None:
        """Add a message at the end; the underlying list does not change."""
        self.own.append(message)
        if self._call_ids is not None and message.tool_calls:
            for call in message.tool_calls:
                self._call_ids.add(call.id)

    def list_from(self, first: int) -> list[Message]:
        """Return the messages from a place on; costs what it returns."""
        if first >= self.length:
            return self.own[first - self.length :]
        base = self.base
        found = base.list_from(first) if type(base) is Transcript else base[first : self.length]
        return [*found[: self.length - first], *self.own]

    def __len__(self) -> int:
        return self.length + len(self.own)

    def __iter__(self) -> Iterator[Message]:
        return chain(islice(self.base, self.length), self.own)

    @overload
    def __getitem__(self, index: int) -> Message: ...

    @overload
    def __getitem__(self, index: slice) -> list[Message]: ...

    def __getitem__(self, index: int | slice) -> Message | list[Message]:
        if isinstance(index, slice):
            return list(self)[index]
        place = index + len(self) if index < 0 else index
        if not 0 <= place < len(self):
            message = f"there is no message {index} of {len(self)}"
            raise IndexError(message)
        return self.base[place] if place < self.length else self.own[place - self.length]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(map(operator.eq, self, other))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Transcript({list(self)!r})"


Input = str | Message | ContentBlock | Sequence[Message | ContentBlock | str] | Mapping[str, Any]
"""What a caller may say to an agent; consecutive texts and blocks make one message of the user.

A mapping has the arguments of a workflow, and is sent as JSON."""
