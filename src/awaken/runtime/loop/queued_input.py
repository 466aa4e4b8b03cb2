"""Queued input that an executing run takes in: messages between steps, decisions on its tickets.

Input becomes durable in the commit that acks its dispatch, so that it is processed exactly once.
Input that a run does not take in stays queued, and starts or continues a run afterwards.
"""

from awaken.contracts.errors import UsageError
from awaken.contracts.messages.message import Message
from awaken.contracts.plugins.loop_state import ACTIVE_AGENT
from awaken.contracts.runs.records import RunRequest
from awaken.contracts.storage.dispatch import InputMode, RunDispatch
from awaken.runtime.journal.known_messages import wakes_model, with_free_ids
from awaken.runtime.run import Run, list_new_messages
from awaken.runtime.suspension.resume import accept_decided, list_undecided, take_decisions

from .step import find_stop_reason


def mark_words(run: Run, request: RunRequest) -> tuple[Message, ...]:
    """Return the messages of a request, marked if others say them than the run began with."""
    # Loaded by the first run that takes in more than it began with.
    from awaken.contracts.runs.speakers import mark_speaker  # noqa: PLC0415

    return mark_speaker(run.record, request, request.messages)


async def absorb_messages(run: Run) -> bool:
    """Append the messages of queued `steer` input; return whether the model has to answer them.

    Only between steps: while calls are open, no message may enter the transcript.
    """
    run.has_input = False
    taken = [it for it in await _inputs(run) if it.mode is InputMode.STEER]
    for dispatch in taken:
        fresh = list_new_messages(run, mark_words(run, dispatch.request))
        for message in with_free_ids(fresh, run.messages):
            run.append_user(message)
        run.journal.absorbed += (dispatch.dispatch_id,)
    return any(wakes_model(dispatch.request.messages) for dispatch in taken)


async def absorb_decisions(run: Run) -> None:
    """Take in queued decisions on the run's tickets.

    A queued dispatch only signals that a decision exists; the ticket in the store is authoritative.
    """
    run.has_input = False
    taken = [it for it in await _inputs(run) if _is_decision(run, it)]
    if not taken:
        return
    identity = run.identity
    accept_decided(run, await run.store.list_run_tickets(identity.thread_id, identity.run_id))
    for dispatch in taken:
        try:
            take_decisions(run, list_undecided(dispatch, run.tickets.values()))
        except UsageError:
            # A worker delivers this dispatch by itself, where the refusal reaches its sender.
            continue
        if dispatch.request.messages:
            run.hold(mark_words(run, dispatch.request))
        run.journal.absorbed += (dispatch.dispatch_id,)


def _is_decision(run: Run, dispatch: RunDispatch) -> bool:
    is_own = run.identity.run_id in (dispatch.run_id, dispatch.request.continue_run_id)
    return is_own and dispatch.mode is InputMode.RESUME and bool(dispatch.request.decisions)


async def _inputs(run: Run) -> tuple[RunDispatch, ...]:
    queued = await run.store.list_inputs(run.identity.thread_id)
    return tuple(it for it in queued if _is_for(run, it))


def _is_for(run: Run, dispatch: RunDispatch) -> bool:
    """Whether the run may take the input in.

    It is new, no notification for another run, and no message of another person: the run acts for
    its user, and would answer that person with what only its user may ask for.
    """
    wanted = dispatch.request.continue_run_id
    is_elsewhere = wanted is not None and wanted != run.identity.run_id
    is_meant = not (dispatch.is_notification and is_elsewhere)
    is_meant = is_meant and not _is_of_another_user(run, dispatch)
    if not is_meant or dispatch.dispatch_id in run.journal.absorbed:
        return False
    reader = dispatch.reader
    return reader is None or _reads_next(run, reader)


def _is_of_another_user(run: Run, dispatch: RunDispatch) -> bool:
    own, request = run.identity.user_id, dispatch.request
    if own is None or request.user_id in (None, own):
        return False
    return any(message.sender is None for message in request.messages)


def _reads_next(run: Run, agent_id: str) -> bool:
    """Whether the run's next inference is by this agent, as far as is known now."""
    speaker = run.agent.spec.id
    is_staying = run.state.get(ACTIVE_AGENT) in (None, speaker)
    return (
        agent_id == speaker
        and is_staying
        and run.find_due_end() is None
        and find_stop_reason(run) is None
    )
