"""Tenants that choose the same ids on every wire: each has exactly its own, as if it were alone."""

import asyncio
import itertools
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from awaken import Agent, AgentRuntime, RunRequest, ToolContext, tool, user
from awaken.contracts.tenancy import tenant_in
from awaken.errors import AlreadySaid
from awaken.server import RateLimit, ServerLimits
from awaken.services import histories
from awaken.stores import MessageQuery, RunQuery, ThreadQuery
from awaken.testing import ScriptedModel, ToolCalls

from .in_process import Answer, Request, bearer, config, token

TENANTS = ("ann", "bob", "ann:x", "%", None)
"""The last one is an operator, who belongs to none."""
OFTEN = RateLimit(per_s=1e6, burst=10**6)


def said(text: str) -> list[Any]:
    return [{"id": "m1", "role": "user", "content": text}]


def native(text: str) -> tuple[str, Any]:
    return "/v1/runs", {"agentId": "a", "threadId": "chat", "messages": said(text)}


def ag_ui(text: str) -> tuple[str, Any]:
    body = {"threadId": "chat", "runId": "run-1", "messages": said(text)}
    return "/v1/ag-ui/agents/a/runs", body


def ai_sdk(text: str) -> tuple[str, Any]:
    message = {"id": "m1", "role": "user", "parts": [{"type": "text", "text": text}]}
    return "/v1/ai-sdk/chat", {"id": "chat", "agentId": "a", "messages": [message]}


def a2a(text: str) -> tuple[str, Any]:
    message = {"messageId": "m1", "contextId": "chat", "role": "ROLE_USER"}
    return "/v1/a2a/a/message:stream", {"message": {**message, "parts": [{"text": text}]}}


