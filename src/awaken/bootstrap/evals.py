"""Connects evals with a runtime; loaded when one is first used."""

from typing import TYPE_CHECKING, cast

from awaken.contracts.evals.errors import InvalidEval
from awaken.contracts.evals.eval_runs import EvalRecord, EvalSpec, EvalStatus
from awaken.contracts.evals.store import EvalQuery, EvalStore
from awaken.contracts.evals.verdicts import GateStatus
from awaken.contracts.storage.store import Store
from awaken.evals.preparing import EvalLimits, EvalParts
from awaken.evals.runner import EvalRunner
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
        )
    )


async def list_passed_evals(store: Store, manifest_hash: str) -> list[EvalRecord]:
    """Return the evals of whole datasets whose own gates passed for a manifest."""
    evals, found, before = find_eval_store(store), list[EvalRecord](), None
    while True:
        query = EvalQuery(status=EvalStatus.DONE, before_no=before, limit=PAGE)
        page = await evals.list_evals(query)
        found += [
            it
            for _, it in page
            if it.manifest_hash == manifest_hash
            and _judges_by_dataset(it.spec)
            and (it.summary.get("gate") or {}).get("status") == GateStatus.PASSED
        ]
        if len(page) < PAGE:
            return found
        before = page[-1][0]


def _judges_by_dataset(spec: EvalSpec) -> bool:
    """Whether the dataset's own gate judged all its cases: who runs an eval chooses neither."""
    return spec.gate is None and not (spec.cases or spec.tags or spec.split)
