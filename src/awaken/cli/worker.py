"""`awaken worker`: executes queued work, until a signal stops it."""

import asyncio
import logging
import os
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
import typer

from awaken.bootstrap.agent_runtime import AgentRuntime
from awaken.bootstrap.node import resolve_bus
from awaken.bootstrap.runtime_options import RuntimeOptions
from awaken.contracts.errors import InvalidInput
from awaken.contracts.runs.records import RunRecord
from awaken.contracts.storage.store import Store
from awaken.demo.agents import demo_agents
from awaken.demo.settings import demo_providers
from awaken.mailbox.config import MailboxConfig

from .apps import FORMS, App, load_app
from .command_context import BusUrl, StoreUrl
from .command_line import new_app
from .finished_runs import FinishedRuns
from .logs import with_logs
from .managed_start import ConfigFolder, ConfigPublication, IsUnmanaged, ManagedStart
from .output import as_json, plain, print_stdout, termination_text
from .reports import IsJson, report_errors
from .serve_targets import (
    adapt_runtime,
    bus_options,
    choose_store,
    name_agents,
    warn_missing_keys,
)
from .service_manager import READY, STOPPING, notify_manager
from .stop_signals import catch_stop_signals
from .stores import store_at

app = new_app()

_DEFAULTS = MailboxConfig()


@app.command()
@with_logs()
def worker(  # noqa: PLR0913 - typer makes an option of each parameter
    app_place: Annotated[
        str | None,
        typer.Argument(metavar="APP", help=f"{FORMS}; absent: the demo."),
    ] = None,
    concurrency: Annotated[
        int | None,
        typer.Option(
            "--concurrency",
            min=1,
            help=f"How many runs at once; absent: {_DEFAULTS.concurrency}, or what the app says.",
        ),
    ] = None,
    lease_ms: Annotated[
        int | None,
        typer.Option(
            "--lease-ms",
            min=100,
            help="After how long without a renewal other workers take over; "
            f"absent: {_DEFAULTS.lease_ms}, on Postgres 10000.",
        ),
    ] = None,
    drain_ms: Annotated[
        int | None,
        typer.Option(
            "--drain-ms",
            min=0,
            help=f"How long runs may continue after a signal; absent: {_DEFAULTS.drain_ms}.",
        ),
    ] = None,
    *,
    is_verbose: Annotated[
        bool,
        typer.Option(
            "--verbose", help="Print a line for each run that ends or waits, and log more."
        ),
    ] = False,
    is_unmanaged: IsUnmanaged = False,
    config_folder: ConfigFolder = None,
    config_publication: ConfigPublication = None,
    store_url: StoreUrl = None,
    bus_url: BusUrl = None,
    is_json: IsJson = False,
) -> None:
    """Execute queued work, until SIGTERM or SIGINT.

    The first signal drains: no run starts, and runs that do not end in time are released for
    another worker. The second signal exits at once.
    """
    if is_verbose:
        root = logging.getLogger()
        root.setLevel(min(root.level, logging.INFO))
    with report_errors(is_json=is_json):
        lines = _Lines(is_json=is_json, is_verbose=is_verbose)
        start = ManagedStart(not is_unmanaged, config_folder, config_publication)
        app = None if app_place is None else load_app(app_place)
        given = {"concurrency": concurrency, "lease_ms": lease_ms, "drain_ms": drain_ms}
        if app is not None and app.runtime is not None:
            chosen = choose_store(app.runtime, store_url)
            runtime = adapt_runtime(app, app.runtime, chosen, start, bus_url)
            _check_shared(app, runtime)
            own = _size_own(runtime, given)
            if own is not None:
                runtime = runtime.with_options(mailbox=own)
            asyncio.run(_work(runtime, lines, start, own))
            return
        config = build_config(**given)
        store = store_at(store_url)
        options = start.options() | bus_options(bus_url)
        if is_verbose:
            bus = resolve_bus(bus_url or None, store)
            options |= {"bus": FinishedRuns(bus, store, lines.say_finished)}
        runtime = _runtime(app, store, {**options, "mailbox": config})
        asyncio.run(_work(runtime, lines, start, config))


