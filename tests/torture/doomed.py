"""A process that kills itself at a chosen point, and a store that has such points everywhere.

A point is passed before and after every write to the store, before and after the effect of every
tool, and before every answer of a model. Each has a name; a plan says at which time that it is
passed the process dies, as if somebody had pulled the plug on it.
"""

import itertools
import os
import signal
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

from tests.torture.history import (
    BROKEN,
    FAILED,
    OK,
    UNKNOWN,
    Asked,
    Claimed,
    Log,
    Told,
    Wish,
    digest,
    wish_of,
)

from awaken.contracts.errors import (
    AwakenError,
    CommitUnknown,
    StoreCorrupt,
    StoreFull,
    StoreUnavailable,
)
from awaken.contracts.record import Record
from awaken.contracts.storage.dispatch import LeaseReport, RunDispatch
from awaken.contracts.storage.mailbox import LeaseKeeper
from awaken.contracts.storage.store import Store

_UNSURE = (CommitUnknown, StoreUnavailable, StoreFull, StoreCorrupt)


class Kill(Record, frozen=True, kw_only=True):
    """Where a process dies: the n-th time that it passes a point."""

    point: str
    number: int

    def __str__(self) -> str:
        return f"{self.point} #{self.number}"


class _Plan:
    """What is planned for this process, and which points it has passed."""

    kill: Kill | None = None
    seen: ClassVar[Counter[str]] = Counter()
    parts: Mapping[str, str] | None = None
    part = ""


def doom(kill: Kill | None, parts: Mapping[str, str] | None = None) -> Counter[str]:
    """Plan the death of this process; returns the points that it will have passed.

    With `parts` a process has the part of the first thread that it claims, or of any other one
    (""), and every point that it passes from then on has the name of that part before it.
    """
    _Plan.kill, _Plan.seen, _Plan.parts, _Plan.part = kill, Counter(), parts, ""
    return _Plan.seen


def passing(point: str) -> None:
    """Pass a point, or die there."""
    name = f"{_Plan.part} {point}" if _Plan.part else point
    _Plan.seen[name] += 1
    kill = _Plan.kill
    if kill is not None and kill.point == name and kill.number == _Plan.seen[name]:
        os.kill(os.getpid(), signal.SIGKILL)


def _has_part(told: Told) -> None:
    """Give the process its part when it has claimed something for the first time."""
    if told.claimed and _Plan.parts is not None and not _Plan.part:
        _Plan.part = _Plan.parts.get(told.claimed[0].thread_id, _Plan.parts[""])


class DoomedStore:
    """A store whose every write is logged like a client's, with a point before and after it.

    The point after a write is passed when it is durable and nobody has been told. `faults` are
    errors to raise instead of reading a thread: each is raised once, in order.
    """

    def __init__(self, store: Store, log: Log, name: str, faults: Sequence[Exception] = ()) -> None:
        self._store = store
        self._log = log
        self._name = name
        self._faults = list(faults)
        self._numbers = itertools.count(1)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)
        return partial(self._logged, name, method) if name in _WISHES else method

    async def checkout(self, thread_id: str) -> Any:
        """Read a thread, or fail as planned."""
        if self._faults:
            raise self._faults.pop(0)
        return await self._store.checkout(thread_id)

    def lease_keeper(self) -> "DoomedKeeper":
        """A keeper with points of its own."""
        return DoomedKeeper(self._store.lease_keeper())

    async def _logged(
        self, name: str, method: Callable[..., Awaitable[Any]], *args: Any, **options: Any
    ) -> Any:
        kind, wish = _WISHES[name](*args, **options)
        op = f"{self._name}.{next(self._numbers)}"
        self._log.write(Asked(op=op, kind=kind, digest=digest(wish), wish=wish))
        passing(f"{name} before")
        try:
            got = await method(*args, **options)
        except AwakenError as error:
            outcome = UNKNOWN if isinstance(error, _UNSURE) else FAILED
            self._log.write(Told(op=op, outcome=outcome, error=error.code))
            raise
        except Exception as error:
            self._log.write(Told(op=op, outcome=BROKEN, error=repr(error)))
            raise
        told = _told(op, kind, got)
        self._log.write(told)
        _has_part(told)
        passing(f"{name} after")
        return got


