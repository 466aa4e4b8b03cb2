"""Pauses of the runtime in a world whose model is a script: they count, and take no time."""

import asyncio

from awaken import Agent
from awaken.contracts.evals.cases import Case
from awaken.contracts.evals.eval_runs import EvalItem, ItemStatus
from awaken.contracts.evals.scores import ScorerSpec
from awaken.contracts.evals.worlds import ScriptedTurn
from awaken.evals.evaluating import evaluate
from awaken.models import RetryPolicy
from awaken.testing import ScriptedModel

HOUR_MS = 3_600_000
SAYS = ScorerSpec(scorer="contains", options={"phrases": ["yes"]})
BUSY = ScriptedTurn(error="rate_limited", retry_after_ms=HOUR_MS)
FULL = ScriptedTurn(error="overloaded")
YES = ScriptedTurn(text="yes")


def try_script(policy: RetryPolicy, *script: ScriptedTurn) -> EvalItem:
    case = Case(
        id="c",
        user_input="hi",
        provider_script=script,
        scorers=(SAYS,),
        allow_unused_provider_script=True,
    )
    agent = Agent("agent", model=ScriptedModel([]), instructions="Answer.", config=[policy])

    async def main() -> EvalItem:
        # A run that really pauses does not come back within this.
        async with asyncio.timeout(60):
            return (await evaluate([case], [agent], cell_timeout_ms=50_000)).items[0]

    return asyncio.run(main())


def test_a_pause_of_an_hour_takes_no_time() -> None:
    item = try_script(RetryPolicy(deadline_ms=3 * HOUR_MS), BUSY, BUSY, YES)
    assert (item.status, item.text) == (ItemStatus.SCORED, "yes"), item.error


def test_pauses_count_for_the_deadline_as_if_they_had_taken_their_time() -> None:
    item = try_script(RetryPolicy(deadline_ms=HOUR_MS * 3 // 2), BUSY, BUSY, YES)
    assert item.status is ItemStatus.FAILED
    assert "rate_limited" in (item.error or "")
    # By the policy that agents have, the first pause is too long already.
    assert "rate_limited" in (try_script(RetryPolicy(), BUSY, YES).error or "")


def test_the_runtimes_own_backoff_takes_no_time() -> None:
    policy = RetryPolicy(overloaded_backoff_base_ms=HOUR_MS, deadline_ms=9 * HOUR_MS)
    item = try_script(policy, FULL, FULL, YES)
    assert (item.status, item.text) == (ItemStatus.SCORED, "yes"), item.error
