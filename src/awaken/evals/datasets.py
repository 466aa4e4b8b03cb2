"""Datasets: every change is a revision, old revisions stay, and a tenant sees its own."""

from collections.abc import Callable, Iterable, Sequence

import msgspec
from msgspec.structs import replace

from awaken.contracts.clock import Clock
from awaken.contracts.config.publications import hash_object
from awaken.contracts.errors import DemoRecord
from awaken.contracts.evals.cases import Case, DatasetRevision
from awaken.contracts.evals.errors import (
    DatasetConflict,
    InvalidDataset,
    UnknownCase,
    UnknownDataset,
)
from awaken.contracts.evals.recordings import BYTES_MAX, FORMAT
from awaken.contracts.evals.store import EvalObjectSource, EvalStore, ObjectKind, SourceQuery
from awaken.contracts.tenancy import add_namespace, namespace_of, remove_namespace

from .case_checks import check_case, check_scored, own_case, remove_secrets_of
from .dataset_writes import (
    ChangedDataset,
    DatasetChange,
    DatasetDocument,
    ErasedSources,
    LoadedDataset,
    WriteOptions,
    apply_change,
    as_change,
    check_dataset_id,
    merge_cases,
)

TRIES_MAX = 8
"""How often a change without an expected revision is made again after another process's."""
_CASE = msgspec.json.Decoder(Case)
_Plan = Callable[[DatasetRevision], DatasetChange]

STRICT = WriteOptions()


