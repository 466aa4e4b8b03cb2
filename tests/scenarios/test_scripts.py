"""Short programs: an agent by itself, a run without a loop, text alone."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from awaken import Agent, AgentRuntime, Delegate, RunContext, RunFailed, ToolContext, tool
from awaken.errors import InvalidSpec, Misuse, UnknownAgent
from awaken.testing import Chunks, ScriptedModel, ToolCalls


def test_a_script_runs_an_agent_without_a_loop_and_its_threads_stay() -> None:
    agent = Agent("a", model=ScriptedModel(["One.", "Two."]))
    runtime = AgentRuntime([agent])
    first = runtime.run_sync(agent, "Hi!")
    second = runtime.run_sync("a", "Again.", thread_id=first.thread_id)
    assert (first.text, second.text) == ("One.", "Two.")
    assert second.thread_id == first.thread_id


def test_a_script_on_a_durable_store_goes_on_where_it_was(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/a.db"
    runtime = AgentRuntime([Agent("a", model=ScriptedModel(["One.", "Two."]))], store=store)
    first = runtime.run_sync("a", "Hi!")
    assert runtime.run_sync("a", "Again.", thread_id=first.thread_id).text == "Two."


def test_dependencies_are_opened_for_each_run_of_a_script() -> None:
    log: list[str] = []

    class Pool:
        async def __aenter__(self) -> "Pool":
            log.append("opened")
            return self

        async def __aexit__(self, *_: object) -> None:
            log.append("closed")

    runtime = AgentRuntime([Agent("a", model=ScriptedModel(["x"], cycle=True))], deps=Pool())
    runtime.run_sync("a", "Hi!")
    runtime.run_sync("a", "Hi!")
    assert log == ["opened", "closed"] * 2


def test_a_running_loop_is_named_with_the_way_out() -> None:
    agent = Agent("a", model=ScriptedModel(["x"]))

    async def scenario() -> None:
        runtime = AgentRuntime([agent])
        with pytest.raises(Misuse, match=r"await runtime\.run"):
            runtime.run_sync("a", "Hi!")
        with pytest.raises(Misuse, match="await"):
            agent.run_sync("Hi!")

    asyncio.run(scenario())


def test_an_agent_runs_by_itself() -> None:
    seen: list[Any] = []

    @tool(effect="none")
    async def look(ctx: ToolContext[str, dict[str, int]]) -> str:
        """Look."""
        seen.append((ctx.deps, ctx.context))
        return "seen"

    model = ScriptedModel([ToolCalls([("look", {})]), "[1, 2]"], cycle=True)
    agent = Agent("a", model=model, tools=[look], output_type=list[int])
    assert agent.run_sync("Hi!", context={"x": 1}, deps="d").output == [1, 2]
    assert asyncio.run(agent.run("Hi!", context={"x": 2}, deps="e")).output == [1, 2]
    assert seen == [("d", {"x": 1}), ("e", {"x": 2})]


def test_a_failed_run_raises() -> None:
    with pytest.raises(RunFailed):
        Agent("a", model=ScriptedModel([])).run_sync("Hi!")


def test_an_agent_of_another_program_is_unknown() -> None:
    runtime = AgentRuntime([Agent("a", model=ScriptedModel(["x"]))])
    with pytest.raises(UnknownAgent, match="'b'"):
        runtime.run_sync(Agent("b", model=ScriptedModel(["x"])), "Hi!")


def test_text_alone_is_streamed_and_a_failure_raises() -> None:
    agents = [
        Agent("a", model=ScriptedModel([Chunks(["Hel", "lo", "."])])),
        Agent("broken", model=ScriptedModel([])),
    ]

    async def scenario() -> None:
        async with AgentRuntime(agents) as runtime:
            pieces = [piece async for piece in runtime.stream_text(agents[0], "Hi!")]
            assert pieces == ["Hel", "lo", "."]
            with pytest.raises(RunFailed) as caught:
                async for _ in runtime.stream_text("broken", "Hi!"):
                    pass
            assert caught.value.result.run_id == caught.value.run_id

    asyncio.run(scenario())


@tool(effect="none")
async def hang() -> None:
    """Hang."""
    await asyncio.Event().wait()


def test_leaving_a_text_stream_cancels_its_run() -> None:
    async def scenario() -> None:
        agent = Agent("a", model=ScriptedModel([ToolCalls([("hang", {})], "Hello.")]), tools=[hang])
        async with AgentRuntime([agent]) as runtime:
            texts = runtime.stream_text("a", "Hi!")
            assert await anext(texts) == "Hello."
            await texts.aclose()
            (record,) = await runtime.list_runs()
            assert record.ended == "cancelled"

    asyncio.run(scenario())


def test_a_script_may_ask_an_agent_whose_delegates_are_at_hand() -> None:
    third = Agent("third", model=ScriptedModel(["deep"]))
    ask_third = ToolCalls([("agent_run_third", {"prompt": "go"})])
    second = Agent("second", model=ScriptedModel([ask_third, "low"]), delegates=[third])
    ask_second = ToolCalls([("agent_run_second", {"prompt": "go"})])
    first = Agent("first", model=ScriptedModel([ask_second, "Done."]), delegates=[Delegate(second)])
    assert first.run_sync("Hi").text == "Done."


def test_a_validator_gets_its_context_where_it_is_annotated() -> None:
    seen = []

    def validate(output: str, ctx: RunContext) -> None:
        seen.append((output, ctx.agent.id))

    Agent("a", model=ScriptedModel(["x"]), output_validators=[validate]).run_sync("Hi")
    assert seen == [("x", "a")]


@dataclass
class Customer:
    name: str
    address: dict[str, str]


def test_a_placeholder_that_names_no_field_is_refused_when_the_agent_is_declared() -> None:
    def declare(text: str, type_: Any = Customer) -> None:
        Agent("a", model=ScriptedModel([]), instructions=text, context_type=type_)

    for fine in ("{context.name} {context.address.city} {{context.nam}} {context}", "Hello {x}"):
        declare(fine)
    declare("{context.nam}", dict[str, str])
    with pytest.raises(InvalidSpec, match=r"'\{context.nam\}' is no field.*name, address"):
        declare("Hi {context.nam}.")
