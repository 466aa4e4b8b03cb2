"""The messages of a request after the transforms of plugins, and which of them are sent.

A transform receives every message that no summary replaces. Its output is counted, shortened and
cut in the same way as a history without transforms.
"""

from collections.abc import Sequence

from awaken.contracts.messages.message import Message, Role
from awaken.contracts.state.context_state import Cut

from .effective import is_question, latest_question, locate_message
from .estimate import estimate_message_tokens, estimate_tokens
from .truncation import preview_message, split_point, truncate_output

Sizes = dict[int, tuple[Message, Message, int]]
"""By identity: a message, its sent form, and its tokens. Most messages recur unchanged."""


class RewrittenMessages:
    """The output of the transforms, from which old messages can be left out.

    Leading system messages always stay, and so do those that `first` and `last` name, even if a
    transform has moved the first ones. So does `asked`, a person's latest message: a transform may
    add user messages behind it that ask nothing.
    """

    __slots__ = (
        "_asked", "_end", "_head", "_messages", "_named", "_start", "_stays", "_tokens", "sizes",
        "total",
    )  # fmt: skip

    def __init__(
        self,
        given: Sequence[Message],
        *,
        first: Sequence[Message] = (),
        last: Sequence[Message] = (),
        asked: Message | None = None,
        sizes: Sizes,
    ) -> None:
        self.sizes: Sizes = {}
        """Sizes of these messages; the `sizes` argument is of the previous request."""
        self._messages: list[Message] = []
        self._tokens: list[int] = []
        for message in given:
            sized = sizes.get(id(message))
            if sized is None:
                shown = truncate_output(message)
                sized = (message, shown, estimate_message_tokens(shown))
            self.sizes[id(message)] = sized
            self._messages.append(sized[1])
            self._tokens.append(sized[2])
        names = {message.id for message in first if message.id}
        named = [it.id in names if it.id else it in first for it in given]
        self._head = _count_leading(given, named)
        self._named = [at for at, is_named in enumerate(named) if is_named and at >= self._head]
        self._asked = _find_place(given, asked)
        self._end = max(self._head, len(given) - _count_trailing(given, last))
        self._begin_at(self._head)

    def get_messages(self) -> Sequence[Message]:
        """Return the messages that are sent."""
        messages, head, start = self._messages, self._head, self._start
        if start == head:
            return messages
        return [*messages[:head], *self._stays, *messages[start:]]

    def begin_with(self, cut: Cut, transcript: Sequence[Message]) -> None:
        """Leave out what precedes a cut; a cut whose message is missing has no effect."""
        place = locate_message(transcript, cut.message_id, cut.place)
        if place is None:
            return
        ids = {message.id: at for at, message in enumerate(transcript) if message.id}
        for at in range(self._head, self._end):
            message = self._messages[at]
            if message.role is not Role.TOOL and ids.get(message.id or "", -1) >= place:
                self._begin_at(at)
                return

    def cut(self, budget: int, min_recent: int) -> bool:
        """Leave out old messages until the others fit; False when none may be left out."""
        start, end, tokens = self._start, self._end, self._tokens
        left = budget - (self.total - sum(tokens[start:end]))
        split = split_point(self._messages[start:end], tokens[start:end], left, min_recent)
        if split == 0:
            return False
        self._begin_at(start + split)
        return True

    def keep_cut(self, transcript: Sequence[Message], min_recent: int) -> Cut | None:
        """Return the cut to keep: the sent history then begins with a message of the transcript.

        It may leave out a few more messages. None when there is no such message.
        """
        ids = {message.id: at for at, message in enumerate(transcript) if message.id}
        for at in range(self._start, self._end - min_recent + 1):
            message = self._messages[at]
            if message.role is not Role.TOOL and message.id in ids:
                self._begin_at(at)
                return Cut(message_id=message.id, place=ids[message.id])
        return None

    def _begin_at(self, start: int) -> None:
        messages, head = self._messages, self._head
        self._start = start
        named = [messages[at] for at in self._named if at < start]
        asked = latest_question(messages, head, start)
        if self._asked is not None and head <= self._asked < start:
            asked = (preview_message(messages[self._asked]),)
        self._stays = [*named, *(it for it in asked if it not in named)]
        own = sum(self._tokens[:head]) + sum(self._tokens[start:])
        self.total = own + estimate_tokens(self._stays)


def _count_leading(messages: Sequence[Message], named: Sequence[bool]) -> int:
    for count, (message, is_named) in enumerate(zip(messages, named, strict=True)):
        if message.role is not Role.SYSTEM and not is_named:
            return count
    return len(messages)


def _count_trailing(messages: Sequence[Message], named: Sequence[Message]) -> int:
    for count, message in enumerate(reversed(messages)):
        if message not in named:
            return count
    return len(messages)


def find_question(transcript: Sequence[Message]) -> Message | None:
    """Return a person's latest message."""
    return next(filter(is_question, reversed(transcript)), None)


def _find_place(messages: Sequence[Message], wanted: Message | None) -> int | None:
    """Return the last place of a message, unchanged or rewritten under its id."""
    if wanted is None:
        return None
    for at in range(len(messages) - 1, -1, -1):
        message = messages[at]
        if message is wanted or (wanted.id and message.id == wanted.id):
            return at
    return None
