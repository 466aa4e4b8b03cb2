"""The port of the store of datasets, evals and scores."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Protocol

import msgspec

from awaken.contracts.config.publications import encode_canonical, hash_object
from awaken.contracts.errors import InvalidRecord
from awaken.contracts.record import Record

from .cases import DatasetRevision
from .errors import EvalsUnavailable
from .eval_runs import EvalItem, EvalRecord
from .scores import ScoreSource, StoredScore


def encode_eval_object(value: Any) -> tuple[str, bytes]:
    """Return the hash and the canonical bytes of a case, a recording or a world.

    Equal values have equal bytes, in every process.

    Raises:
        InvalidRecord: The value has no JSON form, as a number that is none, or is nested too deep.
    """
    try:
        body = encode_canonical(msgspec.to_builtins(value))
        # JSON has no NaN, which the encoder above writes nevertheless.
        msgspec.json.decode(body, type=msgspec.Raw)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidRecord(what=type(value).__name__, problem=str(error)) from error
    return hash_object(body), body


class ObjectKind(StrEnum):
    """What an object of evals is."""

    CASE = "case"
    RECORDING = "recording"
    WORLD = "world"


class EvalObjectSource(Record, frozen=True, kw_only=True):
    """Whose conversation an object holds: found again when that thread or user is deleted."""

    hash: str
    kind: ObjectKind
    thread_id: str | None = None
    user_id: str | None = None
    tenant_id: str | None = None


class SourceQuery(Record, frozen=True, kw_only=True):
    """Which objects: those of a thread, of a user, or of both; a user is one of its tenant."""

    thread_id: str | None = None
    user_id: str | None = None
    tenant_id: str | None = None
    after: str = ""
    """The cursor: only objects with greater hashes."""
    limit: int = 1000


class ScoreQuery(Record, frozen=True, kw_only=True):
    """Which scores, newest first."""

    run_id: str | None = None
    scorer: str | None = None
    source: ScoreSource | None = None
    since: int | None = None
    tenant_id: str | None = None
    below: float | None = None
    """Only scores with a smaller value; those without a value are left out."""
    before_no: int | None = None
    """The cursor: only scores that were written before this one."""
    limit: int = 100


class EvalQuery(Record, frozen=True, kw_only=True):
    """Which evals, newest first."""

    dataset_id: str | None = None
    status: str | None = None
    tenant_id: str | None = None
    before_no: int | None = None
    limit: int = 100


class EvalStore(Protocol):
    """Datasets, evals and scores; everything is durable when a method returns.

    Ids are those of the whole store: a tenant's begin with its namespace, as those of threads do.
    """

    async def put_eval_objects(
        self, objects: dict[str, bytes], sources: Sequence[EvalObjectSource] = ()
    ) -> None:
        """Keep objects under their hashes, all or none; those that are there are left alone.

        Raises:
            InvalidRecord: A hash is not that of its bytes, or a source names no object of these;
                nothing was written.
        """
        ...

    async def load_eval_objects(self, hashes: Sequence[str]) -> dict[str, bytes]:
        """Return the objects that exist, by hash.

        Raises:
            CorruptRecord: The bytes of an object are not those of its hash.
        """
        ...

    async def list_eval_objects(self, *, after: str = "", limit: int = 1000) -> tuple[str, ...]:
        """Return the hashes of objects in order, those after a hash."""
        ...

    async def list_eval_sources(self, query: SourceQuery) -> tuple[EvalObjectSource, ...]:
        """Return which objects came from a thread or a user, by hash.

        Raises:
            InvalidRecord: The query names neither.
        """
        ...

    async def delete_eval_objects(self, hashes: Sequence[str]) -> int:
        """Remove objects with their sources for good; returns how many there were.

        Manifests keep their hashes, so that a revision still tells how many cases it had.
        """
        ...

    async def save_dataset(self, revision: DatasetRevision, expected: int) -> None:
        """Add a revision after the expected one (0: there is none yet).

        Raises:
            DatasetConflict: Another revision is the newest; nothing was written.
            InvalidRecord: It is not the one after the expected one.
        """
        ...

    async def load_dataset(
        self, dataset_id: str, revision: int | None = None
    ) -> DatasetRevision | None:
        """Return a revision, the newest one unless given; deleted datasets are returned too."""
        ...

    async def list_datasets(
        self, tenant_id: str | None = None, *, after: str = "", limit: int = 1000
    ) -> tuple[DatasetRevision, ...]:
        """Return the newest revision of each dataset that is not deleted, by id, without cases.

        `after` is the cursor: only datasets with greater ids.
        """
        ...

    async def list_dataset_revisions(
        self, dataset_id: str, *, before: int | None = None, limit: int = 1000
    ) -> tuple[DatasetRevision, ...]:
        """Return revisions, newest first, without cases."""
        ...

    async def delete_dataset(self, dataset_id: str) -> int:
        """Remove all revisions of a dataset for good; returns how many there were.

        What people delete keeps its revisions (`is_deleted`), because evals refer to them. The
        objects of cases stay, which other datasets may have too.
        """
        ...

    async def create_eval(self, record: EvalRecord) -> None:
        """Keep a new eval.

        Raises:
            EvalExists: Its id is taken; nothing was written.
        """
        ...

    async def update_eval(self, record: EvalRecord, was: str) -> bool:
        """Replace an eval if its status is still `was`; returns whether it was."""
        ...

    async def load_eval(self, eval_id: str) -> EvalRecord | None:
        """Return an eval, or None."""
        ...

    async def list_evals(self, query: EvalQuery) -> tuple[tuple[int, EvalRecord], ...]:
        """Return evals with their numbers, newest first."""
        ...

    async def delete_eval(self, eval_id: str) -> bool:
        """Remove an eval with its items for good; returns whether there was one."""
        ...

    async def put_eval_item(
        self, eval_id: str, item: EvalItem, scores: Sequence[StoredScore] = ()
    ) -> bool:
        """Write an item once, and its scores with it: both are there, or neither.

        Returns False if its place has an item already: that one and its scores stay.

        Raises:
            UnknownEval: There is no such eval; nothing was written.
            InvalidRecord: The item or a score is not allowed; nothing was written.
        """
        ...

    async def list_eval_items(
        self, eval_id: str, after: int = -1, limit: int = 1000
    ) -> tuple[EvalItem, ...]:
        """Return the items of an eval after a number, in the order of the plan."""
        ...

    async def add_scores(self, scores: Sequence[StoredScore]) -> tuple[StoredScore, ...]:
        """Add scores and return them with their numbers."""
        ...

    async def list_scores(self, query: ScoreQuery) -> tuple[StoredScore, ...]:
        """Return scores, newest first."""
        ...


def open_eval_store(store: object) -> EvalStore:
    """Return where a store keeps datasets, evals and scores; nothing is loaded before.

    Raises:
        EvalsUnavailable: It has no such place.
    """
    open_evals = getattr(store, "open_evals", None)
    if open_evals is None:
        raise EvalsUnavailable(store=str(getattr(store, "name", type(store).__name__)))
    opened: EvalStore = open_evals()
    return opened
