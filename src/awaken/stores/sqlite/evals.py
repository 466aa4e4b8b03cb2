"""Datasets, evals and scores in a SQLite file."""

from awaken.stores.sql.evals import SqlEvalStore, read_eval_statements

from .connection import STATEMENTS
from .database import SqliteDatabase

STATEMENTS.update({name: text.replace("$", "?") for name, text in read_eval_statements().items()})


def open_evals(database: SqliteDatabase) -> SqlEvalStore:
    """Return the store of evals in a database."""
    return SqlEvalStore(database)
