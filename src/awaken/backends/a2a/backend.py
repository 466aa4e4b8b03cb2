"""The life of a run that executes at another server, over A2A."""

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
from .errand import Errands, RemoteTurn
from .results import RemoteEnding, ending_of, ending_of_message, ending_of_timeout, progress_of
from .sending import delivered
from .stopping import stop
from .task_view import TaskView
from .turn import A2aTurn, Request
from .watching import Watch
from .wire import RemoteMessage

BACKENDS_MAX = 256
"""How many backends are remembered; more only while all of them are in use."""

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
    """Makes backends for agents at other servers; one for each, however often it is asked for.

    `guard` knows which private hosts may be called. The host of a `base_url` may always be: an
    operator wrote it.
    """

    name = NAME

    def __init__(self, guard: Outbound, clock: Clock) -> None:
        self._guard = guard
        self._clock = clock
        self._made: dict[A2AConfig, A2ABackend] = {}

    def validate(self, endpoint: RemoteEndpoint) -> None:
        """Check an endpoint without asking anybody.

        Raises:
            InvalidBackendConfig: It cannot be used; says why.
        """
        config_of(endpoint)

    def build(self, endpoint: RemoteEndpoint) -> "A2ABackend":
        """The backend of an endpoint.

        Raises:
            InvalidBackendConfig: It cannot be used; says why.
        """
        config = config_of(endpoint)
        backend = self._made.pop(config, None) or A2ABackend(config, self._guard, self._clock)
        # The last one is the one that was asked for last.
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
        """Forget the backend that was asked for longest ago, of those that hold nothing."""
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
        self._errands = Errands()

    @property
    def is_idle(self) -> bool:
        """Whether it has no turn under way, and no connection."""
        return self._errands.are_none and self._channel.is_closed

    def capabilities(self) -> BackendCapabilities:
        """Abort, waiting and continuing at the other side; the user's new messages only."""
        return _CAPABILITIES

    async def execute_root(self, request: BackendRootRunRequest) -> BackendRunResult:
        """Execute a run to its end, or until the other side waits for input or authorization."""
        return await self._executed(request)

    async def execute_delegate(self, request: BackendDelegateRunRequest) -> BackendRunResult:
        """Execute a run that another run asked for."""
        return await self._executed(request)

    async def abort(self, request: BackendAbortRequest) -> None:
        """Stop a run's task, also when its id arrives only now.

        Raises:
            RemoteError: The other side did not take it.
            TimeoutError: It takes too long.
        """
        identity = request.run_identity
        errand = self._errands.find(identity.run_id)
        try:
            await stop(self._client, identity, errand, self._known(request.checkpoint))
            if errand is not None:
                self._errands.end(errand)
        finally:
            await self._rest()

    async def close(self) -> None:
        """End sends that are under way, and close all connections."""
        await self._errands.close()
        await self._channel.close()

    async def _executed(self, request: Request) -> BackendRunResult:
        try:
            return await self._turned(request)
        finally:
            await self._rest()

    async def _rest(self) -> None:
        """Keep no connection while there is no turn: it would be stale by the next one."""
        if self._errands.are_none:
            await self._channel.close()

    async def _turned(self, request: Request) -> BackendRunResult:
        turn = A2aTurn.of(request, self._known(request.checkpoint))
        errand = self._errands.begin(turn.run_id, turn.message_id)
        try:
            ending = await self._bounded(request, turn, errand)
        except asyncio.CancelledError:
            self._errands.leave(errand)
            raise
        except BaseException:
            self._errands.end(errand)
            raise
        self._errands.end(errand)
        return BackendRunResult(
            agent_id=request.agent_id,
            run_id=turn.run_id,
            thread_id=request.run_identity.thread_id,
            response=ending.output.text or "",
            steps=1,
            **ending._asdict(),
        )

    async def _bounded(self, request: Request, turn: A2aTurn, errand: RemoteTurn) -> RemoteEnding:
        """The turn within its time; an end that is known stands, whatever the time is."""
        timeout_ms, said, is_left = self._config.timeout_ms, None, False
        try:
            async with asyncio.timeout(timeout_ms / 1000) as deadline:
                said = await self._followed(request, turn, errand)
        except TimeoutError:
            if not deadline.expired():
                raise
            if errand.view is None or not errand.view.is_over:
                is_left = errand.is_maybe_there and not await self._stopped(request, errand)
            if errand.view is None and errand.problem is not None:
                # Nothing came of it but this.
                errand.problem.is_work_left = is_left
                raise errand.problem from None
        except RemoteError as error:
            if errand.is_maybe_there or isinstance(error, RemoteMalformed | RemoteTooLarge):
                error.is_work_left = not await self._stopped(request, errand)
            raise
        if said is not None:
            return ending_of_message(said)
        if errand.view is None or not errand.view.is_over:
            seen = errand.view.task if errand.view else None
            return ending_of_timeout(seen, timeout_ms, is_work_left=is_left)
        await self._keep(request, turn, errand.view.target)
        is_delegate = isinstance(request, BackendDelegateRunRequest)
        return ending_of(errand.view.task, is_delegate=is_delegate)

    async def _followed(
        self, request: Request, turn: A2aTurn, errand: RemoteTurn
    ) -> RemoteMessage | None:
        """Send, and follow the task to its end; the message if that is the answer."""
        reply = await delivered(self._client, turn, errand)
        if isinstance(reply, RemoteMessage):
            if reply.context_id not in (None, turn.context_id):
                await self._keep(request, turn, RemoteTarget(context_id=reply.context_id))
            return reply
        view = errand.view = TaskView(reply)
        # From here on a process that comes after this one finds the task again.
        await self._keep(request, turn, view.target)

        def show(seen: TaskView) -> None:
            request.sink.emit(progress_of(seen.task, turn.run_id))

        show(view)
        poll_s = self._config.options.poll_interval_ms / 1000
        await Watch(self._client, view, show, self._clock, poll_s).to_end()
        return None

    async def _keep(self, request: Request, turn: A2aTurn, found: RemoteTarget) -> None:
        """Make what is known of the turn durable, unless it is."""
        if request.checkpoint is None:
            return
        known = self._known(request.checkpoint) or RemoteTarget()
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

    async def _stopped(self, request: Request, errand: RemoteTurn) -> bool:
        """Stop a task that is not waited for any more; returns whether nothing is left of it."""
        try:
            known = self._known(request.checkpoint)
            await stop(self._client, request.run_identity, errand, known)
        except (RemoteError, TimeoutError) as error:
            logger.warning("A remote task of run '%s' goes on: %s", errand.run_id, error)
            return False
        return True

    def _known(self, checkpoint: BackendCheckpoint | None) -> RemoteTarget | None:
        return None if checkpoint is None else checkpoint.load(self._config.key)
