"""Requests that are built again from the log equal those that were sent, or say why not."""

import asyncio
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest

from awaken import Agent, AgentRuntime, tool
from awaken.contracts.errors import RecordNotFound, UnknownRun
from awaken.contracts.events import InferenceComplete
from awaken.contracts.messages.message import Transcript, user
from awaken.contracts.models.inference import ContextWindowPolicy, InferenceOverride
from awaken.runtime.context.digests import MessageDigest
from awaken.services.step_requests import read_step_request
from awaken.services.timeline import read_timeline
from awaken.services.view import TenantView
from awaken.testing import ScriptedModel, ToolCalls


@tool(effect="none")
async def look_up(key: str) -> str:
    """Look something up."""
    return f"value of {key} " * 20


@tool(effect="idempotent")
async def write_down(text: str) -> str:
    """Write something down."""
    return text


def script(rng: random.Random) -> list[Any]:
    answers: list[Any] = []
    for number in range(rng.randrange(0, 4)):
        calls = [("look_up", {"key": f"k{number}{place}"}) for place in range(rng.randrange(1, 4))]
        if rng.random() < 0.4:
            calls.append(("write_down", {"text": "é" * rng.randrange(1, 9)}))
        answers.append(ToolCalls(calls))
    return [*answers, f"Done {rng.random()}."]


def view_of(runtime: AgentRuntime, tenant_id: str | None = None) -> TenantView:
    return runtime._services.view(tenant_id)


@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_every_request_of_generated_runs_is_rebuilt_exactly(store: str, tmp_path: Path) -> None:
    asyncio.run(_check_generated(store, tmp_path))


async def _check_generated(store: str, tmp_path: Path) -> None:
    rng = random.Random(17)
    checked = shortened = 0
    for case in range(25):
        answers = [it for _ in range(2) for it in script(rng)]
        policy = None
        if rng.random() < 0.4:
            policy = ContextWindowPolicy(
                max_context_tokens=300, max_output_tokens=50, min_recent_messages=1
            )
        agent = Agent(
            "a",
            instructions=f"Case {case}.",
            model=ScriptedModel(answers),
            tools=[look_up, write_down],
            context_policy=policy,
        )
        place = "memory" if store == "memory" else f"sqlite:///{tmp_path / f'{case}.db'}"
        options: dict[str, Any] = {} if store == "memory" else {"store": place}
        overrides = InferenceOverride(temperature=0.5) if rng.random() < 0.4 else None
        async with AgentRuntime([agent], **options) as runtime:
            view = view_of(runtime)
            for turn in range(2):
                done = await runtime.run("a", f"turn {turn}", thread_id="t", overrides=overrides)
                for number in range(1, done.steps + 1):
                    found = await read_step_request(view, done.run_id, number)
                    assert found.is_exact, (case, turn, number, found.reason, policy)
                    assert found.reason is None
                    checked += 1
                events = await view.run_events(done.run_id, 0, 100)
                shortened += sum(getattr(it.event, "sent_from", 0) > 0 for it in events)
    assert checked > 50
    assert shortened > 5


def test_a_handoff_and_a_changed_agent_are_found_by_the_digest() -> None:
    asyncio.run(_check_handoff())


async def _check_handoff() -> None:
    first = ScriptedModel([ToolCalls([("look_up", {"key": "a"})]), "One."])
    agents = [
        Agent("a", instructions="First.", model=first, tools=[look_up]),
        Agent("b", instructions="Second.", model=ScriptedModel(["Two."])),
    ]
    async with AgentRuntime(agents) as runtime:
        view = view_of(runtime)
        one = await runtime.run("a", "hello", thread_id="t")
        two = await runtime.run("b", "again", thread_id="t")
        found = await read_step_request(view, two.run_id, 1)
        assert (found.agent_id, found.is_exact) == ("b", True)
        second = await read_step_request(view, one.run_id, 2)
        assert second.is_exact
        assert second.stable_messages == 1
        assert second.request["messages"][0].keys() <= {"role", "content"}
        with pytest.raises(RecordNotFound):
            await read_step_request(view, one.run_id, 3)
        with pytest.raises(UnknownRun):
            await read_step_request(view_of(runtime, "other"), one.run_id, 1)
        with pytest.raises(UnknownRun):
            await read_timeline(view_of(runtime, "other"), one.run_id)


