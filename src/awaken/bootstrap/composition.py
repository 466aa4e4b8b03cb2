"""Builds the parts of one runtime and connects them.

`AgentRuntime` imports this module when the first runtime is built, and with it the engine, the
mailbox and the store: a module that only declares agents and tools does not load them.
"""

import importlib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from awaken.authoring.agents import Agent
from awaken.contracts.backends.backend import ExecutionBackend, ExecutionBackendFactory
from awaken.contracts.clock import Clock, IdSource
from awaken.contracts.errors import InvalidInput
from awaken.contracts.models.inference import ModelClient
from awaken.contracts.models.model_specs import ProviderSpec
from awaken.contracts.plugins.plugin import Plugin
from awaken.contracts.specs.agents import AgentSpec
from awaken.contracts.specs.remote_registries import LOCAL_NAME
from awaken.contracts.storage.store import Store
from awaken.contracts.tools.tool import Tool
from awaken.mailbox.config import MailboxConfig
from awaken.runtime.engine import RunEngine
from awaken.runtime.limits import Limits
from awaken.runtime.primitives.system import SystemClock, Uuid7Source
from awaken.runtime.resolution.registries import RegistrySet
from awaken.runtime.resolution.registry import RegistryHandle
from awaken.runtime.resolution.snapshots import RegistrySnapshot
from awaken.services.busy_threads import BusyThreads
from awaken.services.control import RunControl
from awaken.services.discovery import Discovery, with_remotes
from awaken.services.event_streams import StreamHub
from awaken.services.remembered_answers import RememberedAnswers

from .arguments import convert_argument
from .backends import Backends
from .host_agents import registry_handle
from .node import Node
from .outbox_wiring import EngineMailbox, OutboxWiring
from .plugins import PluginLifecycle
from .providers import Connections, provider_clients
from .registries import check_mapping, check_remotes, registry_set, with_everywhere
from .run_services import build_services
from .runtime_options import ManagedOptions, RuntimeOptions
from .stores import profiles_of, resolve_store

if TYPE_CHECKING:
    from awaken.managed.configuration import ManagedConfig
    from awaken.managed.retention import ConfigPurger
    from awaken.memory.service import MemoryService
    from awaken.runtime.admission.worlds import EnteredWorld
    from awaken.services.workers import WorkerReport


EXPIRY_MS = 600_000
"""How often facts that have expired are deleted; nobody finds them meanwhile."""


class DeferredWorlds:
    """Opens the worlds of a store; the first run in a world imports what it takes."""

    __slots__ = ("_store",)

    def __init__(self, store: Store) -> None:
        self._store = store

    async def open(self, world: str, pinned: RegistrySnapshot) -> "EnteredWorld":
        """Return a world for one activation of a run.

        Raises:
            CannotReplay: There is no such world, or its recording is gone or damaged.
        """
        from .replays import build_worlds  # noqa: PLC0415

        return await build_worlds(self._store).open(world, pinned)


class Declared(msgspec.Struct, frozen=True, kw_only=True):
    """What a developer passes to a runtime: what agents are, and what they may name."""

    agents: Iterable[Agent | AgentSpec]
    tools: Iterable[Tool | Callable[..., Any]]
    plugins: Iterable[Plugin]
    providers: Mapping[str, ModelClient | ProviderSpec]
    backends: Mapping[str, ExecutionBackend | ExecutionBackendFactory]


class RuntimeCalls(msgspec.Struct, frozen=True, kw_only=True):
    """What the parts of a runtime ask of it."""

    start_worker: Callable[[], None]
    has_claiming_worker: Callable[[], bool]
    list_audit_days: Callable[[], Iterable[int]] = tuple
    sweep_schedules: Callable[[], Awaitable[None]] | None = None
    """Called with every sweep of a store of several processes."""
    sweep_evals: tuple[Callable[[], Awaitable[None]], Callable[[], Awaitable[None]]] | None = None
    """The same for open evals, and for the scores of real runs."""


