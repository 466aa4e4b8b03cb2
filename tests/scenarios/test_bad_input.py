"""Bad input: a typed error that names the thing, or an error result that the model can read.

Never a traceback out of the loop, never a half-written state.
"""

from typing import Any

import pytest

from awaken import (
    Agent,
    AgentRuntime,
    AgentSpec,
    AwakenError,
    InvalidInput,
    Limits,
    Message,
    StateKey,
    ToolContext,
    UnknownAgent,
    UnknownRun,
    tool,
)
from awaken.contracts.specs.agents import decode_spec
from awaken.errors import InvalidResume, InvalidSpec, LimitExceeded, UnknownTicket
from awaken.messages import Image, Role, Text, UrlSource, assistant
from awaken.testing import ScriptedModel, ToolCalls
from awaken.tools import ToolCallResume

from .worlds import play, simulated

TEN_MB = "x" * 10_000_000
LONE = "a\ud800b"
NAN = float("nan")
SEEN = StateKey("seen", default=0, scope="thread")
ran: list[Any] = []


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    ran.clear()


@tool
async def add(a: int, b: int, ctx: ToolContext) -> int:
    ran.append((a, b))
    ctx.state.set(SEEN, ctx.state.get(SEEN) + 1)
    return a + b


REFUSED: list[tuple[str, Any, dict[str, Any], type[AwakenError], str]] = [
    ("an unknown agent", "hi", {"agent_id": "nobody"}, UnknownAgent, "nobody"),
    ("a blank thread", "hi", {"thread_id": "  "}, InvalidInput, "thread_id"),
    ("a long thread id", "hi", {"thread_id": "t" * 300}, InvalidInput, "256"),
    ("a control character", "hi", {"thread_id": "a\x00b"}, InvalidInput, "thread_id"),
    ("a lone surrogate", LONE, {}, InvalidInput, "message"),
    ("a number", 7, {}, InvalidInput, "input"),
    ("a list of numbers", [1, 2], {}, InvalidInput, "input"),
    ("an assistant message", assistant("hi"), {}, InvalidInput, "assistant"),
    ("a tool message", Message(role=Role.TOOL, tool_call_id="c"), {}, InvalidInput, "tool"),
    ("an unknown option", "hi", {"colour": "red"}, InvalidInput, "colour"),
    ("an unknown run", "hi", {"continue_run_id": "gone"}, InvalidResume, "gone"),
    ("a message beyond the limit", TEN_MB, {}, LimitExceeded, "limit"),
]


@pytest.mark.parametrize(
    ("given", "options", "error", "word"), [row[1:] for row in REFUSED], ids=[r[0] for r in REFUSED]
)
def test_a_malformed_request_is_refused_by_name_and_nothing_is_written(
    given: Any, options: dict[str, Any], error: type[AwakenError], word: str
) -> None:
    async def scenario() -> list[Any]:
        model = ScriptedModel(["never"])
        limits = Limits(message_bytes=1_000_000)
        async with AgentRuntime(agents=[Agent("a", model=model)], limits=limits) as runtime:
            wanted = {"agent_id": "a", "thread_id": "t", **options}
            with pytest.raises(error, match=word):
                await runtime.run(wanted.pop("agent_id"), given, **wanted)
            assert model.requests == []
            return [*await runtime.list_runs(), *await runtime.messages("t")]

    assert simulated(scenario) == []


def test_large_and_odd_input_within_the_limit_arrives_unchanged() -> None:
    picture = Image(source=UrlSource(url="https://example.org/x.png"))
    story = play(["ok"], input=[TEN_MB, "naïve 🎈", picture])
    sent = story.requests[0].messages[0]
    assert sent.content == (Text(text=TEN_MB), Text(text="naïve 🎈"), picture)
    assert story.messages[0].content == sent.content


