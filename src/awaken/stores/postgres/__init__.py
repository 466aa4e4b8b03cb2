"""The store for many machines: any number of processes on one Postgres database."""

try:
    import asyncpg as _driver
except ModuleNotFoundError as error:
    _MESSAGE = "The Postgres store needs its driver: pip install 'awaken[postgres]'"
    raise ModuleNotFoundError(_MESSAGE, name="asyncpg") from error

from .database import PostgresDatabase
from .store import PostgresStore

__all__ = ["PostgresDatabase", "PostgresStore"]

del _driver
