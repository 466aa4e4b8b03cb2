"""Claims on threads. A thread's row is locked before any of its records is changed."""

import logging
from collections.abc import Callable, Collection, Sequence
from typing import Protocol

import msgspec

from awaken.contracts.errors import CorruptRecord, RecordNotFound
from awaken.contracts.runs.records import RunRecord
from awaken.contracts.storage.dispatch import DispatchStatus, Release, RunDispatch
from awaken.contracts.storage.store import Commit
from awaken.stores.rules import dispatches as rules
from awaken.stores.rules.claims import (
    cause_of_claim,
    check_holder,
    claim_tokens,
    find_resumed_run,
    is_cancel_current,
    is_cancel_target,
    is_end_under_claim,
)
from awaken.stores.rules.head import HeldClaim
from awaken.stores.rules.interrupts import is_stale

from .heads import StoredHead, lock_head
from .queues import add, find, find_first_queued, lock_dispatch, refresh, save
from .session import Moment, Row, SqlSession

logger = logging.getLogger(__name__)

DAMAGED_MS = 600_000
"""How long a claim on an unreadable thread is postponed before it is tried again."""
SUPERSEDED = Release(status=DispatchStatus.SUPERSEDED)


async def has_due(session: SqlSession, agents: Collection[str] | None) -> bool:
    """Whether a dispatch can be claimed."""
    now = await session.now()
    return await session.one("find_due", now.wall_ms, join_names(agents)) is not None


def join_names(names: Collection[str] | None) -> str | None:
    """Join agents or tenants to look for, as the statements compare them; None for all."""
    if names is None:
        return None
    escaped = (it.replace("%", "%25").replace("|", "%7C") for it in names)
    return "|".join(["", *escaped, ""])


class ListDue(Protocol):
    """Lists the threads that are claimed next, the first column being their ids."""

    async def __call__(
        self, session: SqlSession, now_ms: int, limit: int, agents: Collection[str] | None
    ) -> Sequence[Row]:
        """List at most `limit` of them."""
        ...


async def list_due(
    session: SqlSession, now_ms: int, limit: int, agents: Collection[str] | None
) -> Sequence[Row]:
    """List what is due in the order of the store."""
    return await session.all("list_due", now_ms, limit, join_names(agents))


async def claim(  # noqa: PLR0913 - the arguments of the port
    session: SqlSession,
    worker_id: str,
    claim_token: str,
    lease_ms: int,
    limit: int,
    agents: Collection[str] | None,
    list_due: ListDue,
) -> tuple[RunDispatch, ...]:
    """Claim the first dispatch of the next threads; see `MailboxStore.claim`."""
    now = await session.now()
    tokens = claim_tokens(claim_token, limit)
    taken: list[RunDispatch] = []
    is_more_likely = True
    while is_more_likely and len(taken) < limit:
        is_more_likely = False
        for row in await list_due(session, now.wall_ms, limit - len(taken), agents):
            try:
                head = await lock_head(session, row[0])
                first = None if head is None else await _find_claimable(session, head, now)
            except CorruptRecord:
                logger.exception("Thread '%s' is damaged; its queue is left alone.", row[0])
                await session.run("park_queue", row[0])
                continue
            if head is not None and first is not None:
                claimed = rules.mark_claimed(first, next(tokens), worker_id, now.wall_ms)
                taken.append(await _take_claim(session, head, claimed, lease_ms, now))
            else:
                # Its dispatches were stale and are dropped: another thread may be next.
                is_more_likely = head is not None
    return tuple(taken)


async def claim_dispatch(
    session: SqlSession, dispatch_id: str, worker_id: str, claim_token: str, lease_ms: int
) -> RunDispatch | None:
    """Claim one dispatch now; see `MailboxStore.claim_dispatch`."""
    found = await lock_dispatch(session, dispatch_id)
    if found is None:
        return None
    head, dispatch = found
    if head.claim is not None or dispatch.status is not DispatchStatus.QUEUED:
        return None
    now = await session.now()
    if is_stale(head, dispatch):
        await save(session, rules.mark_ended(dispatch, SUPERSEDED, now.wall_ms))
        await refresh(session, head)
        return None
    claimed = rules.mark_claimed(dispatch, claim_token, worker_id, now.wall_ms)
    return await _take_claim(session, head, claimed, lease_ms, now)


