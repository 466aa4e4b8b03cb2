"""The SQL store: one method for each method of the ports; other modules do the work."""

import asyncio
from collections.abc import Sequence
from functools import partial

from awaken.contracts.events import LoggedEvent
from awaken.contracts.lifecycle import RunStatus
from awaken.contracts.messages.message import Message, MessageRecord, Transcript
from awaken.contracts.runs.records import RunRecord
from awaken.contracts.runs.threads import Thread
from awaken.contracts.storage.queries import MessageQuery, Page, RunQuery, ThreadQuery
from awaken.contracts.storage.state_history import FoldedState, StateChanges
from awaken.contracts.storage.store import (
    Checkout,
    Commit,
    CommitReceipt,
    DeleteStrategy,
    StreamCheckpoint,
    ToolRecord,
)
from awaken.stores.rules.lineage import apply_edit

from . import commits, lists, queries, retention, rows, state_history
from .config import SqlConfig
from .heads import ensure_head, find_head, load_run, wait_for_head
from .idle_threads import IdleThread
from .mailbox_port import SqlMailbox
from .outbox import SqlOutbox
from .profiles import SqlProfiles
from .schedules import SqlSchedules
from .session import Database, SqlSession
from .ticket_port import SqlTickets
from .transcripts import TranscriptCache
from .usage import SqlUsage

RECENT_MS = 1_000
"""How long after a write the store counts as writable without a probe."""
PROBE = "write_probe"
"""The fact that a probe writes; its value is the time of the probe."""


