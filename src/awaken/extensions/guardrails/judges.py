"""Agents that judge texts: each runs as a delegate of the review, and gives a verdict.

The run of a judge is durable and charged like that of any delegate: a review that is repeated after
a crash finds its judges and asks none of them twice. A judge answers at once or not at all: one
that waits for a person or takes too long is cancelled, and has given no verdict.
"""

import asyncio
import logging
from collections.abc import Sequence

import msgspec

from awaken.contracts.backend_results import BackendRunResult, BackendRunStatus
from awaken.contracts.errors import AwakenError
from awaken.contracts.messages.content import escape_unprintable
from awaken.contracts.models.inference import TokenUsage
from awaken.contracts.record import Record
from awaken.contracts.tools.context import ToolContext
from awaken.contracts.tools.sub_runs import Delegation

from .config import GuardRule, GuardVerdict, OnJudgeFailure

logger = logging.getLogger(__name__)

REASON_CHARS = 500
_NO_VERDICT = "it gave no verdict"


class Objection(Record, frozen=True, kw_only=True):
    """A rule whose agent does not let a text pass, and why."""

    rule: GuardRule
    reason: str


async def judge_text(
    rules: Sequence[GuardRule], text: str, ctx: ToolContext
) -> tuple[tuple[Objection, ...], TokenUsage | None]:
    """Have a text judged by the agents of all rules; returns the objections and what it cost."""
    objections: list[Objection] = []
    usage: TokenUsage | None = None
    for rule in rules:
        assert rule.agent is not None
        answer = await _ask_judge(rule, rule.agent, text, ctx)
        if answer is not None:
            usage = answer.usage if usage is None else usage.plus(answer.usage)
        verdict = None if answer is None else _read_verdict(answer)
        if verdict is None:
            logger.warning("The agent of guardrail %r gave no verdict.", rule.name)
            is_passed = rule.on_failure is OnJudgeFailure.PASS
            verdict = GuardVerdict(passes=is_passed, reason=_NO_VERDICT)
        if not verdict.passes:
            reason = escape_unprintable(verdict.reason)[:REASON_CHARS] or "it gave no reason"
            objections.append(Objection(rule=rule, reason=reason))
    return tuple(objections), usage


async def _ask_judge(
    rule: GuardRule, agent_id: str, text: str, ctx: ToolContext
) -> BackendRunResult | None:
    """Run the agent on the text within its time; None if it cannot be run or is too slow."""
    try:
        async with asyncio.timeout(rule.timeout_ms / 1000):
            asked = Delegation(agent_id=agent_id, prompt=text, may_wait=False)
            return await ctx.sub_runs.delegate(asked)
    except (TimeoutError, AwakenError) as error:
        logger.warning("The agent of guardrail %r failed: %s", rule.name, error)
        return None


def _read_verdict(answer: BackendRunResult) -> GuardVerdict | None:
    """The verdict in an answer; an answer that is anything else is none."""
    if answer.status is not BackendRunStatus.COMPLETED:
        return None
    try:
        if answer.output.data is not None:
            return msgspec.convert(answer.output.data, GuardVerdict)
        return msgspec.json.decode(answer.text, type=GuardVerdict)
    except msgspec.MsgspecError:
        return None
