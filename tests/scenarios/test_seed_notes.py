"""Facts that the page on Awaken for Rust states, and that no other test shows."""

import asyncio
from typing import Any

import msgspec
import pytest

from awaken import (
    Agent,
    AgentRuntime,
    NaturalEnd,
    Phase,
    Plugin,
    PluginRegistrar,
    RunFinish,
    RunIdentity,
    RunRequest,
    RunStatus,
    StepStart,
    ToolContext,
    ToolResult,
    UnknownAgent,
    tool,
)
from awaken.backends import (
    BackendCapabilities,
    BackendControl,
    BackendDelegateContinuation,
    BackendDelegatePersistence,
    BackendDelegatePolicy,
    BackendDelegateRunRequest,
    BackendOutputArtifact,
    BackendRootRunRequest,
    BackendRunOutput,
    BackendRunResult,
    BackendRunStatus,
    CancellationCapability,
    ContinuationCapability,
    LocalBackend,
    OutputCapability,
    TranscriptCapability,
    WaitCapability,
)
from awaken.errors import (
    AgentNotFound,
    BackendExecutionFailed,
    InvalidBackendConfig,
    RemoteError,
)
from awaken.events import ActivitySnapshot, InferenceComplete, ToolCallResumed
from awaken.models import InferenceOverride
from awaken.plugins import (
    BACKEND_OUTPUT,
    CONTEXT_MESSAGES,
    CONTEXT_THROTTLE,
    GLOBAL_SCOPE,
    RUN_LIFECYCLE,
    TOOL_CALL_STATES,
    PhaseContext,
    ProfileKey,
    StateScope,
)
from awaken.stores import MemoryProfileStore, MemoryStore, WaitingReason
from awaken.testing import FakeClock, ScriptedModel, ToolCalls
from awaken.tools import Delegation, TaskContext, ToolDescriptor, ToolStatus

from .asking import finished, open_tickets, retold
from .delegating import agent, ask, asks, boss, child_of, heard, runtime
from .remoting import FakeBackend, Request, remote_runtime, said, waits
from .worlds import World, play, simulated


def test_the_default_capabilities_are_the_full_set() -> None:
    assert LocalBackend().capabilities() == BackendCapabilities()
    assert BackendCapabilities() == BackendCapabilities(
        cancellation=CancellationCapability.COOPERATIVE_TOKEN,
        decisions=True,
        overrides=True,
        frontend_tools=True,
        continuation=ContinuationCapability.IN_PROCESS_STATE,
        waits=WaitCapability.INPUT_AND_AUTH,
        transcript=TranscriptCapability.FULL_TRANSCRIPT,
        output=OutputCapability.TEXT_AND_ARTIFACTS,
    )


def test_a_stateless_backend_takes_one_prompt_and_returns_text() -> None:
    assert BackendCapabilities.remote_stateless_text() == BackendCapabilities(
        cancellation=CancellationCapability.NONE,
        decisions=False,
        overrides=False,
        frontend_tools=False,
        continuation=ContinuationCapability.NONE,
        waits=WaitCapability.NONE,
        transcript=TranscriptCapability.SINGLE_PROMPT,
        output=OutputCapability.TEXT,
    )


def test_the_values_of_each_capability_are_those_of_the_source() -> None:
    kinds = (ContinuationCapability, WaitCapability, TranscriptCapability, OutputCapability)
    assert [[member.value for member in kind] for kind in kinds] == [
        ["none", "in_process_state", "remote_state"],
        ["none", "input", "auth", "input_and_auth"],
        ["full_transcript", "incremental_user_messages_with_remote_state", "single_prompt"],
        ["text", "text_and_artifacts"],
    ]
    assert [(it.value, it.has_token, it.has_abort) for it in CancellationCapability] == [
        ("none", False, False),
        ("cooperative_token", True, False),
        ("remote_abort", False, True),
        ("cooperative_token_and_remote_abort", True, True),
    ]


class Nothing:
    """A sink and a resolver that are never used."""

    def emit(self, event: object) -> None:
        raise NotImplementedError

    def resolve(self, agent_id: str) -> object:
        raise NotImplementedError


