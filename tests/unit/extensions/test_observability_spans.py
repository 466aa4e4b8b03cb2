"""Spans of runs, models and tools: in the right place, with the right ids, each run its own."""

import asyncio
import dataclasses
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry._logs import NoOpLoggerProvider
from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.trace import SpanKind, StatusCode
from tests.extensions.telemetry_world import Telemetry, is_below, said, traceparent

from awaken import Agent, AgentRuntime, Phase, Plugin, PluginRegistrar, ToolContext, tool
from awaken.contracts.errors import InvalidSpec
from awaken.contracts.identity import RunIdentity
from awaken.contracts.models.errors import Overloaded
from awaken.contracts.models.inference import (
    InferenceOverride,
    InferenceRequest,
    StopReason,
    TokenUsage,
)
from awaken.contracts.specs.agents import AgentSpec
from awaken.contracts.tracing import CURRENT_TRACE, trace_of
from awaken.extensions.handoff import HandoffPlugin
from awaken.extensions.observability import ObservabilityPlugin, Providers
from awaken.testing import ScriptedModel, ToolCalls, Turn

GIVEN = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@tool(effect="none")
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(effect="none")
async def break_it() -> str:
    """Fail."""
    raise RuntimeError("the tool broke")


@tool
async def approve(what: str, ctx: ToolContext) -> Any:
    """Ask somebody."""
    return ctx.suspend(f"{what}?", action="confirm") if ctx.resume is None else "approved"


def run(agents: list[Agent], plugin: ObservabilityPlugin, *asked: Any, **options: Any) -> Any:
    async def scenario() -> Any:
        async with asyncio.timeout(30), AgentRuntime(agents, everywhere=[plugin]) as runtime:
            return await runtime.run(*asked, **options)

    return asyncio.run(scenario())


def test_a_run_its_model_calls_and_its_tools_are_one_tree() -> None:
    seen = Telemetry()
    model = ScriptedModel([ToolCalls([("add", {"a": 1, "b": 2})]), "Three."])
    agent = Agent("adder", model=model, tools=[add], description="Adds.")
    result = run([agent], seen.plugin(), "adder", "go", thread_id="t1", tenant_id="acme")
    top = seen.one("invoke_agent")
    first, second = seen.named("chat")
    call = seen.one("execute_tool")
    assert top.parent is None
    assert top.name == "invoke_agent adder"
    assert all(is_below(it, top) for it in (first, second, call))
    assert (top.kind, first.kind, call.kind) == (
        SpanKind.INTERNAL, SpanKind.CLIENT, SpanKind.INTERNAL,
    )  # fmt: skip
    for span in (top, first, second, call):
        assert said(span)["awaken.run.id"] == result.run_id
        assert said(span)["gen_ai.conversation.id"] == "@acme:t1"
        assert said(span)["awaken.tenant.id"] == "acme"
        assert span.status.status_code is StatusCode.UNSET
    assert said(top) | {"awaken.run.id": ""} == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "adder",
        "gen_ai.agent.description": "Adds.",
        "gen_ai.conversation.id": "@acme:t1",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.usage.input_tokens": 20,
        "gen_ai.usage.output_tokens": 40,
        "awaken.adapter": "internal",
        "awaken.run.id": "",
        "awaken.run.is_continued": False,
        "awaken.tenant.id": "acme",
        "awaken.termination": "natural_end",
    }
    assert [said(it)["awaken.step"] for it in (first, second)] == [1, 2]
    assert said(call)["gen_ai.tool.call.id"] == "call_1"
    assert (said(call)["awaken.tool.status"], said(call)["awaken.tool.attempt"]) == ("success", 1)


def test_a_model_call_says_what_was_asked_and_used() -> None:
    seen = Telemetry()
    usage = TokenUsage(
        prompt_tokens=50, completion_tokens=7, cache_read_tokens=30, cache_creation_tokens=4,
        thinking_tokens=2,
    )  # fmt: skip
    model = ScriptedModel([Turn(text="Hm.", usage=usage, stop=StopReason.MAX_TOKENS)])
    overrides = InferenceOverride(
        temperature=0.5, top_p=0.9, max_tokens=100, reasoning_effort="low", upstream_model="big-1"
    )
    agent = Agent("a", model=model, max_continuation_retries=0)
    run([agent], seen.plugin(), "a", "go", overrides=overrides)
    chat = said(seen.one("chat big-1"))
    assert 0 <= chat.pop("gen_ai.response.time_to_first_chunk") < 30
    wanted = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "scripted",
        "gen_ai.request.model": "big-1",
        "gen_ai.request.stream": True,
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.top_p": 0.9,
        "gen_ai.request.max_tokens": 100,
        "gen_ai.request.reasoning.level": "low",
        "gen_ai.response.finish_reasons": ("length",),
        "gen_ai.usage.input_tokens": 50,
        "gen_ai.usage.output_tokens": 7,
        "gen_ai.usage.cache_read.input_tokens": 30,
        "gen_ai.usage.cache_write.input_tokens": 4,
        "gen_ai.usage.reasoning.output_tokens": 2,
    }
    assert {name: chat[name] for name in wanted} == wanted


