"""Runs over HTTP: started once, given input, decided, interrupted and cancelled."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from awaken import Agent, AgentRuntime
from awaken.contracts.storage.queries import Page, TicketQuery
from awaken.contracts.suspension.tickets import Ticket
from awaken.models import InferenceRequest
from awaken.stores import MemoryStore
from awaken.testing import ScriptedModel, ToolCalls

from .in_process import Request, ask, bearer, config, token
from .native_client import Client, asking, native, talking
from .serving import Frame, post_stream

Scenario = Callable[[Client], Awaitable[None]]
HI = {"role": "user", "content": "hi"}


def served(scenario: Scenario, runtime: Any = talking) -> None:
    async def main() -> None:
        async with asyncio.timeout(30), native(runtime()) as client:
            await scenario(client)

    asyncio.run(main())


class Held:
    """A model that answers when it is told to, and says that it was asked."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.free = asyncio.Event()
        self.heard: list[str] = []

    async def answer(self, request: InferenceRequest) -> str:
        self.heard.append(request.messages[-1].text)
        self.asked.set()
        await self.free.wait()
        return "At last."

    def runtime(self) -> AgentRuntime:
        model = ScriptedModel([self.answer], cycle=True)
        return AgentRuntime([Agent(name, model=model) for name in ("a", "default")])


def kinds(frames: list[Frame]) -> list[str]:
    return [frame.data["event_type"] for frame in frames]


def run_id_of(frames: list[Frame]) -> str:
    return str(frames[0].data["run_id"])


async def texts(client: Client, thread_id: str) -> list[str]:
    page = await client.get(f"/v1/threads/{thread_id}/messages")
    return [record["message"]["content"][0]["text"] for record in page["items"]]


@pytest.mark.parametrize("name", ["agentId", "agent_id"])
def test_a_run_without_a_thread_makes_one_and_says_which(name: str) -> None:
    async def scenario(client: Client) -> None:
        url = f"{client.url}/v1/runs"
        async with client.session.post(url, json={name: "a", "messages": [HI]}) as reply:
            await reply.text()
            run = await client.get(f"/v1/runs/{reply.headers['x-run-id']}")
            assert run["thread_id"] == reply.headers["x-thread-id"]
        assert (run["status"], run["termination_reason"]) == ("done", "natural")
        assert (run["final_output"], run["agent_id"], run["steps"]) == ("Hello.", "a", 1)
        assert (run["input_tokens"], run["output_tokens"]) == (10, 20)
        assert not {"bookmark", "tenant_id", "log_start"} & set(run)
        assert await texts(client, run["thread_id"]) == ["hi", "Hello."]

    served(scenario)


def test_a_run_that_cannot_be_started_is_refused_and_nothing_is_made() -> None:
    async def scenario(client: Client) -> None:
        refused = [
            ({"agentId": " ", "messages": [HI]}, 400, "agent_id cannot be empty"),
            ({"agentId": "a"}, 400, "at least one message is required"),
            ({"agentId": "a", "messages": []}, 400, "at least one message is required"),
            ({"messages": [HI]}, 422, "agent_id"),
            ({"agentId": "a", "agent_id": "a", "messages": [HI]}, 400, "are the same"),
            ({"agentId": 5, "messages": [HI]}, 422, "agent_id"),
            ({"agentId": "a", "messages": [{"content": 5}]}, 422, "content"),
            ({"agentId": "nobody", "messages": [HI]}, 404, "nobody"),
            ({"agentId": "a", "threadId": "x" * 300, "messages": [HI]}, 422, "thread_id"),
        ]
        for body, status, text in refused:
            told = await client.refused("POST /v1/runs", body)
            assert (told[0], text in told[1]) == (status, True), told
        for role in ("assistant", "tool", "wizard"):
            body = {"agentId": "a", "messages": [HI, {"role": role, "content": "x"}]}
            status, told_text = await client.refused("POST /v1/runs", body)
            assert (status, f"'{role}'" in told_text, "'user'" in told_text) == (400, True, True)
        assert (await client.get("/v1/threads?total=true"))["total"] == 0
        assert (await client.get("/v1/runs?total=true"))["total"] == 0

    served(scenario)


