"""Who may write to a thread that somebody has, and how a claim may end."""

from collections.abc import Iterator

from awaken.contracts.dispatch import DispatchStatus, Release
from awaken.contracts.errors import LeaseLost

from .dispatches import check_end
from .head import ThreadHead


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


def check_release(dispatch_id: str | None, release: Release) -> None:
    """Refuse an end that a claimed dispatch cannot have.

    Raises:
        IllegalTransition: It is no end, or not one of an execution.
    """
    check_end(dispatch_id, DispatchStatus.CLAIMED, release.status)
