"""Answers that hit the output limit: continued, joined, and never repeated in the transcript."""

from typing import Any

import pytest

from awaken import (
    AgentRuntime,
    ContextWindowPolicy,
    Failed,
    NaturalEnd,
    Phase,
    StateCommand,
    TextDelta,
    ToolCallReady,
    tool,
)
from awaken.contracts.models.stream_recovery import TRUNCATED_PROMPT
from awaken.errors import RateLimited
from awaken.events import InferenceComplete, ToolCallCancel
from awaken.messages import Role, Visibility, suffix_context, system_context
from awaken.models import InferenceOverride, StopReason, TokenUsage
from awaken.plugins import ADD_CONTEXT_MESSAGE, TOOL_FILTER, PhaseContext, ToolFilter
from awaken.testing import Chunks, Entry, ToolCalls, Turn

from .worlds import Hooks, play

CUT = StopReason.MAX_TOKENS


@tool(effect="none")
async def echo(text: str) -> str:
    return text


def cut(text: str = "", calls: Any = ()) -> Turn:
    return Turn(text, calls=calls, stop=CUT)


BROKEN = [("echo", '{"text": "a')]


@pytest.mark.parametrize(
    ("script", "options", "lines"),
    [
        ([cut("one "), "two"], {}, [("assistant", "one two")]),
        ([cut("one "), cut("two "), "three"], {}, [("assistant", "one two three")]),
        (
            [cut("one "), cut("two "), cut("three"), "never"],
            {},
            [("assistant", "one two three")],
        ),
        ([cut("one"), "never"], {"max_continuation_retries": 0}, [("assistant", "one")]),
        (
            [cut("so ", BROKEN), ToolCalls([("echo", {"text": "b"})]), "ok"],
            {},
            [("assistant", "so "), ("tool", "b"), ("assistant", "ok")],
        ),
        (
            [cut("", BROKEN), "text instead"],
            {},
            [("assistant", "text instead")],
        ),
        (
            [cut("one", BROKEN), cut("", BROKEN), cut("", BROKEN), "never"],
            {},
            [("assistant", "one")],
        ),
        (
            [cut("", [("echo", {"text": "b"})]), "ok"],
            {},
            [("assistant", ""), ("tool", "b"), ("assistant", "ok")],
        ),
        ([Turn("one", stop=StopReason.STOP_SEQUENCE), "never"], {}, [("assistant", "one")]),
        ([cut(""), "never"], {}, []),
    ],
    ids=[
        *(
            "text",
            "twice",
            "at the limit",
            "switched off",
            "call and text",
            "call",
            "calls at limit",
        ),
        *("whole calls", "stop sequence", "nothing"),
    ],
)
def test_an_answer_that_is_cut_off_is_continued_into_one_message(
    script: list[Entry], options: dict[str, int], lines: list[tuple[str, str]]
) -> None:
    story = play(script, tools=[echo], **options)

    assert story.termination == NaturalEnd()
    assert story.lines[1:] == lines
    assert [message.visibility for message in story.messages if message.text] == [
        Visibility.ALL
    ] * len([text for _, text in story.lines if text])
    assert len(story.requests) == len(script) - script.count("never")
    assert "".join(event.delta for event in story.of(TextDelta)) == "".join(
        text for role, text in lines if role == "assistant"
    )


def test_the_continuation_carries_the_part_and_a_hidden_prompt_and_nothing_is_lost() -> None:
    async def shape(_context: PhaseContext) -> StateCommand:
        return (
            StateCommand()
            .schedule(ADD_CONTEXT_MESSAGE, system_context("rule", "Rule."))
            .schedule(ADD_CONTEXT_MESSAGE, suffix_context("end", "Suffix."))
            .update(TOOL_FILTER, ToolFilter(excluded=("hidden",)))
        )

    @tool(effect="none", id="hidden")
    async def hidden() -> None: ...

    story = play(
        [cut("one "), cut("two "), "three"],
        tools=[echo, hidden],
        instructions="Base.",
        plugins=[Hooks({Phase.BEFORE_INFERENCE: shape})],
        context_policy=ContextWindowPolicy(),
        options={"overrides": InferenceOverride(upstream_model="other", temperature=0.5)},
    )
    first, second, third = story.requests
    assert [m.text for m in second.messages[-2:]] == ["one ", TRUNCATED_PROMPT]
    assert [m.text for m in third.messages[-2:]] == ["one two ", TRUNCATED_PROMPT]
    prompt = second.messages[-1]
    assert (prompt.role, prompt.visibility) == (Role.USER, Visibility.INTERNAL)
    assert "limit" in prompt.text
    assert "Continue" in prompt.text
    for request in (second, third):
        assert request.messages[: len(first.messages)] == first.messages
        assert (request.system, request.tools) == (first.system, first.tools)
        assert (request.upstream_model, request.overrides) == ("other", first.overrides)
        assert request.enable_prompt_cache
    assert [offered.id for offered in first.tools] == ["echo"]
    assert story.result is not None
    assert story.result.steps == 1


def test_each_step_has_its_own_continuations() -> None:
    call = ToolCalls([("echo", {"text": "a"})])
    script: list[Entry] = [cut("1"), cut("2"), call, cut("3"), cut("4"), "5"]
    story = play(script, tools=[echo])

    assert story.lines[1:] == [("assistant", "12"), ("tool", "a"), ("assistant", "345")]


def test_a_turn_counts_the_tokens_of_all_its_parts_once() -> None:
    part = TokenUsage(prompt_tokens=1, completion_tokens=2)
    whole = TokenUsage(prompt_tokens=2, completion_tokens=4)
    story = play([Turn("a", stop=CUT, usage=part), Turn("b", usage=part)])

    (complete,) = story.of(InferenceComplete)
    assert complete.usage == whole
    assert story.record is not None
    assert story.record.usage == whole


def test_calls_of_a_part_that_is_asked_again_are_called_off() -> None:
    calls = [("echo", {"text": "a"}, "whole"), ("echo", '{"text": "b', "half")]
    again = ToolCalls([("echo", {"text": "a"}, "whole"), ("echo", {"text": "b"}, "new")])
    story = play([cut("", calls), again, "ok"], tools=[echo])

    assert sorted(event.id for event in story.of(ToolCallCancel)) == ["half", "whole"]
    assert [event.id for event in story.of(ToolCallReady)] == ["whole", "new"]
    assert story.answers == ["a", "b"]


def test_a_hint_is_given_for_calls_that_stayed_broken_beside_whole_ones() -> None:
    mixed = [("echo", {"text": "a"}), *BROKEN]
    story = play([cut("", mixed), cut("", mixed), cut("", mixed), "ok"], tools=[echo])

    assert story.answers == ["a"]
    assert "the arguments of 'echo' are not valid JSON" in story.requests[-1].messages[-1].text
    assert story.messages[-2].visibility is Visibility.INTERNAL


@pytest.mark.parametrize("how", ["error", "cancel"])
def test_what_was_said_stays_when_a_continuation_fails_or_is_cancelled(how: str) -> None:
    async def cancel(runtime: AgentRuntime, event: object) -> None:
        if isinstance(event, TextDelta) and event.delta == "two ":
            await runtime.cancel("t")

    second = Chunks(["two ", "three"], delay_ms=1000)
    script: list[Entry] = [
        cut("one "),
        second if how == "cancel" else Turn("two ", error=RateLimited("slow down")),
    ]
    story = play(script, react=cancel if how == "cancel" else None)

    assert story.lines == [("user", "go"), ("assistant", "one two ")]
    assert isinstance(story.termination, Failed) is (how == "error")
