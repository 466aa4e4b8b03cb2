"""Scheduled actions: queued with their command, done in their phase, or kept as dead letters."""

import logging
from typing import Any

import pytest

from awaken import Plugin, PluginRegistrar, StateCommand, StateKey
from awaken.contracts.errors import PhaseNotConverging, RunFailed
from awaken.contracts.phases import Phase
from awaken.contracts.plugins.loop_state import FAILED_ACTIONS, PENDING_ACTIONS
from awaken.contracts.plugins.plugin import PhaseContext, PhaseHook
from awaken.contracts.state.keys import EffectSpec, MutationBatch, ScheduledActionSpec, Snapshot
from awaken.runtime.limits import Limits
from awaken.runtime.phases.commands import EffectReport, submit
from awaken.runtime.phases.runner import PhaseReport
from awaken.runtime.run import Run

from .worlds import Made, play, runtime_of, with_run

LOG: StateKey[tuple[Any, ...], Any] = StateKey(
    "log", default=(), apply=lambda value, line: (*value, line)
)
COUNT_DOWN = ScheduledActionSpec[int]("count_down", Phase.STEP_START, int)
LATER = ScheduledActionSpec[int]("later", Phase.STEP_END, int)
LOST = ScheduledActionSpec[int]("lost", Phase.STEP_START, int)
PING = EffectSpec[int]("ping", int)


async def count_down(context: PhaseContext, left: int) -> StateCommand:
    """Log what is left, and schedule the next one; fails on a negative number."""
    if left < 0:
        raise ValueError(f"{left} is too few")
    command = StateCommand().update(LOG, left).emit(PING, left)
    return command.schedule(COUNT_DOWN, left - 1) if left else command


async def note_later(context: PhaseContext, number: int) -> StateCommand:
    return StateCommand().update(LOG, ("later", number, context.state(LOG)))


async def stale(_context: PhaseContext, base: int) -> StateCommand:
    return StateCommand(patch=MutationBatch(base_revision=base)).update(LOG, "never")


def counting(*hooks: PhaseHook) -> Plugin:
    async def ping(number: int, _snapshot: Snapshot) -> None:
        if number % 2:
            raise RuntimeError("odd")

    def declare(registrar: PluginRegistrar) -> None:
        registrar.key(LOG)
        registrar.action(COUNT_DOWN, count_down)
        registrar.action(LATER, note_later)
        registrar.action(LOST, stale)
        registrar.effect(PING, ping)
        for hook in hooks:
            registrar.hook(Phase.STEP_START, hook)

    return Made("counting", declare)


@pytest.mark.parametrize("generations", [1, 2, 16])
def test_actions_that_schedule_more_run_until_none_are_left(generations: int) -> None:
    async def use(run: Run) -> None:
        await submit(run, StateCommand().schedule(COUNT_DOWN, generations - 1))
        report = await play(run)
        assert run.state.get(LOG) == tuple(range(generations - 1, -1, -1))
        assert (report.rounds, report.processed) == (generations + 1, generations)
        evens = (generations + 1) // 2
        assert report.effects == EffectReport(
            attempted=generations, dispatched=evens, failed=generations - evens
        )
        assert run.state.get(PENDING_ACTIONS) == ()
        assert not run.has_work(Phase.STEP_START)

    with_run(use, counting())


@pytest.mark.parametrize(("limit", "generations"), [(Limits(), 17), (Limits(phase_rounds=3), 4)])
def test_actions_that_never_end_are_stopped_at_the_limit(limit: Limits, generations: int) -> None:
    async def use(run: Run) -> None:
        await submit(run, StateCommand().schedule(COUNT_DOWN, generations - 1))
        with pytest.raises(PhaseNotConverging) as refused:
            await play(run)
        assert refused.value.fields == {"phase": "step_start", "max_rounds": limit.phase_rounds}
        assert len(run.state.get(LOG)) == limit.phase_rounds

    with_run(use, counting(), limits=limit)


