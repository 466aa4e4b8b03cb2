"""A2A requests over both transports: what is served, and how everything else is refused."""

import asyncio

import pytest
from a2a.types.a2a_pb2 import CancelTaskRequest, GetExtendedAgentCardRequest, ListTasksRequest
from a2a.utils.errors import TaskNotCancelableError, TaskNotFoundError
from google.protobuf.json_format import MessageToDict

from awaken import Access, RedactedString
from awaken.messages import Audio, Document, Image, Text, Video
from awaken.outbound.guard import Outbound
from awaken.protocols.a2a.decode import message_violations, user_message
from awaken.protocols.a2a.wire import WireMessage
from awaken.server import ServerConfig, TokenSpec
from awaken.wire.a2a import Part

from .a2a_world import (
    BINDINGS,
    agents,
    held,
    official,
    official_sending,
    reason,
    sending,
    told,
    violations,
    world,
)


def test_the_card_names_both_transports_and_every_agent() -> None:
    async def scenario() -> None:
        async with world(agents(b=["x"], a=["x"])) as caller:
            async with caller.session.get(f"{caller.url}/.well-known/agent-card.json") as reply:
                card = await reply.json()
                assert "max-age" in reply.headers["cache-control"]
                assert reply.headers["etag"]
            bindings = [it["protocolBinding"] for it in card["supportedInterfaces"]]
            assert sorted(bindings) == ["HTTP+JSON", "JSONRPC"]
            assert {it["url"] for it in card["supportedInterfaces"]} == {f"{caller.url}/v1/a2a"}
            assert {it["protocolVersion"] for it in card["supportedInterfaces"]} == {"1.0"}
            assert sorted(it["id"] for it in card["skills"]) == ["a", "b"]
            assert card["capabilities"]["streaming"]
            assert card["capabilities"]["pushNotifications"]
            assert "securitySchemes" not in card
            _, own = await caller.rest("GET", "/a/.well-known/agent-card.json")
            assert (own["name"], own["description"]) == ("a", "It is a.")
            assert own["supportedInterfaces"][0]["url"] == f"{caller.url}/v1/a2a/a"
            status, _ = await caller.rest("GET", "/nobody/.well-known/agent-card.json")
            assert status == 404

    asyncio.run(scenario())


@pytest.mark.parametrize("binding", BINDINGS)
def test_the_official_client_sends_gets_lists_cancels_and_reads_the_extended_card(
    binding: str,
) -> None:
    async def scenario() -> None:
        gate = asyncio.Event()
        runtime = agents(a=["Hello.", held(gate, "never")])
        async with (
            world(runtime) as caller,
            official(caller.url, binding, streaming=False) as client,
            official(caller.url, binding, streaming=False, polling=True) as hasty,
        ):
            (answer,) = await told(client, official_sending("hi"))
            task = answer["task"]
            assert task["status"]["state"] == "TASK_STATE_COMPLETED"
            assert task["artifacts"][0]["parts"] == [{"text": "Hello."}]
            (begun,) = await told(hasty, official_sending("again"))
            second = begun["task"]["id"]
            listed = MessageToDict(await client.list_tasks(ListTasksRequest()))
            assert [it["id"] for it in listed["tasks"]] == [second, task["id"]]
            cancelled = await client.cancel_task(CancelTaskRequest(id=second))
            assert MessageToDict(cancelled)["status"]["state"] == "TASK_STATE_CANCELED"
            with pytest.raises(TaskNotCancelableError):
                await client.cancel_task(CancelTaskRequest(id=second))
            with pytest.raises(TaskNotFoundError):
                await client.cancel_task(CancelTaskRequest(id="unknown"))
            card = await client.get_extended_agent_card(GetExtendedAgentCardRequest())
            (skill,) = MessageToDict(card)["skills"]
            assert any(tag.startswith("model:") for tag in skill["tags"])

    asyncio.run(scenario())


