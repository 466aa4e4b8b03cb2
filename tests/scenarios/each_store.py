"""One scenario on every store: in memory, on SQLite and on Postgres.

Import `each_store` and `new_store`; `new_store()` opens the same store as often as it is called, as
one process after another does.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.postgres.server import new_schema, server

from awaken.contracts.storage import Store
from awaken.stores.memory import MemoryStore
from awaken.stores.postgres import PostgresStore
from awaken.stores.sqlite import SqliteStore

NewStore = Callable[[], Store]

each_store = pytest.mark.parametrize("new_store", ["memory", "sqlite", "postgres"], indirect=True)


@pytest.fixture
def new_store(request: pytest.FixtureRequest, tmp_path: Path) -> NewStore:
    """Opens the store of one scenario."""
    match request.param:
        case "memory":
            memory = MemoryStore()
            return lambda: memory
        case "sqlite":
            return lambda: SqliteStore(tmp_path / "store.db")
        case _:
            schema = new_schema()
            return lambda: PostgresStore(server().url, schema=schema)
