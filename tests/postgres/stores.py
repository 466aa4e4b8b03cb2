"""Postgres stores for tests, each in a schema of its own."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from awaken.stores.postgres import PostgresStore

from .server import new_schema, server


@asynccontextmanager
async def opened(**options: Any) -> AsyncIterator[PostgresStore]:
    """A store that is open and, unless a schema is named, empty."""
    options = {"schema": new_schema()} | options
    store = PostgresStore(options.pop("url", None) or server().url, **options)
    await store.open()
    try:
        yield store
    finally:
        await store.close()
