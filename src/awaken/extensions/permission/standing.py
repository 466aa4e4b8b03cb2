"""What has been answered before, as one run sees it."""

import logging
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

from awaken.contracts.plugins.plugin import PhaseContext
from awaken.contracts.record import Record
from awaken.contracts.state.profile import thread_scope
from awaken.contracts.suspension.permissions import (
    TOOL_GRANTS,
    PermissionScope,
    ToolBehavior,
    ToolGrant,
)
from awaken.contracts.suspension.remembered import (
    FORGOTTEN,
    RUN_ANSWERS,
    SHARED_ANSWERS,
    THREAD_ANSWERS,
    Answers,
    RememberedAnswer,
    project_place,
    user_place,
)
from awaken.patterns import PatternCall, PatternError, ToolPattern, parse_pattern

from .rules import Rule, RuleSet, Verdict, by_specificity, decide

logger = logging.getLogger(__name__)


class Shared(Record, frozen=True, kw_only=True):
    """What others may change while the run executes."""

    answers: tuple[Answers, ...] = ()
    """Those of the project and of the person."""
    forgotten: frozenset[str] = frozenset()
    """Answers of the thread and its run that were taken back."""


class RememberedRules:
    """The answers that hold for one run.

    What others may change is read once, and again before an answer decides: one that somebody
    has taken back decides no call after that.
    """

    __slots__ = ("_made_of", "_rules", "_shared")

    def __init__(self) -> None:
        self._shared: Shared | None = None
        self._made_of: tuple[Any, ...] = ()
        self._rules: tuple[Rule, ...] = ()

    async def verdict(self, context: PhaseContext, rules: RuleSet, call: PatternCall) -> Verdict:
        """What happens to a call, by the rules and by the answers of this moment.

        Raises:
            StorageError: The shared answers cannot be read.
            PatternError: A denial cannot be read any more; without it nothing may pass.
        """
        verdict = decide(rules, call, await self.answers(context))
        if verdict.rule is None or not verdict.rule.is_answer:
            return verdict
        self.read_again()
        return decide(rules, call, await self.answers(context))

    async def denials(self, context: PhaseContext) -> tuple[Rule, ...]:
        """The answers of this moment that deny calls; raises like `verdict`."""
        if not _denying(await self.answers(context)):
            return ()
        self.read_again()
        return _denying(await self.answers(context))

    async def answers(self, context: PhaseContext) -> tuple[Rule, ...]:
        """The answers as they were last read, most specific first; raises like `verdict`."""
        if self._shared is None:
            self._shared = await _shared(context)
        shared, grants, agent_id = self._shared, context.state(TOOL_GRANTS), context.agent.id
        own = (context.state(RUN_ANSWERS), context.state(THREAD_ANSWERS))
        # Values of the state are never changed in place: the same objects say the same.
        if [*map(id, (agent_id, grants, *own, shared))] != [*map(id, self._made_of)]:
            self._made_of = (agent_id, grants, *own, shared)
            granted = _granted(it for it in grants.values() if it.counts_for(agent_id))
            remembered = (it for each in (*own, *shared.answers) for it in each.values())
            kept = (it for it in remembered if it.id not in shared.forgotten)
            self._rules = by_specificity((*granted, *_remembered(kept)))
        return self._rules

    def read_again(self) -> None:
        """What others may change has changed, or may have."""
        self._shared = None


def _denying(answers: tuple[Rule, ...]) -> tuple[Rule, ...]:
    return tuple(it for it in answers if it.behavior is ToolBehavior.DENY)


async def _shared(context: PhaseContext) -> Shared:
    profile = context.profile
    if profile is None:
        return Shared()
    run = context.run
    places = (project_place(run.tenant_id), user_place(run.tenant_id, run.user_id))
    answers = [await profile.read(SHARED_ANSWERS, it) for it in places if it is not None]
    forgotten = await profile.read(FORGOTTEN, thread_scope(run.thread_id))
    return Shared(answers=tuple(answers), forgotten=frozenset(forgotten))


def _granted(grants: Iterable[ToolGrant]) -> Iterator[Rule]:
    for grant in grants:
        for text in grant.patterns:
            if (pattern := _permission(text, grant.source)) is not None:
                yield Rule(pattern, ToolBehavior.ALLOW, PermissionScope.RUN)


def _remembered(answers: Iterable[RememberedAnswer]) -> Iterator[Rule]:
    for answer in answers:
        if answer.behavior is ToolBehavior.ALLOW:
            pattern = _permission(answer.pattern, f"answer to call '{answer.call_id}'")
        else:
            pattern = parsed(answer.pattern)
        if pattern is not None:
            yield Rule(pattern, answer.behavior, answer.scope, answer.tool, is_answer=True)


def _permission(text: str, source: str) -> ToolPattern | None:
    """The pattern of a permission; one that cannot be read permits nothing."""
    try:
        return parsed(text)
    except PatternError as error:
        logger.warning("A permission of '%s' is left out: %s", source, error)
        return None


@lru_cache(maxsize=4_096)
def parsed(text: str) -> ToolPattern:
    """Parse a pattern that was written at run time, once."""
    return parse_pattern(text)