ANSWERED: list[tuple[str, Any, str]] = [
    ("a wrong type", {"a": "one", "b": 2}, "Invalid arguments"),
    ("a missing field", {"a": 1}, "Invalid arguments"),
    ("an unknown field", {"a": 1, "b": 2, "c": 3}, "Invalid arguments"),
    ("not an object", "[1, 2]", "Invalid arguments"),
    ("not a number", {"a": 1, "b": NAN}, "Invalid arguments"),
    ("a huge argument", {"a": 1, "b": TEN_MB}, "Invalid arguments"),
]


@pytest.mark.parametrize(
    ("arguments", "text"), [row[1:] for row in ANSWERED], ids=[row[0] for row in ANSWERED]
)
def test_arguments_that_do_not_fit_become_an_error_result_and_never_reach_the_tool(
    arguments: Any, text: str
) -> None:
    story = play([ToolCalls([("add", arguments)]), "sorry"], tools=[add])
    assert ran == []
    assert story.messages[2].role is Role.TOOL
    assert story.messages[2].text.startswith(text)
    assert len(story.messages[2].text) < 20_000
    assert story.messages[-1].text == "sorry"


MALFORMED = ['{"a": 1, "b"', "{'a': 1}", "NaN", '{"a": NaN}', '{"a": "\ud800"', "[" * 5000]


@pytest.mark.parametrize("text", MALFORMED, ids=range(len(MALFORMED)))
def test_malformed_json_is_not_executed_and_the_model_is_told(text: str) -> None:
    story = play([ToolCalls([("add", text)]), "sorry"], tools=[add])
    assert ran == []
    assert "not valid JSON" in story.requests[1].messages[-1].text
    assert story.messages[-1].text == "sorry"


def test_a_call_id_that_comes_twice_is_executed_once() -> None:
    calls = [("add", {"a": 1, "b": 2}, "same"), ("add", {"a": 5, "b": 5}, "same")]
    story = play([ToolCalls(calls), "done"], tools=[add])
    assert ran == [(1, 2)]
    assert "used twice" in story.requests[1].messages[-1].text


def test_unknown_decisions_and_runs_are_refused_by_name() -> None:
    async def scenario() -> None:
        async with AgentRuntime(agents=[Agent("a", model=ScriptedModel([]))]) as runtime:
            with pytest.raises(UnknownTicket, match="no-ticket"):
                await runtime.decide("no-ticket")
            with pytest.raises(UnknownTicket, match="no-ticket"):
                await runtime.decide_all({"no-ticket": ToolCallResume(decision_id="d")})
            with pytest.raises(InvalidInput, match="perhaps"):
                await runtime.decide("no-ticket", "perhaps")
            with pytest.raises(InvalidInput, match="decision"):
                await runtime.decide("no-ticket", result={1, 2, object()})
            with pytest.raises(InvalidInput, match="none"):
                await runtime.decide_all({})
            with pytest.raises(UnknownRun, match="no-run"):
                await runtime.wait("no-run")
            with pytest.raises(UnknownRun, match="no-run"):
                await runtime.get_run("no-run")
            assert not await runtime.cancel("no-run")

    simulated(scenario)


@pytest.mark.parametrize(
    ("spec", "word"),
    [
        (b"{", "malformed|truncated|JSON"),
        ({"model_id": "m"}, "id"),
        ({"id": "a", "model_id": "m", "max_round": 3}, "max_round"),
        ({"id": " a", "model_id": "m"}, "id"),
        ({"id": "a", "model_id": "m", "max_rounds": -1}, "negative"),
        ({"id": "a", "model_id": "m", "stop_conditions": [{"type": "wish"}]}, "wish"),
    ],
)
def test_an_invalid_spec_is_refused_by_name(spec: Any, word: str) -> None:
    with pytest.raises(InvalidSpec, match=word):
        decode_spec(spec, AgentSpec)


def test_text_and_blocks_between_messages_stay_in_their_place() -> None:
    given = ["a", "b", Message(role=Role.USER, content=(Text(text="c"),)), "d"]
    story = play(["ok"], input=given)
    assert [message.text for message in story.messages] == ["ab", "c", "d", "ok"]
