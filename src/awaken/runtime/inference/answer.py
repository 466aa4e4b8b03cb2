"""Collecting a model's answer while it is streamed, over several streams if one breaks off."""

import logging
from collections.abc import Callable, Coroutine, Mapping
from types import AsyncGeneratorType
from typing import NoReturn

import msgspec

from awaken.authoring.functions import is_interruption
from awaken.contracts.events import (
    AgentEvent,
    ReasoningEncryptedValue,
    StreamReset,
    ToolCallCancel,
)
from awaken.contracts.identity import derive_id
from awaken.contracts.messages.content import (
    ContentBlock,
    Text,
    Thinking,
    replace_surrogates,
    text_of,
)
from awaken.contracts.messages.deltas import ReasoningDelta, TextDelta, ToolCallDelta, ToolCallStart
from awaken.contracts.messages.message import ToolCall
from awaken.contracts.models.errors import ModelError, ModelTimeout, ProviderBroken, TransportFailed
from awaken.contracts.models.inference import (
    Alive,
    BlockStop,
    CallSignature,
    InferenceRequest,
    ModelClient,
    ModelEvent,
    Stop,
    StopReason,
    StreamResult,
    ThinkingSignature,
    TokenUsage,
    UsageReport,
    VendorAnswer,
)
from awaken.contracts.models.stream_recovery import InFlightTool, InterruptSnapshot
from awaken.contracts.record import EMPTY
from awaken.contracts.storage.store import StreamCheckpoint
from awaken.redaction import describe_error, make_loggable
from awaken.runtime.journal.streams import block_events
from awaken.runtime.primitives.timers import IdleTimer, Watchdog
from awaken.runtime.resolution.models import ModelRoute
from awaken.runtime.run import Run

from .streamed_answer import ShownAnswer

logger = logging.getLogger(__name__)

_ALIVE_S = 1800
"""How long a model may send nothing but keep-alive events."""


