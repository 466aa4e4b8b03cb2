"""The deployment as one: its nodes, what waits for them, and what is stuck."""

import math
from collections import Counter
from collections.abc import Mapping

import msgspec

from awaken.contracts.record import Record
from awaken.contracts.state.profile import ProfileStore
from awaken.contracts.storage.bus import Bus
from awaken.contracts.storage.dispatch import DispatchStatus, RunDispatch
from awaken.contracts.storage.inspection import SchemaVersions, VersionedStore
from awaken.contracts.storage.nodes import (
    NodeFigures,
    NodeRecord,
    NodeStore,
    QueueFigures,
    WaitingLane,
    find_address,
    sum_lanes,
)
from awaken.contracts.storage.queries import LIMIT_MAX, DispatchQuery
from awaken.contracts.storage.store import Store
from awaken.contracts.tenancy import tenant_in

from .workers import REPORT_MS, WorkerEntry, list_workers

LATE_MS = 60_000
"""After how long something that should have happened counts as stuck."""
REPORTS = 3
"""After so many reports that did not come a process without a row counts as late."""
UTILIZATION = 0.7
"""How full the slots of a deployment of the right size are."""
CARRIER_DOWN, NODE_IS_LATE = "carrier_down", "node_is_late"
_WORKING = ("ok", "busy", "older")
HARMLESS = frozenset({CARRIER_DOWN, NODE_IS_LATE})
"""Problems with which everything still happens, only later."""


class ClusterNode(Record, frozen=True, kw_only=True, omit_defaults=False):
    """One process of the deployment."""

    id: str
    address: str
    kind: str
    version: str
    schema_no: int | None
    host: str
    pid: int
    started_at: int
    up_ms: int
    beat_ms: int
    slots: int
    """How many queued runs it executes at once; none once its lease has expired."""
    busy: int
    claims: int
    agents: tuple[str, ...] | None
    state: str


class ClaimFigures(Record, frozen=True, kw_only=True, omit_defaults=False):
    """The threads that are claimed."""

    held: int
    of_dead_nodes: int
    oldest_beat_ms: int | None


class CarrierStatus(Record, frozen=True, kw_only=True, omit_defaults=False):
    """The bus of the process that answers."""

    kind: str
    is_up: bool
    dropped: int


class SweepStatus(Record, frozen=True, kw_only=True, omit_defaults=False):
    """The latest sweep."""

    swept_at: int
    age_ms: int
    by: str


class ClusterProblem(Record, frozen=True, kw_only=True, omit_defaults=False):
    """Something that is wrong, by its code, and a sentence about it."""

    code: str
    text: str


class ClusterStatus(Record, frozen=True, kw_only=True, omit_defaults=False):
    """Everything about a deployment at one moment; times are the store's."""

    at: int
    leases: str
    """`node`: one lease for each process; `thread`: one for each claimed thread."""
    nodes: tuple[ClusterNode, ...]
    queue: QueueFigures
    claims: ClaimFigures
    carrier: CarrierStatus | None
    schema: SchemaVersions | None
    sweep: SweepStatus | None
    problems: tuple[ClusterProblem, ...]

    @property
    def is_stuck(self) -> bool:
        """Whether something does not happen at all."""
        return any(it.code not in HARMLESS for it in self.problems)


class ScaleFigures(Record, frozen=True, kw_only=True, omit_defaults=False):
    """What an autoscaler needs: how many slots are there, and how many there should be."""

    due: int
    oldest_due_ms: int
    busy: int
    slots: int
    desired_slots: int


