"""The routes of managed configuration in one table."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from awaken.contracts.config.connections import (
    LoginPage,
    McpInventory,
    McpServerView,
    ProviderTest,
    RemoteView,
)
from awaken.contracts.config.errors import ConfigNotEnabled
from awaken.contracts.config.heads import SeenCanary, Switch
from awaken.managed.auditing import AuditProof
from awaken.managed.configuration import ManagedConfig
from awaken.managed.drafts import DraftDifference
from awaken.managed.impact import ConfigImpact
from awaken.services.view import AppServices
from awaken.transport.asgi import Reply
from awaken.transport.routes import Access, ApiRoute, RouteCall, WireProtocol

from . import bodies, views
from .audit import AuditRoutes
from .capabilities import Capabilities
from .connections import ConnectionRoutes
from .drafts import DraftRoutes
from .files import FileRoutes
from .publications import PublicationRoutes
from .records import RecordRoutes

Handle = Callable[[RouteCall], Awaitable[Reply]]

_WRITE = ("Idempotency-Key", "If-Match", "X-Awaken-Actor")
_EDIT = ("If-Match", "X-Awaken-Actor")
_ONCE = ("Idempotency-Key", "X-Awaken-Actor")
_RECORDS = "/v1/config/{namespace}"
_RECORD = "/v1/config/{namespace}/{record_id}"
_DRAFT = "/v1/config/drafts/{draft_id}"
_SWITCH = "/v1/config/switches/{kind}/{target}"
_SERVER = "/v1/mcp-servers/{server_id}"
_SECRET = "/v1/config/secrets/{ref:path}"


def config_protocol(managed: ManagedConfig | None) -> WireProtocol:
    """The protocol over a configuration; without one, every route says that it is off."""

    @asynccontextmanager
    async def close_logins(_services: AppServices) -> AsyncIterator[None]:
        try:
            yield
        finally:
            if managed is not None:
                await managed.inspection.connections.close_logins()

    return WireProtocol(name="config", routes=tuple(_list_routes(managed)), lifespan=close_logins)


def _list_routes(managed: ManagedConfig | None) -> list[ApiRoute]:
    def bind(kind: Any, name: str) -> Handle:
        """Bind a method of the handlers, or the refusal where there is no configuration."""
        method = getattr(kind, name)
        if managed is None:
            refuse: Handle = partial(_refuse, method)
            refuse.__doc__ = method.__doc__
            return refuse
        handle: Handle = getattr(kind(managed), name)
        return handle

    return [
        ApiRoute(
            method=operation.split()[0],
            path=operation.split()[1],
            handle=bind(kind, name),
            access=access,
            summary=(getattr(kind, name).__doc__ or "").partition("\n")[0],
            tag="audit" if kind is AuditRoutes else "config",
            **rest,
        )
        for access, operation, kind, name, rest in _TABLE
    ]


async def _refuse(_method: object, _call: RouteCall) -> Reply:
    raise ConfigNotEnabled


_Row = tuple[Access, str, Any, str, dict[str, Any]]
_OBJECT = {"body": dict[str, Any], "reply": views.ConfigRecord}


def _row(access: Access, operation: str, kind: Any, name: str, **rest: Any) -> _Row:
    if not operation.startswith("GET "):
        rest.setdefault("query", bodies.NoQuery)
    return access, operation, kind, name, rest


_config = partial(_row, Access.CONFIG)
_publish = partial(_row, Access.PUBLISH)
_operate = partial(_row, Access.OPERATE)

_TABLE: tuple[_Row, ...] = (
    _config(
        f"GET {_RECORDS}",
        RecordRoutes,
        "list_records",
        query=bodies.RecordPaging,
        reply=views.RecordPage,
    ),
    _publish(
        f"POST {_RECORDS}",
        RecordRoutes,
        "create_record",
        query=bodies.WriteQuery,
        status=201,
        headers=_WRITE,
        **_OBJECT,
    ),
    _config(f"GET {_RECORDS}/$schema", RecordRoutes, "get_schema", reply=dict[str, Any]),
    _config(
        f"GET {_RECORDS}/meta",
        RecordRoutes,
        "list_meta",
        query=bodies.RecordPaging,
        reply=views.FactsPage,
    ),
    _config(
        f"POST {_RECORDS}/validate",
        RecordRoutes,
        "validate_record",
        query=bodies.ValidateQuery,
        body=dict[str, Any],
        reply=views.CheckedRecord,
    ),
    _config(f"GET {_RECORD}", RecordRoutes, "get_record", reply=views.ConfigRecord),
    _publish(
        f"PUT {_RECORD}",
        RecordRoutes,
        "put_record",
        query=bodies.WriteQuery,
        headers=_WRITE,
        **_OBJECT,
    ),
    _publish(
        f"DELETE {_RECORD}",
        RecordRoutes,
        "delete_record",
        query=bodies.RemovalQuery,
        status=204,
        headers=_WRITE,
        reply=None,
    ),
    _config(f"GET {_RECORD}/meta", RecordRoutes, "get_meta", reply=views.RecordFacts),
    _config(
        f"POST {_RECORD}/overrides",
        RecordRoutes,
        "try_overrides",
        body=dict[str, Any],
        reply=views.CheckedRecord,
    ),
    _publish(
        f"PATCH {_RECORD}/overrides",
        RecordRoutes,
        "patch_overrides",
        query=bodies.ChangeNote,
        headers=_WRITE,
        **_OBJECT,
    ),
    _publish(
        f"DELETE {_RECORD}/overrides",
        RecordRoutes,
        "drop_overrides",
        query=bodies.ChangeNote,
        headers=_WRITE,
        reply=views.ConfigRecord,
    ),
    _publish(
        f"DELETE {_RECORD}/overrides/{{field}}",
        RecordRoutes,
        "drop_overrides",
        query=bodies.ChangeNote,
        headers=_WRITE,
        reply=views.ConfigRecord,
    ),
    _publish(
        f"POST {_RECORD}/restore",
        RecordRoutes,
        "restore_record",
        body=bodies.RestoreBody,
        headers=_WRITE,
        reply=views.ConfigRecord,
    ),
    _config(
        "GET /v1/config/diagnostics",
        RecordRoutes,
        "get_diagnostics",
        reply=views.LiveDiagnostics,
    ),
    _config(
        "GET /v1/config/providers/{record_id}/removal-preview",
        RecordRoutes,
        "preview_removal",
        reply=views.ProviderRemoval,
    ),
    _config("GET /v1/config/drafts", DraftRoutes, "list_drafts", reply=views.DraftList),
    _config(
        "POST /v1/config/drafts",
        DraftRoutes,
        "create_draft",
        body=bodies.NewDraft,
        status=201,
        headers=_ONCE,
        reply=views.DraftView,
    ),
    _config(f"GET {_DRAFT}", DraftRoutes, "get_draft", reply=views.DraftView),
    _config(
        f"PATCH {_DRAFT}",
        DraftRoutes,
        "edit_draft",
        body=bodies.NewDraft,
        headers=_EDIT,
        reply=views.DraftView,
    ),
    _config(
        f"DELETE {_DRAFT}", DraftRoutes, "discard_draft", status=204, headers=_EDIT, reply=None
    ),
    _config(
        f"PUT {_DRAFT}/{{namespace}}/{{record_id}}",
        DraftRoutes,
        "put_record",
        body=bodies.DraftRecord,
        headers=_EDIT,
        reply=views.DraftView,
    ),
    _config(
        f"DELETE {_DRAFT}/{{namespace}}/{{record_id}}",
        DraftRoutes,
        "drop_record",
        headers=_EDIT,
        reply=views.DraftView,
    ),
    _config(f"GET {_DRAFT}/diff", DraftRoutes, "compare_draft", reply=DraftDifference),
    _config(f"GET {_DRAFT}/impact", DraftRoutes, "get_impact", reply=ConfigImpact),
    _config(f"POST {_DRAFT}/validate", DraftRoutes, "validate_draft", reply=views.CheckedDraft),
    _config(
        f"POST {_DRAFT}/rebase",
        DraftRoutes,
        "rebase_draft",
        body=bodies.RebaseBody,
        headers=_EDIT,
        reply=views.DraftView,
    ),
    _config(
        f"POST {_DRAFT}/preview",
        DraftRoutes,
        "preview_draft",
        status=201,
        headers=_ONCE,
        reply=views.PreviewedDraft,
    ),
    _publish(
        f"POST {_DRAFT}/publish",
        DraftRoutes,
        "publish_draft",
        body=bodies.PublishBody,
        status=201,
        headers=_WRITE,
        reply=views.PublishedDraft,
    ),
    _config(
        "GET /v1/config/publications",
        PublicationRoutes,
        "list_publications",
        query=bodies.PublicationPaging,
        reply=views.PublicationPage,
    ),
    _config(
        "GET /v1/config/publications/{no}",
        PublicationRoutes,
        "get_publication",
        reply=views.WholePublication,
    ),
    _config(
        "GET /v1/config/publications/{range}/diff",
        PublicationRoutes,
        "compare_publications",
        reply=views.PublicationDifference,
    ),
    _publish(
        "POST /v1/config/rollback",
        PublicationRoutes,
        "roll_back",
        body=bodies.RollbackBody,
        status=201,
        headers=_ONCE,
        reply=views.RolledBack,
    ),
    _publish(
        "POST /v1/config/canary",
        PublicationRoutes,
        "start_canary",
        body=bodies.CanaryBody,
        headers=_ONCE,
        reply=views.MovedHead,
    ),
    _publish(
        "POST /v1/config/canary/promote",
        PublicationRoutes,
        "promote_canary",
        body=bodies.PromoteBody,
        headers=_ONCE,
        reply=views.MovedHead,
    ),
    _publish(
        "DELETE /v1/config/canary",
        PublicationRoutes,
        "end_canary",
        query=SeenCanary,
        headers=_ONCE,
        reply=views.MovedHead,
    ),
    _config(
        "POST /v1/config/plan",
        FileRoutes,
        "plan_files",
        body=bodies.FilesBody,
        reply=views.PlanView,
    ),
    _publish(
        "POST /v1/config/apply",
        FileRoutes,
        "apply_files",
        body=bodies.FilesBody,
        headers=("X-Awaken-Actor",),
        reply=views.AppliedPlan,
    ),
    _config(
        "GET /v1/config/export",
        FileRoutes,
        "export_files",
        query=bodies.ExportQuery,
        reply=views.ExportedFiles,
    ),
    _config("GET /v1/config/head", PublicationRoutes, "get_head", reply=views.HeadView),
    _config("GET /v1/config/switches", PublicationRoutes, "list_switches", reply=views.SwitchList),
    _operate(
        f"PUT {_SWITCH}",
        PublicationRoutes,
        "set_switch",
        body=bodies.SwitchBody,
        headers=_ONCE,
        reply=Switch,
    ),
    _operate(
        f"DELETE {_SWITCH}",
        PublicationRoutes,
        "release_switch",
        query=bodies.ReleaseQuery,
        status=204,
        reply=None,
        headers=_ONCE,
    ),
    _publish("GET /v1/config/secrets", PublicationRoutes, "list_secrets", reply=views.SecretList),
    _publish(f"GET {_SECRET}", PublicationRoutes, "get_secret", reply=views.SecretView),
    _publish(
        f"PUT {_SECRET}",
        PublicationRoutes,
        "set_secret",
        body=bodies.SecretBody,
        headers=_ONCE,
        reply=views.SecretView,
    ),
    _publish(
        f"DELETE {_SECRET}",
        PublicationRoutes,
        "unset_secret",
        query=bodies.ForceQuery,
        status=204,
        headers=_ONCE,
        reply=None,
    ),
    _config("GET /v1/capabilities", ConnectionRoutes, "list_capabilities", reply=Capabilities),
    _operate(
        "POST /v1/providers/{provider_id}/test",
        ConnectionRoutes,
        "test_provider",
        query=bodies.TestQuery,
        reply=ProviderTest,
    ),
    _config(f"GET {_SERVER}/status", ConnectionRoutes, "get_server", reply=McpServerView),
    _config(f"GET {_SERVER}/inventory", ConnectionRoutes, "get_inventory", reply=McpInventory),
    _operate(
        f"POST {_SERVER}/restart",
        ConnectionRoutes,
        "restart_server",
        status=202,
        headers=("X-Awaken-Actor",),
        reply=None,
    ),
    _publish(f"POST {_SERVER}/login", ConnectionRoutes, "begin_login", reply=LoginPage),
    _publish(
        f"POST {_SERVER}/login/reply",
        ConnectionRoutes,
        "complete_login",
        body=bodies.LoginReply,
        status=204,
        headers=("X-Awaken-Actor",),
    ),
    _config(
        "GET /v1/a2a-servers/{registry_id}/status",
        ConnectionRoutes,
        "get_remote",
        reply=RemoteView,
    ),
    _row(
        Access.ADMIN,
        "GET /v1/audit-log",
        AuditRoutes,
        "list_events",
        query=bodies.AuditFilter,
        reply=views.AuditPage,
    ),
    _row(Access.ADMIN, "GET /v1/audit-log/verify", AuditRoutes, "verify_chain", reply=AuditProof),
)
