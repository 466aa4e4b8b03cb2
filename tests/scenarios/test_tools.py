"""Tools in a run: side by side or in turn, well or badly behaved, each answered exactly once."""

import asyncio
import contextvars
import sys
import threading
from typing import Any

import pytest

from awaken import (
    Agent,
    AgentRuntime,
    NaturalEnd,
    Plugin,
    PluginRegistrar,
    StateKey,
    Suspended,
    ToolCallDone,
    ToolContext,
    ToolError,
    ToolResult,
    tool,
)
from awaken.events import encode_event
from awaken.messages import system_context
from awaken.plugins import ADD_CONTEXT_MESSAGE, EffectSpec, Snapshot
from awaken.testing import ToolCalls
from awaken.tools import ToolDescriptor, ToolOutput

from .worlds import CheckedModel, Story, World, play, simulated

INTERRUPTED = "[Tool execution was interrupted]"
COUNT = StateKey("count", default=0, apply=lambda value, more: value + more, merge="commutative")
LAST: StateKey[str, str] = StateKey("last", default="")


@tool(effect="none")
async def wait(seconds: float) -> float:
    await asyncio.sleep(seconds)
    return seconds


@tool
async def fail() -> str:
    raise ValueError("broken")


@tool
async def ask(ctx: ToolContext) -> object:
    return ctx.suspend("May I?")


@tool
async def write(text: str, ctx: ToolContext) -> str:
    before = ctx.state.get(LAST)
    ctx.state.set(LAST, text)
    return before


MIXED = [("wait", {"seconds": 2}), ("fail", {}), ("ask", {}), ("wait", {"seconds": 1})]


@pytest.mark.parametrize(
    ("parallel", "outcomes", "answers", "seconds"),
    [
        (
            True,
            ["succeeded", "failed", "suspended", "succeeded"],
            ["2.0", "Execution failed: ValueError: broken", "1.0"],
            2,
        ),
        (
            False,
            ["succeeded", "failed", "suspended", "failed"],
            ["2.0", "Execution failed: ValueError: broken", INTERRUPTED],
            2,
        ),
    ],
    ids=["parallel", "sequential"],
)
def test_failures_and_suspensions_of_a_batch_touch_only_their_own_call(
    parallel: bool, outcomes: list[str], answers: list[str], seconds: int
) -> None:
    story = play([ToolCalls(MIXED)], tools=[wait, fail, ask], parallel_tools=parallel)

    assert [str(event.outcome) for event in story.of(ToolCallDone)] == outcomes
    assert story.answers == answers
    assert story.termination == Suspended()
    assert story.record is not None
    assert story.record.updated_at - story.record.created_at == seconds * 1000


@pytest.mark.parametrize(("parallel", "seconds"), [(True, 3), (False, 6)])
def test_calls_run_at_once_or_in_turn_and_answer_in_call_order(
    parallel: bool, seconds: int
) -> None:
    calls = [("wait", {"seconds": n}) for n in (3, 1, 2)]
    story = play([ToolCalls(calls), "ok"], tools=[wait], parallel_tools=parallel)

    assert story.answers == ["3.0", "1.0", "2.0"]
    assert story.record is not None
    assert story.record.finished_at is not None
    assert story.record.finished_at - story.record.created_at == seconds * 1000


def test_in_turn_a_later_tool_sees_the_state_of_an_earlier_one() -> None:
    calls = ToolCalls([("write", {"text": "a"}), ("write", {"text": "b"})])
    story = play([calls, "ok"], tools=[write], parallel_tools=False)

    assert story.answers == ["", "a"]


def test_each_call_knows_its_own_run_id_call_id_and_key() -> None:
    seen: list[tuple[str, str, str, str]] = []

    @tool
    async def who(ctx: ToolContext) -> None:
        seen.append((ctx.run.run_id, ctx.tool_name, ctx.call_id, ctx.idempotency_key))
        assert not ctx.is_cancelled

    calls = ToolCalls([("who", {}, "a"), ("who", {}, "b")])
    play([calls, calls, "ok"], tools=[who], options={"run_id_hint": "r"}, model=_any_ids(calls))

    assert [entry[:2] for entry in seen] == [("r", "who")] * 4
    assert [entry[2] for entry in seen[:2]] == ["a", "b"]
    assert len({entry[2] for entry in seen}) == 4, "an id that an earlier call had is replaced"
    assert len({entry[3] for entry in seen}) == 4


def _any_ids(calls: ToolCalls) -> Any:
    """A model that uses the same call ids in every step, as some do."""
    model = CheckedModel([calls, calls, "ok"])
    model.rules = tuple(rule for rule in model.rules if rule.__name__ != "anthropic_problems")
    return model