class Datasets:
    """The datasets of a tenant, or of all callers without one."""

    def __init__(
        self, evals: EvalStore, clock: Clock, *, tenant_id: str | None = None, by: str = ""
    ) -> None:
        self._evals = evals
        self._clock = clock
        self._tenant_id = tenant_id
        self._namespace = namespace_of(tenant_id)
        self._by = by

    async def create(
        self, dataset_id: str, document: DatasetDocument, options: WriteOptions = STRICT
    ) -> ChangedDataset:
        """Make a new dataset; one that was deleted may be made again.

        Raises:
            DatasetConflict: There is one already.
            InvalidDataset: The id, a case or something else is refused; nothing was written.
        """
        check_dataset_id(dataset_id)
        newest = await self._evals.load_dataset(self._store_id(dataset_id))
        if newest is not None and not newest.is_deleted:
            raise DatasetConflict(dataset_id=dataset_id, expected=0, actual=newest.revision)
        base = DatasetRevision(
            dataset_id=dataset_id,
            revision=0 if newest is None else newest.revision,
            tenant_id=self._tenant_id,
        )
        return await self._write(base, as_change(document), options)

    async def replace(
        self,
        dataset_id: str,
        document: DatasetDocument,
        expected: int | None = None,
        options: WriteOptions = STRICT,
    ) -> ChangedDataset:
        """Replace all that a dataset says; cases that are not in the document are removed.

        Raises:
            UnknownDataset: There is none.
            DatasetConflict: It is not at the expected revision.
            InvalidDataset: A case or something else is refused; nothing was written.
        """
        change = as_change(document)
        named = {it.id for it in document.cases}

        def plan(base: DatasetRevision) -> DatasetChange:
            gone = tuple(it.id for it in base.cases if it.id not in named)
            return replace(change, remove=gone)

        return await self._change(dataset_id, plan, expected, options)

    async def change(
        self,
        dataset_id: str,
        change: DatasetChange,
        expected: int | None = None,
        options: WriteOptions = STRICT,
    ) -> ChangedDataset:
        """Change parts of a dataset; without an expected revision, whatever it is.

        Raises:
            UnknownDataset: There is none.
            UnknownCase: A case to remove does not exist.
            DatasetConflict: It is not at the expected revision.
            InvalidDataset: A case or something else is refused; nothing was written.
        """
        return await self._change(dataset_id, lambda _: change, expected, options)

    async def delete(self, dataset_id: str, expected: int | None = None) -> DatasetRevision:
        """Delete a dataset: lists leave it out, and evals can still read its old revisions.

        Raises:
            UnknownDataset: There is none.
            DatasetConflict: It is not at the expected revision.
        """
        for left in reversed(range(TRIES_MAX)):
            base = replace(await self._find(dataset_id), dataset_id=dataset_id)
            _check_expected(base, expected)
            made = DatasetRevision(
                dataset_id=self._store_id(dataset_id),
                revision=base.revision + 1,
                tenant_id=base.tenant_id,
                is_deleted=True,
                at=self._clock.now_ms(),
                by=self._by,
            )
            try:
                await self._evals.save_dataset(made, base.revision)
            except DatasetConflict:
                if expected is not None or not left:
                    raise
            else:
                return self._show(made)
        raise AssertionError("unreachable")

    async def load(self, dataset_id: str, revision: int | None = None) -> LoadedDataset:
        """Return a revision with its cases, the newest one unless given.

        Raises:
            UnknownDataset: There is none, or it has no such revision.
        """
        found = await self._find(dataset_id, revision)
        bodies = await self._evals.load_eval_objects([it.hash for it in found.cases])
        cases = tuple(_CASE.decode(bodies[it.hash]) for it in found.cases if it.hash in bodies)
        erased = tuple(it.id for it in found.cases if it.hash not in bodies)
        return LoadedDataset(revision=self._show(found), cases=cases, erased=erased)

    async def check_revision(self, dataset_id: str, expected: int) -> None:
        """Check that a dataset is at a revision, before work that a conflict would waste.

        Raises:
            UnknownDataset: There is none.
            DatasetConflict: It is at another one.
        """
        _check_expected(replace(await self._find(dataset_id), dataset_id=dataset_id), expected)

    async def load_case(
        self, dataset_id: str, case_id: str, revision: int | None = None
    ) -> tuple[DatasetRevision, Case]:
        """Return a case, and the revision that it was read from, without the other cases.

        Raises:
            UnknownDataset: There is none, or it has no such revision.
            UnknownCase: The revision has no such case, or its contents were deleted.
        """
        found = await self._find(dataset_id, revision)
        entry = next((it for it in found.cases if it.id == case_id), None)
        bodies = {} if entry is None else await self._evals.load_eval_objects([entry.hash])
        if entry is None or entry.hash not in bodies:
            raise UnknownCase(dataset_id=dataset_id, case_id=case_id)
        return self._show(replace(found, cases=())), _CASE.decode(bodies[entry.hash])

    async def list_datasets(
        self, *, after: str = "", limit: int = 100, with_demo: bool = False
    ) -> tuple[DatasetRevision, ...]:
        """Return the newest revisions of datasets, by id, without their cases.

        Of the demo data there is one: without it, the page that would have it is one shorter.
        """
        begin = self._store_id(after) if after else ""
        found = await self._evals.list_datasets(self._tenant_id, after=begin, limit=limit)
        return tuple(self._show(it) for it in found if with_demo or not it.is_demo)

    async def list_revisions(
        self, dataset_id: str, *, before: int | None = None, limit: int = 100
    ) -> tuple[DatasetRevision, ...]:
        """Return the revisions of a dataset, newest first, without their cases.

        Raises:
            UnknownDataset: There is no such dataset.
        """
        await self._find(dataset_id, is_any=True)
        stored_id = self._store_id(dataset_id)
        found = await self._evals.list_dataset_revisions(stored_id, before=before, limit=limit)
        return tuple(map(self._show, found))

    async def load_recordings(self, cases: Iterable[Case]) -> dict[str, bytes]:
        """Return the recordings of cases by their hashes; those that were deleted are left out."""
        names = [it.recording for it in cases if it.recording is not None]
        return await self._evals.load_eval_objects(names)

    async def put_recordings(self, recordings: dict[str, bytes]) -> None:
        """Keep recordings that came with cases.

        Raises:
            InvalidDataset: One is too large, is not what its name says, cannot be read, or is
                another tenant's.
        """
        sources = []
        for name, body in recordings.items():
            what = f"recording '{name:.80}'"
            if len(body) > BYTES_MAX:
                raise InvalidDataset(what=what, problem=f"it is larger than {BYTES_MAX} bytes")
            if hash_object(body) != name:
                raise InvalidDataset(what=what, problem="its name is not the hash of its bytes")
            sources.append(self._name_source(name, body))
        await self._evals.put_eval_objects(recordings, sources)

    async def list_sources(
        self, *, thread_id: str | None = None, user_id: str | None = None
    ) -> tuple[EvalObjectSource, ...]:
        """Return the cases and recordings that hold a conversation of a thread or a user."""
        if thread_id is not None:
            # Whatever a tenant names, it is one of its own threads.
            thread_id = add_namespace(self._namespace, thread_id)
        found: list[EvalObjectSource] = []
        query = SourceQuery(thread_id=thread_id, user_id=user_id, tenant_id=self._tenant_id)
        while page := await self._evals.list_eval_sources(query):
            found += page
            query = replace(query, after=page[-1].hash)
        return tuple(found)

    async def erase_sources(
        self, *, thread_id: str | None = None, user_id: str | None = None
    ) -> ErasedSources:
        """Delete the cases and recordings that hold a conversation of a thread or a user.

        Datasets get a revision without these cases; old revisions name them as erased.
        """
        found = await self.list_sources(thread_id=thread_id, user_id=user_id)
        hashes = {it.hash for it in found}
        removed: list[tuple[str, str]] = []
        after = ""
        while hashes and (page := await self.list_datasets(after=after)):
            after = page[-1].dataset_id
            for it in page:
                removed += await self._remove_hashes(it.dataset_id, hashes)
        count = await self._evals.delete_eval_objects(sorted(hashes))
        return ErasedSources(cases=tuple(removed), objects=count)

    async def _remove_hashes(self, dataset_id: str, hashes: set[str]) -> list[tuple[str, str]]:
        dataset = await self.load(dataset_id)
        of_case = {it.id: it.hash for it in dataset.revision.cases}
        gone = [it.id for it in dataset.cases if of_case[it.id] in hashes or it.recording in hashes]
        if gone:
            await self.change(dataset_id, DatasetChange(remove=tuple(gone)))
        return [(dataset_id, it) for it in gone]

    async def _change(
        self, dataset_id: str, plan: _Plan, expected: int | None, options: WriteOptions
    ) -> ChangedDataset:
        if dataset_id.startswith(":"):
            # Its next revision would remove what a person adds.
            problem = "an id with a colon at its front is that of inputs that were tried once"
            raise InvalidDataset(what=f"dataset '{dataset_id}'", problem=problem)
        for left in reversed(range(TRIES_MAX)):
            base = replace(await self._find(dataset_id), dataset_id=dataset_id)
            _check_expected(base, expected)
            try:
                return await self._write(base, plan(base), options)
            except DatasetConflict:
                if expected is not None or not left:
                    raise
        raise AssertionError("unreachable")

    async def _write(
        self, base: DatasetRevision, change: DatasetChange, options: WriteOptions
    ) -> ChangedDataset:
        """Check everything, then write the objects, then the revision that names them."""
        draft = apply_change(base, change)
        if not options.is_scored_by_eval:
            await self._check_all_scored(draft, change)
        put = [_prepare(it, draft, options) for it in change.put]
        await self._check_recordings(put)
        merged = merge_cases(base, change, put, options)
        made = replace(
            draft,
            dataset_id=self._store_id(base.dataset_id),
            cases=merged.entries,
            case_count=len(merged.entries),
            at=self._clock.now_ms(),
            by=self._by,
        )
        await self._evals.put_eval_objects(merged.objects, _list_sources_of(merged.kept))
        try:
            await self._evals.save_dataset(made, base.revision)
        except DatasetConflict as error:
            raise DatasetConflict(
                dataset_id=base.dataset_id, expected=error.expected, actual=error.actual
            ) from error
        return ChangedDataset(
            revision=self._show(made),
            added=merged.added,
            replaced=merged.replaced,
            removed=change.remove,
            duplicates=merged.duplicates,
        )

    async def _check_all_scored(self, draft: DatasetRevision, change: DatasetChange) -> None:
        """Check the cases that stay, if the change takes the scorers of the dataset away."""
        if draft.scorers or change.scorers is None:
            return
        gone = {*change.remove, *(it.id for it in change.put)}
        kept = [it.hash for it in draft.cases if it.id not in gone]
        for body in (await self._evals.load_eval_objects(kept)).values():
            check_scored(_CASE.decode(body), ())

    async def _check_recordings(self, cases: Sequence[Case]) -> None:
        """Check that recordings exist and are the tenant's own."""
        bodies = await self.load_recordings(cases)
        for case in cases:
            name = case.recording
            if name is None:
                continue
            owner = None if name not in bodies else _read_owner(name, bodies[name])
            if owner is None or self._tenant_id not in (None, owner.tenant_id):
                problem = f"there is no recording '{name:.80}'; push it with the case, or capture"
                raise InvalidDataset(what=f"case '{case.id}'", problem=problem)

    def _name_source(self, name: str, body: bytes) -> EvalObjectSource:
        owner = _read_owner(name, body)
        if self._tenant_id not in (None, owner.tenant_id):
            problem = "it is a recording of another tenant, or of none"
            raise InvalidDataset(what=f"recording '{name}'", problem=problem)
        return EvalObjectSource(
            hash=name,
            kind=ObjectKind.RECORDING,
            thread_id=owner.thread_id,
            user_id=owner.user_id,
            tenant_id=owner.tenant_id,
        )

    async def _find(
        self, dataset_id: str, revision: int | None = None, *, is_any: bool = False
    ) -> DatasetRevision:
        found = await self._evals.load_dataset(self._store_id(dataset_id), revision)
        if found is None or (found.is_deleted and not is_any and revision is None):
            detail = "" if revision is None else f" with a revision {revision}"
            raise UnknownDataset(dataset_id=dataset_id, detail=detail)
        return found

    def _store_id(self, dataset_id: str) -> str:
        return add_namespace(self._namespace, dataset_id)

    def _show(self, revision: DatasetRevision) -> DatasetRevision:
        """Return a revision with the id that its tenant knows."""
        if not self._namespace:
            return revision
        return replace(revision, dataset_id=remove_namespace(self._namespace, revision.dataset_id))


