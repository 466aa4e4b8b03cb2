"""One phase: hooks side by side on one snapshot, merged in order, effects after the commit."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from awaken import Plugin, PluginRegistrar, StateCommand, StateKey
from awaken.contracts.errors import (
    KeyCodecError,
    PluginFailed,
    RevisionConflict,
    UnknownHandler,
    UnknownKey,
)
from awaken.contracts.lifecycle import NaturalEnd
from awaken.contracts.messages.message import ToolCall
from awaken.contracts.phases import Phase
from awaken.contracts.plugins.plugin import PhaseContext, PhaseHook
from awaken.contracts.state.keys import EffectSpec, MutationBatch, ScheduledActionSpec, Snapshot
from awaken.contracts.tool_results import ToolResult
from awaken.contracts.tools.tool import ToolKind
from awaken.runtime.phases.commands import EffectReport, submit
from awaken.runtime.phases.runner import PhaseReport
from awaken.runtime.run import Run

from .worlds import CONTEXTS, Made, play, with_run

SUM: StateKey[int, int] = StateKey(
    "sum", default=0, apply=lambda value, more: value + more, merge="commutative"
)
LOG: StateKey[tuple[str, ...], str] = StateKey(
    "log", default=(), type=tuple[str, ...], apply=lambda value, line: (*value, line)
)
NOTE: StateKey[str, str] = StateKey("note", default="")
PING = EffectSpec[int]("ping", int)
ORPHAN = EffectSpec[int]("orphan", int)
ORPHAN_ACTION = ScheduledActionSpec[int]("orphan", Phase.STEP_START, int)


def hooked(
    *hooks: PhaseHook,
    phase: Phase = Phase.STEP_START,
    name: str = "p",
    pings: list[Any] | None = None,
) -> Plugin:
    """A plugin with hooks; `pings` takes what its effect handler sees."""

    async def ping(payload: int, snapshot: Snapshot) -> None:
        if payload < 0:
            raise RuntimeError("no")
        if pings is not None:
            pings.append((payload, snapshot.get(SUM)))

    def declare(registrar: PluginRegistrar) -> None:
        for key in (SUM, LOG, NOTE):
            registrar.key(key)
        registrar.effect(PING, ping)
        for hook in hooks:
            registrar.hook(phase, hook)

    return Made(name, declare)


def saying(command: StateCommand | None) -> PhaseHook:
    async def hook(_context: PhaseContext) -> StateCommand | None:
        return command

    return hook


def logging(
    line: str, seen: list[Any] | None = None, wait: Callable[[], Any] | None = None
) -> PhaseHook:
    """A hook that adds a line to the exclusive log; notes what it saw there."""

    async def hook(context: PhaseContext) -> StateCommand:
        if seen is not None:
            seen.append((line, context.state(LOG)))
        if wait is not None:
            await wait()
        return StateCommand().update(LOG, line)

    return hook


async def log_after(run: Run) -> tuple[tuple[str, ...], int, PhaseReport]:
    before = run.state.revision
    report = await play(run)
    return run.state.get(LOG), run.state.revision - before, report


@pytest.mark.parametrize("phase", [phase for phase in Phase if phase is not Phase.TOOL_GATE])
def test_every_phase_can_run_without_hooks_and_does_nothing(phase: Phase) -> None:
    async def use(run: Run) -> None:
        more: dict[str, Any] = {"call": ToolCall(id="c", name="n"), "tool_kind": ToolKind.OTHER}
        more |= {"result": ToolResult.success("n", 1), "response": None}
        more |= {"termination": NaturalEnd(), "tool_ids": ()}
        fits = {name: more[name] for name in more if name in CONTEXTS[phase].__struct_fields__}
        assert not run.has_work(phase)
        before = run.state.revision
        assert await play(run, phase, **fits) == PhaseReport(rounds=1)
        assert run.state.revision == before

    with_run(use)


def test_hooks_act_in_their_own_phase_only_and_not_when_the_filter_leaves_them_out() -> None:
    starts = hooked(saying(StateCommand().update(SUM, 1)))
    ends = Made("q", lambda r: r.hook(Phase.STEP_END, saying(StateCommand().update(SUM, 10))))

    async def use(run: Run) -> tuple[int, int, int]:
        totals = []
        for phase in (Phase.STEP_START, Phase.STEP_END, Phase.RUN_START):
            await play(run, phase)
            totals.append(run.state.get(SUM))
        return tuple(totals)

    assert with_run(use, starts, ends) == (1, 11, 11)


@pytest.mark.parametrize("command", [None, StateCommand()])
def test_hooks_with_nothing_to_say_leave_no_trace(command: StateCommand | None) -> None:
    async def use(run: Run) -> None:
        before = run.state.revision
        assert await play(run) == PhaseReport(rounds=1)
        assert run.state.revision == before

    with_run(use, hooked(saying(command), saying(command)))


def test_hooks_that_do_not_disturb_each_other_make_one_commit_in_registration_order() -> None:
    seen: list[Any] = []
    pings: list[Any] = []
    last_is_done = asyncio.Event()

    async def first(context: PhaseContext) -> StateCommand:
        await last_is_done.wait()
        seen.append(context.state(SUM))
        return StateCommand().update(SUM, 1).update(NOTE, "x").emit(PING, 1)

    async def last(context: PhaseContext) -> StateCommand:
        seen.append(context.state(SUM))
        last_is_done.set()
        return StateCommand().update(SUM, 2).emit(PING, 2)

    async def use(run: Run) -> tuple[int, str]:
        before = run.state.revision
        report = await play(run)
        assert run.state.revision == before + 1
        assert report == PhaseReport(rounds=1, effects=EffectReport(attempted=2, dispatched=2))
        return run.state.get(SUM), run.state.get(NOTE)

    assert with_run(use, hooked(first, last, pings=pings)) == (3, "x")
    assert seen == [0, 0]
    assert pings == [(1, 3), (2, 3)]


def test_the_loser_of_an_exclusive_key_runs_again_on_what_the_winner_left() -> None:
    seen: list[Any] = []
    hooks = [
        logging("a", seen),
        logging("b", seen),
        saying(StateCommand().update(SUM, 1)),
        logging("c", seen),
    ]
    log, commits, _ = with_run(log_after, hooked(*hooks))
    assert log == ("a", "b", "c")
    assert commits == 3
    assert seen == [
        ("a", ()), ("b", ()), ("c", ()),
        ("b", ("a",)), ("c", ("a", "b")),
    ]  # fmt: skip


@pytest.mark.parametrize("hooks", [[logging("a")], [saying(StateCommand().update(SUM, 1))] * 2])
def test_one_hook_alone_or_a_commutative_key_needs_no_second_run(hooks: list[PhaseHook]) -> None:
    _, commits, report = with_run(log_after, hooked(*hooks))
    assert (commits, report.rounds) == (1, 1)


def test_effects_of_winners_and_losers_all_run_once() -> None:
    pings: list[Any] = []
    hooks = [
        saying(StateCommand().update(LOG, "a").update(SUM, 1).emit(PING, 1)),
        saying(StateCommand().update(LOG, "b").update(SUM, 1).emit(PING, 2)),
    ]
    _, _, report = with_run(log_after, hooked(*hooks, pings=pings))
    assert pings == [(1, 1), (2, 2)]
    assert report.effects == EffectReport(attempted=2, dispatched=2, failed=0)


def in_turn(order: list[int], commands: list[StateCommand]) -> list[PhaseHook]:
    """Hooks that finish in the given order."""
    turns = [asyncio.Event() for _ in order]
    turns[order[0]].set()

    def hook(index: int) -> PhaseHook:
        async def waiting(_context: PhaseContext) -> StateCommand:
            await turns[index].wait()
            for later in order[order.index(index) + 1 :][:1]:
                turns[later].set()
            return commands[index]

        return waiting

    return [hook(index) for index in range(len(order))]


@given(
    st.permutations(range(4)),
    st.lists(st.sampled_from(["log", "note", "sum"]), min_size=4, max_size=4),
)
@settings(max_examples=30, deadline=None)
def test_whatever_order_hooks_finish_in_the_state_is_the_same(
    order: list[int], names: list[str]
) -> None:
    keys: dict[str, Any] = {"log": LOG, "note": NOTE, "sum": SUM}
    updates = [index if name == "sum" else str(index) for index, name in enumerate(names)]
    commands = [
        StateCommand().update(keys[name], update)
        for name, update in zip(names, updates, strict=True)
    ]

    async def use(run: Run) -> tuple[Any, ...]:
        before = run.state.revision
        await play(run)
        return (*(run.state.get(key) for key in (LOG, NOTE, SUM)), run.state.revision - before)

    said = {key: [u for name, u in zip(names, updates, strict=True) if name == key] for key in keys}
    losers = max(0, len(said["log"]) - 1) + max(0, len(said["note"]) - 1)
    expected = (tuple(said["log"]), "".join(said["note"][-1:]), sum(said["sum"]), 1 + losers)
    assert with_run(use, hooked(*in_turn(order, commands))) == expected


class First(Exception):
    """What the first hook raises."""


class Second(Exception):
    """What the second hook raises."""


def test_the_first_failure_in_registration_order_fails_the_phase_and_nothing_is_kept() -> None:
    second_failed = asyncio.Event()

    async def first(_context: PhaseContext) -> StateCommand:
        await second_failed.wait()
        for _ in range(5):
            # The other hook has failed, and everybody could know by now.
            await asyncio.sleep(0)
        raise First

    async def second(_context: PhaseContext) -> StateCommand:
        second_failed.set()
        raise Second

    async def use(run: Run) -> None:
        before = run.state.revision
        with pytest.raises(PluginFailed, match="First"):
            await play(run)
        assert (run.state.revision, run.state.get(SUM)) == (before, 0)

    with_run(use, hooked(saying(StateCommand().update(SUM, 1)), first, second))


def test_a_cancelled_phase_cancels_its_hooks_and_keeps_nothing() -> None:
    started, ended = asyncio.Event(), asyncio.Event()

    async def endless(_context: PhaseContext) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def use(run: Run) -> None:
        task = asyncio.ensure_future(play(run))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ended.is_set()
        assert run.state.get(SUM) == 0

    with_run(use, hooked(saying(StateCommand().update(SUM, 1)), endless))


def test_a_failing_effect_stops_no_other_and_is_counted() -> None:
    pings: list[Any] = []

    async def use(run: Run) -> EffectReport:
        command = StateCommand().update(SUM, 5).emit(PING, 1).emit(PING, -1)
        odd = StateCommand().emit(EffectSpec[Any]("ping"), "no number")
        return await submit(run, command.extend(odd).emit(PING, 2))

    report = with_run(use, hooked(pings=pings))
    assert report == EffectReport(attempted=4, dispatched=2, failed=2)
    assert pings == [(1, 5), (2, 5)]


@pytest.mark.parametrize(
    ("command", "error"),
    [
        (StateCommand().update(SUM, 1).emit(ORPHAN, 1), UnknownHandler),
        (StateCommand().update(SUM, 1).schedule(ORPHAN_ACTION, 1), UnknownHandler),
        (StateCommand().update(SUM, 1).update(StateKey("x", default=0), 1), UnknownKey),
        (StateCommand().update(SUM, 1).update(NOTE, object()), KeyCodecError),
        (StateCommand(patch=MutationBatch(base_revision=99)).update(SUM, 1), RevisionConflict),
    ],
)
def test_a_command_that_cannot_be_done_whole_is_not_begun(
    command: StateCommand, error: type[Exception]
) -> None:
    pings: list[Any] = []

    async def use(run: Run) -> None:
        before = run.state.snapshot()
        with pytest.raises(error):
            await submit(run, command.emit(PING, 1))
        assert run.state.snapshot().values == before.values
        assert run.state.revision == before.revision

    with_run(use, hooked(pings=pings))
    assert pings == []


def test_observers_run_once_after_everything_is_applied_and_see_it() -> None:
    seen: list[Any] = []

    async def observe(context: PhaseContext) -> None:
        seen.append(context.state(LOG))

    def declare(registrar: PluginRegistrar) -> None:
        registrar.observer(Phase.STEP_START, observe)

    with_run(log_after, Made("eye", declare), hooked(logging("a"), logging("b")))
    assert seen == [("a", "b")]
