"""Loads what `awaken serve` serves: the runtime or the agents of an app, or the demo."""

import logging
import os
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from awaken.bootstrap.agent_runtime import AgentRuntime
from awaken.bootstrap.providers import list_missing_keys
from awaken.bootstrap.runtime_options import RuntimeOptions
from awaken.bootstrap.stores import resolve_store
from awaken.contracts.errors import InvalidInput
from awaken.contracts.storage.store import Store
from awaken.demo.agents import demo_agents
from awaken.demo.settings import demo_providers
from awaken.mailbox.config import MailboxConfig
from awaken.server.config import ServerConfig

from .apps import App, load_app
from .command_context import BUS_VARIABLE
from .managed_start import ManagedStart
from .stores import DEFAULT_FILE

logger = logging.getLogger("awaken.start")

AppPlace = Annotated[
    str | None,
    typer.Argument(
        metavar="APP", help="FILE.py, FILE.py:NAME or package.module:NAME; absent: the demo."
    ),
]
DrainMs = Annotated[
    int, typer.Option("--drain-ms", min=0, help="How long runs may continue without a client.")
]
DRAIN_MS = MailboxConfig().drain_ms
DEFAULT_START = ManagedStart()
"""For commands that take no options of managed configuration: it is on, as everywhere."""


class ServeTarget(NamedTuple):
    """A runtime, and the server config of its app."""

    runtime: AgentRuntime
    config: ServerConfig = ServerConfig()


def load_stdio_target(place: str | None, store_url: str | None) -> ServeTarget:
    """Load the app that a place names, or the demo.

    Raises:
        InvalidInput: It cannot be served.
    """
    if place is None:
        return load_demo_target(store_url)
    return load_app_target(place, store_url)


def load_demo_target(
    store_url: str | None, start: ManagedStart = DEFAULT_START, bus_url: str | None = None
) -> ServeTarget:
    """Load the demo.

    Raises:
        InvalidInput: The environment or the store's URL is malformed.
    """
    environment = os.environ
    agents, providers = demo_agents(environment), demo_providers(environment)
    store, options = store_to_serve(store_url), start.options() | bus_options(bus_url)
    return ServeTarget(AgentRuntime(agents, providers=providers, store=store, **options))


def load_app_target(
    place: str,
    store_url: str | None,
    start: ManagedStart = DEFAULT_START,
    bus_url: str | None = None,
) -> ServeTarget:
    """Load the app that a place names, with the `ServerConfig` in its module.

    Raises:
        AppFailed: Its code raised.
        InvalidInput: There is no such app, or no runtime and no agent in it.
    """
    app = load_app(place)
    configs = [value for value in app.values.values() if isinstance(value, ServerConfig)]
    config = configs[0] if configs else ServerConfig()
    if app.runtime is None:
        store, options = store_to_serve(store_url), start.options() | bus_options(bus_url)
        return ServeTarget(AgentRuntime(app.agents, store=store, **options), config)
    chosen = choose_store(app.runtime, store_url)
    return ServeTarget(adapt_runtime(app, app.runtime, chosen, start, bus_url), config)


def bus_options(url: str | None) -> RuntimeOptions:
    """The options of a runtime that is made for the command; blank is not given."""
    return {"bus": url} if url else {}


def choose_store(runtime: AgentRuntime, url: str | None) -> str | None:
    """The store for the runtime of an app: the environment does not replace one of its own."""
    is_own = "store" in runtime.given
    return None if is_own and url == os.environ.get("AWAKEN_STORE") else url


def adapt_runtime(
    app: App,
    runtime: AgentRuntime,
    store: str | None,
    start: ManagedStart | None = None,
    bus: str | None = None,
) -> AgentRuntime:
    """Give the runtime of an app what the command line says and its code does not.

    Raises:
        InvalidInput: Its code says something else.
    """
    options: dict[str, Any] = {}
    if store is not None:
        if "store" in runtime.given:
            problem = f"the runtime in '{app.place}' has its own; remove store=… there"
            raise InvalidInput(what="--store", problem=problem)
        options["store"] = store
    if bus:
        if "bus" not in runtime.given:
            options["bus"] = bus
        elif bus != os.environ.get(BUS_VARIABLE):
            # The environment does not replace one of its own.
            problem = f"the runtime in '{app.place}' has its own; remove bus=… there"
            raise InvalidInput(what="--bus", problem=problem)
    if start is not None:
        if "managed" in runtime.given:
            start.check_own_runtime(app.place, runtime)
        else:
            options |= start.options()
    return runtime.with_options(**options) if options else runtime


def name_agents(runtime: AgentRuntime) -> str:
    """The agents of a runtime as text for people."""
    named = list(runtime.registry.snapshot().registries.agents)
    return ", ".join([*named, *(["those of its resolver"] if runtime.registry.host else [])])


def warn_missing_keys(runtime: AgentRuntime) -> None:
    """Log a warning for every model whose provider has no key, before a run fails on it."""
    for problem in list_missing_keys(runtime.registry.snapshot()):
        logger.warning("%s", problem, extra={"event": "missing_key"})


def store_to_serve(url: str | None) -> Store:
    """Make the store of a URL, else a file in `AWAKEN_STORAGE_DIR` or in this folder.

    Raises:
        InvalidInput: The URL names no known store, or the folder cannot be created.
    """
    folder = os.environ.get("AWAKEN_STORAGE_DIR", "").strip()
    if url or not folder:
        return resolve_store(url or f"sqlite:///{DEFAULT_FILE}")
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(what="AWAKEN_STORAGE_DIR", problem=str(error)) from error
    return resolve_store(f"sqlite:///{Path(folder) / DEFAULT_FILE}")
