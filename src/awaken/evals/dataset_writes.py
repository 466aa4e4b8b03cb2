"""What a write makes of a dataset: pure, before anything is stored."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from awaken.contracts.config.publications import encode_canonical
from awaken.contracts.errors import InvalidValue
from awaken.contracts.evals.cases import Case, CaseEntry, DatasetRevision
from awaken.contracts.evals.errors import InvalidDataset, UnknownCase
from awaken.contracts.evals.ids import check_eval_id
from awaken.contracts.evals.scores import ScorerSpec
from awaken.contracts.record import Record, StrictRecord

from .case_checks import check_scorers, digest_input, encode_case

CASES_MAX = 10_000
"""How many cases a dataset may have."""
DESCRIPTION_CHARS_MAX = 10_000
GATE_BYTES_MAX = 64 * 1024


class DatasetDocument(StrictRecord, frozen=True, kw_only=True):
    """What a dataset says, without its revision: as it is written whole."""

    description: str = ""
    scorers: tuple[ScorerSpec, ...] = ()
    gate: dict[str, Any] | None = None
    cases: tuple[Case, ...] = ()


class LoadedDataset(Record, frozen=True, kw_only=True):
    """One revision of a dataset with its cases, by id."""

    revision: DatasetRevision
    cases: tuple[Case, ...] = ()
    erased: tuple[str, ...] = ()
    """Cases of the revision whose contents were deleted with their thread or user."""

    @property
    def document(self) -> DatasetDocument:
        """What it says, without its revision."""
        it = self.revision
        return DatasetDocument(
            description=it.description, scorers=it.scorers, gate=it.gate, cases=self.cases
        )


class DatasetChange(Record, frozen=True, kw_only=True):
    """What to change; what is not named stays."""

    put: tuple[Case, ...] = ()
    """Cases to add, or to replace by their ids."""
    remove: tuple[str, ...] = ()
    """Ids of cases."""
    description: str | None = None
    scorers: tuple[ScorerSpec, ...] | None = None
    gate: dict[str, Any] | msgspec.UnsetType | None = msgspec.UNSET


class DuplicateCase(Record, frozen=True, kw_only=True):
    """A case whose input another case of the dataset has already."""

    case_id: str
    same_as: str


class ChangedDataset(Record, frozen=True, kw_only=True):
    """What became of a change."""

    revision: DatasetRevision
    added: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    duplicates: tuple[DuplicateCase, ...] = ()


class WriteOptions(Record, frozen=True, kw_only=True):
    """How strict a write is."""

    redact: bool = False
    """Whether secrets in cases are replaced; otherwise such a case is refused."""
    is_scored_by_eval: bool = False
    """Whether cases without expectations and scorers are taken: an eval brings the scorers."""
    keeps_duplicates: bool = False
    """Whether cases with equal inputs are kept; they are reported either way."""


class ErasedSources(Record, frozen=True, kw_only=True):
    """What was deleted with a thread or a user."""

    cases: tuple[tuple[str, str], ...] = ()
    """Dataset and case."""
    objects: int = 0


class MergedCases(msgspec.Struct, frozen=True, kw_only=True):
    """The cases of a revision to be: its manifest, and the objects that are new."""

    entries: tuple[CaseEntry, ...]
    objects: dict[str, bytes]
    kept: dict[str, Case]
    """The new cases by their hashes."""
    added: tuple[str, ...]
    replaced: tuple[str, ...]
    duplicates: tuple[DuplicateCase, ...]


def check_dataset_id(dataset_id: str) -> None:
    """Check the id of a new dataset.

    Raises:
        InvalidDataset: It does not fit into file names and addresses.
    """
    try:
        check_eval_id("dataset", dataset_id)
    except InvalidValue as error:
        raise InvalidDataset(what="the dataset", problem=str(error).rstrip(".")) from error


def as_change(document: DatasetDocument) -> DatasetChange:
    """Return the change that makes a dataset say this."""
    return DatasetChange(
        put=document.cases,
        description=document.description,
        scorers=document.scorers,
        gate=document.gate,
    )


def apply_change(base: DatasetRevision, change: DatasetChange) -> DatasetRevision:
    """Return the next revision of a dataset, still with the cases of the base.

    Raises:
        InvalidDataset: Something that is not about a case is refused.
        InvalidScorer: A scorer of the dataset does not exist or does not fit.
        UnknownCase: A case to remove does not exist.
    """
    what = f"dataset '{base.dataset_id}'"
    names = {it.id for it in base.cases}
    for gone in change.remove:
        if gone not in names:
            raise UnknownCase(dataset_id=base.dataset_id, case_id=gone)
    for name, count in Counter(it.id for it in change.put).items():
        if count > 1:
            raise InvalidDataset(what=what, problem=f"case id '{name}' is given {count} times")
    count = len((names - set(change.remove)) | {it.id for it in change.put})
    if count > CASES_MAX:
        problem = f"it would have {count} cases, and at most {CASES_MAX} are kept"
        raise InvalidDataset(what=what, problem=problem)
    made = replace(base, revision=base.revision + 1, is_deleted=False)
    if change.description is not None:
        made = replace(made, description=_check_description(change.description, what))
    if change.scorers is not None:
        check_scorers(change.scorers, what)
        made = replace(made, scorers=change.scorers)
    if change.gate is not msgspec.UNSET:
        made = replace(made, gate=_check_gate(change.gate, what))
    return made


def merge_cases(
    base: DatasetRevision, change: DatasetChange, put: Sequence[Case], options: WriteOptions
) -> MergedCases:
    """Return the cases of the next revision; new ones with the input of another are left out.

    Raises:
        InvalidDataset: A case is too large, or has no JSON form.
    """
    entries = {it.id: it for it in base.cases if it.id not in change.remove}
    inputs = {it.input_digest: it.id for it in entries.values()}
    added: list[str] = []
    replaced: list[str] = []
    duplicates: list[DuplicateCase] = []
    objects: dict[str, bytes] = {}
    kept: dict[str, Case] = {}
    for case in put:
        name, body = encode_case(case)
        digest = digest_input(case)
        same = inputs.get(digest)
        known = entries.get(case.id)
        if same is not None and same != case.id:
            duplicates.append(DuplicateCase(case_id=case.id, same_as=same))
            if known is None and not options.keeps_duplicates:
                continue
        inputs.setdefault(digest, case.id)
        entries[case.id] = CaseEntry(
            id=case.id,
            hash=name,
            tags=case.tags,
            split=case.split,
            status=case.status,
            input_digest=digest,
        )
        if known is None:
            added.append(case.id)
        elif known.hash != name:
            replaced.append(case.id)
        objects[name] = body
        kept[name] = case
    return MergedCases(
        entries=tuple(entries[it] for it in sorted(entries)),
        objects=objects,
        kept=kept,
        added=tuple(added),
        replaced=tuple(replaced),
        duplicates=tuple(duplicates),
    )


def _check_description(text: str, what: str) -> str:
    if len(text) > DESCRIPTION_CHARS_MAX:
        problem = f"its description has more than {DESCRIPTION_CHARS_MAX} characters"
        raise InvalidDataset(what=what, problem=problem)
    return text


def _check_gate(gate: Any, what: str) -> Any:
    try:
        body = encode_canonical(msgspec.to_builtins(gate))
        msgspec.json.decode(body)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidDataset(what=what, problem=f"its gate has no JSON form: {error}") from error
    if len(body) > GATE_BYTES_MAX:
        problem = f"its gate has more than {GATE_BYTES_MAX} bytes"
        raise InvalidDataset(what=what, problem=problem)
    return gate