def test_the_local_backend_refuses_a_request_without_a_run_of_this_process() -> None:
    request = BackendRootRunRequest(
        agent_id="a",
        messages=(),
        new_messages=(),
        sink=Nothing(),
        resolver=Nothing(),
        run_identity=RunIdentity(thread_id="t", run_id="r", agent_id="a"),
    )
    with pytest.raises(BackendExecutionFailed):
        asyncio.run(LocalBackend().execute_root(request))


def test_a_delegated_run_asks_for_nothing_unless_its_policy_says_so() -> None:
    policy = BackendDelegatePolicy()
    assert policy.persistence is BackendDelegatePersistence.EPHEMERAL
    assert policy.continuation is BackendDelegateContinuation.DISABLED
    assert [len(it) for it in (BackendDelegatePersistence, BackendDelegateContinuation)] == [1, 1]
    assert set(BackendDelegateRunRequest.__struct_fields__) >= {"parent", "control", "policy"}

    async def scenario() -> None:
        least = BackendCapabilities.remote_stateless_text()
        backend = FakeBackend(said("ok"), can=least)
        asker = boss(asks("far"), heard, delegates=["far"])
        async with remote_runtime(backend, None, asker) as rt:
            assert '"response":"ok"' in (await rt.run("boss", "hi", thread_id="t")).text
            (asked,) = backend.delegates
            assert asked.policy == policy
            assert least.unsupported_delegate_features(asked) == []

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (AgentNotFound(problem="x"), "agent not found: x"),
        (BackendExecutionFailed(problem="x"), "execution failed: x"),
        (RemoteError(problem="x"), "remote error: x"),
        (InvalidBackendConfig(backend="b", problem="x"), "Endpoint of backend 'b': x."),
    ],
)
def test_an_error_of_a_backend_begins_with_its_kind(error: Exception, text: str) -> None:
    assert str(error) == text


def test_an_output_has_one_wire_form_that_leaves_out_what_is_absent() -> None:
    artifact = BackendOutputArtifact(content={"n": 1}, id="a1", name="x", media_type="text/plain")
    full = BackendRunOutput(text="t", artifacts=(artifact,), raw={"r": 1})
    assert msgspec.json.decode(msgspec.json.encode(full)) == {
        "text": "t",
        "artifacts": [{"content": {"n": 1}, "id": "a1", "name": "x", "media_type": "text/plain"}],
        "raw": {"r": 1},
    }
    for output in (full, BackendRunOutput()):
        assert msgspec.json.decode(msgspec.json.encode(output), type=BackendRunOutput) == output
    assert msgspec.to_builtins(BackendRunOutput()) == {}
    assert msgspec.to_builtins(BackendOutputArtifact(content=None)) == {"content": None}
    assert BACKEND_OUTPUT.name == "__runtime_backend_output"


@pytest.mark.parametrize(
    ("status_reason", "waits_for"),
    [
        ("input_required", WaitingReason.USER_INPUT),
        ("user_input_required", WaitingReason.USER_INPUT),
        ("auth_required", WaitingReason.TOOL_PERMISSION),
        ("suspended", WaitingReason.TOOL_PERMISSION),
        ("awaiting_tasks", WaitingReason.BACKGROUND_TASKS),
        ("rate_limit", WaitingReason.RATE_LIMIT),
        ("manual_pause", WaitingReason.MANUAL_PAUSE),
        ("the moon", WaitingReason.EXTERNAL_EVENT),
    ],
)
def test_the_reason_that_a_backend_gives_says_what_the_run_waits_for(
    status_reason: str, waits_for: WaitingReason
) -> None:
    async def scenario() -> None:
        turn = waits(BackendRunStatus.SUSPENDED, status_reason=status_reason)
        async with remote_runtime(FakeBackend(turn), None) as rt:
            result = await rt.run("far", "hi", thread_id="t")
            record = await rt.get_run(result.run_id)
            assert record.status is RunStatus.WAITING
            assert record.waiting is not None
            assert (record.waiting.reason, record.waiting.message) == (waits_for, status_reason)

    asyncio.run(scenario())


