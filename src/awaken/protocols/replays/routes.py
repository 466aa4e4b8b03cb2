"""Recordings, replays and diffs of runs over HTTP, in one table."""

from collections.abc import Callable
from functools import partial
from typing import Annotated

from msgspec import Meta

from awaken.contracts.config.audit import AuditAction
from awaken.contracts.evals.recordings import Recording
from awaken.contracts.evals.replays import ReplayRecord, ReplaySpec
from awaken.contracts.record import Record, StrictRecord, always
from awaken.evals.comparing import RunDiff
from awaken.evals.redacting import read_detectors, redact_shown
from awaken.evals.replay_jobs import FollowedReplay
from awaken.evals.run_replays import RunReplays
from awaken.transport.asgi import Reply, as_json
from awaken.transport.routes import Access, RouteCall, WireProtocol, make_route

FindReplays = Callable[[], RunReplays]
"""Returns what records and replays runs; it is loaded when it is first called."""
_RUN = "/v1/runs/{run_id}"
_REPLAY = f"{_RUN}/replays/{{replay_id}}"
WAIT_MS_MAX = 30_000
NO_REDACTION = "none"


class RecordingQuery(StrictRecord, frozen=True, kw_only=True):
    """How a recording is redacted."""

    redact: str = "secrets"
    """Detectors besides those of secrets, by kind or group, separated by commas; `none` needs the
    scope `admin`."""


class ReplayQuery(StrictRecord, frozen=True, kw_only=True):
    """How to follow a replay."""

    wait_ms: Annotated[int, Meta(ge=0, le=WAIT_MS_MAX)] = 0
    """How long the reply may wait for the end of the replay."""


class ReplayList(Record, frozen=True, kw_only=True):
    """The replays of a run that are kept, newest first."""

    replays: tuple[ReplayRecord, ...] = always(())


def replays_protocol(find_replays: FindReplays) -> WireProtocol:
    """Make the routes of recordings, replays and diffs."""
    routes = ReplayRoutes(find_replays)
    read = partial(make_route, Access.CONFIG)
    change = partial(make_route, Access.EVAL)
    return WireProtocol(
        name="replays",
        routes=(
            read(
                f"GET {_RUN}/recording",
                routes.get_recording,
                Recording,
                query=RecordingQuery,
            ),
            change(
                f"POST {_RUN}/replay",
                routes.replay,
                FollowedReplay,
                body=ReplaySpec,
                status=202,
            ),
            read(f"GET {_RUN}/replays", routes.list_replays, ReplayList),
            read(
                f"GET {_REPLAY}",
                routes.get_replay,
                FollowedReplay,
                query=ReplayQuery,
            ),
            read(
                f"GET {_REPLAY}/recording",
                routes.get_replayed,
                Recording,
                query=RecordingQuery,
            ),
            change(f"POST {_REPLAY}/cancel", routes.cancel, FollowedReplay),
            read(f"GET {_RUN}/diff/{{other_id}}", routes.compare, RunDiff),
        ),
    )


class ReplayRoutes:
    """Handles the routes; what they do is loaded by the first request."""

    def __init__(self, find_replays: FindReplays) -> None:
        self._find_replays = find_replays

    async def get_recording(self, call: RouteCall) -> Reply:
        """Get what a run did as a portable document, redacted unless `redact=none`."""
        record = await call.view.stored_run(call.path["run_id"])
        names = _read_detectors(call)
        return as_json(await self._find_replays().record(record.run_id, names))

    async def replay(self, call: RouteCall) -> Reply:
        """Begin a replay of a run with recorded tools; nothing outside is touched."""
        spec: ReplaySpec = call.body
        record = await call.view.stored_run(call.path["run_id"])
        if spec.tools.allow_effects:
            call.require(Access.INVOKE)
            await call.audit(AuditAction.REPLAY, f"runs/{record.run_id}", mode=str(spec.mode))
        # The memory of another user needs `operate`, whichever way it is read.
        is_own = record.user_id in (None, call.principal.id)
        begun = await self._find_replays().begin(
            record.run_id,
            spec,
            call.actor,
            acts_for_user=is_own or call.principal.may(Access.OPERATE),
        )
        return as_json(begun, 202)

    async def list_replays(self, call: RouteCall) -> Reply:
        """List the replays of a run that are kept, newest first."""
        record = await call.view.stored_run(call.path["run_id"])
        found = await self._find_replays().jobs.list_of(record.run_id)
        return as_json(ReplayList(replays=found))

    async def get_replay(self, call: RouteCall) -> Reply:
        """Get a replay, and its divergences, diff and figures once it is done, without secrets."""
        asked: ReplayQuery = call.query
        run_id, replay_id = await self._read_place(call)
        found = await self._find_replays().jobs.load(run_id, replay_id, asked.wait_ms)
        return as_json(redact_shown(found))

    async def get_replayed(self, call: RouteCall) -> Reply:
        """Get what the run of a replay did as a portable document, redacted as recordings are."""
        run_id, replay_id = await self._read_place(call)
        names = _read_detectors(call)
        return as_json(await self._find_replays().load_replayed(run_id, replay_id, names))

    async def cancel(self, call: RouteCall) -> Reply:
        """Cancel a replay; one that has ended stays as it is."""
        run_id, replay_id = await self._read_place(call)
        return as_json(redact_shown(await self._find_replays().jobs.cancel(run_id, replay_id)))

    async def _read_place(self, call: RouteCall) -> tuple[str, str]:
        record = await call.view.stored_run(call.path["run_id"])
        return record.run_id, call.path["replay_id"]

    async def compare(self, call: RouteCall) -> Reply:
        """Compare two runs: aligned steps, calls, state, ends and figures, without secrets."""
        one = await call.view.stored_run(call.path["run_id"])
        other = await call.view.stored_run(call.path["other_id"])
        return as_json(redact_shown(await self._find_replays().compare(one.run_id, other.run_id)))


def _read_detectors(call: RouteCall) -> tuple[str, ...]:
    """Return the detectors that a caller names; none only for callers with the scope `admin`."""
    asked: RecordingQuery = call.query
    if asked.redact == NO_REDACTION:
        call.require(Access.ADMIN)
        return ()
    return read_detectors(asked.redact)
