"""Runs whose plugins did something verify as the same: what plugins do is part of the recording."""

import asyncio
from typing import Any

import msgspec
import pytest
from opentelemetry.sdk.trace import TracerProvider

from awaken import Agent, AgentRuntime, Timeout, ToolContext, tool
from awaken.contracts.lifecycle import Cancelled, Stopped
from awaken.contracts.models.errors import ContextOverflow
from awaken.evals import Recording
from awaken.extensions.deferred_tools import DeferredToolsPlugin
from awaken.extensions.deferred_tools.state import LOADED_TOOLS, Shift
from awaken.extensions.observability import ObservabilityPlugin, Providers
from awaken.extensions.permission import PermissionPlugin, ask
from awaken.models import Budget, BudgetScope, InferenceRequest, TokenUsage
from awaken.testing import LoopClock, ScriptedModel, ToolCalls, Turn, run_in_virtual_time


@tool(effect="none")
async def sales(year: int) -> str:
    """The sales of a year."""
    return f"{year}: fine"


def test_a_tool_that_was_searched_for_is_loaded_again() -> None:
    async def main() -> None:
        script = [ToolCalls([("ToolSearch", {"query": "select:sales"})])]
        model = ScriptedModel([*script, ToolCalls([("sales", {"year": 2026})]), "Fine."])
        agent = Agent(
            "analyst",
            model=model,
            tools=[sales],
            plugins=[DeferredToolsPlugin()],
            config={"deferred_tools": {"enabled": True}},
        )
        async with AgentRuntime([agent], history="full") as runtime:
            done = await runtime.run("analyst", "How are sales?")
            recording: Recording = await runtime.replays.record(done.run_id)
            (search,) = recording.steps[0].calls
            assert [it[0] for it in search.updates] == [LOADED_TOOLS.name]
            same = await runtime.replays.verify(recording)
            assert same.is_same, same.divergences

    asyncio.run(main())
    # A process that takes a run over reads the updates of its calls in the same way.
    shift = Shift(agent_id="analyst", turn=1, load=("sales",))
    kept: Any = LOADED_TOOLS.encode_update(shift)
    loaded = LOADED_TOOLS.apply_update({}, LOADED_TOOLS.decode_update(kept))
    assert loaded["analyst"].active_tools == {"sales": 1}


@tool
async def sign(ctx: ToolContext) -> Any:
    """Have a person sign."""
    return ctx.suspend("Sign?") if ctx.resume is None else "signed"


def test_the_ids_of_a_trace_are_no_difference() -> None:
    async def main() -> None:
        plugin = ObservabilityPlugin(providers=Providers(tracers=TracerProvider()))
        agent = Agent("a", model=ScriptedModel([ToolCalls([("sign", {})]), "Done."]), tools=[sign])
        async with AgentRuntime([agent], everywhere=[plugin], history="full") as runtime:
            waiting = await runtime.run("a", "Go.")
            await runtime.decide(waiting.tickets[0].ticket_id)
            done = await runtime.wait(waiting.run_id)
            recording = await runtime.replays.record(done.run_id)
            assert any("observability.spans" in step.state for step in recording.steps)
            same = await runtime.replays.verify(recording)
            assert same.is_same, same.divergences

    asyncio.run(main())


@tool(effect="none", timeout=7200)
async def wait_an_hour() -> str:
    """Take an hour, of virtual time."""
    await asyncio.sleep(3600)
    return "nothing yet"


def test_a_run_that_was_stopped_behind_its_tools_stops_there_again() -> None:
    async def main() -> None:
        script = ScriptedModel([ToolCalls([("wait_an_hour", {})])], cycle=True)
        stop = [Timeout(seconds=5400)]
        agent = Agent("watcher", model=script, tools=[wait_an_hour], stop=stop)
        async with AgentRuntime([agent], clock=LoopClock(), history="full") as runtime:
            done = await runtime.run("watcher", "Wait.")
            recording = await runtime.replays.record(done.run_id)
            assert len(recording.steps) == 2
            same = await runtime.replays.verify(recording)
            assert same.is_same, same.divergences

    run_in_virtual_time(main)


def test_a_wait_for_a_person_is_no_time_of_the_replayed_run() -> None:
    async def main() -> None:
        calls = [ToolCalls([("sign", {})]), ToolCalls([("wait_an_hour", {})])]
        agent = Agent(
            "patient",
            model=ScriptedModel([*calls, *calls, "Done."]),
            tools=[sign, wait_an_hour],
            stop=[Timeout(seconds=9000)],
        )
        async with AgentRuntime([agent], clock=LoopClock(), history="full") as runtime:
            done = await runtime.run("patient", "Go.")
            while done.tickets:
                await asyncio.sleep(86_400)
                await runtime.decide(done.tickets[0].ticket_id)
                done = await runtime.wait(done.run_id)
            assert done.text == "Done."
            same = await runtime.replays.verify(done.run_id)
            assert same.is_same, same.divergences

    run_in_virtual_time(main)


