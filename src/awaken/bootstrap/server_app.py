"""Assembles the server: a runtime's services, every protocol, and authentication."""

import os
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from awaken import __version__
from awaken.contracts.config.heads import ConfigHead
from awaken.contracts.plugins.statistics import StatisticsKeeper
from awaken.evals.capture import RunRecordings
from awaken.extensions.observability.statistics import RuntimeStatistics
from awaken.extensions.permission.inspector import PermissionInspector
from awaken.managed.configuration import ManagedConfig
from awaken.outbound.guard import Outbound
from awaken.protocols.a2a.routes import a2a_protocol
from awaken.protocols.ag_ui.routes import ROUTES as AG_UI
from awaken.protocols.ai_sdk.routes import ROUTES as AI_SDK
from awaken.protocols.config.routes import config_protocol
from awaken.protocols.console.routes import ROUTES as CONSOLE
from awaken.protocols.evals.datasets import datasets_protocol
from awaken.protocols.evals.routes import evals_protocol
from awaken.protocols.mcp.protocol import mcp_protocol
from awaken.protocols.native.routes import ROUTES as NATIVE
from awaken.protocols.openai.routes import ROUTES as OPENAI
from awaken.protocols.operations.context import OperatorContext
from awaken.protocols.operations.routes import operations_protocol
from awaken.protocols.replays.routes import replays_protocol
from awaken.protocols.schedules.routes import FindScheduling, schedules_protocol
from awaken.scheduling.rights import FindProblem
from awaken.server.app import ServerApp
from awaken.server.auth import build_authenticator
from awaken.server.config import AdminConfig, ServerConfig
from awaken.server.endpoint import ServerContext
from awaken.server.environment import with_environment
from awaken.server.rights import build_judge
from awaken.services.activity import ActivityFeed, ActivityKind
from awaken.services.view import AppServices
from awaken.services.workers import WorkerReport
from awaken.transport.routes import WireProtocol

from .run_queries import LastingParts

if TYPE_CHECKING:
    from awaken.contracts.evals.eval_runs import EvalRecord


class SchedulingAccess(msgspec.Struct, frozen=True, kw_only=True):
    """What a server needs of schedules and triggers."""

    find: FindScheduling
    judges: list[FindProblem]
    """Takes the function by which this server says what its callers may do now."""


def server_app(
    services: AppServices,
    open_runtime: Callable[[AsyncExitStack], Awaitable[None]],
    config: ServerConfig | None,
    scheduling: SchedulingAccess,
    lasting: LastingParts,
    managed: ManagedConfig | None = None,
) -> ServerApp:
    """Build the whole server over a runtime, as an ASGI app."""
    settings = with_environment(config or ServerConfig(), os.environ)
    context = build_server_context(services, settings)
    scheduling.judges.append(build_judge(settings))
    outbound = Outbound(settings.private_hosts, settings.outbound_ports)
    operator = _operator_context(services, context.statistics, managed)
    watchers = lasting._eval_watchers  # noqa: SLF001 - of the same composition
    watchers.append(partial(_hint_at_eval, operator.activity))
    protocols = (
        WireProtocol(name="native", routes=NATIVE),
        schedules_protocol(services, scheduling.find, settings.hook_secrets),
        # Loaded by the first request: few servers have evals or replay runs.
        replays_protocol(lambda: lasting.replays),
        evals_protocol(services, lambda: lasting.evals),
        datasets_protocol(services, partial(_find_recordings, services)),
        operations_protocol(operator),
        *_config_protocols(managed, settings.admin),
        WireProtocol(name="ag-ui", routes=AG_UI),
        WireProtocol(name="ai-sdk", routes=AI_SDK),
        a2a_protocol(outbound, asks_tokens=settings.requires_authentication),
        mcp_protocol(),
        WireProtocol(name="openai", routes=OPENAI),
        *([WireProtocol(name="console", routes=CONSOLE)] if settings.admin.console else []),
    )
    return ServerApp(context, protocols, open_runtime, __version__)


def _find_recordings(services: AppServices) -> RunRecordings:
    # Loaded by the first request: few servers capture runs.
    from .replays import build_recordings  # noqa: PLC0415

    return build_recordings(services.engine)


def _config_protocols(managed: ManagedConfig | None, admin: AdminConfig) -> list[WireProtocol]:
    if not admin.config_routes:
        return []
    return [config_protocol(None if managed is None else managed.with_rules(admin.publish))]


def _operator_context(
    services: AppServices, statistics: StatisticsKeeper, managed: ManagedConfig | None
) -> OperatorContext:
    bus = services.control.mailbox.services.bus
    activity = ActivityFeed(services.engine, bus, services.clock)
    if managed is not None:
        managed.live.watchers.append(partial(_hint_at_head, activity, services.report))
    return OperatorContext(services, statistics, PermissionInspector(), activity)


def _hint_at_head(
    activity: ActivityFeed, report: WorkerReport | None, before: ConfigHead, after: ConfigHead
) -> None:
    """Tell readers of the activity what another head has changed in this process."""
    if (before.publication, before.canary) != (after.publication, after.canary):
        activity.publish(ActivityKind.CONFIG, {"publication": str(after.publication or 0)})
    states = [{(it.kind, it.id): it for it in head.switches} for head in (before, after)]
    for kind, target in {**states[0], **states[1]}:
        old, new = (it.get((kind, target)) for it in states)
        if old != new:
            status = "released" if new is None else new.state.value
            activity.publish(ActivityKind.SWITCH, {"kind": kind.value, "id": target}, status)
    if report is not None:
        activity.publish(ActivityKind.WORKER, {"worker_id": report.identity.id})


def _hint_at_eval(activity: ActivityFeed, record: "EvalRecord") -> None:
    activity.publish(ActivityKind.EVAL, {"eval_id": record.eval_id}, record.status.value)


def build_server_context(services: AppServices, config: ServerConfig) -> ServerContext:
    """Build what the endpoints of a server share: services, authentication and statistics."""
    authenticator, statistics = (
        build_authenticator(config, services.clock),
        RuntimeStatistics(services.clock),
    )
    if services.report is not None:
        services.report.statistics = statistics
    return ServerContext(services, authenticator, config, statistics)
