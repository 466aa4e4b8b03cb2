"""Removes a tenant's namespace from the ids in records, so that a tenant sees its own ids.

Below the views all ids are stored ids; see `contracts/tenancy.py`.
"""

from typing import Any, TypeVar

import msgspec

from awaken.contracts.events import (
    ActivityDelta,
    ActivitySnapshot,
    LoggedEvent,
    MessagesSnapshot,
    RunFinish,
    RunStart,
    StateDelta,
    StateSnapshot,
)
from awaken.contracts.identity import RunIdentity
from awaken.contracts.messages.message import Message, MessageMetadata, MessageRecord, Sender
from awaken.contracts.runs.records import (
    ForkedAt,
    RunRecord,
    RunRequest,
    RunResult,
)
from awaken.contracts.runs.threads import ForkPoint, NewestBranch, Thread
from awaken.contracts.storage.dispatch import RunDispatch
from awaken.contracts.suspension.tickets import DecisionReceipt, Ticket
from awaken.contracts.tasks import TaskInfo
from awaken.mailbox.receipts import SubmitReceipt

T = TypeVar("T")

_PLACE = ("thread_id", "run_id")
_ABOVE = ("parent_thread_id", "parent_run_id")
_IDS: dict[type, tuple[str, ...]] = {
    Thread: ("id", "parent_thread_id", "active_run_id", "open_run_id", "latest_run_id"),
    ForkPoint: ("thread_id",),
    ForkedAt: ("run_id",),
    NewestBranch: ("thread_id",),
    RunRecord: (*_PLACE, *_ABOVE, "continued_as"),
    RunIdentity: (*_PLACE, *_ABOVE),
    RunRequest: ("thread_id", "run_id_hint", "continue_run_id", "dispatch_id_hint", *_ABOVE),
    RunResult: (*_PLACE, "continued_as"),
    RunDispatch: (*_PLACE, "taken_by"),
    RunStart: (*_PLACE, "parent_run_id"),
    RunFinish: _PLACE,
    SubmitReceipt: _PLACE,
    DecisionReceipt: _PLACE,
    Ticket: _PLACE,
    TaskInfo: ("parent_task_id",),
    LoggedEvent: ("run_id",),
    MessageRecord: ("message_id", "thread_id", "produced_by_run_id"),
    MessageMetadata: ("run_id",),
    Sender: ("thread_id", "run_id", "task_id"),
    Message: (),
    MessagesSnapshot: (),
}
"""Which fields of a record are ids of threads and runs."""
_PARTS: dict[type, tuple[str, ...]] = {
    Thread: ("forked_from", "newest_branch"),
    RunRecord: ("task", "forked_from"),
    RunRequest: ("task", "messages"),
    RunResult: ("tickets",),
    RunDispatch: ("request",),
    RunStart: ("identity",),
    RunFinish: ("identity",),
    LoggedEvent: ("event",),
    MessageRecord: ("message",),
    Message: ("metadata", "sender"),
    MessagesSnapshot: ("messages",),
}
"""Which fields of a record hold other records."""
_DATA: dict[type, str] = {
    StateSnapshot: "snapshot",
    StateDelta: "delta",
    ActivitySnapshot: "content",
    ActivityDelta: "patch",
}
"""Which field of an event holds data that contains ids of runs and threads."""


def hide_namespace(namespace: str, value: T) -> T:
    """Return a record, or several, with the ids as the tenant knows them."""
    if not namespace:
        return value
    if isinstance(value, tuple):
        several: Any = tuple(hide_namespace(namespace, it) for it in value)
        return several  # type: ignore[no-any-return]
    if (data := _DATA.get(type(value))) is not None:
        known = _hide_in_data(namespace, getattr(value, data))
        return msgspec.structs.replace(value, **{data: known})  # type: ignore[type-var]
    if (names := _IDS.get(type(value))) is None:
        return value
    changes: dict[str, Any] = {}
    for name in names:
        known = getattr(value, name)
        if known is not None and known.startswith(namespace):
            changes[name] = known[len(namespace) :]
    for name in _PARTS.get(type(value), ()):
        known = getattr(value, name)
        if known is not None and (part := hide_namespace(namespace, known)) is not known:
            changes[name] = part
    if not changes:
        return value
    return msgspec.structs.replace(value, **changes)  # type: ignore[type-var]


def _hide_in_data(namespace: str, data: Any) -> Any:
    """Remove the namespace from every text in the data that begins with it."""
    if isinstance(data, str):
        return data.removeprefix(namespace)
    if isinstance(data, list | tuple):
        return [_hide_in_data(namespace, it) for it in data]
    if isinstance(data, dict):
        return {_hide_in_data(namespace, k): _hide_in_data(namespace, v) for k, v in data.items()}
    return data
