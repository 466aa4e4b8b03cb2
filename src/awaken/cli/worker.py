"""`awaken worker`: executes what is queued, until it is told to stop."""

import asyncio
import logging
import os
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from awaken.authoring.agents import Agent
from awaken.bootstrap.agent_runtime import AgentRuntime
from awaken.bootstrap.demo import demo_agents
from awaken.bootstrap.demo_settings import demo_providers
from awaken.bootstrap.node import bus_of
from awaken.contracts.models import ProviderSpec
from awaken.contracts.runs import RunRecord
from awaken.contracts.storage import Store
from awaken.mailbox.config import MailboxConfig

from .apps import agents_at
from .command_line import new_app
from .desk import IsJson, StoreUrl, reporting
from .finished_runs import FinishedRuns
from .logs import log_to_stderr
from .printing import as_json, ending_text, out, plain
from .stop_signals import stop_signals
from .stores import store_at

app = new_app()

_DEFAULTS = MailboxConfig()


@app.command()
def worker(  # noqa: PLR0913 - typer makes an option of each parameter
    app_place: Annotated[
        str | None,
        typer.Argument(
            metavar="APP", help="FILE.py with agents, or FILE.py:NAME; absent: the demo."
        ),
    ] = None,
    concurrency: Annotated[
        int, typer.Option("--concurrency", min=1, help="How many runs at once.")
    ] = _DEFAULTS.concurrency,
    lease_ms: Annotated[
        int,
        typer.Option(
            "--lease-ms", min=100, help="After how long without a sign of life others take over."
        ),
    ] = _DEFAULTS.lease_ms,
    drain_ms: Annotated[
        int, typer.Option("--drain-ms", min=0, help="How long runs may go on after a signal.")
    ] = _DEFAULTS.drain_ms,
    *,
    is_verbose: Annotated[
        bool,
        typer.Option(
            "--verbose", help="Print a line for each run that ends or waits, and log more."
        ),
    ] = False,
    store_url: StoreUrl = None,
    is_json: IsJson = False,
) -> None:
    """Execute what is queued, until SIGTERM or SIGINT.

    The first signal drains: nothing new is begun, and what does not end in time is given back
    for another worker. The second one exits at once.
    """
    log_to_stderr(logging.INFO if is_verbose else logging.WARNING)
    with reporting(is_json=is_json):
        store = store_at(store_url)
        agents = demo_agents() if app_place is None else agents_at(app_place)
        providers = demo_providers(os.environ) if app_place is None else {}
        config = configured(concurrency, lease_ms, drain_ms)
        lines = _Lines(is_json=is_json, is_verbose=is_verbose)
        asyncio.run(_work(agents, providers, store, config, lines))


async def _work(
    agents: list[Agent],
    providers: Mapping[str, ProviderSpec],
    store: Store,
    config: MailboxConfig,
    lines: "_Lines",
) -> None:
    bus = FinishedRuns(bus_of(store), store, lines.finished)
    with stop_signals() as stop:
        async with AgentRuntime(agents, providers=providers, store=store, bus=bus, mailbox=config):
            lines.ready(store, agents, config)
            await stop.wait()
            lines.draining()


class _Lines:
    """What a worker says on stdout: one line when it is ready, and if wanted what it does then."""

    def __init__(self, *, is_json: bool, is_verbose: bool) -> None:
        self._is_json = is_json
        self._is_verbose = is_verbose

    def ready(self, store: Store, agents: list[Agent], config: MailboxConfig) -> None:
        """Say that work begins."""
        names = [agent.id for agent in agents]
        document = {
            "event": "ready",
            "pid": os.getpid(),
            "store": store.name,
            "agents": names,
            "concurrency": config.concurrency,
        }
        text = f"Ready: {store.name}, agents {', '.join(names)}, {config.concurrency} runs at once."
        self._say(document, text)

    def draining(self) -> None:
        """Say that nothing new is begun."""
        if self._is_verbose:
            self._say({"event": "draining"}, "Draining.")

    def finished(self, run: RunRecord) -> None:
        """Say how a run stands after it was executed."""
        if self._is_verbose:
            end = ending_text(run.termination)
            text = f"Run {run.run_id} on thread {run.thread_id}: {run.status} ({end})"
            self._say({"event": "run", "run": run}, text)

    def _say(self, document: Any, text: str) -> None:
        out(as_json(document, indent=None) if self._is_json else plain(text))


def configured(concurrency: int, lease_ms: int, drain_ms: int) -> MailboxConfig:
    """A short lease needs its sign of life sooner, and who takes over looks more often."""
    return MailboxConfig(
        concurrency=concurrency,
        lease_ms=lease_ms,
        renew_ms=min(_DEFAULTS.renew_ms, lease_ms // 3),
        sweep_ms=min(_DEFAULTS.sweep_ms, lease_ms // 2),
        drain_ms=drain_ms,
    )
