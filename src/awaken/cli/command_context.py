"""The common part of all commands on a store: `--store`, `--json`, an open store, errors."""

import asyncio
import inspect
import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Concatenate, ParamSpec

import typer

from awaken.bootstrap.operator import Operator
from awaken.contracts.storage.queries import Page
from awaken.contracts.storage.store import Store
from awaken.mailbox.mailbox import Mailbox

from .apps import load_app
from .output import as_json, print_stdout, table
from .reports import IsJson, report_errors
from .stores import check_exists, name_store, store_at

P = ParamSpec("P")

BUS_VARIABLE = "AWAKEN_BUS"
StoreUrl = Annotated[
    str | None,
    typer.Option(
        "--store",
        envvar="AWAKEN_STORE",
        help="The store's URL; absent: AWAKEN_STORE, else awaken.db in this folder.",
    ),
]

BusUrl = Annotated[
    str | None,
    typer.Option(
        "--bus",
        envvar=BUS_VARIABLE,
        help=f"Carries signals: nats://…, or none; absent: {BUS_VARIABLE}, else the store's own.",
    ),
]


def bus_from_environment() -> str | None:
    """The bus for commands that only tell one signal; they have no option for it."""
    return os.environ.get(BUS_VARIABLE, "").strip() or None


@dataclass(frozen=True, slots=True)
class CommandContext:
    """The context of a command: an open store, and the output format."""

    operator: Operator
    is_json: bool

    @property
    def store(self) -> Store:
        """The open store."""
        return self.operator.store

    @property
    def mailbox(self) -> Mailbox:
        """Sends input, decides and cancels."""
        return self.operator.mailbox

    def show(self, document: Any, text: str) -> None:
        """Print the document for programs, or the text for people."""
        print_stdout(as_json(document) if self.is_json else text)

    def show_page(
        self, page: Page[Any], head: Sequence[str], row: Callable[[Any], Sequence[object]]
    ) -> None:
        """Print one page of a listing."""
        document: dict[str, Any] = {"items": page.items, "next_cursor": page.next_cursor}
        text = table(head, map(row, page.items)) if page.items else "Nothing is there."
        if page.next_cursor is not None:
            is_counted = page.total is not None
            shown = f"{len(page.items)} of {page.total}" if is_counted else "More follow"
            text += f"\n\n{shown}; go on with --cursor {page.next_cursor}"
        if page.damaged:
            document["damaged"] = page.damaged
            text += f"\n\nDamaged and left out: {page.damaged}; `awaken db check` names them."
        self.show(document, text)


Body = Callable[Concatenate[CommandContext, P], Awaitable[None]]


def store_command(*, may_create: bool = False) -> Callable[[Body[P]], Callable[..., None]]:
    """Make a command of a coroutine function, with a context and the common options.

    Unless the command `may_create` it, a store that does not exist is refused.
    """

    def decorate(body: Body[P]) -> Callable[..., None]:
        def command(store_url: str | None, *, is_json: bool, **given: Any) -> None:
            with report_errors(is_json=is_json):
                asyncio.run(_run_body(body, given, store_url, is_json, may_create))

        return with_signature(command, body)

    return decorate


def with_signature(
    command: Callable[..., None],
    body: Callable[..., Awaitable[None]],
    *options: tuple[str, Any, object],
) -> Callable[..., None]:
    """Give a command the parameters of its body but the first, further options, and the common."""
    own = list(inspect.signature(body).parameters.values())[1:]
    shown = [*own, *(_option(*it) for it in options), *_SHARED]
    named: Any = command
    named.__name__, named.__doc__ = getattr(body, "__name__", ""), body.__doc__
    named.__module__ = body.__module__
    # Typer makes arguments and options from the signature.
    named.__signature__ = inspect.Signature(shown)
    named.__annotations__ = {each.name: each.annotation for each in shown}
    return command


async def _run_body(
    body: Callable[..., Awaitable[None]],
    given: dict[str, Any],
    store_url: str | None,
    is_json: bool,  # noqa: FBT001 - passed through
    may_create: bool,  # noqa: FBT001 - passed through
) -> None:
    # A command that loads an app is about the store that the app names.
    place = given.get("app_place")
    runtime = None if place is None else load_app(place).runtime
    store = store_at(name_store(runtime, store_url))
    if not may_create:
        await check_exists(store)
    async with Operator(store, bus=bus_from_environment()) as operator:
        await body(CommandContext(operator, is_json), **given)


def _option(name: str, annotation: Any, default: object) -> inspect.Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=default, annotation=annotation)


_SHARED = (_option("store_url", StoreUrl, None), _option("is_json", IsJson, default=False))