def test_messages_may_carry_media() -> None:
    async def scenario(client: Client) -> None:
        image = {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}
        content = [{"type": "text", "text": "what is it?"}, image]
        body = {"agentId": "a", "threadId": "t", "messages": [{"content": content}]}
        await post_stream(client.session, f"{client.url}/v1/runs", body)
        page = await client.get("/v1/threads/t/messages")
        assert page["items"][0]["message"]["content"] == content

    served(scenario)


@pytest.mark.parametrize("thread_id", [None, "t"])
def test_the_same_key_follows_the_first_run_instead_of_starting_another(
    thread_id: str | None,
) -> None:
    async def scenario(client: Client) -> None:
        body = {"agentId": "a", "threadId": thread_id, "messages": [HI]}
        url, headers = f"{client.url}/v1/runs", {"Idempotency-Key": "k-1"}
        first = await post_stream(client.session, url, body, headers=headers)
        again = await asyncio.gather(
            *(post_stream(client.session, url, body, headers=headers) for _ in range(3))
        )
        assert kinds(first)[-1] == "run_finish"
        assert again[0] == again[1] == again[2]
        assert {run_id_of(frames) for frames in again} == {run_id_of(first)}
        assert [frame.id for frame in again[0]] == list(range(1, first[-1].id + 1))
        assert (await client.get("/v1/runs?total=true"))["total"] == 1
        other = {**body, "messages": [{"content": "something else"}]}
        async with client.session.post(url, json=other, headers=headers) as reply:
            told = await reply.json()
        assert (reply.status, told["code"]) == (409, "dedupe_conflict")
        fresh = await post_stream(client.session, url, body, headers={"Idempotency-Key": "k-2"})
        assert run_id_of(fresh) != run_id_of(first)

    served(scenario)


def test_requests_at_once_under_one_key_are_one_run() -> None:
    async def scenario(client: Client) -> None:
        runs = await asyncio.gather(
            *(client.run("t", **{"Idempotency-Key": "k"}) for _ in range(5))
        )
        assert len({run_id_of(frames) for frames in runs}) == 1
        assert {kinds(frames)[-1] for frames in runs} == {"run_finish"}
        assert await texts(client, "t") == ["hi", "Hello."]

    served(scenario)


def test_a_keyed_message_for_a_run_that_waits_is_taken_in_once() -> None:
    async def scenario(client: Client) -> None:
        (first, *_, end) = await client.run("t")
        assert end.data["termination"]["type"] == "suspended"
        for _ in range(2):
            frames = await client.run("t", "go on", **{"Idempotency-Key": "k"})
            assert run_id_of(frames) == first.data["run_id"]
        page = await client.get("/v1/threads/t/messages?visibility=all")
        said = [record["message"] for record in page["items"]]
        assert [it["content"][0]["text"] for it in said if it["role"] == "user"] == ["hi", "go on"]
        assert (await client.get("/v1/runs?total=true"))["total"] == 1

    served(scenario, asking)


def test_runs_are_listed_by_status_and_thread() -> None:
    async def scenario(client: Client) -> None:
        for thread_id in ("one", "two", "two"):
            await client.run(thread_id)
        page = await client.get("/v1/runs?limit=2&total=true")
        assert (page["total"], page["has_more"], len(page["items"])) == (3, True, 2)
        rest = await client.get(f"/v1/runs?limit=2&cursor={page['next_cursor']}")
        assert [run["thread_id"] for run in page["items"] + rest["items"]] == ["one", "two", "two"]
        assert (await client.get("/v1/runs?threadId=two&total=true"))["total"] == 2
        assert (await client.get("/v1/runs?status=done&total=true"))["total"] == 3
        assert (await client.get("/v1/runs?status=running&total=true"))["total"] == 0
        refused = await client.refused("GET /v1/runs?status=Done")
        assert refused == (400, "invalid status filter: Done")
        assert await client.refused("GET /v1/runs/nobody") == (404, "run not found: nobody")

    served(scenario)


