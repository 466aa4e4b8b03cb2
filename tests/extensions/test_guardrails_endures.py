"""Guardrails hold over a wait, a restart, a change of agent and a call from above."""

import asyncio
from typing import Any

import pytest

from awaken import Agent
from awaken.contracts.lifecycle import Blocked
from awaken.contracts.runs import RunResult
from awaken.extensions.guardrails import GuardrailsPlugin
from awaken.extensions.guardrails.reviews import REVIEW
from awaken.extensions.handoff import HandoffPlugin
from awaken.testing import ScriptedModel, ToolCalls, assert_valid_transcript

from .enduring import BOUND_S, NewStore, both_stores, durable

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
