"""Whatever order parallel tools run in, their state is that of some serial order: the call order.

Programs are drawn at random: each call reads, sets, updates and clears keys of every kind, with
pauses in between, under a random effect. Each program runs under many random schedules.
"""

import asyncio
import random
from collections.abc import Iterator
from functools import partial
from typing import Any

import msgspec
from tests.sampling import choose_size, sampled

from awaken import Agent, AgentRuntime, StateKey, ToolContext, tool
from awaken.contracts.messages.message import Role
from awaken.contracts.storage.store import Commit, CommitReceipt
from awaken.stores.memory import MemoryStore
from awaken.testing import assert_valid_transcript
from awaken.testing.fakes import FakeClock, SequentialIds
from awaken.testing.scripted_model import ScriptedModel, ToolCalls
from awaken.testing.simulation import RandomOrder, SimulatedLoop, run

PROGRAMS, SCHEDULES = choose_size(50, 500), 10
EFFECTS = ("none", "idempotent", "once")

Op = tuple[str, str, int]
Program = list[tuple[str, list[Op]]]
"""Calls in order: the effect of the tool, and what it does."""

PLAIN = StateKey("plain", default=0, scope="thread")
SECOND = StateKey("second", default=7)
LOG = StateKey[list[int], int]("log", default=[], apply=lambda old, new: [*old, new])
SUM = StateKey("sum", default=0, apply=lambda old, new: old + new, merge="commutative")
UNION = StateKey[list[int], int](
    "union", default=[], apply=lambda old, new: sorted({*old, new}), merge="commutative"
)
KEYS: dict[str, StateKey[Any, Any]] = {key.name: key for key in (PLAIN, SECOND, LOG, SUM, UNION)}


class SlowStore(MemoryStore):
    """Gives everybody else a chance to run, before and after each commit."""

    async def commit(self, commit: Commit) -> CommitReceipt:
        await asyncio.sleep(0)
        receipt = await super().commit(commit)
        await asyncio.sleep(0)
        return receipt


def drawn(seed: int) -> Program:
    """A program of two to five calls that get into each other's way."""
    chance = random.Random(seed)
    names = chance.sample(sorted(KEYS), k=chance.randint(1, len(KEYS)))
    effects = chance.choice([EFFECTS, EFFECTS[:2], EFFECTS[2:]])
    program: Program = []
    for _ in range(chance.randint(2, 5)):
        ops: list[Op] = []
        for _ in range(chance.randint(1, 5)):
            verb = chance.choice(["get", "get", "write", "write", "clear", "pause", "pause"])
            ops.append((verb, chance.choice(names), chance.randint(1, 9)))
        program.append((chance.choice(effects), ops))
    return program


def obeying(ops: list[Op], state: Any, seen: list[Any]) -> Iterator[int]:
    """Do what a call is told; what it writes depends on what it saw. Yields its pauses."""
    for verb, name, number in ops:
        key = KEYS[name]
        if verb == "pause":
            yield number % 3
        elif verb == "get":
            seen.append(state.get(key))
        elif verb == "clear":
            state.clear(key)
        else:
            value = number + sum(len(str(value)) for value in seen)
            (state.set if key.apply is None else state.update)(key, value)


class Serial:
    """The state as calls would see it that run one after the other."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}

    def get(self, key: StateKey[Any, Any]) -> Any:
        return self.values.get(key.name, key.default)

    def update(self, key: StateKey[Any, Any], value: Any) -> None:
        self.values[key.name] = key.apply_update(self.get(key), value)

    set = update

    def clear(self, key: StateKey[Any, Any]) -> None:
        self.values.pop(key.name, None)


def tools() -> list[Any]:
    def made(effect: Any) -> Any:
        @tool(id=effect, effect=effect)
        async def obey(ops: list[Op], ctx: ToolContext) -> list[Any]:
            seen: list[Any] = []
            for pause in obeying(ops, ctx.state, seen):
                await asyncio.sleep(pause)
            return seen

        return obey

    return [made(effect) for effect in EFFECTS]


TOOLS = tools()


async def outcome(program: Program) -> tuple[list[str], dict[str, Any], bytes]:
    """Run a program once: the answers, the final state, and every byte that was stored."""
    calls = [(effect, {"ops": ops}) for effect, ops in program]
    agent = Agent("agent", model=ScriptedModel([ToolCalls(calls), "bye"]), tools=TOOLS)
    store, states = SlowStore(), []
    runtime = AgentRuntime([agent], store=store, clock=FakeClock(), ids=SequentialIds())
    async with runtime:
        async for event in runtime.stream("agent", "go", thread_id="t"):
            if event.__struct_config__.tag == "state_snapshot":
                states.append(event.snapshot["extensions"])  # type: ignore[union-attr]
    checkout = await store.checkout("t")
    assert checkout is not None
    assert_valid_transcript(checkout.messages)
    log = [entry.event for entry in await store.list_events("t")]
    final = {name: value for name, value in states[-1].items() if name in KEYS}
    everything = [list(checkout.messages), checkout.state, checkout.latest_run, log, final]
    answers = [it.text for it in checkout.messages if it.role is Role.TOOL]
    return answers, final, msgspec.json.encode(everything)


def check_serial(program: Program, answers: list[str], final: dict[str, Any]) -> int:
    """Replay the calls that succeeded in call order; return how many were refused."""
    serial, refused = Serial(), 0
    for (effect, ops), answer in zip(program, answers, strict=True):
        if answer.startswith("[state_conflict]"):
            assert effect == "once", "a repeatable tool is run again, not refused"
            refused += 1
            continue
        seen: list[Any] = []
        for _ in obeying(ops, serial, seen):
            pass
        assert msgspec.json.decode(answer) == seen
    assert final == serial.values
    return refused


@sampled
def test_any_schedule_gives_the_state_of_the_call_order_and_the_same_bytes() -> None:
    interleavings: set[int] = set()
    refused = written = 0
    for seed in range(PROGRAMS):
        program = drawn(seed)
        stored: set[bytes] = set()
        for schedule in range(SCHEDULES):
            loop = SimulatedLoop(RandomOrder(seed * SCHEDULES + schedule))
            answers, final, data = run(loop, partial(outcome, program))
            interleavings.add(loop.schedule_hash)
            stored.add(data)
            if len(stored) > 1 or not schedule:
                refused += check_serial(program, answers, final)
                written += len(final)
            assert len(stored) == 1, f"program {seed}: another schedule, other bytes: {program}"
    # The evidence is worth something: schedules differ, and so do the fates of the calls.
    assert len(interleavings) > PROGRAMS * SCHEDULES // 4
    assert refused > PROGRAMS // 10
    assert written > PROGRAMS
