"""Human scores and labels, and how far judges agree with them."""

from collections.abc import Iterable, Sequence

import msgspec

from awaken.contracts.errors import InvalidValue
from awaken.contracts.evals.eval_runs import EvalItem
from awaken.contracts.evals.scores import Score, ScoreSource, StoredScore
from awaken.contracts.evals.store import EvalStore, ScoreQuery
from awaken.contracts.evals.verdicts import Calibration
from awaken.contracts.runs.records import RunRecord
from awaken.scoring import calibration

PAGE = 1_000
PASS = 0.5
"""A value from here on is a pass, unless the score says so itself."""
LABELS_MAX = 10_000
"""How many labels of a judge are read."""
JudgeKey = tuple[str, str]
"""The prompt and the model of a judge."""


def build_run_score(
    record: RunRecord, score: Score, source: ScoreSource, now: int, by: str
) -> StoredScore:
    """Build the score of a run as it is kept; it belongs to the tenant of the run."""
    return StoredScore(
        run_id=record.run_id,
        scorer=score.name,
        source=source,
        at=now,
        score=score,
        by=by,
        tenant_id=record.tenant_id,
    )


async def add_human_score(evals: EvalStore, stored: StoredScore) -> StoredScore:
    """Keep what a person says of a run, or of one of its steps.

    Raises:
        InvalidValue: The score has no value from 0 to 1.
    """
    value = stored.score.value
    if value is None or not 0 <= value <= 1:
        raise InvalidValue(what=f"score '{stored.scorer}'", problem="its value must be 0 to 1")
    human = msgspec.structs.replace(stored, source=ScoreSource.HUMAN)
    return (await evals.add_scores([human]))[0]


async def calibrate_judge(
    evals: EvalStore,
    scorer: str,
    tenant_id: str | None = None,
    judge_key: JudgeKey | None = None,
) -> Calibration:
    """Compare the scores of a judge with the labels of people on the same runs.

    Only scores by one prompt and one model count: those of `judge_key`, else of the newest score.
    """
    judged: dict[str, StoredScore] = {}
    scores = [
        it
        for source in (ScoreSource.EVAL, ScoreSource.ONLINE)
        for it in await _list_scores(evals, scorer, source, tenant_id)
        if it.score.value is not None
    ]
    if judge_key is None and scores:
        judge_key = _key_of(max(scores, key=lambda it: it.no).score)
    for it in scores:
        if _key_of(it.score) == judge_key:
            judged.setdefault(it.run_id, it)
    labels: dict[str, StoredScore] = {}
    for it in await _list_scores(evals, scorer, ScoreSource.HUMAN, tenant_id):
        # Newest first: what a person said last counts.
        labels.setdefault(it.run_id, it)
    pairs = [
        _build_label(judged[run_id].score, label.score)
        for run_id, label in labels.items()
        if run_id in judged
    ]
    return calibration.calibrate_judge(pairs, scorer)


def _key_of(score: Score) -> JudgeKey | None:
    return None if score.judge is None else score.judge.judge_key


def _build_label(judge: Score, human: Score) -> calibration.JudgeLabel:
    use = judge.judge
    return calibration.JudgeLabel(
        human=_is_pass(human),
        judge=_is_pass(judge),
        votes=() if use is None else use.votes,
        judge_key=_key_of(judge),
    )


def _is_pass(score: Score) -> bool:
    return bool(score.passed) if score.passed is not None else (score.value or 0) >= PASS


async def calibrate_all(evals: EvalStore, items: Iterable[EvalItem]) -> dict[str, Calibration]:
    """Return the calibrations of all judges that scored these items, by the name of the scorer.

    A scorer whose scores are of several prompts or models has none.
    """
    used: dict[str, set[JudgeKey]] = {}
    for score in (it for item in items for it in item.scores if it.value is not None):
        if (key := _key_of(score)) is not None:
            used.setdefault(score.name, set()).add(key)
    return {
        name: await calibrate_judge(evals, name, judge_key=keys.pop())
        for name, keys in sorted(used.items())
        if len(keys) == 1
    }


async def _list_scores(
    evals: EvalStore, scorer: str, source: ScoreSource, tenant_id: str | None
) -> Sequence[StoredScore]:
    found: list[StoredScore] = []
    while len(found) < LABELS_MAX:
        page = await evals.list_scores(
            ScoreQuery(
                scorer=scorer,
                source=source,
                tenant_id=tenant_id,
                before_no=found[-1].no if found else None,
                limit=PAGE,
            )
        )
        found += page
        if len(page) < PAGE:
            break
    return found
