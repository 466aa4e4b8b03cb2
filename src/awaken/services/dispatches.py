"""Deliveries of input and outbox commands: to list, to try again, to cancel.

For a tenant, deliveries and commands of other tenants do not exist.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from awaken.contracts.errors import RecordNotFound
from awaken.contracts.identity import normalize_id
from awaken.contracts.record import Record
from awaken.contracts.storage.dispatch import DispatchStatus, RunDispatch
from awaken.contracts.storage.queries import LIMIT_MAX, DispatchQuery, Page, page_of
from awaken.contracts.storage.store import OutboxEntry
from awaken.contracts.tenancy import namespace_of
from awaken.mailbox.mailbox import Mailbox
from awaken.mailbox.receipts import SubmitReceipt

from .step_requests import HIDDEN
from .tenant_ids import hide_namespace

SCAN_MAX = 5_000
"""How many deliveries one page looks at: a filter may match few of them."""


class DeliveryFilter(Record, frozen=True, kw_only=True):
    """Deliveries by status, by the agent that they name, and by thread."""

    status: DispatchStatus | None = None
    agent_id: str | None = None
    thread_id: str | None = None


class DeliveryPage(Record, frozen=True, kw_only=True):
    """Deliveries, oldest first, and where the next page begins; None after the last one."""

    items: tuple[RunDispatch, ...]
    next_offset: int | None = None


class Deliveries:
    """The deliveries and outbox commands of a store, or those of one tenant."""

    def __init__(
        self,
        mailbox: Mailbox,
        tenant_id: str | None = None,
        on_queued: Callable[[], None] | None = None,
    ) -> None:
        self._mailbox = mailbox
        self._store = mailbox.services.store
        self._tenant_id = normalize_id(tenant_id)
        self._namespace = namespace_of(tenant_id)
        self._on_queued = on_queued
        """Called when something was queued, so that a worker executes it."""

    async def list_page(self, query: DispatchQuery) -> Page[RunDispatch]:
        """List the deliveries of all tenants by thread and status, oldest first."""
        return await self._store.list_dispatches(query)

    async def search(self, wanted: DeliveryFilter, offset: int, limit: int) -> DeliveryPage:
        """List deliveries from an offset on.

        A page looks at `SCAN_MAX` deliveries at most, so that it may be shorter than `limit`
        although others follow.
        """
        found: list[RunDispatch] = []
        place = offset
        while len(found) < limit and place - offset < SCAN_MAX:
            query = DispatchQuery(
                status=wanted.status,
                thread_id=self._stored(wanted.thread_id),
                offset=place,
                limit=LIMIT_MAX,
            )
            page = await self._store.list_dispatches(query)
            for dispatch in page.items:
                place += 1
                if self._is_wanted(dispatch, wanted):
                    found.append(dispatch)
                    if len(found) == limit:
                        break
            if page.total is None or place >= page.total or not page.items:
                return DeliveryPage(items=self._shown(found))
        return DeliveryPage(items=self._shown(found), next_offset=place)

    async def find(self, dispatch_id: str) -> RunDispatch:
        """Find a delivery.

        Raises:
            RecordNotFound: There is none.
        """
        dispatch = await self._mailbox.status(dispatch_id)
        if dispatch is None or not self._is_own(dispatch):
            raise RecordNotFound(kind="Dispatch", record_id=dispatch_id)
        return hide_namespace(self._namespace, dispatch)

    async def replay(self, dispatch_id: str) -> SubmitReceipt:
        """Queue a dead letter again, with all its attempts; possible once.

        Raises:
            RecordNotFound: There is no such delivery.
            IllegalTransition: It is not a dead letter.
            InvalidResume: It continues a run that has ended.
        """
        receipt = await self._mailbox.replay_dead_letter(dispatch_id)
        if self._on_queued is not None:
            self._on_queued()
        return receipt

    async def cancel(self, dispatch_id: str) -> bool:
        """Cancel a delivery, and the run that it started; False when it is over.

        Raises:
            RecordNotFound: There is no such delivery.
        """
        await self.find(dispatch_id)
        return await self._mailbox.cancel(dispatch_id, "operator")

    async def list_dead_outbox(
        self, thread_id: str | None = None, *, offset: int = 0, limit: int = LIMIT_MAX
    ) -> Page[OutboxEntry]:
        """List the outbox commands that were given up, oldest first."""
        found = await self._mailbox.list_dead_orders(self._stored(thread_id))
        own = tuple(it for it in found if self._is_own_command(it))
        query = DispatchQuery(thread_id=thread_id, offset=offset, limit=limit)
        return page_of(own[query.offset : query.offset + query.limit], len(own), query)

    async def retry_outbox(self, entry_id: str) -> OutboxEntry:
        """Try an outbox command again that was given up, with all its attempts.

        Raises:
            RecordNotFound: No command with that id was given up.
        """
        return await self._mailbox.retry_order(entry_id)

    def _stored(self, thread_id: str | None) -> str | None:
        if thread_id is None or thread_id.startswith(self._namespace):
            return thread_id
        return self._namespace + thread_id

    def _is_own(self, dispatch: RunDispatch) -> bool:
        if self._tenant_id is None:
            return True
        return normalize_id(dispatch.request.tenant_id) == self._tenant_id

    def _is_wanted(self, dispatch: RunDispatch, wanted: DeliveryFilter) -> bool:
        is_meant = wanted.agent_id in (None, dispatch.request.agent_id)
        return is_meant and self._is_own(dispatch)

    def _is_own_command(self, entry: OutboxEntry) -> bool:
        if not self._namespace:
            return True
        thread_id = thread_of(entry)
        return thread_id is not None and thread_id.startswith(self._namespace)

    def _shown(self, found: list[RunDispatch]) -> tuple[RunDispatch, ...]:
        return hide_namespace(self._namespace, tuple(found))


def thread_of(entry: OutboxEntry) -> str | None:
    """Return the thread that an outbox command is about, by its stored id."""
    payload = entry.payload if isinstance(entry.payload, dict) else {}
    thread_id = payload.get("thread_id") or payload.get("parent_thread_id")
    return thread_id if isinstance(thread_id, str) else None


def show_payload(dispatch: RunDispatch) -> dict[str, Any]:
    """Return what a delivery brings, as JSON; options for a provider are hidden: may be secrets."""
    request = dispatch.request
    shown: dict[str, Any] = {"messages": msgspec.to_builtins(request.messages)}
    if request.decisions:
        shown["decisions"] = [
            {"ticket_id": ticket_id, **msgspec.to_builtins(decision)}
            for ticket_id, decision in request.decisions
        ]
    if request.continue_run_id is not None:
        shown["continue_run_id"] = request.continue_run_id
    if request.frontend_tools:
        shown["frontend_tools"] = [it.id for it in request.frontend_tools]
    if request.overrides is not None:
        overrides = shown["overrides"] = msgspec.to_builtins(request.overrides)
        if options := overrides.get("provider_options"):
            overrides["provider_options"] = dict.fromkeys(options, HIDDEN)
    return shown


def hide_payload(entry: OutboxEntry) -> OutboxEntry:
    """Return an outbox command without what it sends, which may hold ids of other threads."""
    return msgspec.structs.replace(entry, payload=None)
