"""Queued input that an executing run takes in: messages between steps, decisions on its tickets.

What is taken in becomes durable in the commit that acks its dispatch, so that it counts exactly
once. Whatever a run does not take in stays queued, and starts or continues a run afterwards.
"""

from awaken.contracts.dispatch import InputMode, RunDispatch
from awaken.contracts.errors import UsageError

from .hearing import wakes_model, with_free_ids
from .resume import take_decisions
from .run import Run, unheard_by


async def absorb_messages(run: Run) -> bool:
    """Add the messages of queued `steer` input to the transcript; returns if the model is asked.

    Only between steps: while calls wait for a result, the transcript has no place for a message.
    """
    run.has_input = False
    taken = [it for it in await _inputs(run) if it.mode is InputMode.STEER]
    for dispatch in taken:
        for message in with_free_ids(unheard_by(run, dispatch.request.messages), run.messages):
            run.append_user(message)
        run.journal.absorbed.append(dispatch.dispatch_id)
    return any(wakes_model(dispatch.request.messages) for dispatch in taken)


async def absorb_decisions(run: Run) -> None:
    """Take queued decisions on the run's tickets; one that does not fit stays queued."""
    run.has_input = False
    for dispatch in await _inputs(run):
        if dispatch.mode is not InputMode.RESUME or not dispatch.request.decisions:
            continue
        try:
            take_decisions(run, dispatch.request.decisions)
        except UsageError:
            # It is refused when it is delivered by itself, where somebody can be told.
            continue
        if dispatch.request.messages:
            run.hold(dispatch.request.messages)
        run.journal.absorbed.append(dispatch.dispatch_id)


async def _inputs(run: Run) -> tuple[RunDispatch, ...]:
    queued = await run.store.list_inputs(run.identity.thread_id)
    return tuple(it for it in queued if _is_for(run, it))


def _is_for(run: Run, dispatch: RunDispatch) -> bool:
    """Whether the run may take the input in: it is new, and no news for another run only."""
    wanted = dispatch.request.continue_run_id
    is_elsewhere = wanted is not None and wanted != run.identity.run_id
    is_meant = not (dispatch.is_news and is_elsewhere)
    return is_meant and dispatch.dispatch_id not in run.journal.absorbed
