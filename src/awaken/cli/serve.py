"""`awaken serve`: serves agents over every protocol, until a signal stops it."""

import asyncio
import gc
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Annotated

import msgspec
import typer
import uvicorn
from uvicorn.loops.auto import auto_loop_factory

from awaken.bootstrap.agent_runtime import AgentRuntime
from awaken.contracts.errors import AwakenError, InvalidInput
from awaken.contracts.secrets import RedactedString
from awaken.mailbox.config import MailboxConfig
from awaken.server.addresses import check_exposure
from awaken.server.app import ServerApp
from awaken.server.config import ServerConfig, TokenSpec
from awaken.server.connections import HttpConnections
from awaken.server.environment import with_environment
from awaken.transport.routes import SCOPES

from .apps import FORMS, file_of
from .command_context import BusUrl, StoreUrl
from .command_line import new_app
from .listen_address import (
    BACKLOG,
    DEFAULT,
    ListenAddress,
    open_listener,
    resolve_address,
)
from .logs import with_logs
from .managed_start import ConfigFolder, ConfigPublication, IsUnmanaged, ManagedStart
from .output import GOOD, as_json, plain, print_stdout, style
from .reload import WatchedApp, restart_process, take_inherited_socket
from .reports import IsJson, report_errors
from .serve_targets import (
    ServeTarget,
    load_app_target,
    load_demo_target,
    name_agents,
    warn_missing_keys,
)
from .service_manager import READY, STOPPING, notify_manager
from .stop_signals import catch_stop_signals

app = new_app()

TOKEN_VARIABLE = "AWAKEN_ADMIN_API_BEARER_TOKEN"
_FLUSH_S = 5
"""How long clients may take to read the end of their streams."""


@app.command()
@with_logs(has_requests=True)
def serve(  # noqa: PLR0913 - typer makes an option of each parameter
    app_place: Annotated[
        str | None,
        typer.Argument(metavar="APP", help=f"{FORMS}; absent: the demo."),
    ] = None,
    host: Annotated[
        str | None,
        typer.Option("--host", help=f"Absent: AWAKEN_HTTP_ADDR, else {DEFAULT.host}."),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option("--port", min=0, max=65_535, help=f"0 is any; absent: {DEFAULT.port}."),
    ] = None,
    drain_ms: Annotated[
        int, typer.Option("--drain-ms", min=0, help="How long runs may continue after a signal.")
    ] = MailboxConfig().drain_ms,
    token: Annotated[
        str | None,
        typer.Option("--token", help=f"Allows everything; {TOKEN_VARIABLE} hides it better."),
    ] = None,
    *,
    is_reloading: Annotated[
        bool, typer.Option("--reload", help="Restart when a Python file beside APP changes.")
    ] = False,
    is_unmanaged: IsUnmanaged = False,
    config_folder: ConfigFolder = None,
    config_publication: ConfigPublication = None,
    store_url: StoreUrl = None,
    bus_url: BusUrl = None,
    is_json: IsJson = False,
) -> None:
    """Serve agents over every protocol, until SIGTERM or SIGINT.

    The first signal drains: /health reports it, no run starts, and runs that do not end in time
    are released for another process. The second signal exits at once.
    """
    with report_errors(is_json=is_json):
        watched = _watch_app(app_place) if is_reloading else None
        address = resolve_address(host, port)
        start = ManagedStart(not is_unmanaged, config_folder, config_publication)

        def load() -> ServeTarget:
            if app_place is None:
                served = load_demo_target(store_url, start, bus_url)
            else:
                served = load_app_target(app_place, store_url, start, bus_url)
            config = _with_token(served.config, token)
            check_exposure(address.host, with_environment(config, os.environ))
            return ServeTarget(served.runtime, config)

        _Process(address, load, drain_ms, start, is_json).run(watched)


