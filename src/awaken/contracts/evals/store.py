"""The port of the store of datasets, evals and scores."""

from collections.abc import Sequence
from typing import Protocol

from awaken.contracts.record import Record

from .cases import DatasetRevision
from .eval_runs import EvalItem, EvalRecord
from .scores import ScoreSource, StoredScore


class ScoreQuery(Record, frozen=True, kw_only=True):
    """Which scores, newest first."""

    run_id: str | None = None
    scorer: str | None = None
    source: ScoreSource | None = None
    since: int | None = None
    tenant_id: str | None = None
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
    """Datasets, evals and scores; everything is durable when a method returns."""

    async def put_eval_objects(self, objects: dict[str, bytes]) -> None:
        """Keep objects under their hashes; those that are there already are left alone."""
        ...

    async def load_eval_objects(self, hashes: Sequence[str]) -> dict[str, bytes]:
        """Return the objects that exist, by hash."""
        ...

    async def save_dataset(self, revision: DatasetRevision, expected: int) -> None:
        """Add a revision after the expected one (0: there is none yet).

        Raises:
            DatasetConflict: Another revision is the newest; nothing was written.
        """
        ...

    async def load_dataset(
        self, dataset_id: str, revision: int | None = None
    ) -> DatasetRevision | None:
        """Return a revision, the newest one unless given; deleted datasets are returned too."""
        ...

    async def list_datasets(self, tenant_id: str | None = None) -> tuple[DatasetRevision, ...]:
        """Return the newest revision of each dataset that is not deleted, by id."""
        ...

    async def list_dataset_revisions(self, dataset_id: str) -> tuple[DatasetRevision, ...]:
        """Return all revisions, newest first."""
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

    async def put_eval_item(self, eval_id: str, item: EvalItem) -> bool:
        """Write an item once; returns False if its place has one already, which stays."""
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
