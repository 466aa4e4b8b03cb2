"""What a run remembers of the skills it has taken up: their words, as they were then."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec

from awaken.contracts.messages.message import Provenance
from awaken.contracts.record import Record
from awaken.contracts.state.keys import MergeStrategy, StateKey
from awaken.contracts.suspension.permissions import ToolGrant

R = TypeVar("R", bound=Record)


class ActiveSkill(Record, frozen=True, kw_only=True):
    """A skill as it was when the run took it up; a later change of the skill changes nothing."""

    name: str
    text: str
    """The instructions with their arguments in place."""
    content_hash: str
    is_remote: bool = False
    provenance: Provenance = Provenance.SYSTEM
    """Whose words the text has, the least trusted of them: only the operator's instruct."""
    allowed_tools: tuple[str, ...] = ()
    model: str | None = None


class SkillFork(Record, frozen=True, kw_only=True):
    """A skill that another agent follows for one call, which waits for it."""

    call_id: str
    agent_id: str
    prompt: str
    grant: ToolGrant | None = None
    """What the skill allows its follower, for as long as it follows."""
    wanted_tools: tuple[str, ...] = ()


def _added(kind: type[R], field: str) -> Callable[[Mapping[str, R], Any], Mapping[str, R]]:
    def apply(value: Mapping[str, R], update: Any) -> Mapping[str, R]:
        # After a crash an update comes back from the journal in its JSON form.
        entry = msgspec.convert(update, kind)
        return {**value, getattr(entry, field): entry}

    return apply


ACTIVE_SKILLS: StateKey[Mapping[str, ActiveSkill], ActiveSkill] = StateKey(
    "skills.active",
    default={},
    type=dict[str, ActiveSkill],
    apply=_added(ActiveSkill, "name"),
    merge=MergeStrategy.COMMUTATIVE,
)
"""By name; for the run."""

FORKS: StateKey[Mapping[str, SkillFork], SkillFork] = StateKey(
    "skills.forks",
    default={},
    type=dict[str, SkillFork],
    apply=_added(SkillFork, "call_id"),
    merge=MergeStrategy.COMMUTATIVE,
)
"""By call, so that a call that goes on finds its delegate whatever became of the skill."""
