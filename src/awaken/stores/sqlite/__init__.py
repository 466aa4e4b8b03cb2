"""The embedded store: one SQLite file, safe for several processes, durable against power loss."""

from .database import SqliteDatabase
from .store import SqliteStore

__all__ = ["SqliteDatabase", "SqliteStore"]
