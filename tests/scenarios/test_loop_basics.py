"""A run from its input to its answer: steps, requests, transcript, record and totals."""

import msgspec
import pytest

from awaken import (
    Adapter,
    Agent,
    AgentRuntime,
    ContextWindowPolicy,
    Message,
    ModelSpec,
    NaturalEnd,
    RunMode,
    RunOrigin,
    RunResult,
    RunStatus,
    StepStart,
    ToolCallDone,
    tool,
    user,
)
from awaken.events import InferenceComplete
from awaken.messages import Base64Source, Document, Image, Role, Text, UrlSource, system
from awaken.models import InferenceOverride, StreamResult, TokenUsage
from awaken.stores import MessageQuery, RunRecord
from awaken.testing import Entry, ScriptedModel, ToolCalls, Turn
from awaken.tools import ToolCallOutcome, ToolKind

from .worlds import Story, World, play, simulated


@tool(effect="none")
async def echo(text: str) -> str:
    """Says it again.

    Args:
        text: What to say.
    """
    return f"echo: {text}"


@tool(effect="none", kind=ToolKind.READ)
async def add(left: int, right: int = 1) -> dict[str, int]:
    """Adds."""
    return {"sum": left + right}


@tool(effect="none")
async def broken() -> str:
    """Does not work."""
    raise ValueError("out of order")


def say(*texts: str) -> ToolCalls:
    return ToolCalls([("echo", {"text": text}) for text in texts])


@pytest.mark.parametrize(
    ("script", "steps", "answers", "text"),
    [
        (["hello"], 1, [], "hello"),
        ([Turn("hello", calls=())], 1, [], "hello"),
        ([""], 1, [], ""),
        ([say("a"), "done"], 2, ["echo: a"], "done"),
        ([say("a"), say("b"), "done"], 3, ["echo: a", "echo: b"], "done"),
        ([say("a", "b", "c"), "done"], 2, ["echo: a", "echo: b", "echo: c"], "done"),
        ([say("a", "b"), say("c"), "done"], 3, ["echo: a", "echo: b", "echo: c"], "done"),
        ([Turn("first", calls=say("a")), ""], 2, ["echo: a"], "first"),
    ],
    ids=["text", "no calls", "empty", "tool", "two rounds", "batch", "uneven", "last text"],
)
def test_a_run_goes_on_until_the_model_asks_for_nothing_more(
    script: list[Entry], steps: int, answers: list[str], text: str
) -> None:
    story = play(script, tools=[echo])

    assert story.termination == NaturalEnd()
    assert story.answers == answers
    assert len(story.requests) == len(story.of(StepStart)) == steps
    assert story.result is not None
    assert (story.result.text, story.result.steps) == (text, steps)
    assert story.result.status is RunStatus.DONE


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (("nowhere", {}), "Not found: tool 'nowhere' not found"),
        (("broken", {}), "Execution failed: ValueError: out of order"),
        (("add", {"left": "x"}), "Invalid arguments: Expected `int`, got `str` - at `$.left`"),
        (("add", {}), "Invalid arguments"),
        (("add", {"left": 1, "more": 2}), "Invalid arguments"),
    ],
    ids=["unknown tool", "raises", "wrong type", "missing", "too many"],
)
def test_a_failing_call_becomes_a_result_that_the_model_reads(
    call: tuple[str, object], expected: str
) -> None:
    story = play([ToolCalls([call, ("echo", {"text": "fine"})]), "ok"], tools=[echo, broken, add])

    first, second = story.answers
    assert first.startswith(expected)
    assert second == "echo: fine"
    outcomes = [event.outcome for event in story.of(ToolCallDone)]
    assert outcomes == [ToolCallOutcome.FAILED, ToolCallOutcome.SUCCEEDED]
    assert story.requests[1].messages[-2].text == first
    assert story.termination == NaturalEnd()


def test_arguments_reach_the_tool_unchanged_and_its_output_reaches_the_model() -> None:
    seen: list[object] = []

    @tool(effect="none")
    async def nested(data: dict[str, list[float | str | None]]) -> dict[str, object]:
        seen.append(data)
        return {"kept": data, "text": "Grüße 🎈"}

    given = {"data": {"a": [1.5, "x", None], "ü": []}}
    story = play([ToolCalls([("nested", given)]), "ok"], tools=[nested])

    assert seen == [given["data"]]
    assert msgspec.json.decode(story.answers[0]) == {"kept": given["data"], "text": "Grüße 🎈"}
    (done,) = story.of(ToolCallDone)
    assert done.result.data == {"kept": given["data"], "text": "Grüße 🎈"}


