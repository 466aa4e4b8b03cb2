"""The commands; each is imported when it is used: most calls need only one."""

import importlib
import os
import sys
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import typer
import typer.core
import typer.main

from .streams import find_output_error, flush_stdout, give_up_stdout, prepare_streams

COMPLETE_VARIABLE = "_AWAKEN_COMPLETE"
"""The variable with which the script of a shell asks for completions."""

MODULES = {
    "init": "init",
    "chat": "run_agent",
    "run": "run_agent",
    "serve": "serve",
    "doctor": "doctor",
    "acp": "acp",
    "worker": "worker",
    "mcp": "mcp",
    "mcp-login": "mcp_login",
    "submit": "submit",
    "steer": "submit",
    "decide": "decide",
    "cancel": "cancel",
    "threads": "threads",
    "runs": "runs",
    "recording": "recording",
    "replay": "replay",
    "tickets": "tickets",
    "dispatches": "dispatches",
    "dead-letters": "dead_letters",
    "eval": "eval",
    "schedules": "schedules",
    "triggers": "triggers",
    "models": "models",
    "policy": "policy",
    "memory": "memory",
    "knowledge": "knowledge",
    "config": "config",
    "audit": "audit",
    "cluster": "cluster",
    "db": "db",
    "upgrade": "upgrade",
    "test": "test_app",
    "demo": "demo",
    "completion": "completion",
}
"""Every command and its module, in the order of the help."""

SUMMARIES = {
    "init": "Make a project: an agent, a tool and a test.",
    "chat": "Talk to an agent in the terminal.",
    "run": "Ask an agent once, or talk to it.",
    "serve": "Serve agents over every protocol.",
    "doctor": "Check this machine: versions, keys, store, carrier, port, clock and sandbox.",
    "acp": "Serve one agent over the Agent Client Protocol.",
    "worker": "Execute queued work.",
    "mcp": "Serve agents as tools over the Model Context Protocol.",
    "mcp-login": "Log in to an MCP server.",
    "submit": "Send input to a thread; a worker executes it.",
    "steer": "Send a message into a thread's running run.",
    "decide": "Decide on a ticket.",
    "cancel": "Cancel a dispatch, a run, or the run of a thread.",
    "threads": "Conversations.",
    "runs": "Executions on threads.",
    "recording": "What stored runs did, as documents.",
    "replay": "Replay a run without its tools touching the world.",
    "tickets": "Tool calls that wait for a decision.",
    "dispatches": "Deliveries of input to threads.",
    "dead-letters": "Deliveries whose attempts are used up.",
    "eval": "Try agents with the cases of a dataset.",
    "schedules": "Runs that start by time.",
    "triggers": "Runs that start by signed webhooks.",
    "models": "Providers, and whether their models answer.",
    "policy": "Permission rules and their effect.",
    "memory": "Facts about users and projects.",
    "knowledge": "Documents that agents search.",
    "config": "Configuration that changes while servers run.",
    "audit": "Who changed what.",
    "cluster": "The nodes that share a store.",
    "db": "The store itself.",
    "upgrade": "Before new code is deployed.",
    "test": "Simulate agents: many schedules, and a crash at every commit.",
    "demo": "Demonstrate the guarantees.",
    "completion": "Complete commands and options in your shell.",
}
"""The summary of each command for `awaken --help`, so that listing them imports none."""


def new_app(help_text: str | None = None) -> typer.Typer:
    """Make the typer app of one module of commands; its help is plain text."""
    return typer.Typer(help=help_text, no_args_is_help=True, rich_markup_mode=None)


class Completion(NamedTuple):
    """A command that a shell may complete, in the form that typer expects."""

    value: str
    help: str
    type: str = "plain"


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

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """Complete the name of a command from the list, without importing any."""
        found = [it for it in SUMMARIES.items() if it[0].startswith(incomplete)]
        return [Completion(name, summary) for name, summary in found]

    def main(self, *arguments: Any, **options: Any) -> Any:
        """Run the command, or answer the shell that asks for completions."""
        prepare_streams()
        if COMPLETE_VARIABLE in os.environ:
            importlib.import_module("typer.completion").completion_init()
        try:
            try:
                # Whatever the program is called: `python -m awaken` is the same.
                return super().main(*arguments, **{"complete_var": COMPLETE_VARIABLE, **options})
            finally:
                flush_stdout()
        except (OSError, BaseExceptionGroup) as error:
            failed = find_output_error(error)
            if failed is None:
                raise
            give_up_stdout(failed)
            sys.exit(1)


class _Commands(Mapping[str, Any]):
    """Commands by name; looking one up imports its module."""

    def __getitem__(self, name: str) -> Any:
        module = importlib.import_module(f"{__package__}.{MODULES[name]}")
        group: Any = typer.main.get_group(module.app)
        # The module's app is the group of that name, or has the command of that name.
        found = group.commands.get(name, group)
        found.name = name
        _add_examples(name, found)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(MODULES)

    def __len__(self) -> int:
        return len(MODULES)


def _add_examples(path: str, command: Any) -> None:
    """Show the example of a command, and of each command below it, at the end of its help."""
    # The list of commands needs none of them.
    from .examples import EXAMPLES  # noqa: PLC0415

    if path in EXAMPLES:
        # The mark keeps the lines as they are.
        command.epilog = f"\b\nExample:\n  {EXAMPLES[path]}"
    for name, child in getattr(command, "commands", {}).items():
        _add_examples(f"{path} {name}", child)
