"""Handoff: another agent takes over at the next step, and stays in charge of the thread."""

import asyncio
from typing import Any

import msgspec
import pytest

from awaken import (
    Agent,
    AgentRuntime,
    Blocked,
    NaturalEnd,
    Phase,
    Plugin,
    PluginRegistrar,
    RunRequest,
    RunResult,
    StateCommand,
    StateKey,
    ToolContext,
    ToolError,
    tool,
    user,
)
from awaken.errors import DuplicateRegistration, InvalidSpec
from awaken.extensions.handoff import Handoff, HandoffPlugin
from awaken.messages import system_context
from awaken.plugins import (
    ADD_CONTEXT_MESSAGE,
    TOOL_FILTER,
    AfterToolExecuteContext,
    StepEndContext,
    ToolFilter,
)
from awaken.testing import (
    ScriptedModel,
    ToolCalls,
    assert_valid_transcript,
    simulate_agent,
)
from awaken.tools import ResumeMode, ToolCallResume, ToolDescriptor

from .worlds import simulated

TRAIL: StateKey[tuple[str, ...], str] = StateKey(
    "trail", default=(), type=tuple[str, ...], apply=lambda trail, step: (*trail, step)
)


class Footprints(Plugin):
    """Leaves a trail of activations, deactivations and step ends."""

    def __init__(self, name: str) -> None:
        self.name = name

    def register(self, registrar: PluginRegistrar) -> None:
        registrar.key(TRAIL)
        registrar.hook(Phase.STEP_END, self.step_end)

    async def step_end(self, context: StepEndContext) -> StateCommand:
        return StateCommand().update(TRAIL, f"step of {self.name}")

    def on_activate(self, agent: Any) -> StateCommand:
        return StateCommand().update(TRAIL, f"{self.name} in")

    def on_deactivate(self) -> StateCommand:
        return StateCommand().update(TRAIL, f"{self.name} out")


class Desk:
    """A front desk that can hand over to billing, and the models of both."""

    def __init__(self, front: list[Any], billing: list[Any]) -> None:
        self.front, self.billing = ScriptedModel(front), ScriptedModel(billing)
        to = {"billing": "invoices", "nobody": "an agent that does not exist"}
        self.trail: list[tuple[str, ...]] = []
        self.runtime = AgentRuntime(
            agents=[
                Agent(
                    "front",
                    model=self.front,
                    instructions="You are the front desk.",
                    plugins=[HandoffPlugin(to), Footprints("front")],
                ),
                Agent(
                    "billing",
                    model=self.billing,
                    instructions="You are billing.",
                    plugins=[Footprints("billing"), Watcher(self.trail)],
                ),
            ]
        )


class Watcher(Plugin):
    """Looks at the trail when the run ends."""

    name = "watcher"

    def __init__(self, seen: list[tuple[str, ...]]) -> None:
        self._seen = seen

    def register(self, registrar: PluginRegistrar) -> None:
        registrar.observer(Phase.RUN_END, self.look)

    async def look(self, context: Any) -> None:
        self._seen.append(context.state(TRAIL))


def transfer(agent_id: str) -> ToolCalls:
    return ToolCalls([("transfer_to_agent", {"agent_id": agent_id})])


def test_the_other_agent_answers_from_the_next_step_on() -> None:
    async def scenario() -> tuple[Desk, RunResult, Any]:
        desk = Desk([transfer("billing")], ["Here is your invoice."])
        descriptor = ToolDescriptor(id="pick_color")
        async with desk.runtime as runtime:
            result = await runtime.run(
                "front", "My bill?", thread_id="t", frontend_tools=[descriptor]
            )
            return desk, result, await runtime.get_run(result.run_id)

    desk, result, record = simulated(scenario)
    request = desk.billing.requests[0]
    assert (result.text, result.agent_id) == ("Here is your invoice.", "billing")
    assert request.system == ("You are billing.",)
    assert [offered.id for offered in request.tools] == ["pick_color"]
    assert (record.agent_id, record.active_agent_id) == ("front", "billing")
    assert desk.trail == [
        ("front in", "step of front", "front out", "billing in", "step of billing")
    ]


