"""Loads `sqlite-vec` into a connection, where Python and the installation allow it."""

import importlib
import sqlite3

MAPPED_BYTES = 1 << 28
NO_LOADING = (
    "this Python's sqlite3 cannot load extensions; search is lexical (use a Python built with "
    "--enable-loadable-sqlite-extensions, such as that of Debian)"
)
NOT_INSTALLED = "sqlite-vec is not installed; search is lexical (pip install 'awaken[vectors]')"


def load_vectors(connection: sqlite3.Connection) -> str:
    """Make the functions of vectors known to a connection; returns why not, else nothing."""
    try:
        connection.execute("SELECT vec_version()").fetchone()
    except sqlite3.OperationalError:
        return _load(connection)
    return ""


def _load(connection: sqlite3.Connection) -> str:
    if not hasattr(connection, "enable_load_extension"):
        return NO_LOADING
    try:
        vectors = importlib.import_module("sqlite_vec")
    except ModuleNotFoundError:
        return NOT_INSTALLED
    try:
        connection.enable_load_extension(True)  # noqa: FBT003
        try:
            vectors.load(connection)
        finally:
            connection.enable_load_extension(False)  # noqa: FBT003
        # A search compares every vector of a partition: mapped pages are read four times as fast.
        connection.execute(f"PRAGMA mmap_size = {MAPPED_BYTES}")
    except sqlite3.OperationalError as error:
        return f"sqlite-vec cannot be loaded ({error}); search is lexical"
    return ""
