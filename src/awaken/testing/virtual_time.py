"""Virtual time for your own tests: a workflow that sleeps for days ends in milliseconds.

Time passes only while nothing else is left to do, and then jumps to the next timer.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar

from awaken.bootstrap.agent_runtime import AgentRuntime
from awaken.bootstrap.simulated_node import build_virtual_store
from awaken.contracts.lifecycle import RunStatus
from awaken.contracts.runs.records import RunResult
from awaken.mailbox.config import MailboxConfig

from .fakes import LoopClock, SequentialIds
from .schedules import SimulatedLoop
from .simulation import Fifo, run

T = TypeVar("T")
_HOUR_MS = 60 * 60 * 1000
_FOR_EVER_MS = 1 << 45
_LOOK_S = 0.5


def run_in_virtual_time(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run an async function on a loop whose time is virtual, and return its result.

    Args:
        work: Makes the coroutine; `asyncio.sleep` in it takes no time at all.
    """
    return run(SimulatedLoop(Fifo()), work)


def make_virtual_runtime(agents: Iterable[Any], **options: Any) -> AgentRuntime:
    """Make a runtime in memory whose clock is the virtual time; use it as a context manager.

    Args:
        agents: The agents and workflows.
        **options: Further options of `AgentRuntime`.
    """
    # Signals wake the worker. It looks by itself only rarely, so that days pass quickly.
    # Leases are renewed by an operating-system thread, whose time is real: they last for ever.
    rarely = MailboxConfig(
        poll_ms=_HOUR_MS, sweep_ms=_HOUR_MS, relay_ms=_HOUR_MS, lease_ms=_FOR_EVER_MS
    )
    clock = VirtualClock()
    given = {"clock": clock, "ids": SequentialIds("virtual"), "mailbox": rarely, **options}
    return AgentRuntime(agents, store=build_virtual_store(clock), **given)


class VirtualClock(LoopClock):
    """The time of the loop that first asked for it, also for other threads."""

    def __init__(self) -> None:
        super().__init__()
        self._loop: asyncio.AbstractEventLoop | None = None

    def monotonic_ms(self) -> int:
        """The loop's time in milliseconds."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        return round(self._loop.time() * 1000)


async def wait_for_end(runtime: AgentRuntime, run_id: str, *, timeout_s: float = 1e8) -> RunResult:
    """Wait until a run has ended, however often it waits before; time is virtual.

    Args:
        runtime: The runtime.
        run_id: The run.
        timeout_s: How long to wait at most.

    Raises:
        TimeoutError: It has not ended by then.
    """
    async with asyncio.timeout(timeout_s):
        while (await runtime.get_run(run_id)).status is not RunStatus.DONE:
            left_ms = await runtime.store.find_next_deadline()
            await asyncio.sleep(_LOOK_S if left_ms is None else max(_LOOK_S, left_ms / 1000))
    return await runtime.wait(run_id)
