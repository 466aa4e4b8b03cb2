"""Which incoming messages a thread has received before: input may be delivered more than once.

If a process dies, its delivery is repeated, even when its messages are already in the transcript
or held for the run. Repeated messages are recognised by their ids, which stay the same.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from awaken.contracts.errors import InvalidInput, UsageError
from awaken.contracts.identity import is_generated
from awaken.contracts.messages.message import Message, Role, Visibility
from awaken.contracts.runs.records import RunRequest


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


Screen = Callable[[Message], Message]
_WRITTEN_BY_RUNS = (Role.ASSISTANT, Role.TOOL)


class AlreadySaid(UsageError):
    """The thread already has every message of the request; nothing was changed."""

    code = "already_said"
    template = "Thread '{thread_id}' has message '{message_id}' already; run '{run_id}' answers it."
    thread_id: str
    message_id: str
    run_id: str
    """The run that received the message; blank for an imported history."""


def without_repeats(
    request: RunRequest, messages: Sequence[Message], screen: Screen
) -> tuple[RunRequest, Message | None]:
    """Return the request without known messages, and a known one if nothing else is left.

    A message with a known id and other content stays, and the store refuses it, unless a run has
    made the id: no store checks those.

    Raises:
        InvalidInput: A message has the id of a message with another role, or an id that a run made
            for a message with other content.
    """
    named = {message.id for message in request.messages}
    named.discard(None)
    if not named:
        return request, None
    known = {message.id or "": message for message in messages if message.id in named}
    if not known:
        return request, None
    for it in request.messages:
        if it.id in known and known[it.id].role is not it.role:
            # The store does not check ids that only runs assign.
            problem = f"'{it.id}' is another message of the thread"
            raise InvalidInput(what="message id", problem=problem)
    new = tuple(it for it in request.messages if not is_repeat(it, known, screen))
    for it in new:
        if it.id in known and is_generated(it.id or ""):
            problem = f"'{it.id}' is the id of a message with other content; leave it out"
            raise InvalidInput(what="message id", problem=problem)
    if len(new) == len(request.messages):
        return request, None
    is_all = all(it.id is None and it.visibility is Visibility.INTERNAL for it in new)
    repeats = [known[it.id] for it in request.messages if it.id is not None and it.id in known]
    left = () if is_all else new
    return msgspec.structs.replace(request, messages=left), repeats[-1] if is_all else None


def is_repeat(message: Message, known: Mapping[str, Message], screen: Screen) -> bool:
    """Whether the thread has the message, in its original or its screened form."""
    stored = known.get(message.id or "")
    if stored is None:
        return False
    return is_same_message(stored, message) or is_same_message(stored, screen(message))


def check_chosen_ids(chosen: Sequence[Message], known: Iterable[Message]) -> None:
    """Refuse new messages with the id of an answer or a result, which no store checks.

    The store finds other ids that are in use. Only ids in the runtime's own form are checked here,
    so a request without ids, or with ids of another form, costs nothing.

    Raises:
        InvalidInput: A message has the id of a message that a run has written.
    """
    ids = {message.id for message in chosen if message.id and is_generated(message.id)}
    if ids and not ids.isdisjoint(it.id for it in known if it.role in _WRITTEN_BY_RUNS):
        problem = "an answer of the thread has it; leave it out, or choose another one"
        raise InvalidInput(what="message id", problem=problem)


def make_already_said(thread_id: str, message: Message) -> AlreadySaid:
    """Return the error for a request whose messages the thread already has."""
    run_id = message.metadata.run_id if message.metadata is not None else None
    return AlreadySaid(thread_id=thread_id, message_id=message.id or "", run_id=run_id or "")
