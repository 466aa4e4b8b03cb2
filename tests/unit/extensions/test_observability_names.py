"""Every name that leaves the process is in the registry of the conventions, or begins with ours.

Which versions of the registry they are is said in `tests/extensions/genai_registry.toml`.
"""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from tests.extensions.telemetry_world import REGISTRY, Telemetry, said

from awaken import Agent, AgentRuntime, RunFailed, ToolContext, tool
from awaken.contracts.identity import RunIdentity
from awaken.contracts.lifecycle import NaturalEnd
from awaken.contracts.models.addresses import ServerAddress
from awaken.contracts.models.errors import ContentFiltered, Overloaded
from awaken.contracts.models.inference import (
    InferenceOverride,
    InferenceRequest,
    ModelEvent,
    StopReason,
    TokenUsage,
    VendorAnswer,
)
from awaken.contracts.specs.agents import AgentSpec, RemoteEndpoint
from awaken.extensions.handoff import HandoffPlugin
from awaken.extensions.observability import names
from awaken.testing import Reasoning, ScriptedModel, ToolCalls, Turn

KNOWN = frozenset(REGISTRY["attributes"]["names"])
CONSTANTS = frozenset(
    value for name, value in vars(names).items() if name.isupper() and isinstance(value, str)
)
USAGE = TokenUsage(
    prompt_tokens=9, completion_tokens=8, cache_read_tokens=3, cache_creation_tokens=2,
    thinking_tokens=1,
)  # fmt: skip
OWN_PREFIX = "awaken."
OWN = frozenset(it for it in CONSTANTS if it.startswith(OWN_PREFIX))
ONCE = {"retry": {"max_retries": 0, "max_stream_retries": 0}}
EVERYWHERE = "gen_ai.conversation.id"
"""The conventions let applications add it to every span."""


@tool(effect="none")
async def look(place: str) -> dict[str, str]:
    """Look somewhere."""
    return {"found": place}


@tool(effect="none")
async def fail() -> str:
    """Fail."""
    raise RuntimeError("no")


@tool
async def approve(ctx: ToolContext) -> Any:
    """Ask."""
    return ctx.suspend("Sure?", action="confirm") if ctx.resume is None else "yes"


class Vendor:
    """A model whose vendor says everything that there is to say."""

    name = "mistral"
    server = ServerAddress(host="models.example", port=8443)

    def __init__(self, script: list[Any], answers: int = 2) -> None:
        self._model = ScriptedModel(script)
        self._left = answers
        """How many answers it still has a name for."""

    async def stream(self, request: InferenceRequest) -> AsyncGenerator[ModelEvent, None]:
        async with aclosing(self._model.stream(request)) as events:
            async for event in events:
                yield event
        self._left -= 1
        if self._left >= 0:
            yield VendorAnswer(id="resp-1", model="big-" + "1" * 500)


def everything() -> Telemetry:
    """All that can be told: every kind of call, end and event, with content."""
    seen = Telemetry()
    calls = [("look", {"place": "here"}), ("fail", {}), ("agent_run_helper", {"prompt": "x"})]
    first = Turn(text="Hm.", reasoning=Reasoning("why", "s"), calls=calls, usage=USAGE)
    over = ToolCalls([("transfer_to_agent", {"agent_id": "second"})])
    agents = [
        Agent(
            "lead",
            model=Vendor([first, over]),
            tools=[look, fail],
            instructions="Lead.",
            description="Leads.",
            delegates=["helper"],
            plugins=[HandoffPlugin({"second": "the rest"})],
        ),
        Agent(
            "second", model=ScriptedModel([ToolCalls([("approve", {})]), "End."]), tools=[approve]
        ),
        Agent(
            "helper",
            model=ScriptedModel([Turn(text="[1]", stop=StopReason.STOP_SEQUENCE)]),
            output_type=list[int],
        ),
        Agent(
            "broken",
            model=ScriptedModel([Overloaded("no")] * 9),
            config=ONCE,
        ),
    ]
    overrides = InferenceOverride(temperature=0.1, top_p=0.2, max_tokens=9, reasoning_effort="low")

    async def scenario() -> None:
        plugin = seen.plugin(content="span_and_event")
        async with AgentRuntime(agents, everywhere=[plugin]) as runtime:
            waiting = await runtime.run("lead", "go", overrides=overrides, tenant_id="acme")
            await runtime.decide(waiting.tickets[0].ticket_id, "resume")
            await runtime.wait(waiting.run_id)
            with pytest.raises(RunFailed):
                await runtime.run("broken", "go")

    asyncio.run(asyncio.wait_for(scenario(), 30))
    _remote(seen)
    return seen


