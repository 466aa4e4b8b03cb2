"""The log over HTTP: in pages, and as streams that are taken up where they were left."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from awaken import Agent, AgentRuntime
from awaken.stores import Purged
from awaken.testing import ScriptedModel

from .native_client import Client, asking, native, talking
from .serving import frames_of

Scenario = Callable[[Client], Awaitable[None]]


def served(scenario: Scenario, runtime: Any = talking) -> None:
    async def main() -> None:
        async with asyncio.timeout(30), native(runtime()) as client:
            await scenario(client)

    asyncio.run(main())


async def all_pages(client: Client, path: str, limit: int) -> list[Any]:
    found: list[Any] = []
    cursor = ""
    while True:
        page = await client.get(f"{path}?limit={limit}{cursor}")
        found += page["items"]
        assert page["next_cursor"] == str(found[-1]["seq"])
        if not page["has_more"]:
            return found
        assert len(page["items"]) == limit
        cursor = f"&cursor={page['next_cursor']}"


def test_pages_of_a_log_together_are_the_log() -> None:
    async def scenario(client: Client) -> None:
        first = await client.run("t")
        second = await client.run("t")
        ends = [frames[-1].id for frames in (first, second)]
        events = await all_pages(client, "/v1/threads/t/events", 3)
        assert [event["seq"] for event in events] == list(range(1, ends[1] + 1))
        assert {event["run_id"] for event in events} == {
            first[0].data["run_id"],
            second[0].data["run_id"],
        }
        assert all(event["created_at"] > 0 for event in events)
        for frames, places in ((first, (1, ends[0])), (second, (ends[0] + 1, ends[1]))):
            run_id = frames[0].data["run_id"]
            own = await all_pages(client, f"/v1/runs/{run_id}/events", 2)
            assert [event["seq"] for event in own] == list(range(places[0], places[1] + 1))
            assert own == [event for event in events if event["run_id"] == run_id]
        last = await client.get(f"/v1/threads/t/events?cursor={ends[1]}")
        assert last == {"items": [], "next_cursor": str(ends[1]), "has_more": False}
        exact = await client.get(f"/v1/threads/t/events?limit={ends[1]}")
        assert (exact["items"], exact["has_more"]) == (events, False)
        whole = await client.get("/v1/threads/t/events?limit=200")
        assert (whole["items"], whole["has_more"]) == (events, False)

    served(scenario)


def test_a_run_that_is_only_queued_has_no_events_yet() -> None:
    async def scenario(client: Client) -> None:
        _, told = await client.ask("POST /v1/threads/t/mailbox", {"payload": "x"})
        page = await client.get(f"/v1/runs/{told['run_id']}/events")
        assert page == {"items": [], "next_cursor": "0", "has_more": False}
        assert (await client.get(f"/v1/runs/{told['run_id']}"))["status"] == "created"
        assert (await client.get(f"/v1/runs/{told['run_id']}/tickets"))["items"] == []

    def runtime() -> AgentRuntime:
        agent = Agent("default", model=ScriptedModel(["Hello."]))
        return AgentRuntime([agent], has_worker=False)

    served(scenario, runtime)


def test_a_run_is_followed_from_its_start_or_from_a_cursor() -> None:
    async def scenario(client: Client) -> None:
        await client.run("t")
        frames = await client.run("t")
        path = f"/v1/runs/{frames[0].data['run_id']}/events/stream"
        whole = await client.stream(path)
        assert whole[0].data["event_type"] == "run_start"
        assert whole[-1].data["event_type"] == "run_finish"
        for cut, frame in enumerate(whole):
            rest = whole[cut + 1 :]
            assert await client.stream(f"{path}?cursor={frame.id}") == rest
            assert await client.stream(path, **{"Last-Event-ID": str(frame.id)}) == rest
            # The query beats the header.
            assert (
                await client.stream(f"{path}?cursor={frame.id}", **{"Last-Event-ID": "1"}) == rest
            )

    served(scenario)


def test_a_run_that_waits_ends_its_stream_and_the_next_one_goes_on() -> None:
    async def scenario(client: Client) -> None:
        first = await client.run("t")
        run_id, place = first[0].data["run_id"], first[-1].id
        body = {"toolCallId": "call_1", "action": "resume", "payload": 1}
        assert (await client.ask("POST /v1/threads/t/decision", body))[0] == 202
        await client.settled(run_id)
        rest = await client.stream(f"/v1/runs/{run_id}/events/stream?cursor={place}")
        assert [frame.id for frame in rest] == list(range(place + 1, rest[-1].id + 1))
        assert rest[0].data["event_type"] == "run_start"
        assert rest[-1].data["termination"]["type"] == "natural_end"
        page = await client.get(f"/v1/runs/{run_id}/events?limit=200")
        assert [event["seq"] for event in page["items"]] == list(range(1, rest[-1].id + 1))

    served(scenario, asking)


@pytest.mark.parametrize("begin", ["now", "cursor", "header"])
def test_a_thread_is_followed_over_its_runs(begin: str) -> None:
    async def scenario(client: Client) -> None:
        before = await client.run("t")
        place = before[-1].id
        query = "?cursor=2" if begin == "cursor" else ""
        headers = {"Last-Event-ID": "2"} if begin == "header" else {}
        url = f"{client.url}/v1/threads/t/events/stream{query}"
        async with client.session.get(url, headers=headers) as reply:
            assert reply.status == 200
            assert reply.headers["content-type"].startswith("text/event-stream")
            after = await client.run("t")
            text = ""
            while f"id: {after[-1].id}\n" not in text:
                text += (await reply.content.readany()).decode()
        ids = [frame.id for frame in frames_of(text) if frame.id is not None]
        first = place + 1 if begin == "now" else 3
        assert ids[-1] == after[-1].id
        assert ids[0] == first
        assert ids == sorted(set(ids))

    served(scenario)


def test_places_that_are_not_in_the_log_are_refused() -> None:
    async def scenario(client: Client) -> None:
        frames = await client.run("t")
        run_id, end = frames[0].data["run_id"], frames[-1].id
        for path in ("/v1/threads/t/events", f"/v1/runs/{run_id}/events"):
            for query in (f"cursor={end + 1}", "cursor=-1", "cursor=x", f"cursor={10**30}"):
                assert (await client.refused(f"GET {path}?{query}"))[0] == 400, query
                assert (await client.refused(f"GET {path}/stream?{query}"))[0] == 400, query
            for limit in (0, 201, "many"):
                assert (await client.refused(f"GET {path}?limit={limit}"))[0] == 400
            for place in ("x", "-1", str(end + 1), "9" * 30, "1.5"):
                status, told = await client.ask(
                    f"GET {path}/stream", headers={"Last-Event-ID": place}
                )
                assert (status, told["code"]) == (400, "cursor_invalid"), place
        for path in ("threads", "runs"):
            for tail in ("events", "events/stream"):
                assert (await client.refused(f"GET /v1/{path}/nobody/{tail}"))[0] == 404

    served(scenario)


def test_a_place_that_was_purged_is_gone() -> None:
    async def scenario(client: Client) -> None:
        first = await client.run("t")
        second = await client.run("t")
        store = client.runtime.store
        purged = await store.purge(second[-1].data.get("created_at", 2**52))
        assert purged != Purged()
        for path in ("/v1/threads/t/events", "/v1/threads/t/events/stream"):
            status, told = await client.ask(f"GET {path}?cursor=1")
            assert (status, told["code"]) == (410, "cursor_expired"), told
        assert first[-1].id is not None

    served(scenario)
