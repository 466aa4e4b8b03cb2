"""The search for damage in datasets, evals and scores: records, and the hashes of objects."""

from collections.abc import Callable
from typing import Any

from awaken.contracts.errors import CorruptRecord
from awaken.stores.sql import evals

from .config_checks import Inspection

_KINDS: tuple[tuple[str, str, Callable[[Any], Any]], ...] = (
    ("eval_objects", "SELECT hash, body FROM eval_objects", evals.read_object),
    (
        "dataset_revisions",
        "SELECT dataset_id, revision, record, cases FROM eval_datasets",
        evals.read_whole_revision,
    ),
    ("evals", "SELECT no, eval_id, record FROM eval_runs", evals.read_eval),
    ("eval_items", "SELECT place, record FROM eval_items", evals.read_item),
    ("scores", "SELECT no, record, run_id FROM scores", evals.read_score),
)


def check_evals(inspection: Inspection) -> None:
    """Read every record of evals."""
    for kind, statement, read in _KINDS:
        inspection.begin(kind)
        for row in inspection.select(kind, statement):
            try:
                read(row)
            except CorruptRecord as error:
                inspection.problems.append(str(error))
            else:
                inspection.count(kind)