def _remote(seen: Telemetry) -> None:
    """A run that executes elsewhere, as its instrument sees it."""
    endpoint = RemoteEndpoint(base_url="https://agents.example:8443/a2a", target="far-1")
    agent = AgentSpec(id="far", endpoint=endpoint)
    instrument = seen.plugin()._instrument(RunIdentity(thread_id="t", run_id="r"), agent)
    assert instrument is not None
    with instrument.watch_run(is_continued=False) as watch:
        watch.on_end(NaturalEnd(), TokenUsage(prompt_tokens=1, completion_tokens=2))


def _kind(span: ReadableSpan) -> str:
    operation = said(span)["gen_ai.operation.name"]
    return {
        ("invoke_agent", "INTERNAL"): "invoke_agent_internal",
        ("invoke_agent", "CLIENT"): "invoke_agent_client",
        ("chat", "CLIENT"): "inference_client",
        ("execute_tool", "INTERNAL"): "execute_tool_internal",
    }[operation, span.kind.name]


def test_every_span_is_of_a_kind_that_the_conventions_know() -> None:
    spans = everything().spans
    kinds = {_kind(span) for span in spans}
    assert kinds == set(REGISTRY["spans"])
    for span in spans:
        attributes, wanted = said(span), REGISTRY["spans"][_kind(span)]
        assert span.name == wanted["name"].format_map(_Fields(attributes))
        levels = wanted["attributes"]
        foreign = {name for name in attributes if not name.startswith(OWN_PREFIX)}
        assert foreign <= {*levels, EVERYWHERE}
        assert ("server.address" in foreign) is ("server.port" in foreign)
        assert {name for name, level in levels.items() if level == "required"} <= set(attributes)
        own = {name for name in attributes if name.startswith(OWN_PREFIX)}
        assert own <= OWN
        for event in span.events:
            assert event.name in OWN
            assert set(event.attributes or {}) <= KNOWN | OWN


class _Fields(dict[str, Any]):
    """Formats `{gen_ai.agent.name}` with the whole name as its key."""

    def __missing__(self, key: str) -> Any:
        return _Dotted(self, key)


class _Dotted:
    def __init__(self, fields: dict[str, Any], name: str) -> None:
        self._fields, self._name = fields, name

    def __getattr__(self, more: str) -> Any:
        name = f"{self._name}.{more}"
        return self._fields[name] if name in self._fields else _Dotted(self._fields, name)


def test_every_event_and_its_attributes_are_in_the_registry() -> None:
    events = [it.log_record for it in everything().events]
    assert {it.event_name for it in events} == {
        "gen_ai.client.inference.operation.details", "gen_ai.client.operation.exception",
    }  # fmt: skip
    for event in events:
        wanted = REGISTRY["events"][event.event_name]
        assert event.severity_number.name == wanted["severity"]
        same = wanted.get("same_attributes_as")
        levels = REGISTRY["spans"][same]["attributes"] if same else wanted["attributes"]
        foreign = {it for it in event.attributes if not it.startswith(OWN_PREFIX)}
        assert foreign <= set(levels)
        assert event.span_id


def test_every_metric_has_the_unit_and_attributes_of_the_registry() -> None:
    metrics = everything().metrics
    assert set(metrics) == {
        "gen_ai.client.token.usage",
        "gen_ai.client.operation.duration",
        "gen_ai.client.operation.time_to_first_chunk",
        "gen_ai.invoke_agent.duration",
        "gen_ai.invoke_agent.inference_calls",
        "gen_ai.invoke_agent.tool_calls",
        "gen_ai.execute_tool.duration",
    }
    for name, metric in metrics.items():
        wanted = REGISTRY["metrics"][name]
        assert metric.unit == wanted["unit"]
        for point in metric.data.data_points:
            assert set(point.attributes) <= set(wanted["attributes"])
            bounds = list(point.explicit_bounds)
            assert wanted.get("boundaries", bounds) == bounds


