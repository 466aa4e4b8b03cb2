"""The same message sent twice is the same message, whichever way it comes."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from awaken import (
    Agent,
    AgentRuntime,
    InputMode,
    InvalidInput,
    MailboxConfig,
    Message,
    RunRequest,
    RunResult,
    user,
)
from awaken.errors import AlreadySaid, InvalidRecord
from awaken.messages import Role
from awaken.testing import ScriptedModel

QUICK = MailboxConfig(poll_ms=10, lease_ms=20_000, renew_ms=500)
Scenario = Callable[[AgentRuntime], Awaitable[None]]


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str | None:
    return None if request.param == "memory" else f"sqlite:///{tmp_path}/repeats.db"


def played(scenario: Scenario, store: Any) -> None:
    async def main() -> None:
        agent = Agent("a", model=ScriptedModel(["hi"], cycle=True))
        async with (
            asyncio.timeout(30),
            AgentRuntime([agent], store=store, mailbox=QUICK) as runtime,
        ):
            await scenario(runtime)

    asyncio.run(main())


def named(*ids: str) -> tuple[Message, ...]:
    return tuple(replace(user(f"text of {id_}"), id=id_) for id_ in ids)


def request(*messages: Message) -> RunRequest:
    return RunRequest(agent_id="a", thread_id="t", messages=messages)


async def done(runtime: AgentRuntime, wanted: RunRequest) -> RunResult:
    return await runtime.wait((await runtime.start(wanted)).run_id)


async def asked(runtime: AgentRuntime) -> list[str]:
    return [it.message_id for it in await runtime.messages("t") if it.message.role is Role.USER]


def test_a_request_brings_what_is_new_and_nothing_else(store: Any) -> None:
    async def scenario(runtime: AgentRuntime) -> None:
        first = await done(runtime, request(*named("m1")))
        second = await done(runtime, request(*named("m1", "m2")))
        assert await asked(runtime) == ["m1", "m2"]
        record = await runtime.get_run(second.run_id)
        assert (record.input.from_seq, record.input.to_seq) == (3, 3)
        with pytest.raises(AlreadySaid) as said:
            await runtime.start(request(*named("m1")))
        assert (said.value.message_id, said.value.run_id) == ("m1", first.run_id)
        assert len(await runtime.list_runs("t")) == 2

    played(scenario, store)


@pytest.mark.parametrize("mode", [InputMode.QUEUE, InputMode.STEER])
def test_queued_input_that_was_said_comes_to_the_run_that_heard_it(
    store: Any, mode: InputMode
) -> None:
    async def scenario(runtime: AgentRuntime) -> None:
        view = runtime.view("p")
        first = await view.send(request(*named("m1")), mode)
        again = await view.send(request(*named("m1")), mode)
        both = await view.send(request(*named("m1", "m2")), mode)
        results = [await view.wait(it.run_id, 10_000) for it in (first, again, both)]
        assert {it.status for it in results} == {"done"}
        assert await asked(runtime) == ["m1", "m2"]
        stream = await view.follow_run(again.run_id)
        events = [it async for batch in stream.batches() for it in batch]
        assert events

    played(scenario, store)


def test_a_known_id_with_other_words_is_refused(store: Any) -> None:
    async def scenario(runtime: AgentRuntime) -> None:
        await done(runtime, request(*named("m1")))
        with pytest.raises(InvalidRecord):
            await runtime.start(request(replace(user("other words"), id="m1")))
        answer = (await runtime.messages("t"))[-1].message_id
        with pytest.raises(InvalidInput, match="another message"):
            await runtime.start(request(replace(user("mine"), id=answer)))
        assert await asked(runtime) == ["m1"]

    played(scenario, store)


def test_a_request_for_another_place_is_refused(store: Any) -> None:
    async def scenario(runtime: AgentRuntime) -> None:
        view = runtime.view("p")
        here = replace(request(*named("m1")), expected_messages=0)
        started = await view.start(here)
        await view.wait(started.run_id)
        later = replace(request(*named("m2")), expected_messages=0)
        with pytest.raises(Exception, match="version") as refused:
            await view.start(later)
        assert getattr(refused.value, "code", "") == "version_conflict"
        assert await asked(runtime) == ["m1"]

    played(scenario, store)