def test_messages_are_queued_and_run_once_under_a_key() -> None:
    async def scenario(client: Client) -> None:
        await client.run("t")
        headers = {"Idempotency-Key": "k"}
        body = {"messages": [{"content": "again"}]}
        status, told = await client.ask("POST /v1/threads/t/messages", body, headers)
        assert (status, told["thread_id"]) == (202, "t")
        assert told["status"] in ("queued", "running")
        assert (await client.settled(told["run_id"]))["status"] == "done"
        status, twice = await client.ask("POST /v1/threads/t/messages", body, headers)
        assert (status, twice["run_id"], twice["status"]) == (202, told["run_id"], "running")
        assert await texts(client, "t") == ["hi", "Hello.", "again", "Hello."]
        other = {"messages": [{"content": "other"}]}
        status, _ = await client.ask("POST /v1/threads/t/messages", other, headers)
        assert status == 409
        refused = await client.refused("POST /v1/threads/t/messages", {"messages": []})
        assert refused == (400, "at least one message is required")
        refused = await client.refused("POST /v1/threads/nobody/messages", body)
        assert refused == (404, "thread not found: nobody")
        odd = {**body, "mode": "telepathy"}
        assert (await client.refused("POST /v1/threads/t/messages", odd))[0] == 422
        unknown = {**body, "agentId": "nobody"}
        assert (await client.refused("POST /v1/threads/t/messages", unknown))[0] == 404

    served(scenario)


def test_a_thread_that_nobody_spoke_on_is_for_the_default_agent() -> None:
    async def scenario(client: Client) -> None:
        _, thread = await client.ask("POST /v1/threads", {})
        path = f"POST /v1/threads/{thread['id']}/messages"
        status, told = await client.refused(path, {"messages": [HI]})
        assert (status, "default" in told) == (404, True)
        status, told = await client.refused("POST /v1/threads/new/mailbox", {"payload": "x"})
        assert (status, "default" in told) == (404, True)

    served(scenario, lambda: AgentRuntime([Agent("a", model=ScriptedModel(["Hello."]))]))


@pytest.mark.parametrize("mode", ["steer", "live_then_queue"])
def test_live_input_goes_into_the_run_that_executes(mode: str) -> None:
    held = Held()

    async def scenario(client: Client) -> None:
        running = asyncio.create_task(client.run("t"))
        await held.asked.wait()
        held.asked.clear()
        body = {"mode": mode, "messages": [{"content": "hurry"}]}
        status, _ = await client.ask("POST /v1/threads/t/messages", body)
        assert status == 202
        held.free.set()
        frames = await running
        assert kinds(frames).count("run_start") == 1
        assert await texts(client, "t") == ["hi", "At last.", "hurry", "At last."]
        assert (await client.get("/v1/runs?total=true"))["total"] == 1

    served(scenario, held.runtime)


@pytest.mark.parametrize("mode", ["interrupt", "interrupt_then_queue"])
def test_interrupting_input_ends_what_the_thread_does(mode: str) -> None:
    held = Held()

    async def scenario(client: Client) -> None:
        running = asyncio.create_task(client.run("t"))
        await held.asked.wait()
        body = {"mode": mode, "messages": [{"content": "stop that"}]}
        status, told = await client.ask("POST /v1/threads/t/messages", body)
        assert status == 202
        frames = await running
        assert frames[-1].data["termination"]["type"] == "cancelled"
        held.free.set()
        run = await client.settled(told["run_id"])
        assert (run["status"], run["final_output"]) == ("done", "At last.")
        assert held.heard == ["hi", "stop that"]

    served(scenario, held.runtime)


