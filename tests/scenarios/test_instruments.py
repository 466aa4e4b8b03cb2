"""Instruments stand around what they watch, hear how it ended, and cannot disturb it."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest

from awaken import (
    Agent,
    AgentEvent,
    AgentRuntime,
    Budget,
    InvalidInput,
    Plugin,
    PluginRegistrar,
    TextDelta,
    ToolContext,
    ToolResult,
    TraceContext,
    user,
)
from awaken import tool as as_tool
from awaken.contracts.tracing import CURRENT_RUN, CURRENT_TRACE, trace_of
from awaken.errors import Overloaded
from awaken.events import InferenceComplete
from awaken.extensions.handoff import HandoffPlugin
from awaken.models import InferenceOverride, InferenceRequest, TokenUsage
from awaken.testing import ScriptedModel, ToolCalls, Turn
from awaken.tools import Delegation

PLACE: ContextVar[tuple[str, ...]] = ContextVar("place", default=())
TRACE = TraceContext(traceparent=f"00-{'a' * 32}-{'b' * 16}-01")


class Watch:
    def __init__(self, notes: list[Any], name: str) -> None:
        self.notes, self.name = notes, name

    def on_first_piece(self) -> None:
        self.notes.append((self.name, "begun"))

    def on_end(self, result: Any, _usage: Any = None) -> None:
        self.notes.append((self.name, "ended", result))


class Recorder(Plugin):
    """Notes everything, and keeps where it is in a context variable as a tracer would."""

    name = "recorder"

    def __init__(self) -> None:
        self.notes: list[Any] = []

    def register(self, registrar: PluginRegistrar) -> None:
        registrar.instrument(lambda run, agent: self)

    @contextmanager
    def _around(self, name: str) -> Iterator[Watch]:
        token = PLACE.set((*PLACE.get(), name))
        self.notes.append((name, "enter"))
        try:
            yield Watch(self.notes, name)
        except BaseException as error:
            self.notes.append((name, "raised", type(error).__name__))
            raise
        finally:
            PLACE.reset(token)
            self.notes.append((name, "leave"))

    def watch_run(self, *, is_continued: bool) -> Any:
        return self._around("run again" if is_continued else "run")

    def watch_model_call(self, call: Any) -> Any:
        return self._around(f"model {call.provider} {call.step}")

    def watch_tool_call(self, call: Any, tool: Any, attempt: int) -> Any:
        return self._around(f"tool {call.name}")

    def on_handoff(self, agent: Any) -> None:
        self.notes.append(("handed over", agent.id))


@as_tool(effect="none")
async def where() -> str:
    """Say where the code runs."""
    run = CURRENT_RUN.get()
    assert run is not None
    return f"{'/'.join(PLACE.get())} in {run.thread_id}"


@as_tool(effect="none")
def where_in_thread() -> str:
    """Say where the code runs, from a worker thread."""
    return "/".join(PLACE.get())


def test_an_instrument_stands_around_the_run_the_model_and_the_tools() -> None:
    async def scenario() -> None:
        recorder, places = Recorder(), list[str]()

        def look(_: InferenceRequest) -> Any:
            places.append("/".join(PLACE.get()))
            return "done"

        model = ScriptedModel([ToolCalls([("where", {}), ("where_in_thread", {})]), look])
        agent = Agent("a", model=model, tools=[where, where_in_thread], plugins=[recorder])
        async with AgentRuntime([agent]) as runtime:
            await runtime.run("a", "go", thread_id="t")
            results = [it.message.text for it in await runtime.messages("t")][2:4]
        assert places == ["run/model scripted 2"]
        assert results == ["run/tool where in t", "run/tool where_in_thread"]
        names = [it[0] for it in recorder.notes if it[1] == "ended"]
        assert names == [
            "model scripted 1",
            "tool where",
            "tool where_in_thread",
            "model scripted 2",
            "run",
        ]
        assert recorder.notes[-1] == ("run", "leave")
        assert [it[0] for it in recorder.notes if it[1] == "begun"] == [
            "model scripted 1",
            "model scripted 2",
        ]

    asyncio.run(scenario())


def test_each_try_of_a_model_is_watched_and_left_with_its_error() -> None:
    async def scenario() -> None:
        recorder = Recorder()
        model = ScriptedModel([Overloaded("away"), "here"])
        agent = Agent(
            "a", model=model, plugins=[recorder], config={"retry": {"backoff_base_ms": 1}}
        )
        async with AgentRuntime([agent]) as runtime:
            await runtime.run("a", "go")
        raised = [it for it in recorder.notes if it[1] == "raised"]
        assert raised == [("model scripted 1", "raised", "Overloaded")]
        assert len([it for it in recorder.notes if it[1] == "enter"]) == 3

    asyncio.run(scenario())


class Disturbing(Recorder):
    name = "disturbing"

    def on_handoff(self, agent: Any) -> None:
        raise RuntimeError("handover")

    @contextmanager
    def _around(self, name: str) -> Iterator[Any]:
        if name.startswith("tool"):
            raise RuntimeError("before")
        yield None
        raise RuntimeError("after")


def test_an_instrument_that_fails_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        passed = ("transfer_to_agent", {"agent_id": "b"})
        model = ScriptedModel([ToolCalls([("where", {}), passed])])
        plugins = [Disturbing(), HandoffPlugin({"b": "always"})]
        agent = Agent("a", model=model, tools=[where], plugins=plugins)
        async with AgentRuntime([agent, Agent("b", model=ScriptedModel(["done"]))]) as runtime:
            result = await runtime.run("a", "go", thread_id="t")
        assert result.text == "done"

    asyncio.run(scenario())
    assert "An instrument failed" in caplog.text


def test_a_callers_trace_is_the_runs_and_passes_to_its_delegates() -> None:
    async def scenario() -> None:
        seen: list[Any] = []

        def look(_: InferenceRequest) -> Any:
            seen.append(CURRENT_TRACE.get())
            return "hi"

        boss = ScriptedModel([ToolCalls([("agent_run_worker", {"prompt": "go"})]), "done"])
        agents = [
            Agent("boss", model=boss, delegates=["worker"]),
            Agent("worker", model=ScriptedModel([look])),
        ]
        async with AgentRuntime(agents) as runtime:
            result = await runtime.run("boss", "go", trace=TRACE)
            runs = await runtime.list_runs()
            assert (await runtime.get_run(result.run_id)).trace == TRACE
        assert seen == [TRACE]
        assert [it.trace for it in runs] == [TRACE, TRACE]
        assert CURRENT_TRACE.get() is None

    asyncio.run(scenario())


def test_a_trace_that_is_nonsense_is_refused_in_code() -> None:
    async def scenario() -> None:
        async with AgentRuntime([Agent("a", model=ScriptedModel(["hi"]))]) as runtime:
            with pytest.raises(InvalidInput, match="W3C trace context"):
                await runtime.run("a", "go", trace=TraceContext(traceparent="x\r\ny: z"))

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "header",
    ["", "nonsense", f"ff-{'a' * 32}-{'b' * 16}-01", f"00-{'0' * 32}-{'b' * 16}-01", "00-a-b-01"],
)
def test_a_trace_header_that_is_nonsense_is_no_trace(header: str) -> None:
    assert trace_of(header) is None


def test_a_trace_header_is_read_with_its_state() -> None:
    found = trace_of(f" {TRACE.traceparent}-more ", "vendor=1")
    assert found is not None
    assert found.headers == {"traceparent": TRACE.traceparent, "tracestate": "vendor=1"}
    assert trace_of(TRACE.traceparent, "bad\nstate") == TRACE


@as_tool(effect="none")
async def ask(ctx: ToolContext) -> str:
    """Ask the model."""
    wanted = InferenceOverride(max_tokens=5, upstream_model="another")
    answer = await ctx.sub_runs.ask_model([user("what?")], system=("Be brief.",), overrides=wanted)
    return answer.text


def test_a_tool_asks_the_model_and_the_run_pays_while_nobody_sees_it() -> None:
    async def scenario() -> None:
        model = ScriptedModel([ToolCalls([("ask", {})]), "this", "done"])
        agent = Agent("a", model=model, tools=[ask])
        async with AgentRuntime([agent]) as runtime:
            seen = [it async for it in runtime.stream("a", "go", thread_id="t")]
            texts = [it.message.text for it in await runtime.messages("t")]
            run = (await runtime.list_runs())[0]
        aside = model.requests[1]
        assert (aside.system, [it.text for it in aside.messages]) == (("Be brief.",), ["what?"])
        assert not aside.tools
        assert aside.overrides == InferenceOverride(max_tokens=5)
        assert aside.upstream_model == model.requests[0].upstream_model
        assert texts == ["go", "", "this", "done"]
        assert [it.delta for it in seen if isinstance(it, TextDelta)] == ["done"]
        shown = [it.usage.prompt_tokens for it in seen if isinstance(it, InferenceComplete)]
        assert run.usage.prompt_tokens == sum(shown) + shown[0]

    asyncio.run(scenario())


def test_a_tool_cannot_ask_the_model_beyond_the_budget() -> None:
    async def scenario() -> None:
        spent = TokenUsage(prompt_tokens=900, completion_tokens=95)
        model = ScriptedModel([ToolCalls([("ask", {})]), "this", "done"], usage=spent)
        agent = Agent("a", model=model, tools=[ask], budgets=[Budget(tokens=1000)])
        async with AgentRuntime([agent]) as runtime:
            await runtime.run("a", "go", overrides=InferenceOverride(max_tokens=10))
        assert len(model.requests) == 1

    asyncio.run(scenario())


def test_whoever_delegates_hears_what_the_delegate_says_while_it_says_it() -> None:
    async def scenario() -> None:
        heard: list[AgentEvent] = []

        @as_tool(effect="idempotent")
        async def draw(ctx: ToolContext) -> str:
            """Have it drawn."""
            result = await ctx.sub_runs.delegate(
                Delegation(agent_id="painter", prompt="a cat"), listen=heard.append
            )
            return result.response

        boss = ScriptedModel([ToolCalls([("draw", {})]), "done"])
        agents = [
            Agent("boss", model=boss, tools=[draw]),
            Agent("painter", model=ScriptedModel(["a cat, drawn"])),
        ]
        async with AgentRuntime(agents) as runtime:
            result = await runtime.run("boss", "go")
        assert result.text == "done"
        assert "".join(it.delta for it in heard if isinstance(it, TextDelta)) == "a cat, drawn"

    asyncio.run(scenario())


@as_tool(effect="none", timeout=1)
async def asks_then_hangs(ctx: ToolContext) -> str:
    """Ask the model, then hang."""
    await ctx.sub_runs.ask_model([user("what?")])
    await asyncio.Event().wait()
    return "never"


def test_a_tool_that_asked_the_model_still_has_to_be_in_time() -> None:
    async def scenario() -> None:
        model = ScriptedModel([ToolCalls([("asks_then_hangs", {})]), "this", "done"])
        agent = Agent("a", model=model, tools=[asks_then_hangs])
        async with AgentRuntime([agent]) as runtime, asyncio.timeout(20):
            result = await runtime.run("a", "go", thread_id="t")
            said = [it.message.text for it in await runtime.messages("t")]
        assert result.text == "done"
        assert "Timed out" in said[2]

    asyncio.run(scenario())


def test_questions_that_are_asked_at_once_cannot_outspend_a_budget() -> None:
    async def scenario() -> None:
        spent = TokenUsage(prompt_tokens=300, completion_tokens=100)
        calls = ToolCalls([("ask", {})] * 8)
        slow = Turn(text="this", delay_ms=30)
        model = ScriptedModel([calls, *[slow] * 8, "done"], usage=spent)
        agent = Agent("a", model=model, tools=[ask], budgets=[Budget(tokens=1_000)])
        async with AgentRuntime([agent]) as runtime:
            await runtime.run("a", "go", overrides=InferenceOverride(max_tokens=100))
            (run,) = await runtime.list_runs()
        assert (run.usage.total_tokens or 0) <= 1_400
        assert len(model.requests) <= 3

    asyncio.run(scenario())


@as_tool(effect="none")
async def who() -> str:
    """Say who speaks."""
    run = CURRENT_RUN.get()
    assert run is not None
    return run.active_agent_id or run.agent_id


def test_after_a_handoff_the_context_names_the_new_agent() -> None:
    async def scenario() -> None:
        first = ScriptedModel([ToolCalls([("transfer_to_agent", {"agent_id": "b"})])])
        second = ScriptedModel([ToolCalls([("who", {})]), "done"])
        agents = [
            Agent("a", model=first, plugins=[HandoffPlugin({"b": "always"})]),
            Agent("b", model=second, tools=[who]),
        ]
        async with AgentRuntime(agents) as runtime:
            await runtime.run("a", "go")
        assert second.requests[-1].messages[-1].text == "b"

    asyncio.run(scenario())


def test_a_worker_does_not_keep_the_context_of_whoever_came_first(tmp_path: Path) -> None:
    async def scenario() -> None:
        seen: list[tuple[str, ...]] = []

        def look(_: InferenceRequest) -> Any:
            seen.append(PLACE.get())
            return "hi"

        agent = Agent("a", model=ScriptedModel([look], cycle=True))
        async with AgentRuntime([agent]) as runtime:
            for name in ("first", "second"):
                token = PLACE.set((name,))
                receipt = await runtime.submit("a", "go")
                PLACE.reset(token)
                await runtime.wait(receipt.run_id, timeout_ms=10_000)
        assert seen == [(), ()]

    asyncio.run(scenario())


def test_a_request_that_is_tried_again_in_another_span_is_the_same_request() -> None:
    async def scenario() -> None:
        other = TraceContext(traceparent=f"00-{'a' * 32}-{'c' * 16}-01")
        agent = Agent("a", model=ScriptedModel(["hi"], cycle=True))
        async with AgentRuntime([agent]) as runtime:
            one = await runtime.submit("a", "go", thread_id="t", dedupe_key="k", trace=TRACE)
            two = await runtime.submit("a", "go", thread_id="t", dedupe_key="k", trace=other)
        assert one.run_id == two.run_id

    asyncio.run(scenario())


def test_the_code_of_a_failure_is_its_class_wherever_it_stands() -> None:
    assert ToolResult.error("t", "no", code="tool_timeout").error_class == "tool_timeout"
    assert ToolResult.error_with_code("t", "gone", "no").error_class == "gone"
    assert ToolResult.error("t", "no").error_class == "tool_error"
