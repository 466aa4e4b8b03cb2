"""The loop's promises about requests, tool results, waiting and steps, on every store."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import date
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

from awaken import Agent, AgentRuntime, Message, Plugin, PluginRegistrar, ToolResult, tool
from awaken.contracts.inference import ContextWindowPolicy, InferenceRequest
from awaken.contracts.messages import user
from awaken.contracts.model_errors import ContextOverflow
from awaken.contracts.tool_results import ToolStatus
from awaken.contracts.tools import ToolDescriptor
from awaken.runtime.context.estimate import estimate_tokens
from awaken.testing.scripted_model import ToolCalls

from .each_store import NewStore, each_store
from .worlds import CheckedModel

WORDS = "word " * 160
"""About 200 tokens."""
BUDGET = 2_500
FITTED = ContextWindowPolicy(
    max_context_tokens=BUDGET + 100, max_output_tokens=100, min_recent_messages=2
)
QUOTED = '"word",'
Rewrite = Callable[[list[Message]], list[Message]]


class Colour(str, Enum):  # noqa: UP042 - one that prints itself otherwise than a StrEnum
    RED = "red"


class Rewriting(Plugin):
    """A plugin whose transforms rewrite every request, one after the other."""

    def __init__(self, *rewrites: Rewrite) -> None:
        self.name = "rewriting"
        self.seen: list[list[Message]] = []
        self._rewrites = rewrites

    def register(self, registrar: PluginRegistrar) -> None:
        for rewrite in self._rewrites:
            registrar.transform(lambda messages, _, rewrite=rewrite: self._do(rewrite, messages))

    def _do(self, rewrite: Rewrite, messages: list[Message]) -> list[Message]:
        self.seen.append(list(messages))
        return rewrite(messages)


def said(messages: Sequence[Message]) -> list[str]:
    return [message.text.split(":")[0] for message in messages]


def add_notes(messages: list[Message]) -> list[Message]:
    """Put twenty notes of about 200 tokens each before the history."""
    return [*(user(f"note {n}: {WORDS}") for n in range(20)), *messages]


def add_reminder(messages: list[Message]) -> list[Message]:
    return [*messages, user("reminder: be brief")]


@tool(effect="none")
async def look() -> str:
    """Look something up."""
    return f"found: {WORDS}"


async def talk(
    store: Any, rewriting: Rewriting, answers: Sequence[Any], turns: int
) -> tuple[CheckedModel, list[str]]:
    model = CheckedModel(answers, usage=None)
    agent = Agent("a", model=model, tools=[look], plugins=[rewriting], context_policy=FITTED)
    async with AgentRuntime([agent], store=store) as runtime:
        for n in range(turns):
            await runtime.run("a", f"question {n}: {WORDS}", thread_id="t")
        stored = [it.message.text.split(":")[0] for it in await runtime.messages("t")]
    assert model.problems == []
    return model, stored


@each_store
def test_what_transforms_add_is_counted_before_the_window_is_fitted(
    new_store: NewStore, tmp_path: Path
) -> None:
    rewriting = Rewriting(add_notes, add_reminder)
    answers = [it for n in range(8) for it in (ToolCalls([("look", {})]), f"answer {n}: {WORDS}")]
    model, stored = asyncio.run(talk(new_store(tmp_path)(), rewriting, answers, turns=8))
    for request in model.requests:
        assert estimate_tokens(request.messages) <= BUDGET
        assert said(request.messages)[-1] == "reminder"
    # In the order of their registration, and each sees all that was ever said.
    first, second = rewriting.seen[-2:]
    assert said(second) == [*(f"note {n}" for n in range(20)), *said(first)]
    assert said(first) == stored[:-1]


@each_store
def test_the_smaller_request_is_cut_from_what_transforms_made(
    new_store: NewStore, tmp_path: Path
) -> None:
    def overflow(_: InferenceRequest) -> Any:
        raise ContextOverflow("prompt is too long")

    rewriting = Rewriting(add_reminder)
    answers = [f"answer 0: {WORDS}", f"answer 1: {WORDS}", overflow, "answer 2"]
    model, _ = asyncio.run(talk(new_store(tmp_path)(), rewriting, answers, turns=3))
    refused, smaller = model.requests[-2:]
    assert estimate_tokens(smaller.messages) < estimate_tokens(refused.messages)
    assert said(smaller.messages)[-2:] == ["question 2", "reminder"]
    assert said(rewriting.seen[-1])[0] == "question 0"


def given(value: Any) -> Any:
    """A tool that gives a value."""

    async def give() -> Any:
        return value

    return tool(id="give", description="Give something.", effect="none")(give)


RESULTS: list[tuple[Any, str]] = [
    (ToolResult.success("give", "5"), '"5"'),
    (ToolResult.success("give", 5), "5"),
    (ToolResult.success("give", ""), '""'),
    (ToolResult.success("give", "null"), '"null"'),
    (ToolResult.success("give", None), "null"),
    (ToolResult.success("give", 'say "ü"\nnow'), '"say \\"ü\\"\\nnow"'),
    (ToolResult.success("give", '{"a":1}'), '"{\\"a\\":1}"'),
    (ToolResult.success("give", {"a": "1"}), '{"a":"1"}'),
    (ToolResult.success("give", "5", "five"), "five"),
    (ToolResult.success("give", {"a": 1}, '{"b":2}'), '{"b":2}'),
    (ToolResult(tool_name="give", status=ToolStatus.ERROR, data="no"), '"no"'),
    # What a function returns as text was written for the model.
    ("5", "5"),
    (Colour.RED, "red"),
    (5, "5"),
    (date(2030, 1, 2), '"2030-01-02"'),
]


@each_store
def test_a_result_without_a_message_is_told_as_json(new_store: NewStore, tmp_path: Path) -> None:
    async def scenario() -> None:
        model = CheckedModel([ToolCalls([("give", {})]), "Done."] * len(RESULTS))
        open_store = new_store(tmp_path)
        for number, (value, told) in enumerate(RESULTS):
            agent = Agent("a", model=model, tools=[given(value)])
            async with AgentRuntime([agent], store=open_store()) as runtime:
                await runtime.run("a", "Go.", thread_id=f"t{number}")
                assert model.requests[-1].messages[-1].text == told
                stored = await runtime.messages(f"t{number}")
                assert stored[2].message.text == told
        assert model.problems == []

    asyncio.run(scenario())


@each_store
@pytest.mark.parametrize(("value", "told"), [("5", '"5"'), (5, "5"), ({"a": "b"}, '{"a":"b"}')])
def test_what_a_client_gives_for_its_tool_is_told_as_json(
    new_store: NewStore, tmp_path: Path, value: Any, told: str
) -> None:
    async def scenario() -> None:
        model = CheckedModel([ToolCalls([("ask", {})]), "Done."])
        client = ToolDescriptor(id="ask", description="Ask.", parameters={"type": "object"})
        async with AgentRuntime([Agent("a", model=model)], store=new_store(tmp_path)()) as runtime:
            waiting = await runtime.run("a", "Go.", frontend_tools=[client])
            await runtime.decide(waiting.tickets[0].ticket_id, result=value)
            await runtime.wait(waiting.run_id)
            assert model.requests[-1].messages[-1].text == told

    asyncio.run(scenario())


def test_a_cut_result_is_told_as_it_was_cut() -> None:
    """Half of a JSON text is no JSON: it is not quoted again, and no longer than allowed."""

    async def told(value: Any) -> str:
        give = given(ToolResult.success("give", value))
        limited = tool(id="give", description="d", effect="none", output_limit=40)(give.__wrapped__)
        model = CheckedModel([ToolCalls([("give", {})]), "Done."])
        async with AgentRuntime([Agent("a", model=model, tools=[limited])]) as runtime:
            await runtime.run("a", "Go.")
        return model.requests[-1].messages[-1].text

    listed = asyncio.run(told(["word"] * 20))
    assert listed == f"{('[' + QUOTED * 20)[:40]}\n[Output cut: 141 characters, 40 shown]"
    lines = asyncio.run(told("\n" * 30))
    assert lines == '"' + ("\\n" * 20)[:39] + "\n[Output cut: 62 characters, 40 shown]"
    assert asyncio.run(told("short")) == '"short"'
