"""A decision is taken once, by its ticket, whoever sends it, how often and from wherever."""

import asyncio
from typing import Any

import pytest

from awaken import (
    Adapter,
    AwakenError,
    Blocked,
    InvalidInput,
    NaturalEnd,
    RunMode,
    RunRequest,
    SuspendTicket,
    ToolContext,
    tool,
)
from awaken.errors import AlreadyDecided, UnknownTicket
from awaken.events import ToolCallResumed
from awaken.models import InferenceOverride, InferenceRequest
from awaken.plugins import Block, GateDecision, Suspend, ToolGateContext
from awaken.testing import InjectionPoint, ToolCalls, enumerate_awaits, simulate
from awaken.tools import Suspension, ToolCallResume, ToolDescriptor

from .asking import (
    Asking,
    SlowReads,
    another_process,
    asks_permission,
    finished,
    open_tickets,
    retold,
    tool_answers,
)
from .worlds import Gate, World, simulated

ASK = [("ask", {"question": name}) for name in ("a", "b", "c")]


def test_deciding_one_ticket_runs_that_call_only_and_the_others_stay_pending() -> None:
    asking = Asking()

    async def scenario() -> None:
        world = World([ToolCalls(ASK), "bye"], tools=asking.tools)
        await world.tell()
        tickets = await open_tickets(world)
        asking.ran.clear()
        for place, answered in ((1, ["b"]), (0, ["b", "a"]), (2, ["b", "a", "c"])):
            await world.runtime.decide(tickets[place], result="yes")
            result = await finished(world)
            assert asking.ran == [(name, "yes") for name in answered]
            left = [ticket for ticket in tickets if ticket in await open_tickets(world)]
            assert len(left) == 3 - len(answered)
            assert [ticket.ticket_id for ticket in result.tickets] == left
        assert result.termination == NaturalEnd()
        assert (await retold(world)).answers == ["told yes"] * 3

    simulated(scenario)


def test_a_hundred_equal_decisions_are_one_execution_and_a_hundred_equal_receipts() -> None:
    async def scenario() -> None:
        asking = Asking()
        world = World([ToolCalls(ASK[:1]), "bye"], tools=asking.tools, store=SlowReads())
        await world.tell()
        (ticket,) = await open_tickets(world)
        asking.ran.clear()
        decisions = [world.runtime.decide(ticket, result="yes") for _ in range(100)]
        receipts = await asyncio.gather(*decisions)
        assert [receipts[0]] * 100 == receipts
        await finished(world)
        assert await world.runtime.decide(ticket, result="yes") == receipts[0]
        with pytest.raises(AlreadyDecided):
            await world.runtime.decide(ticket, result="no")
        assert asking.ran == [("a", "yes")]
        assert (await retold(world)).answers == ["told yes"]

    simulate(scenario, seeds=range(20))


@pytest.mark.parametrize("answers", [("yes", "yes"), ("yes", "sure")], ids=["equal", "different"])
def test_processes_that_race_to_decide_execute_once(answers: tuple[str, str]) -> None:
    async def scenario() -> None:
        asking = Asking()
        world = World([ToolCalls(ASK[:1]), "bye"], tools=asking.tools, store=SlowReads())
        await world.tell()
        (ticket,) = await open_tickets(world)
        asking.ran.clear()
        other = another_process(world, tools=asking.tools)
        outcomes = await asyncio.gather(
            world.runtime.decide(ticket, result=answers[0]),
            other.runtime.decide(ticket, result=answers[1]),
            return_exceptions=True,
        )
        await asyncio.sleep(1)
        errors = [it for it in outcomes if isinstance(it, AwakenError)]
        assert len(errors) == len(set(answers)) - 1
        assert all(isinstance(error, AlreadyDecided) for error in errors)
        assert len(asking.ran) == 1
        assert (await finished(world)).termination == NaturalEnd()

    simulate(scenario, seeds=range(40))


