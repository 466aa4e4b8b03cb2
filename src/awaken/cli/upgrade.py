"""`awaken upgrade`: checks whether unfinished runs resume with new code."""

from typing import Annotated

import typer

from awaken.bootstrap.agent_runtime import AgentRuntime
from awaken.bootstrap.config_operator import read_code
from awaken.bootstrap.upgrade import UpgradeReport, check_upgrade, without_model
from awaken.contracts.models.model_specs import ModelPool, ModelSpec
from awaken.contracts.storage.store import Store

from .apps import FORMS, App, load_app
from .command_context import CommandContext, store_command
from .config_context import format_problems
from .output import section, table
from .reports import REFUSED

app = typer.Typer(help="Before new code is deployed.", no_args_is_help=True, rich_markup_mode=None)

_MODELS = (ModelSpec, ModelPool)
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

    Also lists managed records whose id the new code has, and overrides whose record it has not.
    Changes nothing. Exits with 0 when every run would resume, with 1 otherwise.
    """
    report = await _check_app(context.store, load_app(app_place))
    context.show(report, _text(report))
    if not report.is_safe:
        raise typer.Exit(REFUSED)


async def _check_app(store: Store, app: App) -> UpgradeReport:
    if app.runtime is None:
        # Models are not checked, but those that agents bring may be named by managed agents.
        given = {it.model.id: it.model for it in app.agents if isinstance(it.model, _MODELS)}
        bare = [without_model(it) for it in app.agents]
        made = AgentRuntime(bare, models=given.values()).registry.snapshot().registries
        return await check_upgrade(store, app.agents, code=read_code(made))
    registries = app.runtime.registry.snapshot().registries
    written = [it.written for it in registries.agents.values() if it.written is not None]
    tools, plugins = registries.tools.values(), registries.plugins.values()
    host = app.runtime.registry.host
    resolver = None if host is None else host.resolver
    return await check_upgrade(
        store,
        written,
        tools=tools,
        plugins=plugins,
        resolver=resolver,
        code=read_code(registries),
    )


def _text(report: UpgradeReport) -> str:
    runs = f"{report.checked} unfinished run{'' if report.checked == 1 else 's'}"
    config = section("Managed configuration", "\n".join(format_problems(report.config)))
    if not report.stranded:
        return f"{runs}, every one of them would go on.{config}"
    rows = [
        (run.run_id, run.thread_id, run.agent_id, run.status, problem)
        for run in report.stranded
        for problem in run.problems
    ]
    return f"{table(_HEAD, rows)}\n\n{len(report.stranded)} of {runs} would not go on.{config}"
