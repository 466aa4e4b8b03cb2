"""The nodes port: the processes that share a store, each with one lease for all its claims.

A store that has it judges the death of a process by one row, however many runs the process
executes. Claims keep their own tokens, which fence every commit, and a lease of their own that is
much longer: it is all that older versions know.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, runtime_checkable

from awaken.contracts.record import EMPTY, Record

from .dispatch import LeaseReport
from .mailbox import EVERY_TENANT

_ADDRESS = re.compile(r":([0-9a-f]{12})(?:@|$)")

CLAIM_LEASES = 6
"""How many leases of its node a claim lasts without being confirmed."""


class NodeReport(Record, frozen=True, kw_only=True):
    """What a process tells of itself with each beat."""

    node_id: str
    """The worker id that its claims name; new after the node was declared over."""
    kind: str
    version: str
    host: str
    pid: int
    slots: int = 0
    """How many queued runs it executes at once; 0 if it claims none."""
    busy: int = 0
    """How many runs it executes."""
    agents: tuple[str, ...] | None = None
    """The agents that it claims for; None: any."""
    is_draining: bool = False


class LiveNode(Record, frozen=True, kw_only=True):
    """A node that claims work, as its latest beat left it."""

    node_id: str
    room: int
    """How many more runs it could execute."""
    agents: tuple[str, ...] | None = None


class NodeBeat(Record, frozen=True, kw_only=True):
    """The answer to a beat."""

    is_over: bool = False
    """The node was declared over: it holds no lease any more, and needs a new id."""
    leases: tuple[LeaseReport, ...] = ()
    """Every claim of the node. A claim that is missing is not held."""
    live: tuple[LiveNode, ...] = ()
    """The nodes that claim work, this one as it reports itself."""


class NodeKeeper(Protocol):
    """Renews the lease of a node from an operating-system thread. Its calls block."""

    def begin_anew(self, node: NodeReport, lease_ms: int, before: str) -> None:
        """Write the row of a node that goes on under a new id, and declare it over under `before`.

        Both or none; what is claimed under the earlier id is taken back by the next sweep.

        Raises:
            StorageError: The store did not answer; whether it is written is unknown.
        """
        ...

    def beat(
        self,
        node: NodeReport,
        lease_ms: int,
        confirmed: Sequence[str] | None = None,
        *,
        limit_ms: int | None = None,
    ) -> NodeBeat:
        """Renew the lease of a node, and report on all its claims, in one statement.

        With `confirmed` the claims with these tokens last `CLAIM_LEASES` leases from now on. An
        answer that comes after `limit_ms` is not waited for; unless given, that is a lease.

        Raises:
            StorageError: The store did not answer; whether the lease was renewed is unknown.
        """
        ...

    def free(self, node_id: str, claim_tokens: Sequence[str]) -> None:
        """Let claims of a node run out now, so that the next sweep takes them back.

        Raises:
            StorageError: The store did not answer; it can be tried again.
        """
        ...

    def look(self, claim_tokens: Sequence[str]) -> tuple[LeaseReport, ...]:
        """Report on some claims in one statement; extends nothing.

        Raises:
            StorageError: The store did not answer.
        """
        ...

    def close(self) -> None:
        """Release the connection."""
        ...


class NodeRecord(NodeReport, frozen=True, kw_only=True):
    """A node as the store knows it; times are the store's, in milliseconds."""

    schema_no: int
    started_at: int
    beat_at: int
    lease_until: int
    is_over: bool
    claims: int
    """How many threads it holds."""


class QueueFigures(Record, frozen=True, kw_only=True, omit_defaults=False):
    """How much input waits; counted up to `QUEUE_COUNT_MAX`."""

    due: int = 0
    """What a free slot could take: not what waits behind an open run of its own thread."""
    oldest_due_ms: int | None = None
    """How long the oldest of them has been due; None if nothing is due."""
    delayed: int = 0
    dead_letters: int = 0


QUEUE_COUNT_MAX = 10_000


