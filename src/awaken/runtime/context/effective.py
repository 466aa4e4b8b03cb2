"""A transcript after its marks and its cut: a pure fold, the same in every process."""

from collections.abc import Sequence
from itertools import islice

import msgspec

from awaken.contracts.messages.message import Message, Role, Visibility
from awaken.contracts.state.context_state import CompactionMark, ContextState

from .compaction import summary_message
from .truncation import preview_message


class Effective(msgspec.Struct, frozen=True, kw_only=True):
    """A transcript as it is sent: a short prefix, then the transcript itself from a place on."""

    beginning: tuple[Message, ...]
    """The leading system messages, and the summary."""
    prefix: tuple[Message, ...]
    """The beginning, and the question that the following messages answer."""
    first: int
    unsummarised: int
    """The place of the first message that no summary replaces."""
    mark: CompactionMark | None


def effective(messages: Sequence[Message], state: ContextState) -> Effective:
    """Apply the marks and the cut; those whose message is missing have no effect.

    Leading system messages are always sent.
    """
    head = _count_system_messages(messages)
    mark, unsummarised = _latest_mark(messages, state)
    unsummarised = max(head, unsummarised)
    cut = state.cut
    kept = locate_message(messages, cut.message_id, cut.place) if cut is not None else None
    first = max(unsummarised, kept or 0)
    summary = () if mark is None else (summary_message(mark),)
    beginning = (*islice(messages, head), *summary)
    return Effective(
        beginning=beginning,
        prefix=(*beginning, *latest_question(messages, head, first)),
        first=first,
        unsummarised=unsummarised,
        mark=mark,
    )


def locate_message(messages: Sequence[Message], message_id: str, place: int) -> int | None:
    """Return the place of a message; the given place is tried first."""
    if place < len(messages) and messages[place].id == message_id:
        return place
    return next((at for at, message in enumerate(messages) if message.id == message_id), None)


def _count_system_messages(messages: Sequence[Message]) -> int:
    for place, message in enumerate(messages):
        if message.role is not Role.SYSTEM:
            return place
    return len(messages)


def _latest_mark(
    messages: Sequence[Message], state: ContextState
) -> tuple[CompactionMark | None, int]:
    """Return the newest mark whose message exists, and the place after that message."""
    for mark in reversed(state.marks):
        place = locate_message(messages, mark.message_id, mark.place)
        if place is not None:
            return mark, place + 1
    return None, 0


def latest_question(messages: Sequence[Message], head: int, first: int) -> tuple[Message, ...]:
    """Return the user's latest message before a history that begins with an answer.

    Without it the model would not know its task, and some vendors require a user message first.
    """
    roles = (message.role for message in islice(messages, first, None))
    if next((role for role in roles if role is not Role.SYSTEM), None) is Role.USER:
        return ()
    for place in range(first - 1, head - 1, -1):
        if is_question(message := messages[place]):
            return (preview_message(message),)
    return ()


def is_question(message: Message) -> bool:
    """Whether the message was written by a user."""
    return message.role is Role.USER and message.visibility is Visibility.ALL
