"""The moves of a dispatch, as pure functions; a store writes what they return.

Every move is checked against the transition table, and every end of a claim clears its token.
"""

import msgspec

from awaken.contracts.errors import (
    AlreadyExists,
    DedupeConflict,
    IllegalTransition,
    InvalidRecord,
    LeaseLost,
    QueueFull,
)
from awaken.contracts.identity import RunMode
from awaken.contracts.lifecycle import check_transition
from awaken.contracts.runs.records import RunRecord, RunRequest
from awaken.contracts.storage.dispatch import (
    DISPATCH_TRANSITIONS,
    RECOVERY,
    DispatchStatus,
    Release,
    RunDispatch,
)

from .head import HeldClaim, ThreadHead
from .lineage import check_same_tenant

RETRY_HINT_MS = 1000
"""After how long a refused submission may be tried again."""

REVIVED = "revived as "
LEASE_RAN_OUT = "the worker's lease ran out"


def check_new(dispatch: RunDispatch) -> None:
    """Refuse a dispatch that could not be found or executed later.

    Raises:
        InvalidRecord: An id is blank, or the run's is not of the tenant that owns the thread.
    """
    for name in ("dispatch_id", "thread_id", "run_id"):
        if not getattr(dispatch, name).strip():
            raise InvalidRecord(what="Dispatch", problem=f"its {name} is blank")
    check_same_tenant(dispatch.thread_id, dispatch.run_id)


def is_named_by_sender(dispatch: RunDispatch) -> bool:
    """Whether whoever sent it chose the id of the run that it begins; others are new by nature."""
    request = dispatch.request
    return request.run_id_hint == dispatch.run_id and request.continue_run_id is None


def same_again(known: RunDispatch, dispatch: RunDispatch) -> RunDispatch:
    """Return the known dispatch when a new one asks for the same.

    Raises:
        AlreadyExists: The dispatch id is used for something else.
        DedupeConflict: The dedupe key was used for another request.
    """
    is_same_request = known.thread_id == dispatch.thread_id and (
        known.request_hash == dispatch.request_hash
        if known.request_hash or dispatch.request_hash
        else known.request == dispatch.request
    )
    is_same_id = known.dispatch_id == dispatch.dispatch_id
    # A hash has the mode in it that was asked for; what it came to may differ by the moment.
    is_hashed = bool(known.request_hash) and not is_same_id
    if is_same_request and (is_hashed or known.mode is dispatch.mode):
        return known
    if is_same_id:
        raise AlreadyExists(kind="Dispatch", record_id=dispatch.dispatch_id)
    raise DedupeConflict(thread_id=dispatch.thread_id, dedupe_key=dispatch.dedupe_key or "")


def check_backlog(thread_id: str, queued: int, backlog_max: int) -> None:
    """Refuse one more dispatch for a thread that has too many.

    Raises:
        QueueFull: With a hint when to try again.
    """
    if queued >= backlog_max:
        raise QueueFull(
            what=f"Thread '{thread_id}'",
            size=queued,
            limit=backlog_max,
            retry_after_ms=RETRY_HINT_MS,
        )


def queued(dispatch: RunDispatch, epoch: int, now: int) -> RunDispatch:
    """Return a new dispatch as it enters the queue."""
    return msgspec.structs.replace(
        dispatch,
        status=DispatchStatus.QUEUED,
        dispatch_epoch=epoch,
        available_at=dispatch.available_at or now,
        claim_token=None,
        claimed_by=None,
        lease_until=None,
        completed_at=None,
        created_at=now,
        updated_at=now,
    )


def due_at(dispatch: RunDispatch) -> int:
    """When a queued dispatch is due; 0 when it was due as soon as it was queued.

    That needs no clock: one that was set back, or is wrong elsewhere, must not hold it up.
    """
    return dispatch.available_at if dispatch.available_at > dispatch.updated_at else 0


def is_due(dispatch: RunDispatch, now: int) -> bool:
    """Whether a queued dispatch may be executed now.

    One that pauses between two attempts is due as well when the clock has been set back since:
    the pause was meant to be short. What its sender has delayed keeps its time.
    """
    is_pausing = dispatch.updated_at != dispatch.created_at
    return due_at(dispatch) <= now or (is_pausing and now < dispatch.updated_at)


def claimed(dispatch: RunDispatch, token: str, worker_id: str, now: int) -> RunDispatch:
    """Return a queued dispatch as its claimer gets it; the attempt is counted now."""
    _check_move(dispatch, DispatchStatus.CLAIMED)
    return msgspec.structs.replace(
        dispatch,
        status=DispatchStatus.CLAIMED,
        attempt_count=dispatch.attempt_count + 1,
        claim_token=token,
        claimed_by=worker_id,
        updated_at=now,
    )


def held_claim(dispatch: RunDispatch) -> HeldClaim:
    """The claim on the thread of a dispatch that was just claimed."""
    assert dispatch.claim_token is not None
    return HeldClaim(
        token=dispatch.claim_token,
        worker_id=dispatch.claimed_by or "",
        dispatch_id=dispatch.dispatch_id,
    )


def check_token(dispatch: RunDispatch, claim_token: str) -> None:
    """Refuse whoever does not hold the dispatch's claim any more.

    Raises:
        LeaseLost: The token is stale.
    """
    if dispatch.claim_token != claim_token:
        raise LeaseLost(thread_id=dispatch.thread_id)


def ended(dispatch: RunDispatch, release: Release, now: int) -> RunDispatch:
    """Return a dispatch after its delivery is over.

    Raises:
        IllegalTransition: It cannot end like this.
    """
    check_end(dispatch.dispatch_id, dispatch.status, release.status)
    return msgspec.structs.replace(
        dispatch,
        status=release.status,
        last_error=release.error or dispatch.last_error,
        taken_by=release.taken_by or dispatch.taken_by,
        claim_token=None,
        claimed_by=None,
        lease_until=None,
        completed_at=now,
        updated_at=now,
    )


