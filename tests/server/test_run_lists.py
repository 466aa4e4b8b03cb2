"""`GET /v1/runs` with its filters, newest first, page by page, for operators and tenants."""

import asyncio
import base64
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from awaken.contracts.lifecycle import Failed
from awaken.contracts.runs.records import RunKind
from awaken.contracts.runs.threads import Thread
from awaken.stores import MemoryStore, SqliteStore, Store
from awaken.testing.store_conformance.writing import DONE, WAITING, Writer, run

from .in_process import ask, bearer, config, token
from .native_client import talking

Get = Callable[..., Awaitable[Any]]
KINDS = (RunKind.CHAT, RunKind.PREVIEW, RunKind.CHAT, RunKind.DEMO)


async def write_runs(store: Store, prefix: str = "", count: int = 12) -> None:
    """Runs 0, 1, 2, … of one second each; the last one waits."""
    thread_id = f"{prefix}t"
    if prefix:
        await store.save_thread(Thread(id=thread_id, tenant_id=prefix.strip("@:")))
    known = await store.load_thread(thread_id)
    writer, ended_at = Writer(store, thread_id), await store.now_ms()
    writer.version = 0 if known is None else known.version
    for n in range(count):
        is_last = n == count - 1
        record = run(
            f"{prefix}run-{n:02}",
            WAITING if is_last else DONE,
            thread_id=thread_id,
            agent_id="ab"[n % 2],
            created_at=1000 * n,
            # Not so long ago that the sweeper removes it.
            finished_at=None if is_last else ended_at,
            publication=n // 4,
            purpose=KINDS[n % 4],
            termination=Failed(message="no") if n % 3 == 0 and not is_last else None,
        )
        await writer.commit(run=record)


def serve(store: Store, scenario: Callable[[Get], Awaitable[None]]) -> None:
    async def main() -> None:
        runtime = talking(store=store)
        tenants = [token(name, tenant_id=name) for name in ("ann", "bob")]
        app = runtime.asgi(config(token("all"), *tenants))

        async def get(query: str, name: str = "all") -> Any:
            found = await ask(app, "GET", f"/v1/runs{query}", headers=bearer(name))
            return found.json if found.status == 200 else (found.status, found.json["error"])

        async with asyncio.timeout(30), runtime:
            await scenario(get)

    asyncio.run(main())


def numbers(page: Any) -> list[int]:
    return [int(it["run_id"].removeprefix("run-")) for it in page["items"]]


@pytest.mark.parametrize("is_durable", [False, True])
def test_runs_are_filtered_by_everything_and_shown_newest_first(
    tmp_path: Path, *, is_durable: bool
) -> None:
    store: Store = SqliteStore(tmp_path / "store.db") if is_durable else MemoryStore()

    async def scenario(get: Get) -> None:
        await write_runs(store)
        for query, expected in (
            ("", [0, 2, 4, 6, 8, 10]),
            ("?order=desc", [10, 8, 6, 4, 2, 0]),
            ("?kind=any&order=desc&limit=3", [11, 10, 9]),
            ("?kind=preview", [1, 5, 9]),
            ("?kind=preview,%20demo&since=5000", [5, 7, 9, 11]),
            ("?agent_id=b", []),
            ("?agentId=b&kind=any&until=4000", [1, 3]),
            ("?kind=any&status=waiting", [11]),
            ("?kind=any&ended=error", [0, 3, 6, 9]),
            ("?ended=natural_end", [2, 4, 8, 10]),
            ("?publication=1", [4, 6]),
            ("?q=run-0&order=desc", [8, 6, 4, 2, 0]),
            ("?q=t&limit=1", [0]),
            ("?q=none", []),
            ("?offset=2&limit=2", [4, 6]),
        ):
            assert numbers(await get(query)) == expected, query
        page = await get("?order=desc&limit=4&total=true")
        assert (page["total"], page["has_more"]) == (6, True)
        rest = await get(f"?order=desc&limit=4&cursor={page['next_cursor']}")
        assert (numbers(rest), rest["has_more"], "total" in rest) == ([2, 0], False, False)

    serve(store, scenario)


def test_bad_filters_are_refused() -> None:
    async def scenario(get: Get) -> None:
        await write_runs(store)
        page = await get("?limit=2")
        for query in (
            "?order=up",
            "?kind=chats",
            "?ended=never",
            "?ended=suspended",
            "?since=x",
            "?since=-1",
            "?publication=one",
            "?cursor=x",
            f"?limit=2&order=desc&cursor={page['next_cursor']}",
            f"?limit=2&agent_id=a&cursor={page['next_cursor']}",
        ):
            assert (await get(query))[0] == 400, query

    store = MemoryStore()
    serve(store, scenario)


@pytest.mark.parametrize("is_durable", [False, True])
def test_a_tenant_pages_through_its_own_runs(tmp_path: Path, *, is_durable: bool) -> None:
    store: Store = SqliteStore(tmp_path / "store.db") if is_durable else MemoryStore()

    async def scenario(get: Get) -> None:
        for prefix in ("@ann:", "@bob:", ""):
            await write_runs(store, prefix)
        for order, expected in (("asc", [*range(12)]), ("desc", [*range(11, -1, -1)])):
            query, seen = f"?kind=any&limit=5&order={order}", list[int]()
            page = await get(query, "ann")
            while True:
                seen += numbers(page)
                assert {it["thread_id"] for it in page["items"]} == {"t"}
                cursor = page["next_cursor"]
                if cursor is None:
                    break
                assert b"@ann:" not in base64.urlsafe_b64decode(cursor + "===")
                page = await get(f"{query}&cursor={cursor}", "ann")
            assert seen == expected
        assert numbers(await get("?kind=any&q=run-1", "ann")) == [10, 11]
        assert numbers(await get("?kind=any&threadId=t&q=run-11", "bob")) == [11]
        assert len((await get("?kind=any&limit=200"))["items"]) == 36

    serve(store, scenario)
