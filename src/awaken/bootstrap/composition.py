"""Builds the parts of one runtime and connects them.

`AgentRuntime` imports this module when the first runtime is built, and with it the engine, the
mailbox and the store: a module that only declares agents and tools does not load them.
"""

import importlib
from collections.abc import Callable, Iterable, Mapping
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
    from awaken.services.workers import WorkerReport


class Declared(msgspec.Struct, frozen=True, kw_only=True):
    """What a developer passes to a runtime: what agents are, and what they may name."""

    agents: Iterable[Agent | AgentSpec]
    tools: Iterable[Tool | Callable[..., Any]]
    plugins: Iterable[Plugin]
    providers: Mapping[str, ModelClient | ProviderSpec]
    backends: Mapping[str, ExecutionBackend | ExecutionBackendFactory]


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


def compose_runtime(
    declared: Declared,
    store: Store | str | None,
    options: RuntimeOptions,
    start_worker: Callable[[], None],
    has_claiming_worker: Callable[[], bool],
    list_audit_days: Callable[[], Iterable[int]] = tuple,
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
    registries = _collect_declared(declared, options, connections, backends)
    registries = with_remotes(registries, remotes, options.get("local_name", LOCAL_NAME))
    limits = convert_argument("limits", options.get("limits") or Limits(), Limits)
    registry = registry_handle(registries, options.get("resolver"), limits.resolver_ms)
    config = convert_argument("mailbox", options.get("mailbox") or MailboxConfig(), MailboxConfig)
    opened = resolve_store(store, config)
    if (history := options.get("history")) is not None:
        opened.keeps_state_history = _check_history(history) == "full"
    node = Node(opened, clock, ids, config, options.get("bus"))
    profile = options.get("profile") or profiles_of(opened)
    engine = RunEngine(
        opened,
        registry,
        build_services(options, limits, clock, ids, profile, opened),
        node.leases,
        EngineMailbox(lambda: outbox),
    )
    control = RunControl(engine, node.mailbox, start_worker, has_claiming_worker)
    streams = StreamHub(engine, control, node.bus, config.poll_ms)
    outbox = OutboxWiring(engine, control, node.mailbox, start_worker)
    plugins, discovery = PluginLifecycle(registry), Discovery(registry, remotes, backends, clock)
    report = _reports().build_report(node, engine, profile) if opened.is_shared else None
    node.refuse_run = None if report is None else report.refuse_run
    managed, purger = _compose_managed(
        options,
        list_audit_days,
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
    node.make_chores = lambda: _reports().build_chores(opened, profile, purger)
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
    )


def _check_history(history: str) -> str:
    if history not in ("full", "lean"):
        raise InvalidInput(what=f"history={history!r:.80}", problem="choose 'full' or 'lean'")
    return history


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
