"""Wires managed configuration into a runtime: its compiler, its secrets, and what follows it."""

import os
import random
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Literal

import msgspec

from awaken import __version__
from awaken.contracts.clock import Clock
from awaken.contracts.config.heads import ConfigHead
from awaken.contracts.config.store import ConfigStore
from awaken.contracts.errors import InvalidInput
from awaken.contracts.lifecycle import Failed
from awaken.contracts.specs.remote_registries import RemoteRegistry
from awaken.contracts.storage.bus import Signal, SignalKind
from awaken.contracts.storage.queries import LIMIT_MAX, Order, RunQuery, at_cursor
from awaken.contracts.storage.store import Store
from awaken.extensions.permission.inspector import PermissionInspector
from awaken.managed.canaries import EndedRun
from awaken.managed.configuration import ConfigInspection, ManagedConfig, manage_config
from awaken.managed.effective import PublicationReader
from awaken.managed.followers import Follower
from awaken.managed.impact import ImpactReporter
from awaken.managed.live import ConfigReport, LiveConfig
from awaken.managed.parts import ConfigParts
from awaken.managed.publish_rules import JudgedGate, PublishRules
from awaken.managed.retention import AUDIT_DAYS, ConfigPurger, ConfigRetention
from awaken.managed.secret_keys import ConfiguredKeys
from awaken.managed.secrets import SecretBox, SecretResolver
from awaken.runtime.engine import RunEngine
from awaken.runtime.resolution.canary import CanaryChoice
from awaken.runtime.resolution.layers import ManagedLayer
from awaken.runtime.resolution.registries import RegistrySet
from awaken.runtime.resolution.registry import RegistryHandle
from awaken.services.discovery import Discovery
from awaken.services.workers import WorkerConfig, WorkerReport, list_workers

from .capabilities import RuntimeCapabilities
from .config_compiler import CompilerOnly, CompilerParts, RuntimeConfigCompiler
from .config_connections import RuntimeConnections
from .config_kinds import config_kinds
from .node import Node
from .plugins import PluginLifecycle
from .providers import Connections
from .runtime_options import ManagedOptions

SAMPLE_MAX = 1_000
"""How many runs of a publication a guardrail looks at."""


