"""Remembered answers: decisions that also apply to later calls, their storage and revocation.

An answer for a run or a thread is state and ends with it; an answer for a project or a person is a
profile entry. Only the executing run can write its state, so revocations are profile entries too:
readers of answers leave out those that are forgotten.
"""

import hashlib
from collections.abc import Mapping

import msgspec

from awaken.contracts.record import Record
from awaken.contracts.state.keys import MergeStrategy, StateKey, StateScope
from awaken.contracts.state.profile import GLOBAL_SCOPE, ProfileKey

from .permissions import PermissionScope, ToolBehavior

ANSWERS_MAX = 1_000
"""How many answers one scope keeps; the oldest permissions are dropped, denials never."""


class RememberedAnswer(Record, frozen=True, kw_only=True):
    """A decision that also applies to later calls."""

    pattern: str
    behavior: ToolBehavior
    scope: PermissionScope
    tool: str
    """The one tool that it applies to, even if the pattern matches more."""
    narrowed_from: PermissionScope | None = None
    """The scope that the decider requested, if that was wider than allowed."""
    call_id: str = ""
    run_id: str = ""
    decided_by: str | None = None
    decided_at: int = 0

    @property
    def subject(self) -> str:
        """The subject of the answer; a later answer with the same subject replaces it."""
        # As JSON, so that two pairs of names never have the same encoding.
        return msgspec.json.encode([self.tool, self.pattern]).decode()

    @property
    def id(self) -> str:
        """Identifies this decision; a new decision on the same calls is another answer."""
        return hashlib.sha256(msgspec.json.encode(self)).hexdigest()[:16]


Answers = Mapping[str, RememberedAnswer]


def answers_after(answers: Answers, answer: RememberedAnswer) -> Answers:
    """Add an answer; the result does not depend on the order or on repetitions."""
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
    """Order of two answers on one subject; at the same time the denial wins."""
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
"""The ids of revoked answers, in the scope of their thread, project or person."""


def project_place(tenant_id: str | None) -> str:
    """The profile scope of a tenant's project answers."""
    return GLOBAL_SCOPE if tenant_id is None else f"tenant::{tenant_id}"


def user_place(tenant_id: str | None, user_id: str | None) -> str | None:
    """The profile scope of a person's answers; None if the user is not known."""
    if user_id is None:
        return None
    # As JSON, so that two pairs of names never have the same encoding.
    return f"user::{msgspec.json.encode([tenant_id, user_id]).decode()}"
