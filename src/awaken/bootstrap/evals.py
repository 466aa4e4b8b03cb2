"""Connects evals with a runtime; loaded when one is first used."""

from typing import TYPE_CHECKING, cast

from awaken.contracts.evals.cases import DatasetRevision
from awaken.contracts.evals.errors import EvalError, InvalidEval
from awaken.contracts.evals.eval_runs import EvalRecord, EvalSpec, EvalStatus
from awaken.contracts.evals.store import EvalQuery, EvalStore
from awaken.contracts.evals.verdicts import GateStatus
from awaken.contracts.evals.worlds import ToolSource
from awaken.contracts.record import Record
from awaken.contracts.storage.store import Store
from awaken.evals.planning import list_tool_sources, select_cases
from awaken.evals.preparing import EvalLimits, EvalParts, load_case_documents
from awaken.evals.runner import EvalRunner, OnEval
from awaken.evals.terms import list_off_terms
from awaken.scoring.gates import parse_gate
from awaken.services.control import RunControl

from .eval_modules import read_eval_modules
from .replays import ManagedSnapshots, build_recorder

if TYPE_CHECKING:
    from awaken.managed.configuration import ManagedConfig

PAGE = 500


def find_eval_store(store: Store) -> EvalStore:
    """Return where a store keeps datasets, evals and scores.

    Raises:
        InvalidEval: It keeps none.
    """
    open_evals = getattr(store, "open_evals", None)
    if open_evals is None:
        raise InvalidEval(problem=f"store '{store.name}' keeps no evals")
    return cast("EvalStore", open_evals())


def build_eval_runner(
    control: RunControl,
    worker_id: str,
    managed: "ManagedConfig | None" = None,
    limits: EvalLimits | None = None,
    modules: tuple[str, ...] | None = None,
    on_change: list[OnEval] | None = None,
) -> EvalRunner:
    """Build what makes and drives the evals of a runtime.

    Raises:
        InvalidEval: Its store keeps none.
    """
    if modules is None:
        modules = read_eval_modules()
    engine = control.engine
    return EvalRunner(
        EvalParts(
            control=control,
            evals=find_eval_store(engine.store),
            recorder=build_recorder(engine),
            clock=engine.services.clock,
            ids=engine.services.ids,
            snapshots=None if managed is None else ManagedSnapshots(managed),
            modules=modules,
            worker_id=worker_id,
            limits=limits or EvalLimits(),
        ),
        on_change,
    )


class JudgedEval(Record, frozen=True, kw_only=True):
    """An eval that a gate has judged, and what a publisher asks about it."""

    record: EvalRecord
    is_passed: bool
    tools: tuple[ToolSource, ...] = ()
    """All who could answer its tool calls; empty if one of its cases cannot be read."""
    off_terms: tuple[str, ...] = ()
    """In what it departs from the terms of the dataset's gate."""


async def list_judged_evals(store: Store, manifest_hash: str) -> list[JudgedEval]:
    """Return the evals of a manifest that gates have judged, by the datasets as these are now."""
    evals = find_eval_store(store)
    newest: dict[str, DatasetRevision | None] = {}
    found = []
    for it in await _list_judged(evals, manifest_hash):
        name = it.spec.dataset_id
        if name not in newest:
            newest[name] = await evals.load_dataset(name)
        kept = newest[name]
        if kept is None or kept.is_deleted or kept.gate is None:
            continue
        off_terms = list_off_terms(it.spec, parse_gate(kept.gate).terms)
        if it.revision != kept.revision:
            off_terms = (f"the dataset has revision {kept.revision} now", *off_terms)
        found.append(
            JudgedEval(
                record=it,
                is_passed=_read_gate(it) == GateStatus.PASSED,
                tools=await _list_tool_sources(evals, it.spec, kept),
                off_terms=off_terms,
            )
        )
    return found


async def _list_tool_sources(
    evals: EvalStore, spec: EvalSpec, revision: DatasetRevision
) -> tuple[ToolSource, ...]:
    try:
        cases = await load_case_documents(evals, revision, select_cases(revision, spec))
    except EvalError:
        return ()
    return list_tool_sources(spec, cases)


async def _list_judged(evals: EvalStore, manifest_hash: str) -> list[EvalRecord]:
    found, before = list[EvalRecord](), None
    while True:
        query = EvalQuery(status=EvalStatus.DONE, before_no=before, limit=PAGE)
        page = await evals.list_evals(query)
        found += [it for _, it in page if it.manifest_hash == manifest_hash and _read_gate(it)]
        if len(page) < PAGE:
            return found
        before = page[-1][0]


def _read_gate(record: EvalRecord) -> str | None:
    """Return what the gate said at the end of an eval; None without one."""
    status: str | None = (record.summary.get("gate") or {}).get("status")
    return status