@tool
async def bash(command: str) -> str:
    """Run a command."""
    return f"ran {command}"


def test_a_budget_of_time_stops_a_run_that_waited_for_people_where_it_did() -> None:
    async def main() -> None:
        calls = [ToolCalls([("sign", {})]), ToolCalls([("wait_an_hour", {})])]
        model = ScriptedModel(calls, cycle=True)
        agent = Agent("patient", model=model, tools=[sign, wait_an_hour])
        budgets = [Budget(time_ms=9_000_000)]
        async with AgentRuntime(
            [agent], clock=LoopClock(), history="full", budgets=budgets
        ) as runtime:
            done = await runtime.run("patient", "Go.")
            while done.tickets:
                await asyncio.sleep(86_400)
                await runtime.decide(done.tickets[0].ticket_id)
                done = await runtime.wait(done.run_id)
            assert isinstance(done.termination, Stopped)
            same = await runtime.replays.verify(done.run_id)
            assert same.is_same, same.divergences

    run_in_virtual_time(main)


@pytest.mark.parametrize("scope", ["run", "thread", "project"])
@pytest.mark.parametrize("action", ["resume", "cancel"])
def test_what_was_decided_for_later_calls_is_decided_again(scope: str, action: str) -> None:
    async def main() -> None:
        model = ScriptedModel(
            [
                ToolCalls([("bash", {"command": "make test"})]),
                ToolCalls([("bash", {"command": "make lint"})]),
                "Done.",
            ]
        )
        permission = PermissionPlugin([ask("bash(make *)", scope="project")])
        agent = Agent("developer", model=model, tools=[bash], plugins=[permission])
        async with AgentRuntime([agent], history="full") as runtime:
            waiting = await runtime.run("developer", "Is it ready?", thread_id="t")
            (ticket,) = waiting.tickets
            await runtime.decide(ticket.ticket_id, action, remember={"scope": scope})
            done = await runtime.wait(waiting.run_id)
            assert done.text == "Done.", "the second call was asked about"
            same = await runtime.replays.verify(done.run_id)
            assert same.is_same, same.divergences
            for answer in await runtime.remembered.list(thread_id="t"):
                await runtime.remembered.forget(answer.id, thread_id="t")
            same = await runtime.replays.verify(done.run_id)
            assert same.is_same, same.divergences

    asyncio.run(main())


def test_a_request_that_a_provider_found_too_long_is_shortened_again() -> None:
    words = "word " * 60

    def answer(request: InferenceRequest) -> Turn:
        if len(request.messages) > 8:
            raise ContextOverflow("too long")
        return Turn(f"Answer. {words}")

    async def main() -> None:
        policy = {"max_context_tokens": 100_000, "min_recent_messages": 2}
        model = ScriptedModel([answer] * 20)
        agent = Agent("a", model=model, instructions="Answer.", context_policy=policy)
        async with AgentRuntime([agent], history="full") as runtime:
            for _ in range(6):
                done = await runtime.run("a", f"Question. {words}", thread_id="t")
            assert len(model.requests) > 6, "no request was too long"
            same = await runtime.replays.verify(done.run_id)
            assert same.is_same, same.divergences

    asyncio.run(main())


@pytest.mark.parametrize("steps", [0, 1, 2])
def test_a_run_that_was_cancelled_between_or_behind_its_steps_ends_there_again(steps: int) -> None:
    async def main() -> None:
        script = [ToolCalls([("sales", {"year": 2026})]), "Fine."]
        agent = Agent("a", model=ScriptedModel(script), tools=[sales])
        async with AgentRuntime([agent], history="full") as runtime:
            done = await runtime.run("a", "How are sales?")
            recording = await runtime.replays.record(done.run_id)
            # As if it had been cancelled when no model was asked and no tool was executed.
            said = recording.run.final_output if steps == 2 else None
            run = msgspec.structs.replace(
                recording.run, termination=Cancelled(), final_output=said, duration_ms=None
            )
            cut = msgspec.structs.replace(recording, run=run, steps=recording.steps[:steps])
            same = await runtime.replays.verify(cut)
            assert same.is_same, same.divergences
            assert same.ended == "cancelled"

    asyncio.run(main())


