"""The remembered answers and grants that apply to one run."""

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
from awaken.contracts.suspension.remembered_answers import (
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

from .rules import APPROVAL_NEEDED, Rule, RuleSet, Verdict, by_specificity, decide

logger = logging.getLogger(__name__)
_NO_RULES = RuleSet()


class Shared(Record, frozen=True, kw_only=True):
    """Answers that other processes may change while the run executes."""

    answers: tuple[Answers, ...] = ()
    """The answers of the project and of the user."""
    forgotten: frozenset[str] = frozenset()
    """Revoked answers of the thread and its run."""


class RememberedRules:
    """The answers that apply to one run.

    Shared answers are read once, and again before an answer decides a call, so that a revoked
    answer decides no call after its revocation.
    """

    __slots__ = ("_made_of", "_rules", "_shared")

    def __init__(self) -> None:
        self._shared: Shared | None = None
        self._made_of: tuple[Any, ...] = ()
        self._rules: tuple[Rule, ...] = ()

    async def verdict(self, context: PhaseContext, rules: RuleSet, call: PatternCall) -> Verdict:
        """Decide about a call by the rules and the current answers.

        Raises:
            StorageError: The shared answers cannot be read.
            PatternError: A denial cannot be parsed; without it no call may be allowed.
        """
        verdict = decide(rules, call, await self.answers(context))
        if verdict.rule is None or not verdict.rule.is_answer:
            return verdict
        self.read_again()
        return decide(rules, call, await self.answers(context))

    async def approval_verdict(self, context: PhaseContext, call: PatternCall) -> Verdict:
        """Whether an answer approves a call that its tool wants to be approved; see `verdict`."""
        if not any(it.is_answer for it in await self.answers(context)):
            return APPROVAL_NEEDED
        self.read_again()
        answers = [it for it in await self.answers(context) if it.is_answer]
        verdict = decide(_NO_RULES, call, answers)
        return APPROVAL_NEEDED if verdict.rule is None else verdict

    async def denials(self, context: PhaseContext) -> tuple[Rule, ...]:
        """The current answers that deny calls; raises like `verdict`."""
        if not _filter_denials(await self.answers(context)):
            return ()
        self.read_again()
        return _filter_denials(await self.answers(context))

    async def answers(self, context: PhaseContext) -> tuple[Rule, ...]:
        """The answers as they were last read, most specific first; raises like `verdict`."""
        if self._shared is None:
            self._shared = await _load_shared(context)
        shared, grants, agent_id = self._shared, context.state(TOOL_GRANTS), context.agent.id
        own = (context.state(RUN_ANSWERS), context.state(THREAD_ANSWERS))
        # State values are never changed in place: the same objects have the same content.
        if [*map(id, (agent_id, grants, *own, shared))] != [*map(id, self._made_of)]:
            self._made_of = (agent_id, grants, *own, shared)
            granted = _rules_of_grants(it for it in grants.values() if it.counts_for(agent_id))
            remembered = (it for each in (*own, *shared.answers) for it in each.values())
            kept = (it for it in remembered if it.id not in shared.forgotten)
            self._rules = by_specificity((*granted, *_rules_of_answers(kept)))
        return self._rules

    def read_again(self) -> None:
        """Discard the shared answers; the next use reads them again."""
        self._shared = None


def _filter_denials(answers: tuple[Rule, ...]) -> tuple[Rule, ...]:
    return tuple(it for it in answers if it.behavior is ToolBehavior.DENY)


async def _load_shared(context: PhaseContext) -> Shared:
    profile = context.profile
    if profile is None:
        return Shared()
    run = context.run
    places = (project_place(run.tenant_id), user_place(run.tenant_id, run.user_id))
    answers = [await profile.read(SHARED_ANSWERS, it) for it in places if it is not None]
    forgotten = await profile.read(FORGOTTEN, thread_scope(run.thread_id))
    return Shared(answers=tuple(answers), forgotten=frozenset(forgotten))


def _rules_of_grants(grants: Iterable[ToolGrant]) -> Iterator[Rule]:
    for grant in grants:
        for text in grant.patterns:
            if (pattern := _parse_permission(text, grant.source)) is not None:
                yield Rule(pattern, ToolBehavior.ALLOW, PermissionScope.RUN, is_grant=True)


def _rules_of_answers(answers: Iterable[RememberedAnswer]) -> Iterator[Rule]:
    for answer in answers:
        if answer.behavior is ToolBehavior.ALLOW:
            pattern = _parse_permission(answer.pattern, f"answer to call '{answer.call_id}'")
        else:
            pattern = parse_stored_pattern(answer.pattern)
        if pattern is not None:
            yield Rule(pattern, answer.behavior, answer.scope, answer.tool, is_answer=True)


def _parse_permission(text: str, source: str) -> ToolPattern | None:
    """Parse the pattern of a permission; a malformed one permits nothing."""
    try:
        return parse_stored_pattern(text)
    except PatternError as error:
        logger.warning("A permission of '%s' is left out: %s", source, error)
        return None


@lru_cache(maxsize=4_096)
def parse_stored_pattern(text: str) -> ToolPattern:
    """Parse a pattern that was stored at run time, with a cache."""
    return parse_pattern(text)
