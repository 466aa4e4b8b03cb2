"""An agent as a tool with a schema: its arguments, its prompt, and its answer as a value."""

import asyncio
import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pydantic import BaseModel

from awaken import Agent, AgentRuntime, Delegate, NaturalEnd, ToolCallDone, ToolContext, tool
from awaken.errors import DuplicateRegistration, InvalidSpec
from awaken.testing import ScriptedModel, ToolCalls, simulate_agent
from awaken.tools import ToolStatus

from .delegating import StoreOf, on_both_stores, runtime


@dataclass
class City:
    """Where, and for how long."""

    name: str
    days: int = 1


class Place(msgspec.Struct, omit_defaults=True):
    name: str
    days: int = 1


class Town(BaseModel):
    name: str
    days: int = 1


class Forecast(msgspec.Struct):
    rain: bool
    degrees: int


def planner(delegate: Any, *calls: dict[str, Any], tool_id: str = "agent_run_weather") -> Agent:
    script = [ToolCalls([(tool_id, it)]) for it in calls]
    return Agent("planner", model=ScriptedModel([*script, "Go."]), delegates=[delegate])


def weather(*answers: str, **options: Any) -> Agent:
    return Agent("weather", model=ScriptedModel(answers), **options)


async def results(runtime: AgentRuntime, thread_id: str = "t") -> list[Any]:
    found = await runtime._engine.store.list_events(thread_id)
    return [it.event.result for it in found if isinstance(it.event, ToolCallDone)]


@pytest.mark.parametrize("type_", [City, Place, Town])
@on_both_stores
def test_the_answer_of_a_typed_delegate_is_a_value(
    type_: Any, store_of: StoreOf, tmp_path: Path
) -> None:
    async def scenario() -> None:
        child = weather('{"rain": true, "degrees": 7}', output_type=Forecast)
        asked = Delegate(child, arguments=type_, prompt="Forecast for {name}, {days} days.")
        boss = planner(asked, {"name": "Paris", "days": 3})
        async with runtime([boss, child], store_of(tmp_path)) as served:
            assert (await served.run("planner", "When?", thread_id="t")).text == "Go."
            (result,) = await results(served)
            assert result.data == {"rain": True, "degrees": 7}
            (run,) = [it for it in await served.list_runs() if it.agent_id == "weather"]
            (prompt, *_) = await served.messages(run.thread_id)
            assert prompt.message.text == "Forecast for Paris, 3 days."

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("prompt", "written"),
    [
        (None, '{"name":"Paris","days":2}'),
        (lambda city: f"{city.name} please", "Paris please"),
        ("{{{name}}} {days}", "{Paris} 2"),
    ],
)
def test_a_prompt_is_a_template_a_function_or_the_arguments(prompt: Any, written: str) -> None:
    async def scenario() -> None:
        child = weather("Rain.")
        boss = planner(
            Delegate("weather", arguments=City, prompt=prompt), {"name": "Paris", "days": 2}
        )
        async with AgentRuntime([boss, child]) as served:
            await served.run("planner", "When?", thread_id="t")
            assert child.model.requests[0].messages[0].text == written  # type: ignore[union-attr]
            # Without an output type the answer is its text.
            assert [it.data for it in await results(served)] == ["Rain."]

    asyncio.run(scenario())


async def blank(_: City) -> str:
    return " "


def broken(_: City) -> str:
    raise ZeroDivisionError


@pytest.mark.parametrize("prompt", [blank, broken, lambda _: 7])
def test_a_prompt_that_fails_asks_no_one(prompt: Any) -> None:
    async def scenario() -> None:
        child = weather()
        boss = planner(Delegate("weather", arguments=City, prompt=prompt), {"name": "Paris"})
        async with AgentRuntime([boss, child]) as served:
            ended = await served.run("planner", "When?", thread_id="t")
            assert ended.termination == NaturalEnd()
            assert [it.status for it in await results(served)] == [ToolStatus.ERROR]
            assert child.model.requests == []  # type: ignore[union-attr]

    asyncio.run(scenario())


def test_arguments_that_do_not_fit_ask_no_one() -> None:
    async def scenario() -> None:
        child = weather()
        boss = planner(Delegate("weather", arguments=City), {"name": 7}, {"days": 1})
        async with AgentRuntime([boss, child]) as served:
            await served.run("planner", "When?", thread_id="t")
            said = [it.message for it in await results(served)]
            assert all("Invalid arguments" in it for it in said)
            assert child.model.requests == []  # type: ignore[union-attr]

    asyncio.run(scenario())


def test_values_of_the_model_are_never_read_as_a_template() -> None:
    async def scenario() -> None:
        child = weather("Rain.")
        asked = Delegate("weather", arguments=City, prompt="In {name}?")
        boss = planner(asked, {"name": "{days.__class__} {0}"})
        async with AgentRuntime([boss, child]) as served:
            await served.run("planner", "When?", thread_id="t")
            shown = child.model.requests[0].messages[0].text  # type: ignore[union-attr]
            assert shown == "In {days.__class__} {0}?"

    asyncio.run(scenario())


@pytest.mark.parametrize("prompt", ["{city}", "{name.upper}", "{name!r}", "{days:03}", "{", "{}"])
def test_a_template_names_fields_and_nothing_else(prompt: str) -> None:
    with pytest.raises(InvalidSpec, match=r"Delegate\('weather'\)"):
        Delegate("weather", arguments=City, prompt=prompt)


@pytest.mark.parametrize("type_", [int, list[str], object()])
def test_arguments_are_an_object(type_: Any) -> None:
    with pytest.raises(InvalidSpec, match=r"Delegate\('weather'\)"):
        Delegate("weather", arguments=type_)


