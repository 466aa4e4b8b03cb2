"""Tenants that choose the same ids on every wire: each has exactly its own, as if it were alone."""

import asyncio
import itertools
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from awaken import Agent, AgentRuntime, ToolContext, tool
from awaken.contracts.queries import RunQuery, ThreadQuery
from awaken.server.config import RateLimit, ServerLimits
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
        self._headers = {**bearer(f"t{number}"), "content-type": "application/json"}

    async def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """The whole answer, also of a stream, which has to end by itself."""
        answer = await self.ask_unjudged(method, path, body, **headers)
        self.judge(path, answer)
        return answer

    async def ask_unjudged(self, method: str, path: str, body: Any, **headers: str) -> Answer:
        """The same, where an answer may repeat what was asked."""
        given = self._headers | headers
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
                threads = await runtime._desk.view(client.tenant).threads(ThreadQuery())
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
            view = [runtime._desk.view(name) for name in TENANTS[:4]]
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
            assert (await runtime._desk.view("ann").thread("chat")).message_count == 2

    asyncio.run(scenario())
