"""The mistakes of a first hour: each gets a typed error that names the thing and the way out.

Nothing is written, nothing is run, and above all nothing is approved by a misspelt word.
"""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from awaken import (
    Agent,
    AgentRuntime,
    AgentSpec,
    AwakenError,
    Budget,
    InvalidInput,
    Limits,
    ModelSpec,
    Plugin,
    RemoteRegistry,
    RunRequest,
    RunResult,
    ToolContext,
    UnknownAgent,
    tool,
    user,
)
from awaken.errors import DuplicateRegistration, InvalidSpec
from awaken.extensions.background import BackgroundTasksPlugin
from awaken.extensions.guardrails import GuardrailsPlugin
from awaken.extensions.observability import ObservabilityPlugin
from awaken.extensions.reminder import ReminderPlugin
from awaken.extensions.skills import Skill, SkillsPlugin, StaticSkills
from awaken.models import InferenceOverride
from awaken.testing import ScriptedModel, ToolCalls
from awaken.tools import DecisionAction, Delegation, ToolCallResume, ToolDescriptor

from .worlds import simulated

ran: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    ran.clear()


@tool
async def pay(amount: int, ctx: ToolContext) -> Any:
    if ctx.resume is None:
        return ctx.suspend("may I?")
    ran.append(f"paid {amount}")
    return "paid"


class Shop:
    def buy(self, item: str) -> str:
        return item


class Unnamed(Plugin): ...


def untyped(city, ctx) -> str:  # type: ignore[no-untyped-def]
    return str(city)


def context_only(ctx) -> str:  # type: ignore[no-untyped-def]
    return str(ctx)


def plain(city: str) -> str:
    return city


loose: Any = tool
"""The decorator as somebody without a type checker uses it."""


SKILLS = SkillsPlugin(sources=[StaticSkills(Skill(name="pdf", description="d", body="b"))])
NOBODY = {"background_tasks": {"agents": ["nobody"]}}


def assistant(**fields: Any) -> Agent:
    return Agent("assistant", **{"model": "scripted", **fields})


def runtime(*arguments: Any, **options: Any) -> AgentRuntime:
    return AgentRuntime(*arguments, **options)