class Answer(msgspec.Struct, eq=False):
    """Collects a model's answer, over several streams if it has to be continued.

    A held answer is not shown to readers while it streams, except for what `shown` lets through.
    The answer to a side call is outside of the transcript, and may be awaited in another loop.
    """

    run: Run
    client: ModelClient
    """The model of the newest stream, as its provider calls it."""
    watchdog: Watchdog
    """The one of the loop in which the answer is awaited."""
    is_held: bool = False
    shown: ShownAnswer | None = None
    is_aside: bool = False
    usage: TokenUsage | None = None
    """The usage of the newest stream, as far as it was reported."""
    asked: ModelRoute | None = None
    """The model of the newest stream."""
    spent: TokenUsage | None = None
    """The usage of all streams that are accounted for, with its cost."""
    has_begun: bool = False
    """Whether the newest stream has produced anything."""
    first_output_ms: int | None = None
    """When its first stream produced its first event, by the monotonic clock."""
    on_begun: Callable[[], None] | None = None
    """Called when it produces its first event."""
    _blocks: tuple[ContentBlock, ...] = ()
    _text: list[str] = []
    _thinking: list[str] | None = None
    _calls: dict[str, tuple[str, list[str]]] = {}
    _refused: Mapping[str, str] = EMPTY
    """Call ids that no further call may use, and why."""
    _renamed: Mapping[str, str] = EMPTY
    """New ids of calls whose own id an earlier call of the thread has used."""
    _signatures: Mapping[str, str] = EMPTY
    _stop: StopReason | None = None
    _vendor: VendorAnswer | None = None
    _before: int = 0
    _alive_since: float | None = None

    async def stream(self, client: ModelClient, request: InferenceRequest, idle_ms: int) -> None:
        """Add the output of one more stream, until the stream ends.

        Raises:
            ModelError: The stream broke off; its output so far is kept.
        """
        self.client = client
        self._stop = self.usage = self._vendor = None
        self.has_begun = False
        self._before = self._size() if self._blocks or self._text else 0
        feed, text, is_held = self.run.feed, self._text, self.is_held
        try:
            with IdleTimer(self.watchdog, idle_ms) as timer:
                events = client.stream(request)
                if not (type(events) is AsyncGeneratorType or hasattr(events, "aclose")):
                    self._refuse_stream(events)
                try:
                    async for event in events:
                        if type(event) is Alive:
                            timer.is_fresh = timer.is_fresh or self._is_patient()
                            continue
                        timer.is_fresh = True
                        self._alive_since = None
                        if not self.has_begun:
                            self.has_begun = True
                            clock = self.run.services.clock
                            self.first_output_ms = self.first_output_ms or clock.monotonic_ms()
                            if self.on_begun is not None:
                                self.on_begun()
                        if type(event) is TextDelta:
                            if self._thinking:
                                self._close_block()
                            text.append(event.delta)
                            if is_held or feed.readers:
                                show = self._let_through if is_held else self.run.emit
                                show(event)
                        elif type(event) is Stop:
                            self._stop = event.reason
                        else:
                            self._take(event)
                        if feed.is_full:
                            timer.pause()
                            await feed.drain()
                            timer.resume()
                except BaseException:
                    await events.aclose()
                    raise
                if type(events) is not AsyncGeneratorType:
                    # A generator that was read to its end is closed.
                    await events.aclose()
        except BaseException as error:
            if isinstance(error, ModelError) or is_interruption(error):
                raise
            raise self._explain(error) from error

    @property
    def has_stopped(self) -> bool:
        """Whether the model has reported why it stopped."""
        return self._stop is not None

    @property
    def chars_unreported(self) -> int:
        """Characters of the newest stream whose usage was not reported."""
        return self._size() - self._before

    def snapshot(self) -> InterruptSnapshot:
        """Return what a broken stream has delivered; a call is complete when its arguments are."""
        completed: list[ToolCall] = []
        in_flight: InFlightTool | None = None
        for call_id, (name, parts) in self._calls.items():
            call = self._call(call_id) if any(parts) else None
            if call is not None and isinstance(call.arguments, dict):
                completed.append(call)
            else:
                in_flight = InFlightTool(id=call_id, name=name, partial_args="".join(parts))
        return InterruptSnapshot(
            text=text_of(self._content()) or None,
            completed_tool_calls=tuple(completed),
            in_flight_tool=in_flight,
        )

    def reopen(self) -> None:
        """Continue in the middle of the text: the next stream continues the last block."""
        self.give_up_calls("cut off; the model is asked again")
        self._stop = None
        self._close_block()
        if self._blocks and isinstance(last := self._blocks[-1], Text):
            self._blocks = self._blocks[:-1]
            self._text.append(last.text)

    def start_over(self, reason: str) -> None:
        """Discard everything; readers that saw some of it get a reset event."""
        self.give_up_calls(reason)
        self._stop = None
        if self._content():
            self._emit(StreamReset(reason=reason))
        if self.shown is not None:
            self.shown.start_over(reason)
        self._blocks, self._thinking = (), None
        self._text.clear()

    def take_up(self, checkpoint: StreamCheckpoint) -> None:
        """Begin with what another process has received, and show it to the readers."""
        for block in checkpoint.content:
            for part in (*block_events((block,)), block):
                self._let_through(part)
            self._blocks += (block,)
        for call in checkpoint.tool_calls:
            text = msgspec.json.encode(call.arguments).decode()
            self._calls[call.id] = (call.name, [text])
            if call.signature is not None:
                self._signatures = _add_entry(self._signatures, call.id, call.signature)
        for event in self.list_streamed():
            self._emit(event)

    def end_with_calls(self) -> StreamResult:
        """End a broken answer with its complete calls; the others are given up."""
        self._stop = StopReason.TOOL_USE
        for call_id, (name, parts) in list(self._calls.items()):
            # A call without any arguments received may have been cut off before them.
            if not any(parts) or self._call(call_id) is None:
                self._drop(call_id, f"the arguments of '{name}' were cut off")
        self._refuse_call("", "the connection broke, and further calls, if any, did not arrive")
        return self.result()

    def list_streamed(self) -> list[AgentEvent]:
        """Return what was streamed so far, one event per block."""
        events = block_events(self._content())
        for call_id, (name, parts) in self._calls.items():
            events.append(ToolCallStart(id=call_id, name=name))
            events.append(ToolCallDelta(id=call_id, args_delta="".join(parts)))
        return events

    def checkpoint(self) -> tuple[tuple[ContentBlock, ...], tuple[ToolCall, ...], str | None]:
        """Return the content, the complete calls, and the tool of an incomplete call."""
        found = self.snapshot()
        open_tool = found.in_flight_tool.name if found.in_flight_tool is not None else None
        return self._content(), found.completed_tool_calls, open_tool

    def _explain(self, error: BaseException) -> ModelError:
        """Return the model error that a failure of a stream means."""
        if isinstance(error, TimeoutError):
            return ModelTimeout("the model sent nothing for too long")
        if isinstance(error, OSError):
            return TransportFailed(describe_error(error))
        shown = make_loggable(error)
        logger.error("Provider '%s' raised.", self.client.name, exc_info=shown)
        return ProviderBroken(describe_error(error))

    def _refuse_stream(self, opened: object) -> NoReturn:
        if isinstance(opened, Coroutine):
            # It is never awaited; Python would warn of that whenever it is collected.
            opened.close()
        name, kind = self.client.name, type(opened).__name__
        message = f"stream() of provider '{name}' gave a {kind}, not an async generator"
        raise ProviderBroken(message)

    def _emit(self, event: AgentEvent) -> None:
        if not self.is_held and self.run.feed.readers:
            self.run.emit(event)

    def _let_through(self, part: AgentEvent | ContentBlock) -> None:
        """Show a delta, or the end of a thought, as far as its screens allow.

        What follows the first text is not shown: it is screened together with that text.
        """
        if self.shown is None or any(type(it) is Text for it in self._blocks):
            return
        match part:
            case TextDelta() | ReasoningDelta():
                self.shown.feed(part)
            case Thinking():
                self.shown.close(part)

    def _is_patient(self) -> bool:
        """Whether keep-alive events still extend the wait: not forever without other events."""
        now = self.watchdog.loop.time()
        if self._alive_since is None:
            self._alive_since = now
        return now - self._alive_since < _ALIVE_S

    def _take(self, event: ModelEvent) -> None:
        match event:
            case ToolCallStart():
                self._open_call(event)
            case ToolCallDelta():
                if self._renamed and event.id in self._renamed:
                    self._take_renamed(event)
                elif event.id in self._calls and event.id not in self._refused:
                    self._calls[event.id][1].append(event.args_delta)
                    if self.run.feed.readers and not self.is_held:
                        self.run.emit(event)
            case UsageReport(usage=usage):
                self.usage = usage if self.usage is None else self.usage.plus(usage)
            case ReasoningDelta():
                if self._text:
                    self._close_block()
                if self._thinking is None:
                    self._thinking = []
                self._thinking.append(event.delta)
                self._emit(event)
                self._let_through(event)
            case BlockStop():
                self._close_block()
            case ThinkingSignature():
                self._sign(event)
            case CallSignature(id=call_id, signature=signature):
                place = self._renamed.get(call_id, call_id)
                self._signatures = _add_entry(self._signatures, place, signature)
            case VendorAnswer():
                self._vendor = event
            case _:
                self._refuse(event)

    def _refuse(self, event: object) -> NoReturn:
        name, kind = self.client.name, type(event).__name__
        message = f"provider '{name}' yielded a {kind}; yield TextDelta, ToolCallStart, …, Stop"
        raise ProviderBroken(message)

    def _open_call(self, event: ToolCallStart) -> None:
        if event.id in self._calls or event.id in self._renamed:
            # Only the first call of an id counts: two results for one id would be invalid.
            self._refuse_call(event.id, f"call id '{event.id}' was used twice")
            return
        if not (event.id and event.name):
            self._refuse_call(event.id, "a call has no id or no name")
            return
        run = self.run
        if event.id in run.messages.call_ids:
            # Decisions and results of the earlier call must not apply to this one. The new id is
            # deterministic: a process that continues the run asks the model again.
            new = derive_id(run.identity.run_id, str(run.step.number), event.id)
            self._renamed = _add_entry(self._renamed, event.id, new)
            event = msgspec.structs.replace(event, id=new)
        self._calls[event.id] = (event.name, [])
        if run.feed.readers and not self.is_held:
            run.emit(event)

    def _take_renamed(self, event: ToolCallDelta) -> None:
        call_id = self._renamed[event.id]
        if event.id not in self._refused and call_id in self._calls:
            self._calls[call_id][1].append(event.args_delta)
            self._emit(msgspec.structs.replace(event, id=call_id))

    def _sign(self, event: ThinkingSignature) -> None:
        if self._text:
            self._close_block()
        self._close_block(event)
        if event.signature is not None:
            self._emit(ReasoningEncryptedValue(encrypted_value=event.signature))

    def give_up_calls(self, reason: str) -> None:
        """Discard the calls of the previous stream; readers that saw them begin see them end."""
        for call_id, (name, _) in self._calls.items():
            self._emit(ToolCallCancel(id=call_id, name=name, reason=reason))
        self._calls.clear()
        self._refused = self._renamed = self._signatures = EMPTY

    def _size(self) -> int:
        closed = sum(len(block.text) for block in self._blocks if isinstance(block, Text))
        return closed + sum(map(len, self._text)) + sum(map(len, self._thinking or ()))

    def _close_block(self, signed: ThinkingSignature | None = None) -> None:
        content = self._content(signed)
        for block in content[len(self._blocks) :]:
            self._let_through(block)
        self._blocks, self._thinking = content, None
        self._text.clear()

    def _content(self, signed: ThinkingSignature | None = None) -> tuple[ContentBlock, ...]:
        blocks = self._blocks
        thought = "".join(self._thinking) if self._thinking else ""
        if thought or (signed is not None and signed.signature is not None):
            signature, origin = (signed.signature, signed.origin) if signed else (None, None)
            block = Thinking(
                thinking=replace_surrogates(thought), signature=signature, origin=origin
            )
            return (*blocks, block)
        text = "".join(self._text) if self._text else ""
        return (*blocks, Text(text=replace_surrogates(text))) if text else blocks

    def result(self) -> StreamResult:
        """Return the whole answer; calls that cannot be executed are dropped, with the reason."""
        calls: list[ToolCall] = []
        is_incomplete = False
        if self._calls:
            for call_id, (name, _) in list(self._calls.items()):
                call = self._call(call_id)
                if call is not None:
                    calls.append(call)
                else:
                    is_incomplete = True
                    self._drop(call_id, f"the arguments of '{name}' are not valid JSON")
        return StreamResult(
            content=self._content(),
            tool_calls=tuple(calls),
            usage=self.spent,
            stop_reason=self._stop,
            has_incomplete_tool_calls=is_incomplete,
            dropped_calls=tuple(self._refused.values()) if self._refused else (),
            vendor=self._vendor,
        )

    def peek_result(self) -> StreamResult:
        """Return the answer so far, for instruments; it drops no calls."""
        calls = (self._call(call_id) for call_id in self._calls)
        return StreamResult(
            content=self._content(),
            tool_calls=tuple(call for call in calls if call is not None),
            stop_reason=self._stop,
            vendor=self._vendor,
        )

    def _call(self, call_id: str) -> ToolCall | None:
        name, parts = self._calls[call_id]
        text = "".join(parts)
        try:
            arguments = msgspec.json.decode(replace_surrogates(text)) if text else {}
        except (msgspec.DecodeError, RecursionError):
            return None
        signature = self._signatures.get(call_id)
        return ToolCall(id=call_id, name=name, arguments=arguments, signature=signature)

    def _refuse_call(self, call_id: str, problem: str) -> None:
        self._refused = _add_entry(self._refused, call_id, problem)

    def _drop(self, call_id: str, problem: str) -> None:
        name, _ = self._calls.pop(call_id)
        self._refuse_call(call_id, problem)
        self._emit(ToolCallCancel(id=call_id, name=name, reason=problem))


def _add_entry(known: Mapping[str, str], key: str, value: str) -> Mapping[str, str]:
    """Return the mapping with an entry more; the first entry makes a dict of its own."""
    entries = known if isinstance(known, dict) else {}
    entries[key] = value
    return entries
