"""Stop a real Postgres again and again, and lose the replies to its commits.

`python -m tests.torture.pgchaos --restarts 40 --cuts 100`: first runs whose n-th commit is done
and never heard of, for every n; then writers and two workers on a server that is killed and
started again under them. In the end nothing is lost, doubled or stuck.
"""

import argparse
import asyncio
import logging
import random
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from tests.postgres.proxy import Proxy, proxied
from tests.postgres.server import new_schema, server

from awaken import AgentRuntime
from awaken.buses.postgres import PostgresBus
from awaken.contracts.lifecycle import NaturalEnd
from awaken.contracts.tools.context import ToolContext
from awaken.mailbox.config import MailboxConfig
from awaken.stores.postgres import PostgresStore
from awaken.testing.trial_checks import final_problems

from .chaos_agent import AGENT, obeying_agent
from .checker import check_before_recovery
from .lanes import scratch
from .pg_evidence import PgEvidence
from .pg_writers import Journalled, Writer, patient
from .report import finish

WRITERS, WORKERS, THREADS = 4, 2, 3
TEXTS = ("say hello", "use once", "use idempotent once", "use none")
CONFIG = MailboxConfig(
    lease_ms=2000,
    renew_ms=400,
    sweep_ms=500,
    poll_ms=200,
    max_attempts=100,
    retention_ms=None,
    retry_base_ms=20,
    retry_cap_ms=200,
    drain_ms=2000,
)
UP_S = (0.1, 0.5)
"""How long the server lives between two deaths."""
STORE_MS = {"connect_timeout_ms": 5000, "command_timeout_ms": 10_000}
END_S = 40


class Effects:
    """How often each call of a `once` tool was started."""

    def __init__(self) -> None:
        self.once: Counter[str] = Counter()

    def note(self, context: ToolContext, what: str) -> None:
        """Count a start; tools are told apart by their names in the journal's keys."""
        if what == "start" and context.tool_name == "once":
            self.once[context.idempotency_key] += 1

    def problems(self) -> list[str]:
        return [f"call {key} was executed {n} times" for key, n in self.once.items() if n > 1]