def _size_own(runtime: AgentRuntime, given: Mapping[str, int | None]) -> MailboxConfig | None:
    """Return the config of an app's runtime with the options, or None if there are none.

    A process is told its size where it is started; all else stays as the code says it.
    """
    if all(value is None for value in given.values()):
        return None
    return build_config(runtime.given.get("mailbox"), **given)


def _check_shared(app: App, runtime: AgentRuntime) -> None:
    """Refuse the runtime of an app whose store is in memory."""
    if not runtime.store.is_shared:
        problem = "its store is in memory, where no other process queues work; pass --store"
        raise InvalidInput(what=f"The runtime in '{app.place}'", problem=problem)


def _runtime(app: App | None, store: Store, options: RuntimeOptions) -> AgentRuntime:
    if app is not None:
        return AgentRuntime(app.agents, store=store, **options)
    agents, providers = demo_agents(), demo_providers(os.environ)
    return AgentRuntime(agents, providers=providers, store=store, **options)


async def _work(
    runtime: AgentRuntime,
    lines: "_Lines",
    start: ManagedStart,
    config: MailboxConfig | None = None,
) -> None:
    with catch_stop_signals() as stop:
        async with runtime:
            await start.apply(runtime)
            warn_missing_keys(runtime)
            lines.say_ready(runtime, config)
            notify_manager(READY)
            await stop.wait()
            notify_manager(STOPPING)
            lines.say_draining()


class _Lines:
    """The lines of a worker on stdout: one when it is ready, and with `--verbose` more."""

    def __init__(self, *, is_json: bool, is_verbose: bool) -> None:
        self._is_json = is_json
        self._is_verbose = is_verbose

    def say_ready(self, runtime: AgentRuntime, config: MailboxConfig | None) -> None:
        """Print that the worker is ready; with its concurrency, if an option set it."""
        names = list(runtime.registry.snapshot().registries.agents)
        store = runtime.store.name
        document = {"event": "ready", "pid": os.getpid(), "store": store, "agents": names}
        text = f"Ready: {store}, agents {name_agents(runtime)}"
        if config is not None:
            document["concurrency"] = config.concurrency
            text += f", {config.concurrency} runs at once"
        self._say(document, f"{text}.")

    def say_draining(self) -> None:
        """Print that the worker claims no more work."""
        if self._is_verbose:
            self._say({"event": "draining"}, "Draining.")

    def say_finished(self, run: RunRecord) -> None:
        """Print the status of a run after it was executed."""
        if self._is_verbose:
            end = termination_text(run.termination)
            text = f"Run {run.run_id} on thread {run.thread_id}: {run.status} ({end})"
            self._say({"event": "run", "run": run}, text)

    def _say(self, document: Any, text: str) -> None:
        print_stdout(as_json(document, indent=None) if self._is_json else plain(text))


def build_config(
    own: MailboxConfig | None = None,
    /,
    *,
    concurrency: int | None = None,
    lease_ms: int | None = None,
    drain_ms: int | None = None,
) -> MailboxConfig:
    """Build the config out of an app's own one, of which the options replace what they name.

    A short lease is renewed sooner, and expired leases are found sooner.
    """
    own = own or _DEFAULTS
    chosen: dict[str, Any] = {}
    if lease_ms is not None:
        chosen = {
            "lease_ms": lease_ms,
            "renew_ms": min(own.renew_ms, lease_ms // 3),
            "sweep_ms": min(own.sweep_ms, lease_ms // 2),
        }
    if concurrency is not None:
        chosen["concurrency"] = concurrency
    if drain_ms is not None:
        chosen["drain_ms"] = drain_ms
    return msgspec.structs.replace(own, **chosen)
