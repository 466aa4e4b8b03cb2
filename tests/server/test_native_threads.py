"""Threads over HTTP: made, listed page by page, changed field by field, and deleted."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from awaken import RunRequest, user
from awaken.messages import Visibility

from .native_client import Client, asking, native, talking

Scenario = Callable[[Client], Awaitable[None]]


def served(scenario: Scenario, runtime: Any = talking) -> None:
    async def main() -> None:
        async with asyncio.timeout(30), native(runtime()) as client:
            await scenario(client)

    asyncio.run(main())


async def made(client: Client, **fields: Any) -> str:
    status, thread = await client.ask("POST /v1/threads", fields)
    assert status == 201, thread
    return str(thread["id"])


@pytest.mark.parametrize("spelling", ["snake", "camel"])
def test_a_thread_is_made_and_shown_as_it_was_made(spelling: str) -> None:
    async def scenario(client: Client) -> None:
        parent = await made(client, title="top")
        names = ("resource_id", "parent_thread_id")
        if spelling == "camel":
            names = ("resourceId", "parentThreadId")
        fields = dict(zip(names, (" ann ", parent), strict=True))
        status, thread = await client.ask(
            "POST /v1/threads", {"title": "one", "custom": {"n": 1}, **fields}
        )
        assert status == 201
        times = {name: thread["metadata"].pop(name) for name in ("created_at", "updated_at")}
        assert times["created_at"] == times["updated_at"] > 1_600_000_000_000
        assert thread == {
            "id": thread["id"],
            "resource_id": "ann",
            "parent_thread_id": parent,
            "metadata": {"title": "one", "custom": {"n": 1}},
        }
        shown = await client.get(f"/v1/threads/{thread['id']}")
        assert shown["metadata"] == {**thread["metadata"], **times}
        assert await client.refused("GET /v1/threads/nobody") == (404, "thread not found: nobody")

    served(scenario)


def test_threads_are_listed_page_by_page_and_by_their_owner() -> None:
    async def scenario(client: Client) -> None:
        ids = [await made(client, resource_id="ann") for _ in range(5)]
        others = [await made(client, resource_id="bob", parent_thread_id=ids[0])]
        seen: list[str] = []
        page = await client.get("/v1/threads?resource_id=ann&limit=2")
        while True:
            assert len(page["items"]) == min(2, 5 - len(seen))
            seen += page["items"]
            assert page["has_more"] is (page["next_cursor"] is not None)
            if not page["has_more"]:
                break
            # A cursor beats an offset.
            cursor = page["next_cursor"]
            path = f"/v1/threads?resourceId=ann&limit=2&offset=4&cursor={cursor}"
            page = await client.get(path)
        assert sorted(seen) == sorted(ids)
        rest = await client.get("/v1/threads?resource_id=ann&limit=2&offset=4")
        assert (rest["items"], rest["has_more"], rest["next_cursor"]) == (seen[4:], False, None)
        children = await client.get(f"/v1/threads?parentThreadId={ids[0]}")
        assert children["items"] == others
        roots = await client.get("/v1/threads?root=true")
        assert sorted(roots["items"]) == sorted(ids)
        clamped = await client.get("/v1/threads?limit=100000&offset=-3&total=true")
        assert (len(clamped["items"]), clamped["total"]) == (6, 6)

    served(scenario)


def test_what_cannot_be_listed_is_refused() -> None:
    async def scenario(client: Client) -> None:
        problem = "root=true cannot be combined with parentThreadId"
        refused = await client.refused("GET /v1/threads?root=true&parentThreadId=x")
        assert refused == (400, problem)
        first, second = await made(client, resource_id="ann"), await made(client)
        assert first != second
        page = await client.get("/v1/threads?limit=1")
        status, told = await client.refused(
            f"GET /v1/threads?limit=1&resource_id=ann&cursor={page['next_cursor']}"
        )
        assert (status, "other filters" in told) == (400, True)
        status, told = await client.refused("GET /v1/threads?cursor=nonsense")
        assert (status, "malformed" in told) == (400, True)
        assert (await client.refused("GET /v1/threads?limit=many"))[0] == 400
        status, told = await client.refused("GET /v1/threads?resource_id=a&resourceId=b")
        assert (status, "the same" in told) == (400, True)

    served(scenario)


def test_summaries_say_who_spoke_last() -> None:
    async def scenario(client: Client) -> None:
        await made(client, title="quiet")
        await client.run("loud")
        page = await client.get("/v1/threads/summaries?total=true")
        found = {item["title"]: item for item in page["items"]}
        assert found["quiet"]["agent_id"] is None
        loud = found[None]
        assert (loud["id"], loud["agent_id"], loud["resource_id"]) == ("loud", "a", None)
        assert loud["updated_at"] > 0
        assert (page["total"], page["has_more"], page["next_cursor"]) == (2, False, None)

    served(scenario)


@pytest.mark.parametrize("path", ["", "/metadata"])
def test_an_edit_changes_what_it_names_clears_what_is_null_and_keeps_the_rest(path: str) -> None:
    async def scenario(client: Client) -> None:
        parent = await made(client)
        thread_id = await made(
            client, title="one", resource_id="ann", parent_thread_id=parent, custom={"a": 1, "b": 2}
        )

        async def edit(body: dict[str, Any]) -> Any:
            status, thread = await client.ask(f"PATCH /v1/threads/{thread_id}{path}", body)
            assert status == 200, thread
            return thread

        thread = await edit({"custom": {"b": 3, "c": None}})
        assert thread["metadata"]["custom"] == {"a": 1, "b": 3, "c": None}
        kept = (thread["metadata"]["title"], thread["resource_id"], thread["parent_thread_id"])
        assert kept == ("one", "ann", parent)
        thread = await edit({"title": None, "resourceId": None, "parentThreadId": None})
        assert not {"resource_id", "parent_thread_id"} & set(thread)
        assert "title" not in thread["metadata"]
        assert thread["metadata"]["custom"] == {"a": 1, "b": 3, "c": None}
        assert (await client.refused(f"PATCH /v1/threads/nobody{path}", {"title": "x"}))[0] == 404
        refused = await client.refused(f"PATCH /v1/threads/{thread_id}", {"parentThreadId": "no"})
        assert refused == (400, "parent thread not found: no")
        status, _ = await client.refused(
            f"PATCH /v1/threads/{thread_id}", {"parentThreadId": thread_id}
        )
        assert status == 400
        assert (await client.refused(f"PATCH /v1/threads/{thread_id}", {"title": 5}))[0] == 422

    served(scenario)


def test_the_thread_of_a_run_below_another_one_stays_where_it_is() -> None:
    async def scenario(client: Client) -> None:
        parent, other = await made(client), await made(client)
        request = RunRequest(
            agent_id="a",
            thread_id="below",
            run_id_hint="below",
            messages=(user("hi"),),
            parent_run_id="above",
            parent_thread_id=parent,
        )
        await (await client.runtime.start(request)).result()
        for moved in (None, other):
            status, problem = await client.refused(
                "PATCH /v1/threads/below", {"parentThreadId": moved}
            )
            assert (status, "belongs to run 'above'" in problem) == (400, True)
        status, thread = await client.ask(
            "PATCH /v1/threads/below", {"title": "one", "parentThreadId": parent}
        )
        assert (status, thread["parent_thread_id"]) == (200, parent)

    served(scenario)


def test_a_document_that_is_nested_too_deeply_is_refused_and_numbers_keep_their_digits() -> None:
    async def scenario(client: Client) -> None:
        deep: Any = 1
        for _ in range(98):
            deep = [deep]
        body = {"custom": {"deep": deep, "more": []}}
        status, thread = await client.ask("POST /v1/threads", body)
        assert (status, thread["metadata"]["custom"]["deep"]) == (201, deep)
        status, told = await client.refused("POST /v1/threads", {"custom": {"deep": [deep]}})
        assert (status, "nested more than 100 deep" in told) == (400, True)
        _, thread = await client.ask("POST /v1/threads", {"custom": {"n": 10**40}})
        assert thread["metadata"]["custom"] == {"n": 10**40}
        broad = await client.ask("POST /v1/threads", {"custom": {"wide": [[]] * 500}})
        assert broad[0] == 201

    served(scenario)


def test_a_deleted_thread_is_gone_and_its_children_are_treated_as_asked() -> None:
    async def scenario(client: Client) -> None:
        async def family() -> tuple[str, str]:
            parent = await made(client)
            return parent, await made(client, parent_thread_id=parent)

        parent, child = await family()
        problem = f"thread '{parent}' has child threads; choose 'detach' or 'cascade'"
        refused = await client.refused(f"DELETE /v1/threads/{parent}?child_strategy=reject")
        assert refused == (400, problem)
        assert (await client.refused(f"DELETE /v1/threads/{parent}?childStrategy=eat"))[0] == 400
        assert await client.ask(f"DELETE /v1/threads/{parent}") == (204, None)
        assert (await client.refused(f"GET /v1/threads/{parent}"))[0] == 404
        assert "parent_thread_id" not in await client.get(f"/v1/threads/{child}")
        parent, child = await family()
        assert (await client.ask(f"DELETE /v1/threads/{parent}?childStrategy=cascade"))[0] == 204
        assert (await client.refused(f"GET /v1/threads/{child}"))[0] == 404
        assert (await client.refused(f"DELETE /v1/threads/{parent}"))[0] == 404
        assert (await client.ask(f"DELETE /v1/threads/{await made(client)}?child_strategy=reject"))[
            0
        ] == 204

    served(scenario)


def test_messages_are_listed_in_either_order_and_without_what_is_internal() -> None:
    async def scenario(client: Client) -> None:
        hidden = user("hidden", visibility=Visibility.INTERNAL)
        request = RunRequest(agent_id="a", thread_id="t", messages=(user("one"), hidden))
        first = await client.runtime.start(request)
        await first.result()
        await client.run("t", "two")

        def texts(page: Any) -> list[str]:
            return [record["message"]["content"][0]["text"] for record in page["items"]]

        path = "/v1/threads/t/messages"
        page = await client.get(f"{path}?total=true")
        assert texts(page) == ["one", "Hello.", "two", "Hello."]
        assert (page["total"], page["has_more"], page["next_cursor"]) == (4, False, None)
        assert page["items"][0]["produced_by_run_id"] == first.run_id
        assert texts(await client.get(f"{path}?visibility=internal")) == ["hidden"]
        everything = await client.get(f"{path}?visibility=all&order=desc")
        assert texts(everything) == ["Hello.", "two", "Hello.", "hidden", "one"]
        assert [record["seq"] for record in everything["items"]] == [5, 4, 3, 2, 1]
        between = await client.get(f"{path}?after=1&before=4")
        assert texts(between) == ["Hello."]
        assert texts(await client.get(f"{path}?runId={first.run_id}")) == ["one", "Hello."]
        page = await client.get(f"{path}?limit=3")
        assert (page["has_more"], "total" in page) == (True, False)
        assert texts(await client.get(f"{path}?limit=3&cursor={page['next_cursor']}")) == ["Hello."]
        refused = await client.refused(f"GET {path}?order=up")
        assert refused == (400, "order must be asc or desc")
        assert (await client.refused(f"GET {path}?visibility=none"))[0] == 400
        refused = await client.refused("GET /v1/threads/nobody/messages")
        assert refused == (404, "thread not found: nobody")

    served(scenario)


def test_the_runs_of_a_thread_are_found() -> None:
    async def scenario(client: Client) -> None:
        thread_id = await made(client)
        assert await client.get(f"/v1/threads/{thread_id}/runs/active") == {"active_run": None}
        assert (await client.refused(f"GET /v1/threads/{thread_id}/runs/latest"))[0] == 404
        await client.run(thread_id)
        active = (await client.get(f"/v1/threads/{thread_id}/runs/active"))["active_run"]
        assert (active["status"], active["thread_id"]) == ("waiting", thread_id)
        assert active["waiting"]["ticket_ids"]
        assert await client.get(f"/v1/threads/{thread_id}/runs/latest") == active
        page = await client.get(f"/v1/threads/{thread_id}/runs?status=waiting")
        assert page == {"items": [active], "has_more": False, "next_cursor": None}
        assert (await client.get(f"/v1/threads/{thread_id}/runs?status=done"))["items"] == []
        refused = await client.refused(f"GET /v1/threads/{thread_id}/runs?status=odd")
        assert refused == (400, "invalid status filter: odd")
        for path in ("runs", "runs/active", "runs/latest"):
            refused = await client.refused(f"GET /v1/threads/nobody/{path}")
            assert refused == (404, "thread not found: nobody")

    served(scenario, asking)


def test_a_thread_is_forked_where_a_run_began() -> None:
    async def scenario(client: Client) -> None:
        await client.run("t", "one")
        second = str((await client.run("t", "two"))[0].data["run_id"])
        await client.run("t", "three")
        said = (await client.get("/v1/threads/t/messages"))["items"]
        status, made = await client.ask(f"POST /v1/runs/{second}/fork")
        assert (status, made["agent_id"]) == (201, "a")
        branch = made["thread"]
        assert branch["forked_from"] == {"thread_id": "t", "message_id": said[1]["message_id"]}
        (sent,) = made["messages"]
        assert (sent["role"], sent["content"][0]["text"]) == ("user", "two")
        copied = (await client.get(f"/v1/threads/{branch['id']}/messages"))["items"]
        assert [it["message_id"] for it in copied] == [it["message_id"] for it in said[:2]]
        await client.run(branch["id"], "two, in other words")
        assert len((await client.get(f"/v1/threads/{branch['id']}/messages"))["items"]) == 4
        assert (await client.get("/v1/threads/t/messages"))["items"] == said
        assert (await client.refused("POST /v1/runs/nothing/fork"))[0] == 404

    served(scenario)


def test_a_run_that_waits_is_forked_without_its_question() -> None:
    async def scenario(client: Client) -> None:
        run_id = str((await client.run("t", "one"))[0].data["run_id"])
        status, made = await client.ask(f"POST /v1/runs/{run_id}/fork")
        assert (status, made["thread"]["forked_from"]) == (201, {"thread_id": "t"})
        branch = made["thread"]["id"]
        assert (await client.get(f"/v1/threads/{branch}/messages"))["items"] == []
        assert (await client.get(f"/v1/threads/{branch}/tickets"))["items"] == []
        assert len((await client.get("/v1/tickets"))["items"]) == 1

    served(scenario, asking)


def test_a_thread_is_forked_at_a_message() -> None:
    async def scenario(client: Client) -> None:
        await client.run("t", "one")
        await client.run("t", "two")
        said = (await client.get("/v1/threads/t/messages"))["items"]
        status, branch = await client.ask("POST /v1/threads/t/fork", {"at": said[1]["message_id"]})
        assert status == 201
        assert branch["forked_from"] == {"thread_id": "t", "message_id": said[1]["message_id"]}
        await client.run(branch["id"], "other")
        copied = (await client.get(f"/v1/threads/{branch['id']}/messages"))["items"]
        assert [it["message"]["id"] for it in copied[:2]] == [it["message_id"] for it in said[:2]]
        assert len(copied) == 4
        assert len((await client.get("/v1/threads/t/messages"))["items"]) == 4
        status, _ = await client.refused("POST /v1/threads/t/fork", {"at": "nothing"})
        assert status == 404
        status, _ = await client.refused("POST /v1/threads/nowhere/fork", {})
        assert status == 404
        status, _ = await client.refused("POST /v1/threads/t/fork", {"at": "a", "before": "b"})
        assert status == 400

    served(scenario)