def test_a_failed_call_and_a_failed_run_name_their_error() -> None:
    seen = Telemetry()
    broken = [Overloaded("no room, api_key=abcdefgh12345678")] * 10
    sections = {"retry": {"max_retries": 0, "max_stream_retries": 0}}
    agent = Agent("a", model=ScriptedModel(broken), config=sections)
    with pytest.raises(Exception, match="no room"):
        run([agent], seen.plugin(), "a", "go")
    top, calls = seen.one("invoke_agent"), seen.named("chat")
    for span in (top, *calls):
        assert said(span)["error.type"] == "overloaded"
        assert span.status.status_code is StatusCode.ERROR
    assert said(top)["awaken.termination"] == "error"
    told = [it.log_record for it in seen.events]
    assert [it.event_name for it in told] == ["gen_ai.client.operation.exception"] * len(calls)
    assert told[0].severity_text == "WARN" or told[0].severity_number.value == 13
    assert told[0].attributes["exception.type"] == "Overloaded"
    assert "12345678" not in told[0].attributes["exception.message"]
    assert told[0].span_id == calls[0].context.span_id


def test_a_failed_tool_is_an_error_and_the_run_is_none() -> None:
    seen = Telemetry()
    model = ScriptedModel([ToolCalls([("break_it", {})]), "Oh."])
    run([Agent("a", model=model, tools=[break_it])], seen.plugin(), "a", "go")
    call, top = seen.one("execute_tool"), seen.one("invoke_agent")
    assert call.status.status_code is StatusCode.ERROR
    assert said(call)["error.type"] == "tool_error"
    assert "error.type" not in said(top)
    assert top.status.status_code is StatusCode.UNSET


def test_a_run_belongs_to_the_trace_that_it_was_given() -> None:
    seen = Telemetry()
    agent = Agent("a", model=ScriptedModel(["Hi."]))
    run([agent], seen.plugin(), "a", "go", trace=trace_of(GIVEN, "vendor=1"))
    top = seen.one("invoke_agent")
    assert top.parent is not None
    assert top.parent.is_remote
    assert f"{top.parent.trace_id:032x}-{top.parent.span_id:016x}" == GIVEN[3:52]
    assert top.context.trace_state.to_header() == "vendor=1"


def test_a_run_belongs_to_the_span_of_who_calls_it_here() -> None:
    seen = Telemetry()
    agent = Agent("a", model=ScriptedModel(["Hi."]))
    tracer = seen.tracers.get_tracer("app")
    with tracer.start_as_current_span("request"):
        run([agent], seen.plugin(), "a", "go")
    assert is_below(seen.one("invoke_agent"), seen.one("request"))


def test_what_a_tool_and_a_model_do_is_below_their_spans() -> None:
    seen = Telemetry()
    traces: list[str] = []
    tracer = seen.tracers.get_tracer("app")

    def note() -> None:
        current = CURRENT_TRACE.get()
        assert current is not None
        traces.append(current.traceparent)
        with tracer.start_as_current_span("own"):
            pass

    @tool(effect="none")
    async def look() -> str:
        """Look."""
        note()
        return "seen"

    def answer(_: InferenceRequest) -> str:
        note()
        return "Done."

    model = ScriptedModel([ToolCalls([("look", {})]), answer])
    run([Agent("a", model=model, tools=[look])], seen.plugin(), "a", "go")
    call, chat = seen.one("execute_tool"), seen.named("chat")[1]
    assert traces == [traceparent(call), traceparent(chat)]
    first, second = seen.named("own")
    assert is_below(first, call)
    assert is_below(second, chat)
    assert not trace.get_current_span().get_span_context().is_valid


