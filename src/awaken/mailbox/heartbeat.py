"""The heartbeat: an operating-system thread extends the leases of this process.

Never the event loop: if application code blocks the loop, every lease would be lost while its runs
still execute. The thread passes what it learns to the loop, and only the loop acts on it.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Iterable

import msgspec

from awaken.contracts.clock import Clock, IdSource
from awaken.contracts.storage.dispatch import Claim, LeaseReport
from awaken.contracts.storage.mailbox import LeaseKeeper, MailboxStore
from awaken.runtime.journal.leases import Lease, LeaseHolder

from .config import MailboxConfig

logger = logging.getLogger(__name__)

_JOIN_S = 2.0


class _Held(msgspec.Struct, eq=False):
    """A lease of this process: its holder, the holder's loop, and the last confirmation."""

    holder: LeaseHolder
    loop: asyncio.AbstractEventLoop
    confirmed_at: int
    is_lost: bool = False


class Heartbeat:
    """A `LeaseBook` that extends every watched lease in one call, `renew_ms` after the last.

    While a holder is watched, it is notified in its event loop that its lease was lost, that a
    cancel was requested, or that input is there. A lease also counts as lost if it was not
    confirmed until shortly before its end by this process's monotonic clock. The thread starts
    with the first lease, ends with `close`, and dies with the process.
    """

    looks_confirm = True
    """Whether a lease that was looked at was extended as well."""

    def __init__(
        self,
        store: MailboxStore,
        clock: Clock,
        ids: IdSource,
        config: MailboxConfig,
        worker_id: str,
    ) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids
        self.patience_ms = 0
        # Stored with claims: a plain number, also where no mailbox has chosen the times.
        self._lease_ms = int(config.lease_ms)
        self._renew_ms = config.renew_ms
        self._retry_ms = max(config.renew_ms // 10, 1)
        # Retries are more frequent than the remaining tenth, so that this limit is not missed.
        self._trust_ms = config.lease_ms - config.lease_ms // 10
        self.worker_id = worker_id
        """Whom the claims of this process name."""
        self._held: dict[str, _Held] = {}
        self._asked: set[str] = set()
        """Leases of which a signal says that a cancel or input may be there."""
        self._next_at: int | None = None
        self._thread: threading.Thread | None = None
        self._changed = threading.Condition()
        self._is_store_away = False
        self._confirmed_at: int | None = None
        """Since when new leases count; None: since they are watched."""

    def open(self, thread_id: str) -> Lease:
        """Return a lease for a run that claims its thread with its first commit."""
        claim = Claim(worker_id=self.worker_id, lease_ms=self._lease_ms)
        return Lease(token=self._ids.new_id(), claim=claim)

    def watch(self, lease: Lease, run: LeaseHolder) -> None:
        """Keep a new lease alive, or replace the holder that is notified."""
        now = self._clock.monotonic_ms()
        with self._changed:
            known = self._held.get(lease.token)
            fresh = now if self._confirmed_at is None else self._confirmed_at
            since = fresh if known is None else known.confirmed_at
            self._held[lease.token] = _Held(run, asyncio.get_running_loop(), since)
            # While leases are held the next beat is at most `renew_ms` away, which is soon enough.
            if self._next_at is None:
                self._wake_at(now + self._renew_ms)
            if self._thread is None or not self._thread.is_alive():
                self._start_thread()

    def forget(self, lease: Lease) -> None:
        """Stop extending a lease; its holder is no longer notified."""
        with self._changed:
            self._held.pop(lease.token, None)
            if self._asked:
                self._asked.discard(lease.token)

    def look_at(self, lease: Lease) -> None:
        """Extend one lease at once: a signal says that a cancel or input may be there."""
        with self._changed:
            if lease.token in self._held:
                self._asked.add(lease.token)
                self._changed.notify_all()

    async def close(self) -> None:
        """Stop the thread; if it hangs in the store it is abandoned."""
        with self._changed:
            thread, self._thread = self._thread, None
            self._held.clear()
            self._changed.notify_all()
        if thread is None:
            return
        await asyncio.to_thread(thread.join, _JOIN_S)
        if thread.is_alive():
            logger.warning("The heartbeat still hangs in the store after %s s.", _JOIN_S)

    def _start_thread(self) -> None:
        self._thread = threading.Thread(
            target=self._beat_until_closed, name="awaken-heartbeat", daemon=True
        )
        self._thread.start()

    def _wake_at(self, at: int) -> None:
        self._next_at = at
        self._changed.notify_all()

    def _beat_until_closed(self) -> None:
        keeper: LeaseKeeper | None = None
        try:
            while (due := self._wait_for_next()) is not None:
                keeper = self._beat(keeper, due[0], is_look=due[1])
        finally:
            _close(keeper)

    def _wait_for_next(self) -> tuple[tuple[str, ...], bool] | None:
        """Sleep until leases are due; returns None when the thread must end.

        Returns their tokens, and whether they are only looked at.
        """
        with self._changed:
            while self._thread is threading.current_thread():
                if self._asked:
                    asked, self._asked = self._asked, set()
                    return tuple(asked), True
                if self._next_at is None:
                    self._changed.wait()
                elif (left := self._next_at - self._clock.monotonic_ms()) > 0:
                    self._changed.wait(left / 1000)
                elif (tokens := self._list_due()) is not None:
                    # Set before the store is asked, so that a signal meanwhile is not lost.
                    self._next_at = self._clock.monotonic_ms() + self._renew_ms
                    return tokens, False
                else:
                    self._next_at = None
            return None

    def _list_due(self) -> tuple[str, ...] | None:
        """Return the leases to extend; None lets the thread sleep until there is one."""
        return tuple(token for token, held in self._held.items() if not held.is_lost) or None

    def _open_keeper(self) -> LeaseKeeper:
        return self._store.lease_keeper()

    def _ask(
        self, keeper: LeaseKeeper, tokens: tuple[str, ...], *, is_look: bool
    ) -> Iterable[LeaseReport]:
        """Extend leases; those that are only looked at are extended too."""
        return keeper.extend(tokens, self._lease_ms)

    def _beat(
        self, keeper: LeaseKeeper | None, tokens: tuple[str, ...], *, is_look: bool
    ) -> LeaseKeeper | None:
        """Extend the leases once; returns the keeper for the next time, or None after a failure."""
        asked_at = self._clock.monotonic_ms()
        reports: Iterable[LeaseReport] = ()
        try:
            keeper = keeper or self._open_keeper()
            reports = self._ask(keeper, tokens, is_look=is_look)
            self._is_store_away = False
        except Exception as error:  # noqa: BLE001 - the thread must survive every error
            self._log_once(error)
            _close(keeper)
            keeper = None
        with self._changed:
            if keeper is None:
                self._next_at = self._clock.monotonic_ms() + self._retry_ms
            for item in reports:
                self._apply_report(item, asked_at if self.looks_confirm or not is_look else None)
            self._drop_untrusted()
        return keeper

    def _apply_report(self, report: LeaseReport, asked_at: int | None) -> None:
        held = self._held.get(report.claim_token)
        if held is None or held.is_lost:
            return
        if not report.is_held:
            self._lose(report.claim_token, held)
            return
        if asked_at is not None:
            held.confirmed_at = asked_at
        if (cause := report.cancel_cause) is not None:
            self._notify(report.claim_token, held, lambda: held.holder.cancel(cause))
        if report.has_input:
            self._notify(report.claim_token, held, held.holder.notify_input)

    def _drop_untrusted(self) -> None:
        now = self._clock.monotonic_ms()
        for token, held in list(self._held.items()):
            if now >= held.confirmed_at + self._trust_ms and not held.is_lost:
                logger.warning("A lease could not be confirmed in time; its run stops.")
                self._lose(token, held)

    def _lose(self, token: str, held: _Held) -> None:
        held.is_lost = True
        self._notify(token, held, held.holder.lease_lost)

    def _notify(self, token: str, held: _Held, action: Callable[[], object]) -> None:
        """Call the action in the holder's loop, unless the lease is no longer watched by then."""

        def act() -> None:
            if self._held.get(token) is held:
                action()

        try:
            held.loop.call_soon_threadsafe(act)
        except RuntimeError:
            # The loop is closed: its run no longer executes, so another worker may take it.
            self._held.pop(token, None)

    def _log_once(self, error: Exception) -> None:
        if not self._is_store_away:
            self._is_store_away = True
            logger.warning("Leases cannot be extended; trying again: %s", error)


def _close(keeper: LeaseKeeper | None) -> None:
    if keeper is None:
        return
    try:
        keeper.close()
    except Exception:
        logger.exception("The connection of the heartbeat could not be closed.")