def test_the_thread_stays_with_the_agent_that_took_over_unless_one_is_named() -> None:
    async def scenario() -> list[str]:
        desk = Desk([transfer("billing"), "Front desk again."], ["Invoice.", "Still billing."])
        async with desk.runtime as runtime:
            await runtime.run("front", "My bill?", thread_id="t")
            followed = await runtime.run(None, "And last month?", thread_id="t")
            named = await runtime.run("front", "Thanks!", thread_id="t")
            after = [record.message for record in await runtime.messages("t")]
            assert_valid_transcript(after)
            return [followed.agent_id, named.agent_id]

    assert simulated(scenario) == ["billing", "front"]


def test_a_handoff_to_nobody_blocks_the_run_and_leaves_the_thread_where_it_was() -> None:
    async def scenario() -> tuple[RunResult, RunResult]:
        desk = Desk([transfer("nobody"), "I am still here."], [])
        async with desk.runtime as runtime:
            blocked = await runtime.run("front", "Get me nobody", thread_id="t")
            return blocked, await runtime.run(None, "Hello?", thread_id="t")

    blocked, after = simulated(scenario)
    assert isinstance(blocked.termination, Blocked)
    assert "nobody" in blocked.termination.reason
    assert (after.agent_id, after.termination) == ("front", NaturalEnd())


@tool(effect="none")
async def approve(ctx: ToolContext) -> Any:
    return ctx.suspend("Fine?") if ctx.resume is None else "fine"


class Whispers(Plugin):
    """Has its agent's next request say that it was activated, and that it has seen a result."""

    name = "whispers"

    def __init__(self, agent_id: str) -> None:
        self._agent_id = agent_id

    def register(self, registrar: PluginRegistrar) -> None:
        registrar.hook(Phase.AFTER_TOOL_EXECUTE, self.look)

    async def look(self, context: AfterToolExecuteContext) -> StateCommand:
        return self._say(f"result of {context.call.name}")

    def on_activate(self, agent: Any) -> StateCommand:
        return self._say("in")

    def on_deactivate(self) -> StateCommand:
        return self._say("out")

    def _say(self, what: str) -> StateCommand:
        message = system_context(f"whisper {what}", f"{self._agent_id}: {what}")
        return StateCommand().schedule(ADD_CONTEXT_MESSAGE, message)


def told(model: ScriptedModel) -> list[list[str]]:
    return [list(request.system) for request in model.requests]


@pytest.mark.parametrize("is_waiting", [False, True])
def test_what_an_agent_has_scheduled_is_for_its_own_steps_and_never_for_the_next_agent(
    is_waiting: bool,
) -> None:
    desk = HandoffPlugin({"front": "", "back": ""})
    asked = [("approve", {})] if is_waiting else []
    over = ToolCalls([("transfer_to_agent", {"agent_id": "back"}), *asked])
    models = {
        "front": ScriptedModel([over, "Front again."]),
        "back": ScriptedModel([ToolCalls([("approve", {})]), transfer("front")]),
    }
    agents = [
        Agent(name, model=model, tools=[approve], plugins=[desk, Whispers(name)])
        for name, model in models.items()
    ]

    async def scenario() -> RunResult:
        async with AgentRuntime(agents) as runtime:
            result = await runtime.run("front", "Go.", thread_id="t")
            while result.tickets:
                await runtime.decide(result.tickets[0].ticket_id)
                result = await runtime.wait(result.run_id)
            return result

    assert simulated(scenario).text == "Front again."
    # A run that waited was activated anew by whoever went on with it.
    own = ["back: in", "back: result of approve"]
    assert told(models["front"]) == [["front: in"], ["front: in"]]
    assert told(models["back"])[1] == own
    assert set(told(models["back"])[0]) <= set(own)


