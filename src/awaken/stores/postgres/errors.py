"""The translation of the driver's errors into storage errors."""

import asyncpg

from awaken.contracts.errors import (
    InvalidRecord,
    StorageError,
    StoreCorrupt,
    StoreFull,
    StoreUnavailable,
)

DRIVER_ERRORS = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,
)
"""Everything that the driver raises; a timeout is an `OSError`."""

_ROLLED_BACK = frozenset({"40001", "40P01", "23505"})
"""Conflicts with another transaction: serialization failure, deadlock, duplicate id."""

_FULL = frozenset({"53100", "53200"})
_CORRUPT = frozenset({"XX001", "XX002"})
_UNFIT = frozenset({"22021", "54000"})
"""A character that the encoding lacks; a key that is too long to be indexed."""


def is_transient(error: BaseException) -> bool:
    """Whether the transaction was certainly rolled back and may be tried again at once."""
    return isinstance(error, asyncpg.InvalidCachedStatementError) or code_of(error) in _ROLLED_BACK


def is_broken(error: BaseException) -> bool:
    """Whether the connection is lost or in an unknown state."""
    if isinstance(error, asyncpg.DataError):
        return False
    return isinstance(error, OSError | asyncpg.InterfaceError | asyncpg.InternalClientError) or (
        code_of(error)[:2] in ("08", "57")
    )


def is_read_only(error: BaseException) -> bool:
    """Whether the server refuses writes on this connection: it may be a standby by now."""
    return code_of(error) == "25006"


def is_crowded(error: BaseException | None) -> bool:
    """Whether the server has no place for another connection."""
    return error is not None and code_of(error) == "53300"


def code_of(error: BaseException) -> str:
    """Return the server's code of an error; blank if the error is not from the server."""
    return getattr(error, "sqlstate", None) or ""


def translate_error(error: BaseException, store: str) -> StorageError:
    """Return the `StorageError` for an error of the driver; it never contains the password."""
    code = code_of(error)
    problem = str(error) or type(error).__name__
    if code in _FULL:
        return StoreFull(store=store, problem=problem)
    if code in _CORRUPT:
        return StoreCorrupt(store=store, problem=problem)
    if code in _UNFIT or isinstance(error, asyncpg.DataError):
        return InvalidRecord(what=f"A record for store {store}", problem=problem)
    if isinstance(error, TimeoutError):
        return StoreUnavailable(store=store, problem="it did not answer in time")
    if is_read_only(error):
        # Of a standby even the first LISTEN is refused, with words that only its owner understands.
        problem = f"it takes no writes; name the primary, and a user that may write ({problem})"
    return StoreUnavailable(store=store, problem=problem)