def test_every_violation_is_told_at_once_and_nothing_begins() -> None:
    async def scenario() -> None:
        async with world(agents(a=["x"])) as caller:
            parts = [{"text": "a", "url": "https://example.com"}, {}, {"raw": "%%"}]
            parts += [{"url": "http://127.0.0.2/x"}, {"data": None}]
            body = {
                "tenant": "b",
                "message": {"role": "ROLE_AGENT", "messageId": " ", "parts": parts},
                "configuration": {
                    "acceptedOutputModes": ["image/png"],
                    "historyLength": -1,
                    "taskPushNotificationConfig": {
                        "url": "http://169.254.169.254/latest",
                        "authentication": {"credentials": "x"},
                    },
                },
            }
            expected = {
                "message.role",
                "message.messageId",
                "message.parts[0]",
                "message.parts[1]",
                "message.parts[2]",
                "message.parts[3]",
                "configuration.acceptedOutputModes",
                "configuration.historyLength",
                "configuration.taskPushNotificationConfig.url",
                "configuration.taskPushNotificationConfig.authentication.scheme",
            }
            status, refused = await caller.rest("POST", "/a/message:send", body)
            assert (status, refused["error"]["status"]) == (400, "INVALID_ARGUMENT")
            assert violations(refused).keys() == expected | {"tenant"}
            del body["tenant"]
            refused = await caller.rpc("SendMessage", body)
            assert refused["error"]["code"] == -32602
            assert violations(refused).keys() == expected
            _, listed = await caller.rest("GET", "/tasks")
            assert (listed["tasks"], listed["totalSize"]) == ([], 0)

    asyncio.run(scenario())


def test_what_is_missing_or_too_long_is_named() -> None:
    async def scenario() -> None:
        async with world(agents(a=["x"])) as caller:
            for body, field in (
                ({}, "message"),
                ({"message": {"role": "ROLE_USER", "messageId": "m"}}, "message.parts"),
                (sending("x", message_id="m" * 300), "message.messageId"),
                (sending("x", taskId="t" * 300), "message.taskId"),
                (sending("x", contextId="c" * 300), "message.contextId"),
            ):
                status, refused = await caller.rest("POST", "/message:send", body)
                assert status == 400
                assert field in violations(refused)

    asyncio.run(scenario())


def test_versions_and_content_types_are_checked_on_both_transports() -> None:
    async def scenario() -> None:
        async with world(agents(a=["x"])) as caller:
            for header in ("1.0", "1.0.3", ""):
                status, _ = await caller.rest("GET", "/tasks", headers={"A2A-Version": header})
                assert status == 200
            for options in ({"headers": {"A2A-Version": "0.3"}}, {"params": {"A2A-Version": "2"}}):
                status, body = await caller.rest("GET", "/tasks", **options)
                assert (status, body["error"]["status"]) == (400, "FAILED_PRECONDITION")
                assert reason(body) == "VERSION_NOT_SUPPORTED"
                answer = await caller.rpc("ListTasks", **options)
                assert (answer["id"], answer["error"]["code"]) == (7, -32009)
            for kind in ("text/plain", "application/ld+json"):
                headers = {"Content-Type": kind}
                status, body = await caller.rest(
                    "POST", "/message:send", sending("x"), headers=headers
                )
                assert (status, reason(body)) == (415, "CONTENT_TYPE_NOT_SUPPORTED")
                answer = await caller.rpc("ListTasks", headers=headers)
                assert answer["error"]["code"] == -32005
            headers = {"Content-Type": "application/a2a+json; charset=utf-8"}
            status, _ = await caller.rest("POST", "/message:send", sending("x"), headers=headers)
            assert status == 200

    asyncio.run(scenario())


CALLS = (
    (b"{", -32700),
    (b"[]", -32600),
    (b'{"jsonrpc":"1.0","id":1,"method":"ListTasks"}', -32600),
    (b'{"jsonrpc":"2.0","id":true,"method":"ListTasks"}', -32600),
    (b'{"jsonrpc":"2.0","id":1,"method":"message/send"}', -32601),
    (b'{"jsonrpc":"2.0","id":1,"method":["x"]}', -32601),
    (b'{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":5}}', -32602),
    (b'{"jsonrpc":"2.0","id":1,"method":"GetTask","params":[1]}', -32602),
    (b'{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"x"}}', -32001),
    (b'{"jsonrpc":"2.0","id":1,"method":"GetTask"}', -32001),
)


