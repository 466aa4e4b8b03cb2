"""Bodies and replies of datasets: those of Awaken for Rust, with fields beyond."""

from collections.abc import Iterable
from typing import Any

from awaken.contracts.evals.cases import DatasetRevision, Expectation
from awaken.contracts.evals.scores import ScorerSpec
from awaken.contracts.record import Record, StrictRecord, always
from awaken.evals.capture import CAPTURED_MAX, CapturePlan, ScriptMode, SkippedRun
from awaken.evals.case_documents import read_case, write_case
from awaken.evals.dataset_writes import (
    ChangedDataset,
    DatasetDocument,
    DuplicateCase,
    LoadedDataset,
)
from awaken.evals.importers import ImportFormat


class DatasetSummary(Record, frozen=True, kw_only=True):
    """A dataset in a list."""

    id: str
    description: str = always("")
    fixture_count: int = always(0)
    revision: int
    has_gate: bool = False
    """Whether its evals are judged by a gate."""
    is_demo: bool = False
    """Whether it is demo data, which cannot be changed or tried."""


class DatasetList(Record, frozen=True, kw_only=True):
    """Datasets by id."""

    datasets: tuple[DatasetSummary, ...]


class DatasetFilter(StrictRecord, frozen=True, kw_only=True):
    """Which part of the list."""

    offset: int = 0
    limit: int = 100
    demo: bool = False
    """Whether to list that of the demo data as well."""


class DatasetSpec(StrictRecord, frozen=True, kw_only=True):
    """What a dataset says; a fixture is a case."""

    description: str = always("")
    fixtures: tuple[dict[str, Any], ...] = always(())
    scorers: tuple[ScorerSpec, ...] = ()
    gate: dict[str, Any] | None = None


class DatasetMeta(Record, frozen=True, kw_only=True):
    """When a revision was written, and by whom."""

    revision: int
    updated_at: int = always(0)
    updated_by: str = ""
    is_demo: bool = False
    """Whether it is demo data, which cannot be changed or tried."""


class DatasetView(Record, frozen=True, kw_only=True):
    """A revision of a dataset."""

    id: str
    spec: DatasetSpec
    meta: DatasetMeta
    erased: tuple[str, ...] = ()
    """Cases whose contents were deleted with their thread or user."""
    duplicates: tuple[DuplicateCase, ...] = ()
    """Cases of the write whose inputs others have already."""


class NewDataset(StrictRecord, frozen=True, kw_only=True):
    """A dataset to be made."""

    id: str | None = None
    spec: DatasetSpec = DatasetSpec()
    redact: bool = False
    """Whether secrets in cases are replaced; otherwise such a case is refused."""


class NewDatasetQuery(StrictRecord, frozen=True, kw_only=True):
    """The id, if the body has none."""

    id: str | None = None


class DatasetReplacement(StrictRecord, frozen=True, kw_only=True):
    """A whole new revision."""

    expected_revision: int
    spec: DatasetSpec
    redact: bool = False


class RevisionQuery(StrictRecord, frozen=True, kw_only=True):
    """Which revision; absent: the newest."""

    revision: int | None = None


class ExpectedRevision(StrictRecord, frozen=True, kw_only=True):
    """The revision that the caller knows; absent: any."""

    expected_revision: int | None = None


class RevisionFilter(StrictRecord, frozen=True, kw_only=True):
    """Which revisions, newest first."""

    before: int | None = None
    limit: int = 100


class RevisionSummary(Record, frozen=True, kw_only=True):
    """A revision in a list."""

    revision: int
    fixture_count: int = always(0)
    description: str = always("")
    at: int = always(0)
    by: str = always("")
    is_deleted: bool = False


class RevisionList(Record, frozen=True, kw_only=True):
    """Revisions, newest first."""

    revisions: tuple[RevisionSummary, ...]


class CaseView(Record, frozen=True, kw_only=True):
    """A case of a revision."""

    revision: int
    case: dict[str, Any]


class NewFixture(StrictRecord, frozen=True, kw_only=True):
    """A case to be added."""

    fixture: dict[str, Any]
    expected_revision: int
    redact: bool = False


class _Captured(StrictRecord, frozen=True, kw_only=True):
    provider_script_mode: ScriptMode = ScriptMode.OPTIONAL
    expected: Expectation | None = None
    """What a person expects; absent: the case is a draft with a proposal."""
    expect: Expectation | None = None
    """Another name of `expected`."""
    recording: bool = True
    """Whether the case keeps the recording of the run."""
    tags: tuple[str, ...] = ()
    split: str = ""

    @property
    def wanted(self) -> Expectation | None:
        """What a person expects."""
        return self.expected if self.expected is not None else self.expect


