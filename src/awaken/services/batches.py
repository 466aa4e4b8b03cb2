"""One action on many objects: each gets its own receipt, and one that fails stops no other."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from enum import StrEnum

import msgspec

from awaken.contracts.errors import AwakenError, InvalidInput, RecordNotFound, UnknownTicket
from awaken.contracts.lifecycle import RunStatus
from awaken.contracts.record import Record, StrictRecord
from awaken.contracts.storage.dispatch import DispatchStatus
from awaken.contracts.storage.queries import LIMIT_MAX, RunQuery, ThreadQuery, at_cursor
from awaken.contracts.storage.store import DeleteStrategy
from awaken.contracts.suspension.tickets import Ticket, ToolCallResume

from .dispatches import Deliveries, DeliveryFilter
from .view import TenantView

ITEMS_MAX = 1_000
_OPEN = (RunStatus.RUNNING, RunStatus.WAITING, RunStatus.CREATED)


class BatchAction(StrEnum):
    """What is done to each object."""

    CANCEL = "cancel"
    """Runs end as cancelled."""
    DECIDE = "decide"
    """Tickets get one decision."""
    REPLAY = "replay"
    """Dead letters are queued again."""
    RETRY = "retry"
    """Outbox commands that were given up are tried again."""
    DELETE = "delete"
    """Threads are deleted with everything that belongs to them."""


class BatchFilter(StrictRecord, frozen=True, kw_only=True):
    """Which objects, instead of their ids; absent fields match everything."""

    agent_id: str | None = None
    """For `cancel`, `decide` and `replay`."""
    thread_id: str | None = None
    """For every action but `delete`."""
    tool: str | None = None
    """For `decide`."""
    resource_id: str | None = None
    """For `delete`: the owner of the threads."""
    updated_before: int | None = None
    """For `delete`: threads that were not used since, in milliseconds."""


_FIELDS: dict[BatchAction, frozenset[str]] = {
    BatchAction.CANCEL: frozenset({"agent_id", "thread_id"}),
    BatchAction.DECIDE: frozenset({"agent_id", "thread_id", "tool"}),
    BatchAction.REPLAY: frozenset({"agent_id", "thread_id"}),
    BatchAction.RETRY: frozenset({"thread_id"}),
    BatchAction.DELETE: frozenset({"resource_id", "updated_before"}),
}


class BatchReceipt(Record, frozen=True, kw_only=True):
    """What happened to one object."""

    id: str
    status: str
    """`done`, `skipped` when there was nothing to do, `refused`, or `planned` in a dry run."""
    code: str | None = None
    error: str | None = None


class BatchTargets(Record, frozen=True, kw_only=True):
    """The objects of a batch; `has_more` if there are others that match."""

    ids: tuple[str, ...]
    has_more: bool = False


class Batches:
    """Finds the objects of a batch, and acts on them one after the other, as one tenant."""

    def __init__(self, view: TenantView, deliveries: Deliveries) -> None:
        self._view = view
        self._deliveries = deliveries
        self._tickets: dict[str, Ticket] | None = None

    async def find(self, action: BatchAction, wanted: BatchFilter) -> BatchTargets:
        """Find the objects that match, at most `ITEMS_MAX`.

        Raises:
            InvalidInput: The filter has a field that the action does not know, or would delete
                every thread.
        """
        given = {
            name for name, value in msgspec.structs.asdict(wanted).items() if value is not None
        }
        if unknown := sorted(given - _FIELDS[action]):
            problem = f"'{action}' does not know {', '.join(unknown)}"
            raise InvalidInput(what="filter", problem=problem)
        if action is BatchAction.DELETE and not given:
            raise InvalidInput(what="filter", problem="it would delete every thread")
        found: list[str] = []
        async for id_ in self._search(action, wanted):
            if len(found) == ITEMS_MAX:
                return BatchTargets(ids=tuple(found), has_more=True)
            found.append(id_)
        return BatchTargets(ids=tuple(found))

    async def act(
        self,
        action: BatchAction,
        ids: tuple[str, ...],
        decision: ToolCallResume | None = None,
        arguments_hashes: Mapping[str, str] | None = None,
    ) -> tuple[BatchReceipt, ...]:
        """Act on each object; an error of the runtime is that object's receipt.

        With `arguments_hashes`, a ticket is decided only if it has the arguments of that hash.
        """
        perform = self._performer(action, decision, arguments_hashes)
        receipts = []
        for id_ in dict.fromkeys(ids):
            try:
                is_done = await perform(id_)
            except AwakenError as error:
                refused = BatchReceipt(id=id_, status="refused", code=error.code, error=str(error))
                receipts.append(refused)
            else:
                receipts.append(BatchReceipt(id=id_, status="done" if is_done else "skipped"))
        return tuple(receipts)

    def _performer(
        self,
        action: BatchAction,
        decision: ToolCallResume | None,
        hashes: Mapping[str, str] | None,
    ) -> Callable[[str], Awaitable[bool]]:
        async def decide(ticket_id: str) -> bool:
            if decision is None:
                raise InvalidInput(what="decision", problem="it is missing")
            ticket = (await self._open_tickets()).get(ticket_id)
            if ticket is None:
                raise UnknownTicket(ticket_id=ticket_id)
            seen = decision
            if hashes is not None:
                # A ticket without a hash was not seen: no hash equals the empty one.
                expected = hashes.get(ticket_id, "")
                seen = msgspec.structs.replace(decision, arguments_hash=expected)
            run = await self._view.run(ticket.run_id)
            await self._view.decide(run, {ticket_id: seen})
            return True

        async def replay(dispatch_id: str) -> bool:
            await self._deliveries.replay(dispatch_id)
            return True

        async def retry(entry_id: str) -> bool:
            await self._deliveries.retry_outbox(entry_id)
            return True

        async def delete(thread_id: str) -> bool:
            await self._view.delete_thread(thread_id, DeleteStrategy.DETACH)
            return True

        match action:
            case BatchAction.CANCEL:
                return self._view.cancel_run
            case BatchAction.DECIDE:
                return decide
            case BatchAction.REPLAY:
                return replay
            case BatchAction.RETRY:
                return retry
            case BatchAction.DELETE:
                return delete

    async def check(self, action: BatchAction, id_: str) -> BatchReceipt:
        """Say what a dry run would do to an object that was named by its id."""
        try:
            match action:
                case BatchAction.CANCEL:
                    await self._view.run(id_)
                case BatchAction.DECIDE:
                    if id_ not in await self._open_tickets():
                        raise UnknownTicket(ticket_id=id_)
                case BatchAction.REPLAY:
                    await self._deliveries.find(id_)
                case BatchAction.RETRY:
                    dead = [it async for it in self._dead_commands(BatchFilter())]
                    if id_ not in dead:
                        raise RecordNotFound(kind="Dead order", record_id=id_)
                case BatchAction.DELETE:
                    await self._view.thread(id_)
        except AwakenError as error:
            return BatchReceipt(id=id_, status="refused", code=error.code, error=str(error))
        return BatchReceipt(id=id_, status="planned")

    async def _open_tickets(self) -> dict[str, Ticket]:
        if self._tickets is None:
            self._tickets = {it.ticket_id: it for it in await self._view.tickets()}
        return self._tickets

    def _search(self, action: BatchAction, wanted: BatchFilter) -> AsyncIterator[str]:
        match action:
            case BatchAction.CANCEL:
                return self._runs(wanted)
            case BatchAction.DECIDE:
                return self._decidable(wanted)
            case BatchAction.REPLAY:
                return self._dead_letters(wanted)
            case BatchAction.RETRY:
                return self._dead_commands(wanted)
            case BatchAction.DELETE:
                return self._threads(wanted)

    async def _runs(self, wanted: BatchFilter) -> AsyncIterator[str]:
        for status in _OPEN:
            query = RunQuery(status=status, thread_id=wanted.thread_id, limit=LIMIT_MAX)
            while True:
                page = await self._view.runs(query)
                for run in page.items:
                    if wanted.agent_id in (None, run.agent_id, run.active_agent_id):
                        yield run.run_id
                if page.next_cursor is None:
                    break
                query = at_cursor(query, page.next_cursor)

    async def _decidable(self, wanted: BatchFilter) -> AsyncIterator[str]:
        agents: dict[str, set[str | None]] = {}
        for ticket in (await self._open_tickets()).values():
            if wanted.thread_id not in (None, ticket.thread_id):
                continue
            if wanted.tool not in (None, ticket.tool_name):
                continue
            if wanted.agent_id is not None:
                if ticket.run_id not in agents:
                    run = await self._view.run(ticket.run_id)
                    agents[ticket.run_id] = {run.agent_id, run.active_agent_id}
                if wanted.agent_id not in agents[ticket.run_id]:
                    continue
            yield ticket.ticket_id

    async def _dead_letters(self, wanted: BatchFilter) -> AsyncIterator[str]:
        chosen = DeliveryFilter(
            status=DispatchStatus.DEAD_LETTER,
            agent_id=wanted.agent_id,
            thread_id=wanted.thread_id,
        )
        offset: int | None = 0
        while offset is not None:
            page = await self._deliveries.search(chosen, offset, LIMIT_MAX)
            for dispatch in page.items:
                yield dispatch.dispatch_id
            offset = page.next_offset

    async def _dead_commands(self, wanted: BatchFilter) -> AsyncIterator[str]:
        offset = 0
        while True:
            page = await self._deliveries.list_dead_outbox(wanted.thread_id, offset=offset)
            for entry in page.items:
                yield entry.entry_id
            offset += len(page.items)
            if not page.has_more:
                return

    async def _threads(self, wanted: BatchFilter) -> AsyncIterator[str]:
        query = ThreadQuery(resource_id=wanted.resource_id, limit=LIMIT_MAX)
        while True:
            page = await self._view.threads(query)
            for thread in page.items:
                updated_at = thread.metadata.updated_at or 0
                if wanted.updated_before is None or updated_at < wanted.updated_before:
                    yield thread.id
            if not page.has_more:
                return
            query = msgspec.structs.replace(query, offset=query.offset + len(page.items))
