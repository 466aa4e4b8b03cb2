"""The crash demo: a worker is killed inside a tool, and another worker finishes its run.

The tool charges an order by writing one line to a file, and then sleeps. It is declared `once`
with a `reconcile` that reads the file, so the order is charged once even if the worker crashes.
"""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from awaken import (
    Agent,
    AgentRuntime,
    Clock,
    MailboxConfig,
    NaturalEnd,
    RunRequest,
    TextDelta,
    ToolCallDelta,
    ToolCallStart,
    tool,
    user,
)
from awaken.bootstrap.operator import Operator
from awaken.messages import Role
from awaken.models import InferenceRequest, ModelEvent, Stop, StopReason
from awaken.plugins import Record
from awaken.runtime.primitives.system import SystemClock
from awaken.stores import RunRecord, Store

CONFIG = MailboxConfig(lease_ms=1_500, renew_ms=500, sweep_ms=300, poll_ms=100, drain_ms=0)
EFFECTS, STORE = "effects.txt", "awaken.db"
ORDER = "order-1"
CHARGED = f"{ORDER} is charged"

_TOOL_S = 60.0
_PATIENCE_S = 9.0
_LOOK_S = 0.02

Say = Callable[[str], None]
T = TypeVar("T")


class CrashStory(Record, frozen=True, kw_only=True):
    """The result of the demo."""

    folder: str
    answer: str | None
    """The final answer of the agent; None if its run did not finish."""
    effects: tuple[str, ...]
    """The lines in the effect file: one for each charge of the order."""
    recovered_ms: int | None = None
    """The time from the kill to the end of the run."""

    @property
    def is_good(self) -> bool:
        """Whether the run is done and the order was charged exactly once."""
        return self.answer == f"Done: {CHARGED}." and self.effects == (ORDER,)


async def run_crash_demo(folder: Path, say: Say, clock: Clock | None = None) -> CrashStory:
    """Queue a run, kill its worker inside the tool, let another worker finish the run."""
    timeline = _Timeline(say, clock or SystemClock())
    async with Operator(_url(folder), CONFIG) as operator:
        request = RunRequest(agent_id="cashier", messages=(user(f"Charge {ORDER}."),))
        receipt = await operator.mailbox.submit(request)
        timeline.say(f"A run is queued: “Charge {ORDER}.”")
        first = await _start_worker(folder)
        timeline.say(f"Worker {first.pid} takes it.")
        await _poll_until(lambda: _find_charge(folder))
        timeline.say(f"The tool has written its line to {EFFECTS}, and is not done yet.")
        first.kill()
        await first.wait()
        killed_at = timeline.say(f"Worker {first.pid} is killed with SIGKILL, inside the tool.")
        second = await _start_worker(folder)
        lease_s = CONFIG.lease_ms / 1000
        timeline.say(f"Worker {second.pid} waits for the lease of the dead one ({lease_s:g} s).")
        record = await _poll_until(lambda: _load_finished(operator.store, receipt.run_id))
        done_at = timeline.say(_describe_end(record))
        await _stop_worker(second)
    effects = tuple(_read_lines(folder))
    timeline.say(f"{len(effects)} line{'' if len(effects) == 1 else 's'} in {EFFECTS}.")
    return CrashStory(
        folder=str(folder),
        answer=None if record is None else record.final_output,
        effects=effects,
        recovered_ms=done_at - killed_at if record is not None else None,
    )


@dataclass(slots=True)
class _Timeline:
    """Prints each event with the time since the first."""

    _say: Say
    _clock: Clock
    _began_at: int | None = None

    def say(self, text: str) -> int:
        now = self._clock.monotonic_ms()
        if self._began_at is None:
            self._began_at = now
        self._say(f"{(now - self._began_at) / 1000:5.2f} s  {text}")
        return now


async def _start_worker(folder: Path) -> asyncio.subprocess.Process:
    """Start a worker process; it stops when its standard input ends, so none is left behind."""
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", __name__, str(folder), stdin=asyncio.subprocess.PIPE
    )


async def _stop_worker(worker: asyncio.subprocess.Process) -> None:
    assert worker.stdin is not None
    worker.stdin.close()
    try:
        async with asyncio.timeout(_PATIENCE_S):
            await worker.wait()
    except TimeoutError:
        worker.kill()
        await worker.wait()


async def _poll_until(found: Callable[[], Awaitable[T | None]]) -> T | None:
    """Poll until a value is found, with a time limit."""
    try:
        async with asyncio.timeout(_PATIENCE_S):
            while True:
                if (value := await found()) is not None:
                    return value
                await asyncio.sleep(_LOOK_S)
    except TimeoutError:
        return None


async def _find_charge(folder: Path) -> bool | None:
    return True if _read_lines(folder) else None


async def _load_finished(store: Store, run_id: str) -> RunRecord | None:
    record = await store.load_run(run_id)
    is_over = record is not None and isinstance(record.termination, NaturalEnd)
    return record if is_over else None


def _describe_end(record: RunRecord | None) -> str:
    if record is None:
        return f"The run did not finish in {_PATIENCE_S:.0f} s."
    return f"The run is done: “{record.final_output}”"


def _read_lines(folder: Path) -> list[str]:
    path = folder / EFFECTS
    return path.read_text("utf-8").splitlines() if path.exists() else []


def _url(folder: Path) -> str:
    return f"sqlite:///{folder / STORE}"


def cashier(folder: Path) -> Agent:
    """The agent of the demo: its tool writes one line for each execution."""

    def look(order: str) -> str | None:
        return f"{order} is charged" if order in _read_lines(folder) else None

    @tool(effect="once", reconcile=look)
    async def charge(order: str) -> str:
        """Charge an order.

        Args:
            order: Its number.
        """
        _append(folder / EFFECTS, order)
        await asyncio.sleep(_TOOL_S)
        return f"{order} is charged"

    return Agent("cashier", model=_CashierModel(), tools=[charge])


def _append(path: Path, line: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")
        file.flush()
        os.fsync(file.fileno())


class _CashierModel:
    """Charges the order that it is asked for, then repeats what the tool said."""

    name = "scripted"

    async def stream(self, request: InferenceRequest) -> AsyncGenerator[ModelEvent, None]:
        last = request.messages[-1]
        if last.role is Role.TOOL:
            yield TextDelta(delta=f"Done: {last.text}.")
            yield Stop(reason=StopReason.END_TURN)
            return
        yield ToolCallStart(id="charge-1", name="charge")
        yield ToolCallDelta(id="charge-1", args_delta=f'{{"order": "{ORDER}"}}')
        yield Stop(reason=StopReason.TOOL_USE)


async def work(folder: Path) -> None:
    """Execute queued runs until standard input ends."""
    async with AgentRuntime([cashier(folder)], store=_url(folder), mailbox=CONFIG):
        await asyncio.to_thread(sys.stdin.buffer.read)


if __name__ == "__main__":
    asyncio.run(work(Path(sys.argv[1])))
