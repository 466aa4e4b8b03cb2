"""Screens: what they change is what is kept, shown and sent; nothing is seen before they looked."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.sqlite_dump import dump_sqlite

from awaken import (
    Agent,
    AgentEvent,
    AgentRuntime,
    Message,
    Phase,
    Plugin,
    PluginRegistrar,
    RunFailed,
    StateCommand,
    StateKey,
    TextDelta,
    ToolCallDone,
    ToolCallStart,
    ToolContext,
    ToolResult,
)
from awaken import tool as as_tool
from awaken.backends import BackendRunOutput
from awaken.events import InferenceComplete, StateSnapshot, ToolCallStreamDelta
from awaken.messages import Text, ToolCall
from awaken.models import StreamResult
from awaken.plugins import ANSWER_STEP, Screened, StepAnswer
from awaken.testing import ScriptedModel, ToolCalls, assert_valid_events, assert_valid_transcript

from .remoting import FakeBackend, far, remote_runtime, said

SECRET = "hunter2"


def hidden(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value).replace(SECRET.encode(), b"***"))


def hidden_value(_: Any, value: Any) -> Any:
    assert isinstance(value, dict | list | str | None), "a screen gets plain JSON"
    return hidden(value)


def hidden_message(_: Any, message: Message) -> Message:
    content = tuple(Text(text=hidden(it.text)) for it in message.content if isinstance(it, Text))
    return msgspec.structs.replace(message, content=content)


def hidden_answer(_: Any, answer: StreamResult) -> Screened:
    content = (Text(text=hidden(answer.text)),)
    return Screened(answer=msgspec.structs.replace(answer, content=content))


class Hiding(Plugin):
    name = "hiding"

    def register(self, registrar: PluginRegistrar) -> None:
        registrar.screen_messages(hidden_message)
        registrar.screen_results(hidden_value)
        registrar.screen_answers(hidden_answer)


@as_tool(effect="none")
async def leak(ctx: ToolContext) -> dict[str, str]:
    """Tell too much."""
    ctx.emit_output(f"it is {SECRET}")
    return {"password": SECRET}


@as_tool(effect="none")
async def burst() -> str:
    """Fail with too much."""
    message = f"wrong password {SECRET}"
    raise ValueError(message)


def test_nothing_that_a_screen_hides_is_kept_shown_or_sent(tmp_path: Path) -> None:
    async def scenario() -> None:
        path = tmp_path / "a.db"
        model = ScriptedModel([ToolCalls([("leak", {}), ("burst", {})]), f"Your key is {SECRET}."])
        agent = Agent("a", model=model, tools=[leak, burst], plugins=[Hiding()])
        async with AgentRuntime([agent], store=f"sqlite:///{path}", has_worker=False) as runtime:
            seen = [it async for it in runtime.stream("a", f"I am {SECRET}", thread_id="t")]
            kept = await runtime.messages("t")
            page = await runtime.store.list_events("t")
        assert SECRET not in repr(seen)
        assert SECRET not in repr(kept)
        assert SECRET not in repr(page)
        assert SECRET not in repr(model.requests)
        assert SECRET.encode() not in dump_sqlite(path)
        assert b"Your key is" in dump_sqlite(path)
        # A secret may be split over pieces of output: none of them is shown.
        assert not any(isinstance(it, ToolCallStreamDelta) for it in seen)
        assert kept[-1].message.text == "Your key is ***."
        assert_valid_events(seen)
        assert_valid_transcript([it.message for it in kept])

    asyncio.run(scenario())


def test_an_answer_is_shown_once_and_only_after_its_screen_has_looked() -> None:
    async def scenario() -> None:
        agent = Agent("a", model=ScriptedModel([f"The key is {SECRET}."]), plugins=[Hiding()])
        async with AgentRuntime([agent]) as runtime:
            seen = [it async for it in runtime.stream("a", "Which key?")]
        deltas = [it.delta for it in seen if isinstance(it, TextDelta)]
        assert deltas == ["The key is ***."]

    asyncio.run(scenario())


def _broken(*_: Any) -> Any:
    raise RuntimeError(SECRET)


class Broken(Plugin):
    name = "broken"

    def __init__(self, where: str) -> None:
        self.where = where

    def register(self, registrar: PluginRegistrar) -> None:
        getattr(registrar, f"screen_{self.where}")(_broken)


@pytest.mark.parametrize("where", ["messages", "answers"])
def test_a_screen_that_fails_lets_nothing_through(where: str) -> None:
    async def scenario() -> None:
        model = ScriptedModel([f"The key is {SECRET}."])
        agent = Agent("a", model=model, plugins=[Broken(where)])
        async with AgentRuntime([agent]) as runtime:
            with pytest.raises(RunFailed, match="screen"):
                await runtime.run("a", f"I am {SECRET}", thread_id="t")
            kept = await runtime.messages("t")
        said = [it.message.text for it in kept if it.message.role != "user"]
        assert SECRET not in repr(said)
        assert where == "answers" or not model.requests

    asyncio.run(scenario())


def test_a_result_whose_screen_fails_is_dropped_and_the_run_goes_on() -> None:
    async def scenario() -> None:
        model = ScriptedModel([ToolCalls([("leak", {})]), "done"])
        agent = Agent("a", model=model, tools=[leak], plugins=[Broken("results")])
        async with AgentRuntime([agent]) as runtime:
            seen = [it async for it in runtime.stream("a", "go")]
        done = next(it for it in seen if isinstance(it, ToolCallDone))
        assert done.result.metadata == {"code": "screen_failed"}
        assert SECRET not in repr(seen)

    asyncio.run(scenario())


class Canned(Plugin):
    """Answers the first step by itself."""

    name = "canned"

    def __init__(self, answer: StepAnswer) -> None:
        self.answer = answer

    def register(self, registrar: PluginRegistrar) -> None:
        registrar.hook(Phase.BEFORE_INFERENCE, self._answer)

    async def _answer(self, context: Any) -> StateCommand | None:
        if context.step == 1:
            return StateCommand().schedule(ANSWER_STEP, self.answer)
        return None


def _played(answer: StepAnswer, model: ScriptedModel) -> list[AgentEvent]:
    async def scenario() -> list[AgentEvent]:
        agent = Agent("a", model=model, tools=[leak], plugins=[Canned(answer)])
        async with AgentRuntime([agent]) as runtime:
            seen = [it async for it in runtime.stream("a", "hi", thread_id="t")]
            assert_valid_transcript([it.message for it in await runtime.messages("t")])
        assert_valid_events(seen)
        return seen

    return asyncio.run(scenario())


def test_a_plugin_answers_in_the_place_of_the_model() -> None:
    model = ScriptedModel([])
    seen = _played(StepAnswer(text="Not today."), model)
    assert [it.delta for it in seen if isinstance(it, TextDelta)] == ["Not today."]
    assert not model.requests
    assert not any(isinstance(it, InferenceComplete) for it in seen)


def test_a_plugin_calls_a_tool_in_the_place_of_the_model() -> None:
    model = ScriptedModel(["The tool has answered."])
    call = ToolCall(id="c1", name="leak", arguments={})
    seen = _played(StepAnswer(tool_calls=(call,)), model)
    assert [it.name for it in seen if isinstance(it, ToolCallStart)] == ["leak"]
    assert len(model.requests) == 1


class Card(msgspec.Struct):
    owner: str


@as_tool(effect="none")
async def card() -> ToolResult:
    """Show a card."""
    return ToolResult.success("card", Card(owner=SECRET))


@as_tool(effect="none")
async def asks(ctx: ToolContext) -> Any:
    """Ask something."""
    schema = {"type": "string", "description": SECRET}
    return ctx.suspend(f"Is it {SECRET}?", parameters={"it": SECRET}, response_schema=schema)


def test_objects_and_questions_of_tools_are_looked_at_too() -> None:
    async def scenario() -> None:
        model = ScriptedModel([ToolCalls([("card", {}), ("asks", {})])])
        agent = Agent("a", model=model, tools=[card, asks], plugins=[Hiding()])
        async with AgentRuntime([agent]) as runtime:
            seen = [it async for it in runtime.stream("a", "go", thread_id="t")]
            tickets = await runtime.tickets("t")
            kept = await runtime.messages("t")
        assert tickets[0].suspension.message == "Is it ***?"
        assert kept[2].message.text == '{"owner":"***"}'
        assert SECRET not in repr((tickets, seen, kept))

    asyncio.run(scenario())


SECRET_STATE: StateKey[str, str] = StateKey("hiding.state", default="", private=True)


class Keeping(Hiding):
    def register(self, registrar: PluginRegistrar) -> None:
        registrar.key(SECRET_STATE)
        registrar.hook(Phase.RUN_START, self._keep)

    async def _keep(self, _: Any) -> StateCommand:
        return StateCommand().update(SECRET_STATE, SECRET)


def test_private_state_is_kept_and_shown_to_no_client() -> None:
    async def scenario() -> None:
        agent = Agent("a", model=ScriptedModel(["hi"]), plugins=[Keeping()])
        async with AgentRuntime([agent]) as runtime:
            seen = [it async for it in runtime.stream("a", "go")]
        assert any(isinstance(it, StateSnapshot) for it in seen)
        assert SECRET not in repr(seen)

    asyncio.run(scenario())


class Careless(Plugin):
    name = "careless"

    def register(self, registrar: PluginRegistrar) -> None:
        registrar.screen_messages(lambda _, message: None)  # type: ignore[arg-type, return-value]


def test_a_screen_that_forgets_the_message_fails_the_run_by_its_name() -> None:
    async def scenario() -> None:
        agent = Agent("a", model=ScriptedModel(["hi"]), plugins=[Careless()])
        async with AgentRuntime([agent]) as runtime:
            with pytest.raises(RunFailed, match="careless"):
                await runtime.run("a", "go")

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("text", "raw"), [(f"It is {SECRET}.", None), ("Fine.", {"inside": SECRET})]
)
def test_what_a_remote_agent_says_is_looked_at_too(text: str, raw: Any) -> None:
    async def scenario() -> None:
        backend = FakeBackend(said(text, output=BackendRunOutput(text=text, raw=raw)))
        async with remote_runtime(backend, None, remote=far(plugins=[Hiding()])) as runtime:
            seen = [it async for it in runtime.stream("far", "go", thread_id="t")]
            kept = await runtime.messages("t")
        assert SECRET not in repr((seen, kept))
        assert kept[-1].message.text == hidden(text)

    asyncio.run(scenario())


def test_the_same_input_under_a_key_is_known_whichever_agent_screens_it() -> None:
    async def main() -> None:
        model = ScriptedModel(["ok"], cycle=True)
        agents = [
            Agent("open", model=model),
            Agent("default", model=model, plugins=[Hiding()]),
        ]
        async with AgentRuntime(agents) as runtime:
            first = await runtime.submit(None, SECRET, thread_id="t", dedupe_key="k")
            await runtime.wait(first.run_id)
            # The thread's agent is another one now, without a screen.
            await runtime.run("open", "hi", thread_id="t")
            again = await runtime.submit(None, SECRET, thread_id="t", dedupe_key="k")
            assert (again.run_id, again.is_duplicate) == (first.run_id, True)

    asyncio.run(main())
