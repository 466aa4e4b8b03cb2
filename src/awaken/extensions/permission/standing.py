"""What has been answered before, as one run sees it."""

import logging
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

from awaken.contracts.permissions import TOOL_GRANTS, PermissionScope, ToolBehavior, ToolGrant
from awaken.contracts.plugins import PhaseContext
from awaken.patterns import PatternError, ToolPattern, parse_pattern

from .rules import Rule, by_specificity
from .state import (
    RUN_ANSWERS,
    SHARED_ANSWERS,
    THREAD_ANSWERS,
    Answers,
    RememberedAnswer,
    project_place,
    user_place,
)

logger = logging.getLogger(__name__)


class Standing:
    """The answers that hold for one run. Those of its project and its person are read once."""

    __slots__ = ("_made_of", "_rules", "_shared")

    def __init__(self) -> None:
        self._shared: tuple[Answers, ...] | None = None
        self._made_of: tuple[Any, ...] = ()
        self._rules: tuple[Rule, ...] = ()

    async def answers(self, context: PhaseContext) -> tuple[Rule, ...]:
        """The answers in force, most specific first.

        Raises:
            StorageError: The shared ones cannot be read.
            PatternError: A denial cannot be read any more; without it nothing may pass.
        """
        if self._shared is None:
            self._shared = await _shared_answers(context)
        grants, agent_id = context.state(TOOL_GRANTS), context.agent.id
        answers = (context.state(RUN_ANSWERS), context.state(THREAD_ANSWERS), *self._shared)
        # Values of the state are never changed in place: the same objects say the same.
        if [*map(id, (agent_id, grants, *answers))] != [*map(id, self._made_of)]:
            self._made_of = (agent_id, grants, *answers)
            granted = _granted(it for it in grants.values() if it.counts_for(agent_id))
            remembered = (answer for each in answers for answer in each.values())
            self._rules = by_specificity((*granted, *_remembered(remembered)))
        return self._rules

    def read_again(self) -> None:
        """The shared answers have changed."""
        self._shared = None


async def _shared_answers(context: PhaseContext) -> tuple[Answers, ...]:
    profile = context.profile
    if profile is None:
        return ()
    places = (project_place(context.run), user_place(context.run))
    return tuple([await profile.read(SHARED_ANSWERS, it) for it in places if it is not None])


def _granted(grants: Iterable[ToolGrant]) -> Iterator[Rule]:
    for grant in grants:
        for text in grant.patterns:
            if (pattern := _permission(text, grant.source)) is not None:
                yield Rule(pattern, ToolBehavior.ALLOW, PermissionScope.RUN, source=grant.source)


def _remembered(answers: Iterable[RememberedAnswer]) -> Iterator[Rule]:
    for answer in answers:
        source = f"answer to call '{answer.call_id}'"
        if answer.behavior is ToolBehavior.ALLOW:
            pattern = _permission(answer.pattern, source)
        else:
            pattern = parsed(answer.pattern)
        if pattern is not None:
            yield Rule(pattern, answer.behavior, answer.scope, answer.tool, source)


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
