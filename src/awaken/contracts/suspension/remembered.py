"""What people have decided for later calls as well, where it is kept, and how it is taken back.

An answer for a run or a thread is state, and ends with it; one for a project or a person is a
profile entry. State belongs to the run that executes, so what is taken back of it is noted beside
it: whoever reads answers leaves out those that are forgotten.
"""

import hashlib
from collections.abc import Mapping

import msgspec

from awaken.contracts.record import Record
from awaken.contracts.state.keys import MergeStrategy, StateKey, StateScope
from awaken.contracts.state.profile import GLOBAL_SCOPE, ProfileKey

from .permissions import PermissionScope, ToolBehavior

ANSWERS_MAX = 1_000
"""How many answers one scope keeps; the oldest permissions make room, denials never do."""


class RememberedAnswer(Record, frozen=True, kw_only=True):
    """A decision that holds for later calls as well."""

    pattern: str
    behavior: ToolBehavior
    scope: PermissionScope
    tool: str
    """The one tool that it is about, however many the pattern names."""
    narrowed_from: PermissionScope | None = None
    """How far whoever decided wanted it to reach, when that was further than it may."""
    call_id: str = ""
    run_id: str = ""
    decided_by: str | None = None
    decided_at: int = 0

    @property
    def subject(self) -> str:
        """What it is about; a later answer about the same takes its place."""
        # As JSON, so that no two pairs of names can look alike.
        return msgspec.json.encode([self.tool, self.pattern]).decode()

    @property
    def id(self) -> str:
        """This one decision: the same calls decided about again are another answer."""
        return hashlib.sha256(msgspec.json.encode(self)).hexdigest()[:16]


Answers = Mapping[str, RememberedAnswer]


def answers_after(answers: Answers, answer: RememberedAnswer) -> Answers:
    """The answers with one more; in any order and however often it is added, the same ones."""
    known = answers.get(answer.subject)
    if known is not None and _age(known) > _age(answer):
        return answers
    kept = {**answers, answer.subject: answer}
    if len(kept) > ANSWERS_MAX:
        permissions = [it for it in kept.values() if it.behavior is ToolBehavior.ALLOW]
        if permissions:
            del kept[min(permissions, key=_age).subject]
    return kept


def _age(answer: RememberedAnswer) -> tuple[int, bool, str, str]:
    """What decides between two answers; of two at the same moment, the denial stays."""
    is_denial = answer.behavior is ToolBehavior.DENY
    return (answer.decided_at, is_denial, answer.run_id, answer.call_id)


def _answers_key(name: str, scope: StateScope) -> StateKey[Answers, RememberedAnswer]:
    return StateKey(
        name,
        default={},
        type=dict[str, RememberedAnswer],
        apply=answers_after,
        merge=MergeStrategy.COMMUTATIVE,
        scope=scope,
    )


RUN_ANSWERS = _answers_key("permission.run_answers", StateScope.RUN)
THREAD_ANSWERS = _answers_key("permission.thread_answers", StateScope.THREAD)
SHARED_ANSWERS: ProfileKey[Answers] = ProfileKey(
    "permission.answers", default={}, type=dict[str, RememberedAnswer]
)
FORGOTTEN: ProfileKey[tuple[str, ...]] = ProfileKey(
    "permission.forgotten", default=(), type=tuple[str, ...]
)
"""The ids of answers that were taken back, in the scope of their thread, project or person."""


def project_place(tenant_id: str | None) -> str:
    """Where the answers of a tenant's project are kept."""
    return GLOBAL_SCOPE if tenant_id is None else f"tenant::{tenant_id}"


def user_place(tenant_id: str | None, user_id: str | None) -> str | None:
    """Where the answers of a person are kept; None when nobody knows who that is."""
    if user_id is None:
        return None
    # As JSON, so that no two pairs of names can look alike.
    return f"user::{msgspec.json.encode([tenant_id, user_id]).decode()}"
