"""What people read beside an eval: figures so far, and the forms of what they write."""

from collections.abc import Callable
from typing import Any

import msgspec

from awaken.contracts.evals.cases import Case
from awaken.evals.calibrating import calibrate_all
from awaken.evals.driving import list_items
from awaken.evals.results import ComparedEval, EvalEvidence, EvalFigures, compute_figures
from awaken.evals.runner import EvalRunner
from awaken.scoring import SCORERS
from awaken.scoring.gates import Gate
from awaken.transport.asgi import Reply, as_json
from awaken.transport.routes import RouteCall

from . import views


class FigureRoutes:
    """Handles the routes; what they do is loaded by the first request."""

    def __init__(self, find_evals: Callable[[], EvalRunner]) -> None:
        self._find = find_evals

    async def get_figures(self, call: RouteCall) -> Reply:
        """Get the figures of an eval: those of its end, else of the samples so far."""
        runner = self._find()
        record = await runner.load(call.path["eval_id"])
        if record.status.is_terminal and record.summary:
            return as_json(msgspec.convert(record.summary, EvalFigures))
        evals = runner.parts.evals
        items = await list_items(evals, record.eval_id)
        # A baseline and a gate judge whole evals: what is not there yet would count as missing.
        evidence = EvalEvidence(
            own=ComparedEval(record=record, items=items, hashes={}),
            calibrations=await calibrate_all(evals, items),
        )
        return as_json(await compute_figures(evidence))

    async def describe_forms(self, call: RouteCall) -> Reply:
        """Describe cases, gates and the options of every scorer as JSON Schemas."""
        del call
        return as_json(
            views.EvalForms(
                case=msgspec.json.schema(Case),
                gate=msgspec.json.schema(Gate),
                scorers={name: _describe(it.options) for name, it in SCORERS.items()},
            )
        )


def _describe(options: type) -> dict[str, Any]:
    return msgspec.json.schema(options)