class Beside:
    """An agent that hands over in the same step in which it asks, pays and delegates."""

    def __init__(self) -> None:
        self.paid: list[int] = []

        @tool
        async def pay(amount: int, ctx: ToolContext) -> Any:
            if ctx.resume is None:
                return ctx.suspend(f"{amount}?", mode=ResumeMode.REPLAY_TOOL_CALL)
            self.paid.append(amount)
            return f"paid {amount}"

        calls = [("transfer_to_agent", {"agent_id": "billing"}, "c1"), ("pay", {"amount": 3}, "c2")]
        self.front = ScriptedModel([ToolCalls(calls), "front again"])
        self.billing = ScriptedModel(["billing speaks"], cycle=True)
        self.agents = [
            Agent(
                "front",
                model=self.front,
                tools=[pay],
                plugins=[HandoffPlugin({"billing": "invoices"}), Footprints("front")],
            ),
            Agent("billing", model=self.billing, plugins=[Footprints("billing")]),
            Agent("third", model=ScriptedModel(["third speaks"], cycle=True)),
        ]


def given(number: int = 1) -> ToolCallResume:
    return ToolCallResume(decision_id=f"d{number}")


def test_a_call_that_waits_beside_a_handoff_is_executed_by_the_agent_that_asked() -> None:
    async def scenario() -> None:
        world = Beside()
        async with AgentRuntime(world.agents) as runtime:
            waiting = await runtime.run("front", "hi", thread_id="t")
            (ticket,) = waiting.tickets
            await runtime.decide(ticket.ticket_id, "resume")
            result = await runtime.wait(waiting.run_id)
            assert (world.paid, result.text) == ([3], "billing speaks")
            told = [it.message.text for it in await runtime.messages("t")]
            assert "paid 3" in told
            again = await runtime.run(None, "and now", thread_id="t")
            assert again.text == "billing speaks"

    simulated(scenario)


@pytest.mark.parametrize("is_decided_first", [True, False])
def test_a_decision_that_names_an_agent_and_a_message_go_on_in_their_order(
    is_decided_first: bool,
) -> None:
    """The calls with the agent that asked, the message with the one that is named."""

    async def scenario() -> None:
        world = Beside()
        async with AgentRuntime(world.agents) as runtime:
            waiting = await runtime.run("front", "hi", thread_id="t")
            (ticket,) = waiting.tickets
            decisions = ((ticket.ticket_id, given()),)
            if is_decided_first:
                handle = await runtime.start(
                    RunRequest(
                        agent_id="third",
                        thread_id="t",
                        continue_run_id=waiting.run_id,
                        decisions=decisions,
                        messages=(user("third, please"),),
                    )
                )
                result = await handle.result()
                assert (world.paid, result.text) == ([3], "third speaks")
            else:
                # What a person writes takes the place of the call.
                result = await runtime.run("third", "never mind", thread_id="t")
                assert (world.paid, result.text) == ([], "third speaks")

    simulated(scenario)


def test_a_decision_alone_never_undoes_a_handoff_whichever_agent_it_is_sent_to() -> None:
    async def scenario() -> None:
        world = Beside()
        async with AgentRuntime(world.agents) as runtime:
            waiting = await runtime.run("front", "hi", thread_id="t")
            (ticket,) = waiting.tickets
            request = RunRequest(
                agent_id="front",
                thread_id="t",
                continue_run_id=waiting.run_id,
                decisions=((ticket.ticket_id, given()),),
            )
            result = await (await runtime.start(request)).result()
            assert (world.paid, result.text) == ([3], "billing speaks")

    simulated(scenario)


