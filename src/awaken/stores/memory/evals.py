"""Datasets, evals and scores in this process's memory."""

from collections.abc import Sequence

from msgspec.structs import replace

from awaken.contracts.evals.cases import DatasetRevision
from awaken.contracts.evals.errors import EvalExists, UnknownEval
from awaken.contracts.evals.eval_runs import EvalItem, EvalRecord
from awaken.contracts.evals.scores import StoredScore
from awaken.contracts.evals.store import EvalObjectSource, EvalQuery, ScoreQuery, SourceQuery
from awaken.stores.rules import evals as rules


class EvalsInMemory:
    """An `EvalStore` that lives as long as this object. No method suspends."""

    def __init__(self) -> None:
        self._objects: dict[str, bytes] = {}
        self._sources: dict[str, set[EvalObjectSource]] = {}
        self._datasets: dict[str, list[DatasetRevision]] = {}
        self._evals: dict[str, tuple[int, EvalRecord]] = {}
        self._newest_eval = 0
        self._items: dict[str, dict[int, EvalItem]] = {}
        self._scores: list[StoredScore] = []

    async def put_eval_objects(
        self, objects: dict[str, bytes], sources: Sequence[EvalObjectSource] = ()
    ) -> None:
        """Keep objects under their hashes, all or none; those that are there are left alone."""
        rules.check_objects(objects, sources)
        for name, body in objects.items():
            self._objects.setdefault(name, body)
        for source in sources:
            self._sources.setdefault(source.hash, set()).add(source)

    async def load_eval_objects(self, hashes: Sequence[str]) -> dict[str, bytes]:
        """Return the objects that exist, by hash."""
        return {
            name: rules.check_loaded_object(name, self._objects[name])
            for name in hashes
            if name in self._objects
        }

    async def list_eval_objects(self, *, after: str = "", limit: int = 1000) -> tuple[str, ...]:
        """Return the hashes of objects in order, those after a hash."""
        found = sorted(name for name in self._objects if name > after)
        return tuple(found[: max(limit, 0)])

    async def list_eval_sources(self, query: SourceQuery) -> tuple[EvalObjectSource, ...]:
        """Return which objects came from a thread or a user, by hash."""
        rules.check_source_query(query)
        found = [
            it
            for name, sources in sorted(self._sources.items())
            if name > query.after
            for it in sorted(sources, key=lambda it: (it.thread_id or "", it.user_id or ""))
            if query.thread_id in (None, it.thread_id)
            and (
                query.user_id is None
                or (query.user_id, query.tenant_id) == (it.user_id, it.tenant_id)
            )
        ]
        return tuple(found[: max(query.limit, 0)])

    async def delete_eval_objects(self, hashes: Sequence[str]) -> int:
        """Remove objects with their sources for good; returns how many there were."""
        found = {name for name in hashes if name in self._objects}
        for name in found:
            del self._objects[name]
            self._sources.pop(name, None)
        return len(found)

    async def save_dataset(self, revision: DatasetRevision, expected: int) -> None:
        """Add a revision after the expected one (0: there is none yet)."""
        revisions = self._datasets.get(revision.dataset_id, [])
        made = rules.follow_revision(revision, expected, len(revisions))
        self._datasets[revision.dataset_id] = [*revisions, made]

    async def load_dataset(
        self, dataset_id: str, revision: int | None = None
    ) -> DatasetRevision | None:
        """Return a revision, the newest one unless given; deleted datasets are returned too."""
        revisions = self._datasets.get(dataset_id, [])
        no = len(revisions) if revision is None else revision
        return revisions[no - 1] if 1 <= no <= len(revisions) else None

    async def list_datasets(
        self, tenant_id: str | None = None, *, after: str = "", limit: int = 1000
    ) -> tuple[DatasetRevision, ...]:
        """Return the newest revision of each dataset that is not deleted, by id, without cases."""
        found = [
            rules.leave_cases_out(revisions[-1])
            for name, revisions in sorted(self._datasets.items())
            if name > after
            and not revisions[-1].is_deleted
            and tenant_id in (None, revisions[-1].tenant_id)
        ]
        return tuple(found[: max(limit, 0)])

    async def list_dataset_revisions(
        self, dataset_id: str, *, before: int | None = None, limit: int = 1000
    ) -> tuple[DatasetRevision, ...]:
        """Return revisions, newest first, without cases."""
        found = [
            rules.leave_cases_out(it)
            for it in reversed(self._datasets.get(dataset_id, []))
            if before is None or it.revision < before
        ]
        return tuple(found[: max(limit, 0)])

    async def delete_dataset(self, dataset_id: str) -> int:
        """Remove all revisions of a dataset for good; returns how many there were."""
        return len(self._datasets.pop(dataset_id, ()))

    async def create_eval(self, record: EvalRecord) -> None:
        """Keep a new eval."""
        if record.eval_id in self._evals:
            raise EvalExists(eval_id=record.eval_id)
        self._newest_eval += 1
        self._evals[record.eval_id] = (self._newest_eval, record)

    async def update_eval(self, record: EvalRecord, was: str) -> bool:
        """Replace an eval if its status is still `was`; returns whether it was."""
        no, stored = self._evals.get(record.eval_id, (0, None))
        if stored is None or stored.status.value != was:
            return False
        self._evals[record.eval_id] = (no, record)
        return True

    async def load_eval(self, eval_id: str) -> EvalRecord | None:
        """Return an eval, or None."""
        _, record = self._evals.get(eval_id, (0, None))
        return record

    async def list_evals(self, query: EvalQuery) -> tuple[tuple[int, EvalRecord], ...]:
        """Return evals with their numbers, newest first."""
        found = [
            (no, it)
            for no, it in reversed(self._evals.values())
            if query.dataset_id in (None, it.spec.dataset_id)
            and query.status in (None, it.status.value)
            and query.tenant_id in (None, it.tenant_id)
            and (query.before_no is None or no < query.before_no)
        ]
        return tuple(found[: max(query.limit, 0)])

    async def delete_eval(self, eval_id: str) -> bool:
        """Remove an eval with its items for good; returns whether there was one."""
        self._items.pop(eval_id, None)
        return self._evals.pop(eval_id, None) is not None

    async def put_eval_item(
        self, eval_id: str, item: EvalItem, scores: Sequence[StoredScore] = ()
    ) -> bool:
        """Write an item once, and its scores with it; False if its place has one, which stays."""
        rules.check_item(item)
        for it in scores:
            rules.scale_value(it.score.value)
        if eval_id not in self._evals:
            raise UnknownEval(eval_id=eval_id)
        items = self._items.setdefault(eval_id, {})
        if item.number in items:
            return False
        items[item.number] = item
        await self.add_scores(scores)
        return True

    async def list_eval_items(
        self, eval_id: str, after: int = -1, limit: int = 1000
    ) -> tuple[EvalItem, ...]:
        """Return the items of an eval after a number, in the order of the plan."""
        found = [it for no, it in sorted(self._items.get(eval_id, {}).items()) if no > after]
        return tuple(found[: max(limit, 0)])

    async def add_scores(self, scores: Sequence[StoredScore]) -> tuple[StoredScore, ...]:
        """Add scores and return them with their numbers."""
        for it in scores:
            rules.scale_value(it.score.value)
        first = len(self._scores) + 1
        made = tuple(replace(it, no=first + place) for place, it in enumerate(scores))
        self._scores.extend(made)
        return made

    async def list_scores(self, query: ScoreQuery) -> tuple[StoredScore, ...]:
        """Return scores, newest first."""
        below = rules.scale_value(query.below)
        found = [it for it in reversed(self._scores) if _is_asked(it, query, below)]
        return tuple(found[: max(query.limit, 0)])


def _is_asked(it: StoredScore, query: ScoreQuery, below: int | None) -> bool:
    value = rules.scale_value(it.score.value)
    return (
        query.run_id in (None, it.run_id)
        and query.scorer in (None, it.scorer)
        and query.source in (None, it.source)
        and query.tenant_id in (None, it.tenant_id)
        and (query.since is None or it.at >= query.since)
        and (below is None or (value is not None and value < below))
        and (query.before_no is None or it.no < query.before_no)
    )
