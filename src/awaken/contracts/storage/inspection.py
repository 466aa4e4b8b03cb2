"""What an operator asks a store about itself: its schema, its integrity, its connections."""

from typing import Protocol, runtime_checkable

from awaken.contracts.record import Record


class StoreCheck(Record, frozen=True, kw_only=True):
    """The result of checking everything in a store."""

    store: str
    schema_version: int
    records: dict[str, int]
    """The number of readable records of each kind."""
    problems: tuple[str, ...]
    """Every damaged record by name; empty means that the store is intact."""


class StoreWatcher(Protocol):
    """Observes what a process asks of its database. It must not raise and must not wait."""

    def on_statement(self, op: str) -> None:
        """Called for each round trip: `OPS`. Those of leases come from a thread of their own."""
        ...

    def on_pool_wait(self, ms: float) -> None:
        """Called when work has a connection, with how long it waited for one to be free."""
        ...


OPS = ("begin", "commit", "lease", "read", "rollback", "write")
"""What a round trip is for; `lease` is what keeps the leases of a process alive."""


@runtime_checkable
class WatchedStore(Protocol):
    """A store on a database server."""

    @property
    def watchers(self) -> list[StoreWatcher]:
        """Whom it reports what it asks of the server; empty at first."""
        ...


class SchemaVersions(Record, frozen=True, kw_only=True):
    """Which schema a store has, and which versions of the code may use it."""

    found: int
    """The newest expand migration that the store has; 0 means no tables."""
    readable_from: int
    """The oldest schema whose code may run on the store."""
    known: int
    """The newest schema that this release knows."""


class ConnectionBudget(Record, frozen=True, kw_only=True):
    """The sessions of a database server."""

    allowed: int
    """How many sessions the server gives to roles that are not superusers."""
    used: int
    """How many there are now, of everything that uses the server."""
    per_process: int
    """How many one process of this store takes at most; those of a pooler are not counted."""


@runtime_checkable
class BudgetedStore(Protocol):
    """A store on a server that allows a number of sessions."""

    async def count_connections(self) -> ConnectionBudget:
        """Ask the server how many sessions it allows and has.

        Raises:
            StoreUnavailable: The server cannot be reached, or refuses.
        """
        ...


@runtime_checkable
class VersionedStore(Protocol):
    """A store that tells its schema without being opened."""

    async def schema_versions(self) -> SchemaVersions:
        """Return the versions; changes and creates nothing.

        Raises:
            StoreUnavailable: The store cannot be reached, or does not exist.
            StoreCorrupt: It is not a store.
        """
        ...

    async def contract_schema(self) -> SchemaVersions:
        """Take away what only older versions use; returns what the store has afterwards.

        The caller makes sure that no process of an older version uses the store.

        Raises:
            StoreUnavailable: The store cannot be reached, or its schema is not the known one.
            StoreTooNew: A newer version contracted it already.
        """
        ...


@runtime_checkable
class CheckableStore(VersionedStore, Protocol):
    """A store whose integrity an operator can check before it is opened."""

    async def check(self) -> StoreCheck:
        """Read every record and verify its checksum; damaged records do not stop the check.

        Changes nothing. This release must know the schema version.

        Raises:
            StoreUnavailable: The store cannot be reached, or does not exist.
            StoreCorrupt: It is so damaged that nothing in it can be listed.
        """
        ...
