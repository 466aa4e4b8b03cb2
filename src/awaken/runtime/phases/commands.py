"""Applying a command: the whole command is checked, then committed, then its effects run."""

import asyncio
import logging

import msgspec

from awaken.authoring.functions import is_interruption
from awaken.contracts.errors import UnknownHandler
from awaken.contracts.plugins.loop_state import PENDING_ACTIONS
from awaken.contracts.record import Record
from awaken.contracts.state.keys import MutationBatch, QueuedAction, StateCommand, Update
from awaken.redaction import make_loggable
from awaken.runtime.run import Run

logger = logging.getLogger(__name__)


class EffectReport(Record, frozen=True, kw_only=True):
    """How many effects were attempted, and how many of them succeeded and failed."""

    attempted: int = 0
    dispatched: int = 0
    failed: int = 0

    def plus(self, other: "EffectReport") -> "EffectReport":
        """Add two reports."""
        return EffectReport(
            attempted=self.attempted + other.attempted,
            dispatched=self.dispatched + other.dispatched,
            failed=self.failed + other.failed,
        )


async def submit(run: Run, command: StateCommand) -> EffectReport:
    """Apply a command: its actions are queued in the same commit as its updates.

    Raises:
        UnknownHandler: An action or an effect has no handler; nothing was applied.
        StateError: The updates could not be applied; nothing was applied.
    """
    if command.is_empty:
        return EffectReport()
    commit_command(run, command)
    if not command.effects:
        return EffectReport()
    return await dispatch_effects(run, command)


def commit_command(run: Run, command: StateCommand) -> None:
    """Check and commit everything of a command except its effects."""
    env = run.agent.env
    for action in command.actions:
        if action.key not in env.actions:
            raise UnknownHandler(kind="action", key=action.key)
    for effect in command.effects:
        if effect.key not in env.effects:
            raise UnknownHandler(kind="effect", key=effect.key)
    ids, agent_id = run.services.ids, run.agent.spec.id
    entries = [
        QueuedAction(id=ids.new_id(), action=action, agent_id=agent_id)
        for action in command.actions
    ]
    queued = tuple(Update(key=PENDING_ACTIONS, update=("push", entry)) for entry in entries)
    patch = command.patch
    run.state.commit(MutationBatch(ops=patch.ops + queued, base_revision=patch.base_revision))
    run.has_phases = run.has_phases or PENDING_ACTIONS.name in run.state.values


async def dispatch_effects(run: Run, command: StateCommand) -> EffectReport:
    """Run a committed command's effects; failures are counted, never raised, never retried."""
    done = failed = 0
    for effect in command.effects:
        spec, handler = run.agent.env.effects[effect.key]
        try:
            payload = msgspec.convert(effect.payload, spec.payload_type)
            async with asyncio.timeout(run.services.limits.hook_ms / 1000):
                await handler(payload, run.state.snapshot())
        except BaseException as error:
            if is_interruption(error):
                raise
            shown = make_loggable(error)
            logger.warning("Effect '%s' failed.", effect.key, exc_info=shown)
            failed += 1
        else:
            done += 1
    return EffectReport(attempted=len(command.effects), dispatched=done, failed=failed)
