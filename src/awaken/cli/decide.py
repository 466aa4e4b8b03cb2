"""`awaken decide`: decides on a ticket."""

from typing import Annotated, Any

import msgspec
import typer

from awaken.bootstrap.decisions import DecisionOptions, build_decision
from awaken.contracts.errors import InvalidInput, UnknownTicket
from awaken.contracts.suspension.permissions import remember_of
from awaken.contracts.suspension.tickets import DecisionAction

from .command_context import CommandContext, store_command
from .command_line import new_app
from .output import plain

app = new_app()


@app.command()
@store_command()
async def decide(  # noqa: PLR0913 - typer makes an option of each parameter
    context: CommandContext,
    ticket: Annotated[str, typer.Argument(help="The ticket's id.")],
    *,
    goes_on: Annotated[
        bool, typer.Option("--resume/--cancel", help="Resume the call, or cancel it.")
    ] = True,
    result: Annotated[str | None, typer.Option("--result", help="The answer, as JSON.")] = None,
    arguments: Annotated[
        str | None, typer.Option("--arguments", help="Edited arguments of the call, as JSON.")
    ] = None,
    reason: Annotated[
        str | None,
        typer.Option("--reason", help="The reason; the model of a cancelled call sees it."),
    ] = None,
    by: Annotated[str | None, typer.Option("--by", help="Who decides.")] = None,
    remember: Annotated[
        str | None,
        typer.Option("--remember", help="Decide later calls too: run, thread, project or user."),
    ] = None,
) -> None:
    """Decide on a ticket; its run resumes when it has no open ticket."""
    options: DecisionOptions = {}
    if result is not None:
        options["result"] = _decode_option("--result", result)
    if arguments is not None:
        options["arguments"] = _decode_option("--arguments", arguments)
    if reason is not None:
        options["reason"] = reason
    if by is not None:
        options["decided_by"] = by
    if (held := remember_of(remember)) is not None:
        options["remember"] = held
    action = DecisionAction.RESUME if goes_on else DecisionAction.CANCEL
    decision = build_decision(ticket, action, options, await context.store.now_ms())
    try:
        (receipt,) = await context.mailbox.decide([(ticket, decision)])
    except UnknownTicket as error:
        remedy = "`awaken tickets list` shows the open ones"
        raise UnknownTicket(ticket_id=ticket, remedy=remedy) from error
    decided = await context.store.find_ticket(ticket)
    # A result that says no declines as well.
    taken = decided.decision.action if decided is not None and decided.decision else action
    done = "resumes" if taken is DecisionAction.RESUME else "is cancelled"
    text = (
        f"Decided: the call of ticket '{plain(ticket)}' {done}, in run '{plain(receipt.run_id)}'."
    )
    context.show(receipt, text)


def _decode_option(option: str, text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        problem = f"it is no JSON ({error}); a text needs its quotes: '\"yes\"'"
        raise InvalidInput(what=option, problem=problem) from error
