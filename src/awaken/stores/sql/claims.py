"""Claims: who has a thread. Its row is locked before anything of it is touched."""

import msgspec

from awaken.contracts.dispatch import DispatchStatus, Release, RunDispatch
from awaken.contracts.errors import RecordNotFound
from awaken.contracts.storage import Commit
from awaken.stores.rules import dispatches as rules
from awaken.stores.rules.claims import check_holder, claim_tokens
from awaken.stores.rules.head import HeldClaim
from awaken.stores.rules.interrupts import is_stale

from .heads import StoredHead, locked_head
from .queues import add, find, first_queued, locked, refresh, save
from .session import Moment, Session

SUPERSEDED = Release(status=DispatchStatus.SUPERSEDED)


async def has_due(session: Session) -> bool:
    """Whether a thread has something to claim."""
    now = await session.now()
    return await session.one("find_due", now.wall_ms) is not None


async def claim(
    session: Session, worker_id: str, claim_token: str, lease_ms: int, limit: int
) -> tuple[RunDispatch, ...]:
    """Claim the first dispatch of threads whose turn it is; see `MailboxStore.claim`."""
    now = await session.now()
    tokens = claim_tokens(claim_token, limit)
    taken = []
    for row in await session.all("list_due", now.wall_ms, limit):
        head = await locked_head(session, row[0])
        if head is None or head.claim is not None:
            continue
        first = await _first_current(session, head, now)
        if first is None or first.available_at > now.wall_ms:
            await refresh(session, head)
            continue
        claimed = rules.claimed(first, next(tokens), worker_id, now.wall_ms)
        taken.append(await _take(session, head, claimed, lease_ms, now))
    return tuple(taken)


async def claim_dispatch(
    session: Session, dispatch_id: str, worker_id: str, claim_token: str, lease_ms: int
) -> RunDispatch | None:
    """Claim one dispatch now; see `MailboxStore.claim_dispatch`."""
    found = await locked(session, dispatch_id)
    if found is None:
        return None
    head, dispatch = found
    if head.claim is not None or dispatch.status is not DispatchStatus.QUEUED:
        return None
    now = await session.now()
    if is_stale(head, dispatch):
        await save(session, rules.ended(dispatch, SUPERSEDED, now.wall_ms))
        await refresh(session, head)
        return None
    claimed = rules.claimed(dispatch, claim_token, worker_id, now.wall_ms)
    return await _take(session, head, claimed, lease_ms, now)


async def release(
    session: Session, dispatch_id: str, claim_token: str, how: Release
) -> RunDispatch:
    """End a claim outside of a commit; see `MailboxStore.release`."""
    head, dispatch = await _held(session, dispatch_id, claim_token)
    now = await session.now()
    over = await save(session, rules.ended(dispatch, how, now.wall_ms))
    await _drop(session, head)
    return over


async def requeue(
    session: Session,
    dispatch_id: str,
    claim_token: str,
    *,
    delay_ms: int,
    error: str | None,
    is_charged: bool,
) -> RunDispatch:
    """Give a claimed dispatch back; see `MailboxStore.requeue`."""
    head, dispatch = await _held(session, dispatch_id, claim_token)
    now = await session.now()
    back = rules.requeued(
        dispatch, now.wall_ms, delay_ms=delay_ms, error=error, is_charged=is_charged
    )
    return await _put_back(session, head, back)


async def give_up_claim(session: Session, thread_id: str, claim_token: str) -> RunDispatch | None:
    """Give back a claim that a commit took; see `MailboxStore.give_up_claim`."""
    head = await locked_head(session, thread_id)
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
    return await _go_on(session, head, head.claim, attempts=0)


async def reclaim(session: Session, limit: int) -> tuple[RunDispatch, ...]:
    """Take back claims whose lease has run out; see `MailboxStore.reclaim`."""
    back: list[RunDispatch] = []
    now = await session.now()
    while len(back) < limit:
        expired = await session.all("list_expired_claims", now.lease_ms, limit - len(back))
        for row in expired:
            head = await locked_head(session, row[0])
            if head is None or head.claim is None:
                continue
            dispatch = await _take_back(session, head, head.claim, now)
            if dispatch is not None:
                back.append(dispatch)
        if not expired:
            break
    return tuple(back)


