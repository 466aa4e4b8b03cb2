"""Two servers on one memory store at once: nothing is lost, doubled, or seen by another user."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.scenarios.each_store import postgres, sqlite
from tests.server.in_process import ask, bearer, config, token

from awaken import Access, AgentRuntime

FACTS = "/v1/memory/facts"
USERS = ("ann", "bob")
EACH = 6


@pytest.mark.parametrize("new_store", [sqlite, postgres])
def test_two_servers_keep_search_and_forget_at_once(
    new_store: Callable[[Path], Any], tmp_path: Path
) -> None:
    store = new_store(tmp_path)
    scopes = frozenset({Access.READ, Access.INVOKE, Access.DECIDE})
    callers = config(*(token(it, scopes, tenant_id="acme") for it in USERS))

    async def story() -> None:
        async with AgentRuntime(store=store()) as one, AgentRuntime(store=store()) as other:
            apps = [one.asgi(callers), other.asgi(callers)]

            async def send(at: int, who: str, method: str, path: str, body: Any = None) -> Any:
                return await ask(apps[at % 2], method, path, headers=bearer(who), body=body)

            async def keep(who: str, number: int) -> None:
                """Both servers are told the same fact: it is kept once."""
                text = {"text": f"secret tea {who} {number}"}
                made = [await send(at, who, "POST", FACTS, text) for at in (number, number + 1)]
                assert {it.status for it in made} <= {200, 201}, [it.body for it in made]
                assert len({it.json["id"] for it in made}) == 1

            async def look(who: str, at: int) -> set[str]:
                found = (await send(at, who, "GET", f"{FACTS}?query=secret&limit=100")).json
                texts = [it["text"] for it in found["items"]]
                assert all(who in it for it in texts)
                assert len(set(texts)) == len(texts)
                return set(texts)

            works = [keep(who, number) for who in USERS for number in range(EACH)]
            await asyncio.gather(*works, *(look(who, at) for who in USERS for at in range(4)))
            for who in USERS:
                said = {f"secret tea {who} {number}" for number in range(EACH)}
                assert await look(who, 0) == await look(who, 1) == said
            # One server forgets all of Ann while the other one searches; Bob's stay.
            forgotten, *_ = await asyncio.gather(
                send(0, "ann", "DELETE", FACTS), *(look(who, 1) for who in USERS * 2)
            )
            assert forgotten.status == 200, forgotten.body
            assert [await look("ann", at) for at in (0, 1)] == [set(), set()]
            assert len(await look("bob", 1)) == EACH

    asyncio.run(asyncio.wait_for(story(), 120))
