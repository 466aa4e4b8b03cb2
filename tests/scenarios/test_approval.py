"""Approval in one word: which calls wait for a person, and what unlocks them, crash or not."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import pytest

from awaken import (
    Agent,
    AgentRuntime,
    Limits,
    NaturalEnd,
    Plugin,
    PluginRegistrar,
    RunResult,
    Suspended,
    SuspendTicket,
    ToolContext,
    tool,
)
from awaken.bootstrap.config_layers.tools import ToolCache
from awaken.contracts.suspension.permissions import TOOL_GRANTS, ToolGrant
from awaken.contracts.tools.tool import approval_of
from awaken.errors import InvalidSpec
from awaken.extensions.permission import PermissionPlugin, allow, ask, deny
from awaken.plugins import Allow, Phase, StateCommand, Suspend, ToolGateContext
from awaken.testing import ScriptedModel, ToolCalls, simulate_agent
from awaken.tools import Suspension, ToolDescriptor, ToolOutput

from .crashes import Dead, Process, after_the_lease, input_of, points, shared_store
from .worlds import simulated

LARGE = 100


class Bank:
    """An agent with one tool, and what that tool and its predicate were called with."""

    def __init__(self, approval: Any = True, *script: Any, **agent: Any) -> None:
        self.paid: list[int] = []
        self.asked: list[int] = []

        @tool(approval=approval, effect=agent.pop("effect", "once"))
        async def pay(amount: int) -> str:
            """Pay an amount."""
            self.paid.append(amount)
            return f"paid {amount}"

        self.pay = pay
        self.agent = Agent("bank", model=ScriptedModel([*script, "Done."]), tools=[pay], **agent)

    def runtime(self, **options: Any) -> AgentRuntime:
        return AgentRuntime([self.agent], **options)


def paying(*amounts: Any) -> ToolCalls:
    return ToolCalls([("pay", {"amount": it}) for it in amounts])


async def decided(runtime: AgentRuntime, action: str = "resume", **decision: Any) -> RunResult:
    (ticket,) = await runtime.tickets("t")
    await runtime.decide(ticket.ticket_id, action, **decision)
    return await runtime.wait(ticket.run_id, timeout_ms=20_000)


async def told(runtime: AgentRuntime) -> list[str]:
    """What the model reads of its calls."""
    found = [record.message for record in await runtime.messages("t")]
    return [it.text for it in found if it.tool_call_id is not None]


def test_a_call_waits_for_a_person_and_runs_once() -> None:
    async def scenario() -> None:
        bank = Bank(True, paying(5))
        async with bank.runtime() as runtime:
            waiting = await runtime.run("bank", "Pay.", thread_id="t")
            assert (waiting.termination, bank.paid) == (Suspended(), [])
            (ticket,) = waiting.tickets
            assert (ticket.tool_name, ticket.arguments) == ("pay", {"amount": 5})
            assert ticket.question_kind == "permission"
            assert ticket.suspension.message == "Approval required for tool 'pay'"
            ended = await decided(runtime)
            assert (ended.run_id, ended.text) == (waiting.run_id, "Done.")
            assert bank.paid == [5]

    asyncio.run(scenario())


def test_a_declined_call_never_runs() -> None:
    async def scenario() -> None:
        bank = Bank(True, paying(5))
        async with bank.runtime() as runtime:
            await runtime.run("bank", "Pay.", thread_id="t")
            await decided(runtime, "cancel", reason="Too much.")
            assert (bank.paid, await told(runtime)) == ([], ["Too much."])

    asyncio.run(scenario())


async def is_large(amount: int) -> bool:
    return amount > LARGE


def is_large_in_a_thread(amount: int, ctx: ToolContext) -> bool:
    assert ctx.tool_name == "pay"
    return amount > LARGE


@pytest.mark.parametrize(
    "approval", [is_large, is_large_in_a_thread, lambda amount: amount > LARGE]
)
def test_a_predicate_of_the_arguments_says_which_calls_wait(approval: Any) -> None:
    async def scenario() -> None:
        bank = Bank(approval, paying(5, 500))
        async with bank.runtime() as runtime:
            waiting = await runtime.run("bank", "Pay.", thread_id="t")
            assert bank.paid == [5]
            assert [it.arguments for it in waiting.tickets] == [{"amount": 500}]
            await decided(runtime)
            assert bank.paid == [5, 500]

    asyncio.run(scenario())


def raises(amount: int) -> bool:
    raise ZeroDivisionError


async def hangs(amount: int) -> bool:
    await asyncio.Event().wait()
    return False


def forgets(amount: int) -> None:
    return None


@pytest.mark.parametrize("approval", [raises, hangs, forgets, lambda amount: 0])
def test_a_predicate_that_fails_to_say_no_asks(approval: Callable[[int], Any]) -> None:
    async def scenario() -> None:
        bank = Bank(approval, paying(5))
        async with bank.runtime(limits=Limits(hook_ms=50)) as runtime:
            waiting = await runtime.run("bank", "Pay.", thread_id="t")
            assert (waiting.termination, bank.paid) == (Suspended(), [])
            await decided(runtime)
            assert bank.paid == [5]

    asyncio.run(scenario())


def test_a_call_that_cannot_run_is_not_asked_about() -> None:
    async def scenario() -> None:
        bank = Bank(True, paying("five"))
        async with bank.runtime() as runtime:
            result = await runtime.run("bank", "Pay.", thread_id="t")
            assert (result.termination, bank.paid) == (NaturalEnd(), [])
            assert "Invalid arguments" in (await told(runtime))[0]

    asyncio.run(scenario())


@pytest.mark.parametrize("approval", ["yes", 1, None])
def test_approval_is_a_boolean_or_a_function(approval: Any) -> None:
    with pytest.raises(InvalidSpec, match="approval must be True, False or a function"):
        Bank(approval)


def test_a_predicate_names_parameters_of_its_tool() -> None:
    with pytest.raises(InvalidSpec, match="parameter 'total' is not a parameter of the tool"):
        Bank(lambda total: total > LARGE)


def test_the_approver_may_edit_the_arguments_and_is_not_asked_again() -> None:
    async def scenario() -> None:
        bank = Bank(lambda amount: amount > LARGE, paying(500))
        async with bank.runtime() as runtime:
            await runtime.run("bank", "Pay.", thread_id="t")
            # Large as well: a person has decided on exactly this amount.
            ended = await decided(runtime, arguments={"amount": 400})
            assert (ended.termination, bank.paid) == (NaturalEnd(), [400])

    asyncio.run(scenario())


def test_edited_arguments_are_validated_and_gated_again() -> None:
    async def scenario() -> None:
        rules = [deny('pay(amount = "400")')]
        for edited, text in (("all", "Invalid arguments"), (400, "denied")):
            permission = PermissionPlugin(rules, default="allow")
            bank = Bank(True, paying(500), plugins=[permission])
            async with bank.runtime() as runtime:
                await runtime.run("bank", "Pay.", thread_id="t")
                ended = await decided(runtime, arguments={"amount": edited})
                assert (ended.termination, bank.paid) == (NaturalEnd(), [])
                assert text in (await told(runtime))[0]

    asyncio.run(scenario())


class Doubt(Plugin):
    """A gate with a question of its own about every call."""

    name = "doubt"

    def register(self, registrar: PluginRegistrar) -> None:
        registrar.gate(self.ask)

    async def ask(self, context: ToolGateContext) -> Suspend:
        return Suspend(ticket=SuspendTicket(suspension=Suspension(action="doubt")))


def test_arguments_that_were_edited_for_another_question_need_an_approval() -> None:
    async def scenario() -> None:
        bank = Bank(lambda amount: amount > LARGE, paying(5), plugins=[Doubt()])
        async with bank.runtime() as runtime:
            await runtime.run("bank", "Pay.", thread_id="t")
            waiting = await decided(runtime, arguments={"amount": 500})
            (ticket,) = waiting.tickets
            assert (ticket.asked_by, ticket.arguments) == ("approval", {"amount": 500})
            assert bank.paid == []
            ended = await decided(runtime)
            assert (ended.termination, bank.paid) == (NaturalEnd(), [500])

    asyncio.run(scenario())


def test_an_approval_is_for_the_arguments_that_were_shown() -> None:
    async def scenario() -> None:
        paid: list[int] = []

        @tool(approval=is_large)
        async def pay(amount: int, ctx: ToolContext) -> Any:
            """Pay, after a question of its own."""
            if ctx.resume is None:
                return ctx.suspend("Which account?", asks="answer")
            paid.append(amount)
            return "paid"

        model = ScriptedModel([paying(500), "Done."])
        async with AgentRuntime([Agent("a", model=model, tools=[pay])]) as runtime:
            await runtime.run("a", "Pay.", thread_id="t")
            await decided(runtime)
            waiting = await decided(runtime, result="savings", arguments={"amount": 900})
            (ticket,) = waiting.tickets
            assert (ticket.asked_by, ticket.arguments, paid) == ("approval", {"amount": 900}, [])
            ended = await decided(runtime)
            assert (ended.termination, paid) == (NaturalEnd(), [900])

    asyncio.run(scenario())


class Forgetful:
    """A tool that is no function; its approval forgets to answer."""

    descriptor = ToolDescriptor(id="pay", name="pay", description="Pay.")

    def validate(self, arguments: Any) -> Any:
        return arguments

    async def approval(self, arguments: Any, context: ToolContext) -> Any:
        return None

    async def execute(self, arguments: Any, context: ToolContext) -> ToolOutput:
        raise AssertionError


def test_a_tool_of_your_own_class_fails_closed_as_well() -> None:
    async def scenario() -> None:
        agent = Agent("a", model=ScriptedModel([paying(5)]), tools=[Forgetful()])
        async with AgentRuntime([agent]) as runtime:
            assert len((await runtime.run("a", "Pay.", thread_id="t")).tickets) == 1

    asyncio.run(scenario())


def test_a_question_of_another_gate_is_no_approval() -> None:
    async def scenario() -> None:
        bank = Bank(True, paying(5), plugins=[Doubt()])
        async with bank.runtime() as runtime:
            await runtime.run("bank", "Pay.", thread_id="t")
            waiting = await decided(runtime)
            assert [it.asked_by for it in waiting.tickets] == ["approval"]
            assert bank.paid == []

    asyncio.run(scenario())


class Careless(Plugin):
    """A gate that lets everything pass and knows nothing of approvals."""

    name = "careless"

    def register(self, registrar: PluginRegistrar) -> None:
        registrar.gate(self.pass_all)

    async def pass_all(self, context: ToolGateContext) -> Allow:
        return Allow()


@pytest.mark.parametrize(
    ("plugin", "is_asked"),
    [
        (PermissionPlugin([allow("pay")]), False),
        (PermissionPlugin([allow('pay(amount = "5")')]), False),
        (PermissionPlugin([allow('pay(amount = "6")')], default="allow"), True),
        (PermissionPlugin([allow("p*")]), True),
        (PermissionPlugin([allow("*")]), True),
        (PermissionPlugin(default="allow"), True),
        (PermissionPlugin([ask("pay")]), True),
        (PermissionPlugin(), True),
        (Careless(), True),
    ],
)
def test_only_a_rule_that_names_the_tool_replaces_the_person(
    plugin: Plugin, is_asked: bool
) -> None:
    async def scenario() -> None:
        bank = Bank(True, paying(5), plugins=[plugin])
        async with bank.runtime() as runtime:
            result = await runtime.run("bank", "Pay.", thread_id="t")
            assert len(result.tickets) == is_asked
            if is_asked:
                # One yes answers the tool and the rules.
                result = await decided(runtime)
            assert (result.termination, bank.paid) == (NaturalEnd(), [5])

    asyncio.run(scenario())


def test_a_denial_beats_the_approval_that_the_tool_wants() -> None:
    async def scenario() -> None:
        bank = Bank(True, paying(5), plugins=[PermissionPlugin([deny("pay(*)")], default="allow")])
        async with bank.runtime() as runtime:
            result = await runtime.run("bank", "Pay.", thread_id="t")
            assert (result.tickets, bank.paid) == ((), [])

    asyncio.run(scenario())


class Granting(Plugin):
    """Grants the tool as a skill would."""

    name = "granting"

    def register(self, registrar: PluginRegistrar) -> None:
        registrar.hook(Phase.RUN_START, self.grant)

    async def grant(self, context: Any) -> StateCommand:
        grant = ToolGrant(source="skill:pay", patterns=("pay",))
        return StateCommand().update(TOOL_GRANTS, grant)


@pytest.mark.parametrize("default", ["allow", "ask"])
def test_a_grant_of_a_skill_is_no_approval(default: Any) -> None:
    async def scenario() -> None:
        permission = PermissionPlugin(default=default)
        bank = Bank(True, paying(5), plugins=[permission, Granting()])
        async with bank.runtime() as runtime:
            result = await runtime.run("bank", "Pay.", thread_id="t")
            assert (len(result.tickets), bank.paid) == (1, [])

    asyncio.run(scenario())


@pytest.mark.parametrize("default", ["allow", "ask"])
def test_always_counts_with_the_permission_plugin_until_it_is_forgotten(default: Any) -> None:
    async def scenario() -> None:
        script = [paying(5), "Done.", paying(6), "Done.", paying(7)]
        bank = Bank(True, *script, plugins=[PermissionPlugin(default=default)])
        async with bank.runtime() as runtime:
            await runtime.run("bank", "Pay.", thread_id="t")
            await decided(runtime, remember={"scope": "thread"})
            later = await runtime.run("bank", "Again.", thread_id="t")
            assert (later.termination, bank.paid) == (NaturalEnd(), [5, 6])
            (answer,) = await runtime.remembered.list(thread_id="t")
            assert (answer.tool, answer.pattern, answer.scope) == ("pay", "*", "thread")
            await runtime.remembered.forget(answer.id, thread_id="t")
            last = await runtime.run("bank", "Again.", thread_id="t")
            assert (len(last.tickets), bank.paid) == (1, [5, 6])

    asyncio.run(scenario())


def test_an_answer_for_some_calls_does_not_make_a_grant_an_approval() -> None:
    async def scenario() -> None:
        plugins = [PermissionPlugin(default="allow"), Granting()]
        bank = Bank(True, paying(5), "Done.", paying(5), "Done.", paying(6), plugins=plugins)
        async with bank.runtime() as runtime:
            await runtime.run("bank", "Pay.", thread_id="t")
            some = {"scope": "thread", "pattern": 'pay(amount = "5")'}
            await decided(runtime, remember=some)
            await runtime.run("bank", "Again.", thread_id="t")
            assert bank.paid == [5, 5]
            last = await runtime.run("bank", "Again.", thread_id="t")
            assert (len(last.tickets), bank.paid) == (1, [5, 5])

    asyncio.run(scenario())


def test_a_remembered_no_holds() -> None:
    async def scenario() -> None:
        script = [paying(5), "Done.", paying(6)]
        bank = Bank(True, *script, plugins=[PermissionPlugin(default="allow")])
        async with bank.runtime() as runtime:
            await runtime.run("bank", "Pay.", thread_id="t")
            await decided(runtime, "cancel", remember={"scope": "thread"})
            later = await runtime.run("bank", "Again.", thread_id="t")
            assert (later.tickets, bank.paid) == ((), [])

    asyncio.run(scenario())


def test_without_the_plugin_no_ticket_offers_to_remember() -> None:
    async def scenario() -> None:
        bank = Bank(True, paying(5), "Done.", paying(6))
        async with bank.runtime() as runtime:
            waiting = await runtime.run("bank", "Pay.", thread_id="t")
            assert "remember" not in waiting.tickets[0].suspension.parameters
            await decided(runtime, remember={"scope": "thread"})
            later = await runtime.run("bank", "Again.", thread_id="t")
            assert (len(later.tickets), bank.paid) == (1, [5])

    asyncio.run(scenario())


def test_a_tool_that_an_operator_describes_keeps_its_approval() -> None:
    for approval in (True, is_large):
        bank = Bank(approval)
        described = ToolCache().describe(bank.pay, "Pays.")
        assert described.descriptor.description == "Pays."
        assert approval_of(described) is approval_of(bank.pay)


def test_each_call_of_a_batch_has_its_own_decision() -> None:
    async def scenario() -> None:
        bank = Bank(lambda amount: amount > LARGE, paying(5, 500, 600))
        async with bank.runtime() as runtime:
            waiting = await runtime.run("bank", "Pay.", thread_id="t")
            assert bank.paid == [5]
            first, second = waiting.tickets
            await runtime.decide(first.ticket_id, "cancel")
            await runtime.decide(second.ticket_id)
            ended = await runtime.wait(waiting.run_id, timeout_ms=20_000)
            assert (ended.termination, bank.paid) == (NaturalEnd(), [5, 600])

    asyncio.run(scenario())


def test_a_question_of_the_tool_itself_does_not_repeat_the_approval() -> None:
    async def scenario() -> None:
        answers = [False, True]

        @tool(approval=lambda: answers.pop(0))
        async def ship(ctx: ToolContext) -> Any:
            """Ship it."""
            if ctx.resume is None:
                return ctx.suspend("Where to?", asks="answer")
            return f"to {ctx.resume.result}"

        model = ScriptedModel([ToolCalls([("ship", {})]), "Done."])
        async with AgentRuntime([Agent("a", model=model, tools=[ship])]) as runtime:
            await runtime.run("a", "Ship.", thread_id="t")
            ended = await decided(runtime, result="Rome")
            assert (ended.text, answers) == ("Done.", [True])
            assert await told(runtime) == ["to Rome"]

    asyncio.run(scenario())


def test_what_a_person_decided_is_not_asked_again_in_another_process() -> None:
    async def scenario() -> None:
        store = shared_store()
        bank = Bank(True, paying(5))
        first = bank.runtime(store=store)
        async with first:
            await first.run("bank", "Pay.", thread_id="t")
            (ticket,) = await first.tickets("t")
        asked: list[int] = []

        def now_says_otherwise(amount: int) -> bool:
            asked.append(amount)
            return True

        again = Bank(now_says_otherwise)
        async with again.runtime(store=store) as second:
            await second.decide(ticket.ticket_id)
            ended = await second.wait(ticket.run_id, timeout_ms=20_000)
            assert (ended.text, asked) == ("Done.", [])
            assert (bank.paid, again.paid) == ([], [5])

    simulated(scenario)


@pytest.mark.parametrize("effect", ["idempotent", "once"])
@pytest.mark.parametrize("cut", list(points(4)), ids=str)
def test_a_call_that_was_started_is_not_stopped_by_another_answer_after_a_crash(
    cut: dict[str, int], effect: Any
) -> None:
    async def scenario() -> None:
        store, ran = shared_store(), []

        def process(*, is_needed: bool, **cuts: Any) -> Process:
            async def needs_approval() -> bool:
                return is_needed

            @tool(effect=effect, approval=needs_approval)
            async def pay() -> str:
                ran.append(is_needed)
                return "paid"

            return Process(store, [ToolCalls([("pay", {})]), "Done."], tools=[pay], **cuts)

        await store.enqueue(input_of())
        with contextlib.suppress(Dead):
            await process(is_needed=False, **cut).execute_next()
        # The first commit has the model's answer, the second one the intent of the call.
        has_intent = cut.get("cut_after", 0) >= 2 or cut.get("cut_before", 0) > 2
        if await after_the_lease(store):
            ended = await process(is_needed=True).execute_next()
            assert len(ended.tickets) == (not has_intent)
            assert len(ran) <= (2 if effect == "idempotent" else 1)

    simulated(scenario)


@pytest.mark.parametrize("effect", ["none", "idempotent", "once"])
def test_an_approved_call_runs_once_whenever_the_process_dies(effect: Any) -> None:
    @tool(approval=lambda amount: amount > LARGE, effect=effect)
    async def pay(amount: int) -> str:
        """Pay an amount."""
        return f"paid {amount}"

    model = ScriptedModel([paying(5, 500), paying(600), "Done."])
    report = simulate_agent(Agent("bank", model=model, tools=[pay]), "Pay.", schedules=20)
    assert report.violations == ()
