"""Following a task to its end: over a stream while there is one, by asking when there is none.

What fails in between is tried again until the run's deadline; only what the other side says in a
wrong form, or refuses, ends the watch.
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
"""How often watchers see a task whose state does not change."""


class Watch:
    """One task that is followed, shown whenever it changes."""

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

    async def to_end(self) -> None:
        """Return when the task has ended or waits for us.

        Raises:
            RemoteError: It cannot be followed any more.
        """
        silences = 0
        while not self._view.is_over:
            before = self._events
            if self._is_streaming:
                await self._follow()
            if self._view.is_over:
                await self._confirm()
                return
            await self._ask()
            if not self._view.is_over:
                # The first event only says how the task stands.
                silences = 0 if self._events > before + 1 else silences + 1
                await asyncio.sleep(self._pause_s(silences))

    async def _follow(self) -> None:
        """Take what a stream says, until it ends; one that breaks has only ended early."""
        try:
            async with aclosing(self._client.subscribe(self._view.task_id)) as events:
                async for event in events:
                    self._count()
                    self._view.take(event)
                    self._showing()
                    if self._view.is_over:
                        return
        except (RemoteUnsupported, RemoteTaskUnknown) as error:
            # Also one that has just ended answers so; asking for it tells.
            logger.debug("Task '%s' is asked for, not followed: %s", self._view.task_id, error)
            self._is_streaming = False
        except RemoteUnreachable as error:
            logger.debug("The stream of task '%s' broke: %s", self._view.task_id, error)

    async def _ask(self) -> None:
        try:
            self._view.replace(await self._client.get(self._view.task_id))
            self._showing()
        except RemoteUnreachable as error:
            logger.debug("Task '%s' is asked for again: %s", self._view.task_id, error)
        except RemoteUnsupported:
            if not self._is_streaming:
                raise

    async def _confirm(self) -> None:
        """Have the task whole, as it ended: pieces of a stream may be lost or come twice.

        A question is waited for: one that only a stream has told may have no time, so that it is
        not known again when its answer gets lost on the way.
        """
        is_question = self._view.state.is_waiting
        try:
            async with asyncio.timeout(CONFIRM_QUESTION_S if is_question else CONFIRM_S):
                await self._replaced(is_patient=is_question)
        except (RemoteError, TimeoutError) as error:
            logger.debug("Task '%s' stays as its stream said: %s", self._view.task_id, error)
        self._showing()

    async def _replaced(self, *, is_patient: bool) -> None:
        while True:
            try:
                return self._view.replace(await self._client.get(self._view.task_id))
            except RemoteUnreachable:
                if not is_patient:
                    raise
            await asyncio.sleep(self._poll_s)

    def _count(self) -> None:
        self._events += 1
        if self._events > EVENTS_MAX:
            raise RemoteTooLarge(problem=f"the task has more than {EVENTS_MAX} events")

    def _showing(self) -> None:
        now, state = self._clock.monotonic_ms(), self._view.state
        is_due = self._shown_ms is None or now - self._shown_ms >= SHOW_MS
        if is_due or state is not self._shown_state:
            self._shown_ms, self._shown_state = now, state
            self._show(self._view)

    def _pause_s(self, silences: int) -> float:
        if not self._is_streaming:
            return self._poll_s
        return min(self._poll_s, FIRST_PAUSE_S * float(1 << min(silences, 16)))
