"""The audit: who changed what, written with the change, in a chain that shows tampering."""

from collections.abc import Iterable
from enum import StrEnum
from hashlib import blake2b
from typing import Any, Protocol

import msgspec

from awaken.contracts.record import Record

CHAIN_START = bytes(16)
"""What the first event of the chain follows."""


class AuditAction(StrEnum):
    """What an actor did."""

    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"
    RESTART = "restart"
    LOGIN = "login"
    PUBLISH = "publish"
    RESTORE = "restore"
    SEED_APPLY = "seed_apply"
    APPLY_FAILED = "apply_failed"
    ROLLBACK = "rollback"
    CANARY = "canary"
    PROMOTE = "promote"
    SWITCH = "switch"
    FIRE = "fire"
    SECRET_SET = "secret_set"
    SECRET_UNSET = "secret_unset"
    REPIN = "repin"
    REPLAY_DEAD = "replay_dead"
    BREAKER = "breaker"
    PURGE = "purge"
    BATCH = "batch"
    CANCEL = "cancel"
    RETRY_OUTBOX = "retry_outbox"
    PIN = "pin"
    RESET = "reset"
    REPLAY = "replay"


class AuditEvent(Record, frozen=True, kw_only=True):
    """One act. Bodies are objects of the configuration and are named by their hashes."""

    id: str
    at: int
    actor: str
    action: AuditAction
    resource: str
    """`namespace/id`, or what else was acted upon."""
    before: str | None = None
    after: str | None = None
    ip: str | None = None
    request_id: str | None = None
    restored_from: str | None = None
    error: str | None = None
    publication: int | None = None
    message: str | None = None
    details: dict[str, Any] | None = None


class AuditRow(Record, frozen=True, kw_only=True):
    """A stored event with its place in the chain."""

    no: int
    event: AuditEvent
    chain: bytes


class AuditQuery(Record, frozen=True, kw_only=True):
    """Events by what they name, newest first; `before_no` is where the last page ended."""

    event_id: str | None = None
    resource: str | None = None
    action: AuditAction | None = None
    actor: str | None = None
    since: int | None = None
    """The earliest time."""
    until: int | None = None
    """The latest time; an event at this time is one of them."""
    before_no: int | None = None
    limit: int = 50


class AuditAnchor(Record, frozen=True, kw_only=True):
    """A place in the chain: the number and the link of an event, or the start of the chain.

    The chain begins after the last event that was pruned, and ends with the newest one.
    """

    no: int = 0
    chain: bytes = CHAIN_START


class AuditTrail(Protocol):
    """Records acts that have no transaction of their own, before they are done."""

    async def record(
        self,
        action: AuditAction,
        resource: str,
        *,
        actor: str,
        details: dict[str, Any] | None = None,
        ip: str | None = None,
        request_id: str | None = None,
    ) -> None:
        """Write that an actor is about to do something; it is durable when this returns.

        Raises:
            StorageError: It could not be written; the caller must not act.
        """
        ...


def next_link(previous: bytes, event: AuditEvent) -> bytes:
    """Return the link of an event that follows another: it changes if any event before does."""
    return blake2b(previous + msgspec.json.encode(event, order="sorted"), digest_size=16).digest()


def find_broken_link(after: AuditAnchor, rows: Iterable[AuditRow]) -> int | None:
    """Return the number of the first row that does not follow from the one before, or None.

    A row is missing, was added or was changed there. Rows come oldest first, and begin with the
    one that follows `after`.
    """
    no, chain = after.no, after.chain
    for row in rows:
        no, chain = no + 1, next_link(chain, row.event)
        if (row.no, row.chain) != (no, chain):
            return no
    return None
