"""One phase of a run: gather, apply, execute, observe.

Hooks run side by side on one frozen snapshot and are merged in registration order. A hook that
lost an exclusive key to an earlier one is run again, alone, on a fresh snapshot; that is why
hooks must be pure. A phase without hooks and actions costs two lookups.
"""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec

from awaken.authoring.functions import is_interruption
from awaken.contracts.errors import AwakenError, PluginFailed
from awaken.contracts.phases import Phase
from awaken.contracts.plugins.plugin import (
    AfterToolExecuteContext,
    BeforeToolExecuteContext,
    PhaseContext,
    PhaseHook,
    PhaseObserver,
)
from awaken.contracts.record import Record
from awaken.contracts.state.keys import StateCommand
from awaken.redaction import describe_error
from awaken.runtime.primitives.task_groups import gather_all
from awaken.runtime.run import Run

from .commands import EffectReport, submit
from .queue import execute_actions


class PhaseReport(Record, frozen=True, kw_only=True):
    """What a phase did."""

    rounds: int = 0
    processed: int = 0
    skipped: int = 0
    failed: int = 0
    effects: EffectReport = EffectReport()


async def run_phase(run: Run, phase: Phase, context: PhaseContext) -> PhaseReport:
    """Run one phase; the context's snapshot is the one all hooks see.

    Raises:
        StateError: A command could not be applied, or the actions did not converge.
    """
    env = run.agent.env
    effects = await _gather(run, env.hooks.get(phase, ()), context)
    report = await execute_actions(run, phase, context)
    _note(run, phase, context)
    if phase in env.observers:
        # Observers have effects: what they act on is durable before they run.
        await run.flush()
    for plugin, observer in env.observers.get(phase, ()):
        await _observe(run, plugin, observer, _fresh(run, context))
    return PhaseReport(
        rounds=report.rounds,
        processed=report.processed,
        skipped=report.skipped,
        failed=report.failed,
        effects=effects.plus(report.effects),
    )


async def run_hooks_of(run: Run, plugin: str, phase: Phase, context: PhaseContext) -> None:
    """Run one plugin's hooks of a phase, and what they schedule; the phase itself is not run."""
    hooks = [it for it in run.agent.env.hooks.get(phase, ()) if it[0] == plugin]
    if hooks:
        await _gather(run, hooks, context)
        await execute_actions(run, phase, context)


def _note(run: Run, phase: Phase, context: PhaseContext) -> None:
    """Record that the hooks have run, before anything can make their work durable."""
    if isinstance(context, BeforeToolExecuteContext):
        run.step.hooked = run.step.hooked | {context.call.id}
    elif isinstance(context, AfterToolExecuteContext):
        run.step.pending_after_hook = None
    else:
        run.step.passed = run.step.passed | {phase}


async def _gather(
    run: Run, hooks: Sequence[tuple[str, PhaseHook]], context: PhaseContext
) -> EffectReport:
    if not hooks:
        return EffectReport()
    commands = await gather_all(
        [partial(_call, run, plugin, hook, context) for plugin, hook in hooks]
    )
    merged, losers = _merge_commands(commands)
    report = await submit(run, merged)
    for index in losers:
        plugin, hook = hooks[index]
        again = await _call(run, plugin, hook, _fresh(run, context))
        report = report.plus(await submit(run, again))
    return report


async def _call(run: Run, plugin: str, hook: PhaseHook, context: PhaseContext) -> StateCommand:
    """Run a hook within its time limit; a failure is reported with the plugin's name.

    Raises:
        PluginFailed: The hook raised, or returned something other than a command.
    """
    what = f"A hook for {type(context).__name__}"
    try:
        async with asyncio.timeout(run.services.limits.hook_ms / 1000):
            command = await hook(_context_for(run, plugin, context))
    except AwakenError:
        raise
    except BaseException as error:
        if is_interruption(error):
            raise
        problem = f"raised {describe_error(error)}"
        raise PluginFailed(what=what, plugin=plugin, problem=problem) from error
    if command is not None and not isinstance(command, StateCommand):
        problem = f"returned {type(command).__name__}; return a StateCommand or nothing"
        raise PluginFailed(what=what, plugin=plugin, problem=problem)
    return command or StateCommand()


async def _observe(run: Run, plugin: str, observer: PhaseObserver, context: PhaseContext) -> None:
    what = f"An observer of {type(context).__name__}"
    try:
        async with asyncio.timeout(run.services.limits.hook_ms / 1000):
            await observer(_context_for(run, plugin, context))
    except AwakenError:
        raise
    except BaseException as error:
        if is_interruption(error):
            raise
        problem = f"raised {describe_error(error)}"
        raise PluginFailed(what=what, plugin=plugin, problem=problem) from error


def _merge_commands(commands: Sequence[StateCommand]) -> tuple[StateCommand, list[int]]:
    """Join the commands that do not conflict; return the indexes of the others."""
    merged = StateCommand()
    taken: set[str] = set()
    losers = []
    for index, command in enumerate(commands):
        exclusive = {op.key.name for op in command.patch.ops if not op.key.is_commutative}
        if exclusive & taken:
            losers.append(index)
            continue
        taken |= exclusive
        merged = merged.extend(command)
    return merged, losers


def _context_for(run: Run, plugin: str, context: PhaseContext) -> PhaseContext:
    own: Any = run.own.get(plugin)
    prepared: Any = run.agent.env.prepared.get(plugin)
    if own is None and prepared is None:
        return context
    return msgspec.structs.replace(context, own=own, prepared=prepared)


def _fresh(run: Run, context: PhaseContext) -> PhaseContext:
    return msgspec.structs.replace(context, snapshot=run.state.snapshot())
