"""Run, cancel and suspend thousands of times in one process, and see that nothing stays behind.

`python -m tests.torture.leaks --runs 5000`: per run, also 0.4 cancelled and 0.2 suspended and
decided ones, half of all on a SQLite file and half in memory. After a warm-up, tasks, threads,
files, connections and claims are back where they were, and memory grows no more than the data.
"""

import argparse
import asyncio
import gc
import logging
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path

import psutil

from awaken import AgentRuntime
from awaken.contracts.lifecycle import Cancelled, NaturalEnd, RunStatus
from awaken.contracts.record import Record
from awaken.contracts.storage.dispatch import DispatchStatus
from awaken.contracts.storage.queries import DispatchQuery
from awaken.contracts.storage.store import Store
from awaken.mailbox.config import MailboxConfig
from awaken.stores.memory import MemoryStore
from awaken.stores.sql.transcripts import TranscriptCache
from awaken.stores.sqlite import SqliteStore

from .chaos_agent import AGENT, obeying_agent
from .lanes import scratch
from .report import finish

AT_ONCE = 16
CONFIG = MailboxConfig(poll_ms=20, retention_ms=0, purge_ms=200, sweep_ms=200)
SHARES = {"run": 1.0, "cancel": 0.4, "decide": 0.2}
KB_PER_RUN_MAX = {"sqlite": 5.0, "memory": 8.0}
"""How much memory a run may leave: pages of the file are cached, up to a bound; in memory the
thread and its messages stay."""
OBJECTS_PER_RUN_MAX = {"sqlite": 0.5, "memory": 20.0}


class Held(Record, frozen=True, kw_only=True):
    """What a process holds."""

    tasks: int
    threads: int
    files: int
    rss_kb: int
    objects: int


def held() -> Held:
    """Count what this process holds now."""
    gc.collect()
    me = psutil.Process()
    return Held(
        tasks=len(asyncio.all_tasks()),
        # Those of the event loop itself stay as long as it does.
        threads=sum(not it.name.startswith("asyncio_") for it in threading.enumerate()),
        files=me.num_fds(),
        rss_kb=me.memory_info().rss // 1024,
        objects=len(gc.get_objects()),
    )


class Rounds:
    """Sends one kind of work after the other to a runtime, several at once."""

    def __init__(self, runtime: AgentRuntime) -> None:
        self._runtime = runtime
        self._numbers = count()
        self.outcomes: Counter[str] = Counter()
        self._kinds: dict[str, Callable[[], Awaitable[None]]] = {
            "run": self._run,
            "cancel": self._cancel,
            "decide": self._decide,
        }

    async def play(self, runs: int) -> int:
        """Play so many runs, with their share of the other kinds; returns how many in all."""
        work = [
            self._kinds[kind] for kind, share in SHARES.items() for _ in range(round(share * runs))
        ]
        room = asyncio.Semaphore(AT_ONCE)

        async def one(play: Callable[[], Awaitable[None]]) -> None:
            async with room:
                await play()

        for first in range(0, len(work), 500):
            await asyncio.gather(*map(one, work[first : first + 500]))
        return len(work)

    async def _run(self) -> None:
        number = next(self._numbers)
        text = "use once" if number % 4 == 0 else "say hello"
        result = await self._runtime.run(AGENT, text, thread_id=f"r{number}")
        self._count("run", isinstance(result.termination, NaturalEnd))

    async def _cancel(self) -> None:
        number = next(self._numbers)
        if number % 2:
            receipt = await self._runtime.submit(AGENT, "use idempotent", thread_id=f"c{number}")
            run_id = receipt.run_id
        else:
            handle = await self._runtime.start(AGENT, "use idempotent", thread_id=f"c{number}")
            run_id = handle.run_id
        for _ in range(number % 5):
            await asyncio.sleep(0)
        await self._runtime.cancel(run_id)
        result = await self._runtime.wait(run_id)
        self._count("cancel", isinstance(result.termination, Cancelled | NaturalEnd))

    async def _decide(self) -> None:
        result = await self._runtime.run(AGENT, "use ask", thread_id=f"d{next(self._numbers)}")
        assert result.status is RunStatus.WAITING
        await self._runtime.decide(result.tickets[0].ticket_id, result="yes")
        result = await self._runtime.wait(result.run_id)
        self._count("decide", isinstance(result.termination, NaturalEnd))

    def _count(self, kind: str, is_good: bool) -> None:
        self.outcomes[kind if is_good else f"{kind} ended otherwise"] += 1


