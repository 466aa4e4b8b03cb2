"""The search for damage in managed configuration: records, hashes of objects, the audit chain."""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import msgspec

from awaken.contracts.config.audit import AuditAnchor, find_broken_link
from awaken.contracts.config.publications import hash_object
from awaken.contracts.errors import CorruptRecord
from awaken.stores.sql import config_rows

from .connection import STATEMENTS


class Inspection(Protocol):
    """A check of a file that is under way."""

    problems: list[str]

    def read(
        self,
        kind: str,
        blob: bytes,
        decoder: "msgspec.json.Decoder[Any]",
        what: str,
        *,
        beside: Sequence[Any] = (),
    ) -> Any:
        """Read a record; a damaged one is a problem, and None."""
        ...

    def select(self, kind: str, statement: str, *args: Any) -> Iterator[Any]:
        """Return rows; what cannot be read is a problem."""
        ...

    def begin(self, *kinds: str) -> None:
        """Count records of these kinds."""
        ...

    def count(self, kind: str) -> None:
        """Count one more record that was read."""
        ...


def check_config(inspection: Inspection) -> None:
    """Read every record of managed configuration."""
    inspection.begin("config_heads", "config_objects", "config_publications", "config_drafts")
    inspection.begin("config_secrets", "config_requests", "audit_events")
    select, read = inspection.select, inspection.read
    for blob, *beside in select("config_heads", STATEMENTS["find_config_head"]):
        what = "The head of the configuration"
        read("config_heads", blob, config_rows.HEAD, what, beside=beside)
    statement = "SELECT no, record, contents FROM config_publications"
    for no, record, contents in select("config_publications", statement):
        what = f"Publication {no}"
        read("config_publications", record, config_rows.PUBLICATION, what, beside=(no,))
        _read_contents(inspection, no, contents)
    for blob, name, revision in select("config_drafts", STATEMENTS["list_drafts"]):
        what = f"Draft '{name}'"
        read("config_drafts", blob, config_rows.DRAFT, what, beside=(name, revision))
    for _ in select("config_secrets", "SELECT ref FROM config_secrets"):
        inspection.count("config_secrets")
    for _ in select("config_requests", "SELECT idempotency_key FROM config_requests"):
        inspection.count("config_requests")
    _read_objects(inspection)
    _read_audit(inspection)


def _read_contents(inspection: Inspection, no: int, contents: bytes) -> None:
    try:
        config_rows.read_contents(no, contents)
    except CorruptRecord as error:
        inspection.problems.append(str(error))


def _read_objects(inspection: Inspection) -> None:
    for row in inspection.select("config_objects", "SELECT hash, body FROM config_objects"):
        try:
            name, body = config_rows.read_object(row)
        except CorruptRecord as error:
            inspection.problems.append(str(error))
            continue
        if hash_object(body) != name:
            inspection.problems.append(f"Object '{name}': it is not the hash of its body")
        else:
            inspection.count("config_objects")


def _read_audit(inspection: Inspection) -> None:
    """Read every audit event, and compare each link of the chain."""
    states = list(inspection.select("audit_events", STATEMENTS["find_config_state"]))
    if not states:
        inspection.problems.append("The audit: the row of its chain is missing")
        return
    state = config_rows.read_state(states[0])
    last, is_whole = state.audit_anchor, True
    statement = "SELECT no, chain, record FROM config_audit ORDER BY no"
    for row in inspection.select("audit_events", statement):
        try:
            event = config_rows.read_audit(row)
        except CorruptRecord as error:
            inspection.problems.append(str(error))
            is_whole = False
            continue
        inspection.count("audit_events")
        # One problem for the chain: after a link that is wrong, all others may be.
        if is_whole and (broken := find_broken_link(last, [event])) is not None:
            inspection.problems.append(f"The audit: its chain is broken at event {broken}")
            is_whole = False
        last = AuditAnchor(no=event.no, chain=event.chain)
    if is_whole and last != state.audit_end:
        problem = f"it ends with event {last.no}, not {state.audit_end.no}"
        inspection.problems.append(f"The audit: {problem}")