class Hiding(Plugin):
    """Hides a tool from the request that follows a tool call."""

    name = "hiding"

    def register(self, registrar: PluginRegistrar) -> None:
        registrar.hook(Phase.AFTER_TOOL_EXECUTE, self.hide)

    async def hide(self, context: AfterToolExecuteContext) -> StateCommand:
        return StateCommand().update(TOOL_FILTER, ToolFilter(excluded=("look",)))


def test_a_tool_that_an_agent_hides_is_not_hidden_from_the_next_agent() -> None:
    @tool(effect="none")
    async def look() -> str:
        """Look."""
        return "seen"

    async def scenario() -> None:
        move = ToolCalls([("transfer_to_agent", {"agent_id": "second"})])
        first, second = ScriptedModel([move]), ScriptedModel(["done"])
        agents = [
            Agent("first", model=first, plugins=[HandoffPlugin({"second": ""}), Hiding()]),
            Agent("second", model=second, tools=[look]),
        ]
        async with AgentRuntime(agents) as runtime:
            assert (await runtime.run("first", "go")).text == "done"
        (request,) = second.requests
        assert [it.id for it in request.tools] == ["look"]

    simulated(scenario)


class Refund(msgspec.Struct):
    order: int
    reason: str = ""


def transferring(*handoffs: Handoff, calls: list[tuple[str, dict[str, Any]]]) -> AgentRuntime:
    front = Agent(
        "front",
        model=ScriptedModel([ToolCalls(calls), "Still here."]),
        plugins=[HandoffPlugin(handoffs)],
    )
    return AgentRuntime([front, Agent("billing", model=ScriptedModel(["Hello."]))])


def test_a_handoff_passes_input_to_its_callback_before_the_switch() -> None:
    async def scenario() -> None:
        seen: list[Any] = []

        async def note(given: Refund, ctx: ToolContext) -> None:
            seen.append((given, ctx.tool_name))

        handoff = Handoff("billing", "refunds", input=Refund, on_handoff=note)
        calls = [("transfer_to_billing", {"order": 7, "reason": "late"})]
        async with transferring(handoff, calls=calls) as runtime:
            result = await runtime.run("front", "I want a refund.", thread_id="t")
            assert (result.agent_id, result.text) == ("billing", "Hello.")
            assert seen == [(Refund(order=7, reason="late"), "transfer_to_billing")]

    simulated(scenario)


def test_a_plain_function_is_called_without_input() -> None:
    async def scenario() -> None:
        seen: list[str] = []
        handoff = Handoff("billing", on_handoff=lambda ctx: seen.append(ctx.run.thread_id))
        calls = [("transfer_to_agent", {"agent_id": "billing"})]
        async with transferring(handoff, calls=calls) as runtime:
            result = await runtime.run("front", "Hi", thread_id="t")
            assert (result.agent_id, seen) == ("billing", ["t"])

    asyncio.run(scenario())


@pytest.mark.parametrize("arguments", [{}, {"order": "seven"}, {"order": 7, "reason": 7}])
def test_input_that_does_not_fit_leaves_the_conversation_where_it_is(arguments: Any) -> None:
    async def scenario() -> None:
        seen: list[Any] = []
        handoff = Handoff("billing", input=Refund, on_handoff=lambda *it: seen.append(it))
        async with transferring(handoff, calls=[("transfer_to_billing", arguments)]) as runtime:
            result = await runtime.run("front", "Hi", thread_id="t")
            assert (result.agent_id, result.text, seen) == ("front", "Still here.", [])

    asyncio.run(scenario())


def test_a_callback_that_raises_stops_the_handoff() -> None:
    async def scenario() -> None:
        async def refuse(given: Refund, ctx: ToolContext) -> None:
            raise ToolError("the order is closed")

        handoff = Handoff("billing", input=Refund, on_handoff=refuse)
        calls = [("transfer_to_billing", {"order": 7})]
        async with transferring(handoff, calls=calls) as runtime:
            result = await runtime.run("front", "Hi", thread_id="t")
            assert (result.agent_id, result.text) == ("front", "Still here.")
            said = (await runtime.messages("t"))[2].message.text
            assert "the order is closed" in said

    simulated(scenario)