def test_malformed_calls_have_their_codes() -> None:
    async def scenario() -> None:
        async with world(agents(a=["x"])) as caller:
            headers = {"Content-Type": "application/json"}
            for data, code in CALLS:
                async with caller.session.post(
                    f"{caller.url}/v1/a2a", data=data, headers=headers
                ) as reply:
                    assert reply.status == 200
                    assert (await reply.json())["error"]["code"] == code, data

    asyncio.run(scenario())


def test_tasks_of_one_agent_are_unknown_to_the_others() -> None:
    async def scenario() -> None:
        async with world(agents(a=["from a", "more"], b=["from b"])) as caller:
            task = await caller.send("hi", "/b/message:send")
            assert task["artifacts"][0]["parts"] == [{"text": "from b"}]
            for path in (f"/a/tasks/{task['id']}", "/tasks/unknown", "/b/tasks/unknown"):
                status, body = await caller.rest("GET", path)
                assert (status, reason(body)) == (404, "TASK_NOT_FOUND")
            status, _ = await caller.rest("GET", f"/b/tasks/{task['id']}")
            assert status == 200
            _, listed = await caller.rest("GET", "/a/tasks")
            assert listed["tasks"] == []
            answer = await caller.rpc("GetTask", {"id": task["id"], "tenant": "a"})
            assert answer["error"]["code"] == -32001
            answer = await caller.rpc("GetTask", {"id": task["id"], "history_length": 0}, "/b/")
            assert "history" not in answer["result"]
            answer = await caller.rpc("GetTask", {"id": task["id"], "tenant": "a"}, "/b")
            assert violations(answer).keys() == {"tenant"}
            for path in ("/nobody/tasks", "/nobody/message:send"):
                method = "GET" if path.endswith("tasks") else "POST"
                body = sending("x") if method == "POST" else None
                status, _ = await caller.rest(method, path, body)
                assert status == 404
            # A context goes on with the agent that it began with.
            again = await caller.send("more", contextId=task["contextId"], message_id="m2")
            status, _ = await caller.rest("GET", f"/b/tasks/{again['id']}")
            assert status == 200

    asyncio.run(scenario())


def test_pages_are_stable_while_new_tasks_come() -> None:
    async def scenario() -> None:
        async with world(agents(a=["x"] * 9)) as caller:
            ids = [(await caller.send(f"n{index}"))["id"] for index in range(5)]
            _, first = await caller.rest("GET", "/tasks?pageSize=2")
            assert [it["id"] for it in first["tasks"]] == ids[:2:-1]
            assert (first["pageSize"], first["totalSize"]) == (2, 5)
            assert all("history" not in it and "artifacts" not in it for it in first["tasks"])
            await caller.send("another")
            seen = [it["id"] for it in first["tasks"]]
            token = first["nextPageToken"]
            while token:
                _, page = await caller.rest("GET", f"/tasks?pageSize=2&pageToken={token}")
                seen += [it["id"] for it in page["tasks"]]
                token = page["nextPageToken"]
            assert seen == ids[::-1]
            answer = await caller.rpc("ListTasks", {"pageSize": 1, "includeArtifacts": True})
            (task,) = answer["result"]["tasks"]
            assert task["artifacts"][0]["parts"] == [{"text": "x"}]

    asyncio.run(scenario())