def test_a_delegate_that_does_not_exist_is_refused() -> None:
    with pytest.raises(InvalidSpec, match="nowhere"):
        AgentRuntime([planner(Delegate("nowhere", arguments=City))])


def test_a_delegate_may_stand_among_the_tools_and_has_one_tool() -> None:
    asked = Delegate("weather", arguments=City, id="forecast", description="Knows the weather.")
    boss = Agent("planner", model=ScriptedModel(["Hi."]), tools=[asked])
    assert boss.spec.delegates == ("weather",)
    with pytest.raises(DuplicateRegistration):
        Agent("planner", model=ScriptedModel(["Hi."]), tools=[asked], delegates=[asked])

    async def scenario() -> None:
        async with AgentRuntime([boss, weather()]) as served:
            await served.run("planner", "Hi", thread_id="t")
            offered = boss.model.requests[0].tools  # type: ignore[union-attr]
            assert [it.id for it in offered] == ["forecast"]
            assert offered[0].parameters["required"] == ["name"]

    asyncio.run(scenario())


def test_an_agent_object_is_a_delegate_by_its_id() -> None:
    child = weather("Rain.", description="Knows the weather.")
    assert planner(child).spec.delegates == ("weather",)


def test_a_delegate_may_need_an_approval() -> None:
    async def scenario() -> None:
        child = weather("Rain.")
        boss = planner(Delegate(child, arguments=City, approval=True), {"name": "Paris"})
        async with AgentRuntime([boss, child]) as served:
            waiting = await served.run("planner", "When?", thread_id="t")
            assert child.model.requests == []  # type: ignore[union-attr]
            (ticket,) = waiting.tickets
            await served.decide(ticket.ticket_id)
            ended = await served.wait(waiting.run_id, timeout_ms=20_000)
            assert (ended.text, len(child.model.requests)) == ("Go.", 1)  # type: ignore[union-attr]

    asyncio.run(scenario())


def test_a_delegate_that_waits_shows_its_arguments() -> None:
    async def scenario() -> None:
        @tool
        async def ask(ctx: ToolContext) -> Any:
            """Ask."""
            return ctx.suspend("Celsius?") if ctx.resume is None else "yes"

        child = Agent(
            "weather", model=ScriptedModel([ToolCalls([("ask", {})]), "Rain."]), tools=[ask]
        )
        boss = planner(Delegate(child, arguments=City), {"name": "Paris"})
        async with AgentRuntime([boss, child]) as served:
            waiting = await served.run("planner", "When?", thread_id="t")
            (ticket,) = waiting.tickets
            assert ticket.arguments == {"name": "Paris"}
            await served.decide(ticket.ticket_id, result="yes")
            ended = await served.wait(waiting.run_id, timeout_ms=20_000)
            assert ended.text == "Go."

    asyncio.run(scenario())


def test_a_typed_delegate_is_asked_once_whenever_the_process_dies() -> None:
    child = weather('{"rain": true, "degrees": 7}', output_type=Forecast)
    boss = planner(Delegate(child, arguments=City, prompt="{name}?"), {"name": "Paris"})
    assert simulate_agent([boss, child], "When?", schedules=20).violations == ()


def test_a_copy_of_an_agent_has_the_delegates_that_it_names() -> None:
    @tool
    async def look() -> str:
        """Look."""
        return "seen"

    guide = Agent("guide", model=ScriptedModel([]), tools=[look], delegates=[Delegate("weather")])
    copy = dataclasses.replace(guide, model=ScriptedModel([]))
    assert list(copy.own_tools) == ["look", "agent_run_weather"]
    assert list(dataclasses.replace(guide, delegates=()).own_tools) == ["look"]


@pytest.mark.parametrize("type_", [City, Place, Town])
@on_both_stores
def test_a_typed_delegate_may_be_a_background_task(
    type_: Any, store_of: StoreOf, tmp_path: Path
) -> None:
    async def scenario() -> None:
        child = weather('{"rain": true, "degrees": 7}', output_type=Forecast)
        asked = Delegate(child, arguments=type_, prompt="For {name}.", background=True)
        script = [
            ToolCalls([("agent_run_weather", {"name": "Paris"})]),
            "It is on its way.",
            lambda request: f"Read: {request.messages[-1].text}",
        ]
        boss = Agent("planner", model=ScriptedModel(script), delegates=[asked])
        async with runtime([boss, child], store_of(tmp_path)) as served:
            ended = await served.run("planner", "When?", thread_id="t")
            (result,) = await results(served)
            (task,) = await served.tasks("t")
            assert (result.data["task_id"], task.status) == (task.task_id, "completed")
            assert task.result == '{"rain": true, "degrees": 7}'
            assert ended.text.startswith('Read: <background-task-event kind="completed"')
            (prompt, *_) = await served.messages(task.task_id)
            assert prompt.message.text == "For Paris."

    asyncio.run(scenario())


def test_a_background_delegate_is_started_once_whenever_the_process_dies() -> None:
    child = weather("Rain.")
    asked = Delegate(child, arguments=City, background=True)
    script = [ToolCalls([("agent_run_weather", {"name": "Paris"})]), "Started.", "Done."]
    boss = Agent("planner", model=ScriptedModel(script), delegates=[asked])
    assert simulate_agent([boss, child], "Hi", schedules=20).violations == ()


def test_a_background_delegate_that_cannot_start_is_an_error_of_the_call() -> None:
    async def scenario() -> None:
        asked = Delegate("planner", arguments=City, background=True, id="ask_self")
        boss = planner(asked, {"name": "Paris"}, tool_id="ask_self")
        async with AgentRuntime([boss]) as served:
            assert (await served.run("planner", "When?", thread_id="t")).text == "Go."
            (result,) = await results(served)
            assert result.status is ToolStatus.ERROR

    asyncio.run(scenario())
