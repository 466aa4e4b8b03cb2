"""Access to a store for operators: reads and controls runs, executes nothing."""

from types import TracebackType

from awaken.contracts.storage.store import Store
from awaken.mailbox.config import MailboxConfig
from awaken.mailbox.mailbox import Mailbox
from awaken.runtime.primitives.system import SystemClock, Uuid7Source

from .node import Node
from .stores import resolve_store


class Operator:
    """Reads a store and controls its runs; needs none of the agents that execute there.

    Use it as an async context manager.
    """

    def __init__(
        self,
        store: Store | str,
        config: MailboxConfig | None = None,
        bus: str | None = None,
    ) -> None:
        config = config or MailboxConfig()
        self._node = Node(resolve_store(store), SystemClock(), Uuid7Source(), config, bus)

    @property
    def store(self) -> Store:
        """Threads, messages, runs, tickets, events and dispatches."""
        return self._node.store

    @property
    def mailbox(self) -> Mailbox:
        """Submits, decides, cancels and replays, for runs that execute anywhere."""
        return self._node.mailbox

    async def __aenter__(self) -> "Operator":
        await self._node.open()
        return self

    async def __aexit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        await self._node.close()
