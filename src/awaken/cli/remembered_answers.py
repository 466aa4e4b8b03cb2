"""`awaken policy remembered` and `forget`: list and revoke decisions for later calls."""

from typing import Annotated, Any

import msgspec
import typer

from awaken.bootstrap.stores import profiles_of
from awaken.contracts.errors import InvalidInput
from awaken.contracts.suspension.permissions import PermissionScope
from awaken.contracts.suspension.remembered_answers import RememberedAnswer
from awaken.runtime.primitives.system import SystemClock
from awaken.services.remembered_answers import RememberedAnswers

from .command_context import CommandContext, store_command
from .output import moment, plain, table

OfThread = Annotated[
    str | None, typer.Option("--thread", help="Also the answers of this thread and its run.")
]
OfUser = Annotated[str | None, typer.Option("--user", help="Also the answers of this person.")]
OfTenant = Annotated[
    str | None,
    typer.Option("--tenant", help="Whose project; absent: the thread's tenant, or none."),
]


@store_command()
async def list_remembered(
    context: CommandContext, thread: OfThread = None, user: OfUser = None, tenant: OfTenant = None
) -> None:
    """List the decisions for later calls: of the project, of a thread, of a person."""
    found = await _answers(context).list(thread_id=thread, user_id=user, tenant_id=tenant)
    text = table(_HEAD, map(_row, found)) if found else "Nothing is remembered."
    context.show({"items": list(map(_document, found))}, text)


@store_command()
async def forget_remembered(
    context: CommandContext,
    answer_id: Annotated[
        str | None, typer.Argument(metavar="ID", help="One answer, from `remembered`.")
    ] = None,
    scope: Annotated[
        PermissionScope | None, typer.Option("--scope", help="Every answer of this scope.")
    ] = None,
    thread: OfThread = None,
    user: OfUser = None,
    tenant: OfTenant = None,
) -> None:
    """Revoke one answer, or all of a scope; later calls ask again.

    A running run applies it before its next call.
    """
    whose = {"thread_id": thread, "user_id": user, "tenant_id": tenant}
    answers = _answers(context)
    forgotten: tuple[RememberedAnswer, ...]
    if answer_id is not None and scope is None:
        forgotten = (await answers.forget(answer_id, **whose),)
    elif answer_id is None and scope is not None:
        forgotten = await answers.forget_all(scope, **whose)
    else:
        raise InvalidInput(what="what to forget", problem="name an ID, or --scope for all of one")
    text = "\n".join(f"Forgotten: {plain(_sentence(it))}" for it in forgotten)
    document = {"forgotten": list(map(_document, forgotten))}
    context.show(document, text or "Nothing was remembered.")


def _answers(context: CommandContext) -> RememberedAnswers:
    return RememberedAnswers(context.store, profiles_of(context.store), SystemClock())


_HEAD = ("ID", "SCOPE", "BEHAVIOR", "TOOL", "PATTERN", "DECIDED BY", "DECIDED", "RUN")


def _row(answer: RememberedAnswer) -> tuple[object, ...]:
    return (
        answer.id,
        answer.scope,
        answer.behavior,
        answer.tool,
        answer.pattern,
        answer.decided_by,
        moment(answer.decided_at),
        answer.run_id,
    )


def _document(answer: RememberedAnswer) -> dict[str, Any]:
    return {"id": answer.id, **msgspec.to_builtins(answer)}


def _sentence(answer: RememberedAnswer) -> str:
    return f"{answer.behavior} {answer.tool} by {answer.pattern} for the {answer.scope}"
