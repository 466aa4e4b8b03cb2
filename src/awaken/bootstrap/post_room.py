"""What commits ask for outside of their threads, carried out by this process."""

import logging
from collections.abc import Callable

from awaken.contracts.errors import StorageError, UsageError
from awaken.contracts.storage.outbox import ThreadMessage
from awaken.contracts.tasks import PARENT
from awaken.mailbox.mailbox import Mailbox
from awaken.mailbox.order_handlers import OrderHandlers
from awaken.mailbox.relay import Relay
from awaken.runtime.engine import RunEngine
from awaken.services.control import RunControl

logger = logging.getLogger(__name__)


class OutboxWiring:
    """Connects the runs of an engine with the relay of a mailbox."""

    def __init__(self, engine: RunEngine, control: RunControl, mailbox: Mailbox) -> None:
        self._engine = engine
        self._control = control
        self._handlers = OrderHandlers(
            mailbox,
            engine.abort_remote,
            cancel_run=self._cancel,
            decide=control.decide,
            on_queued=self._tell,
        )
        self._relay = Relay(mailbox, self._handlers)
        # Where nobody else sees the store, nothing is there before somebody here asks for it.
        self._is_relaying = not mailbox.services.store.is_shared
        self.on_queued: Callable[[], None] | None = None
        """Called when something was queued, which somebody must execute."""
        engine.services.watchers.outbox.append(self.wake)
        engine.tasks.post = self._post
        engine.tasks.stop = control.cancel_run
        engine.tasks.on_orders = self.wake

    def open(self) -> None:
        """Begin to carry out what is there, also what others have left."""
        self._is_relaying = True
        self._relay.start()

    def wake(self) -> None:
        """Something is there to be carried out."""
        if self._is_relaying:
            self._relay.start()
            self._relay.wake()

    async def close(self) -> None:
        """Stop; what is left is found by whoever opens the store next."""
        await self._relay.stop()

    async def _cancel(self, run_id: str) -> bool:
        return await self._control.cancel_run(run_id, PARENT)

    def _tell(self, thread_id: str) -> None:
        if self.on_queued is not None:
            self.on_queued()
        active = self._engine.active.of_thread(thread_id)
        if active is not None:
            active.look_for_input()

    async def _post(self, letter: ThreadMessage, letter_id: str) -> bool:
        try:
            await self._handlers.carry_out(letter_id, letter)
        except (UsageError, StorageError) as error:
            logger.info("Letter '%s' was not delivered: %s", letter_id, error)
            return False
        return True