class WaitingLane(Record, frozen=True, kw_only=True):
    """What waits for one tenant, and how many threads of it are claimed."""

    tenant_id: str
    """Blank for what has no tenant."""
    due: int
    due_since: int | None
    delayed: int
    busy: int


def sum_lanes(
    lanes: Iterable[WaitingLane], max_busy: Mapping[str, int], now: int, dead_letters: int
) -> QueueFigures:
    """Add up what waits, but for what a tenant has above its limit: no slot could take it."""
    due = delayed = 0
    since: list[int] = []
    for lane in lanes:
        most = max_busy.get(lane.tenant_id, max_busy.get(EVERY_TENANT)) if lane.tenant_id else None
        places = lane.due if most is None else max(most - lane.busy, 0)
        due += min(lane.due, places)
        delayed += lane.delayed
        if places and lane.due_since is not None:
            since.append(lane.due_since)
    return QueueFigures(
        due=due,
        oldest_due_ms=max(now - min(since), 0) if since else None,
        delayed=delayed,
        dead_letters=dead_letters,
    )


class NodeFigures(Record, frozen=True, kw_only=True):
    """All nodes and what waits for them, read at one moment."""

    at: int
    nodes: tuple[NodeRecord, ...]
    """Live ones, and those that ended a short time ago."""
    queue: QueueFigures
    swept_at: int | None = None
    swept_by: str | None = None
    unlisted: Mapping[str, int] = {}
    """How many threads workers hold that have no row: processes of an older version."""


class Survey(Record, frozen=True, kw_only=True):
    """What there is to do because time has passed, read at one moment.

    Times are milliseconds from then on: negative, or 0, if they have passed.
    """

    is_turn: bool
    """Whether this node does what one node does for all."""
    living: tuple[str, ...] = ()
    """The nodes that are not over."""
    has_lost_claims: bool = False
    """Whether a node or a claim has outlived its lease, or an ended node can be forgotten."""
    deadline_ms: int | None = None
    """The next deadline of an open ticket."""
    due_ms: int | None = None
    """When the first dispatch is due of those that wait for a time."""
    wake_ms: int | None = None
    """When the first schedule has to be looked at."""
    has_unfilled_runs: bool = False
    has_uncounted_runs: bool = False
    has_orders: bool = False
    """Whether an order of the outbox is due."""
    has_evals: bool = False
    """Whether there are or were evals."""


@runtime_checkable
class NodeStore(Protocol):
    """A store that keeps one lease for each process."""

    def node_keeper(self) -> NodeKeeper:
        """A new keeper with its own connection; use and close it in one thread."""
        ...

    async def begin_node(self, node: NodeReport, lease_ms: int) -> None:
        """Write the row of a node, which makes its claims valid as long as it beats."""
        ...

    async def end_node(self, node_id: str) -> None:
        """Declare a node over that stops; claims that it still has are taken back at once."""
        ...

    async def take_turn(self, name: str, node_id: str, every_ms: int) -> bool:
        """Whether this node does a work that one node at a time does, at most once in `every_ms`.

        A node that dies after it took a turn holds nothing: another one takes the next.
        """
        ...

    async def survey(self, node_id: str, every_ms: int, pause_max_ms: int) -> Survey:
        """Take the turn of sweeping, if it is free, and find what there is to do, in one statement.

        What it does not find need not be looked for until the next survey. An order whose pause is
        longer than `pause_max_ms` is due: the clock was set back.
        """
        ...

    def is_drained(self, thread_id: str) -> bool:
        """Whether the latest write of this process left a thread unclaimed, with an empty queue.

        Never waits. What others have queued since then, they have announced.
        """
        ...

    async def read_nodes(self, max_busy: Mapping[str, int] = EMPTY) -> NodeFigures:
        """Read all nodes, their claims and what waits in the queue.

        What tenants have queued above `max_busy` of their claims is not due.
        """
        ...


def find_address(worker_id: str) -> str | None:
    """Find the address of a node in the name that its claims have; None in another name."""
    found = _ADDRESS.search(worker_id)
    return None if found is None else found[1]