@pytest.mark.parametrize("mode", ["resume", "resume_open_run"])
def test_resuming_input_continues_the_run_that_waits(mode: str) -> None:
    async def scenario(client: Client) -> None:
        body = {"mode": mode, "messages": [{"content": "go on"}]}
        _, thread = await client.ask("POST /v1/threads", {})
        assert (await client.refused(f"POST /v1/threads/{thread['id']}/messages", body))[0] == 404
        run_id = run_id_of(await client.run("t"))
        status, told = await client.ask("POST /v1/threads/t/messages", body)
        assert (status, told["run_id"]) == (202, run_id)

    served(scenario, asking)


def test_inputs_of_a_run_that_waits_continue_it_and_others_go_to_its_thread() -> None:
    async def scenario(client: Client) -> None:
        run_id = run_id_of(await client.run("t"))
        path, body = f"POST /v1/runs/{run_id}/inputs", {"messages": [{"content": "go on"}]}
        status, told = await client.ask(path, body)
        assert (status, told["status"], told["run_id"]) == (202, "inputs_accepted", run_id)
        assert (await client.settled(run_id))["status"] == "done"
        assert (await client.get("/v1/runs?total=true"))["total"] == 1
        (sent,) = (await client.get("/v1/threads/t/mailbox"))["items"]
        assert (sent["mode"], sent["run_id"]) == ("resume", run_id)
        status, told = await client.ask(path, body)
        assert (status, told["run_id"]) == (202, run_id)
        (waiting,) = (await client.get("/v1/threads/t/mailbox"))["items"][-1:]
        assert (await client.settled(waiting["run_id"]))["agent_id"] == "a"
        assert (await client.get("/v1/runs?total=true"))["total"] == 2
        resume = {**body, "mode": "resume_open_run"}
        assert (await client.refused(path, resume))[0] == 404
        assert (await client.refused(path, {}))[0] == 400
        assert (await client.refused("POST /v1/runs/nobody/inputs", body))[0] == 404

    served(scenario, asking)


def test_the_mailbox_takes_anything_and_shows_what_it_took() -> None:
    async def scenario(client: Client) -> None:
        payloads: list[Any] = [{"text": "one"}, "two", {"n": [3, None]}]
        for payload in payloads:
            status, told = await client.ask("POST /v1/threads/new/mailbox", {"payload": payload})
            assert (status, told["thread_id"]) == (201, "new")
            assert (await client.settled(told["run_id"]))["status"] == "done"
        said = await texts(client, "new")
        assert said[::2] == ["one", "two", '{"n":[3,null]}']
        page = await client.get("/v1/threads/new/mailbox?limit=2&total=true")
        assert (page["total"], page["has_more"]) == (3, True)
        rest = await client.get(f"/v1/threads/new/mailbox?limit=2&cursor={page['next_cursor']}")
        items = page["items"] + rest["items"]
        assert {item["status"] for item in items} == {"Acked"}
        assert not {"claim_token", "request"} & set(items[0])
        assert (items[0]["priority"], items[0]["max_attempts"]) == (128, 5)
        assert (await client.get("/v1/threads/new/mailbox?status=Acked&total=true"))["total"] == 3
        assert (await client.get("/v1/threads/new/mailbox?status=DeadLetter&total=true"))[
            "total"
        ] == 0
        refused = await client.refused("GET /v1/threads/new/mailbox?status=acked")
        assert refused == (400, "invalid status filter: acked")
        assert (await client.refused("GET /v1/threads/nobody/mailbox"))[0] == 404
        assert (await client.refused("POST /v1/threads/new/mailbox", {}))[0] == 422

    served(scenario)


