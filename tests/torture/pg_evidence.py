"""A Postgres store as its rows show it, for the checker."""

from tests.postgres.server import server

from awaken.contracts.storage.store import CommitReceipt
from awaken.stores.postgres import PostgresStore

from .store_file import COMMIT_NAME, PLACES
from .views import Rows


class PgEvidence:
    """The `Evidence` over a schema of the test server; the server must be up."""

    def __init__(self, store: PostgresStore, schema: str) -> None:
        self.store = store
        self._schema = schema

    async def rows(self, thread_id: str) -> Rows:
        """The rows of a thread that exists."""
        (head,) = await server().sql(
            "SELECT no, event_seq, purged_seq, claim_token, claim_dispatch, queued"
            f" FROM {self._schema}.threads WHERE id = $1",
            thread_id,
        )
        places = (head["no"] * PLACES, (head["no"] + 1) * PLACES - 1)
        commits = await server().sql(
            f"SELECT place, {COMMIT_NAME} AS commit_id, message_count, event_seq"
            f" FROM {self._schema}.commits"
            " WHERE place BETWEEN $1 AND $2 ORDER BY place",
            *places,
        )
        messages = await server().sql(
            f"SELECT place FROM {self._schema}.messages"
            " WHERE place BETWEEN $1 AND $2 ORDER BY place",
            *places,
        )
        return Rows(
            receipts=tuple(
                CommitReceipt(
                    version=row["place"] % PLACES,
                    commit_id=row["commit_id"],
                    message_count=row["message_count"],
                    event_seq=row["event_seq"],
                )
                for row in commits
            ),
            event_seq=head["event_seq"],
            purged_seq=head["purged_seq"],
            message_numbers=tuple(row["place"] % PLACES for row in messages),
            claim_token=head["claim_token"],
            claim_dispatch=head["claim_dispatch"],
            queued=head["queued"],
        )
