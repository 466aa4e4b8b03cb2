"""Commits as tests make them, and a process that only writes."""

import asyncio
import sys

from awaken.contracts.errors import VersionConflict
from awaken.contracts.storage.store import Commit, Store
from awaken.stores.postgres import PostgresStore
from awaken.testing.store_conformance.writing import build_user_message

THREAD = "thread-1"


def commit_at(version: int, commit_id: str, thread_id: str = THREAD, **parts: object) -> Commit:
    known = {
        "commit_id": commit_id,
        "thread_id": thread_id,
        "expected_version": version,
        "committed_at": 1,
        "messages": (build_user_message(commit_id),),
    }
    return Commit(**(known | parts))


async def append(store: Store, commit_id: str, thread_id: str = THREAD) -> None:
    """Add one message, trying again after each conflict."""
    while True:
        thread = await store.load_thread(thread_id)
        version = 0 if thread is None else thread.version
        try:
            await store.commit(commit_at(version, commit_id, thread_id))
            return
        except VersionConflict:
            continue


async def append_many(store: Store, name: str, writers: int, messages: int) -> None:
    async def write(writer: int) -> None:
        for number in range(messages):
            await append(store, f"{name}:{writer}:{number}")

    await asyncio.gather(*map(write, range(writers)))


async def message_ids(store: Store, thread_id: str = THREAD) -> list[str]:
    seen = await store.checkout(thread_id)
    return [] if seen is None else [message.id or "" for message in seen.messages]


async def main(url: str, schema: str, name: str, writers: int, messages: int) -> None:
    store = PostgresStore(url, schema=schema)
    await store.open()
    await append_many(store, name, writers, messages)
    await store.close()


if __name__ == "__main__":
    url, schema, name, writers, messages = sys.argv[1:]
    asyncio.run(main(url, schema, name, int(writers), int(messages)))
