"""Clients that log what they ask a store for, and what they are told."""

import itertools
from collections.abc import Awaitable, Callable
from typing import TypeVar

from awaken.contracts.errors import (
    AwakenError,
    CommitUnknown,
    StoreCorrupt,
    StoreFull,
    StoreUnavailable,
)
from awaken.contracts.storage.dispatch import Interruption, Purged, Release, RunDispatch
from awaken.contracts.storage.store import Commit, CommitReceipt, DeleteStrategy, Store

from .history import BROKEN, FAILED, OK, UNKNOWN, Asked, Claimed, Log, Told, Wish, digest, wish_of

T = TypeVar("T")

_UNSURE = (CommitUnknown, StoreUnavailable, StoreFull, StoreCorrupt)
"""After these a client cannot know what became of its wish."""


class Client:
    """One caller of a store. A refusal is logged and returned as None, never raised.

    A patient client takes an outcome that it cannot know in the same way; others stop there.
    """

    def __init__(self, store: Store, log: Log, name: str, *, is_patient: bool = True) -> None:
        self.store = store
        self._log = log
        self._name = name
        self._is_patient = is_patient
        self._numbers = itertools.count(1)

    async def commit(self, commit: Commit, *, must_fail: bool = False) -> CommitReceipt | None:
        """Send a commit."""
        wish = wish_of(commit, must_fail=must_fail)
        work = self.store.commit(commit)
        return await self.do("commit", wish, work, lambda op, got: _told(op, receipt=got))

    async def enqueue(self, dispatch: RunDispatch) -> RunDispatch | None:
        """Queue a dispatch."""
        wish = Wish(
            thread_id=dispatch.thread_id,
            queued=(dispatch.dispatch_id,),
            dedupe_key=dispatch.dedupe_key,
        )
        return await self.do("enqueue", wish, self.store.enqueue(dispatch), _named)

    async def claim(
        self, token: str, lease_ms: int, *, limit: int = 1
    ) -> tuple[RunDispatch, ...] | None:
        """Claim what is due."""
        work = self.store.claim(self._name, token, lease_ms, limit=limit)
        return await self.do("claim", Wish(token=token), work, _given)

    async def claim_one(self, dispatch_id: str, token: str, lease_ms: int) -> RunDispatch | None:
        """Claim one dispatch."""
        wish = Wish(dispatch_id=dispatch_id, token=token)
        work = self.store.claim_dispatch(dispatch_id, self._name, token, lease_ms)
        return await self.do(
            "claim", wish, work, lambda op, got: _given(op, () if got is None else (got,))
        )

    async def release(
        self, dispatch_id: str, token: str, release: Release | None = None
    ) -> RunDispatch | None:
        """End a claim without a commit."""
        wish = Wish(dispatch_id=dispatch_id, token=token, releases=True)
        work = self.store.release(dispatch_id, token, release)
        return await self.do("release", wish, work, _named)

    async def requeue(
        self, dispatch_id: str, token: str, *, is_charged: bool = True
    ) -> RunDispatch | None:
        """Give a dispatch back."""
        wish = Wish(dispatch_id=dispatch_id, token=token, releases=True)
        work = self.store.requeue(dispatch_id, token, error="again", is_charged=is_charged)
        return await self.do("requeue" if is_charged else "uncharged", wish, work, _named)

    async def give_up(self, thread_id: str, token: str) -> RunDispatch | None:
        """Give back a claim that a commit took."""
        wish = Wish(thread_id=thread_id, token=token, releases=True)
        work = self.store.give_up_claim(thread_id, token)
        return await self.do("give_up", wish, work, _perhaps_named)

    async def reclaim(self) -> tuple[RunDispatch, ...] | None:
        """Take back claims whose lease has run out."""
        return await self.do(
            "reclaim",
            Wish(),
            self.store.reclaim(),
            lambda op, got: _told(op, dispatch_ids=tuple(it.dispatch_id for it in got)),
        )

    async def interrupt(self, thread_id: str, then: RunDispatch) -> Interruption | None:
        """Drop what is queued and queue something else."""
        wish = Wish(thread_id=thread_id, queued=(then.dispatch_id,))
        return await self.do("interrupt", wish, self.store.interrupt(thread_id, "user", then))

    async def cancel(self, dispatch_id: str) -> RunDispatch | None:
        """Cancel a queued dispatch."""
        wish = Wish(dispatch_id=dispatch_id)
        work = self.store.cancel_dispatch(dispatch_id)
        return await self.do("cancel", wish, work, _perhaps_named)

    async def revive(self, dispatch_id: str, new_id: str) -> RunDispatch | None:
        """Queue a dead letter again."""
        wish = Wish(queued=(new_id,), dispatch_id=dispatch_id)
        return await self.do("revive", wish, self.store.revive(dispatch_id, new_id), _named)

    async def delete(self, thread_id: str, *children: str) -> None:
        """Delete a thread, and with it these children."""
        strategy = DeleteStrategy.CASCADE if children else DeleteStrategy.DETACH
        wish = Wish(thread_id=thread_id, deleted=(thread_id, *children))
        await self.do("delete", wish, self.store.delete_thread(thread_id, strategy))

    async def purge(self, before_ms: int) -> Purged | None:
        """Remove what ended before a time."""
        return await self.do("purge", Wish(before_ms=before_ms), self.store.purge(before_ms))

    async def do(
        self,
        kind: str,
        wish: Wish,
        work: Awaitable[T],
        told: "Callable[[str, T], Told] | None" = None,
    ) -> T | None:
        """Do anything else that a store can do, and log it."""
        op = f"{self._name}.{next(self._numbers)}"
        self._log.write(Asked(op=op, kind=kind, digest=digest(wish), wish=wish))
        try:
            got = await work
        except _UNSURE as error:
            self._log.write(Told(op=op, outcome=UNKNOWN, error=error.code))
            if not self._is_patient:
                raise
            return None
        except AwakenError as error:
            self._log.write(Told(op=op, outcome=FAILED, error=error.code))
            return None
        except Exception as error:
            self._log.write(Told(op=op, outcome=BROKEN, error=repr(error)))
            raise
        self._log.write(_told(op) if told is None else told(op, got))
        return got


def _told(
    op: str,
    *,
    receipt: CommitReceipt | None = None,
    claimed: tuple[Claimed, ...] = (),
    dispatch_ids: tuple[str, ...] = (),
) -> Told:
    return Told(op=op, outcome=OK, receipt=receipt, claimed=claimed, dispatch_ids=dispatch_ids)


def _named(op: str, dispatch: RunDispatch) -> Told:
    return _told(op, dispatch_ids=(dispatch.dispatch_id,))


def _perhaps_named(op: str, dispatch: RunDispatch | None) -> Told:
    return _told(op, dispatch_ids=() if dispatch is None else (dispatch.dispatch_id,))


def _given(op: str, dispatches: tuple[RunDispatch, ...]) -> Told:
    claimed = tuple(
        Claimed(
            dispatch_id=it.dispatch_id,
            thread_id=it.thread_id,
            token=it.claim_token or "",
            attempt=it.attempt_count,
        )
        for it in dispatches
    )
    return _told(op, claimed=claimed)
