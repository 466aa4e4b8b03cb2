"""Durable storage: the stores, and the ports and records for those who write one.

One folder per technology. The ports are `Store`, `MailboxStore` and `ProfileStore`.
Belongs here: how threads, runs, commits, events, tickets and profile entries are kept.
Does not: deciding what to commit, retrying, or any knowledge of the loop.
May import: contracts and the driver of its own technology. Stores never import each other.
A new store is done when `awaken.testing.STORE_CHECKS` pass on it.
"""

from typing import TYPE_CHECKING

from awaken._deferred_imports import defer_imports

if TYPE_CHECKING:
    from awaken.contracts.messages.message import (
        MessageRecord,
    )
    from awaken.contracts.runs.records import (
        RunInput,
        RunRecord,
        Waiting,
        WaitingReason,
    )
    from awaken.contracts.runs.threads import (
        ForkPoint,
        NewestBranch,
        Thread,
        ThreadMetadata,
    )
    from awaken.contracts.state.keys import (
        PersistedState,
        StoredValue,
    )
    from awaken.contracts.state.profile import (
        ProfileEntry,
        ProfileStore,
    )
    from awaken.contracts.storage.bus import (
        Bus,
        BusWatcher,
        Signal,
        SignalKind,
    )
    from awaken.contracts.storage.dispatch import (
        Claim,
        DispatchStatus,
        InputMode,
        Interruption,
        LeaseReport,
        Purged,
        Release,
        RunDispatch,
    )
    from awaken.contracts.storage.mailbox import (
        LeaseKeeper,
        MailboxStore,
        MailboxWatcher,
    )
    from awaken.contracts.storage.queries import (
        LIMIT_MAX,
        DispatchQuery,
        MessageQuery,
        Order,
        Page,
        RunQuery,
        ThreadQuery,
        TicketQuery,
        VisibilityFilter,
        at_cursor,
        page_of,
    )
    from awaken.contracts.storage.store import (
        Checkout,
        Commit,
        CommitReceipt,
        CommitStore,
        DeleteStrategy,
        EventStore,
        OutboxEntry,
        RunStore,
        Store,
        StreamCheckpoint,
        ThreadStore,
        ToolRecord,
        ToolRecordStatus,
    )
    from awaken.stores.memory import (
        MemoryProfileStore,
        MemoryStore,
    )
    from awaken.stores.postgres import (
        PostgresStore,
    )
    from awaken.stores.sqlite import (
        SqliteStore,
    )

__all__ = [
    "LIMIT_MAX",
    "Bus",
    "BusWatcher",
    "Checkout",
    "Claim",
    "Commit",
    "CommitReceipt",
    "CommitStore",
    "DeleteStrategy",
    "DispatchQuery",
    "DispatchStatus",
    "EventStore",
    "ForkPoint",
    "InputMode",
    "Interruption",
    "LeaseKeeper",
    "LeaseReport",
    "MailboxStore",
    "MailboxWatcher",
    "MemoryProfileStore",
    "MemoryStore",
    "MessageQuery",
    "MessageRecord",
    "NewestBranch",
    "Order",
    "OutboxEntry",
    "Page",
    "PersistedState",
    "PostgresStore",
    "ProfileEntry",
    "ProfileStore",
    "Purged",
    "Release",
    "RunDispatch",
    "RunInput",
    "RunQuery",
    "RunRecord",
    "RunStore",
    "Signal",
    "SignalKind",
    "SqliteStore",
    "Store",
    "StoredValue",
    "StreamCheckpoint",
    "Thread",
    "ThreadMetadata",
    "ThreadQuery",
    "ThreadStore",
    "TicketQuery",
    "ToolRecord",
    "ToolRecordStatus",
    "VisibilityFilter",
    "Waiting",
    "WaitingReason",
    "at_cursor",
    "page_of",
]

_HOMES = {
    "Bus": "awaken.contracts.storage.bus",
    "BusWatcher": "awaken.contracts.storage.bus",
    "Checkout": "awaken.contracts.storage.store",
    "Claim": "awaken.contracts.storage.dispatch",
    "Commit": "awaken.contracts.storage.store",
    "CommitReceipt": "awaken.contracts.storage.store",
    "CommitStore": "awaken.contracts.storage.store",
    "DeleteStrategy": "awaken.contracts.storage.store",
    "DispatchQuery": "awaken.contracts.storage.queries",
    "DispatchStatus": "awaken.contracts.storage.dispatch",
    "EventStore": "awaken.contracts.storage.store",
    "ForkPoint": "awaken.contracts.runs.threads",
    "InputMode": "awaken.contracts.storage.dispatch",
    "Interruption": "awaken.contracts.storage.dispatch",
    "LIMIT_MAX": "awaken.contracts.storage.queries",
    "LeaseKeeper": "awaken.contracts.storage.mailbox",
    "LeaseReport": "awaken.contracts.storage.dispatch",
    "MailboxStore": "awaken.contracts.storage.mailbox",
    "MailboxWatcher": "awaken.contracts.storage.mailbox",
    "MemoryProfileStore": "awaken.stores.memory",
    "MemoryStore": "awaken.stores.memory",
    "MessageQuery": "awaken.contracts.storage.queries",
    "MessageRecord": "awaken.contracts.messages.message",
    "NewestBranch": "awaken.contracts.runs.threads",
    "Order": "awaken.contracts.storage.queries",
    "OutboxEntry": "awaken.contracts.storage.store",
    "Page": "awaken.contracts.storage.queries",
    "PersistedState": "awaken.contracts.state.keys",
    "PostgresStore": "awaken.stores.postgres",
    "ProfileEntry": "awaken.contracts.state.profile",
    "ProfileStore": "awaken.contracts.state.profile",
    "Purged": "awaken.contracts.storage.dispatch",
    "Release": "awaken.contracts.storage.dispatch",
    "RunDispatch": "awaken.contracts.storage.dispatch",
    "RunInput": "awaken.contracts.runs.records",
    "RunQuery": "awaken.contracts.storage.queries",
    "RunRecord": "awaken.contracts.runs.records",
    "RunStore": "awaken.contracts.storage.store",
    "Signal": "awaken.contracts.storage.bus",
    "SignalKind": "awaken.contracts.storage.bus",
    "SqliteStore": "awaken.stores.sqlite",
    "Store": "awaken.contracts.storage.store",
    "StoredValue": "awaken.contracts.state.keys",
    "StreamCheckpoint": "awaken.contracts.storage.store",
    "Thread": "awaken.contracts.runs.threads",
    "ThreadMetadata": "awaken.contracts.runs.threads",
    "ThreadQuery": "awaken.contracts.storage.queries",
    "ThreadStore": "awaken.contracts.storage.store",
    "TicketQuery": "awaken.contracts.storage.queries",
    "ToolRecord": "awaken.contracts.storage.store",
    "ToolRecordStatus": "awaken.contracts.storage.store",
    "VisibilityFilter": "awaken.contracts.storage.queries",
    "Waiting": "awaken.contracts.runs.records",
    "WaitingReason": "awaken.contracts.runs.records",
    "at_cursor": "awaken.contracts.storage.queries",
    "page_of": "awaken.contracts.storage.queries",
}
"""The module that each name is imported from."""

if not TYPE_CHECKING:  # Type checkers see the imports above, and refuse every other name.
    __getattr__, __dir__ = defer_imports(__name__, _HOMES)
