"""The audit as people read it, and the proof that it was not changed."""

from collections.abc import Iterable
from typing import Any

from awaken.contracts.config.audit import AuditAction, AuditEvent, AuditQuery, AuditRow, next_link
from awaken.contracts.config.kinds import RecordMeta
from awaken.contracts.config.store import ConfigWrite
from awaken.contracts.record import Record

from .parts import Author, ConfigParts

_PAGE = 500


class AuditProof(Record, frozen=True, kw_only=True):
    """How far the chain of audit events is intact."""

    is_intact: bool
    checked: int
    """How many events were checked."""
    first_no: int
    """The event after which the chain begins: older ones were pruned."""
    broken_at: int | None = None
    """The first event whose link does not follow from those before it."""


class ConfigAudit:
    """Reads audit events, and records those of acts that change no configuration."""

    def __init__(self, parts: ConfigParts) -> None:
        self._parts = parts

    async def list_events(self, query: AuditQuery) -> tuple[AuditRow, ...]:
        """Return audit events, newest first."""
        return await self._parts.store.list_audit(query)

    async def preload_bodies(self, rows: Iterable[AuditRow]) -> None:
        """Read the bodies of many events at once, for `load_bodies` of each."""
        hashes = (it for row in rows for it in (row.event.before, row.event.after))
        await self._parts.reader.load_bodies(it for it in hashes if it is not None)

    async def load_bodies(self, event: AuditEvent) -> dict[str, Any]:
        """Return the record before and after an event in HTTP form, as far as they are kept."""
        hashes = {
            name: value
            for name, value in (("before", event.before), ("after", event.after))
            if value
        }
        namespace, _, record_id = event.resource.partition("/")
        kind = self._parts.kinds.get(namespace)
        if kind is None or not hashes:
            return {}
        bodies = await self._parts.reader.load_bodies(hashes.values())
        meta = RecordMeta(namespace=namespace, id=record_id, source="user")

        def show(body: dict[str, Any]) -> dict[str, Any]:
            # A patch on a record of the code has no id, and is shown as it is.
            is_whole = "id" in body or "name" in body
            return kind.to_wire(body, meta) if is_whole else body

        return {name: show(bodies[value]) for name, value in hashes.items() if value in bodies}

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
        """Write an event of an act; the caller acts only after this returned.

        Raises:
            StorageError: It could not be written.
        """
        author = Author(id=actor, ip=ip, request_id=request_id)
        event = self._parts.make_event(author, action, resource, details=details)
        await self._parts.store.write_config(ConfigWrite(audit=(event,)))

    async def verify(self) -> AuditProof:
        """Walk the whole chain, and find the first event that was changed, added or removed."""
        anchor = await self._parts.store.find_audit_anchor()
        end = await self._parts.store.find_audit_end()
        last, link, checked = anchor.no, anchor.chain, 0
        while rows := await self._parts.store.read_audit_chain(after=last, limit=_PAGE):
            for row in rows:
                link = next_link(link, row.event)
                if link != row.chain or row.no != last + 1:
                    return AuditProof(
                        is_intact=False, checked=checked, first_no=anchor.no, broken_at=row.no
                    )
                last, checked = row.no, checked + 1
        # Events that were written meanwhile lie after the end; those before it must be there.
        broken_at = last + 1 if last < end.no else None
        return AuditProof(
            is_intact=broken_at is None, checked=checked, first_no=anchor.no, broken_at=broken_at
        )