@pytest.mark.parametrize("target", ["thread", "run"])
@pytest.mark.parametrize("name", ["toolCallId", "tool_call_id", "ticketId"])
def test_a_decision_lets_the_run_go_on_and_counts_once(target: str, name: str) -> None:
    async def scenario(client: Client) -> None:
        run_id = run_id_of(await client.run("t"))
        (ticket,) = (await client.get(f"/v1/runs/{run_id}/tickets"))["items"]
        named = ticket["ticket_id"] if name == "ticketId" else ticket["tool_call_id"]
        path = f"POST /v1/{'threads/t' if target == 'thread' else f'runs/{run_id}'}/decision"
        body = {name: named, "action": "resume", "payload": "yes"}
        status, told = await client.ask(path, body)
        assert (status, told["status"]) == (202, "decision_submitted")
        assert (told["thread_id"], told["run_id"]) == ("t", run_id)
        run = await client.settled(run_id)
        assert (run["status"], run["final_output"]) == ("done", "Done.")
        # Whoever did not get the answer sends it again.
        assert await client.ask(path, body) == (202, told)
        status, _ = await client.refused(path, {**body, "payload": "no"})
        assert status == 409
        page = await client.get("/v1/threads/t/messages")
        answers = [it["message"] for it in page["items"] if it["message"]["role"] == "tool"]
        assert len(answers) == 1
        assert "told yes" in answers[0]["content"][0]["text"]

    served(scenario, asking)


def test_a_decision_on_what_does_not_wait_is_refused() -> None:
    async def scenario(client: Client) -> None:
        run_id = run_id_of(await client.run("t"))
        other_id = run_id_of(await client.run("other", "go"))
        (ticket,) = (await client.get("/v1/threads/other/tickets"))["items"]
        assert ticket["run_id"] == other_id
        body = {"toolCallId": "call_1", "action": "resume"}
        problem = "invalid action: maybe, expected 'resume' or 'cancel'"
        refused = await client.refused("POST /v1/threads/t/decision", {**body, "action": "maybe"})
        assert refused == (400, problem)
        for path in ("threads/t", f"runs/{run_id}"):
            unknown = {**body, "toolCallId": "call_9"}
            assert (await client.refused(f"POST /v1/{path}/decision", unknown))[0] == 404
            # A ticket of another run is unknown here.
            foreign = {"ticketId": ticket["ticket_id"], "action": "resume"}
            assert (await client.refused(f"POST /v1/{path}/decision", foreign))[0] == 404
            assert (await client.refused(f"POST /v1/{path}/decision", {"action": "resume"}))[
                0
            ] == 400
        assert (await client.refused("POST /v1/threads/t/decision", {"toolCallId": "x"}))[0] == 422
        assert (await client.refused("POST /v1/threads/nobody/decision", body))[0] == 404
        assert (await client.refused("POST /v1/runs/nobody/decision", body))[0] == 404
        _, thread = await client.ask("POST /v1/threads", {})
        refused = await client.refused(f"POST /v1/threads/{thread['id']}/decision", body)
        assert refused[0] == 404
        assert (await client.get("/v1/tickets?total=true"))["total"] == 2

    served(scenario, lambda: talking(ToolCalls([("ask", {"question": "sure?"})])))


def test_a_cancelling_decision_says_why_and_keeps_its_id() -> None:
    async def scenario(client: Client) -> None:
        run_id = run_id_of(await client.run("t"))
        body = {"toolCallId": "call_1", "action": "cancel", "reason": "no", "decisionId": "d-1"}
        status, told = await client.ask("POST /v1/threads/t/decision", body)
        assert (status, told["decision_id"]) == (202, "d-1")
        await client.settled(run_id)
        assert (await client.get("/v1/tickets"))["items"] == []
        ticket = await client.runtime.store.find_ticket(told["ticket_id"])
        assert ticket is not None
        assert ticket.decision is not None
        assert (ticket.decision.reason, ticket.decision.decided_by) == ("no", "local")

    served(scenario, asking)


def test_decided_tickets_are_listed_with_who_decided_newest_run_first() -> None:
    async def scenario(client: Client) -> None:
        runs = []
        for thread in ("a", "b"):
            runs.append(run_id_of(await client.run(thread)))
            assert len((await client.get("/v1/tickets?status=decided"))["items"]) == len(runs) - 1
            (waiting,) = (await client.get("/v1/tickets"))["items"]
            body = {"ticketId": waiting["ticket_id"], "action": "cancel", "reason": "no"}
            await client.ask(f"POST /v1/threads/{thread}/decision", body)
            await client.settled(runs[-1])
        page = await client.get("/v1/tickets?status=decided&limit=1")
        (newest,) = page["items"]
        assert (newest["run_id"], newest["status"], page["has_more"]) == (runs[1], "decided", True)
        told = newest["decision"]
        assert (told["action"], told["reason"], told["decided_by"]) == ("cancel", "no", "local")
        rest = await client.get(f"/v1/tickets?status=decided&limit=1&cursor={page['next_cursor']}")
        assert [it["run_id"] for it in rest["items"]] == [runs[0]]
        assert (await client.refused("GET /v1/tickets?status=maybe"))[0] == 400

    served(scenario, asking)