def refused(world: World, ticket: str, foreign: str) -> dict[str, tuple[type[AwakenError], Any]]:
    """Decisions that must not be taken: by name, the error and the decisions."""

    def one(target: str = ticket, **decision: Any) -> dict[str, ToolCallResume]:
        return {target: ToolCallResume(decision_id="x", **{"decided_by": "ann", **decision})}

    good = {"result": 1}
    return {
        "unknown": (UnknownTicket, one("nobody", **good)),
        "by call id": (UnknownTicket, one("call_1", **good)),
        "not a decider": (InvalidInput, one(decided_by="bob", **good)),
        "anonymous": (InvalidInput, one(decided_by=None, **good)),
        "not of the schema": (InvalidInput, one(result="one")),
        "no result": (InvalidInput, one()),
        "no action": (InvalidInput, one(action="perhaps", **good)),
        "one of another run": (UnknownTicket, {**one(**good), **one(foreign, **good)}),
        "one unknown": (UnknownTicket, {**one(**good), **one("nobody", **good)}),
        "none": (InvalidInput, {}),
    }


def careful(ran: list[Any]) -> Any:
    @tool
    async def careful(ctx: ToolContext) -> Any:
        if ctx.resume is not None:
            ran.append(ctx.resume.result)
            return "done"
        schema = {"type": "integer"}
        return SuspendTicket(
            suspension=Suspension(action="careful", response_schema=schema),
            deciders=("ann",),
            expires_at=1_700_000_000_000 + 60_000,
        )

    return careful


@pytest.mark.parametrize("name", refused(None, "", "-"))  # type: ignore[arg-type]
def test_what_may_not_decide_changes_nothing(name: str) -> None:
    ran: list[Any] = []

    async def scenario() -> None:
        world = World([ToolCalls([("careful", {})])] * 2 + ["bye"] * 2, tools=[careful(ran)])
        await world.tell(thread_id="other")
        await world.tell()
        (foreign,) = await world.runtime.tickets("other")
        (ticket,) = await open_tickets(world)
        error, decisions = refused(world, ticket, foreign.ticket_id)[name]
        commits = len(world.store.commits)
        with pytest.raises(error):
            await world.runtime.decide_all(decisions)
        assert len(world.store.commits) == commits
        assert await open_tickets(world) == [ticket]
        assert ran == []
        fine = ToolCallResume(decision_id="x", result=1, decided_by="ann")
        for decided in (ticket, foreign.ticket_id):
            await world.runtime.decide_all({decided: fine})
        with pytest.raises(UnknownTicket):
            await world.runtime.decide_all({ticket: fine, foreign.ticket_id: fine})
        await asyncio.sleep(1)
        assert ran == [1, 1]

    simulated(scenario)


def test_a_ticket_cannot_be_decided_after_its_deadline_whatever_the_decider_says() -> None:
    ran: list[Any] = []

    async def scenario() -> None:
        world = World([ToolCalls([("careful", {})])], tools=[careful(ran)])
        await world.tell()
        (ticket,) = await open_tickets(world)
        await asyncio.sleep(61)
        late = ToolCallResume(decision_id="x", result=1, decided_by="ann", updated_at=1)
        with pytest.raises(AlreadyDecided, match="expired"):
            await world.runtime.decide_all({ticket: late})
        with pytest.raises(AlreadyDecided, match="expired"):
            await world.runtime.start(RunRequest(thread_id="t", decisions=((ticket, late),)))
        assert ran == []
        assert await world.runtime.cancel("t")

    simulated(scenario)


