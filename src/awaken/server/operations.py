"""The routes for operators: liveness, health, metrics, system information and statistics."""

import asyncio
import logging
from collections.abc import Sequence
from functools import partial

from awaken.contracts.errors import AwakenError, StoreUnavailable
from awaken.contracts.plugins.statistics import Statistics
from awaken.contracts.record import Record
from awaken.contracts.storage.bus import Bus
from awaken.contracts.storage.dispatch import DispatchStatus
from awaken.contracts.storage.nodes import NodeStore
from awaken.contracts.storage.queries import DispatchQuery
from awaken.transport.asgi import Bytes, Reply, as_json
from awaken.transport.problems import HttpError
from awaken.transport.routes import DEPLOYMENT_SCOPES, SCOPES, Access, ApiRoute, RouteCall

from .endpoint import ServerContext
from .metrics import Counter, Gauge, exposition

logger = logging.getLogger(__name__)

_FRESH_MS = 1000
_COUNTED_MS = 10_000
_DUE, _OLDEST = "due", "oldest"
"""What is counted beside the statuses of dispatches."""
"""How old counts of the whole store may be: the store reads every dispatch for them."""
_NO_THREAD = ""
"""No thread has a blank id: looking it up is the cheapest query of a store."""
_TEXT = (b"content-type", b"text/plain; version=0.0.4; charset=utf-8")
_UNSETTLED = (DispatchStatus.CLAIMED, DispatchStatus.DEAD_LETTER)


class Health(Record, frozen=True, kw_only=True, omit_defaults=False):
    """Whether the server can work, and which part of it cannot."""

    status: str
    components: dict[str, str]


class SystemInfo(Record, frozen=True, kw_only=True, omit_defaults=False):
    """What this server runs."""

    version: str
    store: str
    """The kind of store, without its address."""
    agents: int
    protocols: tuple[str, ...]
    uptime_ms: int
    scope_id: str
    """The caller's tenant, or `default`."""
    uptime_seconds: int
    config_store_enabled: bool
    audit_log_enabled: bool
    runtime_stats_enabled: bool


class CallerView(Record, frozen=True, kw_only=True, omit_defaults=False):
    """Who calls, and what it may do."""

    id: str
    tenant_id: str | None
    scopes: tuple[str, ...]
    """Every scope that the caller can use, also those that `admin` contains."""


class SystemModules(Record, frozen=True, kw_only=True, omit_defaults=False):
    """The protocols and parts whose routes this server has."""

    modules: tuple[str, ...]