def test_a_remote_run_records_what_it_was_given_and_marks_what_it_said() -> None:
    async def scenario() -> None:
        clock = FakeClock()

        async def take_its_time(_: Request) -> BackendRunResult:
            clock.advance(40)
            return said("two")

        backend = FakeBackend(said("one"), take_its_time, waits(BackendRunStatus.WAITING_INPUT))
        async with remote_runtime(backend, None, clock=clock) as rt:
            await rt.run("far", "first", thread_id="t")
            clock.advance(5)
            began_at = clock.now_ms()
            events = [it async for it in rt.stream("far", "second", thread_id="t")]
            record = await rt.get_run(events[-1].run_id)  # type: ignore[union-attr]
            assert (record.input.from_seq, record.input.to_seq) == (3, 3)
            messages = [it.message for it in await rt.messages("t")]
            mark = messages[3].metadata
            assert mark is not None
            assert (mark.run_id, mark.step_index) == (record.run_id, 0)
            assert record.created_at == record.started_at == began_at
            assert record.updated_at == record.finished_at == began_at + 40
            (start,) = [it for it in events if isinstance(it, StepStart)]
            assert messages[3].id == start.message_id
            (complete,) = [it for it in events if isinstance(it, InferenceComplete)]
            assert (complete.model, complete.usage) == ("", None)
            assert (complete.started_at, complete.duration_ms) == (began_at, 40)
            waiting = await rt.get_run((await rt.run("far", "third", thread_id="t")).run_id)
            assert (waiting.status, waiting.finished_at) == (RunStatus.WAITING, None)

    asyncio.run(scenario())


def test_a_backend_gets_overrides_frontend_tools_a_sink_and_a_resolver() -> None:
    overrides = InferenceOverride(temperature=0.5)
    pick = ToolDescriptor(id="pick")

    async def turn(request: Request) -> BackendRunResult:
        request.sink.emit(ActivitySnapshot(message_id="m", activity_type="busy", content={"n": 1}))
        resolved: Any = request.resolver.resolve("far")
        return said(resolved.spec.id)

    async def scenario() -> None:
        backend = FakeBackend(turn, can=BackendCapabilities())
        async with remote_runtime(backend, None) as rt:
            options: Any = {"overrides": overrides, "frontend_tools": [pick]}
            events = [it async for it in rt.stream("far", "hi", thread_id="t", **options)]
            (asked,) = backend.roots
            assert (asked.overrides, asked.frontend_tools, asked.decisions) == (
                overrides,
                (pick,),
                (),
            )
            assert [it.content for it in events if isinstance(it, ActivitySnapshot)] == [{"n": 1}]
            finish = events[-1]
            assert isinstance(finish, RunFinish)
            assert finish.result["response"] == "far"
            assert BackendControl() == BackendControl(cancellation=None, decisions=None)

    asyncio.run(scenario())


RESUMED: dict[str, tuple[ToolResult, Any]] = {
    "data": (ToolResult.success("ask", {"a": 1}), {"a": 1}),
    "data and metadata": (
        ToolResult(tool_name="ask", data={"a": 1}, metadata={"m": 2}),
        {"data": {"a": 1}, "metadata": {"m": 2}},
    ),
    "data and a message": (ToolResult.success("ask", [1], "said"), [1]),
    "a message alone": (ToolResult.success("ask", None, "said"), "said"),
    "an error": (ToolResult.error("ask", "no"), {"error": "no"}),
    "an error without a message": (
        ToolResult(tool_name="ask", status=ToolStatus.ERROR, data={"e": 1}),
        {"e": 1},
    ),
}