def test_digests_do_not_depend_on_ids_or_on_where_a_run_began() -> None:
    asyncio.run(_check_digests())


async def _check_digests() -> None:
    async def digests(turns: list[str]) -> list[str | None]:
        call = ToolCalls([("look_up", {"key": "a"}), ("look_up", {"key": "b"})])
        model = ScriptedModel([call, "Done."], cycle=True)
        found: list[str | None] = []
        async with AgentRuntime([Agent("a", model=model, tools=[look_up])]) as runtime:
            for text in turns:
                done = await runtime.run("a", text, thread_id="t")
                events = await view_of(runtime).run_events(done.run_id, 0, 100)
                found += [
                    it.event.request_digest
                    for it in events
                    if isinstance(it.event, InferenceComplete)
                ]
        return found

    one = await digests(["x", "y", "z"])
    assert one == await digests(["x", "y", "z"])
    assert len({*one}) == len(one) == 6
    assert len({(it or "")[:16] for it in one}) == 1
    other = await digests(["x", "Y", "z"])
    assert [mine == its for mine, its in zip(one, other, strict=True)] == [True] * 2 + [False] * 4


def test_the_digest_of_a_long_transcript_is_that_of_its_length_and_its_end() -> None:
    messages = [user(f"message {number}") for number in range(70)]
    found = []
    for count in range(1, 70):
        followed = MessageDigest()
        for part in range(count % 7, count + 1, 7):
            digest = followed.follow(Transcript(messages[:part]))
        found.append(digest)
        nested = Transcript(Transcript(messages[: count // 2]))
        for message in messages[count // 2 : count]:
            nested.append(message)
        assert digest == MessageDigest().follow(nested), count
    assert len({*found}) == len(found)
    # Other words at the end, and the same words at another place, are other questions.
    changed = [*messages[:61], user("changed"), *messages[62:]]
    assert MessageDigest().follow(Transcript(changed)) != MessageDigest().follow(
        Transcript(messages)
    )
    equal = [user("again") for _ in range(80)]
    lengths = {MessageDigest().follow(Transcript(equal[:count])) for count in range(1, 80)}
    assert len(lengths) == 79


async def _run_rounds(count: int) -> None:
    rounds: list[Any] = [ToolCalls([("look_up", {"key": f"k{it}"})]) for it in range(count)]
    agent = Agent("a", model=ScriptedModel([*rounds, "Done."]), tools=[look_up], max_rounds=count)
    async with AgentRuntime([agent]) as runtime:
        done = await runtime.run("a", "hello")
        for number in range(1, done.steps + 1):
            found = await read_step_request(view_of(runtime), done.run_id, number)
            assert found.is_exact, (number, found.reason)


def test_each_request_of_a_run_with_many_steps_is_rebuilt_exactly() -> None:
    asyncio.run(_run_rounds(20))


def test_the_timeline_has_steps_with_model_and_tool_calls_in_order() -> None:
    asyncio.run(_check_timeline())


async def _check_timeline() -> None:
    model = ScriptedModel([ToolCalls([("write_down", {"text": "secret words"})]), "Done."])
    async with AgentRuntime([Agent("a", model=model, tools=[write_down])]) as runtime:
        done = await runtime.run("a", "hello")
        page = await read_timeline(view_of(runtime), done.run_id)
        assert [(it.kind, it.n) for it in page.spans] == [("step", 1), ("step", 2)]
        inference, call = page.spans[0].children
        assert (inference.kind, call.kind, call.tool) == ("model", "tool", "write_down")
        assert (call.outcome, str(call.effect), call.attempts) == ("succeeded", "idempotent", 1)
        assert not inference.is_estimated
        assert not call.is_estimated
        assert inference.start + (inference.ms or 0) <= call.start
        assert page.next_cursor is None
        assert page.duration_ms is not None
        assert b"secret" not in msgspec.json.encode(page)
