"""Executes runs at another server, over A2A."""

import asyncio
import logging

import msgspec

from awaken.contracts.backend_results import BackendRunResult
from awaken.contracts.backends.backend import (
    BackendCapabilities,
    CancellationCapability,
    ContinuationCapability,
    TranscriptCapability,
)
from awaken.contracts.backends.errors import RemoteError, RemoteMalformed, RemoteTooLarge
from awaken.contracts.backends.requests import (
    BackendAbortRequest,
    BackendCheckpoint,
    BackendDelegateRunRequest,
    BackendRootRunRequest,
    RemoteTarget,
)
from awaken.contracts.clock import Clock
from awaken.contracts.specs.agents import RemoteEndpoint
from awaken.outbound.guard import Outbound

from .channel import Channel
from .client import A2AClient
from .config import NAME, A2AConfig, config_of
from .delivery import deliver_message
from .remote_turns import RemoteTurn, RemoteTurns
from .results import RemoteEnding, make_timeout_end, progress_of, read_message_end, read_task_end
from .task_stop import stop_task
from .task_view import TaskView
from .task_watch import Watch
from .turn import A2aTurn, Request
from .wire import RemoteMessage

BACKENDS_MAX = 256
"""How many backends are cached; more only while all of them are in use."""

logger = logging.getLogger(__name__)

_CAPABILITIES = BackendCapabilities(
    cancellation=CancellationCapability.REMOTE_ABORT,
    decisions=False,
    overrides=False,
    frontend_tools=False,
    continuation=ContinuationCapability.REMOTE_STATE,
    transcript=TranscriptCapability.INCREMENTAL_USER_MESSAGES_WITH_REMOTE_STATE,
)


class A2ABackendFactory:
    """Builds one backend per endpoint and caches it.

    `guard` knows which private hosts may be called. The host of a `base_url` is always allowed:
    an operator configured it.
    """

    name = NAME

    def __init__(self, guard: Outbound, clock: Clock) -> None:
        self._guard = guard
        self._clock = clock
        self._made: dict[A2AConfig, A2ABackend] = {}

    def validate(self, endpoint: RemoteEndpoint) -> None:
        """Check an endpoint without sending a request.

        Raises:
            InvalidBackendConfig: The endpoint is invalid; the message says why.
        """
        config_of(endpoint)

    def build(self, endpoint: RemoteEndpoint) -> "A2ABackend":
        """Return the backend of an endpoint, from the cache if it is there.

        Raises:
            InvalidBackendConfig: The endpoint is invalid; the message says why.
        """
        config = config_of(endpoint)
        backend = self._made.pop(config, None) or A2ABackend(config, self._guard, self._clock)
        # The most recently used backend is last.
        self._made[config] = backend
        if len(self._made) > BACKENDS_MAX:
            self._retire()
        return backend

    async def close(self) -> None:
        """End sends that are under way, and close all connections."""
        made, self._made = list(self._made.values()), {}
        for backend in made:
            await backend.close()

    def _retire(self) -> None:
        """Drop the least recently used backend that is idle."""
        idle = (it for it, backend in self._made.items() if backend.is_idle)
        if (oldest := next(idle, None)) is not None:
            del self._made[oldest]


