"""Who may write to a thread that somebody has, and how a claim may end."""

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
    """The tokens of claims that are taken together.

    Each claim has its own, so that it is extended, lost and cancelled by itself.
    """
    for place in range(limit):
        yield claim_token if place == 0 else f"{claim_token}:{place}"


def check_holder(head: ThreadHead | None, thread_id: str, token: str | None) -> None:
    """Refuse whoever does not have the thread, and everybody else while somebody has it.

    Raises:
        LeaseLost: The token is stale, or missing.
    """
    held = None if head is None or head.claim is None else head.claim.token
    if held != token:
        raise LeaseLost(thread_id=thread_id)


def goes_on(before: RunRecord | None, held: HeldClaim | None, commit: Commit) -> str | None:
    """The run that takes in the input of the claim's dispatch because it was waiting."""
    run = commit.run
    if held is None or held.dispatch_id is None or before is None or run is None:
        return None
    is_same = before.run_id == run.run_id and before.status is RunStatus.WAITING
    return run.run_id if is_same and run.status is RunStatus.RUNNING else None


def ends_under(held: HeldClaim | None, commit: Commit) -> bool:
    """Whether a run ends, and the claim goes on with its dispatch, which has its own cause."""
    if held is None or held.dispatch_id is None or commit.release is not None:
        return False
    return commit.run is not None and commit.run.status is RunStatus.DONE


def cause_after(head: ThreadHead, commit: Commit) -> str | None:
    """Why the thread's run has to be cancelled after a commit: a run that has ended need not."""
    run = commit.run
    is_over = run is not None and run.status is RunStatus.DONE and _is_wanted(head, run)
    return None if is_over else head.cancel_cause


def check_cancelled(head: ThreadHead, run: RunRecord) -> None:
    """Refuse that a run ends otherwise after somebody was told that it is cancelled.

    What a function comes to is its own business, also when it was cancelled.

    Raises:
        CancelWanted: It would.
    """
    is_cancelled = run.status is not RunStatus.DONE or isinstance(run.termination, Cancelled)
    is_function = run.task is not None and run.task.task_type != SUB_AGENT
    cause = head.cancel_cause
    if cause is not None and not is_cancelled and not is_function and _is_wanted(head, run):
        raise CancelWanted(run_id=run.run_id, cause=cause)


def _is_wanted(head: ThreadHead, run: RunRecord) -> bool:
    return head.open_run is None or head.open_run.run_id == run.run_id


def is_asked(head: ThreadHead, dispatch: RunDispatch | None, run_id: str | None) -> bool:
    """Whether a cancel concerns what executes now, and not only what its claim will begin."""
    return run_id is None or head.open_run is None or head.open_run.run_id == run_id


def cause_of_claim(head: ThreadHead, dispatch: RunDispatch) -> str | None:
    """Why what a claimed dispatch executes first has to be cancelled, if it has."""
    run = head.open_run
    if run is not None and (head.cancel_cause is not None or not is_of_run(dispatch, run)):
        return head.cancel_cause
    return dispatch.cancel_cause


def is_meant(head: ThreadHead, dispatch: RunDispatch | None, run_id: str | None) -> bool:
    """Whether a run that somebody wants cancelled is the one that is executed."""
    if run_id is None or (dispatch is not None and is_of(dispatch, run_id)):
        return True
    return head.open_run is not None and head.open_run.run_id == run_id


def check_release(dispatch_id: str | None, release: Release) -> None:
    """Refuse an end that a claimed dispatch cannot have.

    Raises:
        IllegalTransition: It is no end, or not one of an execution.
    """
    check_end(dispatch_id, DispatchStatus.CLAIMED, release.status)