class SqlStore(SqlMailbox, SqlOutbox, SqlProfiles, SqlTickets, SqlUsage, SqlConfig, SqlSchedules):
    """A `Store` in a SQL database, with profiles, managed configuration and schedules.

    Everything is durable when a method returns. A task cancelled while it waits leaves its write
    applied or absent, never half.
    """

    is_shared = True
    keeps_state_history = True

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.name = database.name
        self._transcripts = TranscriptCache()
        self._probe: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Connect and bring the schema up to date; calling it twice is harmless."""
        await self._database.open()

    async def close(self) -> None:
        """Let running work end, then release every connection."""
        probe, self._probe = self._probe, None
        if probe is not None:
            probe.cancel()
        await self._database.close()

    async def check_writable(self) -> None:
        """Write one small row and make it durable; does nothing shortly after a write."""
        if self._database.since_write_ms() < RECENT_MS:
            return
        if self._probe is None or self._probe.done():
            self._probe = asyncio.create_task(self._write_probe(), name="write probe")
            self._probe.add_done_callback(_retrieve_error)
        # All callers wait for the same probe: if it hangs, they do not queue up more of them.
        await asyncio.shield(self._probe)

    async def _write_probe(self) -> None:
        async def work(session: SqlSession) -> None:
            await session.run("save_fact", PROBE, str((await session.now()).wall_ms))

        await self._database.write(work)

    async def checkout(self, thread_id: str) -> Checkout | None:
        """Read everything that a run needs in one consistent view; None for an unknown thread."""
        cache = self._transcripts
        idle: IdleThread | None = self._database.find_shown(thread_id)
        thread = None if idle is None else idle.take_thread()
        if idle is not None and thread is not None:
            kept = cache.find_messages(idle.no)
            if len(kept) == thread.message_count:
                transcript = Transcript(kept)
                return Checkout(thread=thread, messages=transcript, latest_run=idle.latest_run)
        base: Sequence[Message] = ()

        def count_known(thread_no: int) -> int:
            # Keep a reference: others may append to the list or drop it from the cache.
            nonlocal base
            base = cache.find_messages(thread_no)
            return len(base)

        loaded = await self._database.read_row(
            partial(queries.load_thread, thread_id=thread_id, known=count_known)
        )
        if loaded is None:
            return None
        head, messages = loaded.head, base
        if loaded.fresh:
            cache.extend(head.no, loaded.known, loaded.fresh)
            messages = cache.find_messages(head.no)
        if len(messages) != head.message_count:
            # Too large for the cache, or changed meanwhile: this view is authoritative.
            messages = [*base[: loaded.known], *loaded.fresh]
        return Checkout(
            thread=head.view(),
            messages=Transcript(messages),
            state=loaded.state,
            latest_run=head.latest_run,
            open_run=head.open_run,
            run_state=loaded.run_state,
            tickets=tuple(head.live_tickets.values()),
            cancel_cause=head.cancel_cause,
        )

    async def commit(self, commit: Commit) -> CommitReceipt:
        """Apply a commit whole, or raise and change nothing; see `CommitStore.commit`."""
        encoded = rows.EncodedCommit(commit, keeps_state=self.keeps_state_history)
        no, receipt = await self._database.write_thread(
            partial(commits.apply_commit, encoded=encoded), commit.thread_id
        )
        if commit.run is not None and commit.run.status is RunStatus.WAITING:
            # A run may wait for days: meanwhile its thread uses no memory.
            self._transcripts.drop(no)
        elif encoded.messages:
            before = receipt.message_count - len(encoded.messages)
            self._transcripts.extend(no, before, commit.messages)
        return receipt

    async def find_commit(self, commit_id: str, thread_id: str) -> CommitReceipt | None:
        """Return the receipt of a commit, or None if it was not and will not be applied."""

        async def work(session: SqlSession) -> CommitReceipt | None:
            head = await wait_for_head(session, thread_id)
            if head is None:
                return None
            found = await commits.find_commit(session, head, commit_id)
            if found is None:
                # A commit that is sent but not begun compares the row, and fails from now on.
                await session.run("touch_thread", head.no)
            return found

        # A commit whose reply was lost may still be in progress: only a write waits for its end.
        return await self._database.write(work)

    async def save_checkpoint(
        self, checkpoint: StreamCheckpoint, fencing_token: str | None = None
    ) -> None:
        """Store the answer streamed so far; replaces the run's earlier checkpoint."""
        await self._database.write_thread(
            partial(commits.save_checkpoint, checkpoint=checkpoint, fencing_token=fencing_token),
            checkpoint.thread_id,
        )

    async def find_checkpoint(self, run_id: str) -> StreamCheckpoint | None:
        """Return the checkpoint of an unfinished turn, or None."""

        async def work(session: SqlSession) -> StreamCheckpoint | None:
            row = await session.one("find_checkpoint", run_id)
            what = f"Checkpoint of run '{run_id}'"
            return None if row is None else rows.unpack(row[0], rows.CHECKPOINT, what)

        return await self._database.read_row(work)

    async def fold_state(self, run_id: str, seq: int) -> FoldedState:
        """Return the state of a run and its thread after the last commit up to an event."""
        return await self._database.read(partial(state_history.fold_state, run_id=run_id, seq=seq))

    async def list_state_changes(self, run_id: str) -> StateChanges:
        """Return which keys each commit of a run changed."""
        return await self._database.read(partial(state_history.list_state_changes, run_id=run_id))

    async def list_tool_records(self, run_id: str) -> tuple[ToolRecord, ...]:
        """Return the newest journal entry of each tool call of a run."""
        return await self._database.read(partial(queries.list_tool_records, run_id=run_id))

    async def load_thread(self, thread_id: str) -> Thread | None:
        """Return a thread, or None."""

        async def work(session: SqlSession) -> Thread | None:
            head = await find_head(session, thread_id)
            return None if head is None else head.view()

        return await self._database.read_row(work)

    async def find_claim_holder(self, thread_id: str) -> str | None:
        """Return the worker that has claimed a thread, or None."""

        async def work(session: SqlSession) -> str | None:
            row = await session.one("find_claim_holder", thread_id)
            return None if row is None else str(row[0])

        return await self._database.read_row(work)

    async def save_thread(self, thread: Thread) -> Thread:
        """Create a thread, or change its lineage and metadata; pointers and version stay."""
        return await self._database.write(partial(_save_thread, thread=thread))

    async def delete_thread(
        self, thread_id: str, strategy: DeleteStrategy = DeleteStrategy.DETACH
    ) -> None:
        """Delete a thread and all its records."""
        await self._database.write(
            partial(retention.delete_thread, thread_id=thread_id, strategy=strategy)
        )

    async def list_threads(self, query: ThreadQuery) -> Page[Thread]:
        """List threads, most recently updated first."""
        return await self._database.read(partial(queries.list_threads, query=query))

    async def list_messages(self, thread_id: str, query: MessageQuery) -> Page[MessageRecord]:
        """List a thread's messages; an unknown thread has none."""
        return await self._database.read(
            partial(queries.list_messages, thread_id=thread_id, query=query)
        )

    async def load_run(self, run_id: str) -> RunRecord | None:
        """Return a run, or None."""
        return await self._database.read_row(partial(load_run, run_id=run_id))

    async def list_runs(self, query: RunQuery) -> Page[RunRecord]:
        """List runs by creation time, ties by id."""
        return await self._database.read(partial(lists.list_runs, query=query))

    async def list_events(
        self, thread_id: str, *, after: int = 0, limit: int = 1000
    ) -> tuple[LoggedEvent, ...]:
        """Return the events after a sequence number, in order."""
        return await self._database.read(
            partial(queries.list_events, thread_id=thread_id, after=after, limit=limit)
        )


async def _save_thread(session: SqlSession, thread: Thread) -> Thread:
    """Create a thread, or edit one; see `ThreadStore.save_thread`."""
    head = await ensure_head(session, thread.id, thread.tenant_id)
    wanted = thread.normalize().parent_thread_id
    parents = {} if wanted is None else await commits.load_parents(session, wanted)
    head.shown = apply_edit(parents, head.shown, thread)
    if head.shown.metadata.updated_at is not None:
        head.updated_at = head.shown.metadata.updated_at
    shown = head.shown
    await session.run(
        "save_edit",
        head.no,
        head.updated_at,
        head.sort_at,
        shown.resource_id,
        shown.parent_thread_id,
        head.pack(),
    )
    return head.view()


def _retrieve_error(probe: asyncio.Task[None]) -> None:
    """Retrieve the error of a probe: there may be no caller left that waits for it."""
    if not probe.cancelled():
        probe.exception()
