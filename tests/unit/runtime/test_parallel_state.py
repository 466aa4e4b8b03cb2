"""State under parallel tools: the same end for every schedule, and nothing lost in silence."""

import asyncio
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from awaken import Agent, AgentRuntime, StateKey, ToolContext, ToolResult, tool
from awaken.contracts.messages.message import Role
from awaken.testing.scripted_model import ScriptedModel, ToolCalls

SUM: StateKey[int, int] = StateKey(
    "sum", default=0, scope="thread", apply=lambda value, more: value + more, merge="commutative"
)
LOG: StateKey[tuple[int, ...], int] = StateKey(
    "log", default=(), type=tuple[int, ...], scope="thread", apply=lambda value, n: (*value, n)
)
NOTE: StateKey[int, int] = StateKey("note", default=0, scope="thread")
KEYS: dict[str, StateKey[Any, Any]] = {"sum": SUM, "log": LOG, "note": NOTE}


class Plan(msgspec.Struct, frozen=True):
    """What one call does: which keys it reads, then which it writes."""

    reads: tuple[str, ...]
    writes: tuple[str, ...]
    is_repeatable: bool


@dataclass
class Batch:
    """Calls that run side by side and finish in a given order."""

    plans: list[Plan]
    order: list[int]

    def __post_init__(self) -> None:
        self.turns = [asyncio.Event() for _ in self.plans]
        self.turns[self.order[0]].set()

    async def act(self, index: int, ctx: ToolContext) -> dict[str, Any]:
        plan = self.plans[index]
        seen = {name: ctx.state.get(KEYS[name]) for name in plan.reads}
        for name in plan.writes:
            ctx.state.update(KEYS[name], index + 1)
        await self.turns[index].wait()
        for later in self.order[self.order.index(index) + 1 :][:1]:
            self.turns[later].set()
        return seen

    def run(self, **agent: Any) -> tuple[dict[str, Any], list[Any]]:
        @tool(effect="none")
        async def again(index: int, ctx: ToolContext) -> dict[str, Any]:
            """May run twice."""
            return await self.act(index, ctx)

        @tool(effect="once")
        async def once(index: int, ctx: ToolContext) -> dict[str, Any]:
            """Must not."""
            return await self.act(index, ctx)

        names = ["again" if plan.is_repeatable else "once" for plan in self.plans]
        calls = [(name, {"index": index}) for index, name in enumerate(names)]
        model = ScriptedModel([ToolCalls(calls), "done"])
        runtime = AgentRuntime([Agent("a", model=model, tools=[again, once], **agent)])
        return asyncio.run(self._outcome(runtime))

    async def _outcome(self, runtime: AgentRuntime) -> tuple[dict[str, Any], list[Any]]:
        await runtime.run("a", "go", thread_id="t")
        stored = await runtime.store.checkout("t")
        assert stored is not None
        state = {
            name: key.decode(stored.state[name])
            for name, key in KEYS.items()
            if name in stored.state
        }
        texts = [m.text for m in stored.messages if m.role is Role.TOOL]
        return state, [
            text if text.startswith("[") else msgspec.json.decode(text) for text in texts
        ]


def expected(plans: list[Plan]) -> tuple[dict[str, Any], list[Any]]:
    """What happens one after another; a call that must not run twice loses what it relied on."""
    state: dict[str, Any] = {}
    written: set[str] = set()
    results: list[Any] = []
    for index, plan in enumerate(plans):
        is_disturbed = bool(written & set(plan.reads)) or bool(
            written & set(plan.writes) & {"log", "note"}
        )
        if is_disturbed and not plan.is_repeatable:
            results.append("[state_conflict]")
            continue
        shown = {name: state.get(name, KEYS[name].default) for name in plan.reads}
        results.append(msgspec.to_builtins(shown))
        for name in plan.writes:
            state[name] = KEYS[name].apply_update(state.get(name, KEYS[name].default), index + 1)
        written |= set(plan.writes)
    return state, results