class DoomedKeeper:
    """Extends leases, with a point before and after."""

    def __init__(self, keeper: LeaseKeeper) -> None:
        self._keeper = keeper

    def extend(self, tokens: Sequence[str], lease_ms: int) -> tuple[LeaseReport, ...]:
        """Extend them."""
        passing("extend before")
        news = self._keeper.extend(tokens, lease_ms)
        passing("extend after")
        return news

    def close(self) -> None:
        """Close it."""
        self._keeper.close()


def _told(op: str, kind: str, got: Any) -> Told:
    match got, kind:
        case _, "commit":
            return Told(op=op, outcome=OK, receipt=got)
        case tuple(), "claim":
            return Told(op=op, outcome=OK, claimed=tuple(map(_claimed, got)))
        case RunDispatch(), "claim":
            return Told(op=op, outcome=OK, claimed=(_claimed(got),))
        case RunDispatch(), _:
            return Told(op=op, outcome=OK, dispatch_ids=(got.dispatch_id,))
        case _:
            return Told(op=op, outcome=OK)


def _claimed(dispatch: RunDispatch) -> Claimed:
    return Claimed(
        dispatch_id=dispatch.dispatch_id,
        thread_id=dispatch.thread_id,
        token=dispatch.claim_token or "",
        attempt=dispatch.attempt_count,
    )


def _plain(kind: str) -> Callable[..., tuple[str, Wish]]:
    return lambda *_, **__: (kind, Wish())


def _of_claim(dispatch_id: str, token: str, *_: Any, **options: Any) -> tuple[str, Wish]:
    kind = "requeue" if options.get("is_charged", True) else "uncharged"
    return kind, Wish(dispatch_id=dispatch_id, token=token, releases=True)


_WISHES: dict[str, Callable[..., tuple[str, Wish]]] = {
    "commit": lambda commit: ("commit", wish_of(commit)),
    "enqueue": lambda it, **_: (
        "enqueue",
        Wish(thread_id=it.thread_id, queued=(it.dispatch_id,), dedupe_key=it.dedupe_key),
    ),
    "claim": lambda _, token, *__, **___: ("claim", Wish(token=token)),
    "claim_dispatch": lambda id_, _, token, __: ("claim", Wish(dispatch_id=id_, token=token)),
    "release": _of_claim,
    "requeue": _of_claim,
    "give_up_claim": lambda thread_id, token: (
        "give_up",
        Wish(thread_id=thread_id, token=token, releases=True),
    ),
    "interrupt": lambda thread_id, _, then=None: ("interrupt", Wish(thread_id=thread_id)),
    "decide": lambda thread_id, _, decisions, *__: (
        "decide",
        Wish(
            thread_id=thread_id,
            decided=tuple((ticket_id, given.decision_id) for ticket_id, given in decisions),
        ),
    ),
    "cancel_dispatch": lambda dispatch_id: ("cancel", Wish(dispatch_id=dispatch_id)),
    "delete_thread": lambda thread_id, *_: (
        "delete",
        Wish(thread_id=thread_id, deleted=(thread_id,)),
    ),
    "reclaim": _plain("reclaim"),
    "revive": _plain("revived"),
    "request_cancel": _plain("request_cancel"),
    "save_checkpoint": _plain("save_checkpoint"),
    "save_thread": _plain("save_thread"),
    "list_outbox": _plain("list_outbox"),
    "save_outbox": _plain("save_outbox"),
    "delete_outbox": _plain("delete_outbox"),
    "purge": _plain("purge"),
    "check_writable": _plain("check_writable"),
}
"""Every write, and the one read that others are done after: its name, and what it would leave."""

WRITES = frozenset(_WISHES)
"""The names of those methods."""