def test_edited_arguments_are_what_the_tool_gets() -> None:
    async def scenario(client: Client) -> None:
        run_id = run_id_of(await client.run("t"))
        body = {"toolCallId": "call_1", "action": "resume", "arguments": {"question": "why?"}}
        assert (await client.ask("POST /v1/threads/t/decision", body))[0] == 202
        await client.settled(run_id)
        (ticket,) = await client.runtime.store.list_run_tickets("t", run_id)
        assert ticket.decision is not None
        assert ticket.decision.arguments == {"question": "why?"}

    served(scenario, asking)


@pytest.mark.parametrize("target", ["thread", "run"])
def test_a_cancel_is_acknowledged_once(target: str) -> None:
    held = Held()

    async def scenario(client: Client) -> None:
        running = asyncio.create_task(client.run("t"))
        await held.asked.wait()
        active = (await client.get("/v1/threads/t/runs/active"))["active_run"]
        path = "threads/t" if target == "thread" else f"runs/{active['run_id']}"
        status, told = await client.ask(f"POST /v1/{path}/cancel")
        assert (status, told["status"], told["thread_id"]) == (202, "cancel_requested", "t")
        frames = await running
        assert frames[-1].data["termination"]["type"] == "cancelled"
        assert (await client.refused(f"POST /v1/{path}/cancel"))[0] == 404
        assert (await client.refused("POST /v1/threads/nobody/cancel"))[0] == 404
        assert (await client.refused("POST /v1/runs/nobody/cancel"))[0] == 404

    served(scenario, held.runtime)


def test_an_interrupt_drops_what_is_queued_and_ends_what_runs() -> None:
    held = Held()

    async def scenario(client: Client) -> None:
        running = asyncio.create_task(client.run("t"))
        await held.asked.wait()
        queued = [
            await client.ask("POST /v1/threads/t/messages", {"messages": [HI]}) for _ in range(2)
        ]
        status, told = await client.ask("POST /v1/threads/t/interrupt")
        assert status == 202
        assert told == {
            "status": "interrupt_requested",
            "thread_id": "t",
            "superseded_dispatches": 2,
        }
        assert (await running)[-1].data["termination"]["type"] == "cancelled"
        page = await client.get("/v1/threads/t/mailbox")
        assert [item["status"] for item in page["items"]] == ["Superseded"] * 2
        for _, receipt in queued:
            run = await client.get(f"/v1/runs/{receipt['run_id']}")
            assert (run["status"], run["termination_reason"]) == ("done", "cancelled")
        assert held.heard == ["hi"]
        assert (await client.refused("POST /v1/threads/t/interrupt"))[0] == 404
        refused = await client.refused("POST /v1/threads/nobody/interrupt")
        assert refused == (404, "thread not found: nobody")

    served(scenario, held.runtime)


def test_an_interrupt_ends_a_run_that_waits() -> None:
    async def scenario(client: Client) -> None:
        run_id = run_id_of(await client.run("t"))
        status, told = await client.ask("POST /v1/threads/t/interrupt")
        assert (status, told["superseded_dispatches"]) == (202, 0)
        run = await client.get(f"/v1/runs/{run_id}")
        assert (run["status"], run["termination_reason"]) == ("done", "cancelled")
        assert (await client.get("/v1/tickets"))["items"] == []

    served(scenario, asking)


