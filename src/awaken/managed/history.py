"""Earlier versions: of a record, and what going back to an earlier publication undoes."""

from awaken.contracts.config.audit import AuditAction, AuditQuery
from awaken.contracts.config.errors import VersionNotFound, VersionUnusable
from awaken.contracts.config.publications import ManifestEntry, Publication
from awaken.contracts.config.store import ConfigStore

from .change_sets import EarlierRecord

Place = tuple[str, str]
"""Namespace and id of a record."""

_PAGE = 200
UNDONE_MAX = 200
"""How many publications a list of what is undone has at most."""


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


async def list_undone(store: ConfigStore, live: int, earlier: int) -> tuple[Publication, ...]:
    """Return what going back from a publication to an earlier one undoes, newest first.

    These are the ancestors of the first that came after the second, at most `UNDONE_MAX`: what was
    tried beside them and never became live is not undone. Their manifests are left out.
    """
    undone: list[Publication] = []
    wanted: int | None = live
    before = live + 1
    while wanted is not None and wanted > earlier and before > earlier + 1:
        page = await store.list_publications(before=before, limit=_PAGE)
        for it in page:
            if it.no == wanted and it.no > earlier:
                undone.append(it)
                wanted = it.parent
        if not page or len(undone) >= UNDONE_MAX:
            break
        before = page[-1].no
    return tuple(undone[:UNDONE_MAX])


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