@dataclass(frozen=True, slots=True)
class _Process:
    """One serving process: loads the app, listens, serves and restarts."""

    address: ListenAddress
    load: Callable[[], ServeTarget]
    drain_ms: int
    start: ManagedStart
    is_json: bool

    def run(self, watched: WatchedApp | None) -> None:
        """Serve until a signal; restart when a watched file changes.

        Raises:
            AwakenError: It cannot start.
        """
        listener = take_inherited_socket()
        served = self._load_or_wait(watched)
        if served is None:
            restart_process(listener)
        with (
            listener or open_listener(self.address) as listener,
            asyncio.Runner(loop_factory=auto_loop_factory()) as runner,
        ):
            if runner.run(self._serve(served, listener, watched)):
                runner.close()
                restart_process(listener)

    def _load_or_wait(self, watched: WatchedApp | None) -> ServeTarget | None:
        """Load the app; if it fails while files are watched, return None after a change."""
        try:
            return self.load()
        except AwakenError:
            if watched is None:
                raise
            with suppress(typer.Exit), report_errors(is_json=self.is_json):
                raise
            if not asyncio.run(_next_change(watched)):
                raise
            return None

    async def _serve(
        self, served: ServeTarget, listener: socket.socket, watched: WatchedApp | None
    ) -> bool:
        """Serve until a signal or a change; returns whether it was a change."""
        with catch_stop_signals() as stop:
            async with served.runtime as runtime:
                await self.start.apply(runtime)
                warn_missing_keys(runtime)
                application = runtime.asgi(served.config)
                await application.open()
                _calm_collector()
                url = ListenAddress(self.address.host, listener.getsockname()[1]).url
                server = _Server(_options(application), lambda: self._say_ready(url, runtime))
                # The server closes the duplicate; the original may keep the port.
                serving = asyncio.create_task(server.serve([listener.dup()]))
                try:
                    is_changed = await _first(stop, watched, serving)
                    if not is_changed:
                        notify_manager(STOPPING)
                        listener.close()
                    await runtime.drain(0 if is_changed else self.drain_ms)
                finally:
                    server.should_exit = True
                    await serving
        return is_changed

    def _say_ready(self, url: str, runtime: AgentRuntime) -> None:
        agents, store = list(runtime.registry.snapshot().registries.agents), runtime.store.name
        facts = {"event": "ready", "pid": os.getpid(), "url": url, "store": store, "agents": agents}
        text = plain(
            f"Ready: {url}, {store}, agents {name_agents(runtime)}{self.start.describe(runtime)}."
        )
        text = text.replace("Ready:", style("Ready:", GOOD), 1)
        print_stdout(as_json(facts, indent=None) if self.is_json else text)
        notify_manager(READY)


class _Server(uvicorn.Server):
    """Reports when it listens, and installs no signal handlers."""

    def __init__(self, config: uvicorn.Config, on_ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_ready = on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to listen."""
        await super().startup(sockets)
        self._on_ready()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture no signals."""
        yield


def _calm_collector() -> None:
    """Exclude long-lived objects from garbage collection, and collect less often.

    A run makes almost no reference cycles, and a collector pause delays its first event.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def _watch_app(place: str | None) -> WatchedApp:
    if place is None:
        raise InvalidInput(what="--reload", problem="name the APP whose files are watched")
    return WatchedApp(file_of(place))


def _options(application: ServerApp) -> uvicorn.Config:
    return uvicorn.Config(
        application, http=HttpConnections(),  # type: ignore[arg-type]
        ws="none", lifespan="off", log_config=None, access_log=False,
        server_header=False, backlog=BACKLOG, timeout_graceful_shutdown=_FLUSH_S,
    )  # fmt: skip


def _with_token(config: ServerConfig, token: str | None) -> ServerConfig:
    if token is None:
        return config
    given = TokenSpec(id="command line", access=SCOPES, token=RedactedString(token))
    return msgspec.structs.replace(config, tokens=(*config.tokens, given))


async def _next_change(watched: WatchedApp) -> bool:
    """Wait for a change; False when a signal came first."""
    with catch_stop_signals() as stop:
        return await _first(stop, watched)


async def _first(
    stop: asyncio.Event, watched: WatchedApp | None, *others: "asyncio.Task[None]"
) -> bool:
    """Wait for a signal, a change or the end of others; returns whether it was a change."""
    asked = asyncio.create_task(stop.wait())
    changes = [] if watched is None else [asyncio.create_task(watched.wait_for_change())]
    try:
        waiting = (asked, *changes, *others)
        done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (asked, *changes):
            task.cancel()
    return asked not in done and any(change in done for change in changes)