async def release(
    session: SqlSession, dispatch_id: str, claim_token: str, how: Release
) -> RunDispatch:
    """End a claim outside of a commit; see `MailboxStore.release`."""
    head, dispatch = await _lock_held(session, dispatch_id, claim_token)
    now = await session.now()
    over = await save(session, rules.mark_ended(dispatch, how, now.wall_ms))
    await _end_claim(session, head, rules.claim_of(dispatch))
    return over


async def requeue(
    session: SqlSession,
    dispatch_id: str,
    claim_token: str,
    *,
    delay_ms: int,
    error: str | None,
    is_charged: bool,
) -> RunDispatch:
    """Give a claimed dispatch back; see `MailboxStore.requeue`."""
    head, dispatch = await _lock_held(session, dispatch_id, claim_token)
    now = await session.now()
    back = rules.mark_requeued(
        dispatch, now.wall_ms, delay_ms=delay_ms, error=error, is_charged=is_charged
    )
    return await _put_back(session, head, rules.claim_of(dispatch), back)


async def give_up_claim(
    session: SqlSession, thread_id: str, claim_token: str
) -> RunDispatch | None:
    """Give back a claim that a commit took; see `MailboxStore.give_up_claim`."""
    head = await lock_head(session, thread_id)
    check_holder(head, thread_id, claim_token)
    assert head is not None
    assert head.claim is not None
    if head.claim.dispatch_id is not None:
        return await requeue(
            session,
            head.claim.dispatch_id,
            claim_token,
            delay_ms=0,
            error=None,
            is_charged=False,
        )
    return await _end_claim(session, head, head.claim)


async def reclaim(
    session: SqlSession, limit: int, is_gone: Callable[[str], bool] | None = None
) -> tuple[RunDispatch, ...]:
    """Take back claims whose lease has run out; see `MailboxStore.reclaim`."""
    back: list[RunDispatch] = []
    now = await session.now()
    # A clock that was set back must not prolong the pauses between attempts.
    await session.run("look_again", now.wall_ms)
    if is_gone is not None:
        for (worker_id,) in map(tuple, await session.all("list_claim_holders", now.lease_ms)):
            if is_gone(worker_id):
                await session.run("expire_claims_of", worker_id)
    while len(back) < limit:
        expired = await session.all("list_expired_claims", now.lease_ms, limit - len(back))
        for row in expired:
            try:
                head = await lock_head(session, row[0])
                dispatch = None if head is None else await _take_back(session, head, now)
            except CorruptRecord:
                logger.exception("Thread '%s' is damaged; its claim is left alone.", row[0])
                await session.run("postpone_claim", row[0], now.lease_ms + DAMAGED_MS)
                continue
            if dispatch is not None:
                back.append(dispatch)
        if not expired:
            break
    return tuple(back)


async def want_cancel(
    session: SqlSession, head: StoredHead | None, cause: str, run_id: str | None = None
) -> bool:
    """Request a cancel of the claimed run; returns False if none or another one is claimed."""
    if head is None or head.claim is None:
        return False
    executed = head.claim.dispatch_id
    dispatch = None if executed is None else await find(session, executed)
    if not is_cancel_target(head, dispatch, run_id):
        return False
    if is_cancel_current(head, dispatch, run_id):
        head.cancel_cause = head.cancel_cause or cause
        await session.run("set_cancel", head.no, head.cancel_cause)
    if dispatch is not None and (run_id is None or rules.is_of(dispatch, run_id)):
        await save(session, rules.mark_cancel_requested(dispatch, cause))
    return True


async def settle(
    session: SqlSession,
    head: StoredHead,
    held: HeldClaim,
    before: RunRecord | None,
    commit: Commit,
) -> None:
    """Update the dispatch of a claim under which a commit was made, and the thread's queue.

    The claim itself was written with the thread's head.
    """
    if held.dispatch_id is not None:
        run_id = find_resumed_run(before, held, commit)
        if run_id is not None or is_end_under_claim(held, commit):
            await _update_executed(session, head, held.dispatch_id, run_id)
    if commit.release is None:
        return
    if held.dispatch_id is not None:
        dispatch = await _load_executed(session, held.dispatch_id)
        now = await session.now()
        await save(session, rules.mark_ended(dispatch, commit.release, now.wall_ms))
    if (rest := rules.make_follow_up(head, held)) is not None:
        await add(session, head, rest)
    elif head.queued:
        await refresh(session, head)