def test_between_two_calls_a_run_is_in_its_own_span_again() -> None:
    seen = Telemetry()
    between: list[str] = []

    class Looks(Plugin):
        name = "looks"

        def register(self, registrar: PluginRegistrar) -> None:
            registrar.observer(Phase.STEP_END, self.look)

        async def look(self, _: Any) -> None:
            current = CURRENT_TRACE.get()
            assert current is not None
            between.append(current.traceparent)

    model = ScriptedModel([ToolCalls([("add", {"a": 1, "b": 2})]), "Three."])
    run([Agent("a", model=model, tools=[add], plugins=[Looks()])], seen.plugin(), "a", "go")
    assert between == [traceparent(seen.one("invoke_agent"))] * 2


def test_a_run_that_goes_on_is_a_new_span_linked_to_the_former() -> None:
    seen = Telemetry()
    model = ScriptedModel([ToolCalls([("approve", {"what": "this"})]), "Done."])
    agent = Agent("a", model=model, tools=[approve])

    async def scenario() -> None:
        async with AgentRuntime([agent], everywhere=[seen.plugin()]) as runtime:
            waiting = await runtime.run("a", "go", thread_id="t")
            (ticket,) = waiting.tickets
            await runtime.decide(ticket.ticket_id, "resume")
            await runtime.wait(waiting.run_id)

    asyncio.run(asyncio.wait_for(scenario(), 30))
    first, second = seen.named("invoke_agent")
    assert said(first)["awaken.run.id"] == said(second)["awaken.run.id"]
    assert [said(it)["awaken.run.is_continued"] for it in (first, second)] == [False, True]
    assert said(first)["awaken.termination"] == "suspended"
    assert [it.name for it in first.events] == ["awaken.suspended"]
    (link,) = second.links
    assert (link.context.trace_id, link.context.span_id) == (
        first.context.trace_id, first.context.span_id,
    )  # fmt: skip
    assert not first.links
    asked = seen.named("execute_tool")[0]
    (event,) = asked.events
    assert (event.name, dict(event.attributes)) == (
        "awaken.suspended", {"awaken.suspension.action": "confirm"},
    )  # fmt: skip


def test_a_handoff_is_an_event_and_later_calls_name_who_speaks() -> None:
    seen = Telemetry()
    agents = [
        Agent(
            "front",
            model=ScriptedModel([ToolCalls([("transfer_to_agent", {"agent_id": "billing"})])]),
            plugins=[HandoffPlugin({"billing": "invoices"})],
        ),
        Agent("billing", model=ScriptedModel(["Paid."])),
    ]
    run(agents, seen.plugin(), "front", "go")
    top = seen.one("invoke_agent")
    (event,) = top.events
    assert event.name == "awaken.handed_over"
    assert dict(event.attributes) == {"gen_ai.agent.name": "billing", "awaken.agent.id": "front"}
    assert [said(it)["awaken.agent.id"] for it in seen.named("chat")] == ["front", "billing"]
    assert said(top)["gen_ai.agent.name"] == "front"


def test_a_delegated_run_is_below_the_call_that_started_it() -> None:
    seen = Telemetry()
    calls = ToolCalls([("agent_run_helper", {"prompt": "help"})])
    agents = [
        Agent("lead", model=ScriptedModel([calls, "Done."]), delegates=["helper"]),
        Agent("helper", model=ScriptedModel(["Helped."])),
    ]
    run(agents, seen.plugin(), "lead", "go")
    lead, helper = seen.one("invoke_agent lead"), seen.one("invoke_agent helper")
    assert is_below(helper, seen.one("execute_tool agent_run_helper"))
    assert said(helper)["awaken.parent_run.id"] == said(lead)["awaken.run.id"]


