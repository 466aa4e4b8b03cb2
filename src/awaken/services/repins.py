"""Repinning: a person lets a run go on with another publication of the configuration."""

from awaken.contracts.config.errors import AgentUnusable
from awaken.contracts.errors import (
    IllegalTransition,
    LeaseLost,
    ThreadClaimed,
    UnknownAgent,
    UsageError,
)
from awaken.contracts.lifecycle import RunStatus
from awaken.contracts.runs.records import RunRecord
from awaken.mailbox.held_runs import repin_run
from awaken.runtime.engine import RunEngine

from .control import RunControl


class RepinRefused(UsageError):
    """The run could not go on with that publication either."""

    code = "repin_refused"
    template = "Run '{run_id}' cannot go on with publication {publication}: {problem}"
    run_id: str
    publication: str
    problem: str


async def check_repin(engine: RunEngine, run: RunRecord, publication: int | None) -> None:
    """Check whether a run can take another publication; nothing is changed.

    Raises:
        IllegalTransition: It has ended, executes, or has not begun.
        UnknownPublication: There is none of that number.
        RepinRefused: Its agent cannot be used with that publication.
    """
    is_executing = engine.active.of_run(run.run_id) is not None
    if run.status in (RunStatus.DONE, RunStatus.CREATED) or is_executing:
        old = "executing" if is_executing else run.status.value
        raise IllegalTransition(thing=f"Run '{run.run_id}'", old=old, new="repinned")
    try:
        await engine.registry.resolve(run.active_agent_id or run.agent_id, publication)
    except (UnknownAgent, AgentUnusable) as error:
        named = "live" if publication is None else str(publication)
        raise RepinRefused(run_id=run.run_id, publication=named, problem=str(error)) from error


async def repin(control: RunControl, run: RunRecord, publication: int | None) -> RunRecord:
    """Let a run that was checked go on with another publication.

    Raises:
        IllegalTransition: A process executes it.
    """
    services = control.mailbox.services
    try:
        pinned = await repin_run(services, run, publication, f"repin:{services.ids.new_id()}")
    except (ThreadClaimed, LeaseLost) as error:
        thing = f"Run '{run.run_id}'"
        raise IllegalTransition(thing=thing, old="executing", new="repinned") from error
    control.start_queued()
    return pinned