@pytest.mark.parametrize(
    ("edit", "ran", "answer", "termination"),
    [
        ({"amount": 5}, [5], "paid 5", NaturalEnd()),
        ({"amount": "much"}, [], "Invalid arguments", NaturalEnd()),
        ({"amount": 5, "to": "me"}, [], "Invalid arguments", NaturalEnd()),
        ({"amount": 500}, [], "too much", Blocked(reason="too much")),
        (None, [50], "paid 50", NaturalEnd()),
    ],
)
def test_edited_arguments_are_validated_and_gated_like_new_ones(
    edit: Any, ran: list[int], answer: str, termination: Any
) -> None:
    paid: list[int] = []

    @tool
    async def pay(amount: int) -> str:
        paid.append(amount)
        return f"paid {amount}"

    async def limit(context: ToolGateContext) -> GateDecision:
        if isinstance(amount := context.call.arguments["amount"], int) and amount > 100:
            return Block(reason="too much")
        return Suspend(ticket=SuspendTicket(suspension=Suspension(action="may")))

    async def scenario() -> None:
        world = World(
            [ToolCalls([("pay", {"amount": 50})]), "bye"], tools=[pay], plugins=[Gate(limit)]
        )
        await world.tell()
        (ticket,) = await open_tickets(world)
        await world.runtime.decide(ticket, arguments=edit)
        assert (await finished(world)).termination == termination
        assert paid == ran
        story = await retold(world)
        assert answer in tool_answers(story)["call_1"]
        assert [it.is_failed for it in story.of(ToolCallResumed)] == [not ran]
        started = [record for commit in world.store.commits for record in commit.tool_records]
        hashes = {record.arguments_hash for record in started}
        assert len(hashes) == (1 if ran else 0)

    simulated(scenario)


def test_a_rule_added_meanwhile_wins_over_an_approval() -> None:
    asking = Asking()

    async def deny(_: ToolGateContext) -> Block:
        return Block(reason="not any more")

    async def scenario() -> None:
        world = World([ToolCalls(ASK[:2]), "bye"], tools=asking.tools, plugins=[asks_permission()])
        await world.tell()
        stricter = [asks_permission(), Gate(deny, name="deny")]
        other = another_process(world, tools=asking.tools, plugins=stricter)
        await other.runtime.decide((await open_tickets(world))[0], result="yes")
        await asyncio.sleep(1)
        assert (await finished(world)).termination == Blocked(reason="not any more")
        assert asking.ran == []
        answers = tool_answers(await retold(world))
        assert answers == {"call_1": "not any more", "call_2": "[Tool execution was interrupted]"}
        assert await open_tickets(world) == []

    simulated(scenario)


@pytest.mark.parametrize("target", ["ticket", "call_1"])
def test_frontend_tools_are_answered_by_ticket_or_call(target: str) -> None:
    async def scenario() -> None:
        world = World([ToolCalls([("pick", {"from": "rgb"})]), "bye"])
        pick = ToolDescriptor(id="pick", parameters={"type": "object"})
        story = await world.tell(frontend_tools=[pick])
        (ticket,) = await world.runtime.tickets("t")
        assert (ticket.arguments, ticket.suspension.id) == ({"from": "rgb"}, ticket.ticket_id)
        named = ticket.ticket_id if target == "ticket" else target
        decision = ToolCallResume(decision_id="x", result={"color": "red"})
        request = RunRequest(thread_id="t", decisions=((named, decision),))
        ended = await (await world.runtime.start(request)).result()
        assert story.record is not None
        assert (ended.run_id, ended.text) == (story.record.run_id, "bye")
        assert (await retold(world)).answers == ['{"color":"red"}']

    simulated(scenario)


def test_decisions_in_a_request_are_refused_before_anything_happens() -> None:
    asking = Asking()

    async def scenario() -> None:
        world = World([ToolCalls(ASK[:1]), "bye", "hi"], tools=asking.tools)
        await world.tell()
        (ticket,) = await open_tickets(world)
        commits = len(world.store.commits)
        for targets in (["nobody"], [ticket, "nobody"]):
            decisions = tuple((it, ToolCallResume(decision_id="x")) for it in targets)
            with pytest.raises(UnknownTicket):
                await world.runtime.start(RunRequest(thread_id="t", decisions=decisions))
        assert (len(world.store.commits), await open_tickets(world)) == (commits, [ticket])
        await world.runtime.decide(ticket)
        await finished(world)
        late = RunRequest(thread_id="t", decisions=((ticket, ToolCallResume(decision_id="y")),))
        with pytest.raises(UnknownTicket):
            await world.runtime.start(late)

    simulated(scenario)


