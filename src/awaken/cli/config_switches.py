"""`awaken config switch`: stops agents, tools, models, providers and MCP servers, now."""

from typing import Annotated

import typer

from awaken.contracts.config.heads import SwitchKind, SwitchState
from awaken.managed.heads import ALL, SwitchOrder

from .command_line import new_app
from .config_context import ConfigContext, config_command
from .output import moment, plain, table

app = new_app("Stops that reach running runs.")

Kind = Annotated[SwitchKind, typer.Argument(metavar="KIND", help="agent, tool, model, …, or all.")]
Target = Annotated[str, typer.Argument(metavar="ID", help=f"Its id; of all, {ALL}.")]
Reason = Annotated[str, typer.Option("--reason", help="Why; everyone sees it.")]


@app.command("list")
@config_command
async def list_switches(context: ConfigContext) -> None:
    """List what is paused or disabled, and why."""
    found = (await context.managed.heads.read_head()).switches
    rows = [(it.kind, it.id, it.state, moment(it.at), it.by, it.reason) for it in found]
    head = ("KIND", "ID", "STATE", "SINCE", "BY", "REASON")
    context.show({"items": found}, table(head, rows) if rows else "Nothing is switched off.")


@app.command("pause")
@config_command
async def pause(
    context: ConfigContext, kind: Kind, target: Target = ALL, reason: Reason = ""
) -> None:
    """Pause an agent, or all: runs stop at their next step, and go on when released."""
    await _set(context, kind, target, SwitchState.PAUSED, reason)


@app.command("disable")
@config_command
async def disable(context: ConfigContext, kind: Kind, target: Target, reason: Reason = "") -> None:
    """Disable a tool, a model, a provider or an MCP server, also for running runs."""
    await _set(context, kind, target, SwitchState.DISABLED, reason)


@app.command("release")
@config_command
async def release(context: ConfigContext, kind: Kind, target: Target = ALL) -> None:
    """Let it go on; runs that were paused continue."""
    await context.managed.heads.release_switch(kind, target, context.author)
    context.show({"kind": kind, "id": target}, f"{kind}/{plain(target)} is released.")


async def _set(
    context: ConfigContext, kind: SwitchKind, target: str, state: SwitchState, reason: str
) -> None:
    order = SwitchOrder(kind=kind, id=target, state=state, reason=reason)
    switch = await context.managed.heads.set_switch(order, context.author)
    context.show(switch, f"{kind}/{plain(target)} is {state}.")