BUILDING: list[tuple[str, Callable[[], Any], type[AwakenError], str]] = [
    (
        "a provider that is not there",
        lambda: runtime([assistant(model="opnai:gpt-5-mini")]),
        InvalidSpec,
        "Agent 'assistant': no provider 'opnai' is registered (model 'opnai:gpt-5-mini'); "
        "did you mean 'openai:gpt-5-mini'? Known: "
        "anthropic, bedrock, bridge, deepseek, ",
    ),
    ("one agent", lambda: runtime(assistant()), InvalidInput, "AgentRuntime([Agent('assistant', …"),
    ("an id as agent", lambda: runtime(["assistant"]), InvalidInput, "'assistant' is no Agent"),
    ("a class as agent", lambda: runtime([Agent]), InvalidInput, "is no Agent"),
    (
        "a spec of wrong types",
        lambda: runtime([AgentSpec(id="a", model_id=5)]),  # type: ignore[arg-type]
        InvalidSpec,
        "model_id",
    ),
    (
        "a misspelt option",
        lambda: runtime([assistant()], limit=5),
        InvalidInput,
        "runtime option 'limit' is invalid: it does not exist; the options are: limits, clock",
    ),
    ("limits of another kind", lambda: runtime([], limits=5), InvalidInput, "limits"),
    ("a misspelt limit", lambda: runtime([], limits={"message": 5}), InvalidInput, "`message`"),
    ("a limit as text", lambda: Limits(delegate_depth="x"), InvalidInput, "delegate_depth='x'"),  # type: ignore[arg-type]
    ("a limit below 0", lambda: Limits(tasks_per_thread=-5), InvalidInput, "tasks_per_thread=-5"),
    (
        "a limit below 0 as data",
        lambda: runtime([], limits={"hook_ms": -1}),
        InvalidInput,
        "hook_m",
    ),
    ("a limit that is a fact", lambda: Limits(inbox_messages=True), InvalidInput, "inbox_messages"),
    ("a budget below 0", lambda: Budget(tokens=-5), InvalidSpec, "budget: tokens=-5"),
    ("a budget of half a token", lambda: Budget(tokens=0.5), InvalidSpec, "tokens=0.5"),  # type: ignore[arg-type]
    ("a budget as text", lambda: Budget(time_ms="9"), InvalidSpec, "time_ms='9'"),  # type: ignore[arg-type]
    ("a budget without end", lambda: Budget(cost_usd=math.inf), InvalidSpec, "cost_usd=inf"),
    ("a budget of nothing", lambda: Budget(), InvalidSpec, "set a limit"),
    (
        "a nameless registry",
        lambda: RemoteRegistry(name="", base_url="https://x"),
        InvalidSpec,
        "remote registry '' is invalid: a name has lower-case letters",
    ),
    ("an agent as number", lambda: Delegation(agent_id=5, prompt=""), InvalidInput, "agent_id"),  # type: ignore[arg-type]
    ("a prompt as number", lambda: Delegation(agent_id="a", prompt=5), InvalidInput, "prompt"),  # type: ignore[arg-type]
    ("one tool", lambda: runtime([], tools=plain), InvalidInput, "pass a list, tools=[…]"),
    ("one plugin", lambda: runtime([], plugins=Unnamed()), InvalidInput, "pass a list, plugins="),
    ("no name", lambda: runtime([], plugins=[Unnamed()]), InvalidSpec, "give class Unnamed a `nam"),
    ("a plugin class", lambda: assistant(plugins=[Unnamed]), InvalidSpec, "plugins=[Unnamed()]"),
    ("a vendor's client", lambda: runtime([], providers={"x": 5}), InvalidInput, "no ModelClient"),
    ("a list of clients", lambda: runtime([], providers=[5]), InvalidInput, "pass a mapping"),
    ("a model as text", lambda: runtime([], models=["m"]), InvalidInput, "holds str, not ModelSp"),
    (
        "a database",
        lambda: runtime([], store="mysql://host/x"),
        InvalidInput,
        "no such store; known: sqlite:///awaken.db",
    ),
    ("a path as store", lambda: runtime([], store=Path("x.db")), InvalidInput, "is no Store"),
    ("a store's class", lambda: runtime([], store=dict), InvalidInput, "is no Store"),
    ("a name for a tool", lambda: loose("pay"), InvalidSpec, "use @tool or @tool(id='pay')"),
    ("sections", lambda: assistant(sections={}), InvalidSpec, "write config=[…]"),
    ("memory", lambda: assistant(memory=True), InvalidSpec, "plugins=[MemoryPlugin()]"),
    ("knowledge", lambda: assistant(knowledge=[]), InvalidSpec, "MemoryConfig(collections="),
    (
        "another word for id",
        lambda: loose(name="pay")(plain),
        InvalidSpec,
        "there is no option name; the options are: id, description, effect, timeout",
    ),
    (
        "an effect of one's own",
        lambda: loose(effect="read")(plain),
        InvalidSpec,
        "effect must be none, idempotent or once",
    ),
    ("no annotation", lambda: tool(untyped), InvalidSpec, "'city' has no annotation"),
    ("a bare context", lambda: tool(context_only), InvalidSpec, "annotate it as ToolContext"),
    (
        "an unbound method",
        lambda: assistant(tools=[Shop.buy]),
        InvalidSpec,
        "pass the bound method: tools=[shop.buy]",
    ),
    ("a tool that is no list", lambda: assistant(tools=plain), InvalidSpec, "tools=[…]"),
    ("no check", lambda: GuardrailsPlugin([5]), InvalidSpec, "GuardrailsPlugin"),  # type: ignore[list-item]
    ("no reminder", lambda: ReminderPlugin(["x"]), InvalidSpec, "ReminderPlugin"),  # type: ignore[list-item]
    (
        "content nowhere",
        lambda: ObservabilityPlugin(content="x"),
        InvalidSpec,
        "content 'x' is invalid: write one of no_content, ",
    ),
    (
        "a plugin twice",
        lambda: assistant(plugins=[GuardrailsPlugin(), GuardrailsPlugin()]),
        DuplicateRegistration,
        "Agent 'assistant': plugin 'guardrails' is registered twice",
    ),
    (
        "a plugin of its own that all have",
        lambda: runtime([assistant(plugins=[GuardrailsPlugin()])], everywhere=[GuardrailsPlugin()]),
        InvalidSpec,
        "'guardrails', and one of that name is given to every agent; leave it out of",
    ),
    (
        "a field of another form",
        lambda: runtime([assistant(plugins=[SKILLS], config={"skills": {"scripts": True}})]),
        InvalidSpec,
        """(value is not one of false; value is not of type "object") - at `$.scripts`""",
    ),
    (
        "tasks of nobody",
        lambda: runtime([assistant(plugins=[BackgroundTasksPlugin()], config=NOBODY)]),
        InvalidSpec,
        "Section 'background_tasks' of agent 'assistant' names agent 'nobody', which is not reg",
    ),
]


