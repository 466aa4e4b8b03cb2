"""What clients asked a store for and what they were told, in a log that outlives them.

A client writes `Asked` before it calls the store and `Told` after it was answered. What was asked
and never answered has an unknown outcome: it may be durable or not, but whole or not at all.
Tools write to a `Ledger` when they start and when they end. Nothing here reads a store.
"""

import os
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from awaken.contracts.record import Record
from awaken.contracts.storage.store import Commit, CommitReceipt

_ENCODE = msgspec.json.Encoder().encode

OK, FAILED, UNKNOWN, BROKEN = "ok", "fail", "unknown", "broken"


class Wish(Record, frozen=True, kw_only=True):
    """What an operation would leave behind; texts are kept as digests."""

    thread_id: str = ""
    commit_id: str = ""
    expected_version: int = -1
    messages: tuple[tuple[str, str], ...] = ()
    """Id and digest of each."""
    events: tuple[str, ...] = ()
    state: dict[str, str | None] = msgspec.field(default_factory=dict)
    run_id: str | None = None
    tickets: tuple[str, ...] = ()
    decided: tuple[tuple[str, str], ...] = ()
    """Tickets with the id of the decision that each would get."""
    outbox: tuple[str, ...] = ()
    token: str | None = None
    releases: bool = False
    """Whether the claim ends with it."""
    queued: tuple[str, ...] = ()
    """Dispatches that it queues."""
    absorbed: tuple[str, ...] = ()
    dispatch_id: str = ""
    dedupe_key: str | None = None
    deleted: tuple[str, ...] = ()
    """Threads that go with it."""
    before_ms: int = 0
    must_fail: bool = False
    """It is asked for to see it refused."""


class Asked(Record, frozen=True, kw_only=True, tag="invoke", tag_field="at"):
    """A client is about to call the store."""

    op: str
    kind: str
    digest: str
    wish: Wish = Wish()


class Claimed(Record, frozen=True, kw_only=True):
    """A dispatch that a client was given."""

    dispatch_id: str
    thread_id: str
    token: str
    attempt: int


class Told(Record, frozen=True, kw_only=True, tag="end", tag_field="at"):
    """A client was answered."""

    op: str
    outcome: str
    error: str | None = None
    receipt: CommitReceipt | None = None
    claimed: tuple[Claimed, ...] = ()
    dispatch_ids: tuple[str, ...] = ()
    """Dispatches that the answer names: what was queued, or taken back."""


class Reached(Record, frozen=True, kw_only=True, tag="step", tag_field="at"):
    """A scenario has come to a step; whatever came before it has returned."""

    number: int


class Operation(Record, frozen=True, kw_only=True):
    """One call of a client, with its answer."""

    asked: Asked
    told: Told | None = None

    @property
    def place(self) -> tuple[str, int]:
        """Whose operation it is, and which of theirs."""
        client, _, number = self.asked.op.rpartition(".")
        return client, int(number)

    @property
    def wish(self) -> Wish:
        """What it would leave behind."""
        return self.asked.wish

    @property
    def outcome(self) -> str:
        """`ok`, `fail` or `unknown`; `broken` when the store raised what it never should."""
        return UNKNOWN if self.told is None else self.told.outcome


_ENTRY = msgspec.json.Decoder(Asked | Told | Reached)


class Log:
    """Appends entries to a file or a pipe; each is one write, so a kill never mixes two."""

    def __init__(self, fd: int, *, is_synced: bool = False) -> None:
        self._fd = fd
        self._is_synced = is_synced

    def write(self, entry: Record) -> None:
        """Append one entry; on a synced log it is durable before this returns."""
        os.write(self._fd, _ENCODE(entry) + b"\n")
        if self._is_synced:
            os.fsync(self._fd)


class History:
    """Operations in the order they were asked for."""

    def __init__(self, operations: Iterable[Operation] = (), step: int = -1) -> None:
        self.operations = list(operations)
        self.step = step
        """The last step that a scenario came to; -1 before the first."""

    def __len__(self) -> int:
        return len(self.operations)

    def __add__(self, other: "History") -> "History":
        return History([*self.operations, *other.operations])

    @property
    def counts(self) -> dict[str, int]:
        """How many operations had which outcome."""
        found = dict.fromkeys((OK, FAILED, UNKNOWN, BROKEN), 0)
        for operation in self.operations:
            found[operation.outcome] += 1
        return found

    @property
    def thread_ids(self) -> list[str]:
        """Every thread that an operation named, in order."""
        named = (operation.wish.thread_id for operation in self.operations)
        return list(dict.fromkeys(name for name in named if name))

    def of_kind(self, *kinds: str) -> Iterator[Operation]:
        """Operations of these kinds."""
        return (it for it in self.operations if it.asked.kind in kinds)

    def not_before(self, operation: Operation) -> Iterator[Operation]:
        """What may have happened after an operation: its client's later ones, all of others."""
        client, number = operation.place
        for other in self.operations:
            if other.place[0] != client or other.place[1] > number:
                yield other


def parsed(data: bytes) -> History:
    """Read a log; a last line that a kill cut short is left out."""
    asked: dict[str, Asked] = {}
    told: dict[str, Told] = {}
    step = -1
    for line in data.split(b"\n")[:-1]:
        match _ENTRY.decode(line):
            case Asked() as entry:
                asked[entry.op] = entry
            case Told() as entry:
                told[entry.op] = entry
            case Reached(number=step):
                pass
    operations = (Operation(asked=it, told=told.get(op)) for op, it in asked.items())
    return History(operations, step)


def digest(value: Any) -> str:
    """A short digest of a value's JSON form."""
    return format(zlib.crc32(_ENCODE(value)), "08x")


def wish_of(commit: Commit, *, must_fail: bool = False) -> Wish:
    """What a commit would leave behind."""
    return Wish(
        thread_id=commit.thread_id,
        commit_id=commit.commit_id,
        expected_version=commit.expected_version,
        messages=tuple((message.id or "", digest(message)) for message in commit.messages),
        events=tuple(map(digest, commit.events)),
        state={
            name: None if value is None else digest(value.data)
            for name, value in commit.state.items()
        },
        run_id=None if commit.run is None else commit.run.run_id,
        tickets=tuple(ticket.ticket_id for ticket in commit.tickets),
        outbox=tuple(entry.entry_id for entry in commit.outbox),
        token=commit.fencing_token,
        releases=commit.release is not None,
        queued=tuple(dispatch.dispatch_id for dispatch in commit.enqueued),
        absorbed=commit.absorbed,
        must_fail=must_fail,
    )


class Effect(Record, frozen=True, kw_only=True):
    """One line of the ledger: a tool began or ended."""

    run_id: str
    call_id: str
    attempt: int
    pid: int
    at: str
    """`start` or `end`."""


class Ledger:
    """What tools did, in a file that is synced at every line; several processes may write it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def note(self, run_id: str, call_id: str, attempt: int, at: str) -> None:
        """Append one line; it is durable before this returns."""
        fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            effect = Effect(run_id=run_id, call_id=call_id, attempt=attempt, pid=os.getpid(), at=at)
            Log(fd, is_synced=True).write(effect)
        finally:
            os.close(fd)

    def read(self) -> list[Effect]:
        """Every whole line."""
        if not self.path.exists():
            return []
        lines = self.path.read_bytes().split(b"\n")[:-1]
        return [msgspec.json.decode(line, type=Effect) for line in lines]
