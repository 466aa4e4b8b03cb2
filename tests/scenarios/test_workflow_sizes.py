"""What a journal keeps is bounded: a larger value is a typed error, nothing of it is written."""

import asyncio
from typing import Any

import msgspec
import pytest

from awaken import AgentRuntime, Failed, ToolError, WorkflowContext, tool, workflow
from awaken.contracts.workflows.steps import RESULT_BYTES
from awaken.errors import LimitExceeded, ResultTooLarge, StepFailed, ValueTooLarge
from awaken.plugins import Plugin, SetResult
from awaken.tools import ToolResult

LARGE = "ä" * (RESULT_BYTES // 2 + 1)
LIMIT = f"the limit is {RESULT_BYTES}"


@tool(effect="none")
async def echo(text: str) -> str:
    """Return a text."""
    return text


@tool(effect="none")
async def grow() -> str:
    """Return a large text."""
    return LARGE


@tool(effect="none")
async def complain() -> str:
    """Fail with a large message."""
    raise ToolError(LARGE)


class AnswersGrow(Plugin):
    """A gate that answers in place of a tool."""

    name = "answers-grow"

    def register(self, registrar: Any) -> None:
        registrar.gate(self.answer)

    async def answer(self, context: Any) -> Any:
        """Answer calls of `echo`."""
        if context.call.name == "echo":
            return SetResult(result=ToolResult(tool_name="echo", data=LARGE))
        return None


async def give_argument(ctx: WorkflowContext) -> Any:
    await ctx.call(echo, LARGE)


async def give_prompt(ctx: WorkflowContext) -> Any:
    await ctx.ask("tiny", {"text": LARGE})


async def show_status(ctx: WorkflowContext) -> Any:
    ctx.set_status([LARGE])


async def ask_person(ctx: WorkflowContext) -> Any:
    await ctx.approve("Well?", parameters=LARGE)


async def name_patch(ctx: WorkflowContext) -> Any:
    ctx.patched("p" * 201)


async def go_on(ctx: WorkflowContext) -> Any:
    ctx.continue_as_new({"way": LARGE})


WAYS = {it.__name__: it for it in (
    give_argument, give_prompt, show_status, ask_person, name_patch, go_on,
)}  # fmt: skip


@workflow
async def tiny(ctx: WorkflowContext, text: str) -> str:
    return text[:3]


@workflow(tools=[echo])
async def tries(ctx: WorkflowContext, way: str) -> str:
    """Take a step that is refused, and go on."""
    await ctx.random()
    try:
        await WAYS[way](ctx)
    except ValueTooLarge as error:
        await ctx.random()
        return str(error)
    return "accepted"


async def measure(runtime: AgentRuntime, run_id: str) -> int:
    """Return the bytes that a run left in its store."""
    run = await runtime.get_run(run_id)
    records = await runtime.store.list_tool_records(run_id)
    messages = await runtime.messages(run.thread_id)
    events = await runtime.store.list_events(run.thread_id)
    return len(msgspec.json.encode([run, records, messages])) + len(repr(events))


@pytest.mark.parametrize("way", WAYS)
def test_a_step_that_is_given_too_much_is_refused_and_the_run_goes_on(way: str) -> None:
    async def story() -> None:
        async with AgentRuntime([tries, tiny]) as runtime:
            result = await runtime.run("tries", {"way": way})
            assert "the limit is" in result.output
            assert await measure(runtime, result.run_id) < 20_000

    asyncio.run(story())


@pytest.mark.parametrize("is_text", [True, False])
def test_a_result_of_a_run_that_is_too_large_fails_it(is_text: bool) -> None:
    @workflow
    async def large(ctx: WorkflowContext) -> Any:
        await ctx.random()
        return LARGE if is_text else [LARGE]

    async def story() -> None:
        async with AgentRuntime([large]) as runtime:
            handle = await runtime.start("large", {})
            ended = await runtime.wait(handle.run_id)
            assert isinstance(ended.termination, Failed)
            assert ended.termination.code == ValueTooLarge.code
            assert LIMIT in ended.termination.message
            assert ended.output in (None, "")
            assert await measure(runtime, handle.run_id) < 20_000

    asyncio.run(story())


@pytest.mark.parametrize("kind", ["tool", "gate"])
def test_a_result_of_a_step_that_is_too_large_is_an_error_of_the_step(kind: str) -> None:
    @workflow(tools=[echo, grow], plugins=[AnswersGrow()])
    async def asks(ctx: WorkflowContext) -> str:
        try:
            await (ctx.call(grow) if kind == "tool" else ctx.call(echo, "x"))
        except ResultTooLarge as error:
            return str(error)
        return "accepted"

    async def story() -> None:
        async with AgentRuntime([asks]) as runtime:
            result = await runtime.run("asks", {})
            assert LIMIT in result.output
            assert await measure(runtime, result.run_id) < 20_000

    asyncio.run(story())


def test_a_message_of_an_error_is_cut() -> None:
    @workflow(tools=[complain])
    async def asks(ctx: WorkflowContext) -> str:
        try:
            await ctx.call(complain)
        except StepFailed as error:
            raise ValueError(error.problem * 3) from error
        return "accepted"

    async def story() -> None:
        async with AgentRuntime([asks]) as runtime:
            handle = await runtime.start("asks", {})
            ended = await runtime.wait(handle.run_id)
            assert isinstance(ended.termination, Failed)
            assert len(ended.termination.message) < 250_000

    asyncio.run(story())


@workflow
async def asks(ctx: WorkflowContext) -> int:
    """Ask a person, and count what is said."""
    answer = await ctx.approve("Well?")
    return len(answer.result or "") if answer else -1


@pytest.mark.parametrize("kind", ["result", "reason"])
def test_a_decision_that_no_step_could_keep_is_refused_and_its_ticket_stays_open(kind: str) -> None:
    async def story() -> None:
        async with AgentRuntime([asks]) as runtime:
            waiting = await runtime.run("asks", {})
            (ticket,) = waiting.tickets
            with pytest.raises(LimitExceeded):
                await runtime.decide(ticket.ticket_id, "resume", **{kind: LARGE})
            assert [it.ticket_id for it in await runtime.tickets()] == [ticket.ticket_id]
            # As much as is allowed is kept.
            said = "x" * (RESULT_BYTES - 11_000)
            await runtime.decide(ticket.ticket_id, "resume", result=said)
            assert (await runtime.wait(waiting.run_id)).output == len(said)

    asyncio.run(story())
