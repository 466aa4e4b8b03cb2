"""`awaken run`: talk to an agent in this process."""

import asyncio
import os
from pathlib import Path
from typing import Annotated

import typer

from awaken.bootstrap.agent_runtime import AgentRuntime
from awaken.bootstrap.demo import demo_agents
from awaken.bootstrap.demo_settings import demo_providers
from awaken.contracts.errors import AwakenError
from awaken.contracts.lifecycle import Failed

from .apps import agents_in
from .chat import answer, converse
from .command_line import new_app
from .desk import MISUSED, REFUSED
from .printing import complain, plain

app = new_app()


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
        runtime = AgentRuntime(
            agents, providers=demo_providers(os.environ) if app_file is None else {}
        )
        worked = asyncio.run(_talk(runtime, agent_id or agents[0].id, text))
    except AwakenError as error:
        complain(f"awaken: {plain(error)}")
        raise typer.Exit(MISUSED) from error
    if not worked:
        raise typer.Exit(REFUSED)


async def _talk(runtime: AgentRuntime, agent_id: str, text: str | None) -> bool:
    """Talk, and return whether it worked; in a conversation people see for themselves."""
    async with runtime:
        # Before the greeting: it would promise an agent that is not there.
        runtime.registry.snapshot().resolve(agent_id)
        if text is None:
            await converse(runtime, agent_id)
            return True
        thread_id = await answer(runtime, agent_id, text, thread_id=None)
        runs = await runtime.list_runs(thread_id)
        return not any(isinstance(run.termination, Failed) for run in runs)
