"""What is left of a transcript after its marks and its cut: a pure fold, the same everywhere."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from awaken.contracts.messages.message import Message, Role, Visibility
from awaken.contracts.state.context_state import CompactionMark, ContextState

from .compaction import summary_message
from .truncation import preview_message


@dataclass(frozen=True, slots=True, kw_only=True)
class Effective:
    """A transcript as it is sent: a few messages for its beginning, then itself from a place on."""

    beginning: tuple[Message, ...]
    """The messages of the system before all others, and the summary."""
    prefix: tuple[Message, ...]
    """The beginning, and the question that what follows answers."""
    first: int
    unsummarised: int
    """The place from which on no summary stands for a message."""
    mark: CompactionMark | None


def effective(messages: Sequence[Message], state: ContextState) -> Effective:
    """Apply the marks and the cut; those whose message is not there have no effect.

    Messages of the system that come before all others are always sent.
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
    """Where a message is: mostly where it was."""
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
    """The newest mark whose message is there, and the place after that message."""
    for mark in reversed(state.marks):
        place = locate_message(messages, mark.message_id, mark.place)
        if place is not None:
            return mark, place + 1
    return None, 0


def latest_question(messages: Sequence[Message], head: int, first: int) -> tuple[Message, ...]:
    """The user's latest words before a history that begins with an answer.

    Without them the model would not know what it is doing, and some vendors want to hear a user
    first.
    """
    roles = (message.role for message in islice(messages, first, None))
    if next((role for role in roles if role is not Role.SYSTEM), None) is Role.USER:
        return ()
    for place in range(first - 1, head - 1, -1):
        if is_question(message := messages[place]):
            return (preview_message(message),)
    return ()


def is_question(message: Message) -> bool:
    """Whether it is something that a user said."""
    return message.role is Role.USER and message.visibility is Visibility.ALL
