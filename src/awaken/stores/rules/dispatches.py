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
from awaken.contracts.lifecycle import RunStatus, check_transition
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
"""How long the sender of a refused submission should wait before it tries again."""

REVIVED = "revived as "
LEASE_RAN_OUT = "the worker's lease ran out"


def check_new(dispatch: RunDispatch) -> None:
    """Check that a dispatch can be found and executed later.

    Raises:
        InvalidRecord: An id is blank, or the run id belongs to another tenant than the thread.
    """
    for name in ("dispatch_id", "thread_id", "run_id"):
        if not getattr(dispatch, name).strip():
            raise InvalidRecord(what="Dispatch", problem=f"its {name} is blank")
    check_same_tenant(dispatch.thread_id, dispatch.run_id)


def is_named_by_sender(dispatch: RunDispatch) -> bool:
    """Whether the sender chose the id of the run that it begins; generated ids are always new."""
    request = dispatch.request
    return request.run_id_hint == dispatch.run_id and request.continue_run_id is None


def match_known(known: RunDispatch, dispatch: RunDispatch) -> RunDispatch:
    """Return the known dispatch if the new one is the same request.

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
    # The hash covers the requested mode; the mode that was derived from it may differ each time.
    is_hashed = bool(known.request_hash) and not is_same_id
    if is_same_request and (is_hashed or known.mode is dispatch.mode):
        return known
    if is_same_id:
        raise AlreadyExists(kind="Dispatch", record_id=dispatch.dispatch_id)
    raise DedupeConflict(thread_id=dispatch.thread_id, dedupe_key=dispatch.dedupe_key or "")


def check_backlog(thread_id: str, queued: int, backlog_max: int) -> None:
    """Check that the thread has room for one more dispatch.

    Raises:
        QueueFull: The thread has too many; the error says when to try again.
    """
    if queued >= backlog_max:
        raise QueueFull(
            what=f"Thread '{thread_id}'",
            size=queued,
            limit=backlog_max,
            retry_after_ms=RETRY_HINT_MS,
        )


def mark_queued(dispatch: RunDispatch, epoch: int, now: int) -> RunDispatch:
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
    """Return when a queued dispatch is due; 0 if it was due as soon as it was queued.

    With 0 the clock does not matter: a clock that was set back, or that is wrong on another
    machine, must not delay the dispatch.
    """
    return dispatch.available_at if dispatch.available_at > dispatch.updated_at else 0


def is_due(dispatch: RunDispatch, now: int) -> bool:
    """Whether a queued dispatch may be executed now.

    A dispatch between two attempts is also due if the clock has been set back since: its pause
    was meant to be short. A delay that the sender asked for is always kept.
    """
    is_pausing = dispatch.updated_at != dispatch.created_at
    return due_at(dispatch) <= now or (is_pausing and now < dispatch.updated_at)


def mark_claimed(dispatch: RunDispatch, token: str, worker_id: str, now: int) -> RunDispatch:
    """Return a queued dispatch as claimed by a worker; the attempt is counted now."""
    _check_move(dispatch, DispatchStatus.CLAIMED)
    return msgspec.structs.replace(
        dispatch,
        status=DispatchStatus.CLAIMED,
        attempt_count=dispatch.attempt_count + 1,
        claim_token=token,
        claimed_by=worker_id,
        updated_at=now,
    )


def claim_of(dispatch: RunDispatch) -> HeldClaim:
    """Return the claim that a claimed dispatch has on its thread."""
    assert dispatch.claim_token is not None
    return HeldClaim(
        token=dispatch.claim_token,
        worker_id=dispatch.claimed_by or "",
        dispatch_id=dispatch.dispatch_id,
    )


def check_token(dispatch: RunDispatch, claim_token: str) -> None:
    """Check that the caller still holds the claim of the dispatch.

    Raises:
        LeaseLost: The token is stale.
    """
    if dispatch.claim_token != claim_token:
        raise LeaseLost(thread_id=dispatch.thread_id)


def mark_ended(dispatch: RunDispatch, release: Release, now: int) -> RunDispatch:
    """Return a dispatch whose delivery is over.

    Raises:
        IllegalTransition: A dispatch in this status cannot end like this.
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


