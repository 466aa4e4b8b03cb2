"""Agents that judge texts: each runs as a delegate of the review, and gives a verdict.

The run of a judge is durable and charged like that of any delegate: a review that is repeated after
a crash finds its judges and asks none of them twice. A judge answers at once or not at all: one
that waits for a person or takes too long is cancelled, and has given no verdict.
"""

import asyncio
import logging
import re
from collections.abc import Callable, Sequence

import msgspec

from awaken.contracts.backend_results import BackendRunResult, BackendRunStatus
from awaken.contracts.errors import AwakenError
from awaken.contracts.messages.content import escape_unprintable
from awaken.contracts.models.inference import TokenUsage
from awaken.contracts.record import Record
from awaken.contracts.tools.context import ToolContext
from awaken.contracts.tools.sub_runs import Delegation
from awaken.redaction.detectors import select_detectors
from awaken.redaction.replacement import redact_text

from .config import GuardRule, GuardVerdict, OnJudgeFailure

logger = logging.getLogger(__name__)

REASON_CHARS = 500
QUOTED_WORDS = 3
"""How many words in a row of the judged text a reason may not repeat."""
_NO_VERDICT = "it gave no verdict"
_WORD = re.compile(r"\w+")


class Objection(Record, frozen=True, kw_only=True):
    """A rule whose agent does not let a text pass, and why, as people may read it."""

    rule: GuardRule
    reason: str


async def judge_text(
    rules: Sequence[GuardRule], text: str, ctx: ToolContext, redact: Callable[[str], str]
) -> tuple[tuple[Objection, ...], TokenUsage | None]:
    """Have a text judged by the agents of all rules; returns the objections and what it cost.

    `redact` applies the agent's own rules to a reason, besides what `write_reason` does.
    """
    objections: list[Objection] = []
    usage: TokenUsage | None = None
    for rule in rules:
        assert rule.judge_id is not None
        answer = await _ask_judge(rule, rule.judge_id, text, ctx)
        if answer is not None:
            usage = answer.usage if usage is None else usage.plus(answer.usage)
        verdict = None if answer is None else _read_verdict(answer)
        if verdict is None:
            logger.warning("The agent of guardrail %r gave no verdict.", rule.name)
            is_passed = rule.on_failure is OnJudgeFailure.PASS
            verdict = GuardVerdict(passes=is_passed, reason=_NO_VERDICT)
        if not verdict.passes:
            reason = write_reason(redact(verdict.reason), text)
            objections.append(Objection(rule=rule, reason=reason))
    return tuple(objections), usage


def write_reason(reason: str, text: str) -> str:
    """A judge's reason as people may read it: short, and without what the text must not show.

    Secrets and personal data are replaced, and so are passages of the judged text.
    """
    # Cut after redaction: half a secret would not be found.
    safe = redact_text(_omit_passages(reason, text), select_detectors(("secrets", "pii")))
    return escape_unprintable(safe)[:REASON_CHARS].strip() or "it gave no reason"


def _omit_passages(reason: str, text: str) -> str:
    """Replace every passage of some words in a row that the text has as well."""
    known = [it.casefold() for it in _WORD.findall(text)]
    passages = {tuple(known[at : at + QUOTED_WORDS]) for at in range(len(known) - QUOTED_WORDS + 1)}
    words = list(_WORD.finditer(reason))
    said = [it[0].casefold() for it in words]
    parts, end = [], 0
    for at in range(len(said) - QUOTED_WORDS + 1):
        if tuple(said[at : at + QUOTED_WORDS]) in passages:
            start, stop = words[at].start(), words[at + QUOTED_WORDS - 1].end()
            # Passages that overlap are one.
            parts += [reason[end:start], "[…]"] if start >= end else []
            end = stop
    return "".join((*parts, reason[end:]))


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
