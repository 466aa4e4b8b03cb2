"""The services that the use cases of one mailbox share."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from awaken.contracts.clock import Clock, IdSource
from awaken.contracts.errors import AwakenError
from awaken.contracts.runs.records import RunRecord
from awaken.contracts.storage.bus import Bus, Signal, SignalKind
from awaken.contracts.storage.dispatch import InputMode, RunDispatch
from awaken.contracts.storage.mailbox import MailboxWatcher
from awaken.contracts.storage.store import Store

from .config import MailboxConfig

logger = logging.getLogger(__name__)


class MailboxServices(msgspec.Struct, frozen=True, kw_only=True):
    """The ports and the configuration of a mailbox."""

    store: Store
    bus: Bus
    clock: Clock
    ids: IdSource
    config: MailboxConfig
    watchers: list[MailboxWatcher] = msgspec.field(default_factory=list)
    """They receive the duration of every operation."""

    @contextmanager
    def time_operation(self, operation: str) -> Iterator[None]:
        """Report to the watchers how long an operation takes and how it ends."""
        started, result = self.clock.monotonic_ms(), "ok"
        try:
            yield
        except BaseException as error:
            result = error.code if isinstance(error, AwakenError) else "error"
            raise
        finally:
            took = self.clock.monotonic_ms() - started
            for watcher in self.watchers:
                watcher.on_operation(operation, result, took)

    async def load_open_run(self, thread_id: str) -> RunRecord | None:
        """Return the open run of a thread, or None."""
        thread = await self.store.load_thread(thread_id)
        run_id = None if thread is None else thread.open_run_id
        return None if run_id is None else await self.store.load_run(run_id)

    def announce_queued(self, dispatch: RunDispatch) -> None:
        """Signal a new dispatch to all workers, and to the one whose run could take it in."""
        if dispatch.mode is not InputMode.QUEUE:
            self.send_signal(SignalKind.CONTROL, dispatch.thread_id, dispatch.run_id)
        self.send_signal(SignalKind.DISPATCH_QUEUED, dispatch.thread_id, dispatch.run_id)

    def send_signal(self, kind: SignalKind, thread_id: str = "", run_id: str | None = None) -> None:
        """Tell other processes where to look; the store is authoritative if the signal is lost.

        A changed run is told as one that rests: its end, or a change that no commit of it tells.
        """
        is_resting = kind is SignalKind.RUN_CHANGED
        signal = Signal(kind=kind, thread_id=thread_id, run_id=run_id, is_resting=is_resting)
        try:
            self.bus.tell(signal)
        except Exception:
            # A bus of the application: every receiver also polls the store.
            logger.warning("Signal '%s' could not be sent.", kind, exc_info=True)