def test_a_tools_command_changes_state_schedules_actions_and_emits_effects_once() -> None:
    ping = EffectSpec("ping", str)
    pinged: list[tuple[str, int]] = []

    class Pings(Plugin):
        name = "pings"

        def register(self, registrar: PluginRegistrar) -> None:
            async def handle(payload: str, snapshot: Snapshot) -> None:
                pinged.append((payload, snapshot.get(COUNT)))

            registrar.effect(ping, handle)
            registrar.key(COUNT)

    @tool
    async def act(ctx: ToolContext) -> str:
        ctx.state.update(COUNT, 2)
        ctx.schedule(ADD_CONTEXT_MESSAGE, system_context("act", "acted"))
        ctx.emit_effect(ping, "pong")
        return "ok"

    @tool
    async def nothing() -> None:
        return None

    calls = ToolCalls([("act", {}), ("nothing", {}), ("act", {})])
    story = play([calls, "ok"], tools=[act, nothing], plugins=[Pings()])

    assert pinged == [("pong", 2), ("pong", 4)]
    assert story.requests[1].system == ("acted",)
    assert story.answers == ["ok", "null", "ok"]
    assert story.of(ToolCallDone)[1].result.data is None


def test_a_command_that_cannot_be_applied_becomes_an_error_and_applies_nothing() -> None:
    @tool
    async def bad(ctx: ToolContext) -> str:
        ctx.state.update(COUNT, 5)
        ctx.emit_effect(EffectSpec("nobody", str), "x")
        return "ok"

    @tool(effect="none")
    async def count(ctx: ToolContext) -> int:
        return ctx.state.get(COUNT)

    story = play([ToolCalls([("bad", {})]), ToolCalls([("count", {})]), "ok"], tools=[bad, count])

    assert story.answers == ["[unknown_handler] No plugin handles effect 'nobody'.", "0"]
    assert story.termination == NaturalEnd()


class Odd(BaseException):
    """An exception that is no `Exception`."""


async def _raise(error: BaseException) -> None:
    raise error


async def _cancel_itself() -> None:
    raise asyncio.CancelledError


async def _cancel_its_task() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(1)


async def _exit() -> None:
    sys.exit(3)


@pytest.mark.parametrize(
    ("misbehave", "expected"),
    [
        (lambda: _raise(Odd("x")), "Execution failed: Odd: x"),
        (lambda: _raise(ToolError("mine")), "Execution failed: mine"),
        (lambda: _raise(ValueError("\ud800")), "Execution failed: ValueError: ?"),
        (lambda: _raise(ValueError("x" * 1_000_000)), "Execution failed: ValueError: xxx"),
        (lambda: _raise(TimeoutError("mine")), "Execution failed: TimeoutError: mine"),
        (_exit, "Execution failed: SystemExit: 3"),
        (_cancel_itself, "Execution failed: the tool cancelled itself"),
        (_cancel_its_task, "Execution failed: the tool cancelled itself"),
    ],
    ids=[
        "odd",
        "tool-error",
        "surrogate",
        "long",
        "timeout",
        "exit",
        "cancel-raised",
        "cancel-task",
    ],
)
@pytest.mark.parametrize("effect", ["none", "once"])
def test_whatever_a_tool_raises_is_its_own_result_and_nothing_else(
    misbehave: Any, expected: str, effect: Any
) -> None:
    @tool(effect=effect)
    async def bad() -> None:
        await misbehave()

    story = play([ToolCalls([("bad", {}), ("wait", {"seconds": 1})]), "ok"], tools=[bad, wait])

    assert story.answers[0].startswith(expected)
    assert len(story.answers[0]) < 20_000
    assert story.answers[1] == "1.0"
    assert story.termination == NaturalEnd()
    for event in story.events:
        encode_event(event)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("lone \ud800 surrogate", "lone ? surrogate"),
        ({"a": ["\ud800"]}, '{"a":["?"]}'),
        (ToolResult.success("give", {"a": "\ud800"}), '{"a":"?"}'),
        (ToolResult.success("give", object()), "Internal error: a result"),
        (object(), "Internal error: a result of type 'object' has no JSON form"),
        (
            ToolResult(tool_name="give", data=1, metadata={"x": object()}),
            "Internal error: a result",
        ),
        (float("nan"), "null"),
        (ToolOutput(result=ToolResult.success("give", 7)), "7"),
        (ToolResult.error("give", "own error"), "own error"),
        ("", ""),
    ],
    ids=[
        "text",
        "nested",
        "own-result",
        "own-object",
        "object",
        "metadata",
        "nan",
        "output",
        "error",
        "empty",
    ],
)
@pytest.mark.parametrize("effect", ["none", "once"])
def test_whatever_a_tool_returns_can_be_stored_sent_and_read(
    value: object, text: str, effect: Any
) -> None:
    @tool(effect=effect)
    async def give() -> Any:
        return value

    story = play([ToolCalls([("give", {})]), "ok"], tools=[give])

    assert story.answers[0].startswith(text)
    assert story.termination == NaturalEnd()
    for event in story.events:
        encode_event(event)


