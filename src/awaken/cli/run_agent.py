"""`awaken run`: talk to an agent in this process."""

import asyncio
import os
from collections.abc import Sequence
from typing import Annotated

import typer

from awaken.bootstrap.agent_runtime import AgentRuntime
from awaken.contracts.errors import AwakenError, InvalidInput
from awaken.contracts.lifecycle import Failed
from awaken.demo.agents import demo_agents
from awaken.demo.settings import demo_providers
from awaken.runtime.resolution.resolver import DEFAULT_AGENT

from .apps import FORMS, is_place, load_app
from .chat import answer, converse
from .command_context import MISUSED, REFUSED, print_error
from .command_line import new_app

app = new_app()

_AGENT_AND_TEXT = 2


@app.command()
def run(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[APP] [AGENT] [TEXT]",
            help=f"An app ({FORMS}; absent: the demo), the agent (absent: the first), "
            "and what to say (absent: a conversation).",
        ),
    ] = None,
    app_place: Annotated[
        str | None, typer.Option("--app", help="The app, if it is not the first word.")
    ] = None,
) -> None:
    """Talk to an agent in the terminal."""
    try:
        place, rest = _split_words(words or [], app_place)
        runtime = _runtime_of(place)
        agent_id, text = _choose_agent(runtime, rest)
        worked = asyncio.run(_talk(runtime, agent_id, text))
    except AwakenError as error:
        print_error(error)
        raise typer.Exit(MISUSED) from error
    if not worked:
        raise typer.Exit(REFUSED)


def _split_words(words: Sequence[str], app_place: str | None) -> tuple[str | None, list[str]]:
    """Split the words into the app, if the first one is an app, and the rest."""
    rest = list(words)
    if app_place is None and rest and is_place(rest[0]):
        app_place = rest.pop(0)
    if len(rest) > _AGENT_AND_TEXT:
        problem = f"there are {len(rest)} words after the app; quote the text: AGENT 'TEXT'"
        raise InvalidInput(what="awaken run", problem=problem)
    return app_place, rest


def _runtime_of(place: str | None) -> AgentRuntime:
    if place is None:
        return AgentRuntime(demo_agents(), providers=demo_providers(os.environ))
    app = load_app(place)
    return app.runtime or AgentRuntime(app.agents)


def _choose_agent(runtime: AgentRuntime, words: Sequence[str]) -> tuple[str, str | None]:
    """Read the agent and the text; a single word with spaces that is no agent is the text."""
    known = runtime.registry.snapshot().registries.agents
    first = next(iter(known), DEFAULT_AGENT)
    if not words:
        return first, None
    if len(words) == 1 and words[0] not in known and any(map(str.isspace, words[0])):
        return first, words[0]
    return words[0], words[1] if len(words) > 1 else None


async def _talk(runtime: AgentRuntime, agent_id: str, text: str | None) -> bool:
    """Run the agent, and return whether it succeeded; a conversation always does."""
    async with runtime:
        # Before the greeting, which names the agent.
        await runtime.registry.resolve(agent_id)
        if text is None:
            await converse(runtime, agent_id)
            return True
        thread_id = await answer(runtime, agent_id, text, thread_id=None)
        runs = await runtime.list_runs(thread_id)
        return not any(isinstance(run.termination, Failed) for run in runs)