class A2ABackend:
    """Executes runs at one agent of another server."""

    def __init__(self, config: A2AConfig, guard: Outbound, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self._channel = Channel(config, guard)
        self._client = A2AClient(self._channel, clock)
        self._remote_turns = RemoteTurns()

    @property
    def is_idle(self) -> bool:
        """Whether it has no turn under way, and no connection."""
        return self._remote_turns.is_empty and self._channel.is_closed

    def capabilities(self) -> BackendCapabilities:
        """The agent can be aborted, wait and continue; it gets the user's new messages only."""
        return _CAPABILITIES

    async def execute_root(self, request: BackendRootRunRequest) -> BackendRunResult:
        """Execute a run to its end, or until the remote task waits for input or authorization."""
        return await self._execute(request)

    async def execute_delegate(self, request: BackendDelegateRunRequest) -> BackendRunResult:
        """Execute a run that another run delegated."""
        return await self._execute(request)

    async def abort(self, request: BackendAbortRequest) -> None:
        """Stop a run's task, also when the answer with its id is still under way.

        Raises:
            RemoteError: The server did not accept the cancellation.
            TimeoutError: The server takes too long.
        """
        identity = request.run_identity
        remote_turn = self._remote_turns.find(identity.run_id)
        try:
            await stop_task(
                self._client, identity, remote_turn, self._load_target(request.checkpoint)
            )
            if remote_turn is not None:
                self._remote_turns.end(remote_turn)
        finally:
            await self._close_if_idle()

    async def close(self) -> None:
        """End sends that are under way, and close all connections."""
        await self._remote_turns.close()
        await self._channel.close()

    async def _execute(self, request: Request) -> BackendRunResult:
        try:
            return await self._run_turn(request)
        finally:
            await self._close_if_idle()

    async def _close_if_idle(self) -> None:
        """Close the connections while no turn is under way: they would be stale by the next one."""
        if self._remote_turns.is_empty:
            await self._channel.close()

    async def _run_turn(self, request: Request) -> BackendRunResult:
        turn = A2aTurn.of(request, self._load_target(request.checkpoint))
        remote_turn = self._remote_turns.begin(turn.run_id, turn.message_id)
        try:
            ending = await self._run_in_time(request, turn, remote_turn)
        except asyncio.CancelledError:
            self._remote_turns.end_later(remote_turn)
            raise
        except BaseException:
            self._remote_turns.end(remote_turn)
            raise
        self._remote_turns.end(remote_turn)
        return BackendRunResult(
            agent_id=request.agent_id,
            run_id=turn.run_id,
            thread_id=request.run_identity.thread_id,
            response=ending.output.text or "",
            steps=1,
            **ending._asdict(),
        )

    async def _run_in_time(
        self, request: Request, turn: A2aTurn, remote_turn: RemoteTurn
    ) -> RemoteEnding:
        """Run the turn within its timeout; an end that is known counts also after the timeout."""
        timeout_ms, said, is_left = self._config.timeout_ms, None, False
        try:
            async with asyncio.timeout(timeout_ms / 1000) as deadline:
                said = await self._send_and_follow(request, turn, remote_turn)
        except TimeoutError:
            if not deadline.expired():
                raise
            if remote_turn.view is None or not remote_turn.view.is_over:
                is_left = remote_turn.is_maybe_there and not await self._stop_remote_task(
                    request, remote_turn
                )
            if remote_turn.view is None and remote_turn.problem is not None:
                # No task is known: the last failure is the result.
                remote_turn.problem.is_work_left = is_left
                raise remote_turn.problem from None
        except RemoteError as error:
            if remote_turn.is_maybe_there or isinstance(error, RemoteMalformed | RemoteTooLarge):
                error.is_work_left = not await self._stop_remote_task(request, remote_turn)
            raise
        if said is not None:
            return read_message_end(said)
        if remote_turn.view is None or not remote_turn.view.is_over:
            seen = remote_turn.view.task if remote_turn.view else None
            return make_timeout_end(seen, timeout_ms, is_work_left=is_left)
        await self._save_target(request, turn, remote_turn.view.target)
        is_delegate = isinstance(request, BackendDelegateRunRequest)
        return read_task_end(remote_turn.view.task, is_delegate=is_delegate)

    async def _send_and_follow(
        self, request: Request, turn: A2aTurn, remote_turn: RemoteTurn
    ) -> RemoteMessage | None:
        """Send the message and follow its task to the end; return a message that is the answer."""
        reply = await deliver_message(self._client, turn, remote_turn)
        if isinstance(reply, RemoteMessage):
            if reply.context_id not in (None, turn.context_id):
                await self._save_target(request, turn, RemoteTarget(context_id=reply.context_id))
            return reply
        view = remote_turn.view = TaskView(reply)
        # Saved: after a crash, another process finds the task again.
        await self._save_target(request, turn, view.target)

        def show(seen: TaskView) -> None:
            request.sink.emit(progress_of(seen.task, turn.run_id))

        show(view)
        poll_s = self._config.options.poll_interval_ms / 1000
        await Watch(self._client, view, show, self._clock, poll_s).follow_to_end()
        return None

    async def _save_target(self, request: Request, turn: A2aTurn, found: RemoteTarget) -> None:
        """Save what is known of the turn, unless it is saved already."""
        if request.checkpoint is None:
            return
        known = self._load_target(request.checkpoint) or RemoteTarget()
        found = msgspec.structs.replace(
            found,
            run_id=turn.run_id,
            message_id=turn.message_id,
            context_id=found.context_id or turn.context_id,
            updated_at_ms=known.updated_at_ms,
        )
        if found != known:
            found = msgspec.structs.replace(found, updated_at_ms=self._clock.now_ms())
            await request.checkpoint.save(self._config.key, found)

    async def _stop_remote_task(self, request: Request, remote_turn: RemoteTurn) -> bool:
        """Stop a task that the run no longer waits for; return whether no work is left."""
        try:
            known = self._load_target(request.checkpoint)
            await stop_task(self._client, request.run_identity, remote_turn, known)
        except (RemoteError, TimeoutError) as error:
            logger.warning("A remote task of run '%s' goes on: %s", remote_turn.run_id, error)
            return False
        return True

    def _load_target(self, checkpoint: BackendCheckpoint | None) -> RemoteTarget | None:
        return None if checkpoint is None else checkpoint.load(self._config.key)
