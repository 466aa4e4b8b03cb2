"""What tests of remote agents share: a backend that does what a test tells it to do."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from awaken import Agent, AgentRuntime, NaturalEnd, RemoteEndpoint, Suspended
from awaken.backends import (
    BackendAbortRequest,
    BackendCapabilities,
    BackendDelegateRunRequest,
    BackendRootRunRequest,
    BackendRunResult,
    BackendRunStatus,
    CancellationCapability,
    RemoteTarget,
)

from .delegating import QUICK, Door

Request = BackendRootRunRequest | BackendDelegateRunRequest
Turn = BackendRunResult | BaseException | Callable[[Request], Awaitable[BackendRunResult]]

TARGET = "fake:there"
STATELESS = BackendCapabilities.remote_stateless_text()
ABORTS = BackendCapabilities(cancellation=CancellationCapability.REMOTE_ABORT)


class FakeBackend:
    """Plays its turns one by one, and keeps what it was asked."""

    def __init__(self, *turns: Turn, can: BackendCapabilities = ABORTS) -> None:
        self.turns = list(turns)
        self.can = can
        self.roots: list[BackendRootRunRequest] = []
        self.delegates: list[BackendDelegateRunRequest] = []
        self.aborted: list[BackendAbortRequest] = []
        self.abort_failures: list[BaseException] = []
        self.targets: list[RemoteTarget | None] = []
        """What was known of the other side, at each turn and at each abort."""
        self.transcripts: list[list[str]] = []

    def capabilities(self) -> BackendCapabilities:
        return self.can

    async def execute_root(self, request: BackendRootRunRequest) -> BackendRunResult:
        self.roots.append(request)
        return await self._play(request)

    async def execute_delegate(self, request: BackendDelegateRunRequest) -> BackendRunResult:
        self.delegates.append(request)
        return await self._play(request)

    async def abort(self, request: BackendAbortRequest) -> None:
        self.aborted.append(request)
        assert request.checkpoint is not None
        self.targets.append(request.checkpoint.load(TARGET))
        if self.abort_failures:
            raise self.abort_failures.pop(0)

    async def _play(self, request: Request) -> BackendRunResult:
        assert request.checkpoint is not None
        self.targets.append(request.checkpoint.load(TARGET))
        self.transcripts.append([it.text for it in request.messages])
        turn = self.turns.pop(0)
        if isinstance(turn, BaseException):
            raise turn
        return turn if isinstance(turn, BackendRunResult) else await turn(request)


def said(text: str = "", **parts: Any) -> BackendRunResult:
    """A turn that came to its end."""
    result = BackendRunResult(
        agent_id="far",
        status=BackendRunStatus.COMPLETED,
        termination=NaturalEnd(),
        response=text,
    )
    return msgspec.structs.replace(result, **parts)


def waits(status: BackendRunStatus, text: str = "", **parts: Any) -> BackendRunResult:
    return said(text, **{"status": status, "termination": Suspended(), **parts})


def behind(
    door: Door, *, saves: str | None = "task-1", text: str | None = None
) -> Callable[[Request], Awaitable[BackendRunResult]]:
    """A turn that says which task it has there, and then stands before a door."""

    async def turn(request: Request) -> BackendRunResult:
        if saves is not None and request.checkpoint is not None:
            known = RemoteTarget(run_id=request.run_identity.run_id, task_id=saves)
            await request.checkpoint.save(TARGET, known)
        answer = await door.answer()
        return said(text or answer)

    return turn


def far(**options: Any) -> Agent:
    endpoint = RemoteEndpoint(backend="fake", base_url="http://x")
    return Agent("far", **{"endpoint": endpoint, **options})


def remote_runtime(
    backend: Any, store: Any, *agents: Agent, remote: Agent | None = None, **options: Any
) -> AgentRuntime:
    return AgentRuntime(
        [remote or far(), *agents],
        backends={"fake": backend},
        store=store,
        **{"mailbox": QUICK, **options},
    )
