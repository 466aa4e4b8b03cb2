"""One scenario on every store: `@each_store` gives it what makes the store, `new_store(tmp_path)`.

What that returns opens the same store as often as it is called, as one process after another
would.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.postgres.server import new_schema, server

from awaken.stores import MemoryStore, PostgresStore, SqliteStore, Store

Opener = Callable[[], Store]
NewStore = Callable[[Path], Opener]


def memory(_: Path) -> Opener:
    store = MemoryStore()
    return lambda: store


def sqlite(folder: Path) -> Opener:
    return lambda: SqliteStore(folder / "awaken.db")


def postgres(_: Path) -> Opener:
    schema = new_schema()
    return lambda: PostgresStore(server().url, schema=schema)


each_store = pytest.mark.parametrize("new_store", [memory, sqlite, postgres])