class ManagedWiring(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a runtime that its managed configuration uses."""

    store: Store
    code: RegistrySet
    remotes: tuple[RemoteRegistry, ...]
    registry: RegistryHandle
    plugins: PluginLifecycle
    discovery: Discovery
    connections: Connections
    engine: RunEngine
    node: Node
    report: WorkerReport | None


def build_managed(wiring: ManagedWiring, given: ManagedOptions | Literal[True]) -> ManagedConfig:
    """Build the managed configuration of a runtime; nothing is read yet. True: the defaults.

    Raises:
        InvalidInput: The store cannot keep configuration.
    """
    options = ManagedOptions() if given is True else given
    store = wiring.store
    if not isinstance(store, ConfigStore):
        problem = f"the store {store.name} keeps no configuration (it is no ConfigStore)"
        raise InvalidInput(what="managed", problem=problem)
    services = wiring.engine.services
    box = SecretBox(ConfiguredKeys(os.environ, _database_of(store)), services.clock)
    resolver, kinds = SecretResolver(box), config_kinds()
    bus = wiring.node.bus

    async def notify_changed() -> None:
        bus.tell(Signal(kind=SignalKind.CONFIG_CHANGED))

    make_compiler = RuntimeConfigCompiler if options.is_installing else CompilerOnly
    parts = ConfigParts(
        store=store,
        kinds=kinds,
        compiler=make_compiler(
            CompilerParts(
                code=wiring.code,
                remotes=wiring.remotes,
                registry=wiring.registry,
                plugins=wiring.plugins,
                discovery=wiring.discovery,
                connections=wiring.connections,
                prices=services.prices,
            )
        ),
        reader=PublicationReader(store, kinds, resolver.bind),
        box=box,
        resolver=resolver,
        clock=services.clock,
        ids=services.ids,
        version=__version__,
        notify_changed=notify_changed,
        find_judged_gates=partial(_find_judged_gates, wiring.store),
    )

    async def apply_head(head: ConfigHead) -> None:
        wiring.registry.canary = _choice_of(head)
        services.switches.apply(head.switches)

    def report(applied: ConfigReport) -> None:
        if wiring.report is not None:
            wiring.report.set_config(_worker_config(applied))

    live = LiveConfig(parts, apply_head, report, random.random, options.publication)
    wiring.registry.publications = PinnedPublications(parts)
    bus.subscribe(lambda signal: live.wake() if signal.kind is SignalKind.CONFIG_CHANGED else None)

    async def list_followers() -> Sequence[Follower]:
        if wiring.report is None:
            return [_follower(wiring.node.worker_id, _worker_config(live.applied))]
        entries = await list_workers(services.profile, await store.now_ms())
        return [_follower(it.id, it.config) for it in entries]

    async def sample(publication: int | None, since: int) -> Sequence[EndedRun]:
        return await sample_runs(store, publication, since)

    inspection = ConfigInspection(
        impact=ImpactReporter(
            store, PermissionInspector(), wiring.registry, services.prices, services.clock
        ),
        connections=RuntimeConnections(wiring.registry, wiring.discovery, services.clock),
        capabilities=RuntimeCapabilities(wiring.registry),
    )
    rules = options.rules or PublishRules()
    return manage_config(parts, live, rules, list_followers, sample, inspection)


def build_purger(
    store: Store, clock: Clock, list_audit_days: Callable[[], Iterable[int]]
) -> ConfigPurger:
    """Build what removes old configuration; the longest time of audit that is asked for counts."""
    assert isinstance(store, ConfigStore)

    def read_retention() -> ConfigRetention:
        return ConfigRetention(audit_days=max(list_audit_days(), default=AUDIT_DAYS))

    return ConfigPurger(store, clock, store.list_pinned_publications, read_retention)


class PinnedPublications:
    """Compiles publications on demand, for runs that are pinned to them. A `PublicationSource`."""

    def __init__(self, parts: ConfigParts) -> None:
        self._parts = parts

    async def load_layer(self, no: int) -> ManagedLayer:
        """Return what a publication adds to the code.

        Raises:
            UnknownPublication: There is none of that number.
        """
        publication = await self._parts.reader.load_publication(no)
        config = await self._parts.reader.read_effective(
            publication.manifest, self._parts.code, publication.no
        )
        compiled = await self._parts.compiler.compile(config)
        layer: ManagedLayer = compiled.layer
        return layer


async def sample_runs(store: Store, publication: int | None, since: int) -> list[EndedRun]:
    """Return the newest runs of a publication that ended; at most `SAMPLE_MAX`."""
    found: list[EndedRun] = []
    if publication is None:
        return found
    query = RunQuery(publication=publication, since=since, order=Order.DESC, limit=LIMIT_MAX)
    while len(found) < SAMPLE_MAX:
        page = await store.list_runs(query)
        found += [
            EndedRun(
                is_error=isinstance(run.termination, Failed),
                duration_ms=run.finished_at - (run.started_at or run.created_at),
                cost_nanos=run.usage.cost_nanos,
            )
            for run in page.items
            if run.finished_at is not None
        ]
        if page.next_cursor is None:
            break
        query = at_cursor(query, page.next_cursor)
    return found


def _choice_of(head: ConfigHead) -> CanaryChoice | None:
    canary = head.canary
    if canary is None:
        return None
    return CanaryChoice(
        publication=canary.publication,
        salt=canary.salt,
        basis_points=round(canary.plan.percent * 100),
        by=canary.plan.by,
    )


def _worker_config(applied: ConfigReport) -> WorkerConfig:
    return WorkerConfig(
        publication=applied.publication,
        config_revision=applied.revision,
        applied_at=applied.applied_at,
        unusable=applied.unusable,
        problem=applied.problem,
        trial=applied.trial,
        trial_problems=applied.trial_problems,
    )


def _follower(worker_id: str, config: WorkerConfig) -> Follower:
    problem = config.problem
    if problem is None and config.unusable:
        problem = f"{len(config.unusable)} agents cannot be used"
    return Follower(
        id=worker_id,
        publication=config.publication,
        revision=config.config_revision or 0,
        problem=problem,
        trial=config.trial,
        trial_problems=config.trial_problems,
    )


def _database_of(store: Store) -> Path | None:
    """The file of a SQLite store, beside which a key for secrets may be made."""
    scheme, _, path = store.name.partition(":///")
    return Path(path) if scheme == "sqlite" and path else None


async def _find_judged_gates(store: Store, manifest_hash: str) -> list[JudgedGate]:
    """Return the evals of a manifest that gates have judged."""
    # Loaded only by a publisher whose rules require evals.
    from .evals import list_judged_evals  # noqa: PLC0415

    return [
        JudgedGate(
            eval_id=it.record.eval_id,
            dataset_id=it.record.spec.dataset_id,
            at=it.record.finished_at or it.record.created_at,
            mode=it.record.spec.mode_or_live,
            tools=it.tools,
            is_passed=it.is_passed,
            off_terms=it.off_terms,
        )
        for it in await list_judged_evals(store, manifest_hash)
    ]
