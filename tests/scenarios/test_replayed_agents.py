"""Replays of runs in which several agents speak: delegates and handoffs under a live model."""

import asyncio
from typing import Any

import msgspec
import pytest

from awaken import Agent, AgentRuntime, Delegate, RunRequest, ToolContext, tool, user
from awaken.bootstrap.evals import find_eval_store
from awaken.bootstrap.replays import build_recorder, build_replays
from awaken.contracts.evals.recordings import Recording
from awaken.contracts.evals.replays import ReplayMode, ReplayResult, ReplaySpec
from awaken.contracts.evals.worlds import ModelSource, ToolPolicy, Variant, World
from awaken.evals.worlds import pack_world
from awaken.extensions.handoff import Handoff, HandoffPlugin
from awaken.models import InferenceRequest
from awaken.testing import ScriptedModel, ToolCalls, Turn

NUMBERS = iter(range(1_000_000))


def call(name: str, **arguments: Any) -> ToolCalls:
    """A call with an id of its own, as a real model makes it."""
    return ToolCalls([(name, arguments, f"live_{next(NUMBERS)}")])


def results_in(request: InferenceRequest) -> list[str]:
    return [it.text for it in request.messages if it.role == "tool"]


async def replay(runtime: AgentRuntime, run_id: str, **spec: Any) -> ReplayResult:
    engine = runtime.view("test").engine
    recording = await build_recorder(engine).record(run_id)
    given = ReplaySpec(mode=ReplayMode.WHAT_IF, keep_going=True, **spec)
    return await build_replays(engine).replay(recording, given)


class Boss:
    """An agent that asks a helper, in other words each time; the helper has a tool with effects."""

    def __init__(self, *questions: str) -> None:
        self.sent: list[str] = []
        self.asked: list[str] = []
        sent = self.sent

        @tool
        async def send(to: str) -> str:
            """Send."""
            sent.append(to)
            return f"sent to {to}, number {len(sent)}"

        self.words = list(questions)
        helper = Agent(
            "helper",
            model=ScriptedModel([self.help] * 50),
            instructions="You help.",
            tools=[send],
        )
        boss = Agent(
            "boss",
            model=ScriptedModel([self.answer] * 50),
            instructions="You lead.",
            delegates=["helper"],
        )
        self.agents = [boss, helper]

    def answer(self, request: InferenceRequest) -> Any:
        said = results_in(request)
        if said:
            return Turn(f"It is done: {said[-1]}")
        words = self.words.pop(0)
        calls = [("agent_run_helper", {"prompt": it}) for it in words.split("|")]
        return ToolCalls([(name, given, f"live_{next(NUMBERS)}") for name, given in calls])

    def help(self, request: InferenceRequest) -> Any:
        self.asked.append(request.system[0])
        said = results_in(request)
        return Turn(f"helped: {said[-1]}") if said else call("send", to=request.messages[-1].text)


def test_a_recorded_delegate_answers_a_question_in_other_words() -> None:
    boss = Boss("tell ann", "please tell ann")

    async def main() -> None:
        async with asyncio.timeout(60), AgentRuntime(boss.agents, history="full") as runtime:
            run = await runtime.run("boss", "go")
            variant = Variant(name="v", instructions="You lead politely.")
            result = await replay(runtime, run.run_id, variant=variant)
            assert result.ended == "natural_end", result.divergences
            assert result.replayed.run.final_output == run.text
            found = [(it.step, it.kind, it.path) for it in result.divergences]
            assert (1, "call", "/calls/0/arguments/prompt") in found

    asyncio.run(main())
    assert boss.sent == ["tell ann"]


def test_an_equal_question_has_its_own_answer_and_others_have_what_is_left() -> None:
    boss = Boss("a|b|c", "x|b|y|z")

    async def main() -> None:
        async with asyncio.timeout(60), AgentRuntime(boss.agents, history="full") as runtime:
            run = await runtime.run("boss", "go")
            result = await replay(runtime, run.run_id)
            said = [str(it.result.data) for it in result.replayed.steps[0].calls]
            for place, to in enumerate(("a", "b", "c")):
                assert f"sent to {to}" in said[place], said
            # Three were asked: there is no fourth answer, and nothing is executed for it.
            assert result.ended == "error"
            assert result.replayed.run.termination.code == "diverged"  # type: ignore[union-attr]

    asyncio.run(main())
    assert boss.sent == ["a", "b", "c"]


def test_a_delegate_that_is_replayed_is_found_under_the_ids_of_a_live_model() -> None:
    boss = Boss("tell ann", "tell ann")

    async def main() -> None:
        async with asyncio.timeout(60), AgentRuntime(boss.agents, history="full") as runtime:
            run = await runtime.run("boss", "go")
            variant = Variant(name="v", instructions="You lead politely.")
            policy = ToolPolicy(delegates="replay")
            result = await replay(runtime, run.run_id, variant=variant, tools=policy)
            assert result.ended == "natural_end", result.divergences
            (child,) = result.replayed.steps[0].children
            assert child.steps[0].calls[0].result.message == "sent to tell ann, number 1"
            assert result.replayed.run.final_output == run.text

    asyncio.run(main())
    assert boss.sent == ["tell ann"]
    # The variant is of the agent that began.
    assert set(boss.asked) == {"You help."}


