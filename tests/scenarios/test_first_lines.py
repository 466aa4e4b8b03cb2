"""The first lines that users of other frameworks write: they work, or the error says what does."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from awaken import (
    Agent,
    AgentRuntime,
    Delegate,
    Limits,
    Retry,
    RunContext,
    RunFailed,
    ToolContext,
    tool,
    user,
)
from awaken.errors import (
    DependenciesFailed,
    DuplicateRegistration,
    InvalidContext,
    InvalidInput,
    InvalidSpec,
    Misuse,
)
from awaken.extensions.handoff import Handoff, HandoffPlugin
from awaken.messages import assistant
from awaken.testing import Chunks, ScriptedModel, ToolCalls


@dataclass
class Total:
    sum: int


@dataclass
class Customer:
    tier: str


def answer(*texts: Any) -> ScriptedModel:
    return ScriptedModel(texts or ["Done."], cycle=True)


def call(name: str, **arguments: Any) -> ScriptedModel:
    return ScriptedModel([ToolCalls([(name, arguments)]), "Done."], cycle=True)


# Results.


def test_without_an_output_type_the_output_is_the_text() -> None:
    agent = Agent("a", model=answer("Hello."))
    assert agent.run_sync("Hi!").output == "Hello."

    async def scenario() -> None:
        async with AgentRuntime([agent]) as runtime:
            result = await runtime.run("a", "Hi!")
            assert (await runtime.wait(result.run_id)).output == "Hello."

    asyncio.run(scenario())


@tool(approval=True)
def pay() -> str:
    """Pay."""
    return "paid"


def test_a_run_that_waits_has_no_output_and_is_decided_on_without_an_event_loop() -> None:
    runtime = AgentRuntime([Agent("a", model=call("pay"), tools=[pay])])
    waiting = runtime.run_sync("a", "Pay.")
    assert waiting.is_waiting
    assert waiting.output is None
    result = runtime.decide_sync(waiting.tickets[0].ticket_id)
    assert (result.text, result.output) == ("Done.", "Done.")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("final_output", "result.output"),
        ("data", "result.output"),
        ("all_messages", "runtime.messages"),
        ("interruptions", "result.tickets"),
    ],
)
def test_a_result_names_its_own_words(name: str, words: str) -> None:
    result = Agent("a", model=answer()).run_sync("Hi!")
    with pytest.raises(AttributeError, match=words):
        getattr(result, name)
    assert not hasattr(result, "nothing_of_the_kind")


# Streams.


def test_text_that_a_type_refuses_is_not_streamed() -> None:
    model = ScriptedModel([Chunks(['{"sum": "', 'x"}']), Chunks(['{"su', 'm": 1}'])])
    agent = Agent("a", model=model, output_type=Total)

    async def scenario() -> None:
        async with AgentRuntime([agent]) as runtime:
            texts = runtime.stream_text(agent, "Hi!")
            assert [text async for text in texts] == ['{"sum": 1}']
            assert texts.result is not None
            assert texts.result.output == Total(1)

    asyncio.run(scenario())


def test_text_that_a_validator_refuses_is_not_streamed() -> None:
    def validate(text: str) -> None:
        if text == "no":
            raise Retry("say yes")

    agent = Agent("a", model=ScriptedModel(["no", "yes"]), output_validators=[validate])

    async def scenario() -> list[str]:
        return [text async for text in agent.stream_text("Hi!")]

    assert asyncio.run(scenario()) == ["yes"]


def test_a_text_stream_says_that_its_run_waits() -> None:
    async def scenario() -> None:
        async with AgentRuntime([Agent("a", model=call("pay"), tools=[pay])]) as runtime:
            texts = runtime.stream_text("a", "Pay.")
            assert [text async for text in texts] == []
            assert texts.result is not None
            assert texts.result.is_waiting
            assert texts.result.tickets

    asyncio.run(scenario())


def test_a_history_is_passed_to_a_single_run() -> None:
    model = answer()
    agent = Agent("a", model=model)
    agent.run_sync("And now?", messages=[user("Hi!"), assistant("Hello.")])
    assert [it.text for it in model.requests[0].messages] == ["Hi!", "Hello.", "And now?"]


# Declarations.


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: Agent("openai:gpt-5-mini"), r"Agent\('name', model='openai:gpt-5-mini'\)"),
        (lambda: Agent(name="a", model="m"), "first argument"),  # type: ignore[call-overload]
        (lambda: Agent("a", model="m", system_prompt="x"), "instructions"),  # type: ignore[call-overload]
        (lambda: Agent("a", model="m", deps_type=int), "deps"),  # type: ignore[call-overload]
        (lambda: Agent("a", model="m", handoffs=[]), "HandoffPlugin"),  # type: ignore[call-overload]
        (lambda: Agent("a", model="m", response_format=int), "output_type"),  # type: ignore[call-overload]
        (lambda: Agent("a", model="m", tool=[]), "did you mean 'tools'"),  # type: ignore[call-overload]
    ],
)
def test_a_word_of_another_framework_is_refused_with_ours(
    build: Callable[[], Any], words: str
) -> None:
    with pytest.raises(InvalidSpec, match=words):
        build()


@pytest.mark.parametrize("name", ["tool", "as_tool", "output_validator", "run_stream"])
def test_an_agent_names_what_to_write_for_a_method_that_it_does_not_have(name: str) -> None:
    with pytest.raises(AttributeError, match="; "):
        getattr(Agent("a", model="m"), name)


def test_run_sync_in_an_event_loop_names_what_to_await() -> None:
    async def scenario() -> None:
        agent = Agent("a", model=answer())
        with pytest.raises(Misuse, match=r"await agent\.run"):
            agent.run_sync("Hi!")
        async with AgentRuntime([agent]) as runtime:
            with pytest.raises(Misuse, match=r"await runtime\.run"):
                runtime.run_sync("a", "Hi!")

    asyncio.run(scenario())


@pytest.mark.parametrize("given", [{"messages": [{"role": "user"}]}, {}])
def test_a_message_that_is_a_mapping_is_refused_with_what_makes_one(given: Any) -> None:
    text: Any = "Hi!" if given else [{"role": "user", "content": "Hi!"}]

    async def scenario() -> None:
        async with AgentRuntime([Agent("a", model=answer())]) as runtime:
            with pytest.raises(InvalidInput, match=r"assistant\(text\)"):
                await runtime.run("a", text, **given)

    asyncio.run(scenario())


def test_a_refused_answer_names_the_limit_of_tries() -> None:
    def never(_text: str) -> None:
        raise Retry("never")

    agent = Agent("a", model=answer(), output_validators=[never], output_retries=1)
    with pytest.raises(RunFailed, match=r"never.*2 times.*output_retries"):
        agent.run_sync("Hi!")


# Agents that are given as objects.


def test_agents_given_as_objects_are_registered_with_the_agent() -> None:
    sub = Agent("sub", model=answer("Sub."))
    last = Agent("last", model=answer("Last."))
    middle = Agent(
        "middle",
        model=call("transfer_to_agent", agent_id="last"),
        plugins=[HandoffPlugin([last])],
    )
    asking = Agent("a", model=call("agent_run_sub", prompt="x"), delegates=[sub])
    assert asking.run_sync("go").text == "Done."
    typed = Agent(
        "t", model=call("agent_run_sub", sum=1), delegates=[Delegate(sub, arguments=Total)]
    )
    assert typed.run_sync("go").text == "Done."
    first = Agent("f", model=call("agent_run_middle", prompt="x"), delegates=[middle])
    result = first.run_sync("go")
    assert result.text == "Done."


def test_two_agents_with_one_id_are_refused() -> None:
    one, other = Agent("sub", model=answer()), Agent("sub", model=answer())
    with pytest.raises(DuplicateRegistration):
        AgentRuntime([Agent("a", model=answer(), delegates=[one]), other])


def test_an_agent_that_is_not_the_registered_one_is_refused() -> None:
    registered = Agent("a", model=answer("The registered one."))
    other = Agent("a", model=answer(), output_type=Total)

    async def scenario() -> None:
        async with AgentRuntime([registered]) as runtime:
            for start in (runtime.run, runtime.start, runtime.submit):
                with pytest.raises(InvalidInput, match="another agent with this id"):
                    await start(other, "Hi!")
            assert (await runtime.run(registered, "Hi!")).text == "The registered one."
            assert len(await runtime.list_runs()) == 1

    asyncio.run(scenario())


@pytest.mark.parametrize("form", ["agent", "id", "handoff"])
def test_a_handoff_takes_agents_and_ids(form: str) -> None:
    other = Agent("b", model=answer("From b."))
    to: Any = {"agent": other, "id": "b", "handoff": Handoff(other)}[form]
    model = call("transfer_to_agent", agent_id="b")
    agent = Agent("a", model=model, plugins=[HandoffPlugin([to])])

    async def scenario() -> str:
        async with AgentRuntime([agent, other]) as runtime:
            return (await runtime.run("a", "Hi!")).text

    assert asyncio.run(scenario()) == "From b."


def test_a_callback_of_a_handoff_is_checked_when_it_is_declared() -> None:
    with pytest.raises(InvalidSpec, match="on_handoff"):
        Handoff("b", input=Total, on_handoff=lambda given: None)
    with pytest.raises(InvalidSpec, match="on_handoff"):
        Handoff("b", on_handoff=lambda: None)


def test_the_context_of_a_callback_comes_where_its_annotation_is() -> None:
    seen: list[Any] = []

    def note(ctx: ToolContext, given: Total) -> None:
        seen.extend((type(ctx), given))

    other = Agent("b", model=answer())
    plugin = HandoffPlugin([Handoff(other, input=Total, on_handoff=note)])
    Agent("a", model=call("transfer_to_b", sum=1), plugins=[plugin]).run_sync("Hi!")
    assert seen == [ToolContext, Total(1)]


# Functions and types.


def test_the_context_of_a_validator_comes_where_its_annotation_is() -> None:
    seen: list[Any] = []

    def validate(text: str, ctx: RunContext) -> None:
        seen.extend((text, ctx.agent.id))

    Agent("a", model=answer("Hello."), output_validators=[validate]).run_sync("Hi!")
    assert seen == ["Hello.", "a"]


@tool
def look(ctx: ToolContext[None, Customer]) -> str:
    """Look."""
    return ctx.context.tier


@pytest.mark.parametrize("given", [None, Total])
def test_a_tool_that_reads_another_context_is_refused_when_the_agent_is_declared(
    given: Any,
) -> None:
    with pytest.raises(InvalidSpec, match="context_type=Customer"):
        Agent("a", model="m", tools=[look], context_type=given)
    assert Agent("a", model="m", tools=[look], context_type=Customer)


def test_a_placeholder_of_a_field_that_no_context_has_is_refused() -> None:
    with pytest.raises(InvalidSpec, match=r"teir.* is no field of Customer; it has: tier"):
        Agent("a", model="m", instructions="Help {context.teir}.", context_type=Customer)
    assert Agent("a", model="m", instructions="Help {context.tier}.", context_type=Customer)


def test_a_mistake_in_a_check_is_not_told_to_the_model_as_one_of_its_own() -> None:
    def check(x: int) -> None:
        raise TypeError("secret of the check")

    @tool(check=check)
    def pay_more(x: int) -> str:
        """Pay."""
        return "paid"

    model = call("pay_more", x=1)
    Agent("a", model=model, tools=[pay_more]).run_sync("Hi!")
    told = model.requests[1].messages[-1].text
    assert "the check of the arguments failed: TypeError" in told
    assert "Invalid arguments" not in told
    assert "secret" not in told


@dataclass
class Tiered:
    tier: str

    def __post_init__(self) -> None:
        {"gold": 1}[self.tier]


def test_what_a_type_raises_means_that_the_value_does_not_fit() -> None:
    agent = Agent("a", model=answer(), context_type=Tiered)
    with pytest.raises(InvalidContext, match="'Tiered' raised KeyError") as refused:
        agent.run_sync("Hi!", context={"tier": "hidden"})
    assert "hidden" not in str(refused.value)
    model = ScriptedModel(['{"tier": "x"}', '{"tier": "gold"}'])
    assert Agent("a", model=model, output_type=Tiered).run_sync("Hi!").output == Tiered("gold")


def test_functions_that_hang_take_no_threads_of_tools_and_of_others() -> None:
    free = threading.Event()

    def hang(_ctx: RunContext) -> str:
        free.wait(20)
        return ""

    @tool
    def quick() -> str:
        """Answer."""
        return "quick"

    agents = [
        Agent("hangs", model=answer(), instructions=hang),
        Agent("well", model=answer(), instructions=lambda _ctx: "Help."),
        Agent("tooled", model=call("quick"), tools=[quick]),
    ]

    async def scenario() -> None:
        limits = Limits(instructions_ms=200)
        try:
            async with AgentRuntime(agents, limits=limits) as runtime, asyncio.timeout(15):
                hanging = [runtime.run("hangs", "Hi!") for _ in range(40)]
                ended = await asyncio.gather(*hanging, return_exceptions=True)
                assert all(isinstance(it, Exception) for it in ended)
                assert (await runtime.run("well", "Hi!")).text == "Done."
                assert (await runtime.run("tooled", "Hi!")).text == "Done."
        finally:
            free.set()

    asyncio.run(scenario())


# Dependencies.


@contextlib.contextmanager
def plain_manager() -> Iterator[str]:
    yield "d"


async def generator() -> AsyncIterator[str]:
    yield "d"


@pytest.mark.parametrize("deps", [plain_manager, plain_manager(), generator])
def test_dependencies_that_nothing_would_open_are_refused(deps: Any) -> None:
    with pytest.raises(DependenciesFailed, match="asynccontextmanager"):
        Agent("a", model=answer()).run_sync("Hi!", deps=deps)


def test_dependencies_that_cannot_be_opened_twice_say_what_to_pass() -> None:
    class Client:
        is_closed = False

        async def __aenter__(self) -> "Client":
            if self.is_closed:
                raise RuntimeError("Cannot reopen a client.")
            return self

        async def __aexit__(self, *_: object) -> None:
            self.is_closed = True

    runtime = AgentRuntime([Agent("a", model=answer())], deps=Client())
    runtime.run_sync("a", "Hi!")
    with pytest.raises(DependenciesFailed, match=r"reopen a client; .*deps=Client\."):
        runtime.run_sync("a", "Hi!")
    again = AgentRuntime([Agent("a", model=answer())], deps=Client)
    assert [again.run_sync("a", "Hi!").text for _ in range(2)] == ["Done.", "Done."]
