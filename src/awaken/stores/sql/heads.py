"""Thread heads: read from their rows and written to them."""

from typing import Any

import msgspec

from awaken.contracts.runs.records import RunRecord
from awaken.contracts.runs.threads import ForkPoint, NewestBranch, Thread, ThreadMetadata
from awaken.stores.rules.head import HeldClaim, OpenCalls, ThreadHead, blank_thread

from . import rows
from .blobs import bind_columns
from .session import Row, SqlSession


class _Branching(msgspec.Struct, array_like=True, frozen=True, kw_only=False, gc=False):
    """The fork point and the newest branch of a thread; most threads have neither."""

    forked_from: ForkPoint | None
    newest_branch: NewestBranch | None


class _Shown(msgspec.Struct, array_like=True, frozen=True, kw_only=False, gc=False):
    """Fields that no query filters by, as short as possible: every commit writes them."""

    created_at: int | None = None
    title: str | None = None
    custom: dict[str, Any] = {}
    active_run_id: str | None = None
    open_run_id: str | None = None
    open_calls: OpenCalls = {}
    live_tickets: tuple[str, ...] = ()
    run_count: int = 0
    has_checkpoint: bool = False
    branching: _Branching | None = None


_SHOWN = msgspec.json.Decoder(_Shown)


class StoredHead(ThreadHead):
    """A thread's head with the fields that only a SQL store needs."""

    __slots__ = (
        "has_checkpoint",
        "no",
        "purged_seq",
        "queued",
        "run_count",
        "served_at",
        "ticket_ids",
    )

    def __init__(self, row: Row) -> None:
        beside = (row[16], row[1], row[2], row[3], row[5], row[17])
        shown = rows.unpack(row[8], _SHOWN, f"Thread '{row[16]}'", *beside)
        super().__init__(_make_thread(row, shown))
        self.no: int = row[0]
        self.version = row[1]
        self.message_count = row[2]
        self.event_seq = row[3]
        self.purged_seq: int = row[4]
        self.updated_at = row[5]
        self.open_calls = shown.open_calls
        self.run_count = shown.run_count
        self.has_checkpoint = shown.has_checkpoint
        """Whether the thread has a stream checkpoint, which the next commit must remove."""
        self.ticket_ids = shown.live_tickets
        if row[9] is not None:
            self.claim = HeldClaim(token=row[9], worker_id=row[10], dispatch_id=row[11])
        self.cancel_cause = row[12]
        self.epoch = row[13]
        self.queued: int = row[14]
        self.served_at: int = row[15]

    @property
    def sort_at(self) -> int:
        """The time by which threads are sorted."""
        return self.updated_at or self.shown.metadata.created_at or 0

    def pack(self) -> bytes:
        """Return the part of the head that its row stores beside the columns."""
        shown = self.shown
        kept = _Shown(
            shown.metadata.created_at,
            shown.metadata.title,
            shown.metadata.custom,
            shown.active_run_id,
            shown.open_run_id,
            self.open_calls,
            tuple(self.live_tickets),
            self.run_count,
            self.has_checkpoint,
            _make_branching(shown),
        )
        counts = (self.version, self.message_count, self.event_seq)
        return bind_columns(
            rows.pack(kept), shown.id, *counts, self.updated_at, shown.latest_run_id
        )


async def find_head(session: SqlSession, thread_id: str) -> StoredHead | None:
    """Read a thread's head with its runs and live tickets."""
    row = await session.one("find_thread", thread_id)
    return None if row is None else await _load_parts(session, StoredHead(row))


async def lock_head(session: SqlSession, thread_id: str) -> StoredHead | None:
    """Read and lock a thread's head; no other transaction can write until this one ends."""
    row = await session.one("lock_thread", thread_id)
    return None if row is None else await _load_parts(session, StoredHead(row))


async def ensure_head(
    session: SqlSession, thread_id: str, tenant_id: str | None = None
) -> StoredHead:
    """Read and lock a thread's head; creates the thread for the tenant if it does not exist.

    Raises:
        InvalidRecord: The id is blank.
    """
    while (head := await lock_head(session, thread_id)) is None:
        made = blank_thread(thread_id, tenant_id)
        # Changes nothing if another process created it first; a third may even have deleted it.
        await session.run("add_thread", thread_id, _pack_blank(thread_id), made.tenant_id)
    return head


async def wait_for_head(session: SqlSession, thread_id: str) -> StoredHead | None:
    """Wait until no other transaction writes to a thread, then read its head, or None."""
    head = await lock_head(session, thread_id)
    if head is not None:
        return head
    # A thread that another transaction is creating cannot be locked yet; an insert waits for it.
    if not await session.run("add_thread", thread_id, _pack_blank(thread_id), None):
        return await lock_head(session, thread_id)
    made = await lock_head(session, thread_id)
    assert made is not None
    await session.run("delete_thread", made.no)
    return None


async def save_head(session: SqlSession, head: StoredHead) -> None:
    """Write the columns of a thread's row that a commit changes."""
    shown = head.shown
    await session.run(
        "save_commit_head",
        head.no,
        head.version,
        head.message_count,
        head.event_seq,
        head.updated_at,
        head.sort_at,
        shown.resource_id,
        shown.parent_thread_id,
        head.pack(),
        shown.latest_run_id,
    )


def view_of(row: Row, latest: RunRecord | None) -> Thread:
    """Return a thread as readers see it, from its row and its latest run."""
    head = StoredHead(row)
    head.latest_run = latest
    return head.view()


async def load_run(session: SqlSession, run_id: str | None) -> RunRecord | None:
    """Read a run's record."""
    if run_id is None:
        return None
    row = await session.one("find_run", run_id)
    return None if row is None else rows.unpack(row[0], rows.RUN, f"Run '{run_id}'")


async def _load_parts(session: SqlSession, head: StoredHead) -> StoredHead:
    shown = head.shown
    head.latest_run = await load_run(session, shown.latest_run_id)
    if shown.open_run_id is not None:
        is_latest = shown.open_run_id == shown.latest_run_id
        head.open_run = head.latest_run if is_latest else await load_run(session, shown.open_run_id)
    for ticket_id in head.ticket_ids:
        found = await session.one("find_ticket", ticket_id)
        assert found is not None
        head.live_tickets[ticket_id] = rows.unpack(found[0], rows.TICKET, f"Ticket '{ticket_id}'")
    return head


def _make_branching(thread: Thread) -> _Branching | None:
    if thread.forked_from is None and thread.newest_branch is None:
        return None
    return _Branching(thread.forked_from, thread.newest_branch)


def _pack_blank(thread_id: str) -> bytes:
    return bind_columns(rows.pack(_Shown()), thread_id, 0, 0, 0, None, None)


def _make_thread(row: Row, shown: _Shown) -> Thread:
    branching = shown.branching
    return Thread(
        id=row[16],
        tenant_id=row[18],
        resource_id=row[6],
        parent_thread_id=row[7],
        forked_from=None if branching is None else branching.forked_from,
        newest_branch=None if branching is None else branching.newest_branch,
        metadata=ThreadMetadata(
            created_at=shown.created_at,
            updated_at=row[5],
            title=shown.title,
            custom=shown.custom,
        ),
        active_run_id=shown.active_run_id,
        open_run_id=shown.open_run_id,
        latest_run_id=row[17],
    )