class NewItem(_Captured, frozen=True, kw_only=True):
    """A run to be captured."""

    from_run_id: str
    user_input: str | None = None
    fixture_id: str | None = None
    description: str | None = None
    allow_unused_provider_script: bool = False
    expected_revision: int | None = None


class TraceImport(_Captured, frozen=True, kw_only=True):
    """Which runs are captured."""

    expected_revision: int
    agent_id: str | None = None
    since_secs: int | None = None
    max_count: int = CAPTURED_MAX
    skip_uncuratable: bool = False
    ended: str | None = None
    score_below: float | None = None
    scorer: str | None = None
    thumbs_down: bool = False
    cost_above: float | None = None
    seed: int = 0


class TraceImportReply(Record, frozen=True, kw_only=True):
    """What became of runs."""

    imported_count: int
    skipped_count: int
    dataset_revision: int
    skipped: tuple[SkippedRun, ...] = ()
    duplicates: tuple[DuplicateCase, ...] = ()


class DialogueImport(_Captured, frozen=True, kw_only=True):
    """Runs of one thread that become one case."""

    expected_revision: int
    run_ids: tuple[str, ...]
    fixture_id: str | None = None
    description: str | None = None


class DialogueImportReply(Record, frozen=True, kw_only=True):
    """The case that was made."""

    fixture_id: str
    dataset_revision: int
    duplicates: tuple[DuplicateCase, ...] = ()


class FileImport(StrictRecord, frozen=True, kw_only=True, rename={"source": "from"}):
    """Whose file the body is."""

    source: ImportFormat
    expected_revision: int | None = None
    redact: bool = False
    scored_by_eval: bool = False
    """Whether cases without expectations are taken: an eval brings the scorers."""


class FileImportReply(Record, frozen=True, kw_only=True):
    """What became of a file."""

    added: tuple[str, ...]
    replaced: tuple[str, ...] = ()
    duplicates: tuple[DuplicateCase, ...] = ()
    left_out: tuple[str, ...] = ()
    """What could not be carried over."""
    dataset_revision: int


def show_dataset(dataset: LoadedDataset, changed: ChangedDataset | None = None) -> DatasetView:
    """Return a dataset as its reply."""
    it = dataset.revision
    spec = DatasetSpec(
        description=it.description,
        fixtures=tuple(map(write_case, dataset.cases)),
        scorers=it.scorers,
        gate=it.gate,
    )
    meta = DatasetMeta(revision=it.revision, updated_at=it.at, updated_by=it.by, is_demo=it.is_demo)
    duplicates = () if changed is None else changed.duplicates
    return DatasetView(
        id=it.dataset_id, spec=spec, meta=meta, erased=dataset.erased, duplicates=duplicates
    )


def list_datasets(found: Iterable[DatasetRevision]) -> DatasetList:
    """Return datasets as their list."""
    return DatasetList(
        datasets=tuple(
            DatasetSummary(
                id=it.dataset_id,
                description=it.description,
                fixture_count=it.case_count,
                revision=it.revision,
                has_gate=it.gate is not None,
                is_demo=it.is_demo,
            )
            for it in found
        )
    )


def list_revisions(found: Iterable[DatasetRevision]) -> RevisionList:
    """Return revisions of a dataset as their list."""
    return RevisionList(
        revisions=tuple(
            RevisionSummary(
                revision=it.revision,
                fixture_count=it.case_count,
                description=it.description,
                at=it.at,
                by=it.by,
                is_deleted=it.is_deleted,
            )
            for it in found
        )
    )


def build_plan(body: NewItem | TraceImport | DialogueImport) -> CapturePlan:
    """Return how cases are made of runs, as far as all bodies say it."""
    return CapturePlan(
        script=body.provider_script_mode,
        keeps_recording=body.recording,
        expect=body.wanted,
        tags=body.tags,
        split=body.split,
    )


def read_spec(spec: DatasetSpec) -> DatasetDocument:
    """Return what a body says.

    Raises:
        InvalidDataset: A fixture is no case; names it and the field.
    """
    cases = tuple(read_case(it, f"fixture {no}") for no, it in enumerate(spec.fixtures, 1))
    return DatasetDocument(
        description=spec.description, scorers=spec.scorers, gate=spec.gate, cases=cases
    )
