"""The stores that extensions are tried on."""

from pathlib import Path

import pytest
from tests.postgres.server import new_schema, server

from awaken.stores import PostgresStore, SqliteStore

from .enduring import NewStore


@pytest.fixture
def new_store(request: pytest.FixtureRequest, tmp_path: Path) -> NewStore:
    """Opens the same store as often as it is called, as one process after another would."""
    if request.param == "sqlite":
        return lambda: SqliteStore(tmp_path / "awaken.db")
    schema = new_schema()
    return lambda: PostgresStore(server().url, schema=schema)
