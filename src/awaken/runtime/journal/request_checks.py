"""The first checks of a request: its ids and its messages."""

import re

import msgspec

from awaken.contracts.errors import InvalidInput, LimitExceeded
from awaken.contracts.messages.message import Message, Role
from awaken.contracts.tenancy import namespace_in

ID_LENGTH_MAX = 256
_PLAIN_ID = re.compile(rf"[\w.:-]{{1,{ID_LENGTH_MAX}}}", re.ASCII)
"""Most ids: they need no further check."""
_SENDERS = (Role.USER, Role.SYSTEM)


def check_id(name: str, value: str) -> None:
    """Refuse ids that are unsafe in a store, a log or a URL.

    Raises:
        InvalidInput: The id is blank, too long or has control characters.
    """
    if _PLAIN_ID.fullmatch(value):
        return
    if not value.strip():
        raise InvalidInput(what=name, problem="it is blank")
    if len(value) > ID_LENGTH_MAX and len(value) > ID_LENGTH_MAX + len(namespace_in(value)):
        raise InvalidInput(what=name, problem=f"it is longer than {ID_LENGTH_MAX} characters")
    if not value.isprintable():
        raise InvalidInput(what=name, problem="it has characters that cannot be printed")


def check_message(message: Message, limit: int) -> None:
    """Refuse a message that may not be sent to a run.

    Raises:
        InvalidInput: It is not from a user or the system, its id is malformed, or it has no JSON
            form.
        LimitExceeded: It is larger than `limit` bytes.
    """
    if message.role not in _SENDERS:
        raise InvalidInput(what="A message of the request", problem=f"role '{message.role}'")
    if message.id is not None:
        check_id("message id", message.id)
    try:
        size = len(msgspec.json.encode(message))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(what="A message of the request", problem=str(error)) from error
    if size > limit:
        raise LimitExceeded(what="A message of the request", size=size, limit=limit)
