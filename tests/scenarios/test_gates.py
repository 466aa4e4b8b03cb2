"""Gates: who may pass, what a refusal does to the batch and the run, and what unlocks a call."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from awaken import (
    Adapter,
    Blocked,
    NaturalEnd,
    Phase,
    PluginRegistrar,
    RunMode,
    StateCommand,
    StateKey,
    Suspended,
    SuspendTicket,
    ToolCallDone,
    ToolContext,
    ToolResult,
    tool,
)
from awaken.messages import system_context
from awaken.plugins import (
    ADD_CONTEXT_MESSAGE,
    Allow,
    Block,
    GateDecision,
    PhaseContext,
    SetResult,
    StateScope,
    Suspend,
    ToolGateContext,
)
from awaken.testing import Entry, ToolCalls
from awaken.tools import ResumeMode, Suspension, ToolKind

from .worlds import Gate, Hooks, Story, World, play, simulated

INTERRUPTED = "[Tool execution was interrupted]"
OPEN = StateKey("door.open", default=False)
ran: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    ran.clear()


@tool(effect="none")
async def plain(name: str = "plain") -> str:
    ran.append(name)
    return name


@tool
async def guarded() -> str:
    ran.append("guarded")
    return "in"


@tool
async def unlock(ctx: ToolContext) -> str:
    ran.append("unlock")
    ctx.state.set(OPEN, True)
    return "open"


@tool(effect="none")
async def ask(ctx: ToolContext) -> object:
    return ctx.suspend("May I?")


TOOLS = [plain, guarded, unlock, ask]
TICKET = SuspendTicket(
    suspension=Suspension(id="s1", action="confirm"),
    resume_mode=ResumeMode.USE_DECISION_AS_TOOL_RESULT,
)


def calls(*names: str) -> ToolCalls:
    return ToolCalls([(name, {}) for name in names])


def on_guarded(decision: GateDecision) -> Gate:
    async def gate(context: ToolGateContext) -> GateDecision | None:
        return decision if context.call.name == "guarded" else None

    return Gate(gate)


class Door(Gate):
    """Blocks `guarded` until the state says that it is open."""

    def __init__(self, key: StateKey[bool, bool] = OPEN) -> None:
        self._key = key

        async def gate(context: ToolGateContext) -> GateDecision | None:
            is_shut = context.call.name == "guarded" and not context.state(key)
            return Block(reason="locked") if is_shut else None

        super().__init__(gate, "door")

    def register(self, registrar: PluginRegistrar) -> None:
        super().register(registrar)
        registrar.key(self._key)


@pytest.mark.parametrize("parallel", [True, False])
@pytest.mark.parametrize(
    ("batch", "executed", "answers"),
    [
        (("guarded",), [], ["locked"]),
        (("plain", "guarded", "plain"), ["plain"], ["plain", "locked", INTERRUPTED]),
        (("guarded", "plain"), [], ["locked", INTERRUPTED]),
        (("guarded", "unlock"), [], ["locked", INTERRUPTED]),
    ],
)
def test_a_block_ends_the_run_and_answers_every_call_of_the_batch(
    batch: tuple[str, ...], executed: list[str], answers: list[str], parallel: bool
) -> None:
    script = [calls(*batch), "never"]
    story = play(script, tools=TOOLS, plugins=[Door()], parallel_tools=parallel)

    assert story.termination == Blocked(reason="locked")
    assert ran == executed
    assert story.answers == answers
    assert [role for role, _ in story.lines] == ["user", "assistant", *["tool"] * len(answers)]
    outcomes = [str(event.outcome) for event in story.of(ToolCallDone)]
    assert outcomes == ["succeeded" if name in executed else "failed" for name in answers]
    assert len(story.requests) == 1


@pytest.mark.parametrize("parallel", [True, False])
@pytest.mark.parametrize(
    "batch",
    [
        ("unlock", "guarded"),
        ("unlock", "guarded", "guarded", "plain"),
        ("plain", "unlock", "plain", "guarded"),
    ],
)
def test_a_call_unlocks_a_later_one_of_the_same_step(
    batch: tuple[str, ...], parallel: bool
) -> None:
    watched: list[str] = []

    async def before(context: Any) -> None:
        watched.append(context.call.name)

    plugins = [Door(), Hooks({Phase.BEFORE_TOOL_EXECUTE: before})]
    story = play([calls(*batch), "ok"], tools=TOOLS, plugins=plugins, parallel_tools=parallel)

    assert story.termination == NaturalEnd()
    assert sorted(ran) == sorted(batch)
    assert sorted(watched) == sorted(batch)
    assert ran.index("guarded") > ran.index("unlock")
    assert story.answers == [{"unlock": "open", "guarded": "in"}.get(it, it) for it in batch]


@pytest.mark.parametrize(("scope", "again"), [("run", "locked"), ("thread", "in")])
def test_an_unlocked_door_stays_open_for_the_run_and_with_thread_scope_for_the_next(
    scope: str, again: str
) -> None:
    key: StateKey[bool, bool] = StateKey("door", default=False, scope=StateScope(scope))

    @tool(effect="none")
    async def unlock(ctx: ToolContext) -> str:
        ctx.state.set(key, True)
        return "open"

    async def scenario() -> list[Story]:
        script = [calls("unlock"), calls("guarded"), "ok", calls("guarded"), "ok"]
        async with World(script, tools=[unlock, guarded], plugins=[Door(key)]) as world:
            return [await world.tell(), await world.tell()]

    first, second = simulated(scenario)
    assert (first.answers, first.termination) == (["open", "in"], NaturalEnd())
    assert second.answers[-1] == again


def test_an_activation_alone_leads_to_an_inference_with_its_instructions() -> None:
    @tool(effect="none")
    async def activate(ctx: ToolContext) -> str:
        ctx.schedule(ADD_CONTEXT_MESSAGE, system_context("skill", "Write verse."))
        return "active"

    story = play([calls("activate"), "roses"], tools=[activate])

    assert [request.system for request in story.requests] == [(), ("Write verse.",)]


def test_a_set_result_answers_only_its_call_without_running_the_tool() -> None:
    decision = SetResult(result=ToolResult.success("guarded", {"cached": True}))
    after: list[str] = []

    async def note(context: Any) -> None:
        after.append(context.call.name)

    plugins = [on_guarded(decision), Hooks({Phase.AFTER_TOOL_EXECUTE: note})]
    story = play([calls("guarded", "plain"), "ok"], tools=TOOLS, plugins=plugins)

    assert ran == ["plain"]
    assert story.answers == ['{"cached":true}', "plain"]
    assert [str(event.outcome) for event in story.of(ToolCallDone)] == ["succeeded", "succeeded"]
    assert after == ["guarded", "plain"]


def test_a_set_result_that_cannot_be_stored_becomes_an_error_result() -> None:
    decision = SetResult(result=ToolResult.success("guarded", object()))
    story = play([calls("guarded"), "ok"], tools=TOOLS, plugins=[on_guarded(decision)])

    assert "has no JSON form" in story.answers[0]
    assert story.termination == NaturalEnd()


def test_a_gate_that_suspends_keeps_the_mode_of_its_ticket_and_lets_others_run() -> None:
    plugin = on_guarded(Suspend(ticket=TICKET))
    story = play([calls("plain", "guarded", "plain")], tools=TOOLS, plugins=[plugin])

    assert story.termination == Suspended()
    assert ran == ["plain", "plain"]
    assert story.result is not None
    (ticket,) = story.result.tickets
    assert (ticket.tool_name, ticket.resume_mode) == ("guarded", TICKET.resume_mode)
    assert [str(event.outcome) for event in story.of(ToolCallDone)] == [
        "succeeded",
        "suspended",
        "succeeded",
    ]


def test_a_prefix_that_suspends_keeps_later_calls_from_being_gated_or_run_one_by_one() -> None:
    watched: list[str] = []

    async def before(context: Any) -> None:
        watched.append(context.call.name)

    plugins = [Door(), Hooks({Phase.BEFORE_TOOL_EXECUTE: before})]
    script: list[Entry] = [calls("plain", "ask", "guarded", "plain")]
    story = play(script, tools=TOOLS, plugins=plugins, parallel_tools=False)

    assert story.termination == Suspended()
    assert watched == ["plain", "ask"]
    assert [str(event.outcome) for event in story.of(ToolCallDone)] == [
        "succeeded",
        "suspended",
        "failed",
        "failed",
    ]
    assert story.answers == ["plain", INTERRUPTED, INTERRUPTED]


async def _raising(_context: ToolGateContext) -> GateDecision | None:
    raise RuntimeError("broken gate")


def _answering(decision: GateDecision | None) -> Callable[..., Awaitable[GateDecision | None]]:
    async def gate(_context: ToolGateContext) -> GateDecision | None:
        return decision

    return gate


A, B = Block(reason="a"), Block(reason="b")
ASK, ANSWER = Suspend(ticket=TICKET), SetResult(result=ToolResult.success("guarded", "set"))


@pytest.mark.parametrize(
    ("gates", "expected"),
    [
        ([_answering(None), _answering(None)], NaturalEnd()),
        ([_answering(ANSWER), _answering(ASK)], Suspended()),
        ([_answering(ASK), _answering(A)], Blocked(reason="a")),
        ([_answering(A), _answering(ASK)], Blocked(reason="a")),
        ([_answering(A), _answering(B)], Blocked(reason="a")),
        ([_answering(None), _raising], Blocked(reason="gate of 'g1' failed: RuntimeError")),
    ],
    ids=[
        "none",
        "ask beats answer",
        "block beats ask",
        "in any order",
        "first stays",
        "fails shut",
    ],
)
def test_the_strictest_gate_wins_and_a_broken_one_blocks(
    gates: list[Any], expected: object
) -> None:
    plugins = [Gate(gate, f"g{index}") for index, gate in enumerate(gates)]
    story = play([calls("guarded"), "ok"], tools=TOOLS, plugins=plugins)

    assert story.termination == expected
    assert (ran == ["guarded"]) is (expected == NaturalEnd())


@pytest.mark.parametrize(
    ("decision", "expected"),
    [
        (Allow(), NaturalEnd()),
        (None, NaturalEnd()),
        (Block(reason="not from here"), Blocked(reason="not from here")),
    ],
)
def test_a_gate_sees_how_the_run_came_and_blocks_or_lets_pass(
    decision: Allow | Block | None, expected: object
) -> None:
    seen: list[tuple[object, ...]] = []

    async def gate(context: ToolGateContext) -> Allow | Block | None:
        run = context.run
        seen.append(
            (run.run_mode, run.adapter, run.thread_id, context.call.name, context.tool_kind)
        )
        return decision

    options = {"run_mode": RunMode.SCHEDULED, "adapter": Adapter.ACP}
    story = play([calls("guarded"), "ok"], tools=TOOLS, plugins=[Gate(gate)], options=options)

    assert seen == [("scheduled", "acp", "t", "guarded", ToolKind.OTHER)]
    assert story.termination == expected
    assert ran == (["guarded"] if expected == NaturalEnd() else [])


def test_state_that_a_hook_writes_before_a_tool_runs_is_what_the_tool_sees() -> None:
    key: StateKey[str, str] = StateKey("note", default="")

    async def write(context: PhaseContext) -> StateCommand:
        return StateCommand().update(key, "fresh")

    @tool(effect="none")
    async def read(ctx: ToolContext) -> str:
        return ctx.state.get(key)

    hooks = Hooks({Phase.BEFORE_TOOL_EXECUTE: write}, keys=[key])
    assert play([calls("read"), "ok"], tools=[read], plugins=[hooks]).answers == ["fresh"]


SECRET_READ = StateKey("secret.read", default=False)


@tool(effect="none")
async def read_secret(ctx: ToolContext) -> str:
    ran.append("read_secret")
    ctx.state.set(SECRET_READ, True)
    return "hunter2"


@tool
async def post() -> str:
    ran.append("post")
    return "posted"


async def no_posting_of_secrets(context: ToolGateContext) -> GateDecision | None:
    is_leak = context.call.name == "post" and context.state(SECRET_READ)
    return Block(reason="a secret was read") if is_leak else None


def test_one_after_another_a_gate_sees_what_the_calls_before_it_did() -> None:
    story = play(
        [ToolCalls([("read_secret", {}), ("post", {})])],
        tools=[read_secret, post],
        plugins=[Gate(no_posting_of_secrets)],
        parallel_tools=False,
    )
    assert ran == ["read_secret"]
    assert story.record is not None
    assert story.record.termination == Blocked(reason="a secret was read")
