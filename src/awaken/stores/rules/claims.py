"""Who may write to a claimed thread, and how a claim may end."""

from collections.abc import Iterator

from awaken.contracts.errors import LeaseLost
from awaken.contracts.lifecycle import Cancelled, RunStatus
from awaken.contracts.runs.records import RunRecord
from awaken.contracts.storage.dispatch import DispatchStatus, Release, RunDispatch
from awaken.contracts.storage.store import CancelWanted, Commit
from awaken.contracts.tasks import SUB_AGENT

from .dispatches import check_end, is_of, is_of_run
from .head import HeldClaim, ThreadHead


def claim_tokens(claim_token: str, limit: int) -> Iterator[str]:
    """Yield one token for each claim of a batch.

    Each claim has its own token, so that it is extended, lost and cancelled independently.
    """
    for place in range(limit):
        yield claim_token if place == 0 else f"{claim_token}:{place}"


def check_holder(head: ThreadHead | None, thread_id: str, token: str | None) -> None:
    """Check that the token is the one of the thread's claim, or that neither exists.

    Raises:
        LeaseLost: The token is stale or missing.
    """
    held = None if head is None or head.claim is None else head.claim.token
    if held != token:
        raise LeaseLost(thread_id=thread_id)


def find_resumed_run(
    before: RunRecord | None, held: HeldClaim | None, commit: Commit
) -> str | None:
    """Return the waiting run that takes in the input of the claim's dispatch, or None."""
    run = commit.run
    if held is None or held.dispatch_id is None or before is None or run is None:
        return None
    is_same = before.run_id == run.run_id and before.status is RunStatus.WAITING
    # A run that is cancelled while it takes the input in ends with the commit that has it.
    is_over = commit.release is not None and run.status is RunStatus.DONE
    is_taken_in = run.status is RunStatus.RUNNING or (
        is_over and run.dispatch_id == held.dispatch_id
    )
    return run.run_id if is_same and is_taken_in else None


def is_end_under_claim(held: HeldClaim | None, commit: Commit) -> bool:
    """Whether a run ends while the claim continues with its dispatch, which has its own cause."""
    if held is None or held.dispatch_id is None or commit.release is not None:
        return False
    return commit.run is not None and commit.run.status is RunStatus.DONE


def cause_after(head: ThreadHead, commit: Commit) -> str | None:
    """Return why the thread's run must be cancelled after a commit; None once it has ended."""
    run = commit.run
    is_over = run is not None and run.status is RunStatus.DONE and _is_wanted(head, run)
    return None if is_over else head.cancel_cause


def check_cancelled(head: ThreadHead, run: RunRecord) -> None:
    """Check that a run whose cancellation was acknowledged ends as cancelled.

    A background function keeps its own result, even after a cancel.

    Raises:
        CancelWanted: The run would end in another way.
    """
    is_cancelled = run.status is not RunStatus.DONE or isinstance(run.termination, Cancelled)
    is_function = run.task is not None and run.task.task_type != SUB_AGENT
    cause = head.cancel_cause
    if cause is not None and not is_cancelled and not is_function and _is_wanted(head, run):
        raise CancelWanted(run_id=run.run_id, cause=cause)


def _is_wanted(head: ThreadHead, run: RunRecord) -> bool:
    return head.open_run is None or head.open_run.run_id == run.run_id


def is_cancel_current(head: ThreadHead, dispatch: RunDispatch | None, run_id: str | None) -> bool:
    """Whether a cancel concerns the executing run, not only a run that the claim begins later."""
    return run_id is None or head.open_run is None or head.open_run.run_id == run_id


def cause_of_claim(head: ThreadHead, dispatch: RunDispatch) -> str | None:
    """Return why the run that a claimed dispatch executes first must be cancelled, or None."""
    run = head.open_run
    if run is not None and (head.cancel_cause is not None or not is_of_run(dispatch, run)):
        return head.cancel_cause
    return dispatch.cancel_cause


def is_cancel_target(head: ThreadHead, dispatch: RunDispatch | None, run_id: str | None) -> bool:
    """Whether the run to cancel is the one that is executed under the claim."""
    if run_id is None or (dispatch is not None and is_of(dispatch, run_id)):
        return True
    return head.open_run is not None and head.open_run.run_id == run_id


def check_release(dispatch_id: str | None, release: Release) -> None:
    """Check that a claimed dispatch can end with the status of the release.

    Raises:
        IllegalTransition: The status is not terminal, or not one that an execution ends with.
    """
    check_end(dispatch_id, DispatchStatus.CLAIMED, release.status)