@pytest.mark.parametrize(
    ("build", "error", "words"), [row[1:] for row in BUILDING], ids=[row[0] for row in BUILDING]
)
def test_what_is_built_wrongly_is_refused_when_it_is_built(
    build: Callable[[], Any], error: type[AwakenError], words: str
) -> None:
    with pytest.raises(error) as refused:
        build()
    assert words in str(refused.value)


HELPER = Agent("assistant", model=ScriptedModel([]))
RESULT = RunResult(run_id="r1", thread_id="t1", agent_id="assistant", status="done")  # type: ignore[arg-type]
ASKING: list[tuple[str, Callable[[Any], Any], type[AwakenError], str]] = [
    ("a spec", lambda r: r.run(HELPER.spec, "hi"), InvalidInput, "pass the id, 'assistant'"),
    ("a whole request", lambda r: r.run(RunRequest(), "hi"), InvalidInput, "start(request)"),
    ("nobody", lambda r: r.run("nobody", "hi"), UnknownAgent, "known agents: assistant"),
    (
        "no agent at all",
        lambda r: r.run(None, "hi"),
        UnknownAgent,
        "no agent was named and the thread has none, is not registered; known agents: assistant",
    ),
    (
        "a number as thread",
        lambda r: r.run("assistant", "hi", thread_id=7),
        InvalidInput,
        "not int",
    ),
    (
        "a misspelt option",
        lambda r: r.run("assistant", "hi", override={}),
        InvalidInput,
        "run option 'override' is invalid: it does not exist; the options are: overrides,",
    ),
    (
        "a misspelt override",
        lambda r: r.run("assistant", "hi", overrides={"temprature": 0.1}),
        InvalidInput,
        "overrides is invalid: Object contains unknown field `temprature`",
    ),
    (
        "an override of another type",
        lambda r: r.run("assistant", "hi", overrides=InferenceOverride(max_tokens="9")),  # type: ignore[arg-type]
        InvalidInput,
        "`$.max_tokens`",
    ),
    (
        "a function as frontend tool",
        lambda r: r.run("assistant", "hi", frontend_tools=[plain]),
        InvalidInput,
        "frontend_tools is invalid: it holds function, not ToolDescriptor; pass ToolDescriptor(",
    ),
    (
        "one frontend tool",
        lambda r: r.run("assistant", "hi", frontend_tools=ToolDescriptor(id="x")),
        InvalidInput,
        "pass a list, frontend_tools=[ToolDescriptor(…)]",
    ),
    (
        "an unknown origin",
        lambda r: r.run("assistant", "hi", origin="me"),
        InvalidInput,
        "origin='me' is invalid: use one of: user, subagent, internal, mcp",
    ),
    (
        "text as a message",
        lambda r: r.start(RunRequest(agent_id="assistant", messages=("hi",))),  # type: ignore[arg-type]
        InvalidInput,
        "messages is invalid: it holds str, not Message",
    ),
    (
        "more than a request",
        lambda r: r.start(RunRequest(agent_id="assistant"), "hi", thread_id="t", session_id="s"),
        InvalidInput,
        "start(RunRequest) with input, thread_id, session_id is invalid",
    ),
    (
        "a decision that is none",
        lambda r: r.start(RunRequest(decisions=(("t", "cancel"),))),  # type: ignore[arg-type]
        InvalidInput,
        "pass a ToolCallResume, not str",
    ),
    (
        "a status of one's own",
        lambda r: r.list_runs(status="finished"),
        InvalidInput,
        "status='finished' is invalid: use one of: created, running, waiting, done",
    ),
    ("a result as thread", lambda r: r.messages(RESULT), InvalidInput, "pass the id, 't1', not"),
    ("a result as run", lambda r: r.cancel(RESULT), InvalidInput, "pass the id, 'r1', not"),
    ("text as query", lambda r: r.messages("t", "all"), InvalidInput, "query is invalid"),
    ("nothing as run", lambda r: r.wait(None), InvalidInput, "run_id"),
]


