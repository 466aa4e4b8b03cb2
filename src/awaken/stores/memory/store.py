"""The memory store: one method for each method of the ports; other modules do the work."""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from awaken.contracts.clock import Clock, SystemClock
from awaken.contracts.events import LoggedEvent
from awaken.contracts.messages.message import MessageRecord, Transcript
from awaken.contracts.runs.records import RunRecord
from awaken.contracts.runs.threads import Thread
from awaken.contracts.storage.dispatch import RunDispatch
from awaken.contracts.storage.queries import MessageQuery, Page, RunQuery, ThreadQuery, page_of
from awaken.contracts.storage.store import (
    Checkout,
    Commit,
    CommitReceipt,
    DeleteStrategy,
    StreamCheckpoint,
    ToolRecord,
)
from awaken.stores.rules.claims import check_holder

from .commits import apply_commit
from .lineage import delete_thread, save_thread
from .listings import list_events, list_messages, list_runs, list_threads
from .mailbox import MemoryMailbox
from .outbox import MemoryOutbox
from .queues import Queues
from .tables import EndedRuns, Tables
from .ticket_port import MemoryTickets

if TYPE_CHECKING:
    from awaken.contracts.config.audit import AuditAnchor, AuditQuery, AuditRow
    from awaken.contracts.config.drafts import ConfigDraft
    from awaken.contracts.config.heads import ConfigHead
    from awaken.contracts.config.publications import Publication
    from awaken.contracts.config.store import (
        ConfigPurge,
        ConfigReceipt,
        ConfigWrite,
        PurgedConfig,
        SealedSecret,
    )
    from awaken.contracts.storage.queries import (
        DeliveryQuery,
        FiringQuery,
        ScheduleQuery,
        TriggerQuery,
    )
    from awaken.contracts.storage.schedules import (
        ClaimedSchedules,
        Firing,
        FiringWrite,
        HookDelivery,
        Schedule,
        Trigger,
    )
    from awaken.contracts.storage.state_history import FoldedState, StateChanges
    from awaken.contracts.storage.usage import UsageDay

    from .config import ConfigInMemory
    from .evals import EvalsInMemory
    from .items import ItemsInMemory
    from .schedules import MemorySchedules
    from .usage import MemoryUsage

RETAINED_RUNS = 10_000
"""How many ended runs are kept unless the caller says otherwise."""


class MemoryUsagePort:
    """The part of the store that is about all runs: usage, and those that have not ended."""

    _tables: Tables
    clock: Clock

    async def list_pinned_publications(self) -> frozenset[int]:
        """Return the publications of runs that have not ended."""
        return self._usage().list_pinned_publications()

    async def count_open_runs(self, tenant_id: str | None = None) -> dict[str, int]:
        """Count the chats and tasks that have not ended, by status."""
        return self._usage().count_open_runs(tenant_id)

    async def fill_run_columns(self, limit: int = 200) -> int:
        """Do nothing: this store has no columns."""
        return 0

    async def count_usage(self, limit: int = 200) -> int:
        """Add ended runs to the usage of their days; returns how many were looked at."""
        return self._usage().count_usage(limit)

    async def list_usage(
        self, first_day: int, last_day: int, tenant_id: str | None = None
    ) -> "tuple[UsageDay, ...]":
        """Return the usage of the days between two, both included, by day, agent and model."""
        return self._usage().list_usage(first_day, last_day, tenant_id)

    def _usage(self) -> "MemoryUsage":
        # Most programs that use this store ask for no usage.
        from .usage import MemoryUsage  # noqa: PLC0415

        return MemoryUsage(self._tables, self.clock)


class MemoryHistoryPort:
    """The part of the store that tells state over time, which `state_history.py` does."""

    _tables: Tables

    @property
    def keeps_state_history(self) -> bool:
        """Whether commits keep what they change; this store does not unless it is told to."""
        return self._tables.keeps_state

    @keeps_state_history.setter
    def keeps_state_history(self, is_kept: bool) -> None:
        self._tables.keeps_state = is_kept

    async def fold_state(self, run_id: str, seq: int) -> "FoldedState":
        """Return the state of a run and its thread after the last commit up to an event."""
        from .state_history import fold_state  # noqa: PLC0415

        return fold_state(self._tables, run_id, seq)

    async def list_state_changes(self, run_id: str) -> "StateChanges":
        """Return which keys each commit of a run changed."""
        from .state_history import list_state_changes  # noqa: PLC0415

        return list_state_changes(self._tables, run_id)