def test_a_request_carries_instructions_history_results_and_tools() -> None:
    async def scenario() -> list[Story]:
        agent = {"instructions": "Be brief.", "tools": [echo, broken, add]}
        async with World([say("a"), "one", "two"], **agent) as world:
            first = await world.tell([system("note"), user("hi"), user("there")])
            return [first, await world.tell("again")]

    story = simulated(scenario)[1]
    first, second, third = story.requests
    assert [request.system for request in story.requests] == [("Be brief.",)] * 3
    asked = [("system", "note"), ("user", "hi"), ("user", "there")]
    assert [(str(m.role), m.text) for m in first.messages] == asked
    assert second.messages[-1].text == "echo: a"
    assert [m.text for m in third.messages[3:]] == ["", "echo: a", "one", "again"]
    assert [offered.id for offered in first.tools] == ["add", "broken", "echo"]
    offered = next(offered for offered in first.tools if offered.id == "echo")
    assert offered.description == "Says it again."
    assert offered.parameters["properties"]["text"]["description"] == "What to say."
    assert story.lines[-2:] == [("user", "again"), ("assistant", "two")]


def test_input_of_many_kinds_reaches_the_request_as_it_was_given() -> None:
    picture = Image(source=Base64Source(media_type="image/png", data="aGk="))
    file = Document(source=UrlSource(url="https://example.org/a.pdf"), title="A")
    story = play(["nice"], input=["look", picture, user([Text(text="and"), file]), "so?"])

    (request,) = story.requests
    assert [message.content for message in request.messages] == [
        (Text(text="look"), picture),
        (Text(text="and"), file),
        (Text(text="so?"),),
    ]
    assert [message.content for message in story.messages[:3]] == [
        message.content for message in request.messages
    ]


@pytest.mark.parametrize(
    ("agent", "options", "model", "overrides"),
    [
        ({}, {}, "agent:model", None),
        (
            {"reasoning_effort": "high"},
            {},
            "agent:model",
            {"reasoning_effort": "high"},
        ),
        (
            {"reasoning_effort": "high"},
            {"overrides": InferenceOverride(upstream_model="other", temperature=0.5)},
            "other",
            {"reasoning_effort": "high", "temperature": 0.5},
        ),
        ({}, {"overrides": InferenceOverride(upstream_model="other")}, "other", None),
    ],
    ids=["none", "agent", "merged", "model only"],
)
def test_overrides_reach_the_request_and_the_model_becomes_its_own_field(
    agent: dict[str, str],
    options: dict[str, InferenceOverride],
    model: str,
    overrides: dict[str, object] | None,
) -> None:
    story = play([say("a"), "done"], tools=[echo], options=options, **agent)

    for request in story.requests:
        assert request.upstream_model == model
        given = None if request.overrides is None else msgspec.to_builtins(request.overrides)
        assert (given and {k: v for k, v in given.items() if v is not None}) == overrides
    assert {event.model for event in story.of(InferenceComplete)} == {model}


@pytest.mark.parametrize(
    "named",
    [ModelSpec(id="m", provider_id="mine", upstream_model="large"), "mine:large"],
    ids=["spec", "text"],
)
def test_the_model_that_an_agent_names_is_asked_at_its_provider(named: ModelSpec | str) -> None:
    async def scenario() -> ScriptedModel:
        model = ScriptedModel(["hi"])
        agent = Agent("agent", model=named)
        async with AgentRuntime([agent], providers={"mine": model}) as runtime:
            await runtime.run("agent", "go")
        return model

    (request,) = simulated(scenario).requests
    assert request.upstream_model == "large"


def test_a_blank_model_override_fails_the_run_and_asks_no_model() -> None:
    story = play(["x"], options={"overrides": InferenceOverride(upstream_model="  ")})

    assert story.record is not None
    assert story.record.termination is not None
    assert story.record.termination.code == "invalid_input"
    assert story.requests == []


def test_the_prompt_cache_is_asked_for_unless_the_context_policy_says_otherwise() -> None:
    without = ContextWindowPolicy(enable_prompt_cache=False)
    plain, not_cached = play(["x"]), play(["x"], context_policy=without)

    assert plain.requests[0].enable_prompt_cache
    assert not not_cached.requests[0].enable_prompt_cache


def test_usage_adds_up_over_steps_and_is_kept_with_the_run() -> None:
    usages = [
        TokenUsage(prompt_tokens=10, completion_tokens=5, total_tokens=15, cache_read_tokens=4),
        TokenUsage(prompt_tokens=-3, completion_tokens=7, thinking_tokens=2),
    ]
    story = play([Turn(calls=say("a"), usage=usages[0]), Turn("x", usage=usages[1])], tools=[echo])

    total = TokenUsage(
        prompt_tokens=10,
        completion_tokens=12,
        total_tokens=15,
        cache_read_tokens=4,
        thinking_tokens=2,
    )
    assert [event.usage for event in story.of(InferenceComplete)] == usages
    assert story.record is not None
    assert story.record.usage == total
    assert story.result is not None
    assert story.result.usage == total


