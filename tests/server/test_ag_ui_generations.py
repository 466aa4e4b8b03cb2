"""AG-UI of both generations: what 1.0 has added is not sent to clients that would refuse it."""

import asyncio
from typing import Any

import pytest

from awaken import Agent, AgentRuntime, ToolContext, tool
from awaken.messages import Base64Source, Document, Image, UrlSource
from awaken.protocols.ag_ui.endings import strict_outcome
from awaken.protocols.ag_ui.inputs import is_before_first
from awaken.testing import ScriptedModel, ToolCalls

from .in_process import Request
from .serving import frames_of

SHOW = {"name": "show", "description": "Show.", "parameters": {"type": "object"}}


@tool(effect="none")
async def ask(ctx: ToolContext) -> Any:
    """Ask."""
    return ctx.suspend("Which?") if ctx.resume is None else "told"


@pytest.mark.parametrize("version", [None, "", "0.0.58", "0.1", 0, [], {}, "one", "x.1", "-1", "²"])
def test_a_client_that_does_not_say_that_it_is_of_1_0_is_not_taken_for_one(version: Any) -> None:
    assert is_before_first(version)


@pytest.mark.parametrize("version", ["1.0", "1.7", "2.0", "1", 1])
def test_a_client_of_1_0_says_so(version: Any) -> None:
    assert not is_before_first(version)


@pytest.mark.parametrize(
    ("told", "strict"),
    [
        (None, None),
        ({"type": "success"}, {"type": "success"}),
        ({"type": "success", "pendingToolCallIds": ["a"]}, {"type": "success"}),
        ({"type": "cancelled"}, None),
        ({"type": "what comes next"}, None),
        (
            {"type": "interrupt", "interrupts": [{"id": "a"}], "more": 1},
            {"type": "interrupt", "interrupts": [{"id": "a"}]},
        ),
    ],
)
def test_a_strict_outcome_has_nothing_that_0_0_58_refuses(told: Any, strict: Any) -> None:
    assert strict_outcome(told) == strict


async def outcome_of(app: Any, **fields: Any) -> Any:
    body = {"messages": [{"id": "u", "role": "user", "content": "go"}], **fields}
    answer = Request(app, "POST", "/v1/ag-ui/run", body=body)
    await answer.task
    frames = list(frames_of(answer.answer.body.decode()))
    assert frames[-1].data["type"] == "RUN_FINISHED"
    return frames[-1].data.get("outcome")


@pytest.mark.parametrize("version", [None, "1.0"])
def test_the_end_of_a_run_is_told_as_the_client_knows_it(version: str | None) -> None:
    async def scenario() -> None:
        calls = [ToolCalls([("show", {})]), ToolCalls([("ask", {})]), "Done."]
        said = {} if version is None else {"protocolVersion": version}
        agent = Agent("default", model=ScriptedModel(calls), tools=[ask])
        async with AgentRuntime([agent]) as runtime:
            app = runtime.asgi()
            pending = await outcome_of(app, threadId="t", tools=[SHOW], **said)
            asked = await outcome_of(app, threadId="u", **said)
            await outcome_of(app, threadId="v", **said)
        wanted = {"type": "success"} | ({"pendingToolCallIds": ["call_1"]} if version else {})
        assert pending == wanted
        assert (asked["type"], set(asked)) == ("interrupt", {"type", "interrupts"})

    asyncio.run(scenario())


PART = {"type": "binary", "mimeType": "image/png"}


@pytest.mark.parametrize(
    ("part", "block"),
    [
        (PART | {"data": "aGk="}, Image(source=Base64Source(media_type="image/png", data="aGk="))),
        (PART | {"url": "https://a.b/c.png"}, Image(source=UrlSource(url="https://a.b/c.png"))),
        (
            {"type": "binary", "mimeType": "text/csv", "data": "aGk=", "filename": "a.csv"},
            Document(source=Base64Source(media_type="text/csv", data="aGk="), title="a.csv"),
        ),
        (PART | {"id": "file-1"}, None),
    ],
)
def test_binary_parts_are_accepted(part: Any, block: Any) -> None:
    async def scenario() -> None:
        async with AgentRuntime([Agent("default", model=ScriptedModel(["Seen."]))]) as runtime:
            content = [{"type": "text", "text": "look"}, part]
            message = {"id": "u", "role": "user", "content": content}
            await outcome_of(runtime.asgi(), threadId="t", messages=[message])
            (stored, _) = await runtime.messages("t")
            assert stored.message.content[1:] == (() if block is None else (block,))

    asyncio.run(scenario())
