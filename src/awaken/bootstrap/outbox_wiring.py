"""Connects the outbox with the engine: this process executes the commands of commits."""

import logging
from collections.abc import Callable

from awaken.contracts.errors import StorageError, UsageError
from awaken.contracts.storage.outbox import ThreadMessage
from awaken.contracts.tasks import PARENT
from awaken.mailbox.mailbox import Mailbox
from awaken.mailbox.outbox_handlers import OutboxHandlers
from awaken.mailbox.relay import Relay
from awaken.runtime.engine import RunEngine
from awaken.services.control import RunControl

logger = logging.getLogger(__name__)


class OutboxWiring:
    """Connects the runs of an engine with the outbox relay of a mailbox."""

    def __init__(
        self,
        engine: RunEngine,
        control: RunControl,
        mailbox: Mailbox,
        start_worker: Callable[[], None] = lambda: None,
    ) -> None:
        self._start_worker = start_worker
        """Called when something was queued, so that a worker executes it."""
        self._engine = engine
        self._control = control
        self._handlers = OutboxHandlers(
            mailbox,
            engine.abort_remote,
            cancel_run=self._cancel_child,
            decide=control.decide,
            on_queued=self._on_queued,
        )
        self._relay = Relay(mailbox, self._handlers)
        # In a store that no other process sees, the outbox is empty until a run here fills it.
        self._is_relaying = not mailbox.services.store.is_shared
        engine.services.watchers.outbox.append(self.wake)

    def open(self) -> None:
        """Start to execute the commands in the outbox, also those of other processes."""
        self._is_relaying = True
        self._relay.start()

    def wake(self) -> None:
        """Notify the relay that the outbox has a new command."""
        if self._is_relaying:
            self._relay.start()
            self._relay.wake()

    async def close(self) -> None:
        """Stop; the next process that opens the store executes what is left."""
        await self._relay.stop()

    async def _cancel_child(self, run_id: str) -> bool:
        return await self._control.cancel_run(run_id, PARENT)

    def _on_queued(self, thread_id: str) -> None:
        self._start_worker()
        active = self._engine.active.of_thread(thread_id)
        if active is not None:
            active.notify_input()

    async def cancel_run(self, run_id: str, cause: str) -> bool:
        """Cancel a run, in whichever process it is; False when there is nothing to cancel."""
        return await self._control.cancel_run(run_id, cause)

    async def deliver_message(self, message: ThreadMessage, message_id: str) -> bool:
        """Deliver a message under an id, durably; returns whether that was possible."""
        try:
            await self._handlers.carry_out(message_id, message)
        except (UsageError, StorageError) as error:
            logger.info("Message '%s' was not delivered: %s", message_id, error)
            return False
        return True


class EngineMailbox:
    """The mailbox as an engine's tasks use it.

    The wiring needs the engine, and the engine's tasks need the wiring: the composition root looks
    it up when the first task asks.
    """

    def __init__(self, find_wiring: Callable[[], OutboxWiring]) -> None:
        self._find_wiring = find_wiring

    async def deliver_message(self, message: ThreadMessage, message_id: str) -> bool:
        """Deliver a message under an id, durably; returns whether that was possible."""
        return await self._find_wiring().deliver_message(message, message_id)

    async def cancel_run(self, run_id: str, cause: str) -> bool:
        """Cancel a run, in whichever process it is; False when there is nothing to cancel."""
        return await self._find_wiring().cancel_run(run_id, cause)

    def wake(self) -> None:
        """Notify the relay that the outbox has a new command."""
        self._find_wiring().wake()
