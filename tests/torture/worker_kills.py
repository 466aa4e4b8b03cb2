"""Kill -9 real workers under load, again and again, and see that every promise is kept.

`python -m tests.torture.worker_kills --cycles 60 --clients 20`: two processes `awaken worker` on
one SQLite file. One of them is always there; the other is killed at a random moment and started
again. No client is told, and none does anything about it.
"""

import argparse
import asyncio
import os
import random
import signal
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from awaken import AgentRuntime
from awaken.contracts.events import RunFinish
from awaken.contracts.lifecycle import NaturalEnd, RunStatus, Suspended, TicketStatus
from awaken.contracts.storage.dispatch import DispatchStatus, RunDispatch
from awaken.contracts.storage.queries import LIMIT_MAX, DispatchQuery
from awaken.contracts.storage.store import Store
from awaken.contracts.tool_results import ToolStatus
from awaken.mailbox.config import MailboxConfig
from awaken.mailbox.mailbox import INTERRUPT
from awaken.mailbox.receipts import SubmitReceipt
from awaken.stores.sqlite.writer import run_without_suspending

from .agents import LEDGER
from .checker import thread_problems
from .history import Ledger
from .lanes import scratch
from .mutants import ROOT
from .report import finish
from .runtime_checks import ONCE, ONCE_RECONCILED, key_of
from .runtime_worlds import quiet
from .store_file import StoreFile
from .views import ThreadView, view_of
from .worker_clients import STUCK_MS, Client, Promises

LEASE_MS = 600
RESUMED_MS = LEASE_MS + LEASE_MS // 2 + 4_000
"""The lease, the time between two sweeps, and what a busy machine may need on top of them."""
READY_S, STOP_S, ORPHAN_S = 60, 40, 20
AGENTS = Path(__file__).with_name("agents.py")