async def read_cluster(
    store: Store, profile: ProfileStore, bus: Bus | None = None
) -> ClusterStatus:
    """Read the state of the deployment that shares a store.

    Raises:
        StorageError: The store could not answer.
    """
    figures = await _read_figures(store, profile)
    at = figures.at
    has_nodes = isinstance(store, NodeStore)
    nodes = tuple(_describe_node(it, at, has_nodes=has_nodes) for it in figures.nodes)
    living = [it for it in nodes if it.state != "over"]
    swept_at = figures.swept_at
    status = ClusterStatus(
        at=at,
        leases="node" if has_nodes else "thread",
        nodes=nodes,
        queue=figures.queue,
        claims=ClaimFigures(
            # Those of a process that neither has a row nor reports itself are held too.
            held=sum(it.claims for it in nodes) + sum(figures.unlisted.values()),
            of_dead_nodes=sum(it.claims for it in nodes if it.state == "over"),
            oldest_beat_ms=max((it.beat_ms for it in living), default=None),
        ),
        carrier=None if bus is None else _describe_carrier(bus),
        schema=await store.schema_versions() if isinstance(store, VersionedStore) else None,
        sweep=None
        if swept_at is None
        else SweepStatus(
            swept_at=swept_at,
            age_ms=max(at - swept_at, 0),
            by=find_address(figures.swept_by or "") or "",
        ),
        problems=(),
    )
    return msgspec.structs.replace(status, problems=tuple(_list_problems(status)))


async def read_scale(store: Store, profile: ProfileStore) -> ScaleFigures:
    """Read how many slots a deployment has and needs; scale down by draining only.

    Raises:
        StorageError: The store could not answer.
    """
    figures = await _read_figures(store, profile)
    claiming = [it for it in figures.nodes if _claims_work(it, figures.at)]
    busy, due = sum(it.busy for it in claiming), figures.queue.due
    return ScaleFigures(
        due=due,
        oldest_due_ms=figures.queue.oldest_due_ms or 0,
        busy=busy,
        slots=sum(it.slots for it in claiming),
        desired_slots=math.ceil((busy + due) / UTILIZATION),
    )


async def _read_figures(store: Store, profile: ProfileStore) -> NodeFigures:
    now = await store.now_ms()
    workers = await list_workers(profile, now)
    max_busy: dict[str, int] = {}
    for worker in workers:
        for name, most in worker.max_busy.items():
            max_busy[name] = max(most, max_busy.get(name, 0))
    if isinstance(store, NodeStore):
        return _add_older(await store.read_nodes(max_busy), workers)
    return NodeFigures(
        at=now,
        nodes=tuple(_make_record(it) for it in workers),
        queue=await _count_queue(store, now, max_busy),
    )


def _add_older(figures: NodeFigures, workers: tuple[WorkerEntry, ...]) -> NodeFigures:
    """Add the processes that report themselves and have no row: they do not know of nodes.

    One that has ended has a row that says so, for longer than its latest report counts.
    """
    listed = {find_address(it.node_id) or it.node_id for it in figures.nodes}
    unlisted = dict(figures.unlisted)
    older = [
        msgspec.structs.replace(_make_record(it), claims=unlisted.pop(it.id, 0))
        for it in workers
        if (find_address(it.id) or it.id) not in listed
    ]
    return msgspec.structs.replace(figures, nodes=(*figures.nodes, *older), unlisted=unlisted)


async def _count_queue(store: Store, now: int, max_busy: Mapping[str, int]) -> QueueFigures:
    """Count what waits, up to one page of each kind; of each thread that is free, its head."""
    page = await store.list_dispatches(DispatchQuery(status=DispatchStatus.QUEUED, limit=LIMIT_MAX))
    dead = await store.list_dispatches(DispatchQuery(status=DispatchStatus.DEAD_LETTER, limit=1))
    claimed = await store.list_dispatches(
        DispatchQuery(status=DispatchStatus.CLAIMED, limit=LIMIT_MAX)
    )
    busy = Counter(map(_find_lane, claimed.items))
    taken = {it.thread_id for it in claimed.items}
    due: dict[str, dict[str, int]] = {}
    delayed: Counter[str] = Counter()
    for it in page.items:
        since, lane = max(it.created_at, it.available_at or 0), _find_lane(it)
        if since > now:
            delayed[lane] += 1
        elif it.thread_id not in taken:
            waiting = due.setdefault(lane, {})
            waiting[it.thread_id] = min(since, waiting.get(it.thread_id, since))
    lanes = [
        WaitingLane(
            tenant_id=name,
            due=len(due.get(name, ())),
            due_since=min(due.get(name, {}).values(), default=None),
            delayed=delayed[name],
            busy=busy[name],
        )
        for name in {*due, *delayed}
    ]
    return sum_lanes(lanes, max_busy, now, dead.total or 0)


