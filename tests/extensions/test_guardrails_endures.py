"""Guardrails hold over a wait, a restart, a change of agent and a call from above."""

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from tests.sqlite_dump import dump_sqlite

from awaken import Agent, AgentRuntime, Blocked, RunResult
from awaken.errors import PluginFailed
from awaken.extensions.guardrails import GuardrailsPlugin
from awaken.extensions.guardrails.reviews import REVIEW
from awaken.extensions.handoff import HandoffPlugin
from awaken.redaction.detectors import Finding
from awaken.testing import ScriptedModel, ToolCalls, assert_valid_transcript

from .enduring import BOUND_S, CONFIG, NewStore, both_stores, durable

KEY = "AKIAABCDEFGHIJKLMNOP"


def guarded(name: str, model: ScriptedModel, action: str, *places: str, **more: Any) -> Agent:
    rules = [{"name": "keys", "on": list(places), "action": action, "detect": ["secrets"]}]
    plugins = [GuardrailsPlugin(), *more.pop("plugins", ())]
    config = {"guardrails": {"rules": rules}}
    return Agent(name, model=model, plugins=plugins, config=config, **more)


@both_stores
@pytest.mark.parametrize("place", ["input", "output"])
def test_a_review_outlives_the_process_that_asked_for_it(new_store: NewStore, place: str) -> None:
    async def asked() -> RunResult:
        agent = guarded("a", ScriptedModel([f"It is {KEY}."]), "ask", place)
        async with durable(new_store, [agent]) as runtime:
            result = await runtime.run("a", f"is it {KEY}?", thread_id="t")
            assert result.is_waiting
            return result

    async def answered(result: RunResult) -> None:
        model = ScriptedModel([f"It is {KEY}."] if place == "input" else [])
        async with durable(new_store, [guarded("a", model, "ask", place)]) as runtime:
            (ticket,) = await runtime.tickets("t")
            assert ticket.tool_name == REVIEW
            await runtime.decide(ticket.ticket_id)
            ended = await runtime.wait(result.run_id, timeout_ms=BOUND_S * 1000)
            assert ended.text == f"It is {KEY}."
            assert_valid_transcript([it.message for it in await runtime.messages("t")])

    asyncio.run(answered(asyncio.run(asked())))


@both_stores
def test_each_agent_of_a_handoff_has_its_own_rules(new_store: NewStore) -> None:
    async def scenario() -> None:
        first = ScriptedModel([ToolCalls([("transfer_to_agent", {"agent_id": "second"})])])
        second = ScriptedModel([f"It is {KEY}."])
        agents = [
            guarded("first", first, "redact", "input", plugins=[HandoffPlugin({"second": "all"})]),
            guarded("second", second, "block", "output"),
        ]
        async with durable(new_store, agents) as runtime:
            result = await runtime.run("first", f"is it {KEY}?", thread_id="t")
            assert isinstance(result.termination, Blocked)
            assert KEY not in repr(await runtime.messages("t"))
            assert KEY not in repr(second.requests)

    asyncio.run(scenario())


@both_stores
def test_a_delegate_is_guarded_in_a_run_of_its_own(new_store: NewStore) -> None:
    async def scenario() -> None:
        boss = ScriptedModel([ToolCalls([("agent_run_worker", {"prompt": f"use {KEY}"})]), "ok"])
        worker = ScriptedModel(["done"])
        agents = [
            Agent("boss", model=boss, delegates=["worker"]),
            guarded("worker", worker, "redact", "input"),
        ]
        async with durable(new_store, agents) as runtime:
            result = await runtime.run("boss", "go", thread_id="t")
            assert result.text == "ok"
            (child,) = [it for it in await runtime.list_runs() if it.parent_run_id]
            said = [it.message.text for it in await runtime.messages(child.thread_id)]
            assert said == ["use [secrets.aws_key]", "done"]
            assert KEY not in repr(worker.requests)

    asyncio.run(scenario())


@pytest.mark.parametrize("action", ["redact", "block"])
def test_no_secret_rests_in_input_that_is_queued(tmp_path: Path, action: str) -> None:
    path = tmp_path / "a.db"
    url = f"sqlite:///{path}"

    async def scenario() -> None:
        model = ScriptedModel(["fine"], cycle=True)
        agents = [guarded("a", model, action, "input"), Agent("open", model=model)]
        async with AgentRuntime(agents, store=url, has_worker=False) as runtime:
            await runtime.run("a", "hello", thread_id="t")
            first = await runtime.submit("a", f"my key is {KEY}", thread_id="t")
            # Without a name it is for the agent that the thread is with.
            await runtime.submit(None, f"again, {KEY}", thread_id="t", mode="steer")
            assert KEY.encode() not in dump_sqlite(path)
            await runtime.submit("open", f"mine is {KEY}", thread_id="u")
            assert f"mine is {KEY}".encode() in dump_sqlite(path)
        async with AgentRuntime(agents, store=url, mailbox=CONFIG) as runtime:
            result = await runtime.wait(first.run_id, timeout_ms=BOUND_S * 1000)
            assert isinstance(result.termination, Blocked) is (action == "block")
            said = [it.message.text for it in await runtime.messages("t")]
            assert "[secrets.aws_key]" in said[2] or said[2].startswith("[blocked by guardrail")
            assert KEY not in repr(said)

    asyncio.run(scenario())


def test_a_screen_that_fails_lets_nothing_be_queued() -> None:
    async def scenario() -> None:
        agent = Agent(
            "a",
            model=ScriptedModel([]),
            plugins=[GuardrailsPlugin([Failing()])],
            config={
                "guardrails": {"rules": [{"name": "f", "on": ["input"], "detect": ["failing"]}]}
            },
        )
        async with AgentRuntime([agent]) as runtime:
            with pytest.raises(PluginFailed, match="guardrails"):
                await runtime.submit("a", "hello", thread_id="t")
            assert await runtime.store.count_queued() == 0

    asyncio.run(scenario())


class Failing:
    kind = "failing"

    def find(self, text: str) -> Iterable[Finding]:
        raise RuntimeError(text)