class Operations:
    """The operators' routes of one server."""

    def __init__(self, context: ServerContext, protocols: Sequence[str], version: str) -> None:
        self._context = context
        self._protocols = (*protocols,)
        self._version = version
        self._clock = context.services.clock
        self._started = self._clock.monotonic_ms()
        self._probing = asyncio.Lock()
        self._probed: tuple[int, str] | None = None
        self._counting = asyncio.Lock()
        self._counted: tuple[int, dict[str, int]] | None = None

    def routes(self) -> tuple[ApiRoute, ...]:
        """Every route; the open ones reveal nothing confidential."""
        get = partial(ApiRoute, method="GET", tag="operations")
        asked = partial(get, access=Access.READ)
        free = partial(get, access=Access.OPEN)
        answers, works, runs = "Whether it answers.", "Whether it can work.", "What runs here."
        took = "How long agents, models and tools took."
        return (
            free(path="/health/live", handle=self.live, summary=answers),
            free(path="/health", handle=self.health, summary=works, reply=Health),
            asked(path="/metrics", handle=self.metrics, summary="Numbers for Prometheus."),
            asked(path="/v1/system/info", handle=self.info, summary=runs, reply=SystemInfo),
            get(
                path="/v1/system/caller",
                handle=self.caller,
                access=Access.KNOWN,
                summary="Who calls, and with which scopes.",
                reply=CallerView,
            ),
            asked(
                path="/v1/system/modules",
                handle=self.modules,
                summary="Which protocols and parts are served.",
                reply=SystemModules,
            ),
            asked(path="/v1/system/stats", handle=self.stats, summary=took, reply=Statistics),
        )

    async def live(self, _: RouteCall) -> Reply:
        """Report that the process answers."""
        return Bytes(200)

    async def health(self, _: RouteCall) -> Reply:
        """Report whether the server can write to its store and is not about to stop."""
        store = await self._store_state()
        runtime = "draining" if self._context.is_draining else "ok"
        is_healthy = store == runtime == "ok"
        components = {"store": store, "runtime": runtime}
        bus = self._bus
        # A bus inside the process has no name, and cannot be down.
        is_degraded = hasattr(bus, "name") and not bus.is_up
        if hasattr(bus, "name"):
            components["carrier"] = "down" if is_degraded else "ok"
        if self._context.services.config is not None:
            # Everything else works: the server is healthy.
            components["config"] = "partial" if self._unusable_agents() else "ok"
        # Without a carrier everything still happens, later: the server gets requests all the same.
        status = "unhealthy" if not is_healthy else "degraded" if is_degraded else "healthy"
        return as_json(Health(status=status, components=components), 200 if is_healthy else 503)

    async def metrics(self, call: RouteCall) -> Reply:
        """Report the metrics; only to callers that may see every tenant."""
        _check_sees_all(call)
        families = self._context.observations.families()
        return Bytes(200, exposition([*families, *await self._gauges()]), (_TEXT,))

    async def stats(self, call: RouteCall) -> Reply:
        """Report durations of the last day; only to callers that may see every tenant."""
        _check_sees_all(call)
        return as_json(self._context.statistics.snapshot())

    async def caller(self, call: RouteCall) -> Reply:
        """Report who calls; a client shows only what the caller may use."""
        principal = call.principal
        hidden = DEPLOYMENT_SCOPES if principal.tenant_id is not None else frozenset()
        scopes = sorted(it.value for it in SCOPES - hidden if principal.may(it))
        caller = CallerView(id=principal.id, tenant_id=principal.tenant_id, scopes=tuple(scopes))
        return as_json(caller)

    async def info(self, call: RouteCall) -> Reply:
        """Report what this server runs."""
        uptime_ms = self._clock.monotonic_ms() - self._started
        has_audit = self._context.services.audit is not None
        info = SystemInfo(
            version=self._version,
            store=self._context.services.store.name.partition(":")[0],
            agents=len(await call.view.agents()),
            protocols=self._protocols,
            uptime_ms=uptime_ms,
            scope_id=call.principal.tenant_id or "default",
            uptime_seconds=uptime_ms // 1000,
            # Managed configuration brings both, or neither.
            config_store_enabled=has_audit,
            audit_log_enabled=has_audit,
            runtime_stats_enabled=True,
        )
        return as_json(info)

    async def modules(self, _: RouteCall) -> Reply:
        """Report which protocols and parts are served."""
        return as_json(SystemModules(modules=tuple(sorted(self._protocols))))

    async def _store_state(self) -> str:
        # However many clients ask, the store is probed once a second.
        async with self._probing:
            now = self._clock.monotonic_ms()
            if self._probed is None or now - self._probed[0] >= _FRESH_MS:
                self._probed = (now, await self._probe())
            return self._probed[1]

    async def _probe(self) -> str:
        try:
            async with asyncio.timeout(self._context.config.limits.probe_ms / 1000):
                await self._context.services.store.load_thread(_NO_THREAD)
                await self._context.services.store.check_writable()
        except TimeoutError:
            return "timeout"
        except StoreUnavailable as error:
            # Each probe of an outage says so: where it was raised says nothing.
            logger.warning("The store is unhealthy: %s", error)
            return "error"
        except (AwakenError, OSError):
            logger.warning("The store is unhealthy", exc_info=True)
            return "error"
        return "ok"

    def _unusable_agents(self) -> int:
        """How many agents of the configuration cannot be used in this process."""
        return len(self._context.services.engine.registry.snapshot().unusable)

    @property
    def _bus(self) -> Bus:
        return self._context.services.control.mailbox.services.bus

    def _node_gauges(self) -> list[Counter]:
        """What this process is to the others; nothing if its store is its own."""
        services = self._context.services
        if services.report is None:
            return []
        load, bus = services.report.measure_load(), self._bus
        slots = Gauge("awaken_slots", "Slots for queued runs in this process.", "state")
        busy = min(load.running, load.slots)
        slots.add(busy, "busy")
        slots.add(load.slots - busy, "free")
        carrier = Gauge("awaken_carrier_up", "Whether signals can be sent and heard.")
        carrier.add(int(bus.is_up))
        dropped = Counter("awaken_signals_dropped_total", "Signals and packets that were lost.")
        dropped.add(bus.dropped)
        nodes = services.control.mailbox.services.nodes
        if nodes is None:
            return [slots, carrier, dropped]
        age = Gauge("awaken_beat_age_seconds", "How long ago the lease of this node was renewed.")
        age.add(nodes.measure_beat_age() / 1000)
        over = Counter("awaken_node_over_total", "How often this process was declared over.")
        over.add(nodes.over_count)
        return [slots, carrier, dropped, age, over]

    async def _gauges(self) -> list[Counter]:
        active = Gauge("awaken_active_runs", "Runs that execute in this process.")
        active.add(sum(1 for _ in self._context.services.engine.active))
        queue = Gauge("awaken_mailbox_queue_depth", "Dispatches that wait.")
        depth = Gauge("awaken_mailbox_dispatch_depth", "Dispatches by status.", "status")
        depths = await self._depths()
        waiting = self._queue_gauges(depths.pop(_DUE, None), depths.pop(_OLDEST, 0))
        for status, count in depths.items():
            depth.add(count, status)
            if status == DispatchStatus.QUEUED.value:
                queue.add(count)
        unusable = Gauge("awaken_config_unusable_agents", "Agents that cannot be used here.")
        unusable.add(self._unusable_agents())
        return [active, queue, depth, unusable, *waiting, *self._node_gauges()]

    def _queue_gauges(self, due: int | None, oldest_ms: int) -> list[Counter]:
        """What could be claimed now by any process; nothing if the store knows no nodes."""
        if due is None:
            return []
        count = Gauge("awaken_queue_due", "Dispatches that a worker could claim now.")
        count.add(due)
        oldest = Gauge("awaken_queue_oldest_seconds", "How long the oldest of them has been due.")
        oldest.add(oldest_ms / 1000)
        return [count, oldest]

    async def _depths(self) -> dict[str, int]:
        # However many clients ask, the store is counted at most every `_COUNTED_MS`.
        async with self._counting:
            now = self._clock.monotonic_ms()
            if self._counted is None or now - self._counted[0] >= _COUNTED_MS:
                self._counted = (now, await self._count())
            return dict(self._counted[1])

    async def _count(self) -> dict[str, int]:
        store, found = self._context.services.store, dict[str, int]()
        try:
            async with asyncio.timeout(self._context.config.limits.probe_ms / 1000):
                found[DispatchStatus.QUEUED.value] = await store.count_queued()
                for status in _UNSETTLED:
                    page = await store.list_dispatches(DispatchQuery(status=status, limit=1))
                    found[status.value] = page.total or 0
                if isinstance(store, NodeStore):
                    figures = (await store.read_nodes()).queue
                    found |= {_DUE: figures.due, _OLDEST: figures.oldest_due_ms or 0}
        except (StoreUnavailable, TimeoutError):
            # Unknown counts are left out; the health check reports why.
            logger.warning("The store could not be counted: it does not answer")
        except (AwakenError, OSError):
            logger.warning("The store could not be counted", exc_info=True)
        return found


def _check_sees_all(call: RouteCall) -> None:
    if call.principal.tenant_id is not None:
        message = "This is about all tenants together; use a token without a tenant."
        raise HttpError(403, "forbidden", message)
