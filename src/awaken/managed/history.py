"""Earlier versions of a record: found by publication, by audit event, or by object."""

from awaken.contracts.config.audit import AuditAction, AuditQuery
from awaken.contracts.config.errors import VersionNotFound, VersionUnusable
from awaken.contracts.config.publications import ManifestEntry
from awaken.contracts.config.store import ConfigStore

from .change_sets import EarlierRecord

Place = tuple[str, str]
"""Namespace and id of a record."""

_PAGE = 200


async def find_version(store: ConfigStore, place: Place, version: str) -> EarlierRecord:
    """Return a record as it was; the version of a deletion is what was deleted.

    Raises:
        VersionNotFound: There is no such version.
        VersionUnusable: The version is of another record, or has no body.
    """
    resource = "/".join(place)
    if version.isascii() and version.isdecimal() and len(version) < 16:
        publication = await store.load_publication(int(version))
        if publication is None:
            raise VersionNotFound(version=version)
        entry = publication.find_entry(*place)
        if entry is None:
            problem = f"publication {version} has no {resource}"
            raise VersionUnusable(version=version, problem=problem)
        return EarlierRecord(entry=entry)
    rows = await store.list_audit(AuditQuery(event_id=version, limit=1))
    if not rows:
        return await _find_object(store, place, version)
    event = rows[0].event
    if event.resource != resource:
        problem = f"the event is about {event.resource}"
        raise VersionUnusable(version=version, problem=problem)
    name = event.before if event.action is AuditAction.DELETE else event.after
    if name is None:
        raise VersionUnusable(version=version, problem="the event has no body")
    return await _find_object(store, place, name)


async def _find_object(store: ConfigStore, place: Place, name: str) -> EarlierRecord:
    """Return the newest entry in the record's history that has an object."""
    if not await store.load_objects((name,)):
        raise VersionNotFound(version=name)
    resource, before = "/".join(place), None
    while rows := await store.list_audit(
        AuditQuery(resource=resource, before_no=before, limit=_PAGE)
    ):
        for row in rows:
            event = row.event
            if name in (event.after, event.before) and event.publication is not None:
                entry = await _find_entry(store, event.publication, place, name)
                if entry is not None:
                    return EarlierRecord(entry=entry)
        before = rows[-1].no
    raise VersionUnusable(version=name, problem=f"the object is of no version of {resource}")


async def _find_entry(store: ConfigStore, no: int, place: Place, name: str) -> ManifestEntry | None:
    publication = await store.load_publication(no)
    if publication is None:
        return None
    changes = (it for it in publication.changes if (it.namespace, it.id) == place)
    entries = (entry for it in changes for entry in (it.after, it.before))
    return next((it for it in entries if it is not None and it.hash == name), None)
