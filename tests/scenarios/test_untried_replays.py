"""A replay that tried nothing of what was asked is refused: it is never called the same."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import msgspec
import pytest

from awaken import Agent, AgentRuntime, RunRequest, ToolContext, tool, user
from awaken.contracts.evals.errors import CannotReplay
from awaken.contracts.evals.eval_runs import ItemStatus
from awaken.contracts.evals.replays import ReplayMode, ReplayResult, ReplaySpec
from awaken.contracts.evals.worlds import (
    OnMiss,
    OnQuestion,
    ToolPolicy,
    ToolSource,
    Variant,
)
from awaken.contracts.models.errors import Unauthorized
from awaken.contracts.runs.records import RunKind
from awaken.contracts.tools.tool import ToolDescriptor
from awaken.evals import Case, ScriptedCall, ScriptedTurn, evaluate, scorers
from awaken.extensions.handoff import Handoff, HandoffPlugin
from awaken.models import InferenceRequest, ModelEvent
from awaken.testing import ScriptedModel, ToolCalls

BRIEF = Variant(name="brief", instructions="Be brief.")
PAY = ToolCalls([("pay", {"amount": 5})])


@tool
async def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


@tool(effect="none")
async def look(amount: int) -> str:
    """Look."""
    return f"saw {amount}"


def shop(*answers: Any, **options: Any) -> Agent:
    model = ScriptedModel(answers or (PAY, "It is paid."), cycle=True)
    return Agent("shop", model=model, instructions="Pay.", **{"tools": [pay, look], **options})


def replay(agents: list[Agent], **spec: Any) -> ReplayResult:
    """Run the first agent once, and replay its run."""

    async def main() -> ReplayResult:
        async with asyncio.timeout(60), AgentRuntime(agents, history="full") as runtime:
            run = await runtime.run(agents[0].id, "Pay my bill.")
            return await runtime.replays.replay(run.run_id, ReplaySpec(keep_going=True, **spec))

    return asyncio.run(main())


def refuse(agents: list[Agent], **spec: Any) -> str:
    with pytest.raises(CannotReplay) as caught:
        replay(agents, **spec)
    return str(caught.value)


@pytest.mark.parametrize("mode", [ReplayMode.VERIFY, ReplayMode.MODEL_ONLY])
def test_a_mode_with_recorded_answers_has_no_first_live_step(mode: ReplayMode) -> None:
    said = refuse([shop()], mode=mode, from_step=2)
    assert str(mode) in said
    assert "what_if" in said
    assert "what_if" in refuse([shop()], mode=mode, variant=BRIEF)


@pytest.mark.parametrize(
    "tools",
    [
        ToolPolicy(source=ToolSource.LIVE),
        ToolPolicy(source=ToolSource.SIMULATED),
        ToolPolicy(allow_live=("look",)),
        ToolPolicy(on_miss=OnMiss.LIVE_NONE),
    ],
)
def test_a_verification_has_recorded_tools_only(tools: ToolPolicy) -> None:
    assert "model_only" in refuse([shop()], mode=ReplayMode.VERIFY, tools=tools)


@pytest.mark.parametrize("mode", [ReplayMode.WHAT_IF, ReplayMode.SIMULATE])
def test_a_change_behind_the_last_step_is_refused(mode: ReplayMode) -> None:
    assert "ended after 2 steps" in refuse([shop()], mode=mode, variant=BRIEF, from_step=3)
    # At the last step it is asked.
    tried = replay([shop(PAY, "It is paid.")], mode=mode, variant=BRIEF, from_step=2)
    assert not tried.is_same


def test_a_change_behind_the_question_that_a_run_waits_for_is_tried_once_it_is_decided() -> None:
    @tool(approval=True)
    async def pay(amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    what_if = {"mode": ReplayMode.WHAT_IF, "variant": BRIEF, "from_step": 2}
    said = refuse([shop(PAY, "It is paid.", tools=[pay])], **what_if)
    assert "no model was asked from step 2 on" in said
    assert "decisions" in said
    what_if |= {"on_question": OnQuestion.APPROVE, "tools": ToolPolicy(on_miss=OnMiss.ERROR)}
    assert not replay([shop(PAY, "It is paid.", tools=[pay])], **what_if).is_same


def test_a_change_of_an_agent_that_had_handed_over_is_not_tried() -> None:
    def agents() -> list[Agent]:
        hands_over = ToolCalls([("transfer_to_agent", {"agent_id": "billing"})])
        plugins = [HandoffPlugin([Handoff("billing")])]
        front = shop(hands_over, tools=[], plugins=plugins)
        return [front, Agent("billing", model=ScriptedModel(["Hello.", "Good day."]))]

    what_if = {"mode": ReplayMode.WHAT_IF, "variant": BRIEF}
    said = refuse(agents(), **what_if, from_step=2)
    assert "only 'billing' was asked, and the change is of 'shop'" in said
    # From the first step on it is, and so is what the other agent says without a change.
    assert not replay(agents(), **what_if).is_same
    assert not replay(agents(), mode=ReplayMode.WHAT_IF, from_step=2).is_same


def test_tools_that_were_not_executed_are_not_the_same() -> None:
    # `pay` has effects: in this mode it answers from the recording.
    assert "no tool was executed" in refuse([shop()], mode=ReplayMode.MODEL_ONLY)
    looks = shop(ToolCalls([("look", {"amount": 5})]), "I saw it.")
    assert replay([looks], mode=ReplayMode.MODEL_ONLY).is_same


class Locked:
    """A model that answers until its key is taken away."""

    name = "locked"

    def __init__(self) -> None:
        self.inner = ScriptedModel(["Hello."])
        self.is_locked = False

    async def stream(self, request: InferenceRequest) -> AsyncGenerator[ModelEvent, None]:
        if self.is_locked:
            raise Unauthorized("no key for 'locked'; set LOCKED_KEY")
        self.is_locked = True
        async for event in self.inner.stream(request):
            yield event


def test_a_provider_that_fails_is_no_divergence() -> None:
    agent = Agent("shop", model=Locked(), instructions="Pay.")
    said = refuse([agent], mode=ReplayMode.WHAT_IF, from_step=1)
    assert "the model of step 1 could not be asked: no key for 'locked'; set LOCKED_KEY" in said


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"id": "other"}, "agent_id"),
        ({"instructions": "Be brief."}, "'instructions' is a field of the variant itself"),
        ({"max_round": 3}, "no field 'max_round'; it has model_id, system_prompt"),
    ],
)
def test_a_change_that_would_do_nothing_is_refused(changes: dict[str, Any], said: str) -> None:
    variant = Variant(name="changed", changes=changes)
    assert said in refuse([shop()], mode=ReplayMode.WHAT_IF, variant=variant)


def test_a_changed_field_of_the_spec_wins_over_what_the_code_gives() -> None:
    other = shop("Hello.")
    changed = Variant(name="changed", changes={"model_id": "nothing:at-all"})
    said = refuse([other], mode=ReplayMode.WHAT_IF, variant=changed)
    assert "nothing" in said
    changed = Variant(name="changed", changes={"system_prompt": "Be brief."})
    result = replay([other], mode=ReplayMode.WHAT_IF, variant=changed)
    assert [it.path for it in result.divergences] == ["/request/frame"]


@pytest.mark.parametrize("name", ["pay", "agent_run_helper", "transfer_to_agent", "choose"])
def test_the_text_of_any_tool_that_was_shown_can_change(name: str) -> None:
    helper = Agent("helper", model=ScriptedModel([]), instructions="Help.", description="Helps.")
    options = {"delegates": ["helper"], "plugins": [HandoffPlugin(["helper"])]}
    choose = ToolDescriptor(id="choose", description="Choose a colour.")
    variant = Variant(name="said", tool_descriptions={name: "Quite another text."})

    async def main() -> ReplayResult:
        agents = [shop(**options), helper]
        async with asyncio.timeout(60), AgentRuntime(agents, history="full") as runtime:
            asked = RunRequest(agent_id="shop", messages=(user("Pay."),), frontend_tools=(choose,))
            run = await runtime._engine.run(asked)
            return await runtime.replays.replay(
                run.run_id, ReplaySpec(mode=ReplayMode.WHAT_IF, variant=variant)
            )

    result = asyncio.run(main())
    assert [(it.step, it.path) for it in result.divergences] == [(1, "/request/frame")]


def test_the_text_of_a_tool_that_is_none_is_refused() -> None:
    variant = Variant(name="said", tool_descriptions={"payy": "Pay well."}, instructions="Pay!")
    said = refuse([shop()], mode=ReplayMode.WHAT_IF, variant=variant)
    assert "no agent that spoke has a tool 'payy'" in said


def test_what_plugins_did_after_a_run_is_not_replayed_as_a_run() -> None:
    async def main() -> None:
        async with asyncio.timeout(60), AgentRuntime([shop()], history="full") as runtime:
            done = await runtime.run("shop", "Pay my bill.")
            recording = await runtime.replays.record(done.run_id)
            run = msgspec.structs.replace(recording.run, kind=RunKind.FOLLOW_UP)
            after = msgspec.structs.replace(recording, run=run)
            with pytest.raises(CannotReplay, match="what plugins did after another run"):
                await runtime.replays.verify(after)

    asyncio.run(main())


def test_a_way_to_answer_delegates_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="it is 'recorded' or 'replay'"):
        ToolPolicy(delegates="replayed")


@tool(effect="none")
async def think(q: str, ctx: ToolContext) -> str:
    """Think."""
    assert ctx.sub_runs is not None
    return (await ctx.sub_runs.ask_model([user(q)])).text


def answer_thinker(request: InferenceRequest) -> Any:
    last = request.messages[-1]
    if last.text == "deep?":
        return "very"
    return "Done." if last.role == "tool" else ToolCalls([("think", {"q": "deep?"})])


def test_a_tool_that_asks_a_model_itself_is_not_given_the_answer_of_its_step() -> None:
    """Nothing recorded answers its question: a difference would be made up."""

    async def main() -> None:
        agent = Agent("a", model=ScriptedModel([answer_thinker] * 9), tools=[think])
        async with AgentRuntime([agent], history="full") as runtime:
            run = await runtime.run("a", "hi")
            recording = await runtime.replays.record(run.run_id)
            assert recording.steps[0].calls[0].result.message == "very"
            assert (await runtime.replays.verify(recording)).is_same
            spec = ReplaySpec(mode=ReplayMode.MODEL_ONLY)
            with pytest.raises(CannotReplay, match="a tool asked a model by itself"):
                await runtime.replays.replay(recording, spec)
            live = ReplaySpec(
                mode=ReplayMode.WHAT_IF, variant=BRIEF, tools=ToolPolicy(source=ToolSource.LIVE)
            )
            tried = await runtime.replays.replay(recording, live)
            assert tried.replayed.steps[0].calls[0].result.message == "very"
        turns = (ScriptedTurn(calls=(ScriptedCall(name="think", arguments={"q": "deep?"}),)),)
        case = Case(
            id="c",
            user_input="hi",
            provider_script=(*turns, ScriptedTurn(text="Done.")),
            tools=ToolPolicy(allow_live=("think",)),
            scorers=(scorers.contains("Done"),),
        )
        (item,) = (await evaluate([case], [agent], repeats=1)).items
        assert item.status is ItemStatus.DIVERGED
        assert "a tool asked a model by itself" in (item.error or "")

    asyncio.run(main())