class RuntimeParts(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of one runtime; `AgentRuntime` opens and closes them."""

    clock: Clock
    ids: IdSource
    registry: RegistryHandle
    plugins: PluginLifecycle
    backends: Backends
    connections: Connections
    discovery: Discovery
    node: Node
    engine: RunEngine
    control: RunControl
    streams: StreamHub
    busy: BusyThreads
    remembered: RememberedAnswers
    outbox: OutboxWiring
    report: "WorkerReport | None"
    """Shows this process to the others of a shared store."""
    managed: "ManagedConfig | None"
    """Configuration that changes while the runtime runs; None if it is off."""
    memory: "MemoryParts"
    """Makes memory when it is first asked for."""


class MemoryParts:
    """Makes the memory of a runtime when it is first asked for: few programs have one."""

    __slots__ = (
        "_clock",
        "_connections",
        "_due_at",
        "_ids",
        "_made",
        "_options",
        "_registry",
        "_store",
    )

    def __init__(
        self,
        store: Store,
        clock: Clock,
        ids: IdSource,
        options: RuntimeOptions,
        registry: RegistryHandle,
        connections: Connections,
    ) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids
        self._options = options
        self._registry = registry
        self._connections = connections
        self._made: MemoryService | None = None
        self._due_at = 0

    def find(self) -> "MemoryService":
        """Return the memory of the runtime.

        Raises:
            MemoryUnavailable: The store keeps no memory.
            InvalidInput: There is no such embedding model.
        """
        if self._made is None:
            from .memory import build_memory  # noqa: PLC0415

            providers = self._registry.snapshot().registries.providers
            self._made = build_memory(
                self._store, self._clock, self._ids, self._options, providers, self._connections
            )
        return self._made

    async def expire(self) -> None:
        """Delete the facts that have expired, now and then, if this process uses memory."""
        now = self._clock.monotonic_ms()
        if self._made is not None and now >= self._due_at:
            self._due_at = now + EXPIRY_MS
            await self._made.delete_expired()


def compose_runtime(
    declared: Declared,
    store: Store | str | None,
    options: RuntimeOptions,
    calls: RuntimeCalls,
) -> RuntimeParts:
    """Build the parts of a runtime; nothing is opened or started.

    Raises:
        InvalidInput: An argument is of the wrong type.
        InvalidSpec: An agent cannot be resolved; the message names every problem.
        DuplicateRegistration: Two things of one kind have the same id.
    """
    clock, ids = options.get("clock") or SystemClock(), options.get("ids") or Uuid7Source()
    connections, backends = Connections(), Backends(declared.backends, clock)
    remotes = check_remotes(options.get("remotes", ()))
    own = _collect_declared(declared, options, connections, backends)
    registries = with_remotes(own, remotes, options.get("local_name", LOCAL_NAME))
    limits = convert_argument("limits", options.get("limits") or Limits(), Limits)
    registry = registry_handle(registries, options.get("resolver"), limits.resolver_ms)
    config = convert_argument("mailbox", options.get("mailbox") or MailboxConfig(), MailboxConfig)
    opened = _resolve_store(store, config, options.get("history"))
    node = Node(opened, clock, ids, config, options.get("bus"))
    profile = options.get("profile") or profiles_of(opened)
    engine = RunEngine(
        opened,
        registry,
        build_services(options, limits, clock, ids, profile, opened),
        node.leases,
        EngineMailbox(lambda: outbox),
        DeferredWorlds(opened),
    )
    node.connect_runs(engine)
    control = RunControl(engine, node.mailbox, calls.start_worker, calls.has_claiming_worker)
    streams = StreamHub(engine, control, node.bus, config.poll_ms, node.frames)
    outbox = OutboxWiring(engine, control, node.mailbox, calls.start_worker)
    memory = MemoryParts(opened, clock, ids, options, registry, connections)
    plugins = PluginLifecycle(registry, memory.find)
    discovery = Discovery(registry, remotes, backends, clock)
    report = _reports().build_report(node, engine, profile) if opened.is_shared else None
    node.refuse_run = None if report is None else report.refuse_run
    managed, purger = _compose_managed(
        options,
        calls.list_audit_days,
        store=opened,
        code=registries,
        remotes=remotes,
        registry=registry,
        plugins=plugins,
        discovery=discovery,
        connections=connections,
        engine=engine,
        node=node,
        report=report,
    )
    node.make_chores = lambda: _reports().build_chores(node, profile, calls, purger, memory.expire)
    return RuntimeParts(
        clock=clock,
        ids=ids,
        registry=registry,
        plugins=plugins,
        backends=backends,
        connections=connections,
        discovery=discovery,
        node=node,
        engine=engine,
        control=control,
        streams=streams,
        busy=BusyThreads(engine, control, streams),
        remembered=RememberedAnswers(opened, profile, clock),
        outbox=outbox,
        report=report,
        managed=managed,
        memory=memory,
    )


def _resolve_store(store: Store | str | None, config: MailboxConfig, history: str | None) -> Store:
    opened = resolve_store(store, config)
    if history not in (None, "full", "lean"):
        raise InvalidInput(what=f"history={history!r:.80}", problem="choose 'full' or 'lean'")
    if history is not None:
        opened.keeps_state_history = history == "full"
    return opened


def _collect_declared(
    declared: Declared, options: RuntimeOptions, connections: Connections, backends: Backends
) -> RegistrySet:
    """Collect what a developer declares, and the plugins that installed packages offer."""
    registries = registry_set(
        declared.agents,
        declared.tools,
        declared.plugins,
        provider_clients(check_mapping("providers", declared.providers), connections),
        backends.by_name,
        options.get("models", ()),
    )
    return with_everywhere(registries, options.get("everywhere", ()))


def _compose_managed(
    options: RuntimeOptions, list_audit_days: Callable[[], Iterable[int]], **parts: Any
) -> "tuple[ManagedConfig | None, ConfigPurger | None]":
    """Build the managed configuration over the parts of a runtime, and what removes old ones."""
    given = options.get("managed", False)
    if given is False:
        return None, None
    # Only a runtime with managed configuration loads its modules.
    from . import managed_config  # noqa: PLC0415

    wiring = managed_config.ManagedWiring(**parts)
    managed = managed_config.build_managed(wiring, ManagedOptions() if given is True else given)
    purger = managed_config.build_purger(
        wiring.store, wiring.engine.services.clock, list_audit_days
    )
    return managed, purger


def _reports() -> Any:
    """The module that is imported on demand: a runtime in memory may need none of it."""
    return importlib.import_module("awaken.bootstrap.worker_reports")
