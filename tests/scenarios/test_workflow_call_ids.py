"""The call ids of workflows on one thread: none repeats, and every result is at its call.

Several runs of workflows, resets and chats share a thread. What a provider gets is what a chat on
that thread would send next.
"""

import asyncio
import itertools
import re
from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sampling import choose_size

from awaken import Agent, AgentRuntime, RunStatus, ToolError, WorkflowContext, tool, workflow
from awaken.contracts.lifecycle import TicketStatus
from awaken.contracts.messages.message import Message, Role
from awaken.testing import ScriptedModel, ToolCalls, assert_valid_transcript
from awaken.testing.transcripts import anthropic_problems, gemini_problems, openai_problems
from awaken.tools import StepRetry

THREAD = "shared"
CLAUDE_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
NUMBERS = itertools.count(1)


@tool(effect="idempotent")
async def echo(number: int) -> str:
    """Return a number as text."""
    return f"<{number}>"


@tool(effect="none")
async def broken(number: int) -> str:
    """Fail with a number."""
    raise ToolError(f"<{number}>")


TOOLS = [echo, broken]


@workflow(tools=TOOLS)
async def steps(ctx: WorkflowContext, first: int) -> str:
    for number in range(first, first + 3):
        await ctx.call(echo, number)
    return "done"


@workflow(tools=TOOLS)
async def branches(ctx: WorkflowContext, first: int) -> str:
    async def one(number: int) -> None:
        await ctx.call(echo, number)
        await ctx.sleep(0)

    await ctx.gather(one(first), one(first + 1))
    await ctx.race(one(first + 2), ctx.wait_for("never"))
    return "done"


@workflow(tools=TOOLS)
async def retried(ctx: WorkflowContext, first: int) -> str:
    try:
        await ctx.call(broken, first, retry=StepRetry(attempts=3, first_ms=1))
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the result
        return str(error)
    return "done"


@workflow(tools=TOOLS)
async def waits(ctx: WorkflowContext, first: int) -> str:
    await ctx.call(echo, first)
    await ctx.gather(ctx.wait_for("go"), ctx.call(echo, first + 1))
    return "done"


@workflow(tools=TOOLS)
async def chain(ctx: WorkflowContext, first: int, left: int = 2) -> str:
    await ctx.call(echo, first)
    if left:
        ctx.continue_as_new({"first": first + 1, "left": left - 1})
    return "done"


def answer(request: Any) -> Any:
    """Call a tool with the id that every other chat used as well, then answer."""
    if request.messages[-1].role is Role.TOOL:
        return "said"
    return ToolCalls([("echo", {"number": next(NUMBERS)}, "call_1")])


def make_runtime() -> AgentRuntime:
    chat = Agent("chat", model=ScriptedModel([answer], cycle=True), tools=TOOLS)
    return AgentRuntime([steps, branches, retried, waits, chain, chat], has_worker=True)


async def act(runtime: AgentRuntime, action: str) -> None:
    """Let one more run use the thread."""
    if action == "chat":
        await runtime.run("chat", "Hello", thread_id=THREAD)
        return
    workflow_id, resets = ("waits", 2) if action == "reset" else (action, 0)
    first = next(NUMBERS) * 1_000
    run = await runtime.start(workflow_id, {"first": first}, thread_id=THREAD)
    if workflow_id == "waits":
        for _ in range(resets):
            await until_waiting(runtime, run.run_id)
            await runtime.reset_run(run.run_id, "1")
        await until_waiting(runtime, run.run_id)
        await runtime.send_event(run.run_id, "go", first)
    await until_done(runtime, run.run_id)


async def until_done(runtime: AgentRuntime, run_id: str) -> None:
    """Wait until a run has ended, and those that it continues as."""
    async with asyncio.timeout(20):
        while (run := await runtime.get_run(run_id)).status is not RunStatus.DONE:
            await asyncio.sleep(0.001)
    if run.continued_as is not None:
        await until_done(runtime, run.continued_as)


async def until_waiting(runtime: AgentRuntime, run_id: str) -> None:
    """Wait until a run waits for its event; a reset closes the ticket before it returns."""
    async with asyncio.timeout(20):
        while True:
            tickets = await runtime.store.list_run_tickets(THREAD, run_id)
            is_waiting = (await runtime.get_run(run_id)).status is RunStatus.WAITING
            if is_waiting and any(it.status is TicketStatus.OPEN for it in tickets):
                return
            await asyncio.sleep(0.001)


def check_results(messages: list[Message]) -> None:
    """Each result has the number that its own call was given."""
    calls = {call.id: call for it in messages for call in it.tool_calls or ()}
    for message in messages:
        if message.role is Role.TOOL:
            assert message.tool_call_id is not None
            given_to = calls[message.tool_call_id].arguments
            if "number" in given_to:
                assert f"<{given_to['number']}>" in message.text


@settings(max_examples=choose_size(15, 300), deadline=None)
@given(st.lists(
    st.sampled_from(["steps", "branches", "retried", "waits", "reset", "chain", "chat"]),
    min_size=2, max_size=5,
))  # fmt: skip
def test_no_call_id_repeats_on_a_thread(actions: list[str]) -> None:
    async def story() -> None:
        async with make_runtime() as runtime:
            for action in actions:
                await act(runtime, action)
            messages = [it.message for it in await runtime.messages(THREAD)]
            ids = Counter(call.id for it in messages for call in it.tool_calls or ())
            assert [it for it, count in ids.items() if count > 1] == []
            assert [it for it in ids if not CLAUDE_ID.fullmatch(it)] == []
            check_results(messages)
            assert_valid_transcript(messages)
            for problems in (openai_problems, anthropic_problems, gemini_problems):
                assert problems(messages) == []
            journalled: Counter[str] = Counter()
            for run in await runtime.list_runs(THREAD):
                for record in await runtime.store.list_tool_records(run.run_id):
                    journalled[record.call_id] += 1
            assert [it for it, count in journalled.items() if count > 1] == []

    asyncio.run(story())