async def want_cancel(session: Session, head: StoredHead | None, cause: str) -> bool:
    """Tell whoever has the thread to cancel; false when nobody has it."""
    if head is None or head.claim is None:
        return False
    await session.run("ask_cancel", head.no, cause)
    if head.claim.dispatch_id is not None:
        dispatch = await find(session, head.claim.dispatch_id)
        assert dispatch is not None
        await save(session, rules.cancel_wanted(dispatch, cause))
    return True


async def settle(
    session: Session, head: StoredHead, held: HeldClaim | None, commit: Commit
) -> None:
    """Follow a commit that took or ended the claim on its thread."""
    if head.claim is held:
        return
    if head.claim is not None and commit.claim is not None:
        now = await session.now()
        await _write_claim(session, head, head.claim, now.lease_ms + commit.claim.lease_ms)
        return
    if held is None:
        # Taken and ended by one commit.
        return
    if held.dispatch_id is not None and commit.release is not None:
        dispatch = await find(session, held.dispatch_id)
        assert dispatch is not None
        now = await session.now()
        await save(session, rules.ended(dispatch, commit.release, now.wall_ms))
    await session.run("drop_claim", head.no)
    if head.queued:
        await refresh(session, head)


async def _first_current(session: Session, head: StoredHead, now: Moment) -> RunDispatch | None:
    """The first queued dispatch that no interrupt has dropped; others are dropped on the way."""
    while (first := await first_queued(session, head)) is not None:
        if not is_stale(head, first):
            return first
        await save(session, rules.ended(first, SUPERSEDED, now.wall_ms))
    return None


async def _take(
    session: Session, head: StoredHead, claimed: RunDispatch, lease_ms: int, now: Moment
) -> RunDispatch:
    claimed = msgspec.structs.replace(claimed, lease_until=now.wall_ms + lease_ms)
    head.claim = rules.held_claim(claimed)
    head.served_at = now.wall_ms
    await save(session, claimed)
    await _write_claim(session, head, head.claim, now.lease_ms + lease_ms)
    await refresh(session, head)
    return claimed


async def _write_claim(
    session: Session, head: StoredHead, claim: HeldClaim, lease_until: int
) -> None:
    await session.run(
        "take_claim",
        head.no,
        claim.token,
        claim.worker_id,
        claim.dispatch_id,
        claim.cancel_cause,
        lease_until,
    )


async def _drop(session: Session, head: StoredHead) -> None:
    head.claim = None
    await session.run("drop_claim", head.no)
    await refresh(session, head)


async def _put_back(session: Session, head: StoredHead, back: RunDispatch) -> RunDispatch:
    await save(session, back)
    await _drop(session, head)
    return back


async def _take_back(
    session: Session, head: StoredHead, claim: HeldClaim, now: Moment
) -> RunDispatch | None:
    if claim.dispatch_id is None:
        return await _go_on(session, head, claim, attempts=1)
    dispatch = await find(session, claim.dispatch_id)
    assert dispatch is not None
    return await _put_back(session, head, rules.reclaimed(dispatch, now.wall_ms))


async def _go_on(
    session: Session, head: StoredHead, claim: HeldClaim, *, attempts: int
) -> RunDispatch | None:
    """End a claim without a dispatch, and queue one that goes on with the open run."""
    rest = rules.continuing(head, claim, attempts=attempts)
    await _drop(session, head)
    return None if rest is None else await add(session, head, rest)


async def _held(
    session: Session, dispatch_id: str, claim_token: str
) -> tuple[StoredHead, RunDispatch]:
    found = await locked(session, dispatch_id)
    if found is None:
        raise RecordNotFound(kind="Dispatch", record_id=dispatch_id)
    rules.check_token(found[1], claim_token)
    return found
