"""The commands; each is imported when it is used: most calls need only one."""

import importlib
from collections.abc import Iterator, Mapping
from typing import Any

import typer
import typer.core
import typer.main

MODULES = {
    "serve": "serve",
    "acp": "acp",
    "run": "run_agent",
    "worker": "worker",
    "mcp": "mcp",
    "mcp-login": "mcp_login",
    "submit": "submit",
    "steer": "submit",
    "decide": "decide",
    "cancel": "cancel",
    "threads": "threads",
    "runs": "runs",
    "tickets": "tickets",
    "dispatches": "dispatches",
    "dead-letters": "dead_letters",
    "models": "models",
    "policy": "policy",
    "config": "config",
    "audit": "audit",
    "db": "db",
    "upgrade": "upgrade",
    "test": "test_app",
    "demo": "demo",
}
"""Every command and its module, in the order of the help."""

SUMMARIES = {
    "serve": "Serve agents over every protocol.",
    "acp": "Serve one agent over the Agent Client Protocol.",
    "run": "Talk to an agent in the terminal.",
    "worker": "Execute queued work.",
    "mcp": "Serve agents as tools over the Model Context Protocol.",
    "mcp-login": "Log in to an MCP server.",
    "submit": "Send input to a thread; a worker executes it.",
    "steer": "Send a message into a thread's running run.",
    "decide": "Decide on a ticket.",
    "cancel": "Cancel a dispatch, a run, or the run of a thread.",
    "threads": "Conversations.",
    "runs": "Executions on threads.",
    "tickets": "Tool calls that wait for a decision.",
    "dispatches": "Deliveries of input to threads.",
    "dead-letters": "Deliveries whose attempts are used up.",
    "models": "Providers, and whether their models answer.",
    "policy": "Permission rules and their effect.",
    "config": "Configuration that changes while servers run.",
    "audit": "Who changed what.",
    "db": "The store itself.",
    "upgrade": "Before new code is deployed.",
    "test": "Simulate agents: many schedules, and a crash at every commit.",
    "demo": "Demonstrate the guarantees.",
}
"""The summary of each command for `awaken --help`, so that listing them imports none."""


def new_app(help_text: str | None = None) -> typer.Typer:
    """Make the typer app of one module of commands; its help is plain text."""
    return typer.Typer(help=help_text, no_args_is_help=True, rich_markup_mode=None)


class CommandLine(typer.core.TyperGroup):
    """The group of all commands."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        commands: Any = _Commands()
        self.commands = commands

    def list_commands(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]
        """The names of all commands, without importing them."""
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
