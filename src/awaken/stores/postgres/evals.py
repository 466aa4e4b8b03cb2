"""Datasets, evals and scores in Postgres."""

from awaken.stores.sql.evals import SqlEvalStore, read_eval_statements

from .database import PostgresDatabase
from .texts import STATEMENTS

STATEMENTS.update(read_eval_statements())


def open_evals(database: PostgresDatabase) -> SqlEvalStore:
    """Return the store of evals in a database."""
    return SqlEvalStore(database)