def test_an_action_waits_for_its_own_phase_and_sees_what_happened_until_then() -> None:
    async def use(run: Run) -> None:
        command = StateCommand().schedule(LATER, 1).schedule(COUNT_DOWN, 0).schedule(LATER, 2)
        await submit(run, command)
        assert await play(run, Phase.RUN_START) == PhaseReport(rounds=1, skipped=3)
        assert (await play(run)).processed == 1
        assert (await play(run)).skipped == 2
        assert (await play(run, Phase.STEP_END)).processed == 2
        first = ("later", 1, (0,))
        assert run.state.get(LOG) == (0, first, ("later", 2, (0, first)))

    with_run(use, counting())


def test_a_hooks_updates_are_there_when_the_action_it_scheduled_runs() -> None:
    seen: list[Any] = []

    async def hook(_context: PhaseContext) -> StateCommand:
        return StateCommand().update(LOG, "hook").schedule(COUNT_DOWN, 0)

    async def look(context: PhaseContext) -> StateCommand | None:
        seen.append(context.state(PENDING_ACTIONS))
        return None

    async def use(run: Run) -> tuple[Any, ...]:
        await play(run)
        return run.state.get(LOG)

    assert with_run(use, counting(hook, look)) == ("hook", 0)
    assert seen == [()]


def test_updates_and_actions_become_visible_in_one_commit_under_ids_of_the_runtime() -> None:
    async def use(run: Run) -> None:
        notices: list[Any] = []
        run.state.on_commit(notices.append)
        command = StateCommand().update(LOG, 1).schedule(LATER, 1).schedule(LATER, 2)
        await submit(run, command)
        (notice,) = notices
        queued = notice.snapshot.get(PENDING_ACTIONS)
        assert notice.snapshot.get(LOG) == (1,)
        assert [entry.action.payload for entry in queued] == [1, 2]
        assert len({entry.id for entry in queued}) == 2
        assert all(entry.id.startswith("id-") for entry in queued)

    with_run(use, counting())


@pytest.mark.parametrize(
    ("command", "error"),
    [
        (StateCommand().schedule(COUNT_DOWN, -1), "ValueError: -1 is too few"),
        (
            StateCommand().schedule(ScheduledActionSpec("count_down", Phase.STEP_START), "x"),
            "ValidationError: Expected `int`, got `str`",
        ),
        (StateCommand().schedule(LOST, 99), "RevisionConflict: State is at revision"),
    ],
)
def test_what_cannot_be_done_becomes_a_dead_letter_and_the_rest_goes_on(
    command: StateCommand, error: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def use(run: Run) -> None:
        await submit(run, command.schedule(COUNT_DOWN, 0))
        report = await play(run)
        assert (report.processed, report.failed, report.rounds) == (1, 1, 2)
        assert run.state.get(LOG) == (0,)
        assert run.state.get(PENDING_ACTIONS) == ()
        (letter,) = run.state.get(FAILED_ACTIONS)
        assert letter.action == command.actions[0]
        assert letter.error.startswith(error)

    with caplog.at_level(logging.CRITICAL):
        with_run(use, counting())


def test_an_action_whose_handler_is_gone_is_a_dead_letter_too() -> None:
    async def use(run: Run) -> None:
        await submit(run, StateCommand().schedule(COUNT_DOWN, 0))
        del run.agent.env.actions["count_down"]
        assert (await play(run)).failed == 1
        assert run.state.get(FAILED_ACTIONS)[0].action.key == "count_down"

    with_run(use, counting())


def test_a_handler_finds_its_plugins_own_object() -> None:
    seen: list[Any] = []

    async def handle(context: PhaseContext, _payload: int) -> None:
        seen.append((context.own, context.run.thread_id))

    def declare(registrar: PluginRegistrar) -> None:
        registrar.action(COUNT_DOWN, handle)

    async def use(run: Run) -> None:
        await submit(run, StateCommand().schedule(COUNT_DOWN, 0))
        await play(run)

    with_run(use, Made("p", declare, own=lambda run, _agent: f"own of {run.run_id}"))
    assert seen == [("own of id-000001", "t")]


def test_a_phase_that_does_not_converge_fails_the_run_and_says_so() -> None:
    async def hook(_context: PhaseContext) -> StateCommand:
        return StateCommand().schedule(COUNT_DOWN, 99)

    async def use(_run: Run) -> None:
        async with runtime_of(counting(hook)) as runtime:
            with pytest.raises(RunFailed) as failed:
                await runtime.run("a", "hi")
            assert failed.value.cause_code == "phase_not_converging"

    with_run(use)
