"""From a target to the dispatch of its run: every id is derived, so that a repeat is the same."""

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from awaken.contracts.errors import InvalidInput
from awaken.contracts.identity import RunMode, derive_id
from awaken.contracts.messages.content import Audio, Document, Image, Text, Video
from awaken.contracts.messages.message import Message, Role, user
from awaken.contracts.record import StrictRecord
from awaken.contracts.runs.records import RunRequest
from awaken.contracts.storage.dispatch import RunDispatch
from awaken.contracts.storage.schedules import Creator, RunTarget
from awaken.contracts.tenancy import add_namespace, namespace_of
from awaken.mailbox.submissions import Delivery, check_submission, digest

INPUT_BYTES_MAX = 256 * 1024


def read_input(given: Any) -> tuple[Message, ...]:
    """Return the messages of an input: a text, a list of messages, or another JSON value.

    Raises:
        InvalidInput: It is blank, too long, or a message in it is none that a client may send.
    """
    _check_size(given)
    match given:
        case "" | [] | None:
            raise InvalidInput(what="input", problem="it is empty")
        case str():
            return (user(given),)
        case list():
            return read_messages(given)
        case _:
            return (user(msgspec.json.encode(given).decode()),)


def _check_size(given: Any) -> None:
    try:
        size = len(msgspec.json.encode(given))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(what="input", problem=str(error)) from error
    if size > INPUT_BYTES_MAX:
        raise InvalidInput(what="input", problem=f"it may have {INPUT_BYTES_MAX} bytes")


class _UserMessage(StrictRecord, frozen=True, kw_only=True):
    """A message as a client may send it; what else a stored one has is the runtime's to say."""

    role: Literal["user"]
    id: str | None = None
    """Not kept: each run has messages of its own."""
    content: str | tuple[Text | Image | Document | Audio | Video, ...]


def read_messages(given: Sequence[Any]) -> tuple[Message, ...]:
    """Return messages that are given as JSON.

    Raises:
        InvalidInput: One of them is malformed, not of a user, or has what only the runtime says.
    """
    try:
        messages = msgspec.convert(given, tuple[_UserMessage, ...])
    except msgspec.ValidationError as error:
        raise InvalidInput(what="input", problem=str(error)) from error
    return tuple(
        user(it.content)
        if isinstance(it.content, str)
        else Message(role=Role.USER, content=it.content)
        for it in messages
    )


class StartedBy(msgspec.Struct, frozen=True, kw_only=True):
    """What starts a run, and under which key it does so once."""

    kind: str
    """`schedule` or `trigger`."""
    id: str
    created_at: int
    """When it was created: another of the same id, made after it was deleted, starts runs anew."""
    key: str
    """The due time, or the id of the delivery."""
    run_mode: RunMode = RunMode.SCHEDULED

    def derive(self, what: str) -> str:
        """Return an id that only this start has."""
        return derive_id(self.kind, self.id, str(self.created_at), self.key, what)

    @property
    def dedupe_key(self) -> str:
        """The key under which its dispatch is found again."""
        return f"{self.kind}:{self.id}:{self.created_at}:{self.key}"


def build_request(target: RunTarget, creator: Creator, started_by: StartedBy) -> RunRequest:
    """Build the request of a run, in the name of the creator.

    That of an event has no messages: its input is a payload, which may be any JSON value.

    Raises:
        InvalidInput: The input is malformed.
        LimitExceeded: A message is too large.
    """
    namespace = namespace_of(creator.tenant_id)
    thread_id = target.thread_id or started_by.derive("thread")
    read: tuple[Message, ...] = ()
    if target.event is None:
        read = read_input(target.input)
    else:
        _check_size(target.input)
    messages = tuple(
        msgspec.structs.replace(it, id=started_by.derive(f"message {n}"))
        for n, it in enumerate(read)
    )
    request = RunRequest(
        thread_id=add_namespace(namespace, thread_id),
        agent_id=target.agent_id,
        messages=messages,
        context=target.context,
        tenant_id=creator.tenant_id,
        user_id=creator.user_id,
        run_mode=started_by.run_mode,
        dispatch_id=started_by.derive("dispatch"),
    )
    check_submission(request, Delivery())
    return request


def build_dispatch(request: RunRequest, started_by: StartedBy, max_attempts: int) -> RunDispatch:
    """Build the dispatch that starts the run of a request."""
    run_id = namespace_of(request.tenant_id) + started_by.derive("run")
    return RunDispatch(
        dispatch_id=request.dispatch_id or "",
        thread_id=request.thread_id or "",
        run_id=run_id,
        request=request,
        dedupe_key=started_by.dedupe_key,
        request_hash=digest(started_by.dedupe_key),
        max_attempts=max_attempts,
    )
