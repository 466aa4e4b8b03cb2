"""The `awaken` command."""

import asyncio
import importlib.util
import sys
from pathlib import Path
from typing import Annotated

import typer

from awaken import __version__
from awaken.authoring.agents import Agent
from awaken.bootstrap.agent_runtime import AgentRuntime
from awaken.bootstrap.demo import demo_agents
from awaken.contracts.errors import AwakenError
from awaken.contracts.lifecycle import Failed

from .chat import answer, converse

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Run AI agents.")


def _print_version(is_wanted: bool) -> None:  # noqa: FBT001 - typer passes it so
    if is_wanted:
        typer.echo(f"awaken {__version__}")
        raise typer.Exit


@app.callback()
def main(
    *,
    is_version_wanted: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Run AI agents."""


@app.command()
def run(
    agent_id: Annotated[str | None, typer.Argument(help="The agent; absent: the first.")] = None,
    text: Annotated[str | None, typer.Argument(help="What to say; absent: a conversation.")] = None,
    app_file: Annotated[
        Path | None, typer.Option("--app", help="A Python file with agents; absent: the demo.")
    ] = None,
) -> None:
    """Talk to an agent in the terminal."""
    try:
        agents = agents_in(app_file) if app_file is not None else demo_agents()
        worked = asyncio.run(_talk(agents, agent_id or agents[0].id, text))
    except AwakenError as error:
        typer.echo(f"awaken: {error}", err=True)
        raise typer.Exit(2) from error
    if not worked:
        raise typer.Exit(1)


async def _talk(agents: list[Agent], agent_id: str, text: str | None) -> bool:
    """Talk, and return whether it worked; in a conversation people see for themselves."""
    async with AgentRuntime(agents=agents) as runtime:
        # Before the greeting: it would promise an agent that is not there.
        runtime.registry.snapshot().resolve(agent_id)
        if text is None:
            await converse(runtime, agent_id)
            return True
        thread_id = await answer(runtime, agent_id, text, thread_id=None)
        runs = await runtime.list_runs(thread_id)
        return not any(isinstance(run.termination, Failed) for run in runs)


def agents_in(path: Path) -> list[Agent]:
    """Import a Python file and return the agents it defines, in order.

    Raises:
        AwakenError: The file does not exist or defines no agent.
    """
    if not path.is_file():
        message = f"'{path}' is not a file; pass a Python file that defines agents."
        raise AwakenError(message)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    agents = [value for value in vars(module).values() if isinstance(value, Agent)]
    if not agents:
        message = f"'{path}' defines no agent; assign an awaken.Agent to a name in it."
        raise AwakenError(message)
    return agents
