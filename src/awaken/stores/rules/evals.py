"""The rules by which every store keeps datasets, evals and scores."""

from collections.abc import Mapping, Sequence
from math import isfinite

from msgspec.structs import replace

from awaken.contracts.config.publications import hash_object
from awaken.contracts.errors import CorruptRecord, InvalidRecord
from awaken.contracts.evals.cases import DatasetRevision
from awaken.contracts.evals.errors import DatasetConflict
from awaken.contracts.evals.eval_runs import EvalItem
from awaken.contracts.evals.store import EvalObjectSource, SourceQuery

NUMBER_MAX = (1 << 32) - 1
VALUE_MAX = 1_000_000
_OTHER_HASH = "its hash is not that of its bytes"
BILLION = 1_000_000_000


def check_objects(objects: Mapping[str, bytes], sources: Sequence[EvalObjectSource]) -> None:
    """Check that objects are kept under their own hashes.

    Raises:
        InvalidRecord: One is not, or a source names none of them.
    """
    for name, body in objects.items():
        if hash_object(body) != name:
            raise InvalidRecord(
                what=f"Object '{name}'", problem="its hash is not that of its bytes"
            )
    for source in sources:
        if source.hash not in objects:
            raise InvalidRecord(what=f"Object '{source.hash}'", problem="it has a source, no bytes")


def check_loaded_object(name: str, body: bytes) -> bytes:
    """Return the bytes of an object.

    Raises:
        CorruptRecord: They are not those of its hash.
    """
    if hash_object(body) != name:
        raise CorruptRecord(what=f"Object '{name}'", problem=_OTHER_HASH)
    return body


def check_source_query(query: SourceQuery) -> None:
    """Check that a query of sources is about something.

    Raises:
        InvalidRecord: It names neither a thread nor a user.
    """
    if query.thread_id is None and query.user_id is None:
        raise InvalidRecord(what="SourceQuery", problem="it names neither a thread nor a user")


def follow_revision(revision: DatasetRevision, expected: int, newest: int) -> DatasetRevision:
    """Return a revision as it is stored after the newest one.

    Raises:
        DatasetConflict: The newest is not the expected one.
        InvalidRecord: The revision is not the one after the expected one.
    """
    if newest != expected:
        raise DatasetConflict(dataset_id=revision.dataset_id, expected=expected, actual=newest)
    if not revision.dataset_id or revision.revision != expected + 1:
        problem = f"it is revision {revision.revision}; the next one is {expected + 1}"
        raise InvalidRecord(what=f"Dataset '{revision.dataset_id}'", problem=problem)
    return replace(revision, case_count=len(revision.cases))


def leave_cases_out(revision: DatasetRevision) -> DatasetRevision:
    """Return a revision as lists have it."""
    return replace(revision, cases=())


def check_item(item: EvalItem) -> None:
    """Check that an item has a place.

    Raises:
        InvalidRecord: Its number is negative, or has more than 32 bits.
    """
    if not 0 <= item.number <= NUMBER_MAX:
        raise InvalidRecord(what=f"Item {item.number}", problem="numbers are 0 to 2^32 - 1")


def scale_value(value: float | None) -> int | None:
    """Return the value of a score in billionths, as lists compare it.

    Raises:
        InvalidRecord: It is not a finite number: a missing value is None.
    """
    if value is None:
        return None
    if not isfinite(value) or abs(value) > VALUE_MAX:
        raise InvalidRecord(what=f"Value {value}", problem="give a number, or none at all")
    return round(value * BILLION)