def test_an_update_that_cannot_be_stored_is_an_error_and_changes_nothing() -> None:
    junk: StateKey[Any, Any] = StateKey("junk", default=None)

    @tool
    async def once(ctx: ToolContext) -> str:
        ctx.state.set(junk, object())
        return "ok"

    @tool(effect="none")
    async def pure(ctx: ToolContext) -> str:
        ctx.state.set(junk, object())
        return "ok"

    story = play([ToolCalls([("once", {}), ("pure", {})]), "ok"], tools=[once, pure])

    assert all("Encoding objects of type object" in it for it in story.answers)
    assert story.termination == NaturalEnd()


def test_a_tool_of_ones_own_class_is_held_to_the_same() -> None:
    class Own:
        descriptor = ToolDescriptor(id="own", description="Mine.")

        def validate(self, arguments: Any) -> Any:
            if arguments != {"fine": True}:
                raise KeyError("not \ud800 fine")
            return arguments

        async def execute(self, arguments: Any, context: ToolContext) -> ToolOutput:
            return ToolOutput(result=ToolResult.success("own", {"given": arguments}))

    calls = ToolCalls([("own", {"fine": True}), ("own", {})])
    story = play([calls, "ok"], tools=[Own()])

    assert story.answers == ['{"given":{"fine":true}}', "Invalid arguments: 'not \\ud800 fine'"]


def test_a_sync_tool_runs_in_a_thread_with_the_callers_context() -> None:
    color = contextvars.ContextVar("color", default="none")
    threads: list[object] = []

    @tool
    def work(text: str, ctx: ToolContext) -> str:
        threads.append(threading.current_thread())
        ctx.state.set(LAST, text)
        return f"{text} {color.get()}"

    async def scenario() -> list[str]:
        color.set("red")
        model = CheckedModel([ToolCalls([("work", {"text": "a"}), ("work", {"text": "b"})]), "ok"])
        async with AgentRuntime([Agent("agent", model=model, tools=[work])]) as runtime:
            await runtime.run("agent", "go", thread_id="t")
            messages = await runtime.messages("t")
            return [entry.message.text for entry in messages if entry.message.tool_call_id]

    answers = asyncio.run(scenario())
    assert answers[0] == "a red"
    assert answers[1].startswith("[state_conflict]")
    assert threading.main_thread() not in threads


def test_a_tool_that_takes_too_long_is_cancelled_and_its_siblings_go_on() -> None:
    cleaned: list[str] = []

    @tool(timeout=2)
    async def slow() -> str:
        try:
            await asyncio.sleep(60)
        finally:
            cleaned.append("up")
        return "never"

    story = play([ToolCalls([("slow", {}), ("wait", {"seconds": 5})]), "ok"], tools=[slow, wait])

    assert story.answers == ["Timed out: no result within 2000 ms", "5.0"]
    assert story.of(ToolCallDone)[0].result.metadata["timed_out"] is True
    assert cleaned == ["up"]


def test_tools_side_by_side_each_have_their_own_time() -> None:
    ended: list[tuple[str, float]] = []

    async def hang(name: str) -> str:
        try:
            await asyncio.sleep(60)
        finally:
            ended.append((name, asyncio.get_running_loop().time()))
        return "never"

    @tool(timeout=4)
    async def patient() -> str:
        return await hang("patient")

    @tool(timeout=1)
    async def hasty() -> str:
        return await hang("hasty")

    calls = [("patient", {}), ("wait", {"seconds": 2}), ("hasty", {})]
    story = play([ToolCalls(calls), "ok"], tools=[patient, wait, hasty])

    assert ended == [("hasty", 1), ("patient", 4)]
    assert story.answers == [
        "Timed out: no result within 4000 ms",
        "2.0",
        "Timed out: no result within 1000 ms",
    ]


@pytest.mark.parametrize("stubborn_s", [1, 60])
def test_a_tool_that_ignores_its_time_limit_is_left_behind_and_its_result_dropped(
    stubborn_s: int,
) -> None:
    @tool(timeout=2)
    async def stubborn() -> str:
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            await asyncio.sleep(stubborn_s)
        return "late"

    async def scenario() -> tuple[Story, float]:
        story = await _play(ToolCalls([("stubborn", {})]), [stubborn])
        finished = asyncio.get_running_loop().time()
        await asyncio.sleep(100)
        return story, finished

    story, finished = simulated(scenario)
    assert story.answers == ["Timed out: no result within 2000 ms"]
    assert finished == 2 + min(stubborn_s, 5)


async def _play(calls: ToolCalls, tools: list[Any]) -> Story:
    async with World([calls, "ok"], tools=tools) as world:
        return await world.tell()
