"""Who may write to a thread that somebody has, and how a claim may end."""

from collections.abc import Iterator

from awaken.contracts.dispatch import DispatchStatus, Release, RunDispatch
from awaken.contracts.errors import LeaseLost
from awaken.contracts.lifecycle import RunStatus
from awaken.contracts.runs import RunRecord
from awaken.contracts.storage import Commit

from .dispatches import check_end, is_of
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
    """Whether a run that was asked to cancel ends, and the claim goes on with its dispatch."""
    if held is None or held.cancel_cause is None or commit.release is not None:
        return False
    return commit.run is not None and commit.run.status is RunStatus.DONE


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
