"""Commands that are imported when they are asked for: most calls need one of them."""

import importlib
from collections.abc import Iterator, Mapping
from typing import Any

import typer
import typer.core
import typer.main

MODULES = {
    "serve": "serve",
    "acp": "acp",
    "run": "talking",
    "worker": "worker",
    "mcp": "mcp",
    "mcp-login": "mcp_login",
    "submit": "sending",
    "steer": "sending",
    "decide": "deciding",
    "cancel": "cancelling",
    "threads": "threads",
    "runs": "runs",
    "tickets": "tickets",
    "dispatches": "dispatches",
    "dead-letters": "dead_letters",
    "models": "models",
    "policy": "policy",
    "db": "db",
    "upgrade": "upgrade",
    "test": "test_app",
    "demo": "demo",
}
"""Every command, in the order in which people read them, and the module that has it."""

SUMMARIES = {
    "serve": "Serve agents over every protocol.",
    "acp": "Serve one agent over the Agent Client Protocol.",
    "run": "Talk to an agent in the terminal.",
    "worker": "Execute what is queued.",
    "mcp": "Serve agents as tools over the Model Context Protocol.",
    "mcp-login": "Log in to an MCP server.",
    "submit": "Send input to a thread; a worker executes it.",
    "steer": "Send a message into the run that executes on a thread.",
    "decide": "Decide on a ticket.",
    "cancel": "Cancel a dispatch, a run, or what a thread does.",
    "threads": "Conversations.",
    "runs": "Executions on threads.",
    "tickets": "Tool calls that wait for a decision.",
    "dispatches": "Deliveries of input to threads.",
    "dead-letters": "Deliveries whose attempts are used up.",
    "models": "Providers, and whether their models answer.",
    "policy": "Permission rules: what they would do.",
    "db": "The store itself.",
    "upgrade": "Before new code is deployed.",
    "test": "Simulate agents: many schedules, and a crash at every commit.",
    "demo": "Show what is promised.",
}
"""What `awaken --help` says of each command, so that listing them imports none."""


def new_app(help_text: str | None = None) -> typer.Typer:
    """An app for one module of commands; its help is plain text."""
    return typer.Typer(help=help_text, no_args_is_help=True, rich_markup_mode=None)


class CommandLine(typer.core.TyperGroup):
    """The group of all commands."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        commands: Any = _Commands()
        self.commands = commands

    def list_commands(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]
        """The names of all commands; nothing is imported for it."""
        return list(MODULES)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the list of commands from their summaries, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(SUMMARIES.items()))


class _Commands(Mapping[str, Any]):
    """Commands by name; looking one up imports its module."""

    def __getitem__(self, name: str) -> Any:
        module = importlib.import_module(f"{__package__}.{MODULES[name]}")
        group: Any = typer.main.get_group(module.app)
        # The module's app is the group of that name, or has the command of that name.
        found = group.commands.get(name, group)
        found.name = name
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(MODULES)

    def __len__(self) -> int:
        return len(MODULES)