@pytest.mark.parametrize("how", RESUMED)
def test_the_end_of_a_resumed_call_shows_its_data_or_its_error(how: str) -> None:
    result, shown = RESUMED[how]

    @tool
    async def ask(ctx: ToolContext) -> Any:
        return result if ctx.resume is not None else ctx.suspend("?")

    async def scenario() -> None:
        world = World([ToolCalls([("ask", {})]), "bye"], tools=[ask])
        await world.tell()
        (ticket,) = await open_tickets(world)
        await world.runtime.decide(ticket, result="yes")
        await finished(world)
        (resumed,) = (await retold(world)).of(ToolCallResumed)
        assert resumed.result == shown

    simulated(scenario)


def test_a_call_that_suspends_again_shows_no_end() -> None:
    asked: list[Any] = []

    @tool
    async def ask(ctx: ToolContext) -> Any:
        asked.append(ctx.resume)
        return ctx.suspend("?", suspension_id=str(len(asked)))

    async def scenario() -> None:
        world = World([ToolCalls([("ask", {})])], tools=[ask])
        await world.tell()
        (ticket,) = await open_tickets(world)
        await world.runtime.decide(ticket, result="yes")
        assert (await finished(world)).status is RunStatus.WAITING
        events = [it.event for it in await world.store.list_events("t")]
        assert [it for it in events if isinstance(it, ToolCallResumed)] == []
        assert await world.runtime.cancel("t")

    simulated(scenario)


def test_a_delegate_gets_none_of_its_callers_overrides_and_frontend_tools() -> None:
    async def scenario() -> None:
        asker, worker = boss(asks("worker"), "ok"), agent("worker", "fine", tools=[ask])
        async with runtime([asker, worker], None) as rt:
            result = await rt.run(
                "boss",
                "hi",
                thread_id="t",
                overrides=InferenceOverride(temperature=0.5),
                frontend_tools=[ToolDescriptor(id="pick")],
            )
            model = worker.model
            assert isinstance(model, ScriptedModel)
            (request,) = model.requests
            assert request.overrides is None
            assert [it.id for it in request.tools] == ["ask"]
            assert (await child_of(rt, result.run_id)).termination == NaturalEnd()

    asyncio.run(scenario())


def test_the_result_of_a_local_delegate_names_its_run_and_has_no_empty_text() -> None:
    found: list[BackendRunResult] = []

    @tool
    async def delegate(ctx: ToolContext) -> str:
        for prompt in ("speak", "be silent"):
            asked = Delegation(agent_id="worker", prompt=prompt)
            found.append(await ctx.sub_runs.delegate(asked))
        return "ok"

    async def scenario() -> None:
        asker = agent("boss", ToolCalls([("delegate", {})]), "bye", tools=[delegate])
        async with runtime([asker, agent("worker", "hello", "")], None) as rt:
            await rt.run("boss", "hi", thread_id="t")
            spoken, silent = found
            assert (spoken.agent_id, spoken.status, spoken.steps) == ("worker", "completed", 1)
            assert (spoken.response, spoken.output) == ("hello", BackendRunOutput(text="hello"))
            assert (silent.response, silent.output) == ("", BackendRunOutput())
            assert (spoken.status_reason, silent.termination) == (None, NaturalEnd())
            assert (await rt.get_run(spoken.run_id)).final_output == "hello"
            assert {"inbox", "state"} & set(BackendRunResult.__struct_fields__) == set()

    asyncio.run(scenario())


def test_a_delegate_starts_background_tasks_without_the_plugin() -> None:
    async def work(task: TaskContext) -> str:
        return f"did {task.task_id}"

    @tool(effect="idempotent")
    async def begin(ctx: ToolContext) -> str:
        return (await ctx.spawn(work, name="w")).task_id

    async def scenario() -> None:
        worker = agent("worker", ToolCalls([("begin", {})]), heard, heard, tools=[begin])
        async with runtime([boss(asks("worker"), "bye"), worker], None) as rt:
            result = await rt.run("boss", "hi", thread_id="t")
            child = await child_of(rt, result.run_id)
            (task,) = await rt.tasks(child.thread_id)
            assert (task.name, task.status, task.result) == (
                "w",
                "completed",
                f"did {task.task_id}",
            )

    asyncio.run(scenario())