def test_values_that_the_conventions_list_are_written_as_they_list_them() -> None:
    seen = everything()
    values = REGISTRY["values"]
    for span in seen.spans:
        attributes = said(span)
        for name in ("gen_ai.operation.name", "gen_ai.output.type"):
            assert attributes.get(name, values[name][0]) in values[name]
        for reason in attributes.get("gen_ai.response.finish_reasons", ()):
            assert reason in values["finish_reason"]
    known = set(values["gen_ai.provider.name"])
    for ours in ("openai", "anthropic", "gemini", "bedrock", "mistral", "groq", "deepseek", "xai"):
        assert names.provider_name(ours) in known
    assert names.provider_name("scripted") == "scripted"


def test_no_constant_names_what_the_registry_does_not_have() -> None:
    foreign = CONSTANTS - OWN
    assert foreign <= KNOWN | set(REGISTRY["events"]) | set(REGISTRY["metrics"])


def test_every_constant_is_the_name_of_something_that_is_told() -> None:
    seen = everything()
    told = {it.log_record.event_name for it in seen.events} | set(seen.metrics)
    events = [it.log_record for it in seen.events]
    for thing in (*seen.spans, *(it for span in seen.spans for it in span.events), *events):
        told |= {getattr(thing, "name", None), *(thing.attributes or ())}
    for metric in seen.metrics.values():
        told |= {name for point in metric.data.data_points for name in point.attributes}
    assert told >= CONSTANTS


def test_a_call_names_the_server_that_was_asked_and_what_the_vendor_answered() -> None:
    seen = everything()
    first = said(seen.named("chat lead:model")[0])
    assert (first["server.address"], first["server.port"]) == ("models.example", 8443)
    assert first["gen_ai.response.id"] == "resp-1"
    assert first["gen_ai.response.model"] == "big-" + "1" * 252
    assert "server.address" not in said(seen.named("chat helper:model")[0])
    for metric in ("token.usage", "operation.duration", "operation.time_to_first_chunk"):
        points = seen.metrics[f"gen_ai.client.{metric}"].data.data_points
        models = {it.attributes.get("gen_ai.response.model") for it in points}
        assert models == {first["gen_ai.response.model"], None}


def test_what_the_vendor_called_one_answer_is_not_said_of_the_next() -> None:
    seen = Telemetry()
    cut = Turn(text="Half", stop=StopReason.MAX_TOKENS)
    agent = Agent("a", model=Vendor([cut, " done."], answers=1))

    async def scenario() -> None:
        async with AgentRuntime([agent], everywhere=[seen.plugin()]) as runtime:
            assert (await runtime.run("a", "go")).text == "Half done."

    asyncio.run(asyncio.wait_for(scenario(), 30))
    first, second = seen.named("chat")
    assert "gen_ai.response.id" in said(first)
    assert "gen_ai.response.id" not in said(second)


def test_a_call_that_failed_says_that_no_reason_came_or_that_it_was_filtered() -> None:
    def reasons(error: Exception) -> Any:
        seen = Telemetry()

        async def scenario() -> None:
            agent = Agent("a", model=ScriptedModel([error] * 9), config=ONCE)
            async with AgentRuntime([agent], everywhere=[seen.plugin()]) as runtime:
                with pytest.raises(RunFailed):
                    await runtime.run("a", "go")

        asyncio.run(asyncio.wait_for(scenario(), 30))
        return said(seen.named("chat")[0])["gen_ai.response.finish_reasons"]

    assert reasons(Overloaded("no")) == ("error",)
    assert reasons(ContentFiltered("no")) == ("content_filter",)


def test_a_run_elsewhere_is_measured_as_a_call_and_not_as_a_run_of_this_process() -> None:
    metrics = everything().metrics
    elsewhere = [
        point.attributes
        for point in metrics["gen_ai.client.operation.duration"].data.data_points
        if point.attributes["gen_ai.operation.name"] == "invoke_agent"
    ]
    assert [it["server.address"] for it in elsewhere] == ["agents.example"]
    here = metrics["gen_ai.invoke_agent.duration"].data.data_points
    assert {it.attributes["gen_ai.agent.name"] for it in here} == {"lead", "helper", "broken"}


def test_tokens_are_measured_for_each_model_and_kind() -> None:
    points = everything().metrics["gen_ai.client.token.usage"].data.data_points
    found = {
        (point.attributes["gen_ai.request.model"], point.attributes["gen_ai.token.type"]): (
            point.sum
        )
        for point in points
    }
    assert found["lead:model", "input"] == 19
    assert found["lead:model", "output"] == 28
    assert json.dumps(sorted({kind for _, kind in found})) == '["input", "output"]'
