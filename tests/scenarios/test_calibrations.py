"""A calibration is of one judge: of one prompt and one model, whatever else has the same name."""

import asyncio

from awaken import Agent, AgentRuntime
from awaken.contracts.evals.eval_runs import EvalItem, ItemStatus
from awaken.contracts.evals.scores import JudgeUse, Score, ScoreSource, StoredScore
from awaken.evals.calibrating import calibrate_all, calibrate_judge
from awaken.testing import ScriptedModel

OLD, NEW = (JudgeUse(model_id=it, prompt_hash="h") for it in ("old", "new"))


def make_stored(run: str, source: ScoreSource, use: JudgeUse | None, value: float) -> StoredScore:
    score = Score(name="kind", value=value, passed=value >= 0.5, judge=use)
    return StoredScore(run_id=run, scorer="kind", source=source, at=0, score=score)


def make_item(number: int, use: JudgeUse) -> EvalItem:
    return EvalItem(
        number=number,
        case_id=f"c{number}",
        variant="v",
        sample=0,
        status=ItemStatus.SCORED,
        scores=(Score(name="kind", value=1.0, passed=True, judge=use),),
    )


def test_labels_of_one_judge_calibrate_no_other_one() -> None:
    async def main() -> None:
        agent = Agent("agent", model=ScriptedModel([]), instructions="x")
        async with AgentRuntime([agent]) as runtime:
            evals = runtime.evals.parts.evals
            made = []
            for use, count in ((OLD, 40), (NEW, 20)):
                for at in range(count):
                    run, value = f"{use.model_id}{at}", float(at % 2)
                    made.append(make_stored(run, ScoreSource.EVAL, use, value))
                    made.append(make_stored(run, ScoreSource.HUMAN, None, value))
            await evals.add_scores(made)
            found = await calibrate_all(evals, [make_item(0, OLD)])
            assert (found["kind"].is_calibrated, found["kind"].labels) == (True, 40)
            assert found["kind"].judge_key == OLD.judge_key
            found = await calibrate_all(evals, [make_item(0, NEW)])
            assert (found["kind"].is_calibrated, found["kind"].labels) == (False, 20)
            assert await calibrate_all(evals, [make_item(0, OLD), make_item(1, NEW)]) == {}
            # Without an eval the judge of the newest score is meant.
            newest = await calibrate_judge(evals, "kind")
            assert (newest.model_id, newest.labels) == ("new", 20)

    asyncio.run(main())
