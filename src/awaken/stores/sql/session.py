"""The ports of a database: sessions that run named statements in transactions."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Protocol, TypeVar

from awaken.contracts.record import Record
from awaken.contracts.storage.mailbox import LeaseKeeper

T = TypeVar("T")

Row = Sequence[Any]
Show = Callable[[Any], Any]
"""Makes a copy of what other threads may see of a head, which changes with the next commit."""


class Moment(Record, frozen=True, kw_only=True):
    """The current time by two clocks: the wall clock, and the clock of leases.

    A change of the wall clock must not affect leases.
    """

    wall_ms: int
    lease_ms: int


class Reserved(Record, frozen=True, kw_only=True):
    """Numbers of rows that a piece of work may add, given when its thread was read."""

    dispatch_no: int = 0
    thread_no: int | None = None
    """None if the thread exists."""


class SqlSession(Protocol):
    """One transaction. A statement is called by its name in a `.sql` file of this folder."""

    reserved: Reserved | None
    """Set if the work is a guess that is written with one statement: what it adds is found to be
    there already when it is written, and nothing that it added can be read."""

    async def all(self, statement: str, *args: Any) -> Sequence[Row]:
        """Run a query and return every row."""
        ...

    async def one(self, statement: str, *args: Any) -> Row | None:
        """Run a query and return its first row, or None."""
        ...

    async def run(self, statement: str, *args: Any) -> int:
        """Run a statement and return how many rows it changed."""
        ...

    async def run_many(self, statement: str, rows: Iterable[Row]) -> None:
        """Run a statement once per row."""
        ...

    async def now(self) -> Moment:
        """Return the time of the database's clock."""
        ...

    def recall_head(self, thread_id: str) -> Any:
        """Return and forget the head that `remember_head` was given for a thread, or None.

        It is returned only if the thread cannot have changed since, by this or any other process.
        """
        ...

    def remember_head(self, thread_id: str, head: Any, show: Show | None) -> None:
        """Keep a thread's head as this transaction leaves it, if the database can do so.

        `show` makes what `Database.find_shown` returns; without it that finds nothing.
        """
        ...


Work = Callable[[SqlSession], Awaitable[T]]


class Database(Protocol):
    """Runs work in transactions, completely or not at all."""

    name: str

    def since_write_ms(self) -> float:
        """Return how long ago the latest write became durable; infinite before the first."""
        ...

    async def open(self) -> None:
        """Connect and bring the schema up to date; calling it twice is harmless."""
        ...

    async def close(self) -> None:
        """Let running work end, then release every connection."""
        ...

    async def read(self, work: Work[T]) -> T:
        """Run work on one consistent view."""
        ...

    async def read_row(self, work: Work[T]) -> T:
        """Run work on one consistent view, for which one statement is usually enough."""
        ...

    async def write(self, work: Work[T]) -> T:
        """Run work and make it durable before returning; an exception undoes all of it."""
        ...

    async def write_row(self, work: Work[T]) -> T:
        """Write with work of one statement, which may be run a second time if its reply is lost."""
        ...

    async def write_thread(self, work: Work[T], thread_id: str, *, is_adding: bool = False) -> T:
        """Run work on one thread, as `write` does, but it may be run again after it was applied.

        `is_adding` says that it queues a dispatch.
        """
        ...

    async def write_claims(self, work: Work[T]) -> T:
        """Run work that claims threads, as `write` does."""
        ...

    def find_shown(self, thread_id: str) -> Any:
        """Return what a commit has shown of its thread, if nothing newer has been written, or None.

        Never waits: if the database cannot tell at once, the answer is None.
        """
        ...

    def lease_keeper(self) -> LeaseKeeper:
        """Return a new lease keeper with its own connection."""
        ...