def main() -> None:
    """Play, and exit with 1 when something was left behind."""
    parser = argparse.ArgumentParser(prog="leaks")
    parser.add_argument("--runs", type=int, default=5000)
    parser.add_argument("--stores", default="sqlite,memory")
    args = parser.parse_args()
    logging.disable(logging.CRITICAL)
    counts: dict[str, object] = {}
    failures: list[str] = []
    stores = args.stores.split(",")
    for kind in stores:
        with scratch() as folder:
            failures += asyncio.run(_judged(kind, args.runs // len(stores), folder, counts))
    finish("leaks", 0, counts, max(args.runs - len(failures), 0), failures)


async def _judged(kind: str, runs: int, folder: Path, counts: dict[str, object]) -> list[str]:
    begin, outside = time.perf_counter(), held()
    async with _runtime(kind, folder) as runtime:
        rounds = Rounds(runtime)
        await rounds.play(max(runs // 5, 20))
        await _idle(runtime)
        before = held()
        played = await rounds.play(runs)
        await _idle(runtime)
        after = held()
        failures = await _claims(runtime)
    failures += _growth("while it was open", before, after)
    failures += _growth("after it was closed", outside, held())
    per_run = (after.rss_kb - before.rss_kb) / max(played, 1)
    if runs >= 1000 and per_run > KB_PER_RUN_MAX[kind]:
        failures.append(f"memory grows by {per_run:.2f} KB with every run")
    objects = (after.objects - before.objects) / max(played, 1)
    if runs >= 1000 and objects > OBJECTS_PER_RUN_MAX[kind]:
        failures.append(f"{objects:.2f} objects stay of every run")
    failures += [f"{n} times: {name}" for name, n in rounds.outcomes.items() if "otherwise" in name]
    counts[f"{kind}: played"] = dict(rounds.outcomes)
    counts[f"{kind}: KB per run"] = round(per_run, 2)
    counts[f"{kind}: objects per run"] = round(objects, 2)
    counts[f"{kind}: held"] = f"{before} -> {after}"
    counts[f"{kind}: seconds"] = round(time.perf_counter() - begin, 1)
    return [f"{kind}: {failure}" for failure in failures]


def _growth(when: str, before: Held, after: Held) -> list[str]:
    names = ("tasks", "threads", "files")
    pairs = ((name, getattr(before, name), getattr(after, name)) for name in names)
    return [f"{when}, {old} {name} became {new}" for name, old, new in pairs if new > old]


async def _claims(runtime: AgentRuntime) -> list[str]:
    store, found = runtime.store, []
    for status in (DispatchStatus.QUEUED, DispatchStatus.CLAIMED):
        total = (await store.list_dispatches(DispatchQuery(status=status))).total
        if total:
            found.append(f"{total} dispatches are still {status}")
    open_runs = [it for it in await runtime.list_runs() if it.status is not RunStatus.DONE]
    return found + [f"run {it.run_id} is still {it.status}" for it in open_runs]


async def _idle(runtime: AgentRuntime) -> None:
    """Wait until what is over has been tidied up."""
    async with asyncio.timeout(20):
        while await _claims(runtime):
            await asyncio.sleep(0.05)
    await asyncio.sleep(0.5)


@asynccontextmanager
async def _runtime(kind: str, folder: Path) -> AsyncIterator[AgentRuntime]:
    store: Store = MemoryStore() if kind == "memory" else _file(folder / "store.db")
    agent = obeying_agent(lambda _context, _what: None)
    async with AgentRuntime([agent], store=store, mailbox=CONFIG) as runtime:
        yield runtime


def _file(path: Path) -> SqliteStore:
    store = SqliteStore(path)
    # A small one is full after the warm-up, so that its filling is not taken for a leak.
    store._transcripts = TranscriptCache(limit=64 * 1024)
    return store


if __name__ == "__main__":
    main()
