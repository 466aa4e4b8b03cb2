"""Deliveries of input, dead letters, and outbox commands that were given up."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from awaken.contracts.config.audit import AuditAction
from awaken.contracts.record import Record, StrictRecord
from awaken.contracts.storage.dispatch import DispatchStatus, InputMode, RunDispatch
from awaken.contracts.storage.store import OutboxEntry
from awaken.services.dispatches import DeliveryFilter, hide_payload, show_payload, thread_of
from awaken.transport.asgi import Reply, as_json
from awaken.transport.problems import HttpError
from awaken.transport.routes import RouteCall

from .context import DEFAULT_PAGE, Id, OperatorContext, OperatorList, PageSize, Place

_STATUSES = {it.title().replace("_", ""): it for it in DispatchStatus}
_ANY_STATUS = _STATUSES | {it.value: it for it in DispatchStatus}


class DispatchesQuery(StrictRecord, frozen=True, kw_only=True):
    """Deliveries by status (`Queued` or `queued`, `DeadLetter` or `dead_letter`, …) and agent."""

    status: Annotated[str, Meta(extra_json_schema={"enum": list(_ANY_STATUS)})] | None = None
    agent: Id | None = None
    thread_id: Id | None = None
    cursor: Place = 0
    limit: PageSize = DEFAULT_PAGE


class OutboxQuery(StrictRecord, frozen=True, kw_only=True):
    """Commands about a thread, or about all."""

    thread_id: Id | None = None
    cursor: Place = 0
    limit: PageSize = DEFAULT_PAGE


class DeliveryView(Record, frozen=True, kw_only=True):
    """One delivery of input; times in milliseconds."""

    dispatch_id: str
    thread_id: str
    run_id: str
    agent_id: str | None = None
    tenant_id: str | None = None
    taken_by: str | None = None
    mode: InputMode
    status: str
    """`Queued`, `Claimed`, `Acked`, `Cancelled`, `Superseded` or `DeadLetter`."""
    priority: int
    dedupe_key: str | None = None
    dispatch_epoch: int
    attempt_count: int
    max_attempts: int
    last_error: str | None = None
    claimed_by: str | None = None
    lease_until: int | None = None
    cancel_cause: str | None = None
    available_at: int
    completed_at: int | None = None
    created_at: int
    updated_at: int


class DeliveryDetail(DeliveryView, frozen=True, kw_only=True):
    """One delivery with what it brings."""

    payload: dict[str, Any]
    """Its `messages`; also `decisions`, the run that they continue, and other options it has."""


class Replayed(msgspec.Struct, frozen=True, kw_only=True):
    """A dead letter that was queued again, under a new id."""

    dispatch_id: str
    run_id: str
    thread_id: str
    replays: str


class CancelledDelivery(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a delivery was cancelled; `skipped` if it was over already."""

    dispatch_id: str
    status: str


class CommandView(Record, frozen=True, kw_only=True):
    """An outbox command: what a commit asked for outside of its thread."""

    id: str
    kind: str
    thread_id: str | None = None
    attempts: int
    due_at: int
    """When it was given up, or when it is tried next."""
    error: str | None = None
    is_dead: bool
    payload: Any = None


class DispatchRoutes:
    """Lists deliveries and outbox commands, and tries them again."""

    def __init__(self, context: OperatorContext) -> None:
        self._context = context

    async def list_dispatches(self, call: RouteCall) -> Reply:
        """List deliveries of input, oldest first; for a tenant, its own."""
        asked: DispatchesQuery = call.query
        if asked.status is not None and asked.status not in _ANY_STATUS:
            raise HttpError(400, "invalid_query", f"invalid status filter: {asked.status}")
        wanted = DeliveryFilter(
            status=None if asked.status is None else _ANY_STATUS[asked.status],
            agent_id=asked.agent,
            thread_id=asked.thread_id,
        )
        deliveries = self._context.deliveries(call)
        page = await deliveries.search(wanted, asked.cursor, asked.limit)
        cursor = None if page.next_offset is None else str(page.next_offset)
        return as_json(OperatorList(items=tuple(map(_view, page.items)), next_cursor=cursor))

    async def get_dispatch(self, call: RouteCall) -> Reply:
        """Get a delivery with its payload; for a tenant, one of its own."""
        dispatch = await self._context.deliveries(call).find(call.path["dispatch_id"])
        fields = msgspec.structs.asdict(_view(dispatch))
        return as_json(DeliveryDetail(payload=show_payload(dispatch), **fields))

    async def replay(self, call: RouteCall) -> Reply:
        """Queue a dead letter again, with all its attempts; possible once."""
        dispatch_id, deliveries = call.path["dispatch_id"], self._context.deliveries(call)
        dead = await deliveries.find(dispatch_id)
        resource = f"dispatches/{dispatch_id}"
        await self._context.audit(
            call, AuditAction.REPLAY_DEAD, resource, thread_id=dead.thread_id, run_id=dead.run_id
        )
        receipt = await deliveries.replay(dispatch_id)
        replayed = Replayed(
            dispatch_id=receipt.dispatch_id,
            run_id=receipt.run_id,
            thread_id=receipt.thread_id,
            replays=dispatch_id,
        )
        return as_json(replayed, 202)

    async def cancel(self, call: RouteCall) -> Reply:
        """Cancel a delivery, and the run that it started."""
        dispatch_id, deliveries = call.path["dispatch_id"], self._context.deliveries(call)
        found = await deliveries.find(dispatch_id)
        await self._context.audit(
            call, AuditAction.CANCEL, f"dispatches/{dispatch_id}", run_id=found.run_id
        )
        is_done = await deliveries.cancel(dispatch_id)
        status = "cancel_requested" if is_done else "skipped"
        return as_json(CancelledDelivery(dispatch_id=dispatch_id, status=status), 202)

    async def list_dead_outbox(self, call: RouteCall) -> Reply:
        """List outbox commands that were given up, oldest first; for a tenant, its own."""
        asked: OutboxQuery = call.query
        page = await self._context.deliveries(call).list_dead_outbox(
            asked.thread_id, offset=asked.cursor, limit=asked.limit
        )
        end = asked.cursor + len(page.items)
        items = tuple(_command(it, call.view.tenant_id) for it in page.items)
        cursor = str(end) if page.has_more else None
        return as_json(OperatorList(items=items, next_cursor=cursor))

    async def retry_outbox(self, call: RouteCall) -> Reply:
        """Try an outbox command again that was given up, with all its attempts."""
        entry_id = call.path["entry_id"]
        await self._context.audit(call, AuditAction.RETRY_OUTBOX, f"outbox/{entry_id}")
        entry = await self._context.deliveries(call).retry_outbox(entry_id)
        return as_json(_command(entry, None), 202)


def _view(dispatch: RunDispatch) -> DeliveryView:
    fields = {
        name: getattr(dispatch, name)
        for name in DeliveryView.__struct_fields__
        if name not in ("agent_id", "tenant_id", "status")
    }
    return DeliveryView(
        agent_id=dispatch.request.agent_id,
        tenant_id=dispatch.request.tenant_id,
        status=dispatch.status.title().replace("_", ""),
        **fields,
    )


def _command(entry: OutboxEntry, tenant_id: str | None) -> CommandView:
    shown = entry if tenant_id is None else hide_payload(entry)
    return CommandView(
        id=entry.entry_id,
        kind=entry.kind,
        thread_id=thread_of(entry) if tenant_id is None else None,
        attempts=entry.attempts,
        due_at=entry.due_at,
        error=entry.error,
        is_dead=entry.is_dead,
        payload=shown.payload,
    )
