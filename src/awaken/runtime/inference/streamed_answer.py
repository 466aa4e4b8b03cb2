"""Showing an answer that is screened while it streams.

What was shown is at any time a prefix of the screened answer. A checkpoint or a replay of an
unfinished answer contains only what was shown, and nothing that the model produced beyond that.
"""

import logging
from collections.abc import Callable, Sequence

from awaken.authoring.functions import is_interruption
from awaken.contracts.events import AgentEvent, ReasoningEncryptedValue, StreamReset
from awaken.contracts.messages.content import ContentBlock, Text, Thinking, replace_surrogates
from awaken.contracts.messages.deltas import ReasoningDelta, TextDelta
from awaken.contracts.messages.message import ToolCall
from awaken.contracts.plugins.screens import TextStream
from awaken.runtime.journal.streams import block_events
from awaken.runtime.run import Run

logger = logging.getLogger(__name__)

BeginText = Callable[[], Sequence[TextStream] | None]
_OTHERWISE = "the answer was screened, and is another one than it seemed to be"


class ShownAnswer:
    """The shown part of an answer: its thoughts up to the first text, and that text.

    The rest, and all calls, are shown when the answer is complete; so is text that a screen
    failed on.
    """

    __slots__ = ("_begin", "_is_stuck", "_parts", "_run", "_streams", "_thoughts")

    def __init__(self, run: Run, begin: BeginText) -> None:
        self._run = run
        self._begin = begin
        self._thoughts: list[Thinking] = []
        """The complete thoughts."""
        self._parts: list[TextDelta | ReasoningDelta] = []
        """The shown part of the open block."""
        self._streams: Sequence[TextStream] | None = None
        """The screens of the open block."""
        self._is_stuck = False

    def feed(self, event: TextDelta | ReasoningDelta) -> None:
        """Process the next delta of the open block, and show what the screens let through."""
        # Split surrogate pairs are joined or replaced when the whole answer is there.
        self._is_stuck = self._is_stuck or replace_surrogates(event.delta) != event.delta
        piece = self._screen_piece(event.delta)
        if piece:
            shown = type(event)(delta=piece)
            self._parts.append(shown)
            self._run.emit(shown)

    def close(self, thought: Thinking) -> None:
        """Complete a thought: nothing that follows belongs to it."""
        piece = self._screen_piece("", is_last=True)
        if piece:
            self._run.emit(ReasoningDelta(delta=piece))
        if self._is_stuck:
            return
        shown = "".join((*(it.delta for it in self._parts), piece))
        is_same = shown == thought.thinking
        if is_same and thought.signature is not None:
            self._run.emit(ReasoningEncryptedValue(encrypted_value=thought.signature))
        self._thoughts.append(thought if is_same else Thinking(thinking=shown))
        self._parts, self._streams = [], None

    def _screen_piece(self, piece: str, *, is_last: bool = False) -> str:
        """Return what the screens let through; nothing more once one of them has failed."""
        if self._streams is None and not self._is_stuck:
            self._streams = self._begin()
            self._is_stuck = self._streams is None
        if self._is_stuck or self._streams is None:
            return ""
        try:
            for stream in self._streams:
                piece = stream.feed(piece)
                if is_last:
                    piece += stream.end()
        except BaseException as error:
            if is_interruption(error):
                raise
            logger.exception("A screen failed on an answer while it came; the rest is held.")
            self._is_stuck = True
            return ""
        return piece

    def start_over(self, reason: str) -> None:
        """Discard everything; readers that saw some of it get a reset event."""
        if self.list_streamed():
            self._run.emit(StreamReset(reason=reason))
        self._thoughts, self._parts, self._streams, self._is_stuck = [], [], None, False

    def list_streamed(self) -> list[AgentEvent]:
        """Return what was shown so far, one event per block."""
        return block_events(self._content())

    def checkpoint(self) -> tuple[tuple[ContentBlock, ...], tuple[ToolCall, ...], str | None]:
        """Return what was shown; calls are not shown until the answer is complete."""
        return self._content(), (), None

    def give_up_calls(self, reason: str) -> None:
        """Do nothing: no reader has seen a call begin."""

    def rest(self, content: tuple[ContentBlock, ...]) -> list[AgentEvent]:
        """Return what is left to show of the answer in its stored form.

        If that does not begin with what was shown, a reset event comes first.
        """
        seen, wanted = self.list_streamed(), block_events(content)
        if not seen:
            return wanted
        *before, last = seen
        at, upto = len(before), len(seen)
        if wanted[:upto] == seen:
            return wanted[upto:]
        is_begun = wanted[:at] == before and at < len(wanted)
        if is_begun and (left := _subtract_delta(last, wanted[at])) is not None:
            return [left, *wanted[upto:]]
        return [StreamReset(reason=_OTHERWISE), *wanted]

    def _content(self) -> tuple[ContentBlock, ...]:
        text = "".join(it.delta for it in self._parts)
        if not text:
            return tuple(self._thoughts)
        is_text = type(self._parts[0]) is TextDelta
        return (*self._thoughts, Text(text=text) if is_text else Thinking(thinking=text))


def _subtract_delta(shown: AgentEvent, full: AgentEvent) -> AgentEvent | None:
    """Return the rest of a delta after a shown prefix; None if it does not begin with it."""
    match shown, full:
        case TextDelta(delta=begun), TextDelta(delta=whole) if whole.startswith(begun):
            return TextDelta(delta=whole[len(begun) :])
        case ReasoningDelta(delta=begun), ReasoningDelta(delta=whole) if whole.startswith(begun):
            return ReasoningDelta(delta=whole[len(begun) :])
    return None
