"""One commit as one transaction: load the head, check, advance, write the change."""

from collections.abc import Iterable, Mapping, Sequence

from awaken.contracts.errors import IdempotencyConflict
from awaken.contracts.identity import is_generated
from awaken.contracts.lifecycle import NaturalEnd, RunStatus
from awaken.contracts.runs.records import RunKind, RunRecord, run_id_in_use
from awaken.contracts.state.keys import StoredValue
from awaken.contracts.storage.dispatch import RunDispatch
from awaken.contracts.storage.store import Commit, CommitReceipt, StreamCheckpoint
from awaken.contracts.suspension.tickets import Ticket
from awaken.stores.rules.claims import check_holder
from awaken.stores.rules.commits import advance, check_commit, run_of
from awaken.stores.rules.head import blank_thread, tenant_of
from awaken.stores.rules.transcript import foreign_ids

from . import claims, rows, run_columns
from .blobs import column_seed, seal
from .decisions import save_ticket
from .heads import (
    StoredHead,
    add_head,
    load_run,
    lock_head,
    save_head,
    save_head_and_claim,
)
from .idle_threads import show_idle
from .outbox import add_outbox
from .queues import absorb, enqueue_all, refresh
from .queues import find as find_dispatch
from .session import Row, SqlSession
from .state_history import pack_state

THREAD_STATE, RUN_STATE = 0, 1
LOOK_BACK = 4
"""How many of the latest commits are searched for an id that may be used a second time."""
LOOK_BACK_REFUSED = 256
"""The same for a commit that is refused anyway; the search only explains the refusal."""


async def apply_commit(
    session: SqlSession, encoded: rows.EncodedCommit
) -> tuple[int, CommitReceipt]:
    """Apply a commit whole, or raise and change nothing; see `CommitStore.commit`.

    Returns the thread's number and the receipt.
    """
    commit = encoded.commit
    head: StoredHead | None = session.recall_head(commit.thread_id)
    if head is None:
        head = await lock_head(session, commit.thread_id)
    if head is None:
        head = StoredHead(blank_thread(commit.thread_id, tenant_of(commit)))
    elif head.version:
        receipt = await _find_applied(session, head, encoded)
        if receipt is not None:
            return head.no, receipt
    foreign = foreign_ids(commit.messages)
    found = await _read_known(session, head, commit, foreign)
    change = check_commit(head, found, commit, foreign)
    before = _Before(head)
    receipt = advance(head, commit, change)
    if commit.run is not None and change.known_run is None:
        head.run_count += 1
    changed = None
    if commit.state or commit.run_state:
        changed = await pack_state(session, head, encoded)
    if head.has_run_state or head.has_checkpoint:
        await _remove_obsolete(session, head, before)
    if not await _write_head(session, head, before, commit):
        # Another process has created the thread meanwhile; nothing is written yet.
        return await apply_commit(session, encoded)
    await _write_history(session, head, encoded, foreign, changed)
    if commit.run is not None:
        await _write_run(session, head, encoded, change.known_run)
    await _write_parts(session, head, commit, change.tickets)
    if before.claim is not None:
        await claims.settle(session, head, before.claim, before.open_run, commit)
    elif commit.claim is None and head.queued and _is_waiting(before.open_run):
        # Dispatches that the waiting run held back may be claimed now.
        await refresh(session, head)
    if commit.absorbed:
        await absorb(session, head, commit.absorbed, run_of(head, commit))
    if commit.enqueued:
        await enqueue_all(session, head, commit.enqueued)
    elif commit.thread is None and not _is_waiting(head.open_run):
        # A run may wait for days: meanwhile its thread uses no memory. Metadata that a caller gives
        # may have parts that the caller changes later.
        show = show_idle if head.open_run is None else None
        session.remember_head(commit.thread_id, head, show)
    return head.no, receipt


class _Before:
    """What a commit may change in a head, as it was."""

    __slots__ = ("cancel_cause", "claim", "open_run", "shown")

    def __init__(self, head: StoredHead) -> None:
        self.cancel_cause = head.cancel_cause
        self.claim = head.claim
        self.open_run = head.open_run
        self.shown = head.shown