def test_two_hundred_runs_at_once_never_mix() -> None:
    seen = Telemetry()
    gate = asyncio.Event()

    @tool(effect="none")
    async def wait_for_all(number: int) -> int:
        """Wait."""
        await gate.wait()
        return number

    def first(request: InferenceRequest) -> ToolCalls:
        return ToolCalls([("wait_for_all", {"number": int(request.messages[-1].text)})])

    def answer(request: InferenceRequest) -> Any:
        return "Done." if request.messages[-1].tool_call_id else first(request)

    model = ScriptedModel([answer], cycle=True)

    async def one(runtime: AgentRuntime, number: int) -> tuple[str, str]:
        given = trace_of(f"00-{number + 1:032x}-{number + 1:016x}-01")
        result = await runtime.run("a", str(number), thread_id=f"t{number}", trace=given)
        return result.run_id, result.thread_id

    async def scenario() -> list[tuple[str, str]]:
        agent = Agent("a", model=model, tools=[wait_for_all])
        async with AgentRuntime([agent], everywhere=[seen.plugin()]) as runtime:
            runs = [asyncio.create_task(one(runtime, number)) for number in range(200)]
            while len(model.requests) < 200:
                await asyncio.sleep(0)
            gate.set()
            return await asyncio.gather(*runs)

    results = asyncio.run(asyncio.wait_for(scenario(), 50))
    tops = {said(it)["awaken.run.id"]: it for it in seen.named("invoke_agent")}
    assert len(tops) == 200
    assert len(seen.spans) == 800
    for number, (run_id, thread_id) in enumerate(results):
        top = tops[run_id]
        assert top.parent is not None
        assert (top.context.trace_id, top.parent.span_id) == (number + 1, number + 1)
        assert said(top)["gen_ai.conversation.id"] == thread_id
    for span in (*seen.named("chat"), *seen.named("execute_tool")):
        assert is_below(span, tops[said(span)["awaken.run.id"]])
        assert (
            said(span)["gen_ai.conversation.id"]
            == said(tops[said(span)["awaken.run.id"]])["gen_ai.conversation.id"]
        )


def test_watching_an_answer_that_was_cut_off_does_not_change_what_the_run_does() -> None:
    cut = Turn(calls=[("add", '{"a": 1,', "c1")], stop=StopReason.MAX_TOKENS)
    script = [cut, "Once more."]
    texts, requests = [], []
    for plugins in ([], [Telemetry().plugin(keeps_statistics=True)]):
        model = ScriptedModel(script)
        agent = Agent("a", model=model, tools=[add])

        async def scenario(agent: Agent = agent, plugins: Any = plugins) -> Any:
            async with AgentRuntime([agent], everywhere=plugins) as runtime:
                return await runtime.run("a", "go")

        texts.append(asyncio.run(scenario()).text)
        requests.append([[it.text for it in asked.messages] for asked in model.requests])
    assert texts[0] == texts[1]
    assert requests[0] == requests[1]


def test_providers_that_do_nothing_make_no_instrument_and_one_that_listens_does() -> None:
    silent = Providers(
        tracers=trace.NoOpTracerProvider(), meters=NoOpMeterProvider(), loggers=NoOpLoggerProvider()
    )
    asked = RunIdentity(thread_id="t", run_id="r"), AgentSpec(id="a", model_id="m")
    assert ObservabilityPlugin(providers=silent)._instrument(*asked) is None
    for one in ({"tracers": Telemetry().tracers}, {"meters": MeterProvider()}):
        heard = dataclasses.replace(silent, **one)
        assert ObservabilityPlugin(providers=heard)._instrument(*asked) is not None


def test_metrics_that_cannot_be_recorded_leave_every_span_ended() -> None:
    class Broken(NoOpMeterProvider):
        def get_meter(self, *_: Any, **__: Any) -> Any:
            return self

        def create_histogram(self, *_: Any, **__: Any) -> Any:
            return self

        def record(self, *_: Any, **__: Any) -> None:
            raise RuntimeError("no room")

    seen = Telemetry()
    plugin = ObservabilityPlugin(providers=Providers(tracers=seen.tracers, meters=Broken()))
    model = ScriptedModel([ToolCalls([("add", {"a": 1, "b": 2})]), "Three."])
    run([Agent("a", model=model, tools=[add])], plugin, "a", "go")
    assert [it.name.split()[0] for it in seen.spans] == [
        "invoke_agent", "chat", "execute_tool", "chat",
    ]  # fmt: skip


def test_nobody_is_told_anything_when_an_agent_is_not_watched() -> None:
    seen = Telemetry()
    unwatched = Agent(
        "a", model=ScriptedModel(["Hi."]), config={"observability": {"is_watched": False}}
    )
    run([unwatched], seen.plugin(), "a", "go")
    assert seen.spans == []
    assert seen.metrics == {}


def test_a_section_that_does_not_fit_refuses_the_agent() -> None:
    for section in ({"content": "everything"}, {"is_wachted": True}, {"content_chars": -1}):
        agent = Agent("a", model=ScriptedModel([]), config={"observability": section})
        with pytest.raises(InvalidSpec, match="observability"):
            AgentRuntime([agent], everywhere=[ObservabilityPlugin()])
