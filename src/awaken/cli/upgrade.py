"""`awaken upgrade`: checks whether unfinished runs resume with new code."""

from typing import Annotated

import typer

from awaken.bootstrap.upgrade import UpgradeReport, check_upgrade
from awaken.contracts.storage.store import Store

from .apps import FORMS, App, load_app
from .command_context import REFUSED, CommandContext, store_command
from .output import table

app = typer.Typer(help="Before new code is deployed.", no_args_is_help=True, rich_markup_mode=None)

_HEAD = ("RUN", "THREAD", "AGENT", "STATUS", "WHY")


@app.callback()
def upgrade() -> None:
    """Before new code is deployed."""


@app.command()
@store_command()
async def check(
    context: CommandContext,
    app_place: Annotated[str, typer.Argument(metavar="APP", help=f"The new agents: {FORMS}.")],
) -> None:
    """List unfinished runs that would not resume with the agents of a file, and why.

    Changes nothing. Exits with 0 when every run would resume, with 1 otherwise.
    """
    report = await _check_app(context.store, load_app(app_place))
    context.show(report, _text(report))
    if not report.is_safe:
        raise typer.Exit(REFUSED)


async def _check_app(store: Store, app: App) -> UpgradeReport:
    if app.runtime is None:
        return await check_upgrade(store, app.agents)
    registries = app.runtime.registry.snapshot().registries
    written = [it.written for it in registries.agents.values() if it.written is not None]
    tools, plugins = registries.tools.values(), registries.plugins.values()
    host = app.runtime.registry.host
    resolver = None if host is None else host.resolver
    return await check_upgrade(store, written, tools=tools, plugins=plugins, resolver=resolver)


def _text(report: UpgradeReport) -> str:
    runs = f"{report.checked} unfinished run{'' if report.checked == 1 else 's'}"
    if report.is_safe:
        return f"{runs}, every one of them would go on."
    rows = [
        (run.run_id, run.thread_id, run.agent_id, run.status, problem)
        for run in report.stranded
        for problem in run.problems
    ]
    return f"{table(_HEAD, rows)}\n\n{len(report.stranded)} of {runs} would not go on."
