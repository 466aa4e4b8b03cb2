"""Messages that a thread has already: the same message sent twice is the same message.

A client sends its whole history, and two of its requests may overlap. The request that is admitted
later adds only the messages that the other one did not add.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from awaken.contracts.errors import InvalidInput, UsageError
from awaken.contracts.identity import is_generated
from awaken.contracts.messages.message import Message, Role, Visibility
from awaken.contracts.runs.records import RunRequest

from .known_messages import is_same_message

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

    A message with a known id and other content stays, and the store refuses it.

    Raises:
        InvalidInput: A message has the id of a message with another role.
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