def test_a_stored_world_gives_the_variant_to_its_agent_only() -> None:
    boss = Boss("tell ann", "tell ann")

    async def main() -> None:
        async with asyncio.timeout(60), AgentRuntime(boss.agents, history="full") as runtime:
            engine = runtime.view("test").engine
            run = await runtime.run("boss", "go")
            recording = await build_recorder(engine).record(run.run_id)
            world = World(
                models=ModelSource.LIVE,
                tools=ToolPolicy(delegates="replay"),
                variant=Variant(name="v", instructions="You lead politely."),
            )
            name, objects = pack_world(world, recording)
            await find_eval_store(engine.store).put_eval_objects(objects)
            request = RunRequest(
                agent_id="boss", messages=(user("go"),), world=name, thread_id="again"
            )
            result = await engine.run(request)
            assert result.text == run.text
            again = await build_recorder(engine).record(result.run_id)
            assert len(again.steps[0].children) == 1
            check_prompts(again, "You lead politely.")

    asyncio.run(main())
    assert boss.sent == ["tell ann"]
    assert set(boss.asked) == {"You help."}


def check_prompts(recording: Recording, prompt: str) -> None:
    assert recording.config.agents[recording.run.agent_id].system_prompt == prompt


def test_a_typed_delegate_answers_other_arguments() -> None:
    class Question(msgspec.Struct):
        topic: str

    topics = iter(("rain", "weather"))

    def answer(request: InferenceRequest) -> Any:
        said = results_in(request)
        return Turn(said[-1]) if said else call("agent_run_helper", topic=next(topics))

    helper = Agent("helper", model=ScriptedModel([Turn("It rains.")]))
    asked = Delegate("helper", arguments=Question)
    boss = Agent("boss", model=ScriptedModel([answer] * 9), delegates=[asked])

    async def main() -> None:
        async with (
            asyncio.timeout(60),
            AgentRuntime([boss, helper], history="full") as runtime,
        ):
            run = await runtime.run("boss", "go")
            result = await replay(runtime, run.run_id)
            assert (result.ended, result.replayed.run.final_output) == ("natural_end", run.text)

    asyncio.run(main())


class Why(msgspec.Struct):
    reason: str


@pytest.mark.parametrize("is_typed", [True, False])
@pytest.mark.parametrize("was_handed_over", [True, False])
def test_a_handoff_goes_on_with_the_other_agent(*, is_typed: bool, was_handed_over: bool) -> None:
    """Also one that was not recorded, or has another reason; its callback is not called."""
    told: list[str] = []
    live: list[bool] = [was_handed_over, True]

    async def tell(why: Why, ctx: ToolContext) -> None:
        told.append(why.reason)

    async def tell_plainly(ctx: ToolContext) -> None:
        told.append("plain")

    if is_typed:
        handoff = Handoff("billing", input=Why, on_handoff=tell)
    else:
        handoff = Handoff("billing", on_handoff=tell_plainly)

    def answer(request: InferenceRequest) -> Any:
        if not live.pop(0):
            return Turn("I do it myself.")
        if is_typed:
            return call("transfer_to_billing", reason=f"reason {len(live)}")
        return call("transfer_to_agent", agent_id="billing")

    front = Agent("front", model=ScriptedModel([answer] * 9), plugins=[HandoffPlugin([handoff])])
    billing = Agent("billing", model=ScriptedModel([Turn("Billing here.")] * 9))

    async def main() -> None:
        async with (
            asyncio.timeout(60),
            AgentRuntime([front, billing], history="full") as runtime,
        ):
            run = await runtime.run("front", "go")
            count = len(told)
            result = await replay(runtime, run.run_id)
            assert result.ended == "natural_end", result.divergences
            assert result.replayed.run.final_output == "Billing here."
            assert result.replayed.run.active_agent_id == "billing"
            assert len(told) == count

    asyncio.run(main())


def test_a_handoff_to_an_agent_that_is_not_offered_is_an_error_as_it_is_in_reality() -> None:
    script = [Turn("done"), call("transfer_to_agent", agent_id="nobody"), Turn("sorry")]
    front = Agent("front", model=ScriptedModel(script), plugins=[HandoffPlugin({"other": "x"})])
    other = Agent("other", model=ScriptedModel([]))

    async def main() -> None:
        async with (
            asyncio.timeout(60),
            AgentRuntime([front, other], history="full") as runtime,
        ):
            run = await runtime.run("front", "go")
            result = await replay(runtime, run.run_id)
            assert result.replayed.run.final_output == "sorry"
            assert "must be one of other" in str(result.replayed.steps[0].calls[0].result.message)

    asyncio.run(main())


@pytest.mark.parametrize("delegates", ["recorded", "replay"])
def test_a_run_whose_agents_are_gone_is_replayed_with_those_of_its_recording(
    delegates: Any,
) -> None:
    boss = Boss("tell ann")
    # Named, but never asked: nothing says what this one was.
    idle = Agent("idle", model=ScriptedModel([]), instructions="You wait.")
    lead = Agent(
        "boss",
        model=ScriptedModel([boss.answer] * 50),
        instructions="You lead.",
        delegates=["helper", "idle"],
    )

    async def record() -> Recording:
        agents = [lead, *boss.agents[1:], idle]
        async with asyncio.timeout(60), AgentRuntime(agents, history="full") as runtime:
            run = await runtime.run("boss", "go")
            return await build_recorder(runtime.view("test").engine).record(run.run_id)

    async def verify(recording: Recording) -> None:
        other = Agent("other", model=ScriptedModel([]), instructions="You are new.")
        async with asyncio.timeout(60), AgentRuntime([other]) as runtime:
            replays = build_replays(runtime.view("test").engine)
            spec = ReplaySpec(tools=ToolPolicy(delegates=delegates))
            result = await replays.replay(recording, spec)
            assert result.is_same, result.divergences

    asyncio.run(verify(asyncio.run(record())))
    assert boss.sent == ["tell ann"]
