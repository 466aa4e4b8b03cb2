"""Scheduled actions: executed in their phase until none are left, failures kept as dead letters."""

import asyncio
import logging

import msgspec

from awaken.authoring.functions import is_interruption
from awaken.contracts.errors import PhaseNotConverging
from awaken.contracts.phases import Phase
from awaken.contracts.plugins.loop_state import FAILED_ACTIONS, PENDING_ACTIONS
from awaken.contracts.plugins.plugin import PhaseContext
from awaken.contracts.record import Record
from awaken.contracts.state.keys import FailedAction, QueuedAction, StateCommand
from awaken.redaction import describe_error, make_loggable
from awaken.runtime.run import Run

from .commands import EffectReport, submit

logger = logging.getLogger(__name__)


class QueueReport(Record, frozen=True, kw_only=True):
    """What happened to the scheduled actions of a phase."""

    rounds: int = 0
    processed: int = 0
    skipped: int = 0
    """Actions that wait for another phase."""
    failed: int = 0
    effects: EffectReport = EffectReport()


async def execute_actions(run: Run, phase: Phase, context: PhaseContext) -> QueueReport:
    """Execute the phase's actions, also those they schedule, until none are left.

    Actions of an agent that has handed the run over are dropped.

    Raises:
        PhaseNotConverging: There are still actions after the last round.
    """
    _drop_foreign(run)
    rounds = processed = failed = 0
    effects = EffectReport()
    limit = run.services.limits.phase_rounds
    while True:
        rounds += 1
        pending = run.state.get(PENDING_ACTIONS)
        due = [entry for entry in pending if entry.action.phase is phase]
        if not due:
            skipped = len(pending) if rounds == 1 else 0
            return QueueReport(
                rounds=rounds, processed=processed, skipped=skipped, failed=failed, effects=effects
            )
        if rounds > limit:
            raise PhaseNotConverging(phase=phase.value, max_rounds=limit)
        for entry in due:
            report = await _execute(run, entry, context)
            if report is None:
                failed += 1
            else:
                processed += 1
                effects = effects.plus(report)


def _drop_foreign(run: Run) -> None:
    """Drop the actions that another agent's plugins scheduled: they belong to that agent's steps.

    This happens here and not at the handoff, because a waiting run may continue with another agent
    without a handoff.
    """
    for entry in run.state.get(PENDING_ACTIONS):
        if entry.agent_id not in (None, run.agent.spec.id):
            logger.info(
                "Action '%s' of agent '%s' is dropped: the run was handed over.",
                entry.action.key,
                entry.agent_id,
            )
            run.state.update(PENDING_ACTIONS, ("remove", entry.id))


async def _execute(run: Run, entry: QueuedAction, context: PhaseContext) -> EffectReport | None:
    """Execute one action; None when it became a dead letter."""
    done = StateCommand().update(PENDING_ACTIONS, ("remove", entry.id))
    try:
        plugin, spec, handler = run.agent.env.actions[entry.action.key]
        payload = msgspec.convert(entry.action.payload, spec.payload_type)
        fresh = msgspec.structs.replace(
            context,
            snapshot=run.state.snapshot(),
            own=run.own.get(plugin),
            prepared=run.agent.env.prepared.get(plugin),
        )
        async with asyncio.timeout(run.services.limits.hook_ms / 1000):
            command = await handler(fresh, payload) or StateCommand()
        return await submit(run, command.extend(done))
    except BaseException as error:
        if is_interruption(error):
            raise
        logger.warning("Action '%s' failed.", entry.action.key, exc_info=make_loggable(error))
        text = describe_error(error)
        failure = FailedAction(id=entry.id, action=entry.action, error=text)
        await submit(run, done.update(FAILED_ACTIONS, failure))
        return None