def test_lists_are_filtered_and_bad_filters_are_named() -> None:
    async def scenario() -> None:
        gate = asyncio.Event()
        async with world(agents(a=["x", "y", held(gate, "z")])) as caller:
            first = await caller.send("n1")
            second = await caller.send("n2")
            working = await caller.send("n3", configuration={"returnImmediately": True})
            for query, expected in (
                (f"contextId={first['contextId']}", [first]),
                ("status=TASK_STATE_COMPLETED", [second, first]),
                ("status=TASK_STATE_COMPLETED&pageSize=1", [second]),
                ("status=TASK_STATE_WORKING", [working]),
                ("status=TASK_STATE_FAILED", []),
                ("statusTimestampAfter=2999-01-01T00:00:00Z", []),
                ("statusTimestampAfter=2000-01-01T00:00:00Z", [working, second, first]),
                ("contextId=unknown", []),
            ):
                _, page = await caller.rest("GET", f"/tasks?{query}")
                assert [it["id"] for it in page["tasks"]] == [it["id"] for it in expected], query
            _, page = await caller.rest("GET", "/tasks?historyLength=1&pageSize=2")
            assert [len(it["history"]) for it in page["tasks"]] == [1, 1]
            query = "status=x&pageSize=0&historyLength=-1&statusTimestampAfter=x"
            _, refused = await caller.rest("GET", f"/tasks?{query}")
            assert violations(refused).keys() == {
                "status",
                "pageSize",
                "historyLength",
                "statusTimestampAfter",
            }
            for token in ("x", "YTJhOi0x", "!!", "YTJhOjk5OTk5OTk5OTk5OTk5OTk5OTk5OTk="):
                status, refused = await caller.rest("GET", f"/tasks?pageToken={token}")
                assert (status, *violations(refused)) == (400, "pageToken")
            status, _ = await caller.rest("GET", "/tasks?pageSize=101")
            assert status == 400
            gate.set()

    asyncio.run(scenario())


def test_history_is_the_tail_of_what_people_and_the_agent_said() -> None:
    async def scenario() -> None:
        async with world(agents(a=["Hello."])) as caller:
            task = await caller.send("hi", configuration={"historyLength": 1})
            assert [it["role"] for it in task["history"]] == ["ROLE_AGENT"]
            for length, expected in ((0, None), (1, ["Hello."]), (9, ["hi", "Hello."])):
                _, got = await caller.rest("GET", f"/tasks/{task['id']}?historyLength={length}")
                found = got.get("history")
                texts = None if found is None else [it["parts"][0]["text"] for it in found]
                assert texts == expected
            status, refused = await caller.rest("GET", f"/tasks/{task['id']}?historyLength=-1")
            assert (status, *violations(refused)) == (400, "historyLength")

    asyncio.run(scenario())


