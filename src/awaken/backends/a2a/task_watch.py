"""Follows a task to its end: over a stream if possible, by polling otherwise.

Connection failures are retried until the run's deadline; only a malformed or refused answer ends
the watch.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import aclosing

from awaken.contracts.backends.errors import (
    RemoteError,
    RemoteTooLarge,
    RemoteUnreachable,
    RemoteUnsupported,
)
from awaken.contracts.clock import Clock

from .client import A2AClient
from .failures import RemoteTaskUnknown
from .task_view import TaskView

logger = logging.getLogger(__name__)

EVENTS_MAX = 100_000
FIRST_PAUSE_S = 0.1
CONFIRM_S, CONFIRM_QUESTION_S = 5.0, 60.0
SHOW_MS = 250
"""How often progress is reported while the state does not change."""


class Watch:
    """Follows one task and reports its progress."""

    def __init__(
        self,
        client: A2AClient,
        view: TaskView,
        show: Callable[[TaskView], None],
        clock: Clock,
        poll_s: float,
    ) -> None:
        self._client = client
        self._view = view
        self._show = show
        self._clock = clock
        self._poll_s = poll_s
        self._events = 0
        self._is_streaming = client.can_stream
        self._shown_ms: int | None = None
        self._shown_state = view.state

    async def follow_to_end(self) -> None:
        """Return when the task has ended or waits for the client.

        Raises:
            RemoteError: The task cannot be followed any more.
        """
        silences = 0
        while not self._view.is_over:
            before = self._events
            if self._is_streaming:
                await self._follow_stream()
            if self._view.is_over:
                # A stream may begin with a question that was answered just before.
                await self._confirm()
            else:
                await self._poll()
            if not self._view.is_over:
                # The first event only repeats the current state.
                silences = 0 if self._events > before + 1 else silences + 1
                await asyncio.sleep(self._pause_s(silences))

    async def _follow_stream(self) -> None:
        """Apply the events of a stream until it ends; a broken stream counts as ended."""
        try:
            async with aclosing(self._client.subscribe(self._view.task_id)) as events:
                async for event in events:
                    self._events += 1
                    if self._events > EVENTS_MAX:
                        problem = f"the task has more than {EVENTS_MAX} events"
                        raise RemoteTooLarge(problem=problem)
                    self._view.apply_event(event)
                    self._show_if_due()
                    if self._view.is_over:
                        return
        except (RemoteUnsupported, RemoteTaskUnknown) as error:
            # A task that has just ended is refused as well; polling finds out.
            logger.debug("Task '%s' is asked for, not followed: %s", self._view.task_id, error)
            self._is_streaming = False
        except RemoteUnreachable as error:
            logger.debug("The stream of task '%s' broke: %s", self._view.task_id, error)

    async def _poll(self) -> None:
        try:
            self._view.replace(await self._client.get(self._view.task_id))
            self._show_if_due()
        except RemoteUnreachable as error:
            logger.debug("Task '%s' is asked for again: %s", self._view.task_id, error)
        except RemoteUnsupported:
            if not self._is_streaming:
                raise

    async def _confirm(self) -> None:
        """Fetch the whole task after its end: events of a stream may be lost or repeated.

        For a question this is retried for longer: a question known only from a stream may have no
        timestamp, so it could not be recognized again if its answer is lost.
        """
        is_question = self._view.state.is_waiting
        try:
            async with asyncio.timeout(CONFIRM_QUESTION_S if is_question else CONFIRM_S):
                await self._reload(is_patient=is_question)
        except (RemoteError, TimeoutError) as error:
            logger.debug("Task '%s' stays as its stream said: %s", self._view.task_id, error)
        self._show_if_due()

    async def _reload(self, *, is_patient: bool) -> None:
        while True:
            try:
                return self._view.replace(await self._client.get(self._view.task_id))
            except RemoteUnreachable:
                if not is_patient:
                    raise
            await asyncio.sleep(self._poll_s)

    def _show_if_due(self) -> None:
        now, state = self._clock.monotonic_ms(), self._view.state
        is_due = self._shown_ms is None or now - self._shown_ms >= SHOW_MS
        if is_due or state is not self._shown_state:
            self._shown_ms, self._shown_state = now, state
            self._show(self._view)

    def _pause_s(self, silences: int) -> float:
        if not self._is_streaming:
            return self._poll_s
        return min(self._poll_s, FIRST_PAUSE_S * float(1 << min(silences, 16)))
