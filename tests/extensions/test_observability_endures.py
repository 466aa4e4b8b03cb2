"""Telemetry across waits, restarts, handoffs and delegations, on every durable store."""

import asyncio
from typing import Any

from awaken import Agent, ToolContext, tool
from awaken.contracts.tracing import trace_of
from awaken.extensions.handoff import HandoffPlugin
from awaken.testing import ScriptedModel, ToolCalls

from .enduring import BOUND_S, NewStore, both_stores, durable
from .telemetry_world import Telemetry, is_below, said

GIVEN = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
ASKS = ToolCalls([("approve", {"what": "this"})])


@tool
async def approve(what: str, ctx: ToolContext) -> Any:
    """Ask somebody."""
    return ctx.suspend(f"{what}?") if ctx.resume is None else "approved"


def asker(*script: Any, **options: Any) -> Agent:
    return Agent("a", model=ScriptedModel(list(script)), tools=[approve], **options)


def bounded(scenario: Any) -> None:
    asyncio.run(asyncio.wait_for(scenario, BOUND_S))


def check_linked(seen: Telemetry) -> None:
    """Two spans of one run in its caller's trace, the second linked to the first."""
    first, second = list_executions(seen, "a")
    assert said(first)["awaken.run.id"] == said(second)["awaken.run.id"]
    assert said(second)["awaken.run.is_continued"] is True
    (link,) = second.links
    assert link.context.span_id == first.context.span_id
    for span in (first, second):
        assert span.parent is not None
        assert f"{span.parent.trace_id:032x}-{span.parent.span_id:016x}" == GIVEN[3:52]
    assert is_below(seen.named("chat")[1], second)


def list_executions(seen: Telemetry, agent: str) -> list[Any]:
    """The spans of an agent's runs, without those that another worker was faster with.

    A worker that finds the thread claimed ends its span with that error, and has written nothing.
    """
    spans = seen.named(f"invoke_agent {agent}")
    return [it for it in spans if said(it).get("error.type") != "thread_claimed"]


@both_stores
def test_a_run_that_waited_goes_on_in_a_span_linked_to_the_first(new_store: NewStore) -> None:
    seen = Telemetry()

    async def scenario() -> None:
        agent = asker(ASKS, "Done.")
        async with durable(new_store, [agent], everywhere=[seen.plugin()]) as runtime:
            waiting = await runtime.run("a", "go", trace=trace_of(GIVEN))
            await runtime.decide(waiting.tickets[0].ticket_id, "resume")
            assert (await runtime.wait(waiting.run_id)).text == "Done."

    bounded(scenario())
    check_linked(seen)


@both_stores
def test_a_run_that_goes_on_in_another_process_is_linked_as_well(new_store: NewStore) -> None:
    seen = Telemetry()

    async def scenario() -> None:
        async with durable(new_store, [asker(ASKS)], everywhere=[seen.plugin()]) as first:
            waiting = await first.run("a", "go", trace=trace_of(GIVEN))
        async with durable(new_store, [asker("Done.")], everywhere=[seen.plugin()]) as second:
            await second.decide(waiting.tickets[0].ticket_id, "resume")
            assert (await second.wait(waiting.run_id)).text == "Done."

    bounded(scenario())
    check_linked(seen)


@both_stores
def test_a_plugin_may_come_or_go_while_a_run_waits(new_store: NewStore) -> None:
    seen = Telemetry()

    async def scenario() -> None:
        async with durable(new_store, [asker(ASKS, ASKS)], everywhere=[seen.plugin()]) as first:
            waiting = await first.run("a", "go", trace=trace_of(GIVEN))
        async with durable(new_store, [asker(ASKS)]) as second:
            await second.decide(waiting.tickets[0].ticket_id, "resume")
            waiting = await second.wait(waiting.run_id)
        async with durable(new_store, [asker("Done.")], everywhere=[seen.plugin()]) as third:
            await third.decide(waiting.tickets[0].ticket_id, "resume")
            assert (await third.wait(waiting.run_id)).text == "Done."

    bounded(scenario())
    spans = list_executions(seen, "a")
    assert len(spans) == 2
    assert {f"{it.context.trace_id:032x}" for it in spans} == {GIVEN[3:35]}


@both_stores
def test_a_handoff_stays_in_the_span_of_the_run(new_store: NewStore) -> None:
    seen = Telemetry()
    over = ToolCalls([("transfer_to_agent", {"agent_id": "b"})])

    async def scenario() -> None:
        agents = [
            asker(over, plugins=[HandoffPlugin({"b": "the rest"})]),
            Agent("b", model=ScriptedModel([ASKS, "Done."]), tools=[approve]),
        ]
        async with durable(new_store, agents, everywhere=[seen.plugin()]) as runtime:
            waiting = await runtime.run("a", "go", trace=trace_of(GIVEN))
            await runtime.decide(waiting.tickets[0].ticket_id, "resume")
            assert (await runtime.wait(waiting.run_id)).text == "Done."

    bounded(scenario())
    first, second = seen.named("invoke_agent")
    names = [it.name for it in first.events]
    assert names == ["awaken.handed_over", "awaken.suspended"]
    assert [said(it)["awaken.agent.id"] for it in seen.named("chat")] == ["a", "b", "b"]
    assert [it.context.span_id for it in second.links] == [first.context.span_id]


@both_stores
def test_a_delegated_run_that_waits_goes_on_in_the_same_trace(new_store: NewStore) -> None:
    seen = Telemetry()
    calls = ToolCalls([("agent_run_a", {"prompt": "help"})])

    async def scenario() -> None:
        agents = [
            Agent("lead", model=ScriptedModel([calls, "All done."]), delegates=["a"]),
            asker(ASKS, "Done."),
        ]
        async with durable(new_store, agents, everywhere=[seen.plugin()]) as runtime:
            waiting = await runtime.run("lead", "go", trace=trace_of(GIVEN))
            await runtime.decide(waiting.tickets[0].ticket_id, "resume")
            assert (await runtime.wait(waiting.run_id)).text == "All done."

    bounded(scenario())
    lead = list_executions(seen, "lead")[0]
    first, second = list_executions(seen, "a")
    assert is_below(first, seen.named("execute_tool agent_run_a")[0])
    assert said(first)["awaken.parent_run.id"] == said(lead)["awaken.run.id"]
    assert {it.context.trace_id for it in seen.spans} == {int(GIVEN[3:35], 16)}
    assert [it.context.span_id for it in second.links] == [first.context.span_id]