def a2a_rpc(text: str) -> tuple[str, Any]:
    call = {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage"}
    return "/v1/a2a/a", {**call, "params": a2a(text)[1]}


def responses(text: str) -> tuple[str, Any]:
    return "/v1/responses", {"model": "a", "input": text, "stream": True, "conversation": "chat"}


def submitted(text: str) -> tuple[str, Any]:
    return "/v1/threads/chat/messages", {"agentId": "a", "messages": said(text)}


WIRES: dict[str, Callable[[str], tuple[str, Any]]] = {
    "native": native,
    "ag-ui": ag_ui,
    "ai-sdk": ai_sdk,
    "a2a": a2a,
    "a2a-rpc": a2a_rpc,
    "responses": responses,
}
READS = (
    "/v1/threads",
    "/v1/threads/chat",
    "/v1/threads/chat/messages",
    "/v1/threads/chat/events",
    "/v1/threads/chat/runs",
    "/v1/threads/chat/tickets",
    "/v1/runs",
    "/v1/tickets",
    "/v1/ag-ui/threads/chat/messages",
    "/v1/ai-sdk/threads/chat/messages",
    "/v1/a2a/tasks?includeArtifacts=true&historyLength=10",
)


@tool(effect="none")
def ask_first(ctx: ToolContext) -> Any:
    """Ask."""
    return ctx.suspend("Sure?") if ctx.resume is None else "sure"


def runtime_on(store: str | None, *turns: Any) -> AgentRuntime:
    model = ScriptedModel([*turns, "Hello."], cycle=True)
    return AgentRuntime([Agent("a", model=model, tools=[ask_first])], store=store)


def server_of(runtime: AgentRuntime) -> Any:
    tokens = [token(f"t{n}", tenant_id=name) for n, name in enumerate(TENANTS)]
    limits = ServerLimits(submits=OFTEN, decisions=OFTEN)
    return runtime.asgi(config(*tokens, limits=limits))


class Client:
    """What one tenant sends and reads."""

    def __init__(self, app: Any, number: int) -> None:
        self.app = app
        self.name = f"words-of-{number}"
        self.others = [f"words-of-{n}" for n in range(len(TENANTS)) if n != number]
        self.tenant = TENANTS[number]
        self.is_operator = self.tenant is None
        self.headers = {**bearer(f"t{number}"), "content-type": "application/json"}

    async def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """The whole answer, also of a stream, which has to end by itself."""
        answer = await self.ask_unjudged(method, path, body, **headers)
        self.judge(path, answer)
        return answer

    async def ask_unjudged(self, method: str, path: str, body: Any, **headers: str) -> Answer:
        """The same, where an answer may repeat what was asked."""
        given = self.headers | headers
        request = Request(self.app, method, path, body=body, headers=given)
        await asyncio.wait_for(request.task, 20)
        return request.answer

    async def say(self, wire: str, **headers: str) -> Answer:
        """Begin on a wire, under the ids that all choose."""
        path, body = (WIRES | {"submitted": submitted})[wire](self.name)
        return await self.ask("POST", path, body, **headers)

    def judge(self, what: str, answer: Answer) -> None:
        """Nothing of the others, and no id in its stored form, is in a tenant's answer."""
        if self.is_operator:
            return
        shown = answer.body.decode() + json.dumps(answer.headers)
        for word in (*self.others, "@ann", "@bob", "@%25"):
            assert word not in shown, (what, word, shown)


def ids_in(answer: Answer) -> list[str]:
    """Every id in an answer that clients do not choose, by a name that does not depend on it."""
    made = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{32}"
    return re.findall(made, answer.body.decode())


@pytest.mark.parametrize("is_durable", [False, True], ids=["memory", "sqlite"])
@pytest.mark.parametrize("wire", WIRES)
def test_each_tenant_has_its_own_and_sees_nothing_else(
    wire: str, is_durable: bool, tmp_path: Path
) -> None:
    async def scenario() -> None:
        store = f"sqlite:///{tmp_path}/s.db" if is_durable else None
        runtime = runtime_on(store)
        async with runtime:
            app = server_of(runtime)
            clients = [Client(app, number) for number in range(len(TENANTS))]
            begun = await asyncio.gather(*(client.say(wire) for client in clients))
            assert {answer.status for answer in begun} <= {200, 202}, begun
            await rested(runtime, len(TENANTS))
            tenants = [client for client in clients if not client.is_operator]
            for client in tenants:
                for path in READS:
                    answer = await client.ask("GET", path)
                    assert answer.status == 200, (path, answer)
                threads = await runtime._services.view(client.tenant).threads(ThreadQuery())
                assert [it.id for it in threads.items] == ["chat"]
                messages = (await client.ask("GET", "/v1/threads/chat/messages")).json["items"]
                first = messages[0]["message"]["content"]
                assert client.name in json.dumps(first)
                await read_runs(client, tenants)
            # An operator sees all of them, by their stored ids.
            found = await runtime.store.list_threads(ThreadQuery())
            assert {it.id for it in found.items} == {
                "chat", "@ann:chat", "@bob:chat", "@ann%3Ax:chat", "@%25:chat",
            }  # fmt: skip
            operator = clients[-1]
            for thread in found.items:
                assert (await operator.ask("GET", f"/v1/threads/{thread.id}")).status == 200

    asyncio.run(scenario())


async def read_runs(client: Client, tenants: list[Client]) -> None:
    """A run is found by its own tenant under the id that it is shown with, on every wire."""
    (run,) = (await client.ask("GET", "/v1/runs")).json["items"]
    run_id = run["run_id"]
    assert run["thread_id"] == "chat"
    for path in (
        f"/v1/runs/{run_id}",
        f"/v1/runs/{run_id}/events",
        f"/v1/runs/{run_id}/events/stream?cursor=0",
        f"/v1/a2a/tasks/{run_id}",
        f"/v1/responses/resp_{run_id}",
    ):
        assert (await client.ask("GET", path)).status == 200, path
        if len(ids_in(Answer(body=run_id.encode()))) == 1 and "-5" not in run_id[13:16]:
            # One that the server made is nobody else's.
            for other in tenants:
                if other is not client:
                    assert (await other.ask("GET", path)).status == 404, path


async def rested(runtime: AgentRuntime, count: int) -> None:
    """Wait until everything that was sent has been executed."""
    async with asyncio.timeout(20):
        while True:
            runs = (await runtime.store.list_runs(RunQuery())).items
            if len(runs) == count and all(it.status.is_terminal for it in runs):
                return
            await asyncio.sleep(0.01)


def test_decisions_cancels_keys_and_deletions_reach_the_tenants_own_only(tmp_path: Path) -> None:
    async def scenario() -> None:
        asks = ToolCalls([("ask_first", {})])
        runtime = runtime_on(f"sqlite:///{tmp_path}/s.db", *[asks] * 4)
        async with runtime:
            app = server_of(runtime)
            ann, bob, odd, rest = (Client(app, number) for number in range(4))
            for client in (ann, bob, odd, rest):
                answer = await client.say("ag-ui")
                assert answer.status == 200
            view = [runtime._services.view(name) for name in TENANTS[:4]]
            assert {(await it.run("run-1")).status.value for it in view} == {"waiting"}
            (ticket,) = (await ann.ask("GET", "/v1/threads/chat/tickets")).json["items"]
            yes = {"ticketId": ticket["ticket_id"], "action": "resume"}
            for client in (bob, odd, rest):
                refused = await client.ask("POST", "/v1/runs/run-1/decision", yes)
                assert refused.status == 404, refused
            assert (await bob.ask("POST", "/v1/threads/chat/cancel", {})).status == 202
            assert (await odd.ask("DELETE", "/v1/threads/chat")).status == 204
            assert (await odd.ask("GET", "/v1/threads/chat")).status == 404
            assert (await ann.ask("POST", "/v1/runs/run-1/decision", yes)).status in (200, 202)
            assert (await view[0].wait("run-1", 10_000)).text == "Hello."
            assert (await view[1].run("run-1")).status.is_terminal
            assert not (await view[3].run("run-1")).status.is_terminal
            # The same key means the same only to the same tenant.
            receipts = [await it.say("submitted", **{"idempotency-key": "k"}) for it in (ann, rest)]
            again = await ann.say("submitted", **{"idempotency-key": "k"})
            assert again.json == receipts[0].json | {"status": again.json["status"]}
            assert receipts[0].json["run_id"] != receipts[1].json["run_id"]

    asyncio.run(scenario())


PATHS = ("/v1/threads/{}", "/v1/threads/{}/events", "/v1/runs/{}", "/v1/a2a/tasks/{}")


def test_nothing_tells_whether_another_tenant_has_something() -> None:
    """Whatever a stranger names, and however it spells it, is answered as what never was."""

    async def scenario() -> None:
        runtime = runtime_on(None)
        async with runtime:
            app = server_of(runtime)
            ann, bob = Client(app, 0), Client(app, 1)
            await ann.say("ag-ui")
            spelled = ("@ann:{}", "@bob:@ann:{}", "@ann:@ann:{}", "%40ann%3A{}", " {}", "{} ")
            for path, form in itertools.product(PATHS, ("{}", *spelled)):
                for name in ("chat" if "threads" in path else "run-1", "never"):
                    named = path.format(form.format(name))
                    answer = await bob.ask_unjudged("GET", named, None)
                    assert answer.status == 404, named
            for wire in WIRES:
                assert (await bob.say(wire)).status in (200, 202)
                assert (await bob.ask("DELETE", "/v1/threads/chat")).status == 204
            assert (await runtime._services.view("ann").thread("chat")).message_count == 2

    asyncio.run(scenario())


def told_in(answer: Answer) -> list[Any]:
    """What the frames of a stream say."""
    lines = answer.body.decode().splitlines()
    data = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
    return [json.loads(it) for it in data if it.startswith("{")]


async def words_on(client: Client, thread_id: str) -> str:
    return (await client.ask("GET", f"/v1/threads/{thread_id}/messages")).body.decode()


async def fork(client: Client, _: Any) -> str:
    await client.say("native")
    path = "/v1/threads/chat/fork"
    missing = await client.ask("POST", "/v1/threads/never/fork", {})
    assert missing.status == 404
    made = await client.ask("POST", path, {"at": "m1"})
    assert made.status == 201, made
    point = {"thread_id": "chat", "message_id": "m1"}
    assert made.json["forked_from"] == point
    (run,) = (await client.ask("GET", "/v1/threads/chat/runs")).json["items"]
    again = await client.ask("POST", f"/v1/runs/{run['run_id']}/fork")
    assert (again.status, again.json["thread"]["forked_from"]) == (201, {"thread_id": "chat"})
    assert [it["id"] for it in again.json["messages"]] == ["m1"]
    branch = str(made.json["id"])
    assert (await client.ask("GET", f"/v1/threads/{branch}")).json["forked_from"] == point
    assert client.name in await words_on(client, branch)
    body = {"agentId": "a", "threadId": branch, "messages": [{**said("more")[0], "id": "m2"}]}
    answer = await client.ask("POST", "/v1/runs", body)
    assert (answer.status, answer.headers["x-thread-id"]) == (200, branch)
    return branch


async def regenerate(client: Client, view: Any) -> str:
    await client.say("ai-sdk")
    path, body = ai_sdk(client.name)
    answer = await client.ask("POST", path, {**body, "trigger": "regenerate-message"})
    assert answer.status == 200, answer
    (info,) = [it for it in told_in(answer) if it["type"] == "data-run-info"]
    branch = str(info["data"]["threadId"])
    # What else changes a thread leaves the chat where it went on.
    edited = await client.ask("PATCH", "/v1/threads/chat", {"title": "A chat"})
    assert edited.status == 200, edited
    assert (await view.branch("chat")).id == branch
    assert (
        client.name in (await client.ask("GET", "/v1/ai-sdk/threads/chat/messages")).body.decode()
    )
    return branch


async def answer_anew(client: Client, view: Any) -> str:
    await client.say("ag-ui")
    path, body = ag_ui(client.name)
    answer = await client.ask("POST", path, {**body, "runId": "run-2"})
    assert answer.status == 200, answer
    first, last = (told_in(answer)[at] for at in (0, -1))
    assert {(it["threadId"], it["runId"]) for it in (first, last)} == {("chat", "run-2")}
    branch = (await view.branch("chat")).id
    places = re.findall(r"^id: (\d+)@(.*)$", answer.body.decode(), re.MULTILINE)
    assert {named for _, named in places} == {branch}
    stream = "/v1/ag-ui/threads/chat/stream"
    again = await client.ask("GET", stream, **{"last-event-id": "@".join(places[0])})
    assert again.status == 200, again
    assert told_in(again)[-1] == last
    return str(branch)


async def go_on_twice(client: Client, _: Any) -> str:
    path, body = responses(client.name)
    first = await client.ask("POST", path, {**body, "stream": False})
    assert (first.status, first.headers["x-thread-id"]) == (200, "chat"), first
    more = {"model": "a", "input": "more", "previous_response_id": first.json["id"]}
    found = [await client.ask("POST", path, more) for _ in range(2)]
    assert [it.status for it in found] == [200, 200], found
    threads = [it.headers["x-thread-id"] for it in found]
    assert threads[0] == "chat"
    for it in (first, *found):
        seen = await client.ask("GET", f"{path}/{it.json['id']}")
        assert seen.json["output"] == it.json["output"]
    assert client.name in await words_on(client, threads[1])
    return threads[1]


async def whole_result(client: Client, view: Any) -> str:
    answer = await client.say("native", accept="application/json")
    assert answer.status == 200, answer
    assert (answer.json["thread_id"], answer.json["text"]) == ("chat", "Hello.")
    run_id = str(answer.json["run_id"])
    assert (answer.headers["x-run-id"], answer.headers["x-thread-id"]) == (run_id, "chat")
    assert (await view.run(run_id)).thread_id == "chat"
    return run_id


async def repeat(client: Client, view: Any) -> str:
    first, again = [await client.say("native") for _ in range(2)]
    run_id = first.headers["x-run-id"]
    assert (again.status, again.headers["x-run-id"]) == (200, run_id)
    assert {it["run_id"] for it in told_in(again) if "run_id" in it} <= {run_id}
    page = (await client.ask("GET", "/v1/runs")).json["items"]
    assert len([it for it in page if it["thread_id"] == "chat"]) == 1
    # Of an imported history no run can be shown: the refusal has the tenant's ids.
    request = await view.begin_thread([user("before")], RunRequest(agent_id="a"))
    (record,) = (await view.messages(request.thread_id, MessageQuery())).items
    known = msgspec.structs.replace(record.message, metadata=None)
    with pytest.raises(AlreadySaid) as refused:
        await view.start(msgspec.structs.replace(request, messages=(known,)))
    assert refused.value.thread_id == request.thread_id
    assert f"'{request.thread_id}'" in str(refused.value)
    return run_id


FLOWS = {
    "fork": fork,
    "regenerate": regenerate,
    "ag-ui": answer_anew,
    "previous-response": go_on_twice,
    "whole-result": whole_result,
    "repeat": repeat,
}


@pytest.mark.parametrize("is_durable", [False, True], ids=["memory", "sqlite"])
@pytest.mark.parametrize("flow", FLOWS)
def test_branches_results_and_repeats_are_each_tenants_own(
    flow: str, is_durable: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(histories, "OVERLAP_MS", 0)

    async def scenario() -> None:
        runtime = runtime_on(f"sqlite:///{tmp_path}/s.db" if is_durable else None)
        async with runtime:
            app = server_of(runtime)
            clients = [Client(app, number) for number in range(len(TENANTS))]
            views = [runtime._services.view(name) for name in TENANTS]
            pairs = zip(clients, views, strict=True)
            made = await asyncio.gather(*(FLOWS[flow](*pair) for pair in pairs))
            assert len(set(made)) == len(TENANTS)
            kind = "runs" if flow in ("whole-result", "repeat") else "threads"
            for client in clients[:-1]:
                assert made[clients.index(client)] != "chat"
                for path in READS:
                    assert (await client.ask("GET", path)).status == 200, path
                for id_ in made:
                    found = await client.ask("GET", f"/v1/{kind}/{id_}")
                    assert (found.status == 200) is (id_ == made[clients.index(client)]), found
            # Everything that was made for a tenant has the tenant in its stored id.
            for thread in (await runtime.store.list_threads(ThreadQuery())).items:
                named = (thread, thread.forked_from, thread.newest_branch)
                ids = [getattr(it, "thread_id", thread.id) for it in named if it is not None]
                assert {tenant_in(it) for it in ids} == {thread.tenant_id}, thread
            for run in (await runtime.store.list_runs(RunQuery())).items:
                assert tenant_in(run.run_id) == tenant_in(run.thread_id)

    asyncio.run(scenario())


@pytest.mark.parametrize("is_durable", [False, True], ids=["memory", "sqlite"])
def test_a_busy_thread_is_busy_for_its_own_tenant_only(is_durable: bool, tmp_path: Path) -> None:
    async def scenario() -> None:
        let_go = asyncio.Event()

        async def wait(_: Any) -> str:
            await let_go.wait()
            return "Hello."

        store = f"sqlite:///{tmp_path}/s.db" if is_durable else None
        runtime = runtime_on(store, *[wait] * len(TENANTS))
        async with runtime:
            app = server_of(runtime)
            clients = [Client(app, number) for number in range(len(TENANTS))]
            path, _ = native("")
            running = [start(it, native(it.name)[1]) for it in clients]
            for it in running:
                assert (await it.begun()).status == 200
            later = [
                {**native(it.name)[1], "messages": [{**said("more")[0], "id": "m2"}]}
                for it in clients
            ]
            for client, body in zip(clients, later, strict=True):
                refused = await client.ask("POST", path, {**body, "onBusy": "reject"})
                assert refused.status == 409, refused
                assert client.is_operator or "'chat'" in refused.error
            queued = [start(*it) for it in zip(clients, later, strict=True)]
            for first, second in zip(running, queued, strict=True):
                answer = await second.begun()
                assert (answer.status, answer.headers["x-thread-id"]) == (200, "chat")
                assert answer.headers["x-run-id"] != first.answer.headers["x-run-id"]
            let_go.set()
            for client, it in zip(clients, running, strict=True):
                await asyncio.wait_for(it.task, 20)
                client.judge(path, it.answer)
            for client, it in zip(clients, queued, strict=True):
                await asyncio.wait_for(it.task, 20)
                client.judge(path, it.answer)
                assert "Hello." in it.answer.body.decode()
                page = await client.ask("GET", "/v1/threads/chat/mailbox")
                assert page.status == 200
                seen = await client.ask("GET", f"/v1/runs/{it.answer.headers['x-run-id']}")
                assert (seen.status, seen.json["thread_id"]) == (200, "chat")

    asyncio.run(scenario())


def start(client: Client, body: Any) -> Request:
    """A run whose stream is read while others begin."""
    return Request(client.app, "POST", "/v1/runs", body=body, headers=client.headers)


def test_a_task_that_waits_is_followed_by_its_own_tenant_up_to_its_end() -> None:
    async def scenario() -> None:
        asks = ToolCalls([("ask_first", {})])
        runtime = runtime_on(None, asks, asks)
        async with runtime:
            app = server_of(runtime)
            ann, bob = Client(app, 0), Client(app, 1)
            following = []
            for client in (ann, bob):
                assert (await client.say("ag-ui")).status == 200
                path = "/v1/a2a/tasks/run-1:subscribe"
                it = Request(app, "GET", path, headers=client.headers)
                assert (await it.begun()).status == 200, it.answer
                following.append(it)
            (ticket,) = (await ann.ask("GET", "/v1/runs/run-1/tickets")).json["items"]
            yes = {"ticketId": ticket["ticket_id"], "action": "resume"}
            assert (await ann.ask("POST", "/v1/runs/run-1/decision", yes)).status in (200, 202)
            await asyncio.wait_for(following[0].task, 20)
            ann.judge("subscribe", following[0].answer)
            ends = [
                it["statusUpdate"] for it in told_in(following[0].answer) if "statusUpdate" in it
            ]
            assert ends[-1]["status"]["state"] == "TASK_STATE_COMPLETED"
            assert (ends[-1]["taskId"], ends[-1]["contextId"]) == ("run-1", "chat")
            assert not following[1].task.done()
            await following[1].leave()

    asyncio.run(scenario())
