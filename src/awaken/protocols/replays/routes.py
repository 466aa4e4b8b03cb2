"""Recordings, replays and diffs of runs over HTTP, in one table."""

from collections.abc import Awaitable, Callable
from typing import Any

from awaken.contracts.config.audit import AuditAction
from awaken.contracts.evals.recordings import Recording
from awaken.contracts.evals.replays import ReplayResult, ReplaySpec
from awaken.contracts.record import StrictRecord
from awaken.evals.comparing import RunDiff
from awaken.evals.run_replays import RunReplays
from awaken.services.view import AppServices
from awaken.transport.asgi import Reply, as_json
from awaken.transport.routes import Access, ApiRoute, RouteCall, WireProtocol

FindReplays = Callable[[], RunReplays]
"""Returns what records and replays runs; it is loaded when it is first called."""
_RUN = "/v1/runs/{run_id}"
NO_REDACTION = "none"


class RecordingQuery(StrictRecord, frozen=True, kw_only=True):
    """How a recording is redacted."""

    redact: str = "secrets"
    """Detectors by kind or group, separated by commas; `none` needs the scope `admin`."""


def replays_protocol(services: AppServices, find_replays: FindReplays) -> WireProtocol:
    """Make the routes of recordings, replays and diffs."""
    routes = ReplayRoutes(services, find_replays)
    return WireProtocol(
        name="replays",
        routes=(
            _route(
                Access.CONFIG,
                f"GET {_RUN}/recording",
                routes.get_recording,
                Recording,
                query=RecordingQuery,
            ),
            _route(
                Access.EVAL, f"POST {_RUN}/replay", routes.replay, ReplayResult, body=ReplaySpec
            ),
            _route(Access.CONFIG, f"GET {_RUN}/diff/{{other_id}}", routes.compare, RunDiff),
        ),
    )


def _route(
    access: Access,
    operation: str,
    handle: Callable[[RouteCall], Awaitable[Reply]],
    reply: Any,
    **rest: Any,
) -> ApiRoute:
    method, path = operation.split()
    return ApiRoute(
        method=method,
        path=path,
        handle=handle,
        access=access,
        summary=(handle.__doc__ or "").partition("\n")[0],
        reply=reply,
        tag="runs",
        **rest,
    )


class ReplayRoutes:
    """Handles the routes; what they do is loaded by the first request."""

    def __init__(self, services: AppServices, find_replays: FindReplays) -> None:
        self._services = services
        self._find_replays = find_replays

    async def get_recording(self, call: RouteCall) -> Reply:
        """Get what a run did as a portable document, redacted unless `redact=none`."""
        asked: RecordingQuery = call.query
        record = await call.view.stored_run(call.path["run_id"])
        if asked.redact == NO_REDACTION:
            call.require(Access.ADMIN)
            return as_json(await self._find_replays().record(record.run_id, ()))
        names = tuple(it.strip() for it in asked.redact.split(",") if it.strip())
        return as_json(await self._find_replays().record(record.run_id, names))

    async def replay(self, call: RouteCall) -> Reply:
        """Replay a run with recorded tools and compare; nothing outside is touched."""
        spec: ReplaySpec = call.body
        record = await call.view.stored_run(call.path["run_id"])
        if spec.tools.allow_effects:
            call.require(Access.INVOKE)
            await self._audit(call, f"runs/{record.run_id}", mode=str(spec.mode))
        return as_json(await self._find_replays().replay(record.run_id, spec))

    async def compare(self, call: RouteCall) -> Reply:
        """Compare two runs: aligned steps, calls, state, ends and figures."""
        one = await call.view.stored_run(call.path["run_id"])
        other = await call.view.stored_run(call.path["other_id"])
        return as_json(await self._find_replays().compare(one.run_id, other.run_id))

    async def _audit(self, call: RouteCall, resource: str, **details: Any) -> None:
        """Record that the caller lets effects happen.

        Raises:
            StorageError: It could not be recorded; the route must not act.
        """
        audit = self._services.audit
        if audit is not None:
            await audit.record(
                AuditAction.REPLAY,
                resource,
                actor=call.actor,
                details=details,
                ip=call.client,
                request_id=call.request_id or None,
            )