@pytest.mark.parametrize(
    ("ask", "error", "words"), [row[1:] for row in ASKING], ids=[row[0] for row in ASKING]
)
def test_what_is_asked_wrongly_is_refused_and_nothing_is_written(
    ask: Callable[[Any], Any], error: type[AwakenError], words: str
) -> None:
    async def scenario() -> None:
        model = ScriptedModel([])
        async with AgentRuntime([Agent("assistant", model=model)]) as world:
            with pytest.raises(error) as refused:
                await ask(world)
            assert words in str(refused.value)
            assert await world.list_runs() == ()
            assert model.requests == []

    simulated(scenario)


def test_a_wrong_request_is_refused_before_its_stream_is_read() -> None:
    with pytest.raises(InvalidInput, match="not int"):
        AgentRuntime([HELPER]).stream("assistant", "hi", thread_id=7)  # type: ignore[arg-type]


DECIDING: list[tuple[str, Callable[[Any, Any], Any], str]] = [
    (
        "another word for no",
        lambda r, t: r.decide(t.ticket_id, approved=False),
        "decision option 'approved' is invalid: it does not exist; the options are: action, result",
    ),
    (
        "a misspelt action",
        lambda r, t: r.decide_all({t.ticket_id: {"aciton": "cancel"}}),
        "decision option 'aciton' is invalid: it does not exist; the options are: action, result",
    ),
    (
        "a misspelt choice",
        lambda r, t: r.decide(t.ticket_id, "cancle"),
        "decision='cancle' is invalid: use one of: resume, cancel",
    ),
    ("a truth", lambda r, t: r.decide(t.ticket_id, False), "use one of: resume, cancel"),
    ("the ticket itself", lambda r, t: r.decide(t, "cancel"), "not the Ticket"),
    (
        "a word alone",
        lambda r, t: r.decide_all({t.ticket_id: "cancel"}),
        "pass {'action': 'resume' or 'cancel', …}, not str",
    ),
    ("pairs", lambda r, t: r.decide_all([(t.ticket_id, {})]), "pass a mapping of ticket ids"),
    ("a reason", lambda r, t: r.decide(t.ticket_id, "cancel", reason=5), "reason is invalid"),
    (
        "a whole decision with a misspelt choice",
        lambda r, t: r.decide_all({t.ticket_id: ToolCallResume(decision_id="d", action="no")}),  # type: ignore[arg-type]
        "decision='no' is invalid",
    ),
    (
        "a pattern that is none",
        lambda r, t: r.decide(t.ticket_id, remember={"scope": "run", "pattern": "((("}),
        "remember.pattern is invalid: at character 0, ",
    ),
]


@pytest.mark.parametrize(
    ("decide", "words"), [row[1:] for row in DECIDING], ids=[row[0] for row in DECIDING]
)
def test_a_decision_that_is_not_understood_approves_nothing(
    decide: Callable[[Any, Any], Any], words: str
) -> None:
    async def scenario() -> None:
        agent = Agent("a", model=ScriptedModel([ToolCalls([("pay", {"amount": 5})])]), tools=[pay])
        async with AgentRuntime([agent]) as world:
            (ticket,) = (await world.run("a", "pay!")).tickets
            with pytest.raises(InvalidInput) as refused:
                await decide(world, ticket)
            assert words in str(refused.value)
            assert await world.tickets() == (ticket,)
            assert ran == []

    simulated(scenario)


def test_what_can_be_meant_in_only_one_way_is_taken() -> None:
    async def scenario() -> None:
        model = ScriptedModel(["hello", ToolCalls([("pay", {"amount": 5})]), "as you like"])
        client = {"mine": model}
        small = ModelSpec(id="small", provider_id="mine", upstream_model="s")
        agent = Agent("a", model=small, tools=[pay])
        async with AgentRuntime([agent], providers=client, limits={}) as world:  # type: ignore[arg-type]
            await world.run("a", "hi", overrides={"temperature": 1}, origin="internal")
            assert model.requests[0].overrides == InferenceOverride(temperature=1.0)
            (record,) = await world.list_runs(status="done")
            assert record.origin == "internal"
            messages: Any = [user("pay!")]
            handle = await world.start(RunRequest(agent_id="a", messages=messages))
            (ticket,) = (await handle.result()).tickets
            action: Any = "cancel"
            decision = ToolCallResume(decision_id="d", action=action)
            await world.decide_all({ticket.ticket_id: decision})
            await world.wait(ticket.run_id)
            stored = await world.store.find_ticket(ticket.ticket_id)
            assert stored is not None
            assert stored.decision is not None
            assert stored.decision.action is DecisionAction.CANCEL
            assert ran == []

    simulated(scenario)
