"""The context of a run: checked at the door, typed in tools, inherited, the same after a crash."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pydantic
import pytest

from awaken import Agent, AgentRuntime, AgentSpec, Limits, RunRequest, ToolContext, tool, user
from awaken.errors import (
    DependenciesFailed,
    InvalidContext,
    InvalidInput,
    InvalidSpec,
    LimitExceeded,
    Misuse,
)
from awaken.extensions.background import BackgroundTasksPlugin, DurableMessageRequest
from awaken.extensions.handoff import HandoffPlugin
from awaken.messages import ToolCall
from awaken.plugins import Phase, Plugin, PluginRegistrar, RunStartContext, StateCommand
from awaken.testing import ScriptedModel, ToolCalls
from awaken.tools import TaskInfo

from .context_process import be_killed, make_runtime


@dataclass
class Customer:
    id: str
    tags: list[str] = field(default_factory=list)


class CustomerStruct(msgspec.Struct):
    id: str
    tags: list[str] = []


class CustomerModel(pydantic.BaseModel):
    id: str
    tags: list[str] = []


KINDS = [Customer, CustomerStruct, CustomerModel]


def play(scenario: Callable[[], Any]) -> Any:
    return asyncio.run(scenario())


def watching(seen: list[Any]) -> Any:
    @tool(effect="none")
    async def look(ctx: ToolContext[Any, Any]) -> str:
        """Look."""
        seen.append(ctx.context)
        return "seen"

    return look


def looking(seen: list[Any], agent_id: str = "a", **options: Any) -> Agent:
    model = ScriptedModel([ToolCalls([("look", {})]), "Done."], cycle=True)
    return Agent(agent_id, model=model, tools=[watching(seen)], **options)


@pytest.mark.parametrize("kind", KINDS)
def test_a_tool_sees_the_context_in_the_agents_type(kind: Any) -> None:
    seen: list[Any] = []

    async def scenario() -> None:
        async with AgentRuntime([looking(seen, context_type=kind)]) as runtime:
            await runtime.run("a", "go", context={"id": "c1", "tags": ["x"], "more": 1})
            await runtime.run("a", "go", context=kind(id="c2"))

    play(scenario)
    assert [type(it) for it in seen] == [kind, kind]
    assert [(it.id, it.tags) for it in seen] == [("c1", ["x"]), ("c2", [])]


def test_without_a_type_the_context_is_any_object_and_empty_if_there_is_none() -> None:
    seen: list[Any] = []

    async def scenario() -> None:
        async with AgentRuntime([looking(seen)]) as runtime:
            await runtime.run("a", "go", context={"any": [1, {"thing": None}]})
            await runtime.run("a", "go")

    play(scenario)
    assert seen == [{"any": [1, {"thing": None}]}, {}]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("context", [{"id": 7}, {}, None])
@pytest.mark.parametrize("way", ["run", "start", "submit", "stream"])
def test_a_context_that_does_not_fit_is_refused_before_anything_is_written(
    kind: Any, context: Any, way: str
) -> None:
    seen: list[Any] = []

    async def scenario() -> str:
        async with AgentRuntime([looking(seen, context_type=kind)]) as runtime:
            asked: Any = getattr(runtime, way)("a", "go", thread_id="t1", context=context)
            with pytest.raises(InvalidContext) as caught:
                await (anext(asked) if way == "stream" else asked)
            assert await runtime.list_runs() == ()
            assert await runtime.store.load_thread("t1") is None
            return str(caught.value)

    problem = play(scenario)
    assert "agent 'a'" in problem
    assert "id" in problem.partition(":")[2]
    assert seen == []


@pytest.mark.parametrize("context", ["text", ["list"], {1: 2}, {"x": object()}, 7])
def test_a_context_is_a_json_object(context: Any) -> None:
    async def scenario() -> None:
        async with AgentRuntime([looking([])]) as runtime:
            if context == {1: 2}:
                await runtime.run("a", "go", context=context)
                (record,) = await runtime.list_runs()
                assert record.context == {"1": 2}
                return
            with pytest.raises(InvalidInput, match="context"):
                await runtime.run("a", "go", context=context)
            assert await runtime.list_runs() == ()

    play(scenario)


def test_a_request_made_by_hand_is_checked_too() -> None:
    async def scenario() -> None:
        async with AgentRuntime([looking([])]) as runtime:
            request = RunRequest(agent_id="a", messages=(user("go"),), context=[1])  # type: ignore[arg-type]
            with pytest.raises(InvalidInput, match="context"):
                await runtime.start(request)

    play(scenario)


def test_a_context_has_a_limit() -> None:
    async def scenario() -> None:
        limits = Limits(context_bytes=100)
        async with AgentRuntime([looking([])], limits=limits) as runtime:
            with pytest.raises(LimitExceeded, match="context"):
                await runtime.run("a", "go", context={"x": "y" * 100})

    play(scenario)


@pytest.mark.parametrize("kind", [int, list[str], str])
def test_a_context_type_is_an_object(kind: Any) -> None:
    with pytest.raises(InvalidSpec, match="context_type"):
        Agent("a", model=ScriptedModel([]), context_type=kind)


def test_what_a_call_changes_in_its_context_no_other_call_sees() -> None:
    seen: list[Any] = []

    @tool(effect="none")
    async def spoil(ctx: ToolContext[None, Customer]) -> str:
        """Spoil it."""
        seen.append(list(ctx.context.tags))
        ctx.context.tags.append("spoilt")
        assert ctx.context.tags[-1] == "spoilt"
        return "done"

    async def scenario() -> None:
        model = ScriptedModel([ToolCalls([("spoil", {}), ("spoil", {})]), "Done."])
        agent = Agent("a", model=model, tools=[spoil], context_type=Customer)
        async with AgentRuntime([agent]) as runtime:
            result = await runtime.run("a", "go", context=Customer("c", ["x"]))
            record = await runtime.get_run(result.run_id)
            assert record.context == {"id": "c", "tags": ["x"]}

    play(scenario)
    assert seen == [["x"], ["x"]]


def test_a_resumed_run_keeps_its_context_and_a_new_run_has_its_own() -> None:
    seen: list[Any] = []

    @tool(effect="none")
    async def ask(ctx: ToolContext[None, Customer]) -> Any:
        """Ask."""
        seen.append(ctx.context.id)
        return ctx.suspend("sure?") if ctx.resume is None else "yes"

    async def scenario() -> None:
        model = ScriptedModel([ToolCalls([("ask", {})]), "Done."], cycle=True)
        agent = Agent("a", model=model, tools=[ask], context_type=Customer)
        async with AgentRuntime([agent]) as runtime:
            first = await runtime.run("a", "go", thread_id="t", context=Customer("one"))
            await runtime.decide(first.tickets[0].ticket_id, result=True)
            await runtime.wait(first.run_id)
            await runtime.run("a", "go", thread_id="t", context=Customer("two"))

    play(scenario)
    assert seen == ["one", "one", "two"]


@dataclass
class Narrow:
    region: str


def delegating(seen: list[Any]) -> tuple[ScriptedModel, list[Agent]]:
    model = ScriptedModel([ToolCalls([("agent_run_helper", {"prompt": "go"})]), "Done."])
    boss = Agent("boss", model=model, delegates=["helper"])
    return model, [boss, looking(seen, "helper", context_type=Narrow)]


def test_delegates_inherit_the_context_and_read_it_by_their_own_type() -> None:
    seen: list[Any] = []

    async def fitting() -> list[dict[str, Any] | None]:
        _, agents = delegating(seen)
        async with AgentRuntime(agents) as runtime:
            await runtime.run("boss", "go", context={"region": "north", "more": 1})
            return [it.context for it in await runtime.list_runs()]

    async def misfit() -> str:
        boss_model, agents = delegating(seen)
        async with AgentRuntime(agents) as runtime:
            await runtime.run("boss", "go", context={"more": 1})
            assert len(await runtime.list_runs()) == 1
            return boss_model.requests[-1].messages[-1].text

    contexts = play(fitting)
    assert seen == [Narrow("north")]
    assert contexts == [{"region": "north", "more": 1}] * 2
    text = play(misfit)
    assert "region" in text
    assert "helper" in text
    assert len(seen) == 1


def test_a_handed_over_conversation_keeps_the_context() -> None:
    seen: list[Any] = []

    async def scenario() -> None:
        first_model = ScriptedModel([ToolCalls([("transfer_to_agent", {"agent_id": "second"})])])
        first = Agent(
            "first", model=first_model, plugins=[HandoffPlugin({"second": "the second one"})]
        )
        async with AgentRuntime([first, looking(seen, "second", context_type=Narrow)]) as runtime:
            await runtime.run("first", "go", context={"region": "north"})

    play(scenario)
    assert seen == [Narrow("north")]


def test_a_background_task_inherits_the_context() -> None:
    seen: list[Any] = []

    @tool(effect="none")
    async def spawn(ctx: ToolContext) -> str:
        """Start a task."""
        await ctx.sub_runs.spawn_agent("helper", "go", TaskInfo(name="child"))
        return "started"

    async def scenario() -> list[dict[str, Any] | None]:
        boss_model = ScriptedModel([ToolCalls([("spawn", {})]), "Started.", "Heard."])
        boss = Agent(
            "boss",
            model=boss_model,
            tools=[spawn],
            plugins=[BackgroundTasksPlugin()],
            context_type=Narrow,
        )
        helper = looking(seen, "helper", context_type=Narrow)
        async with AgentRuntime([boss, helper]) as runtime:
            result = await runtime.run("boss", "go", context={"region": "north"})
            await runtime.wait(result.run_id)
            return [it.context for it in await runtime.list_runs()]

    contexts = play(scenario)
    assert seen == [Narrow("north")]
    assert set(map(str, contexts)) == {"{'region': 'north'}"}


def test_a_run_that_another_agents_message_starts_has_the_context_of_its_thread() -> None:
    seen: list[Any] = []

    @tool(effect="none")
    async def tell(ctx: ToolContext) -> str:
        """Tell the other thread."""
        request = DurableMessageRequest(
            recipient_thread_id="other", sender_agent_id="boss", message="for you"
        )
        await ctx.sub_runs.send_agent_message(request)
        return "told"

    async def scenario() -> list[Any]:
        model = ScriptedModel([ToolCalls([("tell", {})]), "Told."])
        boss = Agent("boss", model=model, tools=[tell], plugins=[BackgroundTasksPlugin()])
        async with AgentRuntime([boss, looking(seen, "helper", context_type=Narrow)]) as runtime:
            await runtime.run("helper", "go", thread_id="other", context={"region": "north"})
            await runtime.run("boss", "go", context={"region": "south"})
            while len(found := await runtime.list_runs("other")) < 2:
                await asyncio.sleep(0.01)
            await runtime.wait(found[1].run_id)
            return [it.context for it in found]

    assert asyncio.run(asyncio.wait_for(scenario(), 20)) == [{"region": "north"}] * 2
    assert seen == [Narrow("north")] * 2


def test_queued_input_whose_context_no_longer_fits_is_a_dead_letter_at_once(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/a.db"
    seen: list[Any] = []

    async def queue() -> None:
        async with AgentRuntime([looking([])], store=store, has_worker=False) as runtime:
            await runtime.submit("a", "go", thread_id="t", context={"x": 1}, run_id_hint="r")

    async def execute() -> Any:
        async with AgentRuntime([looking(seen, context_type=Narrow)], store=store) as runtime:
            return (await runtime.wait("r", timeout_ms=20_000)).termination

    asyncio.run(queue())
    ended = asyncio.run(execute())
    assert "region" in ended.message
    assert seen == []


class Watching(Plugin):
    """Notes the context that its hook has."""

    name = "watching"

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def register(self, registrar: PluginRegistrar) -> None:
        registrar.hook(Phase.RUN_START, self._look)

    async def _look(self, context: RunStartContext) -> StateCommand:
        self.seen.append(dict(context.context))
        return StateCommand()


def test_hooks_have_the_context_as_json() -> None:
    plugin = Watching()

    async def scenario() -> None:
        agent = Agent("a", model=ScriptedModel(["x", "y"]), plugins=[plugin])
        async with AgentRuntime([agent]) as runtime:
            await runtime.run("a", "go", context={"id": "c"})
            await runtime.run("a", "go")

    play(scenario)
    assert plugin.seen == [{"id": "c"}, {}]


def test_the_context_and_the_instructions_are_the_same_after_a_kill(tmp_path: Path) -> None:
    be_killed(tmp_path)

    async def scenario() -> tuple[Any, Any, Any, list[str]]:
        runtime, model, made = make_runtime(tmp_path, is_deadly=False)
        async with runtime:
            result = await runtime.wait("r1", timeout_ms=30_000)
            record = await runtime.get_run("r1")
        return result, record, model.requests, made

    result, record, requests, made = asyncio.run(scenario())
    assert result.text == "Done."
    assert record.context == {"id": "c7", "tier": "gold"}
    assert requests[-1].messages[-1].text == "c7 gold second"
    assert requests[-1].system == ("Help c7, said by the first process.",)
    assert made == []


def test_a_run_without_a_context_has_none_in_its_record() -> None:
    async def scenario() -> None:
        async with AgentRuntime([looking([])]) as runtime:
            result = await runtime.run("a", "go")
            record = await runtime.get_run(result.run_id)
            assert record.context is None
            assert b"context" not in msgspec.json.encode(record)
            assert b"instructions" not in msgspec.json.encode(record)

    play(scenario)


class Pool:
    """Notes when it is opened and closed."""

    def __init__(self, log: list[str]) -> None:
        self.log = log

    async def __aenter__(self) -> "Pool":
        self.log.append("opened")
        return self

    async def __aexit__(self, *_: object) -> None:
        self.log.append("closed")


class Lifecycle(Plugin):
    """A plugin that is opened after the dependencies, and closed before them."""

    name = "lifecycle"

    def __init__(self, log: list[str]) -> None:
        self.log = log

    async def open(self, host: Any) -> None:
        self.log.append("plugin opened")

    async def close(self) -> None:
        self.log.append("plugin closed")


def dependent(seen: list[Any]) -> Agent:
    @tool(effect="none")
    async def look(ctx: ToolContext[Any]) -> str:
        """Look."""
        seen.append(ctx.deps)
        return "seen"

    model = ScriptedModel([ToolCalls([("look", {})]), "Done."], cycle=True)
    return Agent("a", model=model, tools=[look])


@pytest.mark.parametrize("form", ["manager", "class", "function", "async function", "generator"])
def test_dependencies_open_before_plugins_and_close_last(form: str) -> None:
    log: list[str] = []
    seen: list[Any] = []

    async def make() -> Pool:
        return Pool(log)

    @asynccontextmanager
    async def generate() -> AsyncIterator[Pool]:
        async with Pool(log) as pool:
            yield pool

    class OwnPool(Pool):
        def __init__(self) -> None:
            super().__init__(log)

    given: dict[str, Any] = {
        "manager": Pool(log),
        "class": OwnPool,
        "function": lambda: Pool(log),
        "async function": make,
        "generator": generate,
    }

    async def scenario() -> None:
        agents, plugins = [dependent(seen)], [Lifecycle(log)]
        async with AgentRuntime(agents, plugins=plugins, deps=given[form]) as runtime:
            await runtime.run("a", "go")

    play(scenario)
    assert log == ["opened", "plugin opened", "plugin closed", "closed"]
    assert isinstance(seen[0], Pool)


def test_any_object_is_used_as_it_is_and_none_is_none() -> None:
    seen: list[Any] = []
    plain = {"a": 1}

    async def scenario() -> None:
        async with AgentRuntime([dependent(seen)], deps=plain) as runtime:
            await runtime.run("a", "go")
        async with AgentRuntime([dependent(seen)]) as runtime:
            await runtime.run("a", "go")

    play(scenario)
    assert seen[0] is plain
    assert seen[1] is None


def test_dependencies_that_fail_close_the_runtime_and_open_no_plugin() -> None:
    log: list[str] = []

    async def fail() -> None:
        raise OSError("no database")

    async def scenario() -> None:
        runtime = AgentRuntime([dependent([])], plugins=[Lifecycle(log)], deps=fail)
        with pytest.raises(DependenciesFailed, match="no database"):
            async with runtime:
                pass

    play(scenario)
    assert log == []


def test_a_tool_outside_of_a_run_has_neither_context_nor_dependencies() -> None:
    context: ToolContext[Any, Any] = ToolContext(
        run=RunRequest().identify("r", "t", "a"),
        agent=AgentSpec(id="a", model_id="m"),
        call=ToolCall(id="c", name="look", arguments={}),
    )
    for name in ("context", "deps"):
        with pytest.raises(Misuse):
            getattr(context, name)
