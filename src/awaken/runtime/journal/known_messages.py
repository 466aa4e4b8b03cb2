"""Which incoming messages a thread has received before: input may be delivered more than once.

If a process dies, its delivery is repeated, even when its messages are already in the transcript
or held for the run. Repeated messages are recognised by their ids, which stay the same.
"""

from collections.abc import Iterable

import msgspec

from awaken.contracts.messages.message import Message


def wakes_model(messages: Iterable[Message]) -> bool:
    """Whether the model has to answer any of the messages; progress of tasks needs no answer."""
    for message in messages:  # noqa: SIM110 - asked in every run, where a generator costs calls
        if message.sender is None or not message.sender.is_progress:
            return True
    return False


def is_same_message(known: Message, message: Message) -> bool:
    """Whether two messages are the same message, delivered twice.

    An id of a task's or an agent's message is unique. A client may reuse an id for another message:
    then the contents differ.
    """
    if message.id is None or known.id != message.id or known.role is not message.role:
        return False
    return message.sender is not None or known.content == message.content


def filter_known(messages: Iterable[Message], known: Iterable[Message]) -> tuple[Message, ...]:
    """Return those messages that are not among the known ones."""
    wanted = tuple(messages)
    ids = {message.id for message in wanted if message.id}
    if not ids:
        return wanted
    there = [message for message in known if message.id in ids]
    if not there:
        return wanted
    return tuple(it for it in wanted if not any(is_same_message(other, it) for other in there))


def with_free_ids(messages: Iterable[Message], known: Iterable[Message]) -> tuple[Message, ...]:
    """Return the messages, without an id where another message has the same id.

    The store would refuse a commit with an id that is already in use.
    """
    wanted = tuple(messages)
    ids = {message.id for message in wanted if message.id}
    used = {message.id for message in known if message.id in ids} if ids else set()
    freed: list[Message] = []
    for message in wanted:
        is_used = message.id is not None and message.id in used
        freed.append(msgspec.structs.replace(message, id=None) if is_used else message)
        if message.id is not None:
            used.add(message.id)
    return tuple(freed)