class MemoryConfigPort:
    """The part of the store that keeps managed configuration, which `config.py` does."""

    clock: Clock
    _opened_config: "ConfigInMemory | None" = None

    @property
    def _config(self) -> "ConfigInMemory":
        """The managed configuration; loaded on first use, because few programs have one."""
        if self._opened_config is None:
            from .config import ConfigInMemory  # noqa: PLC0415

            self._opened_config = ConfigInMemory(self.clock)
        return self._opened_config

    async def find_config_head(self) -> "ConfigHead | None":
        """Return the head of the configuration, or None before the first change."""
        return await self._config.find_config_head()

    async def write_config(self, write: "ConfigWrite") -> "ConfigReceipt":
        """Apply a write of the configuration whole, or raise and change nothing."""
        return await self._config.write_config(write)

    async def find_config_request(self, idempotency_key: str) -> tuple[str, int | None] | None:
        """Return the request hash and the publication of an earlier write, or None."""
        return await self._config.find_config_request(idempotency_key)

    async def load_publication(self, no: int) -> "Publication | None":
        """Return a publication, or None."""
        return await self._config.load_publication(no)

    async def list_publications(
        self, *, before: int | None = None, limit: int = 50, with_ephemeral: bool = False
    ) -> "tuple[Publication, ...]":
        """Return publications with smaller numbers, newest first, without their manifests."""
        return await self._config.list_publications(
            before=before, limit=limit, with_ephemeral=with_ephemeral
        )

    async def load_objects(self, hashes: Collection[str]) -> Mapping[str, bytes]:
        """Return the bodies of those objects that exist, by hash."""
        return await self._config.load_objects(hashes)

    async def save_draft(self, draft: "ConfigDraft", expected: int) -> "ConfigDraft":
        """Write a draft if the stored one has the revision `expected`, 0 for a new one."""
        return await self._config.save_draft(draft, expected)

    async def find_draft(self, draft_id: str) -> "ConfigDraft | None":
        """Return a draft, or None."""
        return await self._config.find_draft(draft_id)

    async def list_drafts(self) -> "tuple[ConfigDraft, ...]":
        """Return all drafts, the latest edited first."""
        return await self._config.list_drafts()

    async def delete_draft(self, draft_id: str) -> bool:
        """Remove a draft; False if there is none."""
        return await self._config.delete_draft(draft_id)

    async def list_secrets(self) -> "tuple[SealedSecret, ...]":
        """Return all stored secrets, sorted by name."""
        return await self._config.list_secrets()

    async def list_audit(self, query: "AuditQuery") -> "tuple[AuditRow, ...]":
        """Return audit events, newest first."""
        return await self._config.list_audit(query)

    async def read_audit_chain(self, *, after: int, limit: int) -> "tuple[AuditRow, ...]":
        """Return audit events with greater numbers, oldest first."""
        return await self._config.read_audit_chain(after=after, limit=limit)

    async def find_audit_anchor(self) -> "AuditAnchor":
        """Return where the chain of audit events begins."""
        return await self._config.find_audit_anchor()

    async def find_audit_end(self) -> "AuditAnchor":
        """Return where the chain of audit events ends."""
        return await self._config.find_audit_end()

    async def purge_config(self, purge: "ConfigPurge") -> "PurgedConfig":
        """Remove what nothing of the configuration needs."""
        return await self._config.purge_config(purge)


