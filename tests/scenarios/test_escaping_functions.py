"""Functions of the application that call `sys.exit` or break the loop's rules: typed failures."""

import asyncio
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from awaken import Agent, AgentRuntime, Delegate, Limits, Retry, tool
from awaken.errors import (
    AgentResolverFailed,
    InstructionsFailed,
    InvalidContext,
    RunFailed,
)
from awaken.extensions.handoff import Handoff, HandoffPlugin
from awaken.testing import ScriptedModel, ToolCalls


def exits(*_: Any) -> Any:
    sys.exit(3)


async def exits_async(*_: Any) -> Any:
    sys.exit(3)


async def is_cancelled(*_: Any) -> Any:
    raise asyncio.CancelledError


def stops(*_: Any) -> Any:
    return next(iter(()))


ESCAPES = [exits, exits_async, is_cancelled, stops]
each_escape = pytest.mark.parametrize("escape", ESCAPES)


async def run(*agents: Agent, **options: Any) -> Any:
    async with AgentRuntime(agents, **options) as runtime:
        async with asyncio.timeout(5):
            return await runtime.run(agents[0], "Hi", thread_id="t")


def calling(name: str, arguments: Any, **options: Any) -> Agent:
    return Agent("a", model=ScriptedModel([ToolCalls([(name, arguments)]), "Done."]), **options)


@each_escape
def test_instructions_fail(escape: Callable[..., Any]) -> None:
    def make(context: Any) -> Any:
        return escape(context)

    made = escape if asyncio.iscoroutinefunction(escape) else make
    with pytest.raises(InstructionsFailed):
        asyncio.run(run(Agent("a", model=ScriptedModel([]), instructions=made)))


@each_escape
def test_a_validator_fails(escape: Callable[..., Any]) -> None:
    async def validate(output: Any) -> Any:
        return await escape(output)

    given = validate if asyncio.iscoroutinefunction(escape) else lambda output: escape(output)
    agent = Agent("a", model=ScriptedModel(["x"]), output_validators=[given])
    with pytest.raises(RunFailed) as caught:
        asyncio.run(run(agent))
    assert "The validator" in str(caught.value)


@each_escape
def test_a_predicate_asks(escape: Callable[..., Any]) -> None:
    async def later(amount: int) -> Any:
        return await escape(amount)

    given = later if asyncio.iscoroutinefunction(escape) else lambda amount: escape(amount)

    @tool(approval=given)
    def pay(amount: int) -> str:
        """Pay."""
        return "paid"

    result = asyncio.run(run(calling("pay", {"amount": 1}, tools=[pay])))
    assert [it.tool_name for it in result.tickets] == ["pay"]


@pytest.mark.parametrize("escape", [exits, stops])
def test_a_check_refuses_the_call(escape: Callable[..., Any]) -> None:
    @tool(check=lambda amount: escape(amount))
    def pay(amount: int) -> str:
        """Pay."""
        raise AssertionError

    assert asyncio.run(run(calling("pay", {"amount": 1}, tools=[pay]))).text == "Done."


@dataclass
class City:
    name: str


@each_escape
def test_a_prompt_of_a_delegate_fails_the_call(escape: Callable[..., Any]) -> None:
    child = Agent("sub", model=ScriptedModel([]))
    asked = Delegate(child, arguments=City, prompt=escape)
    boss = calling("agent_run_sub", {"name": "Rome"}, delegates=[asked])
    assert asyncio.run(run(boss, child)).text == "Done."


@each_escape
def test_a_callback_of_a_handoff_fails_the_call(escape: Callable[..., Any]) -> None:
    other = Agent("sub", model=ScriptedModel([]))
    plugin = HandoffPlugin([Handoff("sub", on_handoff=escape)])
    boss = calling("transfer_to_agent", {"agent_id": "sub"}, plugins=[plugin])
    assert asyncio.run(run(boss, other)).text == "Done."


@pytest.mark.parametrize("escape", [exits_async, is_cancelled])
def test_a_resolver_fails(escape: Callable[..., Any]) -> None:
    class Resolver:
        async def resolve(self, agent_id: str) -> Any:
            return await escape(agent_id)

    async def scenario() -> None:
        agent = Agent("a", model=ScriptedModel([]))
        async with AgentRuntime([agent], resolver=Resolver()) as runtime:
            with pytest.raises(AgentResolverFailed):
                await runtime.run("other", "Hi")

    asyncio.run(scenario())