def test_a_budget_that_others_have_used_up_since_stops_no_recorded_answer() -> None:
    async def main() -> None:
        usage = TokenUsage(prompt_tokens=100, completion_tokens=300, total_tokens=400)
        policy = {"max_output_tokens": 100}
        model = ScriptedModel([Turn("ok", usage=usage)] * 9)
        agent = Agent("a", model=model, instructions="x", context_policy=policy)
        budgets = [Budget(scope=BudgetScope.TENANT, tokens=1_000)]
        async with AgentRuntime([agent], history="full", budgets=budgets) as runtime:
            runs = [await runtime.run("a", "hi", tenant_id="acme") for _ in range(4)]
            assert isinstance(runs[-1].termination, Stopped), "the budget is not used up"
            same = await runtime.replays.verify(runs[0].run_id)
            assert same.is_same, same.divergences
            # A live model would be paid for.
            tried = await runtime.replays.what_if(runs[0].run_id, instructions="y")
            assert tried.ended == "stopped"

    asyncio.run(main())


@pytest.mark.parametrize("effect", ["none", "once"])
@pytest.mark.parametrize("result", [None, {"no": True}])
def test_a_call_that_asked_by_itself_and_was_declined_asks_again(effect: Any, result: Any) -> None:
    @tool(effect=effect)
    async def ask_first(ctx: ToolContext) -> Any:
        """Ask."""
        return ctx.suspend("May I?")

    async def main() -> None:
        model = ScriptedModel([ToolCalls([("ask_first", {})]), "Then not."])
        agent = Agent("a", model=model, tools=[ask_first])
        async with AgentRuntime([agent], history="full") as runtime:
            waiting = await runtime.run("a", "Go.")
            await runtime.decide(waiting.tickets[0].ticket_id, "cancel", result=result)
            done = await runtime.wait(waiting.run_id)
            assert done.text == "Then not."
            same = await runtime.replays.verify(done.run_id)
            assert same.is_same, same.divergences

    asyncio.run(main())


@pytest.mark.parametrize("place", ["in the queue", "between two steps"])
def test_a_time_in_which_no_process_had_the_run_is_none_that_a_limit_counts(place: str) -> None:
    async def main() -> None:
        model = ScriptedModel([ToolCalls([("wait_an_hour", {})]), "Done."])
        agent = Agent("patient", model=model, tools=[wait_an_hour])
        budgets = [Budget(time_ms=4_000_000)]
        async with AgentRuntime(
            [agent], clock=LoopClock(), history="full", budgets=budgets
        ) as runtime:
            done = await runtime.run("patient", "Go.")
            assert done.text == "Done."
            recording = await runtime.replays.record(done.run_id)
            # As if it had waited, or its process had died and another one had taken it over.
            first = 0 if place == "in the queue" else 1
            later = [
                msgspec.structs.replace(it, at=it.at + 3_000_000) if number >= first else it
                for number, it in enumerate(recording.steps)
            ]
            took = (recording.run.duration_ms or 0) + 3_000_000
            run = msgspec.structs.replace(recording.run, duration_ms=took)
            late = msgspec.structs.replace(recording, run=run, steps=tuple(later))
            same = await runtime.replays.verify(late)
            assert same.is_same, same.divergences

    run_in_virtual_time(main)


@tool
async def ask_person(question: str, ctx: ToolContext) -> Any:
    """Ask a person."""
    return ctx.suspend(question) if ctx.resume is None else "asked"


def test_a_message_that_came_instead_of_the_second_question_of_a_call_comes_there_again() -> None:
    async def main() -> None:
        model = ScriptedModel([ToolCalls([("ask_person", {"question": "Now?"})]), "Well."])
        permission = PermissionPlugin([ask("ask_person")])
        agent = Agent("a", model=model, tools=[ask_person], plugins=[permission])
        async with AgentRuntime([agent], history="full") as runtime:
            waiting = await runtime.run("a", "Go.", thread_id="t")
            await runtime.decide(waiting.tickets[0].ticket_id)
            asked = await runtime.wait(waiting.run_id)
            assert [it.asked_by for it in asked.tickets] == [""]
            done = await runtime.run("a", "Never mind.", thread_id="t")
            assert done.run_id == waiting.run_id
            assert done.text == "Well."
            recording = await runtime.replays.record(done.run_id)
            assert len(recording.steps[0].calls[0].decisions) == 2
            same = await runtime.replays.verify(recording)
            assert same.is_same, same.divergences

    asyncio.run(main())
