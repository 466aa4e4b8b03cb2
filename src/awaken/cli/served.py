"""What `awaken serve` serves: the runtime of a file, the agents of one, or the demo."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from awaken.bootstrap.agent_runtime import AgentRuntime
from awaken.bootstrap.demo import demo_agents
from awaken.bootstrap.demo_settings import demo_providers
from awaken.bootstrap.stores import opened_store
from awaken.contracts.errors import InvalidInput
from awaken.contracts.storage import Store
from awaken.mailbox.config import MailboxConfig
from awaken.server.config import ServerConfig

from .apps import agents_among, imported, split_place
from .stores import DEFAULT_FILE

AppPlace = Annotated[
    str | None,
    typer.Argument(
        metavar="APP", help="FILE.py with a runtime or agents, or FILE.py:NAME; absent: the demo."
    ),
]
DrainMs = Annotated[
    int, typer.Option("--drain-ms", min=0, help="How long runs may go on without a client.")
]
DRAIN_MS = MailboxConfig().drain_ms


class Served(NamedTuple):
    """A runtime, and how its file wants it to be served."""

    runtime: AgentRuntime
    config: ServerConfig = ServerConfig()


def served_over_stdio(place: str | None, store_url: str | None) -> Served:
    """What a place names, or the demo.

    Raises:
        InvalidInput: It cannot be served.
    """
    if place is None:
        return demo_served(store_url)
    # A runtime that a file brings has its own store, whatever the environment says.
    is_store_chosen = store_url not in (None, os.environ.get("AWAKEN_STORE"))
    return app_served(place, store_url, is_store_chosen=is_store_chosen)


def demo_served(store_url: str | None) -> Served:
    """The demo.

    Raises:
        InvalidInput: The environment or the store's URL is malformed.
    """
    environment = os.environ
    agents, providers = demo_agents(environment), demo_providers(environment)
    return Served(AgentRuntime(agents, providers=providers, store=served_store(store_url)))


def app_served(place: str, store_url: str | None, *, is_store_chosen: bool) -> Served:
    """What `FILE.py` or `FILE.py:NAME` defines; a `ServerConfig` in the file is used.

    Raises:
        InvalidInput: There is no such file, or no runtime and no agent in it.
    """
    path, name = split_place(place)
    values = vars(imported(path))
    found = values.get(name) if name is not None else _only(path, values)
    configs = [value for value in values.values() if isinstance(value, ServerConfig)]
    config = configs[0] if configs else ServerConfig()
    if not isinstance(found, AgentRuntime):
        agents = agents_among(values, path, name)
        return Served(AgentRuntime(agents, store=served_store(store_url)), config)
    if is_store_chosen:
        problem = f"the runtime in '{path}' has its own; pass store=… there"
        raise InvalidInput(what="--store", problem=problem)
    return Served(found, config)


def served_store(url: str | None) -> Store:
    """The store that is named, else a file in `AWAKEN_STORAGE_DIR` or in this folder.

    Raises:
        InvalidInput: No store is known under that URL, or the folder cannot be made.
    """
    folder = os.environ.get("AWAKEN_STORAGE_DIR", "").strip()
    if url or not folder:
        return opened_store(url or f"sqlite:///{DEFAULT_FILE}")
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(what="AWAKEN_STORAGE_DIR", problem=str(error)) from error
    return opened_store(f"sqlite:///{Path(folder) / DEFAULT_FILE}")


def _only(path: Path, values: Mapping[str, Any]) -> AgentRuntime | None:
    runtimes = {name: it for name, it in values.items() if isinstance(it, AgentRuntime)}
    if len(set(runtimes.values())) > 1:
        names = ", ".join(runtimes)
        raise InvalidInput(what=f"'{path}'", problem=f"it has several runtimes: {names}; name one")
    return next(iter(runtimes.values()), None)
