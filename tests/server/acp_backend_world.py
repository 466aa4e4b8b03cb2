"""What tests of the ACP backend share: requests made by hand, and whoever decides."""

import asyncio
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from awaken import AgentEvent, Message, RemoteEndpoint, RunIdentity, SuspendTicket, user
from awaken.backends import (
    AcpBackend,
    AcpBackendFactory,
    AcpLimits,
    BackendControl,
    BackendDelegateRunRequest,
    BackendParentContext,
    BackendRootRunRequest,
    RemoteTarget,
)
from awaken.events import ActivitySnapshot
from awaken.messages import ToolCall
from awaken.tools import ToolCallResume

from .processes import eventually

AGENTS = Path(__file__).parent / "acp_agents"
WAIT_S = 50
PROMPT_LIMITS = AcpLimits(cancel_ms=200, exit_ms=100, term_ms=200, progress_ms=20)
"""Nobody waits long for an agent that will not stop."""


class Sink:
    """Keeps what is shown."""

    def __init__(self) -> None:
        self.shown: list[Any] = []
        self.news = asyncio.Event()

    def emit(self, event: AgentEvent) -> None:
        assert isinstance(event, ActivitySnapshot)
        self.shown.append(event)
        self.news.set()

    async def until(self, condition: Callable[[Any], bool]) -> None:
        """Wait until something is shown."""
        async with asyncio.timeout(WAIT_S):
            while not any(condition(event.content) for event in self.shown):
                self.news.clear()
                await self.news.wait()


class Decider:
    """Decides what it is asked; without an answer it lets the agent wait."""

    def __init__(
        self, answer: ToolCallResume | Exception | None, after: Sink | None = None
    ) -> None:
        self._answer = answer
        self._after = after
        self.asked: list[tuple[ToolCall, SuspendTicket]] = []
        self.news = asyncio.Event()
        self.was_cancelled = False

    async def ask(self, call: ToolCall, ticket: SuspendTicket) -> ToolCallResume:
        self.asked.append((call, ticket))
        self.news.set()
        try:
            if self._after is not None:
                await self._after.until(lambda _: True)
            if self._answer is None:
                await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.was_cancelled = True
            raise
        if isinstance(self._answer, Exception):
            raise self._answer
        assert self._answer is not None
        return self._answer


class Signal:
    """Whether the run was cancelled."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    @property
    def is_cancelled(self) -> bool:
        return self._event.is_set()

    def cancel(self) -> None:
        self._event.set()

    async def wait(self) -> None:
        await self._event.wait()


class Checkpoint:
    """Keeps what a backend saves, in order."""

    def __init__(self, **known: Any) -> None:
        self._known = RemoteTarget(**known) if known else None
        self.saved: list[tuple[str, RemoteTarget]] = []

    def load(self, target: str) -> RemoteTarget | None:
        return self._known

    async def save(self, target: str, state: RemoteTarget) -> None:
        self.saved.append((target, state))


def endpoint_of(
    folder: Path, agent: str, *arguments: str, timeout_ms: int = 30_000, **env: str | None
) -> RemoteEndpoint:
    """An agent of the folder `acp_agents`, at work in a folder."""
    # Plain scripts need no packages, and start faster without them.
    options = ["-S"] if agent == "raw" else []
    command = [sys.executable, *options, str(AGENTS / f"{agent}.py"), *arguments]
    named = {"command": command, "cwd": str(folder), "env": env}
    return RemoteEndpoint(backend="acp", base_url="stdio:", timeout_ms=timeout_ms, options=named)


def backend_of(
    folder: Path, agent: str, *arguments: str, limits: AcpLimits = PROMPT_LIMITS, **more: Any
) -> AcpBackend:
    return AcpBackendFactory(limits=limits).build(endpoint_of(folder, agent, *arguments, **more))


def root(said: str | tuple[Message, ...] = "go", sink: Sink | None = None, **more: Any) -> Any:
    messages = (user(said),) if isinstance(said, str) else said
    control = {name: more.pop(name) for name in ("decisions", "cancellation") if name in more}
    return BackendRootRunRequest(
        agent_id="coder",
        messages=messages,
        new_messages=messages,
        sink=sink or Sink(),
        resolver=None,  # type: ignore[arg-type]
        run_identity=RunIdentity(thread_id="t1", run_id="r1"),
        control=BackendControl(**control),
        **more,
    )


def delegate(said: str, checkpoint: Checkpoint | None = None) -> BackendDelegateRunRequest:
    return BackendDelegateRunRequest(
        agent_id="coder",
        messages=(user(said),),
        new_messages=(user(said),),
        sink=Sink(),
        resolver=None,  # type: ignore[arg-type]
        run_identity=RunIdentity(thread_id="t2", run_id="r2"),
        parent=BackendParentContext(parent_run_id="r1"),
        checkpoint=checkpoint,
    )


def run(scenario: Any) -> None:
    """Run a scenario; no task of it may be left."""

    async def bounded() -> None:
        async with asyncio.timeout(WAIT_S):
            await scenario()
        if left := asyncio.all_tasks() - {asyncio.current_task()}:
            # What was cancelled last ends in the next rounds of the loop.
            _, left = await asyncio.wait(left, timeout=5)
        assert not left

    asyncio.run(bounded())


@contextmanager
def no_process_left(folder: Path) -> Iterator[None]:
    """The agent is gone and reaped, and so is its child, if it wrote one down."""
    yield
    pid = int((folder / "pid").read_text())
    assert not Path(f"/proc/{pid}").exists()
    if (folder / "child").exists():
        child = int((folder / "child").read_text())
        assert eventually(lambda: is_gone(child))


def is_gone(pid: int) -> bool:
    """Whether a process that is none of ours has ended; somebody else may have to reap it."""
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (ProcessLookupError, FileNotFoundError):
        return True
    return state in "ZX"
