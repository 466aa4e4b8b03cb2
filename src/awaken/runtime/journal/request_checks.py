"""The first checks of a request: its ids, its messages, its context and its history."""

import re
from collections.abc import Sequence

import msgspec

from awaken.contracts.errors import InvalidContext, InvalidInput, LimitExceeded
from awaken.contracts.identity import RESERVED_IDS
from awaken.contracts.messages.message import Message, Role
from awaken.contracts.runs.records import RunRequest
from awaken.contracts.tenancy import namespace_in
from awaken.runtime.limits import Limits

ID_LENGTH_MAX = 256
HISTORY_MAX = 5_000
"""How many messages a thread may begin with."""
_PLAIN_ID = re.compile(rf"[\w.:-]{{1,{ID_LENGTH_MAX}}}", re.ASCII)
"""Most ids: they need no further check."""
_SENDERS = (Role.USER, Role.SYSTEM)


def check_id(name: str, value: str) -> None:
    """Refuse ids that are unsafe in a store, a log or a URL.

    Raises:
        InvalidInput: The id is blank, too long, has control characters, or cannot stand in a URL.
    """
    if _PLAIN_ID.fullmatch(value) and value not in RESERVED_IDS:
        return
    if not value.strip():
        raise InvalidInput(what=name, problem="it is blank")
    if len(value) > ID_LENGTH_MAX and len(value) > ID_LENGTH_MAX + len(namespace_in(value)):
        raise InvalidInput(what=name, problem=f"it is longer than {ID_LENGTH_MAX} characters")
    if not value.isprintable():
        raise InvalidInput(what=name, problem="it has characters that cannot be printed")
    given = value.removeprefix(namespace_in(value))
    if RESERVED_IDS.get(given) in ("", name):
        problem = f"'{given}' has a meaning of its own in URLs; choose another id"
        raise InvalidInput(what=name, problem=problem)


def check_extras(request: RunRequest, limits: Limits) -> None:
    """Refuse a context or a history that cannot be kept; few requests have one.

    Raises:
        InvalidContext: The context is no JSON object.
        InvalidInput: A message of the history is malformed, or a tool call in it does not have
            exactly one result.
        LimitExceeded: One of them is too large.
    """
    if request.context is not None:
        _check_context(request, limits.context_bytes)
    if request.history:
        _check_history(request.history, limits.message_bytes)


def _check_context(request: RunRequest, limit: int) -> None:
    context = request.context
    if type(context) is not dict or any(type(name) is not str for name in context):
        name = request.agent_id or "default"
        raise InvalidContext(agent_id=name, problem="it is no JSON object - at `$`")
    try:
        size = len(msgspec.json.encode(context))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(what="context", problem=str(error)) from error
    if size > limit:
        raise LimitExceeded(what="The context", size=size, limit=limit)


def _check_history(history: Sequence[Message], limit: int) -> None:
    if len(history) > HISTORY_MAX:
        raise LimitExceeded(what="The history", size=len(history), limit=HISTORY_MAX)
    named, open_calls = [it.id for it in history if it.id is not None], list[str]()
    if len({*named}) < len(named):
        raise _make_history_error("two of them have the same id")
    for message in history:
        # Whose it is does not matter here.
        check_message(msgspec.structs.replace(message, role=Role.USER), limit)
        if message.role is Role.TOOL:
            if message.tool_call_id not in open_calls:
                raise _make_history_error(f"a result for call '{message.tool_call_id}', not open")
            open_calls.remove(message.tool_call_id)
        elif open_calls:
            raise _make_history_error(f"a message follows calls without a result: {open_calls}")
        elif message.tool_calls:
            open_calls = [call.id for call in message.tool_calls]
            is_named = all(open_calls) and len({*open_calls}) == len(open_calls)
            if message.role is not Role.ASSISTANT or not is_named:
                raise _make_history_error("calls need an assistant message, and ids of their own")
    if open_calls:
        raise _make_history_error(f"calls without a result: {open_calls}")


def _make_history_error(problem: str) -> InvalidInput:
    return InvalidInput(what="messages", problem=problem)


def make_history_refusal(thread_id: str) -> InvalidInput:
    """Make the error for a history that is not the beginning of its thread."""
    return _make_history_error(f"thread '{thread_id}' has messages; they can only begin a new one")


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
