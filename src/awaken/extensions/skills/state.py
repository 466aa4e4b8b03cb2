"""The skills that a run has activated, with their text at that time."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec

from awaken.contracts.messages.message import Provenance
from awaken.contracts.record import Record
from awaken.contracts.state.keys import MergeStrategy, StateKey
from awaken.contracts.suspension.permissions import ToolGrant

R = TypeVar("R", bound=Record)


class ActiveSkill(Record, frozen=True, kw_only=True):
    """A skill as it was when the run activated it; later changes of the skill have no effect."""

    name: str
    text: str
    """The instructions with their arguments inserted."""
    content_hash: str
    is_remote: bool = False
    provenance: Provenance = Provenance.SYSTEM
    """The least trusted source of the text: only the operator's text gets the system role."""
    allowed_tools: tuple[str, ...] = ()
    model: str | None = None


class SkillFork(Record, frozen=True, kw_only=True):
    """A skill that another agent follows while the call waits."""

    call_id: str
    agent_id: str
    prompt: str
    grant: ToolGrant | None = None
    """What the skill grants to the delegate while it follows the skill."""
    wanted_tools: tuple[str, ...] = ()


def _make_apply(kind: type[R], field: str) -> Callable[[Mapping[str, R], Any], Mapping[str, R]]:
    def apply(value: Mapping[str, R], update: Any) -> Mapping[str, R]:
        # After a crash an update is read from the journal in its JSON form.
        entry = msgspec.convert(update, kind)
        return {**value, getattr(entry, field): entry}

    return apply


ACTIVE_SKILLS: StateKey[Mapping[str, ActiveSkill], ActiveSkill] = StateKey(
    "skills.active",
    default={},
    type=dict[str, ActiveSkill],
    apply=_make_apply(ActiveSkill, "name"),
    merge=MergeStrategy.COMMUTATIVE,
)
"""By name; for the run."""

FORKS: StateKey[Mapping[str, SkillFork], SkillFork] = StateKey(
    "skills.forks",
    default={},
    type=dict[str, SkillFork],
    apply=_make_apply(SkillFork, "call_id"),
    merge=MergeStrategy.COMMUTATIVE,
)
"""By call, so that a resumed call finds its delegate even if the skill has changed."""
