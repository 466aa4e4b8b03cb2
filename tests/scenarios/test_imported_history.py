"""A run on a thread that begins with messages of elsewhere: all or nothing; no call is executed."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from awaken import Agent, AgentRuntime, tool, user
from awaken.errors import InvalidInput
from awaken.messages import Message, Role, ToolCall, assistant, system, tool_answer
from awaken.testing import ScriptedModel

CALL = ToolCall(id="c1", name="look", arguments={})
HISTORY = [
    system("Be brief."),
    user("What is there?"),
    assistant("", [CALL]),
    tool_answer("c1", "a tree"),
    assistant("A tree."),
]


@tool(effect="none")
async def look() -> str:
    """Look."""
    raise AssertionError("an imported call is never executed")


def play(scenario: Callable[[], Any]) -> Any:
    return asyncio.run(scenario())


@pytest.mark.parametrize("way", ["run", "start", "submit", "stream"])
def test_a_new_thread_begins_with_the_history_and_the_input_follows_it(way: str) -> None:
    model = ScriptedModel(["An oak.", "Two."])

    async def scenario() -> None:
        async with AgentRuntime([Agent("a", model=model, tools=[look])]) as runtime:
            asked: Any = getattr(runtime, way)(
                "a", "Which?", thread_id="t", messages=HISTORY, run_id_hint="r"
            )
            if way == "stream":
                async for _ in asked:
                    pass
            else:
                await asked
            assert (await runtime.wait("r")).text == "An oak."
            record = await runtime.get_run("r")
            stored = [it.message for it in await runtime.messages("t")]
            texts = [it.text for it in HISTORY]
            assert [it.text for it in stored] == [*texts, "Which?", "An oak."]
            assert (record.input.from_seq, record.input.to_seq) == (6, 6)
            assert stored[0].metadata is None
            assert (await runtime.run("a", "More?", thread_id="t")).text == "Two."

    play(scenario)
    assert [it.role for it in model.requests[0].messages][-3:] == [
        Role.TOOL,
        Role.ASSISTANT,
        Role.USER,
    ]


@pytest.mark.parametrize(
    "history",
    [
        [user("x"), tool_answer("c1", "a tree")],
        [assistant("", [CALL])],
        [assistant("", [CALL]), user("x")],
        [assistant("", [CALL]), tool_answer("c2", "y")],
        [assistant("", [CALL, CALL]), tool_answer("c1", "y"), tool_answer("c1", "y")],
        [Message(role=Role.USER, id="m", content=()), Message(role=Role.USER, id="m", content=())],
        ["text"],
        "text",
    ],
)
def test_a_history_that_is_not_whole_is_refused_and_nothing_is_written(history: Any) -> None:
    async def scenario() -> None:
        async with AgentRuntime([Agent("a", model=ScriptedModel(["x"]))]) as runtime:
            with pytest.raises(InvalidInput, match="messages"):
                await runtime.run("a", "go", thread_id="t", messages=history)
            assert await runtime.store.load_thread("t") is None

    play(scenario)


def test_a_thread_with_messages_takes_no_history() -> None:
    async def scenario() -> None:
        async with AgentRuntime([Agent("a", model=ScriptedModel(["x", "y"]))]) as runtime:
            await runtime.run("a", "go", thread_id="t")
            with pytest.raises(InvalidInput, match="has messages"):
                await runtime.run("a", "go", thread_id="t", messages=HISTORY)
            assert len(await runtime.messages("t")) == 2

    play(scenario)