def mark_absorbed(dispatch: RunDispatch, run_id: str | None, now: int) -> RunDispatch:
    """Return a queued dispatch as ended, because a run has taken in its input."""
    return set_taken_by(mark_ended(dispatch, Release(), now), run_id)


def set_taken_by(dispatch: RunDispatch, run_id: str | None) -> RunDispatch:
    """Return a dispatch that names the run which has taken in its input."""
    other = None if run_id == dispatch.run_id else run_id
    return msgspec.structs.replace(dispatch, taken_by=other)


def agent_of(head: ThreadHead, dispatch: RunDispatch) -> str | None:
    """Return the agent that will execute a dispatch, or None if it is not known yet."""
    named = dispatch.request.agent_id
    run = head.open_run or head.latest_run
    if named or run is None:
        return named
    return run.active_agent_id or run.agent_id


def is_of(dispatch: RunDispatch, run_id: str) -> bool:
    """Whether the dispatch starts, continues or was taken in by a run."""
    return run_id in (dispatch.run_id, dispatch.taken_by, dispatch.request.continue_run_id)


def is_of_run(dispatch: RunDispatch, run: RunRecord) -> bool:
    """Whether the dispatch has begun a run or continues it."""
    return is_of(dispatch, run.run_id) or run.dispatch_id == dispatch.dispatch_id


def goes_before_delayed(dispatch: RunDispatch, run: RunRecord | None) -> bool:
    """Whether a dispatch continues the thread's waiting run and is due at once.

    Then input that is not due yet, which would begin something new, does not hold it back: the
    run may wait for exactly this decision or event.
    """
    is_waiting = run is not None and run.status is RunStatus.WAITING
    return run is not None and is_waiting and is_of_run(dispatch, run) and not due_at(dispatch)


def mark_requeued(
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


def mark_reclaimed(dispatch: RunDispatch, now: int) -> RunDispatch:
    """Return a claimed dispatch as queued again after its lease ran out; the attempt counts."""
    return mark_requeued(dispatch, now, delay_ms=0, error=LEASE_RAN_OUT, is_charged=True)


def mark_cancel_requested(dispatch: RunDispatch, cause: str) -> RunDispatch:
    """Return a dispatch whose run is to be cancelled; the first cause stays."""
    return msgspec.structs.replace(dispatch, cancel_cause=dispatch.cancel_cause or cause)


def make_follow_up(
    head: ThreadHead, claim: HeldClaim, back: RunDispatch | None = None, *, attempts: int = 0
) -> RunDispatch | None:
    """Make the dispatch that must follow the end of a claim; `back` was queued again.

    It continues a run that executed without a dispatch, or ends a run that is to be cancelled,
    whatever its status: a requested cancel lasts until its run has ended, not until its claim
    has. Returns None if there is no such run, or if `back` belongs to it.
    """
    run = head.open_run
    if run is None or (back is not None and is_of_run(back, run)):
        return None
    is_left = run.waiting is None and claim.dispatch_id is None
    if not is_left and head.cancel_cause is None:
        return None
    return _make_continuation(run, claim, attempts, head.cancel_cause)


def _make_continuation(
    run: RunRecord, claim: HeldClaim, attempts: int, cause: str | None
) -> RunDispatch:
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
        # Before all other dispatches: the thread must finish this run first.
        priority=0,
        attempt_count=attempts,
        cancel_cause=cause,
    )


def revive_dead_letter(
    dispatch: RunDispatch, new_id: str, now: int
) -> tuple[RunDispatch, RunDispatch]:
    """Return a dead letter marked as revived, and the new dispatch that replaces it.

    Raises:
        IllegalTransition: The dispatch is not a dead letter, or it was revived before.
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
    """Check that a dispatch can end with a status.

    Raises:
        IllegalTransition: The table does not have the move, or the status is not terminal.
    """
    thing = f"Dispatch '{dispatch_id}'"
    check_transition(DISPATCH_TRANSITIONS, thing, old, new)
    if not new.is_terminal:
        raise IllegalTransition(thing=thing, old=str(old), new=str(new))


def _check_move(dispatch: RunDispatch, status: DispatchStatus) -> None:
    thing = f"Dispatch '{dispatch.dispatch_id}'"
    check_transition(DISPATCH_TRANSITIONS, thing, dispatch.status, status)
