"""Stream checkpoints: a model's partial answer is saved periodically while it streams.

If this process stops, the next one continues the answer from the checkpoint. Saving runs beside
the stream and never delays it.
"""

import asyncio
import logging
from types import TracebackType

from awaken.contracts.errors import LeaseLost, StorageError
from awaken.contracts.messages.content import ContentBlock
from awaken.contracts.messages.message import ToolCall
from awaken.contracts.storage.store import StreamCheckpoint
from awaken.runtime.journal.leases import RunHandedOver
from awaken.runtime.run import Run

logger = logging.getLogger(__name__)

_HAND_OVER_S = 2.0
_Heard = tuple[tuple[ContentBlock, ...], tuple[ToolCall, ...], str | None]


class StreamCheckpoints:
    """Saves the turn at most every `stream_checkpoint_ms`, one save at a time, until it is over."""

    __slots__ = ("_is_failing", "_run", "_saved", "_saving", "_timer")

    def __init__(self, run: Run) -> None:
        self._run = run
        self._saved: _Heard = ((), (), None)
        self._is_failing = False
        self._saving: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> None:
        if self._run.services.limits.stream_checkpoint_ms:
            self._set_timer()

    async def __aexit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if isinstance(self._run.journal.closed_by, RunHandedOver):
            # No commit follows here: the next process has only what is saved now.
            self.save_soon()
            if self._saving is not None:
                await asyncio.wait([self._saving], timeout=_HAND_OVER_S)
        if self._saving is not None and not self._saving.done():
            # The commit that follows makes the checkpoint obsolete.
            self._saving.cancel()
            await asyncio.wait([self._saving])

    def _set_timer(self) -> None:
        pause_s = self._run.services.limits.stream_checkpoint_ms / 1000
        self._timer = self._run.loop.call_later(pause_s, self._tick)

    def save_soon(self) -> None:
        """Start to save the answer so far, without waiting for it."""
        is_busy = self._saving is not None and not self._saving.done()
        answer = self._run.streaming
        if is_busy or answer is None:
            return
        partial = answer.checkpoint()
        if partial != self._saved:
            self._saved = partial
            self._saving = self._run.loop.create_task(self._save(partial))

    def _tick(self) -> None:
        self._set_timer()
        self.save_soon()

    async def _save(self, partial: "_Heard") -> None:
        run, lease = self._run, self._run.journal.lease
        assert lease is not None
        checkpoint = StreamCheckpoint(
            run_id=run.identity.run_id,
            thread_id=run.identity.thread_id,
            step=run.step.number,
            message_id=run.step.message_id,
            model=run.agent.spec.model_id,
            content=partial[0],
            tool_calls=partial[1],
            open_tool=partial[2],
            updated_at=run.services.clock.now_ms(),
        )
        try:
            await run.store.save_checkpoint(checkpoint, lease.token)
        except LeaseLost:
            run.lose_lease()
        except Exception as error:  # noqa: BLE001 - logged, and tried again
            # The answer itself will be committed; only the next process would miss this.
            self._note_failure(error)

    def _note_failure(self, error: Exception) -> None:
        """Have the same saved again, and tell it once for each answer: an outage has many."""
        self._saved = ((), (), None)
        level = logging.DEBUG if self._is_failing else logging.WARNING
        self._is_failing = True
        # A store that is away says why in one line; anything else needs its place.
        trace = None if isinstance(error, StorageError) else error
        logger.log(level, "A stream checkpoint was not saved: %s", error, exc_info=trace)
