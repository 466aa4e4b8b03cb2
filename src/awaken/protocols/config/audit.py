"""Routes of the audit: who changed what, and the proof that it was not changed."""

from datetime import UTC, datetime

from msgspec import UNSET

from awaken.contracts.config.audit import AuditEvent, AuditQuery
from awaken.managed.configuration import ManagedConfig
from awaken.transport.asgi import Reply, as_json
from awaken.transport.problems import HttpError
from awaken.transport.routes import RouteCall

from .bodies import AuditFilter
from .views import AuditItem, AuditPage


class AuditRoutes:
    """The operations on the audit of one configuration."""

    def __init__(self, managed: ManagedConfig) -> None:
        self._audit = managed.audit

    async def list_events(self, call: RouteCall) -> Reply:
        """List audit events, newest first."""
        given: AuditFilter = call.query
        query = AuditQuery(
            resource=given.resource,
            action=given.action,
            actor=given.actor,
            since=_read_time(given.since),
            until=_read_time(given.until),
            before_no=_read_cursor(given.cursor),
            limit=given.limit,
        )
        rows = await self._audit.list_events(query)
        await self._audit.preload_bodies(rows)
        items = tuple([await self._show(it.event) for it in rows])
        is_last = len(rows) < given.limit
        return as_json(AuditPage(items=items, next_cursor=UNSET if is_last else str(rows[-1].no)))

    async def verify_chain(self, _call: RouteCall) -> Reply:
        """Walk the chain of audit events, and tell whether one was changed."""
        return as_json(await self._audit.verify())

    async def _show(self, event: AuditEvent) -> AuditItem:
        return AuditItem(
            id=event.id,
            ts=_write_time(event.at),
            actor=event.actor,
            action=event.action,
            resource=event.resource,
            ip=event.ip,
            request_id=event.request_id,
            restored_from=event.restored_from,
            error=event.error,
            publication=event.publication,
            message=event.message,
            details=event.details,
            **await self._audit.load_bodies(event),
        )


def _write_time(at: int) -> str:
    moment = datetime.fromtimestamp(at / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _read_time(given: str | None) -> int | None:
    if given is None:
        return None
    if given.isascii() and given.isdecimal() and len(given) < 16:
        return int(given)
    try:
        moment = datetime.fromisoformat(given)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        message = "since and until are RFC 3339 times with a zone, or milliseconds."
        raise HttpError(400, "invalid_query", message)
    return int(moment.timestamp() * 1000)


def _read_cursor(given: str | None) -> int | None:
    if given is None:
        return None
    if not (given.isascii() and given.isdecimal() and 0 < len(given) < 19):
        raise HttpError(400, "invalid_cursor", "invalid cursor")
    return int(given)