async def _update_executed(
    session: SqlSession, head: StoredHead, dispatch_id: str, run_id: str | None
) -> None:
    """Store which run took in the input, or apply the cancel cause of the dispatch itself."""
    dispatch = await _load_executed(session, dispatch_id)
    if run_id is not None:
        await save(session, rules.set_taken_by(dispatch, run_id))
    else:
        head.cancel_cause = dispatch.cancel_cause
        await session.run("set_cancel", head.no, head.cancel_cause)


async def _load_executed(session: SqlSession, dispatch_id: str) -> RunDispatch:
    dispatch = await find(session, dispatch_id)
    assert dispatch is not None
    return dispatch


async def _find_claimable(session: SqlSession, head: StoredHead, now: Moment) -> RunDispatch | None:
    """Return the dispatch of a thread that can be claimed now, or None."""
    if head.claim is not None:
        return None
    first = await _find_first_current(session, head, now)
    if first is not None and rules.is_due(first, now.wall_ms):
        return first
    await refresh(session, head)
    return None


async def _find_first_current(
    session: SqlSession, head: StoredHead, now: Moment
) -> RunDispatch | None:
    """Return the first dispatch that is not stale; stale ones before it are dropped."""
    while (first := await find_first_queued(session, head)) is not None:
        if not is_stale(head, first):
            return first
        await save(session, rules.mark_ended(first, SUPERSEDED, now.wall_ms))
    return None


async def _take_claim(
    session: SqlSession, head: StoredHead, claimed: RunDispatch, lease_ms: int, now: Moment
) -> RunDispatch:
    claimed = msgspec.structs.replace(claimed, lease_until=now.wall_ms + lease_ms)
    head.claim = rules.claim_of(claimed)
    head.cancel_cause = cause_of_claim(head, claimed)
    head.served_at = now.wall_ms
    await save(session, claimed)
    await session.run(
        "take_claim",
        head.no,
        head.claim.token,
        head.claim.worker_id,
        head.claim.dispatch_id,
        head.cancel_cause,
        now.lease_ms + lease_ms,
    )
    await refresh(session, head)
    return claimed


async def _end_claim(
    session: SqlSession,
    head: StoredHead,
    held: HeldClaim,
    back: RunDispatch | None = None,
    *,
    attempts: int = 0,
) -> RunDispatch | None:
    """Release a thread and queue the follow-up dispatch; `back` is queued again already.

    Returns the dispatch that continues the thread's run or the claim's dispatch.
    """
    head.claim = None
    if head.open_run is None:
        head.cancel_cause = None
    await session.run("drop_claim", head.no, head.cancel_cause)
    rest = rules.make_follow_up(head, held, back, attempts=attempts)
    if rest is not None:
        made = await add(session, head, rest)
        return back or made
    await refresh(session, head)
    return back


async def _put_back(
    session: SqlSession, head: StoredHead, held: HeldClaim, back: RunDispatch
) -> RunDispatch:
    await save(session, back)
    await _end_claim(session, head, held, back)
    return back


async def _take_back(session: SqlSession, head: StoredHead, now: Moment) -> RunDispatch | None:
    claim = head.claim
    if claim is None:
        return None
    if claim.dispatch_id is None:
        return await _end_claim(session, head, claim, attempts=1)
    dispatch = await _load_executed(session, claim.dispatch_id)
    return await _put_back(session, head, claim, rules.mark_reclaimed(dispatch, now.wall_ms))


async def _lock_held(
    session: SqlSession, dispatch_id: str, claim_token: str
) -> tuple[StoredHead, RunDispatch]:
    found = await lock_dispatch(session, dispatch_id)
    if found is None:
        raise RecordNotFound(kind="Dispatch", record_id=dispatch_id)
    rules.check_token(found[1], claim_token)
    return found
