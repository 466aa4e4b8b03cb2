"""A process that is killed at a statement of its ingest: `document_process.py PDF MOMENT STORE …`.

The store is a file of SQLite, or the URL of Postgres and a schema.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from awaken import AgentRuntime
from awaken.extensions.memory import DocumentDraft, DocumentFormat, knowledge_collection
from awaken.stores import PostgresStore, SqliteStore, Store
from awaken.stores.postgres.session import PostgresSession
from awaken.stores.sqlite.connection import SqliteSession

DOCS = knowledge_collection(None, "docs")


def die_at(moment: int) -> None:
    """Have this process killed instead of its so-manieth statement about memory."""
    done = 0

    def wrap(method: Any) -> Any:
        async def count(self: Any, statement: str, *arguments: Any) -> Any:
            nonlocal done
            done += statement.startswith("memory_")
            if done == moment:
                os.kill(os.getpid(), signal.SIGKILL)
            return await method(self, statement, *arguments)

        return count

    for session in (SqliteSession, PostgresSession):
        for name in ("run", "run_many", "one", "all"):
            setattr(session, name, wrap(getattr(session, name)))


def make_store(place: str, schema: str | None = None) -> Store:
    return SqliteStore(place) if schema is None else PostgresStore(place, schema=schema)


async def _ingest(pdf: str, moment: int, *place: str) -> None:
    async with AgentRuntime(store=make_store(*place), has_worker=False) as runtime:
        data = await asyncio.to_thread(Path(pdf).read_bytes)
        die_at(moment)
        draft = DocumentDraft(data=data, format=DocumentFormat.PDF, source="a.pdf")
        await runtime.knowledge.ingest(DOCS, draft)


if __name__ == "__main__":
    asyncio.run(_ingest(sys.argv[1], int(sys.argv[2]), *sys.argv[3:]))