def main() -> None:
    """Stop, cut, and exit with 1 when anything was lost, doubled or stuck."""
    parser = argparse.ArgumentParser(prog="pgchaos")
    parser.add_argument("--restarts", type=int, default=40)
    parser.add_argument("--cuts", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    logging.disable(logging.CRITICAL)
    # It takes its time to begin, and nobody's connection should time out over that.
    server().sync_to_disk()
    counts: dict[str, object] = {}
    failures: list[str] = []
    if args.cuts:
        failures += asyncio.run(_lose_replies(args.cuts, counts))
    if args.restarts:
        failures += asyncio.run(_restart(args.restarts, args.seed, counts))
    passed = args.cuts + args.restarts - len(failures)
    finish("pgchaos", args.seed, counts, max(passed, 0), failures)


async def _lose_replies(cuts: int, counts: dict[str, object]) -> list[str]:
    """Run alone on a connection, and lose the reply to each commit of a run once."""
    effects, failures = Effects(), []
    number = runs = 0
    begin = time.perf_counter()
    async with proxied() as proxy, _runtime(proxy, new_schema(), effects, False) as runtime:
        countdown = Countdown(proxy)
        while countdown.cuts < cuts:
            number = number + 1 if countdown.has_cut else 1
            countdown.start(number)
            runs += 1
            text = TEXTS[runs % len(TEXTS)]
            try:
                result = await runtime.run(AGENT, text, thread_id=f"t{runs}")
            except Exception as error:  # noqa: BLE001 - a lost reply must not be seen at all
                failures.append(f"commit {number} of '{text}': {error!r}")
                continue
            if not isinstance(result.termination, NaturalEnd):
                failures.append(f"commit {number} of '{text}': {result.termination}")
        countdown.stop()
        failures += await final_problems(runtime.store)
        failures += effects.problems()
    counts["runs with a lost reply"] = runs
    counts["replies lost"] = countdown.cuts
    counts["seconds for lost replies"] = round(time.perf_counter() - begin, 1)
    return failures


class Countdown:
    """Lets the proxy lose the reply to the n-th commit from now on."""

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy
        self._left = 0
        self._before = 0
        proxy.on_request = self._see

    @property
    def cuts(self) -> int:
        return self._proxy.cuts

    @property
    def has_cut(self) -> bool:
        """Whether it came to that since the last start."""
        return self._proxy.cuts > self._before

    def start(self, number: int) -> None:
        self._before, self._left, self._proxy.cut = self._proxy.cuts, number, None

    def stop(self) -> None:
        self._left, self._proxy.cut = 0, None

    def _see(self, data: bytes) -> None:
        if b"COMMIT\0" in data and self._left:
            self._left -= 1
            if not self._left:
                self._proxy.cut = "after"


async def _restart(restarts: int, seed: int, counts: dict[str, object]) -> list[str]:
    """Let writers and workers go on while the server is killed under them."""
    schema, effects, stop = new_schema(), Effects(), asyncio.Event()
    begin = time.perf_counter()
    with scratch() as folder:
        journal = Journalled(str(folder / "log"))
        async with AsyncExitStack() as stack:
            proxy = await stack.enter_async_context(proxied())
            runtimes = [
                await stack.enter_async_context(_runtime(proxy, schema, effects, True))
                for _ in range(WORKERS)
            ]
            store = await stack.enter_async_context(_opened(proxy, schema))
            threads = [f"w{number}" for number in range(THREADS)]
            writers = [Writer(f"writer{n}", store, journal, threads) for n in range(WRITERS)]
            submitted: list[str] = []
            async with asyncio.TaskGroup() as group:
                for writer in writers:
                    group.create_task(writer.write(stop))
                group.create_task(_submit(runtimes, stop, submitted))
                await _die(restarts, random.Random(seed), proxy)
                stop.set()
            proxy.cut = None
            failures = await _unended(runtimes[0], submitted)
            history = journal.read()
            failures += await check_before_recovery(PgEvidence(store, schema), history)
            failures += await final_problems(store)
            failures += effects.problems()
        journal.close()
    counts["restarts"] = restarts
    counts["replies lost meanwhile"] = proxy.cuts
    counts |= {f"commits {name}": count for name, count in history.counts.items() if count}
    counts["commits of unknown outcome"] = journal.unknown
    counts["of which had committed"] = journal.had_committed
    counts["runs submitted and ended"] = len(submitted)
    counts["seconds of restarts"] = round(time.perf_counter() - begin, 1)
    return failures


async def _die(restarts: int, chance: random.Random, proxy: Proxy) -> None:
    for _ in range(restarts):
        for _ in range(3):
            await asyncio.sleep(chance.uniform(*UP_S) / 3)
            proxy.cut = chance.choice(("after", "before", None))
        await asyncio.to_thread(server().restart)


async def _submit(runtimes: list[AgentRuntime], stop: asyncio.Event, submitted: list[str]) -> None:
    """Submit runs; one whose submission was not answered is submitted again under its key."""
    number = 0
    while not stop.is_set():
        number += 1
        runtime, text = runtimes[number % WORKERS], TEXTS[number % len(TEXTS)]
        thread_id, key = f"r{number % 20}", f"key{number}"
        receipt = await patient(
            lambda runtime=runtime, text=text, thread_id=thread_id, key=key: runtime.submit(
                AGENT, text, thread_id=thread_id, dedupe_key=key
            )
        )
        submitted.append(receipt.run_id)
        await asyncio.sleep(0.05)


async def _unended(runtime: AgentRuntime, submitted: list[str]) -> list[str]:
    """Wait for every run; returns what did not end as it should."""
    failures = [] if len(set(submitted)) == len(submitted) else ["two submissions made one run"]
    deadline = time.perf_counter() + END_S
    for run_id in submitted:
        left_ms = max(round((deadline - time.perf_counter()) * 1000), 1)
        try:
            result = await runtime.wait(run_id, timeout_ms=left_ms)
        except TimeoutError:
            record = await runtime.get_run(run_id)
            failures.append(f"run {run_id} is stuck: {record.status}")
            continue
        if not isinstance(result.termination, NaturalEnd):
            failures.append(f"run {run_id} ended as {result.termination}")
    return failures


@asynccontextmanager
async def _runtime(
    proxy: Proxy, schema: str, effects: Effects, has_worker: bool
) -> AsyncIterator[AgentRuntime]:
    runtime = AgentRuntime(
        [obeying_agent(effects.note)],
        store=PostgresStore(proxy.url, schema=schema, **STORE_MS),
        mailbox=CONFIG,
        bus=PostgresBus(proxy.url, channel=schema),
        has_worker=has_worker,
    )
    async with runtime:
        yield runtime


@asynccontextmanager
async def _opened(proxy: Proxy, schema: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(proxy.url, schema=schema, **STORE_MS)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


if __name__ == "__main__":
    main()
