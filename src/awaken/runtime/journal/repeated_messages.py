"""Messages that a thread has already: the same message sent twice is the same message.

A client sends its whole history, and two of its requests may overlap. Whichever is admitted later
finds what the other one brought, and brings only the rest.
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
    """The thread has every message of the request; nothing was changed."""

    code = "already_said"
    template = "Thread '{thread_id}' has message '{message_id}' already; run '{run_id}' answers it."
    thread_id: str
    message_id: str
    run_id: str
    """The run that was given the message; blank for an imported history."""


def without_repeats(
    request: RunRequest, messages: Sequence[Message], screen: Screen
) -> tuple[RunRequest, Message | None]:
    """The request without what the thread has, and such a message if nothing else is left.

    A message with a known id that says something else stays, and is refused by the store.

    Raises:
        InvalidInput: A message has the id of one that somebody else said.
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
            # The store need not look for ids that only runs give.
            problem = f"'{it.id}' is another message of the thread"
            raise InvalidInput(what="message id", problem=problem)
    news = tuple(it for it in request.messages if not is_repeat(it, known, screen))
    if len(news) == len(request.messages):
        return request, None
    is_all = all(it.id is None and it.visibility is Visibility.INTERNAL for it in news)
    said = [known[it.id] for it in request.messages if it.id is not None and it.id in known]
    left = () if is_all else news
    return msgspec.structs.replace(request, messages=left), said[-1] if is_all else None


def is_repeat(message: Message, known: Mapping[str, Message], screen: Screen) -> bool:
    """Whether a message is one that the thread has, as it came or as it was screened."""
    said = known.get(message.id or "")
    if said is None:
        return False
    return is_same_message(said, message) or is_same_message(said, screen(message))


def check_chosen_ids(chosen: Sequence[Message], known: Iterable[Message]) -> None:
    """Refuse new messages under the id of an answer or a result, which no store looks for.

    Other ids that are used already are found by the store. Only ids in the runtime's own form are
    looked for here: whoever leaves them to the runtime, or chooses others, pays nothing.

    Raises:
        InvalidInput: A message has the id of one that a run has written.
    """
    ids = {message.id for message in chosen if message.id and is_generated(message.id)}
    if ids and not ids.isdisjoint(it.id for it in known if it.role in _WRITTEN_BY_RUNS):
        problem = "an answer of the thread has it; leave it out, or choose another one"
        raise InvalidInput(what="message id", problem=problem)


def already_said(thread_id: str, message: Message) -> AlreadySaid:
    """The refusal of a request that says only what was said."""
    run_id = message.metadata.run_id if message.metadata is not None else None
    return AlreadySaid(thread_id=thread_id, message_id=message.id or "", run_id=run_id or "")