def _is_waiting(run: RunRecord | None) -> bool:
    return run is not None and run.status is RunStatus.WAITING


async def find_commit(
    session: SqlSession, head: StoredHead, commit_id: str
) -> CommitReceipt | None:
    """Return the receipt of an applied commit, or None; searches the newest commits first."""
    row = await session.one("find_commit", commit_id, *rows.all_places(head.no))
    return None if row is None else _make_receipt(commit_id, row)


async def _find_applied(
    session: SqlSession, head: StoredHead, encoded: rows.EncodedCommit
) -> CommitReceipt | None:
    """Return the receipt of a commit that is sent again, or None.

    A repeated commit can only be at the version that it expects. The same id at another version
    is searched for among the latest commits, where a blind retry of a writer would have put it.
    """
    commit = encoded.commit
    is_next = commit.expected_version == head.version
    if is_next and commit.commit_id.endswith(f":{head.version + 1}"):
        # An id that contains its version, as the ids of runs do, cannot be one of another commit.
        return None
    back = head.version - (LOOK_BACK if is_next else LOOK_BACK_REFUSED)
    first = min(commit.expected_version + 1, back)
    places = rows.place(head.no, max(first, 1)), rows.place(head.no, head.version)
    row = await session.one("find_commit", commit.commit_id, *places)
    if row is None:
        return None
    if row[1] != encoded.digest:
        raise IdempotencyConflict(commit_id=commit.commit_id)
    return _make_receipt(commit.commit_id, row)


def _make_receipt(commit_id: str, row: Row) -> CommitReceipt:
    return CommitReceipt(
        commit_id=commit_id,
        version=rows.number_at(row[0]),
        message_count=row[2],
        event_seq=row[3],
    )


async def save_checkpoint(
    session: SqlSession, checkpoint: StreamCheckpoint, fencing_token: str | None
) -> None:
    """Store the answer streamed so far; see `CommitStore.save_checkpoint`."""
    head = await lock_head(session, checkpoint.thread_id)
    check_holder(head, checkpoint.thread_id, fencing_token)
    open_run = None if head is None else head.open_run
    if head is None or open_run is None or open_run.run_id != checkpoint.run_id:
        # The run is over: no commit would ever remove the checkpoint.
        return
    await session.run("save_checkpoint", checkpoint.run_id, head.no, rows.pack(checkpoint))
    if not head.has_checkpoint:
        head.has_checkpoint = True
        await save_head(session, head)


class _Known:
    """The records that a commit refers to, read before it is checked."""

    __slots__ = ("_dispatches", "_has_messages", "_head", "_parents", "_runs", "_tickets")

    def __init__(self, head: StoredHead) -> None:
        self._head = head
        self._runs: dict[str, RunRecord] = {}
        self._tickets: dict[str, Ticket] = {}
        self._dispatches: dict[str, RunDispatch] = {}
        self._parents: dict[str, str | None] = {}
        self._has_messages = False

    def find_run(self, run_id: str) -> RunRecord | None:
        for known in (self._head.open_run, self._head.latest_run):
            if known is not None and known.run_id == run_id:
                return known
        return self._runs.get(run_id)

    def find_ticket(self, ticket_id: str) -> Ticket | None:
        return self._head.live_tickets.get(ticket_id) or self._tickets.get(ticket_id)

    def find_dispatch(self, dispatch_id: str) -> RunDispatch | None:
        return self._dispatches.get(dispatch_id)

    def parents(self) -> Mapping[str, str | None]:
        return self._parents

    def has_messages(self, thread_id: str, ids: Iterable[str]) -> bool:
        return self._has_messages

    async def read_run(self, session: SqlSession, run_id: str) -> None:
        if self.find_run(run_id) is None:
            run = await load_run(session, run_id)
            if run is not None:
                self._runs[run_id] = run

    async def read_ticket(self, session: SqlSession, ticket: Ticket) -> None:
        await self.read_run(session, ticket.run_id)
        if ticket.ticket_id in self._head.live_tickets:
            return
        row = await session.one("find_ticket", ticket.ticket_id)
        if row is not None:
            what = f"Ticket '{ticket.ticket_id}'"
            self._tickets[ticket.ticket_id] = rows.unpack(row[0], rows.TICKET, what)

    async def read_dispatch(self, session: SqlSession, dispatch_id: str) -> None:
        dispatch = await find_dispatch(session, dispatch_id)
        if dispatch is not None:
            self._dispatches[dispatch_id] = dispatch

    async def read_parents(self, session: SqlSession, parent_id: str | None) -> None:
        if parent_id and parent_id != self._head.shown.parent_thread_id:
            self._parents.update(await load_parents(session, parent_id.strip()))

    async def read_messages(self, session: SqlSession, ids: Sequence[str]) -> None:
        for message_id in ids:
            if await _has_message(session, self._head, message_id):
                self._has_messages = True
                return


