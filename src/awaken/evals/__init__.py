"""Evals: cases in datasets, tried with agents, scored, compared and gated.

`evaluate` tries a dataset in this process. Belongs here: recordings, replay, datasets, and evals,
which are ordinary durable runs in a world. Stays out: scorers and statistics (`awaken.scoring`).
"""

from typing import TYPE_CHECKING

from awaken._deferred_imports import defer_imports

if TYPE_CHECKING:
    from awaken.contracts.evals.cases import Case, CaseTurn, Expectation
    from awaken.contracts.evals.eval_runs import (
        EvalBudget,
        EvalItem,
        EvalMode,
        EvalRecord,
        EvalSpec,
        EvalStatus,
        ItemStatus,
    )
    from awaken.contracts.evals.recordings import Recording
    from awaken.contracts.evals.scores import Outcome, Score, ScorerSpec
    from awaken.contracts.evals.verdicts import EvalComparison, GateResult, VariantFigures
    from awaken.contracts.evals.worlds import (
        OnMiss,
        OnQuestion,
        PlannedDecision,
        ScriptedCall,
        ScriptedTurn,
        SimulatedUser,
        ToolPolicy,
        ToolSource,
        ToolStub,
        Variant,
    )
    from awaken.evals.evaluating import Dataset, EvalResult, compare, evaluate, scorers

_CONTRACTS = "awaken.contracts.evals."
_HOMES = {
    "Case": f"{_CONTRACTS}cases",
    "CaseTurn": f"{_CONTRACTS}cases",
    "Dataset": "awaken.evals.evaluating",
    "EvalBudget": f"{_CONTRACTS}eval_runs",
    "EvalComparison": f"{_CONTRACTS}verdicts",
    "EvalItem": f"{_CONTRACTS}eval_runs",
    "EvalMode": f"{_CONTRACTS}eval_runs",
    "EvalRecord": f"{_CONTRACTS}eval_runs",
    "EvalResult": "awaken.evals.evaluating",
    "EvalSpec": f"{_CONTRACTS}eval_runs",
    "EvalStatus": f"{_CONTRACTS}eval_runs",
    "Expectation": f"{_CONTRACTS}cases",
    "GateResult": f"{_CONTRACTS}verdicts",
    "ItemStatus": f"{_CONTRACTS}eval_runs",
    "OnMiss": f"{_CONTRACTS}worlds",
    "OnQuestion": f"{_CONTRACTS}worlds",
    "Outcome": f"{_CONTRACTS}scores",
    "PlannedDecision": f"{_CONTRACTS}worlds",
    "Recording": f"{_CONTRACTS}recordings",
    "Score": f"{_CONTRACTS}scores",
    "ScorerSpec": f"{_CONTRACTS}scores",
    "ScriptedCall": f"{_CONTRACTS}worlds",
    "ScriptedTurn": f"{_CONTRACTS}worlds",
    "SimulatedUser": f"{_CONTRACTS}worlds",
    "ToolPolicy": f"{_CONTRACTS}worlds",
    "ToolSource": f"{_CONTRACTS}worlds",
    "ToolStub": f"{_CONTRACTS}worlds",
    "Variant": f"{_CONTRACTS}worlds",
    "VariantFigures": f"{_CONTRACTS}verdicts",
    "compare": "awaken.evals.evaluating",
    "evaluate": "awaken.evals.evaluating",
    "scorers": "awaken.evals.evaluating",
}

__all__ = [
    "Case",
    "CaseTurn",
    "Dataset",
    "EvalBudget",
    "EvalComparison",
    "EvalItem",
    "EvalMode",
    "EvalRecord",
    "EvalResult",
    "EvalSpec",
    "EvalStatus",
    "Expectation",
    "GateResult",
    "ItemStatus",
    "OnMiss",
    "OnQuestion",
    "Outcome",
    "PlannedDecision",
    "Recording",
    "Score",
    "ScorerSpec",
    "ScriptedCall",
    "ScriptedTurn",
    "SimulatedUser",
    "ToolPolicy",
    "ToolSource",
    "ToolStub",
    "Variant",
    "VariantFigures",
    "compare",
    "evaluate",
    "scorers",
]
__getattr__, __dir__ = defer_imports(__name__, _HOMES)