def test_a_message_to_a_busy_context_waits_its_turn_and_disturbs_nobody() -> None:
    async def scenario() -> None:
        gate = asyncio.Event()
        async with world(agents(a=[held(gate, "first"), "second"])) as caller:
            now = {"returnImmediately": True}
            first = await caller.send("n1", configuration=now)
            second = await caller.send("n2", contextId=first["contextId"], configuration=now)
            assert second["status"]["state"] == "TASK_STATE_SUBMITTED"
            assert second["contextId"] == first["contextId"]
            gate.set()
            opening, *rest = await caller.subscribe(second["id"])
            assert opening.data["task"]["status"]["state"] == "TASK_STATE_SUBMITTED"
            assert rest[-1].data["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
            _, ended = await caller.rest("GET", f"/tasks/{first['id']}")
            assert ended["artifacts"][0]["parts"] == [{"text": "first"}]

    asyncio.run(scenario())


def test_cancelling_a_task_that_is_queued_leaves_the_other_alone() -> None:
    async def scenario() -> None:
        gate = asyncio.Event()
        async with world(agents(a=[held(gate, "first")])) as caller:
            now = {"returnImmediately": True}
            first = await caller.send("n1", configuration=now)
            second = await caller.send("n2", contextId=first["contextId"], configuration=now)
            status, cancelled = await caller.rest("POST", f"/tasks/{second['id']}:cancel")
            assert (status, cancelled["status"]["state"]) == (200, "TASK_STATE_CANCELED")
            status, refused = await caller.rest("POST", f"/tasks/{second['id']}:cancel")
            assert (status, reason(refused)) == (409, "TASK_NOT_CANCELABLE")
            gate.set()
            await caller.subscribe(first["id"], 0)
            _, ended = await caller.rest("GET", f"/tasks/{first['id']}")
            assert ended["status"]["state"] == "TASK_STATE_COMPLETED"

    asyncio.run(scenario())


def test_parts_become_content_by_their_media_type() -> None:
    message = WireMessage(
        message_id="m",
        role="ROLE_USER",
        parts=(
            Part(text="hi"),
            Part(data={"a": 1}),
            Part(url="https://example.com/x.png"),
            Part(url="https://example.com/x", media_type="audio/wav"),
            Part(raw="AAEC", media_type="video/mp4"),
            Part(raw="_-8", filename="a.pdf"),
            Part(raw="AA=="),
        ),
    )
    assert message_violations(message, Outbound()) == []
    content = user_message(message).content
    expected = [Text, Text, Image, Audio, Video, Document, Document]
    assert [type(it) for it in content] == expected
    assert content[1].text == '{"a":1}'
    assert (content[5].source.media_type, content[5].source.data) == ("application/pdf", "/+8=")
    assert content[6].source.media_type == "application/octet-stream"


def test_tenants_and_rights_hold_over_both_transports() -> None:
    async def scenario() -> None:
        def token(name: str, tenant: str, *access: Access) -> TokenSpec:
            secret = RedactedString(f"key-{name}")
            return TokenSpec(id=name, access=frozenset(access), token=secret, tenant_id=tenant)

        everything = (Access.READ, Access.INVOKE, Access.DECIDE)
        config = ServerConfig(
            tokens=(
                token("one", "t1", *everything),
                token("two", "t2", *everything),
                token("reader", "t1", Access.READ),
            )
        )
        async with world(agents(a=["x", "y"]), config) as caller:
            one, two, reader = (
                {"Authorization": f"Bearer key-{name}"} for name in ("one", "two", "reader")
            )
            status, sent = await caller.rest("POST", "/message:send", sending("x"), headers=one)
            assert status == 200
            task_id, context_id = sent["task"]["id"], sent["task"]["contextId"]
            status, refused = await caller.rest("GET", f"/tasks/{task_id}")
            assert (status, refused["error"]["status"]) == (401, "UNAUTHENTICATED")
            status, _ = await caller.rest("GET", f"/tasks/{task_id}", headers=two)
            assert status == 404
            answer = await caller.rpc("GetTask", {"id": task_id}, headers=two)
            assert answer["error"]["code"] == -32001
            _, listed = await caller.rest("GET", "/tasks", headers=two)
            assert listed["totalSize"] == 0
            foreign = sending("x", contextId=context_id, message_id="m2")
            status, other = await caller.rest("POST", "/message:send", foreign, headers=two)
            assert (status, other["task"]["contextId"]) == (200, context_id)
            status, _ = await caller.rest("GET", f"/tasks/{other['task']['id']}", headers=one)
            assert status == 404
            config_path = f"/tasks/{task_id}/pushNotificationConfigs"
            status, _ = await caller.rest("GET", config_path, headers=two)
            assert status == 404
            status, _ = await caller.rest("GET", f"/tasks/{task_id}", headers=reader)
            assert status == 200
            answer = await caller.rpc("GetTask", {"id": task_id}, headers=reader)
            assert answer["result"]["id"] == task_id
            status, _ = await caller.rest("POST", "/message:send", sending("y"), headers=reader)
            assert status == 403
            for method in ("SendMessage", "CancelTask", "CreateTaskPushNotificationConfig"):
                answer = await caller.rpc(
                    method, {"id": task_id, "taskId": task_id}, headers=reader
                )
                assert reason(answer) == "FORBIDDEN"
            async with caller.session.get(f"{caller.url}/.well-known/agent-card.json") as reply:
                assert (await reply.json())["securityRequirements"]

    asyncio.run(scenario())