def test_the_record_tells_who_ran_what_for_whom_and_what_came_of_it() -> None:
    story = play(
        [say("a"), "done"],
        tools=[echo],
        options={
            "origin": RunOrigin.MCP,
            "run_mode": RunMode.SCHEDULED,
            "adapter": Adapter.AG_UI,
            "session_id": "s1",
            "transport_request_id": "r1",
            "run_id_hint": "mine",
        },
    )
    record = story.record
    assert record is not None
    assert (record.run_id, record.thread_id, record.agent_id) == ("mine", "t", "agent")
    assert (record.origin, record.run_mode, record.adapter) == ("mcp", "scheduled", "ag_ui")
    assert (record.session_id, record.transport_request_id) == ("s1", "r1")
    assert (record.steps, record.final_output) == (2, "done")
    assert (record.input.from_seq, record.input.to_seq) == (1, 1)
    assert record.finished_at is not None
    assert msgspec.json.decode(msgspec.json.encode(record), type=RunRecord) == record


def test_the_messages_of_one_run_can_be_told_from_those_of_others() -> None:
    async def scenario() -> list[list[str]]:
        async with World([say("a"), "one", "two"], tools=[echo]) as world:
            for name in ("first", "second"):
                await world.tell(name, run_id_hint=name)
            queries = [MessageQuery(run_id="first"), MessageQuery(run_id="second")]
            listed = [await world.runtime.messages("t", query) for query in queries]
            return [[entry.message.text for entry in entries] for entries in listed]

    assert simulated(scenario) == [["first", "", "echo: a", "one"], ["second", "two"]]


def test_messages_are_marked_with_the_run_and_the_step_that_made_them() -> None:
    story = play([say("a"), "done"], tools=[echo], options={"run_id_hint": "mine"})

    marks = [message.metadata for message in story.messages]
    assert [mark.step_index for mark in marks if mark is not None] == [None, 0, 0, 1]
    assert {mark.run_id for mark in marks if mark is not None} == {"mine"}
    assert [story.messages[1].id, story.messages[3].id] == [
        event.message_id for event in story.of(StepStart)
    ]
    (done,) = story.of(ToolCallDone)
    assert story.messages[2].id == done.message_id


def test_the_answer_of_a_run_is_its_own_and_never_an_earlier_runs() -> None:
    async def scenario() -> tuple[Story, Story]:
        async with World(["one", "", say("a"), ""], tools=[echo]) as world:
            await world.tell("1")
            return await world.tell("2"), await world.tell("3")

    silent, tools_only = simulated(scenario)
    assert silent.result is not None
    assert tools_only.result is not None
    assert (silent.result.text, tools_only.result.text) == ("", "")


def test_a_quiet_run_gives_the_same_as_one_that_is_watched() -> None:
    script = [Turn("hm", calls=say("a", "b")), "done"]

    async def scenario() -> tuple[RunResult, list[Message]]:
        model = ScriptedModel(script)
        async with AgentRuntime([Agent("agent", model=model, tools=[echo])]) as runtime:
            result = await runtime.run("agent", "go", thread_id="t")
            return result, [entry.message for entry in await runtime.messages("t")]

    result, messages = simulated(scenario)
    watched = play(script, tools=[echo])
    assert watched.result is not None
    assert [(str(m.role), m.text, m.tool_calls) for m in messages] == [
        (str(m.role), m.text, m.tool_calls) for m in watched.messages
    ]
    assert (result.text, result.steps, result.usage, result.termination) == (
        watched.result.text,
        watched.result.steps,
        watched.result.usage,
        watched.result.termination,
    )


def test_what_the_model_streams_is_what_hooks_messages_and_events_show() -> None:
    story = play([Turn("Let me see.", reasoning="hm", calls=say("a")), "done"], tools=[echo])

    asked = story.messages[1]
    assert (asked.role, asked.text) == (Role.ASSISTANT, "Let me see.")
    assert asked.tool_calls is not None
    whole = StreamResult(content=asked.content, tool_calls=asked.tool_calls)
    assert (whole.text, whole.tool_calls[0].arguments) == ("Let me see.", {"text": "a"})
    restored = msgspec.json.decode(msgspec.json.encode(asked), type=Message)
    assert restored == asked
