"""The formats that cases are imported from."""

from collections.abc import Callable
from enum import StrEnum

from msgspec.structs import replace

from awaken.contracts.evals.errors import InvalidDataset
from awaken.contracts.evals.scores import ScorerSpec
from awaken.evals.case_documents import read_case

from .adk import import_adk
from .documents import read_document
from .drafts import ImportDraft, ImportedCases, need_list, tell_left_out
from .openai import import_openai
from .promptfoo import import_promptfoo
from .pydantic_evals import import_pydantic
from .tables import import_csv, import_jsonl

IMPORT_BYTES_MAX = 64 * 1024 * 1024


class ImportFormat(StrEnum):
    """Whose file it is."""

    RUST = "rust"
    """Fixtures of Awaken for Rust: one, a list, or a dataset with `fixtures`."""
    JSONL = "jsonl"
    CSV = "csv"
    OPENAI = "openai"
    ADK = "adk"
    PYDANTIC = "pydantic"
    PROMPTFOO = "promptfoo"


def import_cases(source: ImportFormat, data: bytes) -> ImportedCases:
    """Read cases from a file of another tool.

    Cases that have a reference answer and no assertion are scored by `contains`.

    Raises:
        InvalidDataset: It cannot be read, is too large, or has no case.
    """
    if len(data) > IMPORT_BYTES_MAX:
        problem = f"it has more than {IMPORT_BYTES_MAX} bytes"
        raise InvalidDataset(what="the file", problem=problem)
    draft = ImportDraft()
    try:
        _READERS[source](data, draft)
    except (TypeError, ValueError, ArithmeticError, RecursionError) as error:
        # Something stands where another type is expected, deeper than the readers look.
        problem = f"it is not of the format '{source}': {error!s:.200}"
        raise InvalidDataset(what="the file", problem=problem) from error
    made = draft.finish()
    if not made.cases:
        with tell_left_out(made.left_out):
            problem = f"it has no case in the format '{source}'"
            raise InvalidDataset(what="the file", problem=problem)
    return _score_references(made)


def _import_rust(data: bytes, draft: ImportDraft) -> None:
    document = read_document(data, "fixtures.json")
    if isinstance(document, dict) and isinstance(document.get("spec"), dict):
        draft.leave_fields_out("the record", document, ("id", "spec", "meta"))
        document = document["spec"]
    if isinstance(document, dict) and "fixtures" in document:
        draft.description = str(document.get("description") or "")
        draft.leave_fields_out("the dataset", document, ("id", "description", "fixtures"))
        document = document["fixtures"]
    fixtures = [document] if isinstance(document, dict) else need_list(document, "fixtures")
    for number, it in enumerate(fixtures, 1):
        draft.add_whole(read_case(it, f"fixture {number}"))


def _score_references(made: ImportedCases) -> ImportedCases:
    """Add `contains` to cases with a reference answer that nothing compares with."""
    contains = (ScorerSpec(scorer="contains"),)
    cases = tuple(
        replace(it, scorers=contains)
        if isinstance(it.expected, str) and it.expect is None and not it.scorers
        else it
        for it in made.cases
    )
    return replace(made, cases=cases)


_READERS: dict[ImportFormat, Callable[[bytes, ImportDraft], None]] = {
    ImportFormat.RUST: _import_rust,
    ImportFormat.JSONL: import_jsonl,
    ImportFormat.CSV: import_csv,
    ImportFormat.OPENAI: import_openai,
    ImportFormat.ADK: import_adk,
    ImportFormat.PYDANTIC: import_pydantic,
    ImportFormat.PROMPTFOO: import_promptfoo,
}
