"""Lists and revokes decisions that hold for later calls as well."""

from typing import TypedDict

import msgspec

from awaken.contracts.record import StrictRecord
from awaken.contracts.suspension.permissions import PermissionScope, ToolBehavior
from awaken.contracts.suspension.remembered_answers import RememberedAnswer
from awaken.transport.asgi import Bytes, Reply, as_json
from awaken.transport.routes import Access, RouteCall

from .bodies import Id
from .views import Listed


class Whose(StrictRecord, frozen=True, kw_only=True):
    """Whose answers besides the project's: those of a thread and of a user, else the caller."""

    thread_id: Id | None = None
    user_id: Id | None = None
    """Another user; needs the scope `admin`."""


class AllOf(Whose, frozen=True, kw_only=True):
    """Every answer of one scope."""

    scope: PermissionScope


class AnswerView(msgspec.Struct, frozen=True, kw_only=True):
    """A decision that holds for later calls; the time in milliseconds."""

    id: str
    scope: PermissionScope
    tool: str
    pattern: str
    behavior: ToolBehavior
    narrowed_from: PermissionScope | None
    run_id: str
    call_id: str
    decided_by: str | None
    decided_at: int


class Names(TypedDict):
    """The thread and the user, as arguments of the service."""

    thread_id: str | None
    user_id: str


async def list_answers(call: RouteCall) -> Reply:
    """List the decisions that hold for later calls, of the project, a user and a thread."""
    return _reply_answers(await call.view.remembered.list(**_names(call)))


async def forget_answer(call: RouteCall) -> Reply:
    """Revoke a remembered decision, for all later calls."""
    await call.view.remembered.forget(call.path["answer_id"], **_names(call))
    return Bytes(204)


async def forget_answers(call: RouteCall) -> Reply:
    """Revoke every remembered decision of one scope; answers with these decisions."""
    asked: AllOf = call.query
    return _reply_answers(await call.view.remembered.forget_all(asked.scope, **_names(call)))


def _names(call: RouteCall) -> Names:
    asked: Whose = call.query
    if asked.user_id not in (None, call.principal.id):
        call.require(Access.ADMIN)
    return Names(thread_id=asked.thread_id, user_id=asked.user_id or call.principal.id)


def _reply_answers(answers: tuple[RememberedAnswer, ...]) -> Reply:
    return as_json(Listed(items=tuple(map(_view, answers))))


def _view(answer: RememberedAnswer) -> AnswerView:
    return AnswerView(id=answer.id, **msgspec.structs.asdict(answer))