class WatchedStore(MemoryStore):
    """Counts the threads that are read, and the tickets that are told."""

    def __init__(self) -> None:
        super().__init__()
        self.threads = self.tickets = 0

    async def load_thread(self, thread_id: str) -> Any:
        self.threads += 1
        return await super().load_thread(thread_id)

    async def list_ticket_page(self, query: TicketQuery) -> Page[Ticket]:
        page = await super().list_ticket_page(query)
        self.tickets += len(page.items)
        return page


def test_a_tenant_lists_its_tickets_however_many_others_wait() -> None:
    store = WatchedStore()

    async def main() -> None:
        runtime = talking(ToolCalls([("ask", {"question": "sure?"})]), store=store)
        app = runtime.asgi(config(*(token(name, tenant_id=name) for name in ("ann", "bob"))))
        async with asyncio.timeout(30), runtime:
            for name in ("ann", "bob", "bob", "bob"):
                body = {"agentId": "a", "messages": [HI]}
                await Request(app, "POST", "/v1/runs", headers=bearer(name), body=body).task
            store.threads = store.tickets = 0
            page = (await ask(app, "GET", "/v1/tickets?total=true", headers=bearer("ann"))).json
            assert (page["total"], len(page["items"])) == (1, 1)
            assert (store.threads, store.tickets) == (0, 1), "others cost nothing"
            page = (await ask(app, "GET", "/v1/tickets?total=true", headers=bearer("bob"))).json
            assert page["total"] == 3

    asyncio.run(main())


def test_tickets_are_found_by_run_by_thread_and_all_together() -> None:
    async def scenario(client: Client) -> None:
        run_ids = [run_id_of(await client.run(thread_id)) for thread_id in ("t", "t2")]
        page = await client.get("/v1/tickets?total=true")
        assert (page["total"], page["has_more"]) == (2, False)
        first, second = page["items"]
        assert [first["run_id"], second["run_id"]] == run_ids
        assert (first["tool_name"], first["arguments"]) == ("ask", {"question": "sure?"})
        assert (first["status"], first["suspension"]["message"]) == ("open", "sure?")
        assert (await client.get("/v1/threads/t2/tickets"))["items"] == [second]
        assert (await client.get(f"/v1/runs/{run_ids[0]}/tickets"))["items"] == [first]
        paged = await client.get("/v1/tickets?limit=1")
        assert (paged["items"], paged["has_more"]) == ([first], True)
        rest = await client.get(f"/v1/tickets?limit=1&cursor={paged['next_cursor']}")
        assert rest == {"items": [second], "has_more": False, "next_cursor": None}
        for place in ("offset=1", "cursor=1"):
            assert (await client.get(f"/v1/tickets?limit=1&{place}"))["items"] == [second]
        assert (await client.refused("GET /v1/tickets?cursor=x"))[0] == 400
        assert (await client.refused("GET /v1/tickets?limit=0"))[0] == 400
        for path in ("threads", "runs"):
            assert (await client.refused(f"GET /v1/{path}/nobody/tickets"))[0] == 404
        assert (await client.ask(f"POST /v1/runs/{run_ids[0]}/cancel"))[0] == 202
        later = run_id_of(await client.run("t"))
        assert (await client.get(f"/v1/runs/{run_ids[0]}/tickets"))["items"] == []
        assert (await client.get(f"/v1/runs/{later}/tickets?total=true"))["total"] == 1

    served(scenario, lambda: talking(ToolCalls([("ask", {"question": "sure?"})])))