def test_a_caller_that_is_cancelled_stays_cancelled() -> None:
    async def waits(_: Any) -> str:
        await asyncio.Event().wait()
        return ""

    async def scenario() -> None:
        agent = Agent("a", model=ScriptedModel([]), instructions=waits)
        async with AgentRuntime([agent]) as runtime:
            task = asyncio.create_task(runtime.run("a", "Hi"))
            for _ in range(20):
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(scenario())


async def _refuse(amount: int) -> None:
    raise ValueError("too much")


@pytest.mark.parametrize("check", [_refuse, lambda amount: _refuse(amount)])
def test_an_async_check_is_awaited_whether_it_shows_or_not(check: Callable[..., Any]) -> None:
    @tool(check=check)
    def pay(amount: int) -> str:
        """Pay."""
        raise AssertionError

    async def scenario() -> None:
        async with AgentRuntime([calling("pay", {"amount": 1}, tools=[pay])]) as runtime:
            await runtime.run("a", "Hi", thread_id="t")
            said = [it.message.text for it in await runtime.messages("t")]
            assert any("too much" in it for it in said)

    asyncio.run(scenario())


def test_a_check_that_waits_leaves_the_event_loop_free() -> None:
    passed = threading.Event()

    def check(amount: int) -> None:
        assert passed.wait(20)

    @tool(check=check)
    def pay(amount: int) -> str:
        """Pay."""
        return "paid"

    async def scenario() -> None:
        async with AgentRuntime([calling("pay", {"amount": 1}, tools=[pay])]) as runtime:
            # The loop opens what the check waits for, so a check on the loop would fail.
            asyncio.get_running_loop().call_later(0.05, passed.set)
            await runtime.run("a", "Hi", thread_id="t")
            said = [it.message.text for it in await runtime.messages("t")]
            assert any("paid" in it for it in said)

    asyncio.run(scenario())


@dataclass
class Tier:
    name: str

    def __post_init__(self) -> None:
        if self.name == "exit":
            sys.exit(3)
        {"free": 1}[self.name]


@pytest.mark.parametrize("name", ["gold", "exit"])
def test_a_type_that_does_not_accept_its_values_is_a_typed_refusal(name: str) -> None:
    agent: Any = Agent("a", model=ScriptedModel([]), context_type=Tier)
    with pytest.raises(InvalidContext, match="Tier"):
        asyncio.run(run_with(agent, {"name": name}))
    answer = f'{{"name": "{name}"}}'
    script = [answer, '{"name": "free"}']
    typed: Any = Agent("a", model=ScriptedModel(script), output_type=Tier)
    assert asyncio.run(run(typed)).output == Tier("free")


async def run_with(agent: Any, context: Any) -> Any:
    async with AgentRuntime([agent]) as runtime:
        return await runtime.run("a", "Hi", context=context)


def test_plain_functions_that_hang_leave_the_threads_of_tools_alone() -> None:
    held = threading.Event()

    def hang(_: Any) -> str:
        held.wait(20)
        return "x"

    @tool(effect="none")
    def look() -> str:
        """Look."""
        return "seen"

    async def scenario() -> None:
        slow = Agent("slow", model=ScriptedModel([]), instructions=hang)
        quick = calling("look", {}, tools=[look])
        limits = Limits(instructions_ms=20)
        async with AgentRuntime([slow, quick], limits=limits) as runtime:
            for _ in range(20):
                with pytest.raises(InstructionsFailed):
                    await runtime.run("slow", "Hi")
            async with asyncio.timeout(5):
                assert (await runtime.run("a", "Hi")).text == "Done."
        held.set()

    asyncio.run(scenario())


def test_what_a_validator_says_of_the_host_stays_in_the_log() -> None:
    def validate(_: Any) -> None:
        raise RuntimeError("postgres://db.internal refused")

    agent = Agent("a", model=ScriptedModel(["x"]), output_validators=[validate])
    with pytest.raises(RunFailed) as caught:
        asyncio.run(run(agent))
    assert "db.internal" not in caught.value.cause
    assert "RuntimeError" in caught.value.cause


def test_refusals_of_one_turn_count_once() -> None:
    def check_even(n: int) -> None:
        if n % 2:
            raise Retry("use an even number")

    @tool(effect="none", retries=1, check=check_even)
    def double(n: int) -> int:
        """Double."""
        return 2 * n

    def turn(*numbers: int) -> ToolCalls:
        return ToolCalls([("double", {"n": it}) for it in numbers])

    def ask(*script: Any) -> Any:
        return asyncio.run(run(Agent("a", model=ScriptedModel(script), tools=[double])))

    assert ask(turn(1, 3, 5), turn(2, 4), "Done.").text == "Done."
    with pytest.raises(RunFailed, match="2 times in a row"):
        ask(turn(1, 3), turn(5, 7), "Done.")
