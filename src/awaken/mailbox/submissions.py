"""How a request becomes a dispatch: checked, with ids and a hash. Nothing is written here."""

import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec

from awaken.contracts.clock import IdSource
from awaken.contracts.errors import IllegalTransition, InvalidInput
from awaken.contracts.identity import normalize_id
from awaken.contracts.messages.message import Message
from awaken.contracts.runs.records import RunRecord, RunRequest
from awaken.contracts.storage.dispatch import DispatchStatus, InputMode, RunDispatch
from awaken.contracts.tenancy import namespace_in, namespace_of
from awaken.runtime.journal.request_checks import check_id, check_message
from awaken.runtime.limits import Limits

MESSAGE_BYTES = Limits().message_bytes
PRIORITY_MAX = 255
TICKET_KEY = "ticket:"
"""Prefix of the dedupe keys with which earlier versions sent decisions; reserved."""
REPLAY_KEY = "replay:"
"""Prefix of the dedupe keys with which dead letters are replayed; reserved."""
OUTBOX_KEY = "outbox:"
"""Prefix of the dedupe keys with which messages of commits are sent; reserved."""

_IDS = ("thread_id", "agent_id", "run_id_hint", "continue_run_id", "dispatch_id_hint", "tenant_id")
_OPTIONAL_IDS = ("parent_run_id", "parent_thread_id", "session_id", "transport_request_id")


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """How a request is delivered."""

    mode: InputMode = InputMode.QUEUE
    priority: int = 128
    dedupe_key: str | None = None
    delay_ms: int = 0
    request_hash: str = ""
    """A hash of the original request, independent of the thread's state."""


def check_submission(request: RunRequest, delivery: Delivery) -> None:
    """Check that a request can be stored, found again and executed.

    Raises:
        InvalidInput: Something is malformed; the error names it.
        LimitExceeded: A message is too large.
    """
    for name in _IDS:
        if (value := getattr(request, name)) is not None:
            check_id(name, value)
    for name in _OPTIONAL_IDS:
        if normalize_id(value := getattr(request, name)):
            check_id(name, value)
    for message in request.messages:
        check_message(message, MESSAGE_BYTES)
    _check_delivery(request, delivery)


def assign_message_ids(messages: Sequence[Message], ids: IdSource) -> tuple[Message, ...]:
    """Give each message without an id the one with which it will appear in the thread."""
    return tuple(
        message if message.id else msgspec.structs.replace(message, id=ids.new_id())
        for message in messages
    )


def dispatch_for(
    request: RunRequest, delivery: Delivery, ids: IdSource, *, max_attempts: int
) -> RunDispatch:
    """Make the dispatch that delivers a checked request."""
    dispatch_id = ids.new_id()
    thread_id = request.thread_id or namespace_of(request.tenant_id) + ids.new_id()
    run_id = request.continue_run_id or request.run_id_hint
    run_id = run_id or namespace_in(thread_id) + ids.new_id()
    return RunDispatch(
        dispatch_id=dispatch_id,
        thread_id=thread_id,
        run_id=run_id,
        request=msgspec.structs.replace(
            request,
            thread_id=thread_id,
            dispatch_id=dispatch_id,
            messages=assign_message_ids(request.messages, ids),
        ),
        mode=delivery.mode,
        priority=delivery.priority,
        dedupe_key=delivery.dedupe_key,
        request_hash=delivery.request_hash,
        max_attempts=max_attempts,
    )


def hash_of(mode: InputMode, request: RunRequest) -> str:
    """Return a hash that is equal for equal submissions; a retry may have another trace.

    Raises:
        InvalidInput: The request has no JSON form.
    """
    return digest([mode, msgspec.structs.replace(request.with_given_ids(), trace=None)])


def repeat_request(dead: RunDispatch, ids: IdSource) -> RunDispatch:
    """Make the dispatch by which a new run repeats the request of a dead letter, once.

    Raises:
        IllegalTransition: The dispatch is not a dead letter.
    """
    if dead.status is not DispatchStatus.DEAD_LETTER:
        raise IllegalTransition(
            thing=f"Dispatch '{dead.dispatch_id}'", old=str(dead.status), new="queued"
        )
    dispatch_id, run_id = ids.new_id(), namespace_in(dead.thread_id) + ids.new_id()
    # The old messages may be in the thread already, so the new ones need new ids.
    messages = tuple(
        msgspec.structs.replace(message, id=ids.new_id()) for message in dead.request.messages
    )
    return RunDispatch(
        dispatch_id=dispatch_id,
        thread_id=dead.thread_id,
        run_id=run_id,
        request=msgspec.structs.replace(
            dead.request, dispatch_id=dispatch_id, run_id_hint=None, messages=messages
        ),
        mode=dead.mode,
        priority=dead.priority,
        dedupe_key=f"{REPLAY_KEY}{dead.dispatch_id}",
        request_hash=dead.request_hash,
        max_attempts=dead.max_attempts,
    )


def continuation(run: RunRecord) -> RunRequest:
    """Return a request that continues a run: gates must see the run's own mode and adapter."""
    return RunRequest(
        thread_id=run.thread_id,
        continue_run_id=run.run_id,
        run_mode=run.run_mode,
        adapter=run.adapter,
        session_id=run.session_id,
        transport_request_id=run.transport_request_id,
    )


def digest(content: Any) -> str:
    """Return a short text that is equal for equal content, whatever the order of its keys.

    Raises:
        InvalidInput: The content has no JSON form.
    """
    try:
        data = msgspec.json.encode(content, order="sorted")
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(what="The request", problem=str(error)) from error
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _check_delivery(request: RunRequest, delivery: Delivery) -> None:
    if not 0 <= delivery.priority <= PRIORITY_MAX:
        raise InvalidInput(what="priority", problem=f"it must be between 0 and {PRIORITY_MAX}")
    if delivery.delay_ms < 0:
        raise InvalidInput(what="delay_ms", problem="it is negative")
    if delivery.mode is not InputMode.QUEUE and not request.thread_id:
        raise InvalidInput(what="thread_id", problem=f"mode '{delivery.mode}' needs one")
    key = delivery.dedupe_key
    if key is None:
        return
    check_id("dedupe_key", key)
    if key.startswith((TICKET_KEY, REPLAY_KEY, OUTBOX_KEY)):
        raise InvalidInput(what="dedupe_key", problem="its prefix is reserved for the mailbox")
    if not request.thread_id:
        raise InvalidInput(what="dedupe_key", problem="keys belong to a thread; pass thread_id")
