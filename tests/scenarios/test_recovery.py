"""A process dies at every commit of a run; another one goes on and nobody can tell.

Each scripted run is played once without a crash. Then, for every commit, it is played again with a
process that dies right before or right after it, and is continued by another process. Messages,
state, log and record must be the same, and no tool with a finished call may run again.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from tests.sampling import choose_cases, sampled

from awaken import (
    BehaviorRequested,
    Blocked,
    InputMode,
    NaturalEnd,
    Phase,
    Plugin,
    PluginRegistrar,
    RunRequest,
    StateCommand,
    StateKey,
    ToolContext,
    tool,
    user,
)
from awaken.plugins import (
    ACTIVE_AGENT,
    RUN_LIFECYCLE,
    Block,
    End,
    Record,
    StateScope,
    ToolGateContext,
)
from awaken.stores import MemoryStore, RunDispatch, ToolRecordStatus
from awaken.testing import Chunks, LoopClock, ToolCalls, Turn
from awaken.tools import ToolCallResume

from .crashes import (
    Dead,
    Process,
    after_the_lease,
    history,
    input_of,
    kinds,
    points,
    shared_store,
    texts,
)
from .worlds import simulated

NOTES: StateKey[tuple[str, ...], str] = StateKey(
    "test.notes",
    default=(),
    type=tuple[str, ...],
    apply=lambda notes, note: tuple(sorted((*notes, note))),
    merge="commutative",
    scope=StateScope.THREAD,
)
TOTAL: StateKey[int, int] = StateKey("test.total", default=0, scope=StateScope.THREAD)


class Counting(Plugin):
    """Counts every phase in durable state, so that a hook that acts twice or never shows."""

    name = "counting"

    def __init__(self, *, observes: bool = False) -> None:
        self._observes = observes

    def register(self, registrar: PluginRegistrar) -> None:
        registrar.key(NOTES)
        registrar.key(TOTAL)
        for phase in Phase:
            if phase is not Phase.TOOL_GATE:
                registrar.hook(phase, self._noting(phase))
                if self._observes:
                    registrar.observer(phase, _look)

    def _noting(self, phase: Phase) -> Any:
        async def note(context: Any) -> StateCommand:
            call = getattr(context, "call", None)
            return StateCommand().update(NOTES, f"{phase}:{call.id if call else context.step}")

        return note


async def _look(_context: Any) -> None:
    pass


class Keys(Plugin):
    """Makes the keys known, and nothing else."""

    name = "keys"

    def register(self, registrar: PluginRegistrar) -> None:
        registrar.key(NOTES)
        registrar.key(TOTAL)


class Tools:
    """Tools that write down in a ledger, which outlives every process, how they were run."""

    def __init__(self) -> None:
        self.ledger: list[tuple[str, str]] = []
        ledger = self.ledger

        @tool(effect="none")
        async def look(text: str, ctx: ToolContext) -> str:
            ledger.append(("look", ctx.idempotency_key))
            return f"saw {text}"

        @tool(effect="idempotent")
        async def put(text: str, ctx: ToolContext) -> str:
            ledger.append(("put", ctx.idempotency_key))
            await asyncio.sleep(2)
            ctx.state.update(NOTES, f"put {text}")
            return f"put {text}"

        @tool(effect="idempotent")
        async def add(amount: int, ctx: ToolContext) -> int:
            ledger.append(("add", ctx.idempotency_key))
            total = ctx.state.get(TOTAL) + amount
            ctx.state.set(TOTAL, total)
            await asyncio.sleep(4 - amount)
            return total

        async def paid(text: str, ctx: ToolContext) -> str | None:
            return f"paid {text}" if ("pay", ctx.idempotency_key) in ledger else None

        @tool(effect="once", reconcile=paid)
        async def pay(text: str, ctx: ToolContext) -> str:
            await asyncio.sleep(1)
            ledger.append(("pay", ctx.idempotency_key))
            return f"paid {text}"

        @tool(effect="once")
        async def send(text: str, ctx: ToolContext) -> str:
            ledger.append(("send", ctx.idempotency_key))
            await asyncio.sleep(1)
            return f"sent {text}"

        @tool(effect="idempotent")
        async def ask(text: str, ctx: ToolContext) -> Any:
            ledger.append(("ask", ctx.idempotency_key))
            return ctx.suspend(text) if ctx.resume is None else f"told {ctx.resume.result}"

        self.all = [look, put, add, pay, send, ask]

    def count(self, name: str) -> int:
        return len([entry for entry in self.ledger if entry[0] == name])


POINTS = 8
"""How many moments of a run `make test` lets its process die at."""
GO = RunRequest(thread_id="t", agent_id="a", messages=(user("go"),), run_id_hint="r")
TWO_STEPS = [
    ToolCalls(
        [("put", {"text": "a"}, "c1"), ("look", {"text": "b"}, "c2"), ("pay", {"text": "c"}, "c3")]
    ),
    ToolCalls([("pay", {"text": "d"}, "c4")], text="and one more"),
    "done",
]
SCRIPTS: dict[str, Sequence[Any]] = {
    "only words": ["hello"],
    "two steps of tools": TWO_STEPS,
    "calls that disturb each other": [
        ToolCalls([("add", {"amount": 1}, "c1"), ("add", {"amount": 2}, "c2")]),
        ToolCalls([("add", {"amount": 3}, "c3")]),
        "done",
    ],
    "a call that cannot be read": [
        Turn(calls=[("look", {"text": "x"}, "c1"), ("look", "{", "c2")]),
        Turn("what?", calls=[("look", "{", "c3")]),
        "done",
    ],
    "same ids in each step": [
        ToolCalls([("pay", {"text": "a"}, "c")]),
        ToolCalls([("pay", {"text": "b"}, "c")]),
        "done",
    ],
}
AGENTS: dict[str, Callable[[], dict[str, Any]]] = {
    "plain": lambda: {"plugins": [Keys()]},
    "hooks": lambda: {"plugins": [Counting()]},
    "observers": lambda: {"plugins": [Counting(observes=True)]},
    "in a row": lambda: {"plugins": [Counting()], "parallel_tools": False},
}


async def whole(script: Sequence[Any], agent: dict[str, Any]) -> tuple[dict[str, Any], int]:
    """The run without a crash, and how many commits it takes."""
    store, tools = shared_store(), Tools()
    process = Process(store, script, tools=tools.all, **agent)
    await store.enqueue(input_of())
    await process.execute_next()
    return await history(store), len(process.line.commits)


async def crashed(
    script: Sequence[Any], agent: Callable[[], dict[str, Any]], point: dict[str, int]
) -> tuple[dict[str, Any], Tools]:
    """The same run with a crash, continued by a second process."""
    store, tools = shared_store(), Tools()
    first = Process(store, script, tools=tools.all, **agent(), **point)
    await store.enqueue(input_of())
    with pytest.raises(Dead):
        await first.execute_next()
    second = Process(store, script, tools=tools.all, **agent())
    if await after_the_lease(store):
        await second.execute_next()
    assert await store.count_queued() == 0
    return await history(store), tools


@sampled
@pytest.mark.parametrize("agent", AGENTS.values(), ids=AGENTS.keys())
@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS.keys())
def test_a_crash_at_any_commit_leaves_the_same_messages_state_log_and_record(
    script: Sequence[Any], agent: Callable[[], dict[str, Any]]
) -> None:
    expected, commits = simulated(lambda: whole(script, agent()))
    for point in choose_cases(list(points(commits)), POINTS):
        found, tools = simulated(lambda point=point: crashed(script, agent, point))
        for part in expected:
            assert found[part] == expected[part], f"{part} after a crash at {point}"
        assert len(set(tools.ledger) & {it for it in tools.ledger if it[0] == "pay"}) == (
            tools.count("pay")
        ), point


def test_a_run_may_crash_many_times_on_its_way() -> None:
    expected, commits = simulated(lambda: whole(TWO_STEPS, {"plugins": [Counting()]}))

    async def scenario(every: int) -> dict[str, Any]:
        store, tools = shared_store(), Tools()
        await store.enqueue(input_of(max_attempts=commits))
        lives = 0
        while await store.count_queued():
            lives += 1
            process = Process(
                store, TWO_STEPS, tools=tools.all, plugins=[Counting()], cut_after=every
            )
            try:
                await process.execute_next()
            except Dead:
                await after_the_lease(store)
        assert lives > 3
        return await history(store)

    for every in (3, 4):
        found = simulated(lambda every=every: scenario(every))
        assert found == expected, every


def test_a_run_that_its_caller_started_is_finished_by_whoever_finds_it() -> None:
    async def scenario(point: dict[str, int]) -> dict[str, Any]:
        store, tools = shared_store(), Tools()
        first = Process(store, TWO_STEPS, tools=tools.all, plugins=[Counting()], **point)
        with pytest.raises(Dead):
            await first.engine.run(GO)
        for dispatch in await after_the_lease(store):
            assert dispatch.dispatch_id.startswith("recovered:")
            await Process(store, TWO_STEPS, tools=tools.all, plugins=[Counting()]).execute_next()
        return await history(store)

    expected, commits = simulated(lambda: whole(TWO_STEPS, {"plugins": [Counting()]}))
    # Before its first commit the run does not exist: whoever asked for it asks again.
    for point in list(points(commits))[1:]:
        assert simulated(lambda point=point: scenario(point)) == expected, point


def test_a_lost_call_that_may_run_only_once_is_never_run_again_and_the_model_is_told() -> None:
    script = [ToolCalls([("send", {"text": "a"}, "c1"), ("send", {"text": "b"}, "c2")]), "done"]
    expected, commits = simulated(lambda: whole(script, {}))
    answers: set[str] = set()
    for point in points(commits):
        found, tools = simulated(lambda point=point: crashed(script, dict, point))
        assert len(tools.ledger) == len(set(tools.ledger)), point
        assert kinds(found) == kinds(expected), point
        assert found["record"] == expected["record"], point
        answers.update(texts(found)[2:4])
    unknown = {text for text in answers if text.startswith("[outcome_unknown]")}
    assert len(unknown) == 1
    assert answers - unknown == {"sent a", "sent b"}


@pytest.mark.parametrize("trouble", ["raises", "exits", "is cancelled", "hangs", "says no"])
def test_a_tool_that_is_asked_what_a_lost_call_did_may_fail_to_tell(trouble: str) -> None:
    ran: list[str] = []

    async def what(ctx: ToolContext) -> str | None:
        if trouble == "raises":
            raise OSError("no answer")
        if trouble == "exits":
            raise SystemExit(3)
        if trouble == "is cancelled":
            raise asyncio.CancelledError
        if trouble == "hangs":
            await asyncio.sleep(1000)
        return None

    @tool(effect="once", reconcile=what, timeout=5)
    async def act(ctx: ToolContext) -> str:
        ran.append(ctx.idempotency_key)
        return "acted"

    async def scenario() -> str:
        store, script = shared_store(), [ToolCalls([("act", {}, "c1")]), "done"]
        with pytest.raises(Dead):
            await Process(store, script, tools=[act], cut_after=2).engine.run(GO)
        await after_the_lease(store)
        await Process(store, script, tools=[act]).execute_next()
        return texts(await history(store))[2]

    text = simulated(scenario)
    assert (text, ran) == ("acted", ["r:1:c1"]) if trouble == "says no" else (ran == [])
    assert text == "acted" or text.startswith("[outcome_unknown]")


def test_of_a_batch_only_the_calls_without_a_result_are_run_again() -> None:
    ran: list[str] = []

    @tool(effect="idempotent")
    async def wait(seconds: int, ctx: ToolContext) -> int:
        ran.append(ctx.call_id)
        await asyncio.sleep(seconds)
        return seconds

    calls = ToolCalls([("wait", {"seconds": 9 - n}, f"c{n}") for n in range(1, 6)])

    async def scenario() -> list[str]:
        store = shared_store()
        process = Process(store, [calls, "done"], tools=[wait])
        execution = asyncio.create_task(process.engine.run(GO))
        await asyncio.sleep(6.5)
        process.line.cut()
        with pytest.raises(Dead):
            await execution
        known = await store.list_tool_records("r")
        over = {it.call_id for it in known if it.status is ToolRecordStatus.FINISHED}
        assert over == {"c3", "c4", "c5"}
        ran.clear()
        await after_the_lease(store)
        await Process(store, [calls, "done"], tools=[wait]).execute_next()
        known = await store.list_tool_records("r")
        assert [it.attempt for it in known] == [2, 2, 1, 1, 1]
        return texts(await history(store))[2:7]

    assert simulated(scenario) == ["8", "7", "6", "5", "4"]
    assert sorted(ran) == ["c1", "c2"]


ASKING = [
    ToolCalls([("ask", {"text": "?"}, "c1"), ("put", {"text": "a"}, "c2")]),
    ToolCalls([("pay", {"text": "b"}, "c3")]),
    "done",
]


@pytest.mark.parametrize("agent", AGENTS.values(), ids=AGENTS.keys())
def test_a_decision_survives_a_crash_at_any_commit_after_it(
    agent: Callable[[], dict[str, Any]],
) -> None:
    async def scenario(point: dict[str, int]) -> tuple[dict[str, Any], int]:
        store, tools = shared_store(), Tools()
        waiting = await Process(store, ASKING, tools=tools.all, **agent()).engine.run(GO)
        given = ToolCallResume(decision_id="1", result="yes")
        request = RunRequest(
            continue_run_id="r", decisions=((waiting.tickets[0].ticket_id, given),)
        )
        await store.enqueue(
            RunDispatch(dispatch_id="d", thread_id="t", run_id="r", request=request, mode="resume")
        )
        first = Process(store, ASKING, tools=tools.all, **agent(), **point)
        try:
            await first.execute_next()
        except Dead:
            if await after_the_lease(store):
                await Process(store, ASKING, tools=tools.all, **agent()).execute_next()
        return await history(store), len(first.line.commits)

    expected, commits = simulated(lambda: scenario({}))
    for point in points(commits):
        found, _ = simulated(lambda point=point: scenario(point))
        for part in expected:
            assert found[part] == expected[part], f"{part} after a crash at {point}"


def test_a_tool_that_asks_again_is_not_answered_with_its_first_decision_after_a_crash() -> None:
    @tool(effect="idempotent")
    async def twice(ctx: ToolContext) -> Any:
        heard = ctx.resume.result if ctx.resume is not None else None
        return f"told {heard}" if heard == "2" else ctx.suspend(f"after {heard}")

    @tool(effect="idempotent")
    async def slow() -> str:
        await asyncio.sleep(50)
        return "slow"

    script = [ToolCalls([("slow", {}, "c1"), ("twice", {}, "c2")]), "done"]

    async def scenario() -> str:
        store = shared_store()
        first = Process(store, script, tools=[twice, slow])
        execution = asyncio.create_task(first.engine.run(GO))
        await asyncio.sleep(5)
        first.line.cut()
        with pytest.raises(Dead):
            await execution
        await after_the_lease(store)
        second = Process(store, script, tools=[twice, slow])
        waiting = await second.execute_next()
        for number in ("1", "2"):
            (ticket,) = waiting.tickets
            given = ToolCallResume(decision_id=number, result=number)
            await second.engine.decide([(ticket.ticket_id, given)])
            waiting = await second.engine.wait("r")
        return texts(await history(store))[3]

    assert simulated(scenario) == "told 2"


class Forbidding(Plugin):
    """Blocks `put`, asks about `pay`, and lets the rest pass."""

    name = "forbidding"

    def __init__(self, blocked: str = "put") -> None:
        self._blocked = blocked

    def register(self, registrar: PluginRegistrar) -> None:
        registrar.gate(self._gate)

    async def _gate(self, context: ToolGateContext) -> Any:
        return Block(reason="no") if context.call.name == self._blocked else None


def test_a_run_that_a_gate_has_blocked_stays_blocked_after_a_crash() -> None:
    script = [
        ToolCalls(
            [("look", {"text": "a"}, "c1"), ("put", {"text": "b"}, "c2"), ("pay", {"text": "c"})]
        ),
        "never",
    ]

    def agent() -> dict[str, Any]:
        return {"plugins": [Counting(), Forbidding()]}

    expected, commits = simulated(lambda: whole(script, agent()))
    assert expected["record"]["termination"] == Blocked(reason="no")
    for point in choose_cases(list(points(commits)), POINTS):
        found, tools = simulated(lambda point=point: crashed(script, agent, point))
        assert found == expected, point
        assert tools.count("pay") == 0


def test_an_answer_of_the_wrong_type_is_asked_for_again_as_often_as_without_a_crash() -> None:
    class City(Record, frozen=True, kw_only=True):
        name: str

    script = ["no city", "still none", "none at all", '{"name": "Bern"}']

    def agent() -> dict[str, Any]:
        return {"plugins": [Counting(observes=True)], "output_type": City}

    expected, commits = simulated(lambda: whole(script, agent()))
    for point in points(commits):
        found, _ = simulated(lambda point=point: crashed(script, agent, point))
        assert found == expected, point


def test_a_call_that_was_over_does_not_overwrite_what_a_sibling_has_written_since() -> None:
    """The second call is over first; the first one is settled; then the process dies."""

    def batch(effect: str) -> tuple[list[str], list[Any]]:
        ran: list[str] = []

        @tool(effect=effect)
        async def bump(seconds: int, ctx: ToolContext) -> int:
            ran.append(ctx.call_id)
            total = ctx.state.get(TOTAL) + 1
            ctx.state.set(TOTAL, total)
            await asyncio.sleep(seconds)
            return total

        return ran, [bump]

    calls = ToolCalls(
        [("bump", {"seconds": length}, f"c{n}") for n, length in enumerate((3, 9, 1), start=1)]
    )

    async def scenario(effect: str) -> tuple[list[str], dict[str, Any]]:
        ran, tools = batch(effect)
        store = shared_store()
        first = Process(store, [calls, "done"], tools=tools, plugins=[Keys()])
        execution = asyncio.create_task(first.engine.run(GO))
        await asyncio.sleep(5)
        first.line.cut()
        with pytest.raises(Dead):
            await execution
        ran.clear()
        await after_the_lease(store)
        await Process(store, [calls, "done"], tools=tools, plugins=[Keys()]).execute_next()
        return ran, await history(store)

    ran, found = simulated(lambda: scenario("idempotent"))
    assert texts(found)[2:5] == ["1", "2", "3"]
    assert found["state"] == {"test.total": b"3"}
    assert ran == ["c2", "c3"]
    ran, found = simulated(lambda: scenario("once"))
    assert [text[:17] for text in texts(found)[2:5]] == [
        "1",
        "[outcome_unknown]",
        "[state_conflict] ",
    ]
    assert found["state"] == {"test.total": b"1"}
    assert ran == []


def test_updates_of_a_key_that_nobody_knows_any_more_become_a_typed_error() -> None:
    # Nothing tells which of them the tool of the version before has used.
    forgotten, _other = (StateKey("test.forgotten", default=0) for _ in range(2))

    def tool_before() -> Any:
        @tool(effect="once")
        async def note(seconds: int, ctx: ToolContext) -> str:
            await asyncio.sleep(seconds)
            ctx.state.set(forgotten, seconds)
            return "noted"

        return note

    @tool(effect="once")
    async def note(seconds: int) -> str:
        """The same tool in a version that keeps no state."""
        return f"noted {seconds}"

    calls = ToolCalls([("note", {"seconds": 9}, "c1"), ("note", {"seconds": 1}, "c2")])

    async def scenario() -> str:
        store = shared_store()
        first = Process(store, [calls, "done"], tools=[tool_before()])
        execution = asyncio.create_task(first.engine.run(GO))
        await asyncio.sleep(5)
        first.line.cut()
        with pytest.raises(Dead):
            await execution
        await after_the_lease(store)
        result = await Process(store, [calls, "done"], tools=[note]).execute_next()
        assert result.termination == NaturalEnd()
        return texts(await history(store))[3]

    text = simulated(scenario)
    assert text.startswith("[unknown_key]")
    assert "noted" in text


class Ending(Plugin):
    """Ends the run in a phase; an observer makes that durable before the phase is over."""

    name = "ending"

    def __init__(self, phase: Phase) -> None:
        self._phase = phase

    def register(self, registrar: PluginRegistrar) -> None:
        registrar.hook(self._phase, self._end)
        registrar.observer(self._phase, _look)

    async def _end(self, context: Any) -> StateCommand | None:
        if context.step < 2:
            return None
        return StateCommand().update(RUN_LIFECYCLE, End(termination=BehaviorRequested()))


@sampled
@pytest.mark.parametrize(
    "phase", [Phase.STEP_START, Phase.BEFORE_INFERENCE, Phase.AFTER_INFERENCE, Phase.STEP_END]
)
def test_a_run_that_a_plugin_has_ended_stays_ended_after_a_crash(phase: Phase) -> None:
    def agent() -> dict[str, Any]:
        return {"plugins": [Counting(observes=True), Ending(phase)]}

    expected, commits = simulated(lambda: whole(TWO_STEPS, agent()))
    assert expected["record"]["termination"] == BehaviorRequested()
    for point in choose_cases(list(points(commits)), POINTS):
        found, _ = simulated(lambda point=point: crashed(TWO_STEPS, agent, point))
        assert found == expected, point


def test_a_resumed_call_that_was_over_is_not_run_again() -> None:
    ran: list[str] = []

    @tool(effect="once")
    async def ask(seconds: int, ctx: ToolContext) -> Any:
        if ctx.resume is None:
            return ctx.suspend("?")
        ran.append(ctx.call_id)
        await asyncio.sleep(seconds)
        return f"told {ctx.resume.result}"

    calls = ToolCalls([("ask", {"seconds": 9}, "c1"), ("ask", {"seconds": 1}, "c2")])

    async def scenario() -> list[str]:
        store = shared_store()
        first = Process(store, [calls, "done"], tools=[ask])
        waiting = await first.engine.run(GO)
        given = [
            (it.ticket_id, ToolCallResume(decision_id=it.call_id, result=it.call_id))
            for it in waiting.tickets
        ]
        await first.engine.decide(given)
        await asyncio.sleep(5)
        outcome = first.engine.active.of_run("r").outcome()  # type: ignore[union-attr]
        first.line.cut()
        with pytest.raises(Dead):
            await outcome
        await after_the_lease(store)
        await Process(store, [calls, "done"], tools=[ask]).execute_next()
        return texts(await history(store))[2:4]

    lost, kept = simulated(scenario)
    assert lost.startswith("[outcome_unknown]")
    assert kept == "told c2"
    assert ran == ["c1", "c2"]


def test_a_run_that_goes_on_with_its_last_answer_does_not_end_by_a_crash() -> None:
    script = [Chunks(["do", "ne"], delay_ms=2_000), "done again"]

    async def scenario(point: dict[str, int]) -> tuple[dict[str, Any], int]:
        store = shared_store()
        await store.enqueue(input_of())
        first = Process(store, script, **point)
        execution = asyncio.create_task(first.execute_next())
        await asyncio.sleep(1)
        await store.enqueue(input_of("wait", run_id="s", mode=InputMode.STEER))
        for holder in first.book.watched.values():
            holder.notify_input()
        try:
            await execution
        except Dead:
            if await after_the_lease(store):
                await Process(store, script).execute_next()
        return await history(store), len(first.line.commits)

    expected, commits = simulated(lambda: scenario({}))
    assert texts(expected) == ["go", "done", "wait", "done again"]
    # From the commit on that takes the message in, the run is the same whoever finishes it.
    for number in range(2, commits + 1):
        found, _ = simulated(lambda number=number: scenario({"cut_after": number}))
        assert found == expected, number


def test_budgets_hold_when_the_process_that_goes_on_crashes_as_well() -> None:
    script = [ToolCalls([("look", {"text": "x"}, f"c{n}")]) for n in range(9)]

    def agent() -> dict[str, Any]:
        return {"plugins": [Counting(observes=True)], "max_rounds": 3}

    async def scenario(point: dict[str, int]) -> dict[str, Any]:
        store, tools = shared_store(), Tools()
        await store.enqueue(input_of())
        for cut in (point, {"cut_after": 1}, {}):
            if await store.count_queued():
                process = Process(store, script, tools=tools.all, **agent(), **cut)
                with contextlib.suppress(Dead):
                    await process.execute_next()
                await after_the_lease(store)
        return await history(store)

    expected, commits = simulated(lambda: whole(script, agent()))
    for point in points(commits):
        assert simulated(lambda point=point: scenario(point)) == expected, point


class Greeting(Plugin):
    """Says in the state when its agent takes over and when it leaves."""

    def __init__(self, name: str) -> None:
        self.name = name

    def register(self, registrar: PluginRegistrar) -> None:
        registrar.key(NOTES)

    def on_activate(self, _agent: Any) -> StateCommand:
        return StateCommand().update(NOTES, f"{self.name} comes")

    def on_deactivate(self) -> StateCommand:
        return StateCommand().update(NOTES, f"{self.name} goes")


def test_a_handoff_happens_once_and_after_the_step_that_asked_for_it() -> None:
    ran: list[str] = []

    @tool(effect="idempotent")
    async def hand_over(ctx: ToolContext) -> str:
        ctx.state.set(ACTIVE_AGENT, "b")
        return "over to b"

    @tool(effect="idempotent")
    async def only_a(ctx: ToolContext) -> str:
        ran.append(ctx.agent.id)
        await asyncio.sleep(2)
        return "by a"

    @tool(effect="idempotent")
    async def only_b() -> str:
        return "by b"

    script = [
        ToolCalls([("hand_over", {}, "c1"), ("only_a", {}, "c2")]),
        ToolCalls([("only_b", {}, "c3")]),
        "done",
    ]

    def agent() -> dict[str, Any]:
        b = {"tools": [only_b], "plugins": [Greeting("b")]}
        return {"tools": [hand_over, only_a], "plugins": [Greeting("a")], "others": {"b": b}}

    async def scenario(point: dict[str, int]) -> tuple[dict[str, Any], int]:
        store = shared_store()
        first = Process(store, script, **agent(), **point)
        await store.enqueue(input_of())
        try:
            await first.execute_next()
        except Dead:
            if await after_the_lease(store):
                await Process(store, script, **agent()).execute_next()
        return await history(store), len(first.line.commits)

    expected, commits = simulated(lambda: scenario({}))
    assert texts(expected)[2:] == ["over to b", "by a", "", "by b", "done"]
    for point in points(commits):
        found, _ = simulated(lambda point=point: scenario(point))
        assert found == expected, point
    assert set(ran) == {"a"}


def test_budgets_count_what_was_done_before_the_crash() -> None:
    script = [ToolCalls([("look", {"text": "x"}, f"c{n}")]) for n in range(9)]

    def agent() -> dict[str, Any]:
        return {"max_rounds": 3, "plugins": [Counting(observes=True)]}

    expected, commits = simulated(lambda: whole(script, agent()))
    assert expected["record"]["steps"] == 3
    for point in points(commits):
        found, _ = simulated(lambda point=point: crashed(script, agent, point))
        assert found == expected, point


def test_a_run_that_kept_no_bookmark_goes_on_after_its_latest_answer() -> None:
    async def scenario() -> dict[str, Any]:
        store, tools = MemoryStore(clock=LoopClock()), Tools()
        with pytest.raises(Dead):
            await Process(store, TWO_STEPS, tools=tools.all, cut_after=2).engine.run(GO)
        again = Process(store, TWO_STEPS, tools=tools.all)
        result = await again.engine.run(RunRequest(thread_id="t", continue_run_id="r"))
        assert result.text == "done"
        assert again.asked == 2
        return await history(store)

    expected, _ = simulated(lambda: whole(TWO_STEPS, {}))
    assert texts(simulated(scenario)) == texts(expected)
