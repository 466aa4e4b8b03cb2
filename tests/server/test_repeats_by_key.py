"""The same POST under the same `Idempotency-Key` has the same receipt at any moment of its run.

Every route that takes a key is posted to a thread as it was left, and posted again after each
thing that happens to the thread: its run begins, waits, goes on, ends, and others follow.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from awaken import Agent, AgentRuntime, ToolContext, tool
from awaken.models import InferenceRequest
from awaken.protocols.native.routes import ROUTES
from awaken.stores import Thread, ThreadQuery
from awaken.testing import ScriptedModel, ToolCalls

from .in_process import ask

KEY = {"idempotency-key": "k"}
SAID = [{"content": "listen"}]
PATIENCE_S = 20


class World:
    """Agents that wait to be let go, ask a person, and are done."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.begun = asyncio.Event()

        @tool
        async def confirm(ctx: ToolContext) -> Any:
            return ctx.suspend("sure?") if ctx.resume is None else "confirmed"

        agents = [
            Agent(name, model=ScriptedModel([self._answer], cycle=True), tools=[confirm])
            for name in ("default", "a", "b")
        ]
        self.runtime = AgentRuntime(agents)
        self.app = self.runtime.asgi()

    async def _answer(self, request: InferenceRequest) -> Any:
        self.begun.set()
        await self.go.wait()
        has_asked = any(it.tool_calls for it in request.messages if it.text != "listen")
        is_told = request.messages[-1].role == "tool"
        return "done" if is_told or has_asked else ToolCalls([("confirm", {})])

    async def post(self, path: str, body: Any, **headers: str) -> tuple[int, Any]:
        answer = await ask(self.app, "POST", path, body=body, headers=headers)
        if "x-run-id" in answer.headers:
            return answer.status, {"run_id": answer.headers["x-run-id"], "dispatch_id": None}
        return answer.status, answer.json

    async def rest(self) -> Any:
        """Let everything go on until the thread is at rest; returns its ticket, if it waits."""
        self.go.set()
        async with asyncio.timeout(PATIENCE_S):
            while True:
                thread = await self.runtime.store.load_thread("t")
                tickets = await self.runtime.store.list_tickets("t")
                queued = await self.runtime.store.count_queued()
                is_open = thread is not None and thread.open_run_id is not None
                if not queued and (tickets or not is_open):
                    return tickets[0].ticket_id if tickets else None
                await asyncio.sleep(0.001)

    async def decide(self) -> None:
        if (ticket_id := await self.rest()) is not None:
            thread = await self.runtime.store.load_thread("t")
            assert thread is not None
            body = {"action": "resume", "ticketId": ticket_id, "payload": "yes"}
            status, told = await self.post(f"/v1/runs/{thread.open_run_id}/decision", body)
            assert status == 202, told
        await self.rest()


Prepare = Callable[[World], Awaitable[None]]


async def nothing(_world: World) -> None:
    """A thread that nobody has written to."""


async def made(world: World) -> None:
    """A thread that has no run."""
    await world.runtime.store.save_thread(Thread(id="t"))


async def spoken(world: World) -> None:
    """A thread whose run has ended."""
    await waiting(world)
    await world.decide()


async def waiting(world: World) -> None:
    """A thread whose run waits for a decision."""
    world.go.set()
    await ask(world.app, "POST", "/v1/threads/t/mailbox", body={"payload": "first"})
    assert await world.rest() is not None


RUNS = ("/v1/runs", {"agentId": "a", "threadId": "t", "messages": SAID})
MAILBOX = ("/v1/threads/t/mailbox", {"payload": {"text": "listen"}})
INPUTS = "/v1/runs/{run_id}/inputs"


def messages(mode: str) -> tuple[str, Any]:
    return "/v1/threads/t/messages", {"messages": SAID, "mode": mode}


def inputs(mode: str) -> tuple[str, Any]:
    return INPUTS, {"messages": SAID, "mode": mode}


CASES: list[tuple[Prepare, tuple[str, Any]]] = [
    (nothing, RUNS),
    (nothing, ("/v1/runs", {"agentId": "a", "messages": SAID})),
    (nothing, MAILBOX),
    (waiting, messages("resume")),
    (waiting, inputs("resume")),
    *(
        (prepare, post)
        for prepare in (spoken, waiting)
        for post in (RUNS, MAILBOX, inputs("queue"), inputs("steer"), inputs("interrupt"))
    ),
    *(
        (prepare, messages(mode))
        for prepare in (made, spoken, waiting)
        for mode in ("queue", "steer", "interrupt")
    ),
]


def receipt(answer: tuple[int, Any]) -> tuple[int, str, str | None]:
    status, told = answer
    assert status in (200, 201, 202), told
    return status, told["run_id"], told["dispatch_id"]


@pytest.mark.parametrize(
    ("prepare", "post"), CASES, ids=lambda it: getattr(it, "__name__", None) or str(it)[:60]
)
def test_a_repeat_has_the_same_receipt_whatever_became_of_the_thread(
    prepare: Prepare, post: tuple[str, Any]
) -> None:
    async def main() -> None:
        world = World()
        async with asyncio.timeout(60), world.runtime:
            await prepare(world)
            thread = await world.runtime.store.load_thread("t")
            run_id = None if thread is None else thread.latest_run_id
            path, body = post[0].format(run_id=run_id), post[1]
            world.go.clear()
            world.begun.clear()
            first = receipt(await world.post(path, body, **KEY))
            again = lambda: world.post(path, body, **KEY)  # noqa: E731
            assert receipt(await again()) == first, "at once"
            async with asyncio.timeout(PATIENCE_S):
                await world.begun.wait()
            assert receipt(await again()) == first, "while it runs"
            await world.rest()
            assert receipt(await again()) == first, "when it waits, or is done"
            await world.decide()
            assert receipt(await again()) == first, "when it is done"
            count = len(await said(world))
            other = {"agentId": "b", "threadId": "t", "messages": [{"content": "other"}]}
            await ask(world.app, "POST", "/v1/runs", body=other)
            assert receipt(await again()) == first, "while another agent speaks"
            await world.rest()
            assert receipt(await again()) == first, "after another run"
            assert len(await said(world)) == count == 1
            changed = {**body, "messages": [{"content": "?"}], "payload": "?"}
            changed = {name: changed[name] for name in body}
            status, told = await world.post(path, changed, **KEY)
            assert (status, told["code"]) == (409, "dedupe_conflict")

    async def said(world: World) -> list[str]:
        found = []
        for thread in (await world.runtime.store.list_threads(ThreadQuery())).items:
            checkout = await world.runtime.store.checkout(thread.id)
            assert checkout is not None
            found += [it.text for it in checkout.messages if it.text == "listen"]
        return found

    asyncio.run(main())


def test_every_route_that_takes_a_key_is_tried() -> None:
    keyed = {route.path for route in ROUTES if "Idempotency-Key" in route.headers}
    tried = {post[0].replace("/t/", "/{thread_id}/") for _, post in CASES}
    assert tried == keyed


@pytest.mark.parametrize("path", [MAILBOX[0], RUNS[0]])
def test_repeats_at_the_same_moment_are_one(path: str) -> None:
    async def main() -> None:
        world = World()
        async with asyncio.timeout(60), world.runtime:
            await waiting(world)
            body = MAILBOX[1] if path == MAILBOX[0] else RUNS[1]
            answers = await asyncio.gather(*(world.post(path, body, **KEY) for _ in range(8)))
            assert len({receipt(answer) for answer in answers}) == 1

    asyncio.run(main())