class MemorySchedulePort:
    """The part of the store that keeps schedules and triggers, which `schedules.py` does."""

    clock: Clock
    _queues: Queues
    _opened_schedules: "MemorySchedules | None" = None

    @property
    def _schedules(self) -> "MemorySchedules":
        """The schedules and triggers; loaded on first use, because few programs have some."""
        if self._opened_schedules is None:
            from .schedules import MemorySchedules  # noqa: PLC0415

            self._opened_schedules = MemorySchedules(self.clock, self._queues.add)
        return self._opened_schedules

    async def add_schedule(self, schedule: "Schedule") -> "Schedule":
        """Store a new schedule."""
        return self._schedules.add_schedule(schedule)

    async def find_schedule(self, schedule_id: str) -> "Schedule | None":
        """Return a schedule, or None."""
        return self._schedules.find_schedule(schedule_id)

    async def save_schedule(self, schedule: "Schedule") -> "Schedule":
        """Replace a schedule that still has the revision of the given one."""
        return self._schedules.save_schedule(schedule)

    async def delete_schedule(self, schedule_id: str) -> bool:
        """Remove a schedule with its history; False if there is none."""
        return self._schedules.delete_schedule(schedule_id)

    async def list_schedules(self, query: "ScheduleQuery") -> "Page[Schedule]":
        """List schedules by creation time, ties by id."""
        return self._schedules.list_schedules(query)

    async def find_next_wake(self, *, is_judge: bool = True) -> tuple[int, int | None]:
        """Return the time, and when the first schedule wants to be looked at."""
        return self._schedules.find_next_wake(is_judge=is_judge)

    async def claim_schedules(
        self, claim_token: str, lease_ms: int, *, limit: int = 50, is_judge: bool = True
    ) -> "ClaimedSchedules":
        """Lease schedules that are due and that no process has a lease on."""
        return self._schedules.claim_schedules(
            claim_token, lease_ms, limit=limit, is_judge=is_judge
        )

    async def write_firing(self, write: "FiringWrite") -> bool:
        """Record firings, queue their dispatch and move the schedule on."""
        return self._schedules.write_firing(write)

    async def list_firings(self, query: "FiringQuery") -> "Page[Firing]":
        """List firings by their due time, ties by id."""
        return self._schedules.list_firings(query)

    async def add_trigger(self, trigger: "Trigger") -> "Trigger":
        """Store a new trigger."""
        return self._schedules.add_trigger(trigger)

    async def find_trigger(self, trigger_id: str) -> "Trigger | None":
        """Return a trigger, or None."""
        return self._schedules.find_trigger(trigger_id)

    async def save_trigger(self, trigger: "Trigger") -> "Trigger":
        """Replace a trigger that still has the revision of the given one."""
        return self._schedules.save_trigger(trigger)

    async def delete_trigger(self, trigger_id: str) -> bool:
        """Remove a trigger with its deliveries; False if there is none."""
        return self._schedules.delete_trigger(trigger_id)

    async def list_triggers(self, query: "TriggerQuery") -> "Page[Trigger]":
        """List triggers by creation time, ties by id."""
        return self._schedules.list_triggers(query)

    async def find_delivery(self, trigger_id: str, delivery_id: str) -> "HookDelivery | None":
        """Return a delivery, or None."""
        return self._schedules.find_delivery(trigger_id, delivery_id)

    async def accept_delivery(
        self, delivery: "HookDelivery", dispatch: RunDispatch | None = None
    ) -> "HookDelivery | None":
        """Record a delivery and queue its dispatch; a repeat changes nothing."""
        return self._schedules.accept_delivery(delivery, dispatch)

    async def list_deliveries(self, query: "DeliveryQuery") -> "Page[HookDelivery]":
        """List deliveries by when they were received, ties by id."""
        return self._schedules.list_deliveries(query)

    async def purge_firings(self, before_ms: int, delivered_before_ms: int, limit: int) -> int:
        """Remove older firings and deliveries, at most `limit` of each."""
        return self._schedules.purge_firings(before_ms, delivered_before_ms, limit)


