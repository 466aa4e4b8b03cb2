"""Every kind of store that a scenario is played on: in memory, in a file, at a Postgres server."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.postgres.server import new_schema, server

from awaken.contracts.storage import Store
from awaken.stores.memory import MemoryStore
from awaken.stores.postgres import PostgresStore
from awaken.stores.sqlite import SqliteStore

StoreIn = Callable[[Path], Store]


def in_memory(_: Path) -> Store:
    return MemoryStore()


def in_file(folder: Path) -> Store:
    return SqliteStore(folder / "awaken.db")


def in_postgres(_: Path) -> Store:
    return PostgresStore(server().url, schema=new_schema())


_STORES: list[StoreIn] = [in_memory, in_file, in_postgres]
on_each_store = pytest.mark.parametrize("store_in", _STORES, ids=["memory", "sqlite", "postgres"])
"""The test takes `store_in`, and calls it with its folder for a new store that is not open yet."""