def _prepare(case: Case, draft: DatasetRevision, options: WriteOptions) -> Case:
    """Return a case as one of the dataset and of its tenant, whoever writes it."""
    if not options.is_scored_by_eval:
        check_scored(case, draft.scorers)
    check_case(case)
    return remove_secrets_of(own_case(case, draft.tenant_id), is_redacted=options.redact)


def _list_sources_of(kept: dict[str, Case]) -> list[EvalObjectSource]:
    return [
        EvalObjectSource(
            hash=name,
            kind=ObjectKind.CASE,
            thread_id=it.source_thread_id,
            user_id=it.source_user_id,
            tenant_id=it.tenant_id,
        )
        for name, it in kept.items()
        if it.source_thread_id is not None or it.source_user_id is not None
    ]


class _Owner(msgspec.Struct):
    """Whose run a recording is of."""

    thread_id: str | None = None
    user_id: str | None = None
    tenant_id: str | None = None


class _OwnedRecording(msgspec.Struct):
    """Of a recording, only its owner: the rest may have many megabytes."""

    run: _Owner
    format: str = ""


def _read_owner(name: str, body: bytes) -> _Owner:
    what = f"recording '{name}'"
    try:
        found = msgspec.json.decode(body, type=_OwnedRecording)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise InvalidDataset(what=what, problem=f"it is no recording: {error}") from error
    if found.format and found.format != FORMAT:
        problem = f"its format is '{found.format:.40}', and this release reads '{FORMAT}'"
        raise InvalidDataset(what=what, problem=problem)
    return found.run


def _check_expected(base: DatasetRevision, expected: int | None) -> None:
    if base.is_demo:
        raise DemoRecord(record_id=base.dataset_id)
    if expected is not None and base.revision != expected:
        raise DatasetConflict(dataset_id=base.dataset_id, expected=expected, actual=base.revision)
