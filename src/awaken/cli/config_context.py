"""The common part of all commands on a configuration: a store, an app, and how to print."""

import asyncio
import getpass
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Concatenate, ParamSpec

import typer

from awaken.bootstrap.agent_runtime import AgentRuntime
from awaken.bootstrap.config_operator import ConfigOperator, OperatorCode, read_code
from awaken.contracts.config.compiler import ConfigProblem
from awaken.contracts.config.errors import InvalidConfig
from awaken.managed.configuration import ManagedConfig
from awaken.managed.parts import Author

from .apps import FORMS, load_app
from .command_context import with_signature
from .output import as_json, plain, print_stderr, print_stdout
from .reports import REFUSED, report_errors
from .stores import check_exists, store_at

P = ParamSpec("P")

CHANGED = 2
"""The exit code of a comparison that found a difference."""
NO_APP = (
    "No --app is given: records are compiled without the code of your agents, and patches on its "
    "records cannot be checked."
)
AppOption = Annotated[
    str | None,
    typer.Option("--app", help=f"The code that records are compiled against: {FORMS}."),
]


@dataclass(frozen=True, slots=True)
class ConfigContext:
    """The context of a command: the configuration of an open store, and the output format."""

    managed: ManagedConfig
    is_json: bool
    has_app: bool

    @property
    def author(self) -> Author:
        """Who acts, as the audit shows it: the user of this machine."""
        return Author(id=f"cli/{_user_name()}")

    def show(self, document: Any, text: str) -> None:
        """Print the document for programs, or the text for people."""
        print_stdout(as_json(document) if self.is_json else text)

    def warn_without_app(self) -> None:
        """Say that only what is independent of the code is checked."""
        if not self.has_app:
            print_stderr(f"awaken: {NO_APP}")


def config_command(body: Callable[Concatenate[ConfigContext, P], Awaitable[None]]) -> Any:
    """Make a command of a coroutine function, with a context and the common options."""

    def command(
        store_url: str | None, *, is_json: bool, app_place: str | None, **given: Any
    ) -> None:
        with report_errors(is_json=is_json):
            try:
                asyncio.run(_run_body(body, given, store_url, app_place, is_json=is_json))
            except InvalidConfig as error:
                print_problems(error.problems, is_json=is_json)
                raise typer.Exit(REFUSED) from error

    return with_signature(command, body, ("app_place", AppOption, None))


async def _run_body(
    body: Callable[..., Awaitable[None]],
    given: dict[str, Any],
    store_url: str | None,
    app_place: str | None,
    *,
    is_json: bool,
) -> None:
    code = None if app_place is None else load_code(app_place)
    store = store_at(store_url)
    await check_exists(store)
    async with ConfigOperator(store, code) as operator:
        context = ConfigContext(operator.managed, is_json, has_app=code is not None)
        await body(context, **given)


def load_code(place: str) -> OperatorCode:
    """Load the code of an app, to compile against; nothing of it is opened.

    Raises:
        AppFailed: Its code raised.
        InvalidInput: There is no such app.
    """
    app = load_app(place)
    runtime = app.runtime or AgentRuntime(app.agents)
    return read_code(runtime.registry.snapshot().registries)


def print_problems(problems: Iterable[ConfigProblem], *, is_json: bool) -> None:
    """Print every problem on stderr, with its file and path."""
    found = tuple(problems)
    if is_json:
        report = {"code": "invalid_config", "message": f"{len(found)} problems", "problems": found}
        print_stderr(as_json(report, indent=None))
        return
    for line in format_problems(found):
        print_stderr(f"awaken: {line}")


def format_problems(problems: Iterable[ConfigProblem]) -> list[str]:
    """Format problems as lines: file, path and message."""
    lines = []
    for it in problems:
        place = ": ".join(plain(part) for part in (it.file, it.path) if part)
        known = f" Known: {', '.join(it.known)}." if it.known else ""
        lines.append(f"{place or 'configuration'}: {plain(it.message)}{plain(known)}")
    return lines


def _user_name() -> str:
    try:
        return getpass.getuser()[:64]
    except (KeyError, OSError):
        return "unknown"
