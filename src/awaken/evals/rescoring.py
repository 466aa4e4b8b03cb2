"""Scores an ended eval again, from the recordings of its samples: nothing runs, items stay."""

import msgspec

from awaken.contracts.errors import AwakenError
from awaken.contracts.evals.eval_runs import EvalItem

from .driving import list_items
from .evaluating import EvalResult
from .judging import CallPurse, RuntimeAsk
from .outcomes import (
    SCRIPT_UNUSED,
    build_outcome,
    merge_turns,
    name_unscored,
    settle_scores,
)
from .pairs import add_other, score_pair
from .preparing import PreparedEval, expects_failure, make_case_scorers, prepare_eval
from .results import hash_cases, summarize_eval
from .runner import EvalRunner
from .samples import group_of, list_group_budgets, run_of, thread_of


async def rescore_eval(runner: EvalRunner, eval_id: str, revision: int | None = None) -> EvalResult:
    """Score the samples of an eval by the scorers that its dataset has now.

    Samples whose runs were purged keep the scores that they have.

    Args:
        runner: The evals of a runtime.
        eval_id: The eval.
        revision: The revision whose scorers count. Absent: the newest.

    Raises:
        UnknownEval: There is no such eval.
        EvalError: The dataset was deleted, or a scorer does not fit.
        BudgetExceeded: Of the budget of the eval nothing is left for its judges.
    """
    record = await runner.load(eval_id)
    spec = msgspec.structs.replace(record.spec, revision=revision, has_drafts=True)
    prepared = await prepare_eval(runner.parts, spec, record.publications)
    items, first = [], spec.variants[0].name
    kept = await list_items(runner.parts.evals, eval_id)
    leads = {(it.case_id, it.sample): it for it in kept if it.variant == first}
    for item in kept:
        lead = leads.get((item.case_id, item.sample))
        items.append(await _rescore(runner, eval_id, prepared, item, lead))
    figures = await summarize_eval(runner.parts, record, prepared, items)
    return EvalResult(
        record=record, items=tuple(items), figures=figures, hashes=hash_cases(prepared.revision)
    )


async def _rescore(
    runner: EvalRunner,
    eval_id: str,
    prepared: PreparedEval,
    item: EvalItem,
    lead: EvalItem | None,
) -> EvalItem:
    given = prepared.cases.get(item.case_id)
    if given is None or item.run_id is None or item.status.is_missing:
        return item
    recordings = []
    thread_id = item.run_id.rpartition(":")[0]
    for turn in range(1 + _count_turns(item.run_id, thread_id)):
        try:
            recordings.append(await runner.parts.recorder.record(run_of(thread_id, turn)))
        except AwakenError:
            return item
    purse = CallPurse(
        group=group_of(eval_id),
        budgets=list_group_budgets(prepared.spec),
        thread_id=thread_of(eval_id, item.number),
        parent_run_id=item.run_id,
        model_id=prepared.spec.judge_model_id,
    )
    parts = runner.parts
    ask = RuntimeAsk(parts.control.engine, parts.evals, parts.ids, purse)
    outcome = build_outcome(given, merge_turns(recordings))
    outcome = await add_other(outcome, lead, parts.recorder)
    scorers = make_case_scorers(parts, prepared, given.case, item.variant, ask)
    scores = await score_pair(scorers, outcome, prepared.spec.variants[0].name)
    if ask.refusal is not None:
        raise ask.refusal
    specs = prepared.scorers_of(given.case, item.variant)
    # A sample that failed does not pass because its run is scored once more.
    is_script = (item.error or "").startswith(SCRIPT_UNUSED)
    can_expect = expects_failure(specs) and not is_script
    status, scores = settle_scores(item.status, scores, can_expect=can_expect)
    rescored = msgspec.structs.replace(item, status=status, scores=scores, unscored=())
    return name_unscored(rescored, specs)


def _count_turns(run_id: str, thread_id: str) -> int:
    tail = run_id.removeprefix(f"{thread_id}:run")
    return int(tail) if tail.isdecimal() else 0
