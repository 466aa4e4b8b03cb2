"""Threads are found by text and by their fork, among those that changed last."""

import pytest

from awaken.services import thread_search

from .managed_world import World, world


async def _make(at: World, title: str, **fields: object) -> str:
    made = await at.do("POST /v1/threads", {"title": title, **fields}, 201)
    return str(made["id"])


def test_a_text_is_found_in_title_id_owner_and_custom_fields() -> None:
    async def scenario(at: World) -> None:
        by_title = await _make(at, "Invoice of MAY")
        by_owner = await _make(at, "x", resource_id="invoice-desk")
        by_field = await _make(at, "y", custom={"topic": "an invoice"})
        await _make(at, "something else")
        found = await at.get("/v1/threads/search?q=%20invoice")
        assert {it["id"] for it in found["items"]} == {by_title, by_owner, by_field}
        assert (found["looked_at"], found["is_complete"]) == (4, True)
        by_id = await at.get(f"/v1/threads/search?q={by_title[:20]}")
        assert by_title in [it["id"] for it in by_id["items"]]
        few = await at.get("/v1/threads/search?q=invoice&limit=2")
        assert (len(few["items"]), few["is_complete"]) == (2, False)
        assert (await at.get("/v1/threads/search?q=invoice", who="tenant"))["items"] == []
        assert (await at.ask("GET /v1/threads/search")).status == 400

    world(scenario)


def test_forks_of_a_thread_are_found() -> None:
    async def scenario(at: World) -> None:
        await at.run("helper", "origin")
        await at.run("helper", "other")
        forks = {(await at.do("POST /v1/threads/origin/fork", {}, 201))["id"] for _ in range(2)}
        await at.do("POST /v1/threads/other/fork", {}, 201)
        found = await at.get("/v1/threads/search?forked_from=origin")
        assert {it["id"] for it in found["items"]} == forks
        assert found["is_complete"] is True

    world(scenario)


def test_a_search_says_when_it_has_not_looked_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_search, "LOOKED_AT_MAX", 2)
    monkeypatch.setattr(thread_search, "LIMIT_MAX", 2)

    async def scenario(at: World) -> None:
        for index in range(3):
            await _make(at, f"note {index}")
        found = await at.get("/v1/threads/search?q=note")
        assert (len(found["items"]), found["looked_at"], found["is_complete"]) == (2, 2, False)

    world(scenario)