keys = st.lists(st.sampled_from(sorted(KEYS)), unique=True, max_size=2).map(tuple)
plans = st.builds(Plan, reads=keys, writes=keys, is_repeatable=st.booleans())


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_parallel_calls_end_as_if_they_had_run_one_after_another(data: st.DataObject) -> None:
    batch = data.draw(st.lists(plans, min_size=1, max_size=4))
    order = data.draw(st.permutations(range(len(batch))))
    state, results = Batch(batch, order).run()
    wanted_state, wanted = expected(batch)
    assert state == wanted_state
    assert [
        text[:16] if isinstance(text, str) else text for text in results
    ] == msgspec.json.decode(msgspec.json.encode(wanted))


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 1, 0]])
def test_of_calls_that_may_not_run_twice_the_first_keeps_an_exclusive_key(order: list[int]) -> None:
    state, results = Batch([Plan((), ("log",), False)] * 3, order).run()
    assert state == {"log": (1,)}
    assert results[0] == {}
    assert all(text.startswith("[state_conflict]") for text in results[1:])


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 1, 0]])
def test_commutative_keys_and_different_keys_never_conflict(order: list[int]) -> None:
    batch = [
        Plan((), ("sum", "log"), False),
        Plan((), ("sum", "note"), False),
        Plan((), ("sum",), False),
    ]
    state, results = Batch(batch, order).run()
    assert state == {"sum": 6, "log": (1,), "note": 2}
    assert results == [{}, {}, {}]


def test_one_after_another_there_is_nothing_to_disturb() -> None:
    batch = [Plan(("log",), ("log",), False)] * 3
    state, results = Batch(batch, [0, 1, 2]).run(parallel_tools=False)
    assert state == {"log": (1, 2, 3)}
    assert results == [{"log": []}, {"log": [1]}, {"log": [1, 2]}]


COUNT: StateKey[int, int] = StateKey("count", default=0, scope="thread")


@pytest.mark.parametrize("scope", ["thread", "run"])
def test_a_key_that_only_tools_use_keeps_its_value_as_long_as_its_scope_lasts(scope: str) -> None:
    key: StateKey[int, int] = StateKey("visits", default=0, scope=scope)

    @tool(effect="none")
    async def visit(ctx: ToolContext) -> int:
        """Count a visit; the count is read, then written."""
        seen = ctx.state.get(key)
        ctx.state.set(key, seen + 1)
        return seen

    model = ScriptedModel([ToolCalls([("visit", {})]), ToolCalls([("visit", {})]), "x"], cycle=True)

    async def main() -> list[str]:
        runtime = AgentRuntime([Agent("a", model=model, tools=[visit])])
        for _ in range(2):
            await runtime.run("a", "go", thread_id="t")
        records = await runtime.messages("t")
        return [r.message.text for r in records if r.message.role is Role.TOOL]

    assert asyncio.run(main()) == (["0", "1", "2", "3"] if scope == "thread" else ["0", "1"] * 2)


@pytest.mark.parametrize("effect", ["none", "idempotent", "once"])
@pytest.mark.parametrize("value", [object(), "seven", "\ud800", float("nan")])
def test_a_value_that_cannot_be_kept_is_an_error_of_its_call_and_harms_no_later_run(
    effect: str, value: Any
) -> None:
    @tool(effect=effect)
    async def poke(ctx: ToolContext) -> str:
        """Put nonsense into the state."""
        ctx.state.set(COUNT, value)
        return "ok"

    @tool(effect="none")
    async def peek(ctx: ToolContext) -> int:
        """Read the state."""
        return ctx.state.get(COUNT)

    script = [ToolCalls([("poke", {})]), ToolCalls([("peek", {})]), "done"]
    agent = Agent("a", model=ScriptedModel(script, cycle=True), tools=[poke, peek])

    async def main() -> list[str]:
        runtime = AgentRuntime([agent])
        for _ in range(2):
            assert (await runtime.run("a", "go", thread_id="t")).text == "done"
        records = await runtime.messages("t")
        return [r.message.text for r in records if r.message.role is Role.TOOL]

    texts = asyncio.run(main())
    assert texts[1::2] == ["0", "0"]
    assert all("count" in text or "update" in text for text in texts[::2])


def test_values_that_are_not_persistent_may_be_anything() -> None:
    handle: StateKey[Any, Any] = StateKey("handle", default=None, persistent=False)

    @tool(effect="once")
    async def connect(ctx: ToolContext) -> ToolResult:
        """Keep a handle for the rest of the run."""
        ctx.state.set(handle, object())
        return ToolResult.success("connect", "ok")

    model = ScriptedModel([ToolCalls([("connect", {})]), "done"])
    result = asyncio.run(AgentRuntime([Agent("a", model=model, tools=[connect])]).run("a", "go"))
    assert result.text == "done"