def test_handoffs_with_and_without_input_stand_side_by_side() -> None:
    plugin = HandoffPlugin([Handoff("billing", "money"), Handoff("desk", "all", input=Refund)])
    agent = Agent("front", model=ScriptedModel(["Hi."]), plugins=[plugin])
    others = [Agent(it, model=ScriptedModel([])) for it in ("billing", "desk")]

    async def scenario() -> None:
        async with AgentRuntime([agent, *others]) as runtime:
            await runtime.run("front", "Hi", thread_id="t")
            offered = agent.model.requests[0].tools  # type: ignore[union-attr]
            assert [it.id for it in offered] == ["transfer_to_agent", "transfer_to_desk"]

    simulated(scenario)


@pytest.mark.parametrize("to", [[], {}, "billing", [7], [("billing", "money")]])
def test_a_handoff_names_its_agents(to: Any) -> None:
    with pytest.raises(InvalidSpec, match="Handoff"):
        HandoffPlugin(to)


def test_an_agent_is_handed_over_to_in_one_way() -> None:
    with pytest.raises(DuplicateRegistration):
        HandoffPlugin([Handoff("billing"), Handoff("billing")])


def test_a_handoff_with_input_survives_a_crash_anywhere() -> None:
    front = Agent(
        "front",
        model=ScriptedModel([ToolCalls([("transfer_to_billing", {"order": 7})])]),
        plugins=[HandoffPlugin([Handoff("billing", input=Refund, on_handoff=lambda *_: None)])],
    )
    billing = Agent("billing", model=ScriptedModel(["Hello."]))
    assert simulate_agent([front, billing], "Hi", schedules=20).violations == ()


def test_agents_and_ids_may_be_listed_as_they_are() -> None:
    for is_named in (True, False):
        billing = Agent("billing", model=ScriptedModel(["Paid."]))
        given: Any = "billing" if is_named else billing
        script = [ToolCalls([("transfer_to_agent", {"agent_id": "billing"})]), "Never."]
        plugin = HandoffPlugin([given])
        desk = Agent("desk", model=ScriptedModel(script), plugins=[plugin])

        async def scenario(desk: Agent = desk, billing: Agent = billing) -> str:
            async with AgentRuntime([desk, billing]) as runtime:
                return (await runtime.run("desk", "Pay.")).text

        assert asyncio.run(scenario()) == "Paid."


class Reason(msgspec.Struct):
    text: str


def context_first(ctx: ToolContext, reason: Reason) -> None:
    assert (type(ctx).__name__, reason.text) == ("ToolContext", "late")


def context_last(reason: Reason, ctx: ToolContext) -> None:
    context_first(ctx, reason)


@pytest.mark.parametrize("callback", [context_first, context_last])
def test_a_callback_gets_its_context_where_it_is_annotated(callback: Any) -> None:
    billing = Agent("billing", model=ScriptedModel(["Paid."]))
    script = [ToolCalls([("transfer_to_billing", {"text": "late"})]), "Failed."]
    plugin = HandoffPlugin([Handoff(billing, input=Reason, on_handoff=callback)])
    desk = Agent("desk", model=ScriptedModel(script), plugins=[plugin])

    async def scenario() -> str:
        async with AgentRuntime([desk, billing]) as runtime:
            return (await runtime.run("desk", "Pay.")).text

    assert asyncio.run(scenario()) == "Paid."


@pytest.mark.parametrize(("callback", "type_"), [(lambda: 1, None), (lambda it: it, Reason)])
def test_a_callback_that_does_not_take_its_arguments_is_refused(callback: Any, type_: Any) -> None:
    with pytest.raises(InvalidSpec, match="on_handoff is called with"):
        Handoff("billing", input=type_, on_handoff=callback)
