"""Instructions that are made for a run: once, before anything is written, and kept with it."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from awaken import (
    Agent,
    AgentRuntime,
    AgentSpec,
    Limits,
    ModelSpec,
    RunContext,
    RunFailed,
    ToolContext,
    tool,
)
from awaken.authoring.instructions import TemplateInstructions, find_maker
from awaken.errors import InstructionsFailed, InvalidContext, InvalidSpec, LimitExceeded
from awaken.extensions.handoff import HandoffPlugin
from awaken.services.step_requests import read_step_request
from awaken.stores import MemoryStore
from awaken.testing import ScriptedModel, ToolCalls


@dataclass
class Customer:
    name: str
    tier: str = "basic"


@tool(effect="none")
async def look() -> str:
    """Look."""
    return "seen"


def play(scenario: Callable[[], Any]) -> Any:
    return asyncio.run(scenario())


@pytest.mark.parametrize("is_async", [True, False])
def test_a_function_is_called_once_for_a_run_and_its_text_is_stored(is_async: bool) -> None:
    calls: list[str] = []

    def instruct(ctx: RunContext[str, Customer]) -> str:
        calls.append(ctx.run.run_id)
        return f"{ctx.agent.id} helps {ctx.context.name} with {ctx.deps}; call {len(calls)}."

    async def instruct_async(ctx: RunContext[str, Customer]) -> str:
        return instruct(ctx)

    model = ScriptedModel([ToolCalls([("look", {})]), "Done."], cycle=True)
    agent = Agent(
        "a",
        model=model,
        instructions=instruct_async if is_async else instruct,
        tools=[look],
        context_type=Customer,
    )

    async def scenario() -> None:
        async with AgentRuntime([agent], deps="tools") as runtime:
            first = await runtime.run("a", "go", context=Customer("Ann"))
            second = await runtime.run("a", "go", context=Customer("Bob"))
            assert calls == [first.run_id, second.run_id]
            records = [await runtime.get_run(it.run_id) for it in (first, second)]
        texts = ["a helps Ann with tools; call 1.", "a helps Bob with tools; call 2."]
        assert [it.instructions for it in records] == [{"a": text} for text in texts]
        assert [it.system for it in model.requests] == [(texts[0],)] * 2 + [(texts[1],)] * 2

    play(scenario)


def test_a_resumed_run_keeps_its_instructions() -> None:
    calls: list[str] = []

    def instruct(ctx: RunContext) -> str:
        calls.append("called")
        return f"Version {len(calls)}."

    @tool(effect="none")
    async def wait(ctx: ToolContext) -> Any:
        """Wait."""
        return ctx.suspend("sure?") if ctx.resume is None else "yes"

    model = ScriptedModel([ToolCalls([("wait", {})]), "Done."])

    async def scenario() -> None:
        agent = Agent("a", model=model, instructions=instruct, tools=[wait])
        async with AgentRuntime([agent]) as runtime:
            result = await runtime.run("a", "go")
            await runtime.decide(result.tickets[0].ticket_id, result=True)
            await runtime.wait(result.run_id)

    play(scenario)
    assert [it.system for it in model.requests] == [("Version 1.",)] * 2


async def fail(ctx: RunContext) -> str:
    raise RuntimeError("the database is away")


async def hang(ctx: RunContext) -> str:
    await asyncio.Event().wait()
    return ""


def return_number(ctx: RunContext) -> str:
    return 7  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("function", "problem"),
    [(fail, "the database is away"), (hang, "longer than"), (return_number, "returned int")],
)
@pytest.mark.parametrize("way", ["run", "start"])
def test_a_function_that_fails_refuses_the_run_and_nothing_is_written(
    function: Any, problem: str, way: str
) -> None:
    model = ScriptedModel(["never"])
    agent = Agent("a", model=model, instructions=function)

    async def scenario() -> None:
        async with AgentRuntime([agent], limits=Limits(instructions_ms=50)) as runtime:
            with pytest.raises(InstructionsFailed, match=problem):
                await getattr(runtime, way)("a", "go", thread_id="t")
            assert await runtime.list_runs() == ()
            assert await runtime.store.load_thread("t") is None

    play(scenario)
    assert model.requests == []


def test_instructions_have_a_limit() -> None:
    agent = Agent("a", model=ScriptedModel(["x"]), instructions=lambda _: "y" * 20)

    async def scenario() -> None:
        async with AgentRuntime([agent], limits=Limits(instructions_chars=10)) as runtime:
            with pytest.raises(LimitExceeded, match="instructions"):
                await runtime.run("a", "go")

    play(scenario)


@pytest.mark.parametrize("function", [lambda: "x", lambda a, b: "x", 7])
def test_instructions_are_text_or_a_function_of_one_argument(function: Any) -> None:
    with pytest.raises(InvalidSpec, match="instructions"):
        Agent("a", model=ScriptedModel([]), instructions=function)


def render(text: str, context: Any, **options: Any) -> str:
    model = ScriptedModel(["Done."])

    async def scenario() -> None:
        agent = Agent("a", model=model, instructions=text, **options)
        async with AgentRuntime([agent]) as runtime:
            await runtime.run("a", "go", context=context)

    play(scenario)
    return "".join(model.requests[0].system)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Hi {context.name}!", "Hi Ann!"),
        ("{context.address.city}/{context.age}", "Rome/7"),
        ("{context.flag} {context.nothing} {context.address}", 'true null {"city":"Rome"}'),
        ("{{context.name}} stays", "{{context.name}} stays"),
        ("{context} {context.} {context.name!r} {context.name:>9}", None),
        ("{context.name.__class__}", ...),
        ("{context.name()} {context[name]} { context.name }", None),
        ("{'json': {context.age}}", "{'json': 7}"),
        ("{context.tricky}", "{context.name}"),
        ("{name} {0} {}", None),
    ],
)
def test_placeholders_read_keys_and_nothing_else(text: str, shown: Any) -> None:
    context = {
        "name": "Ann",
        "age": 7,
        "flag": True,
        "nothing": None,
        "address": {"city": "Rome"},
        "tricky": "{context.name}",
    }
    if shown is ...:
        with pytest.raises(InvalidContext):
            render(text, context)
        return
    assert render(text, context) == (text if shown is None else shown)


def test_a_placeholder_sees_the_defaults_of_the_context_type() -> None:
    text = "A {context.tier} customer."
    assert render(text, {"name": "Ann"}, context_type=Customer) == "A basic customer."


def test_a_missing_field_refuses_the_run_before_anything_is_written() -> None:
    model = ScriptedModel(["never"])
    spec = AgentSpec(id="a", model_id="m", system_prompt="Hi {context.who.name}!")

    async def scenario() -> None:
        models = [ModelSpec(id="m", provider_id="p", upstream_model="x")]
        async with AgentRuntime([spec], providers={"p": model}, models=models) as runtime:
            for context in (None, {}, {"who": 1}, {"who": {}}):
                with pytest.raises(InvalidContext, match=r"context\.who\.name"):
                    await runtime.run("a", "go", context=context)
            assert await runtime.list_runs() == ()
            await runtime.run("a", "go", context={"who": {"name": "Ann"}})

    play(scenario)
    assert [it.system for it in model.requests] == [("Hi Ann!",)]


def test_each_agent_of_a_run_has_its_own_instructions() -> None:
    first_model = ScriptedModel([ToolCalls([("transfer_to_agent", {"agent_id": "second"})])])
    second_model = ScriptedModel(["Done."])
    first = Agent(
        "first",
        model=first_model,
        instructions="First for {context.name}.",
        plugins=[HandoffPlugin({"second": "the second one"})],
    )
    second = Agent("second", model=second_model, instructions=lambda c: f"2 {c.context['name']}")

    async def scenario() -> Any:
        async with AgentRuntime([first, second]) as runtime:
            result = await runtime.run("first", "go", context={"name": "Ann"})
            return await runtime.get_run(result.run_id)

    record = play(scenario)
    assert record.instructions == {"first": "First for Ann.", "second": "2 Ann"}
    assert second_model.requests[0].system == ("2 Ann",)


def test_a_handover_to_an_agent_whose_instructions_fail_is_refused() -> None:
    first_model = ScriptedModel([ToolCalls([("transfer_to_agent", {"agent_id": "second"})])])
    first = Agent("first", model=first_model, plugins=[HandoffPlugin({"second": "the second one"})])
    second = Agent("second", model=ScriptedModel(["never"]), instructions=fail)

    async def scenario() -> Any:
        async with AgentRuntime([first, second]) as runtime:
            return (await runtime.run("first", "go")).termination

    assert "instructions" in str(play(scenario))


def test_the_request_of_a_step_is_built_again_with_the_instructions_of_the_run() -> None:
    calls: list[int] = []

    def instruct(ctx: RunContext) -> str:
        calls.append(1)
        return f"Version {len(calls)}."

    agent = Agent("a", model=ScriptedModel(["One.", "Two."]), instructions=instruct)

    async def scenario() -> None:
        async with AgentRuntime([agent]) as runtime:
            result = await runtime.run("a", "go")
            await runtime.run("a", "go")
            shown = await read_step_request(runtime.view("me"), result.run_id, 1)
            assert shown.is_exact, shown.reason
            assert shown.request["system"] == ("Version 1.",)

    play(scenario)
    assert len(calls) == 2


def test_a_text_of_the_configuration_replaces_the_function() -> None:
    plain = AgentSpec(id="a", model_id="m", system_prompt="Managed.")
    filled = AgentSpec(id="a", model_id="m", system_prompt="Managed for {context.name}.")
    assert find_maker(plain, fail) is None
    assert isinstance(find_maker(filled, fail), TemplateInstructions)


def test_a_waiting_run_whose_instructions_would_fail_can_be_cancelled() -> None:
    @tool(effect="none")
    async def wait(ctx: ToolContext) -> Any:
        """Wait."""
        return ctx.suspend("sure?")

    def make(instructions: Any) -> Agent:
        model = ScriptedModel([ToolCalls([("wait", {})])])
        return Agent("a", model=model, instructions=instructions, tools=[wait])

    async def scenario() -> None:
        store = MemoryStore()
        async with AgentRuntime([make("Before.")], store=store) as runtime:
            result = await runtime.run("a", "go")
        async with AgentRuntime([make(fail)], store=store) as runtime:
            assert await runtime.cancel(result.run_id)
            assert (await runtime.get_run(result.run_id)).ended == "cancelled"

    play(scenario)


def test_a_run_that_fails_later_is_a_failure_and_no_refusal() -> None:
    agent = Agent("a", model=ScriptedModel([]), instructions=lambda _: "x")

    async def scenario() -> None:
        async with AgentRuntime([agent]) as runtime:
            with pytest.raises(RunFailed):
                await runtime.run("a", "go")

    play(scenario)