def test_a_status_reason_of_the_backend_wins_over_that_of_its_status() -> None:
    async def scenario() -> None:
        turn = said("ok", status_reason="enough")
        async with remote_runtime(FakeBackend(turn), None) as rt:
            events = [it async for it in rt.stream("far", "hi", thread_id="t")]
            finish = events[-1]
            assert isinstance(finish, RunFinish)
            assert finish.result == {
                "response": "ok",
                "status": "done",
                "status_reason": "enough",
                "output": {"text": "ok"},
            }

    asyncio.run(scenario())


def test_a_runtime_has_a_store_and_a_registry_also_when_it_is_given_nothing() -> None:
    async def scenario() -> None:
        async with AgentRuntime() as rt:
            assert isinstance(rt.store, MemoryStore)
            assert (rt.registry.version, dict(rt.registry.snapshot().registries.agents)) == (1, {})
            with pytest.raises(UnknownAgent) as refused:
                await rt.run("any", "hi")
            assert refused.value.agent_id == "any"
            with pytest.raises(UnknownAgent):
                rt.registry.snapshot().resolve("any")

    asyncio.run(scenario())


def test_the_registry_of_a_runtime_is_read_and_replaced_by_its_handle() -> None:
    async def scenario() -> None:
        first = Agent("a", model=ScriptedModel(["x"]))
        async with AgentRuntime([first]) as rt:
            before = rt.registry.snapshot()
            assert (before.version, list(before.registries.agents)) == (1, ["a"])
            assert rt.registry.replace(before.registries) == 2
            assert (rt.registry.version, before.version) == (2, 1)

    asyncio.run(scenario())


def test_the_keys_of_the_loop_are_declared_for_every_run_and_say_what_is_stored() -> None:
    keys = (RUN_LIFECYCLE, TOOL_CALL_STATES, CONTEXT_THROTTLE, CONTEXT_MESSAGES)
    assert [(it.name, it.scope, it.persistent) for it in keys] == [
        ("__runtime.run_lifecycle", StateScope.RUN, False),
        ("__runtime.tool_call_states", StateScope.RUN, False),
        ("__runtime.context_throttle", StateScope.RUN, True),
        ("__runtime.context_message_store", StateScope.RUN, True),
    ]
    seen: list[Any] = []

    @tool(effect="none")
    async def look(ctx: ToolContext) -> str:
        seen.append(ctx.state.get(RUN_LIFECYCLE))
        return "ok"

    story = play([ToolCalls([("look", {})]), "bye"], tools=[look])
    (lifecycle,) = seen
    assert story.record is not None
    assert (lifecycle.run_id, lifecycle.status) == (story.record.run_id, RunStatus.RUNNING)


def test_an_output_schema_and_a_tool_choice_need_a_backend_that_takes_overrides() -> None:
    request = RunRequest(output_schema={"type": "object"}, tool_choice="none")
    least = BackendCapabilities.remote_stateless_text()
    missing = least.unsupported_root_features(request, continues=False)
    assert missing == ["output_schema", "tool_choice"]
    assert BackendCapabilities().unsupported_root_features(request, continues=False) == []


def test_a_profile_store_of_the_hosts_is_the_one_that_plugins_use() -> None:
    visits = ProfileKey("visits", default=0, type=int)

    class Counting(Plugin):
        name = "counting"

        def register(self, registrar: PluginRegistrar) -> None:
            registrar.profile_key(visits)
            registrar.hook(Phase.RUN_START, self.count)

        async def count(self, context: PhaseContext) -> None:
            assert context.profile is not None
            await context.profile.write(visits, GLOBAL_SCOPE, 7)

    async def scenario() -> None:
        mine = MemoryProfileStore()
        counting = Agent("a", model=ScriptedModel(["x"]), plugins=[Counting()])
        async with AgentRuntime([counting], profile=mine) as rt:
            await rt.run("a", "hi")
            (entry,) = await mine.list_entries(GLOBAL_SCOPE)
            assert (entry.key, entry.value) == ("visits", 7)

    asyncio.run(scenario())