def absorbed(dispatch: RunDispatch, run_id: str | None, now: int) -> RunDispatch:
    """Return a queued dispatch whose input a run has taken in."""
    return taken_in(ended(dispatch, Release(), now), run_id)


def taken_in(dispatch: RunDispatch, run_id: str | None) -> RunDispatch:
    """Return a dispatch whose input went into a run."""
    other = None if run_id == dispatch.run_id else run_id
    return msgspec.structs.replace(dispatch, taken_by=other)


def agent_of(head: ThreadHead, dispatch: RunDispatch) -> str | None:
    """The agent that will execute a dispatch, as far as it is known now."""
    named = dispatch.request.agent_id
    run = head.open_run or head.latest_run
    if named or run is None:
        return named
    return run.active_agent_id or run.agent_id


def is_of(dispatch: RunDispatch, run_id: str) -> bool:
    """Whether the dispatch has to do with a run."""
    return run_id in (dispatch.run_id, dispatch.taken_by, dispatch.request.continue_run_id)


def is_of_run(dispatch: RunDispatch, run: RunRecord) -> bool:
    """Whether the dispatch has begun a run, or goes on with it."""
    return is_of(dispatch, run.run_id) or run.dispatch_id == dispatch.dispatch_id


def requeued(
    dispatch: RunDispatch, now: int, *, delay_ms: int, error: str | None, is_charged: bool
) -> RunDispatch:
    """Return a claimed dispatch as it goes back into the queue."""
    _check_move(dispatch, DispatchStatus.QUEUED)
    return msgspec.structs.replace(
        dispatch,
        status=DispatchStatus.QUEUED,
        available_at=now + delay_ms,
        attempt_count=dispatch.attempt_count - (0 if is_charged else 1),
        last_error=error or dispatch.last_error,
        claim_token=None,
        claimed_by=None,
        lease_until=None,
        updated_at=now,
    )


def reclaimed(dispatch: RunDispatch, now: int) -> RunDispatch:
    """Return a claimed dispatch whose worker gave no sign of life; the attempt counts."""
    return requeued(dispatch, now, delay_ms=0, error=LEASE_RAN_OUT, is_charged=True)


def cancel_wanted(dispatch: RunDispatch, cause: str) -> RunDispatch:
    """Return a dispatch whose run somebody wants cancelled; the first cause stays."""
    return msgspec.structs.replace(dispatch, cancel_cause=dispatch.cancel_cause or cause)


def left_to_do(
    head: ThreadHead, claim: HeldClaim, back: RunDispatch | None = None, *, attempts: int = 0
) -> RunDispatch | None:
    """Make the dispatch that the end of a claim leaves to do; `back` was queued again.

    It goes on with a run that executed without a dispatch, or ends one that is to be cancelled,
    wherever that stands: a wanted cancel is over with its run, not with a claim. None when there
    is no such run, or `back` does it.
    """
    run = head.open_run
    if run is None or (back is not None and is_of_run(back, run)):
        return None
    is_left = run.waiting is None and claim.dispatch_id is None
    if not is_left and head.cancel_cause is None:
        return None
    return _going_on(run, claim, attempts, head.cancel_cause)


def _going_on(run: RunRecord, claim: HeldClaim, attempts: int, cause: str | None) -> RunDispatch:
    return RunDispatch(
        dispatch_id=f"{RECOVERY}{claim.token}",
        thread_id=run.thread_id,
        run_id=run.run_id,
        request=RunRequest(
            thread_id=run.thread_id,
            continue_run_id=run.run_id,
            run_mode=RunMode.RESUME,
            adapter=run.adapter,
            session_id=run.session_id,
            transport_request_id=run.transport_request_id,
        ),
        # Before what is queued: the thread has to come to an end with this run first.
        priority=0,
        attempt_count=attempts,
        cancel_cause=cause,
    )


def revived(dispatch: RunDispatch, new_id: str, now: int) -> tuple[RunDispatch, RunDispatch]:
    """Return a dead letter marked as revived, and the new dispatch that takes its place.

    Raises:
        IllegalTransition: It is not a dead letter, or it was revived before.
    """
    is_dead = dispatch.status is DispatchStatus.DEAD_LETTER
    if not is_dead or (dispatch.last_error or "").startswith(REVIVED):
        raise IllegalTransition(
            thing=f"Dispatch '{dispatch.dispatch_id}'",
            old=str(dispatch.status) if not is_dead else "revived",
            new=str(DispatchStatus.QUEUED),
        )
    marked = msgspec.structs.replace(dispatch, last_error=f"{REVIVED}{new_id}", updated_at=now)
    fresh = msgspec.structs.replace(
        dispatch,
        dispatch_id=new_id,
        dedupe_key=None,
        attempt_count=0,
        available_at=now,
        last_error=None,
        cancel_cause=None,
    )
    return marked, fresh


def check_end(dispatch_id: str | None, old: DispatchStatus, new: DispatchStatus) -> None:
    """Refuse an end that a dispatch cannot have.

    Raises:
        IllegalTransition: The table does not have the move, or it is no end.
    """
    thing = f"Dispatch '{dispatch_id}'"
    check_transition(DISPATCH_TRANSITIONS, thing, old, new)
    if not new.is_terminal:
        raise IllegalTransition(thing=thing, old=str(old), new=str(new))


def _check_move(dispatch: RunDispatch, status: DispatchStatus) -> None:
    thing = f"Dispatch '{dispatch.dispatch_id}'"
    check_transition(DISPATCH_TRANSITIONS, thing, dispatch.status, status)