async def _read_known(
    session: SqlSession, head: StoredHead, commit: Commit, foreign: Sequence[str]
) -> _Known:
    known, run = _Known(head), commit.run
    is_open = run is not None and head.open_run is not None and head.open_run.run_id == run.run_id
    # A run's first commit is not looked up if a run has made the id: `add_run` finds a second use.
    if run is not None and not is_open and not is_generated(run.run_id):
        await known.read_run(session, run.run_id)
    if run is not None and run.parent_thread_id is not None:
        await known.read_parents(session, run.parent_thread_id)
    if commit.thread is not None:
        await known.read_parents(session, commit.thread.parent_thread_id)
    for record in commit.tool_records:
        await known.read_run(session, record.run_id)
    for ticket in commit.tickets:
        await known.read_ticket(session, ticket)
    for dispatch_id in commit.absorbed:
        await known.read_dispatch(session, dispatch_id)
    if head.message_count and foreign:
        await known.read_messages(session, foreign)
    return known


async def _has_message(session: SqlSession, head: StoredHead, message_id: str) -> bool:
    for row in await session.all("list_messages_like", rows.id_key(head.no, message_id)):
        what = f"A message of thread '{head.shown.id}'"
        known = rows.unpack(row[0], rows.MESSAGE, what, row[1])
        if known.id == message_id:
            return True
    return False


async def load_parents(session: SqlSession, thread_id: str) -> dict[str, str | None]:
    """Read the parents of a thread and of all its ancestors, locked for this transaction."""
    parents: dict[str, str | None] = {}
    above: str | None = thread_id
    while above is not None and above not in parents:
        row = await session.one("find_parent", above)
        if row is None:
            break
        parents[above] = row[0]
        above = row[0]
    return parents


async def _remove_obsolete(session: SqlSession, head: StoredHead, before: _Before) -> None:
    """Remove the state of a run that has ended, and the checkpoint of an unfinished answer."""
    if head.has_run_state and head.open_run is None and before.open_run is not None:
        await session.run("clear_run_state", head.no)
        head.has_run_state = False
    if head.has_checkpoint:
        await session.run("delete_checkpoints", head.no)
        head.has_checkpoint = False


async def _write_head(
    session: SqlSession, head: StoredHead, before: _Before, commit: Commit
) -> bool:
    """Write the thread's row; returns False if it is new and another process has created it."""
    if commit.run_state and head.open_run is commit.run:
        head.has_run_state = True
    if commit.state:
        head.has_state = True
    lease_until = None
    if commit.claim is not None and head.claim is not None:
        lease_until = (await session.now()).lease_ms + commit.claim.lease_ms
    if not head.no:
        return await add_head(session, head, lease_until)
    if head.claim is not before.claim:
        await save_head_and_claim(session, head, lease_until)
    else:
        await save_head(session, head)
        if head.cancel_cause != before.cancel_cause:
            await session.run("set_cancel", head.no, head.cancel_cause)
    shown, old = head.shown, before.shown
    if shown.resource_id != old.resource_id or shown.parent_thread_id != old.parent_thread_id:
        await session.run("save_lineage", head.no, shown.resource_id, shown.parent_thread_id)
    return True


