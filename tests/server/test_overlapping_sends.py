"""Two sends of one chat at the same moment: every message is in it once, and none is refused.

Sampled; with FULL=1 in the environment all 2,000 pairs of each wire are played.
"""

import asyncio
import os
import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from awaken import Agent, AgentRuntime, MailboxConfig, TextDelta
from awaken.messages import Role
from awaken.models import InferenceRequest, ModelEvent, Stop, StopReason
from awaken.stores import MemoryStore

from .in_process import Answer, Request

PAIRS = 2_000 if os.environ.get("FULL") == "1" else 200
AT_ONCE = 20
QUICK = MailboxConfig(poll_ms=10, lease_ms=20_000, renew_ms=500)
Said = list[tuple[str, str]]
Send = Callable[[Any, str, Said], Awaitable[Answer]]


class Unsteady:
    """A model that lets others go first, now and then."""

    name = "unsteady"

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)

    async def stream(self, _: InferenceRequest) -> AsyncGenerator[ModelEvent, None]:
        for _ in range(self._chance.choice((0, 0, 1, 5, 30))):
            await asyncio.sleep(0)
        yield TextDelta(delta="an answer")
        yield Stop(reason=StopReason.END_TURN)


async def ai_sdk(app: Any, chat_id: str, said: Said) -> Answer:
    messages = [
        {"id": id_, "role": role, "parts": [{"type": "text", "text": id_}]} for role, id_ in said
    ]
    body = {"id": chat_id, "messages": messages, "trigger": "submit-message"}
    return await whole(app, "/v1/ai-sdk/chat", body)


async def ag_ui(app: Any, chat_id: str, said: Said) -> Answer:
    messages = [{"id": id_, "role": role, "content": id_} for role, id_ in said]
    return await whole(app, "/v1/ag-ui/run", {"threadId": chat_id, "messages": messages})


async def native(app: Any, chat_id: str, said: Said) -> Answer:
    fresh = said[_last_answer(said) :]
    messages = [{"id": id_, "role": role, "content": id_} for role, id_ in fresh]
    return await whole(
        app, "/v1/runs", {"agentId": "default", "threadId": chat_id, "messages": messages}
    )


async def whole(app: Any, path: str, body: Any) -> Answer:
    request = Request(app, "POST", path, body=body, headers={"content-type": "application/json"})
    async with asyncio.timeout(60):
        await request.task
    return request.answer


def _last_answer(said: Said) -> int:
    return max((at for at, it in enumerate(said, 1) if it[0] == "assistant"), default=0)


def pair(chance: random.Random, history: Said) -> tuple[Said, Said]:
    """Two histories that overlap in what is new."""
    one, two = [*history, ("user", "m1")], [*history, ("user", "m1"), ("user", "m2")]
    kinds = [(one, two), (two, one), (one, one), (two, two), (one, [*history, ("user", "m3")])]
    return chance.choice(kinds)


async def later(turns: int, sending: Awaitable[Answer]) -> Answer:
    for _ in range(turns):
        await asyncio.sleep(0)
    return await sending


async def play(apps: list[Any], send: Send, seed: int) -> None:
    """One chat: perhaps a first turn, then two sends at once, by one server or by two."""
    chance, chat_id, history = random.Random(seed), f"chat-{seed}", Said()
    if chance.random() < 0.5:
        answer = await send(apps[0], chat_id, [("user", "m0")])
        assert answer.status == 200, answer.body
        history = [("user", "m0"), ("assistant", "a0")]
    first, second = pair(chance, history)
    answers = await asyncio.gather(
        later(chance.choice((0, 0, 1, 3, 10, 40)), send(chance.choice(apps), chat_id, first)),
        later(chance.choice((0, 0, 1, 3, 10, 40)), send(chance.choice(apps), chat_id, second)),
    )
    assert [it.status for it in answers] == [200, 200], (seed, [it.body for it in answers])
    wanted = {id_ for role, id_ in (*first, *second) if role == "user"}
    runtime: AgentRuntime = apps[0].runtime
    await settled(runtime, chat_id)
    said = [it.message for it in await runtime.messages(chat_id)]
    asked = [it.id for it in said if it.role is Role.USER]
    assert sorted(asked) == sorted(wanted), (seed, asked, wanted)
    assert [id_ for id_ in asked if id_ in ("m1", "m2")] == sorted({"m1", "m2"} & wanted)
    runs = await runtime.list_runs(chat_id)
    assert all(run.termination is not None for run in runs), seed


async def settled(runtime: AgentRuntime, chat_id: str) -> None:
    """Wait until nothing is queued and no run is open."""
    async with asyncio.timeout(30):
        for run in await runtime.list_runs(chat_id):
            await runtime.wait(run.run_id)


class Served:
    """An app, and the runtime that it serves."""

    def __init__(self, runtime: AgentRuntime) -> None:
        self.runtime = runtime
        self.app = runtime.asgi()

    async def __call__(self, *told: Any) -> None:
        await self.app(*told)


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("send", [ai_sdk, ag_ui, native], ids=lambda it: it.__name__)
def test_every_message_is_there_once(send: Send, processes: int) -> None:
    async def main() -> None:
        store = MemoryStore(is_shared=processes > 1)
        async with AsyncExitStack() as stack:
            apps = []
            for number in range(processes):
                agent = Agent("default", model=Unsteady(number))
                runtime = AgentRuntime([agent], store=store, mailbox=QUICK)
                apps.append(Served(await stack.enter_async_context(runtime)))
            await _all(apps, send, range(PAIRS // 2))

    asyncio.run(main())


@pytest.mark.parametrize("send", [ai_sdk, ag_ui], ids=lambda it: it.__name__)
def test_every_message_is_there_once_on_disk(send: Send, tmp_path: Path) -> None:
    async def main() -> None:
        store = f"sqlite:///{tmp_path}/pairs.db"
        agent = Agent("default", model=Unsteady(0))
        async with AgentRuntime([agent], store=store, mailbox=QUICK) as runtime:
            await _all([Served(runtime)], send, range(PAIRS // 10))

    asyncio.run(main())


async def _all(apps: list[Any], send: Send, seeds: range) -> None:
    for begin in range(seeds.start, seeds.stop, AT_ONCE):
        some = range(begin, min(begin + AT_ONCE, seeds.stop))
        await asyncio.gather(*(play(apps, send, seed) for seed in some))
