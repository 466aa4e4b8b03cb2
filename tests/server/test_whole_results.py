"""`POST /v1/runs` with the whole result as one document, and on a thread that is busy."""

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from awaken import Agent, AgentRuntime
from awaken.models import InferenceRequest
from awaken.protocols.native.whole_results import wants_json
from awaken.server import ServerConfig, ServerLimits
from awaken.testing import ScriptedModel, ToolCalls

from .in_process import Answer, Request, ask
from .native_client import talking

JSON = {"accept": "application/json"}
HI = [{"role": "user", "content": "hi"}]


@dataclass
class Weather:
    """An answer."""

    city: str
    degrees: float


class Held:
    """A model that answers the first time when it is told to, and then at once."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.free = asyncio.Event()

    async def answer(self, _: InferenceRequest) -> str:
        self.asked.set()
        await self.free.wait()
        return "At last."

    def runtime(self, **options: Any) -> AgentRuntime:
        model = ScriptedModel([self.answer, *["At once."] * 9])
        return AgentRuntime([Agent("a", model=model)], **options)


def body(**fields: Any) -> dict[str, Any]:
    return {"agent_id": "a", "messages": HI, **fields}


async def post(app: Any, headers: Any = JSON, **fields: Any) -> Answer:
    return await ask(app, "POST", "/v1/runs", headers=headers, body=body(**fields))


@pytest.mark.parametrize(
    ("accept", "is_json"),
    [
        ("", False),
        ("*/*", False),
        ("text/event-stream", False),
        ("text/event-stream, */*", False),
        ("application/json", True),
        ("Application/JSON; charset=utf-8", True),
        ("application/json, text/plain, */*", True),
        ("application/json, */*;q=0.5", True),
        ("application/json, text/event-stream", False),
        ("application/json;q=0.5, text/event-stream", False),
        ("application/json, text/event-stream;q=0.5", True),
        ("application/json;q=0", False),
        ("application/json;q=lots", False),
        ("text/html", False),
    ],
)
def test_who_asks_for_a_document_gets_one_and_anybody_else_the_stream(
    accept: str, is_json: bool
) -> None:
    assert wants_json(accept) is is_json


def test_the_whole_result_comes_when_the_run_has_ended() -> None:
    async def main() -> None:
        async with asyncio.timeout(20), talking() as runtime:
            reply = await post(runtime.asgi(), thread_id="t")
            told = reply.json
            (run,) = await runtime.list_runs("t")
        assert (reply.status, reply.headers["content-type"]) == (200, "application/json")
        assert reply.headers["x-run-id"] == told["run_id"] == run.run_id
        assert reply.headers["x-thread-id"] == told["thread_id"] == "t"
        assert (told["status"], told["termination_reason"]) == ("done", "natural")
        assert (told["text"], told["steps"], told["tickets"]) == ("Hello.", 1, [])
        assert told["usage"]["prompt_tokens"] == 10

    asyncio.run(main())


def test_structured_output_is_in_the_result() -> None:
    async def main() -> None:
        model = ScriptedModel(['{"city": "Bern", "degrees": 3.5}'])
        async with AgentRuntime([Agent("a", model=model, output_type=Weather)]) as runtime:
            told = (await post(runtime.asgi())).json
        assert told["output"] == {"city": "Bern", "degrees": 3.5}

    asyncio.run(main())


def test_a_waiting_run_answers_with_its_tickets() -> None:
    async def main() -> None:
        async with talking(ToolCalls([("ask", {"question": "sure?"})])) as runtime:
            reply = await post(runtime.asgi())
        told = reply.json
        assert (reply.status, told["status"]) == (200, "waiting")
        (ticket,) = told["tickets"]
        assert (ticket["tool_name"], ticket["suspension"]["message"]) == ("ask", "sure?")

    asyncio.run(main())


def test_a_failed_run_is_a_result_that_says_so() -> None:
    async def main() -> None:
        async with AgentRuntime([Agent("a", model=ScriptedModel([]))]) as runtime:
            reply = await post(runtime.asgi())
        assert (reply.status, reply.json["status"]) == (200, "done")
        assert reply.json["termination"]["type"] == "error"

    asyncio.run(main())


def test_after_the_wait_the_run_is_named_and_goes_on() -> None:
    async def main() -> None:
        held = Held()
        async with asyncio.timeout(20), held.runtime() as runtime:
            config = ServerConfig(limits=ServerLimits(run_wait_ms=20))
            reply = await post(runtime.asgi(config), thread_id="t")
            assert (reply.status, reply.json["status"]) == (202, "running")
            assert reply.headers["x-run-id"] == reply.json["run_id"]
            held.free.set()
            assert (await runtime.wait(reply.json["run_id"])).text == "At last."

    asyncio.run(main())


def test_a_client_that_leaves_stops_nothing_and_holds_nothing() -> None:
    async def main() -> None:
        held = Held()
        async with asyncio.timeout(20), held.runtime() as runtime:
            app = runtime.asgi(ServerConfig(limits=ServerLimits(streams=1)))
            request = Request(app, "POST", "/v1/runs", headers=JSON, body=body(thread_id="t"))
            await held.asked.wait()
            assert (await post(app, thread_id="u")).status == 503
            answer = await request.leave()
            assert answer.status == 0
            held.free.set()
            (run,) = await runtime.list_runs("t")
            assert (await runtime.wait(run.run_id)).text == "At last."
            assert (await post(app, thread_id="u")).status == 200

    asyncio.run(main())


@pytest.mark.parametrize("key", [None, "k"])
@pytest.mark.parametrize("on_busy", [None, "queue", "interrupt", "reject"])
def test_a_busy_thread_does_what_the_client_chooses(on_busy: str | None, key: str | None) -> None:
    async def main() -> None:
        held = Held()
        async with asyncio.timeout(20), held.runtime() as runtime:
            app = runtime.asgi()
            first = asyncio.ensure_future(post(app, thread_id="t"))
            await held.asked.wait()
            headers = JSON | ({} if key is None else {"idempotency-key": key})
            chosen = {} if on_busy is None else {"on_busy": on_busy}
            second = asyncio.ensure_future(post(app, headers, thread_id="t", **chosen))
            if on_busy == "reject":
                reply = await second
                assert (reply.status, reply.json["code"]) == (409, "thread_busy")
                held.free.set()
                assert (await first).json["text"] == "At last."
                assert (await post(app, headers, thread_id="t", **chosen)).status == 200
                return
            if on_busy != "interrupt":
                while not await runtime.store.count_queued():
                    await asyncio.sleep(0)
                held.free.set()
            reply = await second
            ended = (await first).json["termination"]["type"]
            assert ended == ("cancelled" if on_busy == "interrupt" else "natural_end")
            assert reply.json["text"] == "At once."
            if key is not None:
                again = await post(app, headers, thread_id="t", **chosen)
                assert again.json["run_id"] == reply.json["run_id"]

    asyncio.run(main())


def test_the_same_key_finds_its_run_on_a_thread_that_is_busy_with_another() -> None:
    async def main() -> None:
        held = Held()
        model = ScriptedModel(["First.", held.answer])
        async with asyncio.timeout(20), AgentRuntime([Agent("a", model=model)]) as runtime:
            app = runtime.asgi()
            headers = JSON | {"idempotency-key": "k"}
            first = await post(app, headers, thread_id="t", on_busy="reject")
            other = asyncio.ensure_future(post(app, thread_id="t"))
            await held.asked.wait()
            again = await post(app, headers, thread_id="t", on_busy="reject")
            assert again.json["run_id"] == first.json["run_id"]
            held.free.set()
            await other

    asyncio.run(main())