class WorkerProcess:
    """An `awaken worker`, started again whenever it was killed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int:
        """The process that works now."""
        assert self._process is not None
        return self._process.pid

    async def start(self) -> None:
        """Start it and wait for the line that says that it is ready."""
        path = os.pathsep.join((*filter(None, [os.environ.get("PYTHONPATH")]), str(ROOT)))
        with (self._folder / "worker.log").open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "awaken", "worker", str(AGENTS)),
                *("--store", f"sqlite:///{self._folder / 'store.db'}", "--json"),
                *("--lease-ms", str(LEASE_MS)),
                cwd=ROOT,
                env=os.environ | {"PYTHONPATH": path, LEDGER: str(self._folder / "effects")},
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
            )
        assert self._process.stdout is not None
        async with asyncio.timeout(READY_S):
            if not await self._process.stdout.readline():
                raise RuntimeError("a worker ended before it was ready")

    async def kill(self) -> None:
        """Kill it as nobody can prevent, if it is still there."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    async def stop(self) -> int:
        """Ask it to drain; returns its exit code."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(STOP_S):
            return await self._process.wait()


@dataclass(slots=True)
class Outcome:
    """What was done, and what was wrong with it."""

    kills: int = 0
    orphans: list[float] = field(default_factory=list)
    """How long each run of a killed worker had nobody, in milliseconds."""
    failures: list[str] = field(default_factory=list)


def main() -> None:
    """Kill, and exit with 1 when anything was lost, doubled or stuck."""
    parser = argparse.ArgumentParser(prog="worker_kills")
    parser.add_argument("--cycles", type=int, default=60)
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    began = time.perf_counter()
    with scratch() as folder:
        os.environ[LEDGER] = str(folder / "effects")
        outcome, promises = asyncio.run(_tortured(folder, args))
        ended, found = _kept(folder, promises)
    failures = [*outcome.failures, *promises.failures, *found]
    counts = {
        "kills": outcome.kills,
        "runs of killed workers": len(outcome.orphans),
        "longest until one was resumed": f"{max(outcome.orphans, default=0):.0f} ms",
        "submissions": len(promises.receipts),
        **{f"ended: {name}": count for name, count in sorted(ended.items())},
        "decisions": len(promises.decided),
        "cancels": promises.cancels,
        "messages steered": len(promises.notes),
        "seconds": round(time.perf_counter() - began, 1),
    }
    finish("worker_kills", args.seed, counts, len(promises.receipts), failures)


async def _tortured(folder: Path, args: argparse.Namespace) -> tuple[Outcome, Promises]:
    outcome, promises, stopped = Outcome(), Promises(), asyncio.Event()
    workers = [WorkerProcess(folder), WorkerProcess(folder)]
    config = MailboxConfig(poll_ms=50)
    store = f"sqlite:///{folder / 'store.db'}"
    async with AgentRuntime(store=store, has_worker=False, mailbox=config) as runtime:
        try:
            await asyncio.gather(*(worker.start() for worker in workers))
            async with asyncio.TaskGroup() as group:
                for number in range(args.clients):
                    client = Client(runtime, promises, f"c{number}", f"{args.seed}-{number}")
                    group.create_task(client.work_until(stopped))
                try:
                    await _kill_all_the_time(runtime.store, workers, args, outcome)
                finally:
                    stopped.set()
            outcome.failures += await _drained(runtime, workers, promises)
        finally:
            for worker in workers:
                await worker.kill()
    return outcome, promises


async def _kill_all_the_time(
    store: Store, workers: list[WorkerProcess], args: argparse.Namespace, outcome: Outcome
) -> None:
    dice = random.Random(args.seed)
    async with asyncio.TaskGroup() as watching:
        for _ in range(args.cycles):
            await asyncio.sleep(dice.uniform(0.02, 0.25))
            victim = dice.choice(workers)
            pid = victim.pid
            await victim.kill()
            outcome.kills += 1
            for orphan in await _claimed_by(store, pid):
                watching.create_task(_resumed(store, orphan, outcome))
            # The next one is killed when both are there again.
            await victim.start()


async def _drained(
    runtime: AgentRuntime, workers: list[WorkerProcess], promises: Promises
) -> list[str]:
    """Let the workers do what is left, and stop them as an operator would."""
    try:
        await quiet(runtime.store)
    except TimeoutError:
        return ["something is left, and nobody does it"]
    failures = await _long_run(runtime, promises)
    codes = await asyncio.gather(*(worker.stop() for worker in workers))
    return failures + [f"a worker drained with exit code {code}" for code in codes if code]


async def _long_run(runtime: AgentRuntime, promises: Promises) -> list[str]:
    """A tool that blocks its worker for longer than two leases does not cost it the run."""
    receipt = await runtime.submit("clerk", "doze", thread_id="doze")
    promises.receipts.append(receipt)
    result = await runtime.wait(receipt.run_id, timeout_ms=STUCK_MS)
    dispatch = await runtime.store.find_dispatch(receipt.dispatch_id)
    attempts = 0 if dispatch is None else dispatch.attempt_count
    if isinstance(result.termination, NaturalEnd) and attempts == 1:
        return []
    return [f"a long run ended as {result.termination} at attempt {attempts}"]


async def _claimed_by(store: Store, pid: int) -> list[RunDispatch]:
    query = DispatchQuery(status=DispatchStatus.CLAIMED, limit=LIMIT_MAX)
    claimed = (await store.list_dispatches(query)).items
    return [it for it in claimed if f":{pid}:" in (it.claimed_by or "")]


async def _resumed(store: Store, orphan: RunDispatch, outcome: Outcome) -> None:
    """Only looks on while somebody else takes over what a killed worker has left."""
    began = time.perf_counter()
    try:
        async with asyncio.timeout(ORPHAN_S):
            while await _is_orphaned(store, orphan):
                await asyncio.sleep(0.02)
    except TimeoutError:
        outcome.failures.append(f"dispatch {orphan.dispatch_id} was never taken over")
        return
    elapsed = (time.perf_counter() - began) * 1000
    outcome.orphans.append(elapsed)
    if elapsed > RESUMED_MS:
        outcome.failures.append(f"dispatch {orphan.dispatch_id} was left for {elapsed:.0f} ms")


async def _is_orphaned(store: Store, orphan: RunDispatch) -> bool:
    """Whether nobody else has begun with it; what is queued again has still to be claimed."""
    now = await store.find_dispatch(orphan.dispatch_id)
    if now is None or now.status.is_terminal:
        return False
    return now.status is DispatchStatus.QUEUED or now.claim_token == orphan.claim_token


def _kept(folder: Path, promises: Promises) -> tuple[Counter[str], list[str]]:
    """Whether every promise was kept; an empty history is a failure."""
    file = StoreFile(folder / "store.db")
    try:
        problems = file.integrity_problems() + run_without_suspending(
            _promise_problems(file, promises)
        )
        ended = Counter(run_without_suspending(_ending(file, it)) for it in promises.receipts)
        problems += _effect_problems(folder, run_without_suspending(_finished(file, promises)))
    finally:
        file.shut()
    lost = ended["lost"] + ended["stuck"] + ended["dead without a reason"]
    return ended, [*problems, f"{lost} submissions did not end"] if lost else problems


async def _promise_problems(file: StoreFile, promises: Promises) -> list[str]:
    problems = [] if promises.receipts else ["nothing was submitted"]
    said: Counter[tuple[str, str]] = Counter()
    for thread_id in dict.fromkeys(it.thread_id for it in promises.receipts):
        view = await view_of(file, thread_id)
        if view is None:
            problems.append(f"thread {thread_id} is lost")
            continue
        found = thread_problems(view) + _leftovers(view)
        problems += [f"thread {thread_id}: {problem}" for problem in found]
        said.update((thread_id, it.message.text) for it in view.messages)
        # A later interrupt of the same client drops what has not been taken in.
        said.update((thread_id, text) for text in _dropped(view))
    for thread_id, note in promises.notes:
        if said[thread_id, note] != 1:
            problems.append(f"'{note}' was accepted and said {said[thread_id, note]} times")
    for ticket_id in promises.decided:
        ticket = await file.store.find_ticket(ticket_id)
        if ticket is None or ticket.status is TicketStatus.OPEN:
            problems.append(f"ticket {ticket_id} was decided and is open")
    return problems


def _dropped(view: ThreadView) -> list[str]:
    """What an interrupt dropped: queued input, and input of a run that had written nothing yet."""
    begun = {it.produced_by_run_id for it in view.messages}
    return [
        message.text
        for it in view.dispatches
        if it.status is DispatchStatus.SUPERSEDED
        or (it.cancel_cause == INTERRUPT and it.run_id not in begun)
        for message in it.request.messages
    ]


def _leftovers(view: ThreadView) -> list[str]:
    """What is left to do although nobody is left to do it, and what came twice."""
    problems = [
        f"dispatch {it.dispatch_id} is still {it.status}"
        for it in view.dispatches
        if not it.status.is_terminal
    ]
    if view.rows.claim_token is not None:
        problems.append("it is still claimed")
    ends = Counter(
        it.run_id
        for it in view.events
        if isinstance(it.event, RunFinish) and not isinstance(it.event.termination, Suspended)
    )
    users = Counter(it.message.text for it in view.messages if it.message.role == "user")
    problems += [f"run {run_id} ended {count} times" for run_id, count in ends.items() if count > 1]
    return problems + [f"'{text}' was said {n} times" for text, n in users.items() if n > 1]


async def _ending(file: StoreFile, receipt: SubmitReceipt) -> str:
    """How a submission ended."""
    run = await file.store.load_run(receipt.run_id)
    dispatch = await file.store.find_dispatch(receipt.dispatch_id)
    if dispatch is None:
        return "lost"
    if dispatch.status is DispatchStatus.DEAD_LETTER:
        return "dead letter" if dispatch.last_error else "dead without a reason"
    if run is None:
        # It never began, or a run that executed has taken its message in.
        return str(dispatch.status) if dispatch.status.is_terminal else "stuck"
    return type(run.termination).__name__ if run.status is RunStatus.DONE else "stuck"


async def _finished(file: StoreFile, promises: Promises) -> set[str]:
    """The keys of all calls whose tools must have been executed: their results say so."""
    keys: set[str] = set()
    for receipt in promises.receipts:
        for record in await file.store.list_tool_records(receipt.run_id):
            result = record.result
            if result is not None and result.status is ToolStatus.SUCCESS:
                keys.add(f"{record.run_id}:{record.step}:{record.call_id}")
    return keys


def _effect_problems(folder: Path, finished: set[str]) -> list[str]:
    effects = Ledger(folder / "effects").read()
    counts = Counter(map(key_of, effects))
    tools = {key_of(it): it.call_id.split(" ")[0] for it in effects}
    once = ONCE | ONCE_RECONCILED
    doubled = [key for key, n in counts.items() if n > 1 and tools[key] in once]
    problems = [f"{tools[key]} {key} was executed {counts[key]} times" for key in doubled]
    return problems + [
        f"{key} has a result and was never executed" for key in finished - set(counts)
    ]


if __name__ == "__main__":
    main()