def _find_lane(dispatch: RunDispatch) -> str:
    return tenant_in(dispatch.thread_id) or ""


def _make_record(entry: WorkerEntry) -> NodeRecord:
    return NodeRecord(
        node_id=entry.id,
        kind=entry.kind or ("worker" if entry.slots else "runtime"),
        version=entry.version,
        host=entry.host,
        pid=entry.pid,
        slots=entry.slots,
        busy=entry.running,
        agents=entry.agents if entry.agent_count == len(entry.agents) else None,
        schema_no=0,
        started_at=entry.started_at,
        beat_at=entry.at,
        lease_until=entry.at + REPORTS * REPORT_MS,
        is_over=False,
        claims=entry.running,
    )


def _claims_work(node: NodeRecord, at: int) -> bool:
    return node.slots > 0 and not (node.is_over or node.is_draining) and node.lease_until > at


def _describe_node(node: NodeRecord, at: int, *, has_nodes: bool) -> ClusterNode:
    return ClusterNode(
        id=node.node_id,
        address=find_address(node.node_id) or "",
        kind=node.kind,
        version=node.version,
        schema_no=node.schema_no or None,
        host=node.host,
        pid=node.pid,
        started_at=node.started_at,
        up_ms=max(at - node.started_at, 0),
        beat_ms=max(at - node.beat_at, 0),
        # Whatever it said last: nothing is claimed there any more.
        slots=0 if node.is_over or node.lease_until <= at else node.slots,
        busy=0 if node.is_over else node.busy,
        claims=node.claims,
        agents=node.agents,
        state=_find_state(node, at, has_nodes=has_nodes),
    )


def _find_state(node: NodeRecord, at: int, *, has_nodes: bool) -> str:
    if node.is_over:
        return "over"
    if node.lease_until <= at:
        return "late"
    if node.is_draining:
        return "draining"
    if has_nodes and not node.schema_no:
        return "older"
    return "busy" if 0 < node.slots <= node.busy else "ok"


def _describe_carrier(bus: Bus) -> CarrierStatus:
    kind = type(bus).__name__.removesuffix("Bus").lower() or "bus"
    return CarrierStatus(kind=kind, is_up=bus.is_up, dropped=bus.dropped)


def _list_problems(status: ClusterStatus) -> list[ClusterProblem]:
    found: list[tuple[str, str]] = []
    held = sum(it.claims for it in status.nodes if it.state == "over" and it.beat_ms > LATE_MS)
    if held:
        found.append(("claims_of_dead_nodes", f"Nodes that are over still hold {held} threads."))
    working = [it for it in status.nodes if it.slots and it.state in _WORKING]
    if status.leases == "node" and working:
        age = None if status.sweep is None else status.sweep.age_ms
        oldest = max(it.up_ms for it in working)
        if oldest > LATE_MS and (age is None or age > LATE_MS):
            text = (
                "No node has swept" if age is None else f"The latest sweep was {age // 1000} s ago"
            )
            found.append(("sweep_is_late", f"{text}: dead nodes keep their runs."))
    if (status.queue.oldest_due_ms or 0) > LATE_MS:
        free = sum(max(it.slots - it.busy, 0) for it in working)
        waits = f"Input has been due for {(status.queue.oldest_due_ms or 0) // 1000} s"
        if not working:
            found.append(("queue_is_stuck", f"{waits}, and no node claims work."))
        elif free:
            found.append(("queue_is_stuck", f"{waits} while {free} slots are free."))
    late = [it.address or it.id for it in status.nodes if it.state == "late"]
    if late:
        found.append((NODE_IS_LATE, f"Nodes have not renewed their lease: {', '.join(late)}."))
    if status.carrier is not None and not status.carrier.is_up:
        found.append((CARRIER_DOWN, "This process has no connection for signals."))
    return [ClusterProblem(code=code, text=text) for code, text in found]
