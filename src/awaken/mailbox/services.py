"""The services that the use cases of one mailbox share."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec

from awaken.contracts.clock import Clock, IdSource
from awaken.contracts.errors import AwakenError, StorageError
from awaken.contracts.runs.records import RunRecord
from awaken.contracts.storage.bus import Bus, Signal, SignalKind
from awaken.contracts.storage.dispatch import InputMode, RunDispatch
from awaken.contracts.storage.mailbox import MailboxWatcher, find_limits
from awaken.contracts.storage.store import Store
from awaken.contracts.tenancy import tenant_in

from .config import MailboxConfig

if TYPE_CHECKING:
    # A process that shares no store needs nothing of it.
    from .nodes import NodeDirectory

logger = logging.getLogger(__name__)


class MailboxServices(msgspec.Struct, frozen=True, kw_only=True):
    """The ports and the configuration of a mailbox."""

    store: Store
    bus: Bus
    clock: Clock
    ids: IdSource
    config: MailboxConfig
    nodes: "NodeDirectory | None" = None
    """The nodes that share the store; None if it keeps no leases of nodes."""
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

    def may_have_next(self, thread_id: str) -> bool:
        """Whether a run that rests now may have left its place to other input.

        That is what is queued on its thread, or anything of a tenant that may have so many claims.
        """
        if self.nodes is None or not self.nodes.is_drained(thread_id):
            return True
        tenants = self.config.tenants
        limits = find_limits(tenants, tenant_in(thread_id)) if tenants else None
        return limits is not None and limits.max_busy is not None

    async def announce_input(self, dispatch: RunDispatch) -> None:
        """Wake workers for a new dispatch, and tell only the one whose run could take it in."""
        if self.nodes is None or dispatch.mode is InputMode.QUEUE:
            self.announce_queued(dispatch)
            return
        try:
            holder = await self.store.find_claim_holder(dispatch.thread_id)
        except StorageError:
            # The input is stored; the process that has the thread finds it.
            self.announce_queued(dispatch)
            return
        if holder is not None:
            self.tell_holder(dispatch.thread_id, holder)
        self.wake_workers(dispatch)

    def announce_queued(self, dispatch: RunDispatch) -> None:
        """Wake workers for a new dispatch, and tell the one whose run could take it in."""
        if dispatch.mode is not InputMode.QUEUE:
            self.send_signal(SignalKind.CONTROL, dispatch.thread_id, dispatch.run_id)
        self.wake_workers(dispatch)

    def wake_workers(self, dispatch: RunDispatch) -> None:
        """Tell workers that a dispatch is queued: all, or a few nodes that serve its agent."""
        self._wake_few(dispatch.request.agent_id, dispatch.thread_id, dispatch.run_id)

    def wake_any(self, thread_id: str = "") -> None:
        """Tell a few nodes that claim work, or all processes, to look for what they could claim."""
        self._wake_few(None, thread_id)

    def _wake_few(self, agent_id: str | None, thread_id: str, run_id: str | None = None) -> None:
        picked = None if self.nodes is None else self.nodes.pick(agent_id)
        for address in (None,) if picked is None else picked:
            self.send_signal(SignalKind.DISPATCH_QUEUED, thread_id, run_id, to=address)

    def tell_holder(self, thread_id: str, holder: str | None) -> None:
        """Tell the worker that holds a thread to look for a cancel or input; all if unknown."""
        to = None if self.nodes is None or holder is None else self.nodes.find_address(holder)
        self.send_signal(SignalKind.CONTROL, thread_id, to=to)

    def send_signal(
        self,
        kind: SignalKind,
        thread_id: str = "",
        run_id: str | None = None,
        to: str | None = None,
    ) -> None:
        """Tell other processes where to look; the store is authoritative if the signal is lost.

        A changed run is told as one that rests: its end, or a change that no commit of it tells.
        """
        is_resting = kind is SignalKind.RUN_CHANGED
        signal = Signal(kind=kind, thread_id=thread_id, run_id=run_id, is_resting=is_resting)
        try:
            self.bus.tell(signal, to)
        except Exception:
            # A bus of the application: every receiver also polls the store.
            logger.warning("Signal '%s' could not be sent.", kind, exc_info=True)