async def _write_history(
    session: SqlSession,
    head: StoredHead,
    encoded: rows.EncodedCommit,
    foreign: Sequence[str],
    changed: bytes | None,
) -> None:
    commit, at, run_id = encoded.commit, encoded.commit.committed_at, run_of(head, encoded.commit)
    events = encoded.events and seal(encoded.events, column_seed(head.event_seq, run_id, at))
    # Most commits are named after their run and version, which the row has anyway.
    is_named_by_run = run_id is not None and commit.commit_id == f"{run_id}:{head.version}"
    await session.run(
        "add_commit",
        rows.place(head.no, head.version),
        "" if is_named_by_run else commit.commit_id,
        encoded.digest,
        run_id,
        at,
        head.message_count,
        head.event_seq,
        events,
        encoded.tools,
        changed,
    )
    if not encoded.messages:
        return
    messages: list[Row] = []
    place = rows.place(head.no, head.message_count - len(encoded.messages))
    for message, body in zip(commit.messages, encoded.messages, strict=True):
        place += 1
        id_key = rows.id_key(head.no, message.id or "") if message.id in foreign else None
        messages.append((place, id_key, at, body))
    await session.run_many("add_message", messages)


async def _write_run(
    session: SqlSession, head: StoredHead, encoded: rows.EncodedCommit, known: RunRecord | None
) -> None:
    run = encoded.commit.run
    assert run is not None
    is_same_pin = known is None or known.publication == run.publication
    if known is not None and known.status is run.status and is_same_pin:
        # The columns are unchanged: writing them would write their index as well.
        await session.run("save_same_run", run.run_id, encoded.run)
        return
    usage, ended = run.usage, None
    if run.status is RunStatus.DONE and run.termination.__class__ is not NaturalEnd:
        ended = run_columns.end_of(run)
    if known is not None:
        values = (run.run_id, run.status.value, _end_time(run), encoded.run, ended)
        spent = (usage.total_tokens, usage.cost_nanos)
        if is_same_pin:
            await session.run("save_run", *values, *spent)
        else:
            await session.run("save_repinned_run", *values, *spent, run.publication)
        return
    is_added = await session.run(
        "add_run",
        rows.place(head.no, head.run_count),
        run.run_id,
        head.no,
        run.status.value,
        run.created_at,
        None if run.status is RunStatus.RUNNING else _end_time(run),
        head.version,
        encoded.run,
        run.agent_id,
        None if run.task is None and run.purpose is RunKind.CHAT else run.kind.value,
        run.publication,
        head.shown.tenant_id,
        ended,
        usage.total_tokens,
        usage.cost_nanos,
    )
    if not is_added:
        raise run_id_in_use(run.run_id)


def _end_time(run: RunRecord) -> int | None:
    if run.status is not RunStatus.DONE:
        return None
    return run.updated_at if run.finished_at is None else run.finished_at


async def _write_parts(
    session: SqlSession, head: StoredHead, commit: Commit, tickets: tuple[Ticket, ...]
) -> None:
    if commit.state:
        await _write_state(session, head.no, THREAD_STATE, commit.state)
    if commit.run_state and head.open_run is commit.run:
        await _write_state(session, head.no, RUN_STATE, commit.run_state)
    for ticket in tickets:
        await save_ticket(session, head, ticket)
    if commit.outbox:
        await add_outbox(session, head.no, commit.outbox)


async def _write_state(
    session: SqlSession, thread_no: int, scope: int, changes: dict[str, StoredValue | None]
) -> None:
    for name, value in changes.items():
        if value is None:
            await session.run("delete_state", thread_no, scope, name)
        else:
            await session.run(
                "save_state",
                thread_no,
                scope,
                name,
                value.version,
                rows.pack(value.data, name, value.version),
            )
