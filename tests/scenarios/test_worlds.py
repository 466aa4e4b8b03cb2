"""Worlds: what answers in place of models and tools, and what never runs."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from awaken import (
    Agent,
    AgentRuntime,
    Cancelled,
    Failed,
    NaturalEnd,
    RunRequest,
    Suspended,
    ToolContext,
    tool,
    user,
    workflow,
)
from awaken.bootstrap.evals import find_eval_store
from awaken.bootstrap.replays import build_recorder, build_recordings, build_replays
from awaken.contracts.evals.errors import CannotRecord, CannotReplay
from awaken.contracts.evals.recordings import Recording
from awaken.contracts.evals.replays import ReplayMode, ReplayResult, ReplaySpec
from awaken.contracts.evals.worlds import (
    CallMatch,
    ModelSource,
    OnMiss,
    OnQuestion,
    PlannedDecision,
    ScriptedCall,
    ScriptedTurn,
    ToolPolicy,
    ToolSource,
    ToolStub,
    Variant,
    World,
)
from awaken.errors import ModelError, RunFailed
from awaken.evals import recording_files
from awaken.evals.worlds import OneWorld, pack_world
from awaken.runtime.engine import RunEngine
from awaken.testing import ScriptedModel, ToolCalls, Turn

Scenario = Callable[[AgentRuntime], Awaitable[Any]]


class Shop:
    """An agent whose tools count what they do."""

    def __init__(self, script: list[Any], *more: Any, **options: Any) -> None:
        self.done: list[str] = []
        done = self.done

        @tool(effect="none")
        async def look(what: str) -> str:
            """Look."""
            done.append(f"look {what}")
            return f"{what} #{len(done)}"

        @tool
        async def pay(amount: int) -> str:
            """Pay."""
            done.append(f"pay {amount}")
            return f"paid {amount} #{len(done)}"

        @tool
        async def ask(question: str, ctx: ToolContext) -> Any:
            """Ask."""
            if ctx.resume is None:
                return ctx.suspend(question)
            done.append("ask")
            return f"said {ctx.resume.result}"

        self.model = ScriptedModel(script)
        self.agent = Agent("shop", model=self.model, tools=[look, pay, ask, *more], **options)

    def play(self, scenario: Scenario, **options: Any) -> Any:
        async def main() -> Any:
            given = {"history": "full", **options}
            async with asyncio.timeout(60), AgentRuntime([self.agent], **given) as runtime:
                return await scenario(runtime)

        return asyncio.run(main())


def engine_of(runtime: AgentRuntime) -> RunEngine:
    return runtime.view("test").engine


async def record(runtime: AgentRuntime, run_id: str) -> Recording:
    return await build_recorder(engine_of(runtime)).record(run_id)


async def replay(runtime: AgentRuntime, recording: Recording, **spec: Any) -> ReplayResult:
    return await build_replays(engine_of(runtime)).replay(recording, ReplaySpec(**spec))


async def wait_until_done(runtime: AgentRuntime, run_id: str) -> None:
    while (await runtime.get_run(run_id)).status != "done":
        await asyncio.sleep(0.01)


def look(what: str) -> ToolCalls:
    return ToolCalls([("look", {"what": what})])


def paid(amount: int) -> ToolCalls:
    return ToolCalls([("pay", {"amount": amount})])


def test_equal_calls_are_answered_in_their_order() -> None:
    batch = ToolCalls([("look", {"what": "a"}), ("look", {"what": "a"})])
    shop = Shop([batch, look("a"), "done"])

    async def scenario(runtime: AgentRuntime) -> None:
        recording = await record(runtime, (await runtime.run("shop", "go")).run_id)
        result = await replay(runtime, recording)
        assert result.is_same, result.divergences
        said = [call.result.message for step in result.replayed.steps for call in step.calls]
        assert said == ["a #1", "a #2", "a #3"]

    shop.play(scenario)
    assert len(shop.done) == 3


def test_a_call_without_a_recorded_answer_never_runs_and_ends_the_run() -> None:
    shop = Shop([look("a"), "done", look("b"), "never"])

    async def scenario(runtime: AgentRuntime) -> None:
        recording = await record(runtime, (await runtime.run("shop", "go")).run_id)
        count = len(shop.done)
        result = await replay(runtime, recording, mode=ReplayMode.WHAT_IF)
        assert len(shop.done) == count
        ended = result.replayed.run.termination
        assert isinstance(ended, Failed)
        assert ended.code == "diverged"
        first = result.divergences[0]
        assert (first.step, first.kind) == (1, "answer")

    shop.play(scenario)


@pytest.mark.parametrize(
    ("policy", "runs", "said"),
    [
        (ToolPolicy(on_miss=OnMiss.ERROR), 0, "has no recorded result"),
        (ToolPolicy(on_miss=OnMiss.LIVE_NONE), 1, "b #2"),
        (ToolPolicy(allow_live=("look*",)), 1, "b #2"),
        (ToolPolicy(match=CallMatch.NAME), 0, "a #1"),
        (ToolPolicy(match=CallMatch.ORDINAL), 0, "a #1"),
        (ToolPolicy(ignore=("/what",)), 0, "a #1"),
        (ToolPolicy(stubs={"look": (ToolStub(when={"what": "b"}, result="stub"),)}), 0, "stub"),
        (ToolPolicy(stubs={"look": (ToolStub(error="broken"),)}), 0, "broken"),
        (ToolPolicy(source=ToolSource.LIVE), 1, "b #2"),
    ],
)
def test_policies_of_tools(policy: ToolPolicy, runs: int, said: str) -> None:
    shop = Shop([look("a"), "done", look("b"), "other"])

    async def scenario(runtime: AgentRuntime) -> None:
        recording = await record(runtime, (await runtime.run("shop", "go")).run_id)
        count = len(shop.done)
        result = await replay(runtime, recording, mode=ReplayMode.WHAT_IF, tools=policy)
        assert len(shop.done) - count == runs
        call = result.replayed.steps[0].calls[0]
        assert said in (call.result.message or "")
        assert result.ended == "natural_end"

    shop.play(scenario)


@pytest.mark.parametrize("allow", [False, True])
@pytest.mark.parametrize(
    "policy",
    [
        ToolPolicy(source=ToolSource.LIVE),
        ToolPolicy(allow_live=("*",)),
        ToolPolicy(on_miss=OnMiss.LIVE_NONE),
    ],
)
def test_effects_never_happen_unless_they_are_allowed(policy: ToolPolicy, allow: bool) -> None:
    shop = Shop([look("a"), "done", paid(5), "other"])
    policy = msgspec.structs.replace(policy, allow_effects=allow)

    async def scenario(runtime: AgentRuntime) -> None:
        recording = await record(runtime, (await runtime.run("shop", "go")).run_id)
        await replay(runtime, recording, mode=ReplayMode.WHAT_IF, tools=policy)

    shop.play(scenario)
    assert ("pay 5" in shop.done) is allow


def test_model_only_finds_a_tool_that_answers_otherwise() -> None:
    shop = Shop([look("a"), paid(1), "done"])

    async def scenario(runtime: AgentRuntime) -> None:
        recording = await record(runtime, (await runtime.run("shop", "go")).run_id)
        result = await replay(runtime, recording, mode=ReplayMode.MODEL_ONLY)
        first = result.divergences[0]
        place = (first.step, first.kind, first.path)
        assert place == (1, "result", "/calls/0/result/data")
        assert (first.recorded, first.replayed) == ("a #1", "a #3")

    shop.play(scenario)
    assert shop.done == ["look a", "pay 1", "look a"]


def test_a_variant_is_tried_from_a_step() -> None:
    shop = Shop([look("a"), look("b"), "done", Turn(text="other")], instructions="Old.")

    async def scenario(runtime: AgentRuntime) -> None:
        recording = await record(runtime, (await runtime.run("shop", "go")).run_id)
        count, asked = len(shop.done), len(shop.model.requests)
        variant = Variant(name="new", instructions="New.", tool_descriptions={"look": "Look well."})
        result = await replay(
            runtime, recording, mode=ReplayMode.WHAT_IF, variant=variant, from_step=3
        )
        assert len(shop.done) == count
        request = shop.model.requests[asked]
        assert len(shop.model.requests) == asked + 1
        assert request.system == ("New.",)
        assert {it.id: it.description for it in request.tools}["look"] == "Look well."
        assert result.replayed.run.final_output == "other"
        assert [it.step for it in result.divergences] == [3]
        with pytest.raises(CannotReplay, match="steps"):
            await replay(runtime, recording, mode=ReplayMode.WHAT_IF, from_step=9)
        with pytest.raises(CannotReplay, match="changes nothing"):
            await replay(runtime, recording, variant=variant)

    shop.play(scenario)


def test_questions_are_answered_from_the_recording_the_plan_or_on_question() -> None:
    script = [ToolCalls([("ask", {"question": "ok?"})]), "done"]
    shop = Shop([*script, script[0], *script])

    async def scenario(runtime: AgentRuntime) -> None:
        waiting = await runtime.run("shop", "go", thread_id="t")
        open_run = await record(runtime, waiting.run_id)
        assert open_run.run.waits_for is not None
        same = await replay(runtime, open_run)
        assert same.is_same, same.divergences
        await runtime.decide(waiting.tickets[0].ticket_id, "resume", result="yes")
        await wait_until_done(runtime, waiting.run_id)
        done = await record(runtime, waiting.run_id)
        result = await replay(runtime, done)
        assert result.is_same, result.divergences
        plan = (PlannedDecision(tool="ask", result="planned"),)
        planned = await replay(runtime, open_run, decisions=plan, keep_going=True)
        assert [it.kind for it in planned.divergences][:1] == ["decision"], planned
        what_if = {"mode": ReplayMode.WHAT_IF, "tools": ToolPolicy(on_miss=OnMiss.ERROR)}
        stopped = await replay(runtime, open_run, **what_if)
        assert stopped.ended is None
        approved = await replay(runtime, open_run, on_question=OnQuestion.APPROVE, **what_if)
        # The recording ends with the question, so that the approved call has no result in it.
        said = approved.replayed.steps[0].calls[0].result.message
        assert said is not None
        assert "no recorded result" in said

    shop.play(scenario)
    assert shop.done == ["ask"]


def test_runs_that_failed_or_were_cancelled_end_the_same_way() -> None:
    shop = Shop([look("a"), ModelError("the model is gone"), look("b"), Turn("x", delay_ms=60_000)])

    async def scenario(runtime: AgentRuntime) -> None:
        with pytest.raises(RunFailed):
            await runtime.run("shop", "go", thread_id="t1", run_id_hint="failed")
        recording = await record(runtime, "failed")
        assert isinstance(recording.run.termination, Failed)
        result = await replay(runtime, recording)
        assert result.is_same, result.divergences
        handle = await runtime.start("shop", "go", thread_id="t2")
        await asyncio.sleep(0.2)
        await runtime.cancel(handle.run_id)
        await wait_until_done(runtime, handle.run_id)
        recording = await record(runtime, handle.run_id)
        assert isinstance(recording.run.termination, Cancelled)
        result = await replay(runtime, recording)
        assert result.is_same, result.divergences

    shop.play(scenario)


def test_an_agent_and_a_tool_that_are_gone_come_from_the_recording() -> None:
    shop = Shop([look("a"), "done"])

    async def scenario(runtime: AgentRuntime) -> Recording:
        return await record(runtime, (await runtime.run("shop", "go")).run_id)

    recording = shop.play(scenario)

    async def verify(agents: list[Agent]) -> ReplayResult:
        async with AgentRuntime(agents) as runtime:
            return await replay(runtime, recording)

    assert asyncio.run(verify([])).is_same
    bare = Agent("shop", model=ScriptedModel([]))
    result = asyncio.run(verify([bare]))
    assert result.is_same, result.divergences


def test_a_recording_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    shop = Shop([look("a"), "done"])

    async def scenario(runtime: AgentRuntime) -> None:
        run_id = (await runtime.run("shop", "go")).run_id
        recording = await record(runtime, run_id)
        assert (await replay(runtime, recording)).is_same
        monkeypatch.setattr(recording_files, "BYTES_MAX", 10)
        with pytest.raises(CannotRecord, match="at most"):
            await record(runtime, run_id)

    shop.play(scenario, history="lean")


def test_secrets_are_redacted_and_the_redacted_form_verifies() -> None:
    key = "sk-ant-api03-" + "a" * 90
    shop = Shop([look(key), f"the key is {key}"])

    async def scenario(runtime: AgentRuntime) -> None:
        run_id = (await runtime.run("shop", f"look for {key}")).run_id
        recording = await build_recordings(engine_of(runtime)).record(run_id)
        assert recording.redacted == ("secrets.model_key",)
        assert key not in msgspec.json.encode(recording).decode()
        plain = await record(runtime, run_id)
        assert [it.digest for it in plain.steps] != [it.digest for it in recording.steps]
        result = await replay(runtime, recording)
        assert result.is_same, result.divergences

    shop.play(scenario)


def test_a_scripted_world_has_parallel_calls_errors_and_no_model() -> None:
    shop = Shop([])
    script = (
        ScriptedTurn(error="rate_limited", text="slow down"),
        ScriptedTurn(
            reasoning="hm",
            calls=(
                ScriptedCall(name="look", arguments={"what": "a"}),
                ScriptedCall(name="look", arguments={"what": "b"}),
            ),
        ),
        ScriptedTurn(text="done"),
    )
    stubs = {"look": (ToolStub(result="one", times=1), ToolStub(result="two"))}
    world = World(models=ModelSource.SCRIPTED, script=script, tools=ToolPolicy(stubs=stubs))

    async def scenario(runtime: AgentRuntime) -> None:
        host = engine_of(runtime)
        engine = RunEngine(
            runtime.store, host.registry, host.services, worlds=OneWorld(world, None)
        )
        request = RunRequest(agent_id="shop", messages=(user("go"),), world="w", thread_id="w")
        result = await engine.run(request)
        assert isinstance(result.termination, NaturalEnd), result.termination
        assert (result.text, shop.done) == ("done", [])
        recording = await record(runtime, result.run_id)
        assert [it.result.message for it in recording.steps[0].calls] == ["one", "two"]
        assert recording.steps[0].attempts == 2

    shop.play(scenario)


def test_a_world_is_opened_by_its_hash_from_the_store() -> None:
    shop = Shop([look("a"), "done"])

    async def scenario(runtime: AgentRuntime) -> None:
        recording = await record(runtime, (await runtime.run("shop", "go")).run_id)
        count = len(shop.done)
        name, objects = pack_world(World(models=ModelSource.RECORDED), recording)
        await find_eval_store(runtime.store).put_eval_objects(objects)
        request = RunRequest(
            agent_id="shop", messages=recording.input, world=name, thread_id="again"
        )
        engine = engine_of(runtime)
        result = await engine.run(request)
        assert result.text == "done"
        assert (await runtime.get_run(result.run_id)).world == name
        assert len(shop.done) == count
        with pytest.raises(CannotReplay, match="no world"):
            await engine.run(msgspec.structs.replace(request, world="f" * 40, thread_id="x"))

    shop.play(scenario)


def test_simulated_tools_are_marked() -> None:
    shop = Shop([look("a"), "done", look("b"), '{"seen": "b"}', "fine"])

    async def scenario(runtime: AgentRuntime) -> None:
        recording = await record(runtime, (await runtime.run("shop", "go")).run_id)
        count = len(shop.done)
        result = await replay(runtime, recording, mode=ReplayMode.SIMULATE)
        call = result.replayed.steps[0].calls[0]
        assert call.result.data == {"seen": "b"}
        assert call.result.metadata == {"simulated": True}
        assert len(shop.done) == count

    shop.play(scenario)


def test_a_waiting_run_is_suspended_in_its_replay() -> None:
    shop = Shop([ToolCalls([("ask", {"question": "?"})])])

    async def scenario(runtime: AgentRuntime) -> None:
        waiting = await runtime.run("shop", "go")
        assert isinstance(waiting.termination, Suspended)
        result = await replay(runtime, await record(runtime, waiting.run_id))
        assert result.ended is None
        assert result.is_same

    shop.play(scenario)


def test_a_workflow_is_verified_by_entering_its_journal_again() -> None:
    done: list[str] = []

    @tool
    async def reserve(what: str) -> str:
        """Reserve."""
        done.append("reserve")
        return f"reserved {what}"

    @tool
    async def charge(what: str) -> str:
        """Charge."""
        done.append("charge")
        return f"charged {what}"

    def make(*tools: Any) -> Any:
        @workflow(id="order", tools=[reserve, charge])
        async def order(ctx: Any, what: str) -> str:
            """Order."""
            return ", ".join([await ctx.call(it, what) for it in tools])

        return order

    async def record_it() -> Recording:
        async with AgentRuntime([make(reserve, charge)], history="full") as runtime:
            result = await runtime.run("order", {"what": "tea"})
            return await record(runtime, result.run_id)

    async def verify(*tools: Any) -> ReplayResult:
        async with AgentRuntime([make(*tools)]) as runtime:
            return await replay(runtime, recording)

    recording = asyncio.run(record_it())
    assert recording.journal
    assert asyncio.run(verify(reserve, charge)).is_same
    other = asyncio.run(verify(reserve, reserve))
    assert (other.is_same, other.divergences[0].kind) == (False, "call")
    assert not asyncio.run(verify(reserve)).is_same
    assert done == ["reserve", "charge"]


@pytest.mark.parametrize("delegates", ["recorded", "replay"])
def test_a_delegate_is_one_result_or_replays_its_own_recording(delegates: str) -> None:
    below = Shop([look("a"), "seen"])
    helper = Agent("helper", model=below.model, tools=list(below.agent.tools))
    asked = ToolCalls([("agent_run_helper", {"prompt": "look"})])
    above = Agent("boss", model=ScriptedModel([asked, "done"]), delegates=["helper"])

    async def main() -> None:
        async with AgentRuntime([above, helper], history="full") as runtime:
            recording = await record(runtime, (await runtime.run("boss", "go")).run_id)
            assert len(recording.steps[0].children) == 1
            policy = ToolPolicy(delegates=delegates)
            result = await replay(runtime, recording, tools=policy)
            assert result.is_same, result.divergences
            count = len(result.replayed.steps[0].children)
            assert count == (delegates == "replay")

    asyncio.run(main())
    assert below.done == ["look a"]
    assert len(below.model.requests) == 2