def test_a_run_goes_on_with_the_options_and_under_the_identity_it_began_with() -> None:
    asking = Asking()
    seen: list[Any] = []

    async def watch(context: ToolGateContext) -> None:
        run = context.run
        seen.append((run.run_mode, run.adapter, run.session_id, run.transport_request_id))

    async def scenario() -> None:
        agent = {"tools": asking.tools, "plugins": [Gate(watch)]}
        world = World([ToolCalls(ASK[:1]), "bye"], **agent)
        await world.tell(
            overrides=InferenceOverride(upstream_model="other", temperature=0.5),
            frontend_tools=[ToolDescriptor(id="pick")],
            run_mode=RunMode.SCHEDULED,
            adapter=Adapter.AG_UI,
            session_id="s",
            transport_request_id="r",
        )
        (ticket,) = await open_tickets(world)
        await another_process(world, **agent).runtime.decide(ticket)
        await asyncio.sleep(1)
        assert seen == [(RunMode.SCHEDULED, Adapter.AG_UI, "s", "r")] * 2
        first, second = world.model.requests
        for name in ("upstream_model", "overrides", "tools"):
            assert getattr(first, name) == getattr(second, name)

    simulated(scenario)


def test_what_a_resumed_call_gave_is_durable_before_the_model_sees_it() -> None:
    asking = Asking()
    durable: list[str] = []

    async def scenario() -> None:
        def answer(_: InferenceRequest) -> str:
            durable.extend(m.text for commit in world.store.commits for m in commit.messages)
            return "bye"

        world = World([ToolCalls(ASK[:1]), answer], tools=asking.tools)
        await world.tell()
        await world.runtime.decide((await open_tickets(world))[0], result="yes")
        await finished(world)
        assert "told yes" in durable

    simulated(scenario)


def slow_sibling(asking: Asking) -> list[Any]:
    @tool
    async def slow() -> str:
        await asyncio.sleep(10)
        return "slow"

    return [*asking.tools, slow]


def test_a_ticket_can_be_decided_while_other_calls_of_the_step_still_run() -> None:
    asking = Asking()

    async def scenario() -> None:
        calls = [ASK[0], ("slow", {}), ASK[1]]
        world = World([ToolCalls(calls), "bye"], tools=slow_sibling(asking))
        run = asyncio.create_task(world.tell())
        await asyncio.sleep(5)
        (first,) = await open_tickets(world)
        receipt = await world.runtime.decide(first, result="yes")
        assert await world.runtime.decide(first, result="yes") == receipt
        with pytest.raises(AlreadyDecided):
            await world.runtime.decide(first, result="no")
        story = await run
        # One activation: the decided call goes on, the other one waits.
        assert story.types.count("run_start") == 1
        assert asking.ran == [("a", None), ("b", None), ("a", "yes")]
        assert tool_answers(story) == {"call_1": "told yes", "call_2": "slow"}
        await world.runtime.decide((await open_tickets(world))[0], result="no")
        assert (await finished(world)).termination == NaturalEnd()

    simulated(scenario)


def test_a_decision_at_any_moment_is_neither_lost_nor_taken_twice() -> None:
    early = 0

    async def scenario(hook: InjectionPoint) -> None:
        asking = Asking()
        world = World([ToolCalls([ASK[0], ("slow", {})]), "bye"], tools=slow_sibling(asking))

        async def decide() -> int:
            tickets = await open_tickets(world)
            for ticket in tickets:
                await world.runtime.decide(ticket, result="yes")
            return len(tickets)

        async def decide_early() -> None:
            nonlocal early
            early += await decide()

        hook.arm(decide_early)
        await world.runtime.run("agent", "go", thread_id="t")
        await hook.settle()
        await decide()
        assert (await finished(world)).termination == NaturalEnd()
        assert asking.ran == [("a", None), ("a", "yes")]
        await retold(world)

    assert enumerate_awaits(scenario) >= 15
    assert early >= 8