class MemoryStore(
    MemoryMailbox,
    MemoryOutbox,
    MemoryTickets,
    MemoryHistoryPort,
    MemoryUsagePort,
    MemoryConfigPort,
    MemorySchedulePort,
):
    """A `Store`, `ConfigStore` and `ScheduleStore` in memory, as long as this object lives.

    Use it from one event loop. No method suspends, so every call is atomic to every other task
    and a cancelled task never leaves half a write. Values are stored without a copy: they are
    frozen, and the caller must not change the JSON inside them afterwards.

    Runs beyond the latest `retained_runs` that have ended are purged, and those that ended
    `retained_ms` before another run ends; see `retention.py` for what stays. None keeps them.
    """

    def __init__(
        self,
        name: str = "memory",
        *,
        clock: Clock | None = None,
        is_shared: bool = False,
        retained_runs: int | None = RETAINED_RUNS,
        retained_ms: int | None = None,
    ) -> None:
        super().__init__(clock or SystemClock())
        self.name = name
        self.is_shared = is_shared
        self._tables.ended = EndedRuns(retained_runs, retained_ms)
        self._items: ItemsInMemory | None = None
        self._evals: EvalsInMemory | None = None

    def open_memory(self) -> "ItemsInMemory":
        """Return where facts and documents are kept; loaded on first use."""
        if self._items is None:
            from .items import ItemsInMemory  # noqa: PLC0415

            self._items = ItemsInMemory(self.clock)
        return self._items

    def open_evals(self) -> "EvalsInMemory":
        """Return where datasets, evals and scores are kept; loaded on first use."""
        if self._evals is None:
            from .evals import EvalsInMemory  # noqa: PLC0415

            self._evals = EvalsInMemory()
        return self._evals

    async def open(self) -> None:
        """Do nothing: the store is always ready."""

    async def close(self) -> None:
        """Do nothing: committed data stays readable."""

    async def check_writable(self) -> None:
        """Do nothing: memory can always be written."""

    async def checkout(self, thread_id: str) -> Checkout | None:
        """Read everything that a run needs in one consistent view; None for an unknown thread."""
        thread = self._tables.threads.get(thread_id)
        if thread is None:
            return None
        return Checkout(
            thread=thread.view(),
            messages=Transcript(thread.messages),
            state=dict(thread.state),
            latest_run=thread.latest_run,
            open_run=thread.open_run,
            run_state=dict(thread.run_state),
            tickets=tuple(thread.live_tickets.values()),
            cancel_cause=thread.cancel_cause,
        )

    async def commit(self, commit: Commit) -> CommitReceipt:
        """Apply a commit whole, or raise and change nothing; see `CommitStore.commit`.

        A retry of an older commit than the thread's last is compared by its version only.
        """
        return apply_commit(self._tables, self._queues, self._claims, commit)

    async def find_commit(self, commit_id: str, thread_id: str) -> CommitReceipt | None:
        """Return the receipt of an applied commit, or None if it was never applied."""
        thread = self._tables.threads.get(thread_id)
        return None if thread is None else thread.find_receipt(commit_id)

    async def save_checkpoint(
        self, checkpoint: StreamCheckpoint, fencing_token: str | None = None
    ) -> None:
        """Store the answer streamed so far; does nothing if the run is not open."""
        thread = self._tables.threads.get(checkpoint.thread_id)
        check_holder(thread, checkpoint.thread_id, fencing_token)
        open_run = None if thread is None else thread.open_run
        if open_run is not None and open_run.run_id == checkpoint.run_id:
            self._tables.checkpoints[checkpoint.run_id] = checkpoint

    async def find_checkpoint(self, run_id: str) -> StreamCheckpoint | None:
        """Return the checkpoint of an unfinished turn, or None."""
        return self._tables.checkpoints.get(run_id)

    async def list_tool_records(self, run_id: str) -> tuple[ToolRecord, ...]:
        """Return the newest journal entry of each tool call of a run."""
        return tuple(self._tables.tool_records.get(run_id, {}).values())

    async def load_thread(self, thread_id: str) -> Thread | None:
        """Return a thread, or None."""
        thread = self._tables.threads.get(thread_id)
        return None if thread is None else thread.view()

    async def find_claim_holder(self, thread_id: str) -> str | None:
        """Return the worker that has claimed a thread, or None."""
        thread = self._tables.threads.get(thread_id)
        return None if thread is None or thread.claim is None else thread.claim.worker_id

    async def save_thread(self, thread: Thread) -> Thread:
        """Create a thread, or change its lineage and metadata; pointers and version stay."""
        return save_thread(self._tables, thread)

    async def delete_thread(
        self, thread_id: str, strategy: DeleteStrategy = DeleteStrategy.DETACH
    ) -> None:
        """Delete a thread and all its records."""
        delete_thread(self._tables, thread_id, strategy, await self.now_ms())

    async def list_threads(self, query: ThreadQuery) -> Page[Thread]:
        """List threads, most recently updated first."""
        return list_threads(self._tables, query)

    async def list_messages(self, thread_id: str, query: MessageQuery) -> Page[MessageRecord]:
        """List a thread's messages; an unknown thread has none."""
        thread = self._tables.threads.get(thread_id)
        return page_of((), 0, query) if thread is None else list_messages(thread, thread_id, query)

    async def load_run(self, run_id: str) -> RunRecord | None:
        """Return a run, or None."""
        return self._tables.runs.get(run_id)

    async def list_runs(self, query: RunQuery) -> Page[RunRecord]:
        """List runs by creation time, ties by id."""
        return list_runs(self._tables, query)

    async def list_events(
        self, thread_id: str, *, after: int = 0, limit: int = 1000
    ) -> tuple[LoggedEvent, ...]:
        """Return the events after a sequence number, in order; 0 begins with the oldest kept."""
        thread = self._tables.threads.get(thread_id)
        return () if thread is None else list_events(thread, after, limit)