def test_decided_tickets_are_listed_with_who_decided_what_and_when() -> None:
    async def scenario(client: Client) -> None:
        run_ids = [run_id_of(await client.run(thread_id)) for thread_id in ("t", "t2", "t3")]
        waiting = (await client.get("/v1/tickets"))["items"]
        for run_id, ticket in zip(run_ids[:2], waiting, strict=False):
            body = {
                "ticketId": ticket["ticket_id"],
                "action": "resume",
                "payload": "yes",
                "reason": "looks right",
                "arguments": {"question": "really?"},
                "decisionId": f"d-{run_id}",
            }
            assert (await client.ask(f"POST /v1/runs/{run_id}/decision", body))[0] == 202
            await client.settled(run_id)
        (waits,) = (await client.get("/v1/tickets"))["items"]
        assert (waits["run_id"], waits.get("decision")) == (run_ids[2], None)
        page = await client.get("/v1/tickets?status=decided&total=true")
        assert page["total"] == 2
        second, first = page["items"]
        assert [first["run_id"], second["run_id"]] == run_ids[:2]
        decision = dict(first["decision"])
        assert first["created_at"] <= decision.pop("decided_at") == first["updated_at"]
        assert decision == {
            "decision_id": f"d-{run_ids[0]}",
            "action": "resume",
            "payload": "yes",
            "reason": "looks right",
            "arguments": {"question": "really?"},
            "decided_by": "local",
        }
        assert (first["status"], first["arguments"]) == ("decided", {"question": "sure?"})
        paged = await client.get("/v1/tickets?status=decided&limit=1")
        assert paged["items"] == [second]
        cursor = f"limit=1&cursor={paged['next_cursor']}"
        assert (await client.get(f"/v1/tickets?status=decided&{cursor}"))["items"] == [first]
        # A cursor belongs to its status.
        assert (await client.refused(f"GET /v1/tickets?{cursor}"))[0] == 400
        all_of_them = (await client.get("/v1/tickets?status=all"))["items"]
        assert all_of_them == [waits, second, first]
        up = await client.get("/v1/tickets?status=all&order=asc")
        assert up["items"] == [first, second, waits]
        for path in ("threads/t", f"runs/{run_ids[0]}"):
            assert (await client.get(f"/v1/{path}/tickets"))["items"] == []
            assert (await client.get(f"/v1/{path}/tickets?status=decided"))["items"] == [first]
        assert (await client.refused("GET /v1/tickets?status=closed"))[0] == 400
        assert (await client.refused("GET /v1/tickets?order=up"))[0] == 400

    served(scenario, lambda: talking(*asking_thrice()))


def asking_thrice() -> list[Any]:
    """Two runs that ask and go on, and one that asks."""
    asks = ToolCalls([("ask", {"question": "sure?"})])
    return [asks, asks, asks, "Done.", "Done."]


def test_a_tenant_sees_no_decisions_of_others() -> None:
    async def main() -> None:
        runtime = talking(ToolCalls([("ask", {"question": "sure?"})]), "Done.")
        app = runtime.asgi(config(*(token(name, tenant_id=name) for name in ("ann", "bob"))))
        async with asyncio.timeout(30), runtime:
            body = {"agentId": "a", "threadId": "t", "messages": [HI]}
            await Request(app, "POST", "/v1/runs", headers=bearer("ann"), body=body).task
            path, yes = "/v1/threads/t/decision", {"toolCallId": "call_1", "action": "resume"}
            await ask(app, "POST", path, headers=bearer("ann"), body={**yes, "payload": "yes"})
            for status in ("decided", "all"):
                path = f"/v1/tickets?status={status}"
                (own,) = (await ask(app, "GET", path, headers=bearer("ann"))).json["items"]
                assert (own["thread_id"], own["decision"]["payload"]) == ("t", "yes")
                assert (await ask(app, "GET", path, headers=bearer("bob"))).json["items"] == []

    asyncio.run(main())


def test_agents_are_listed_without_what_they_are_told() -> None:
    async def scenario(client: Client) -> None:
        page = await client.get("/v1/agents")
        assert [agent["id"] for agent in page["items"]] == ["a", "default"]
        agent = await client.get("/v1/agents/a")
        assert agent == page["items"][0]
        assert set(agent) == {
            "id",
            "description",
            "model",
            "tools",
            "context_schema",
            "is_workflow",
            "input_schema",
        }
        assert (agent["description"], agent["tools"]) == ("talks", ["ask"])
        assert "a secret" not in str(page)
        assert (await client.refused("GET /v1/agents/nobody"))[0] == 404

    served(scenario)
