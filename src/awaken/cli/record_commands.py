"""The commands that schedules and triggers share: show, pause, resume and delete by id."""

from collections.abc import Callable
from typing import Annotated, TypeVar

import typer

from awaken.contracts.storage.schedules import Schedule, Trigger
from awaken.scheduling.record_cases import RecordCases

from .command_context import CommandContext, store_command

RecordT = TypeVar("RecordT", bound=Schedule | Trigger)
RecordId = Annotated[str, typer.Argument(metavar="ID", help="The id of the schedule or trigger.")]


def add_record_commands(
    app: typer.Typer,
    kind: str,
    find_cases: Callable[[CommandContext], RecordCases[RecordT]],
    describe: Callable[[RecordT], str],
    helps: dict[str, str],
) -> None:
    """Add the shared commands for a kind of record; `helps` says what each does, by its name."""

    async def show(context: CommandContext, name: RecordId) -> None:
        found = await find_cases(context).get(name)
        context.show(found, describe(found))

    async def pause(context: CommandContext, name: RecordId) -> None:
        context.show(await find_cases(context).pause(name), f"'{name}' is paused.")

    async def resume(context: CommandContext, name: RecordId) -> None:
        context.show(await find_cases(context).resume(name), f"'{name}' is active.")

    async def delete(context: CommandContext, name: RecordId) -> None:
        await find_cases(context).delete(name)
        context.show({f"{kind}_id": name}, f"'{name}' is deleted.")

    for body in (show, pause, resume, delete):
        body.__doc__ = helps[body.__name__]
        app.command(body.__name__)(store_command()(body))
