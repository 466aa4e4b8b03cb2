"""Runs as traces: a list, the log of one as NDJSON, and the pin that keeps it from the purge."""

from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from awaken.contracts.config.audit import AuditAction
from awaken.contracts.errors import CorruptRecord
from awaken.contracts.events import LoggedEvent
from awaken.contracts.lifecycle import reason_text
from awaken.contracts.record import Record, StrictRecord
from awaken.contracts.runs.records import RunRecord
from awaken.services.pinned_runs import PinnedRun, pin_run
from awaken.services.traces import EVENTS_MAX, TraceFilter, list_traces, read_trace
from awaken.transport.asgi import Bytes, Header, Reply, as_json, encode_json
from awaken.transport.problems import HttpError
from awaken.transport.routes import RouteCall

from .context import Id, OperatorContext, Place

_NDJSON: Header = (b"content-type", b"application/x-ndjson")


class TracesQuery(StrictRecord, frozen=True, kw_only=True):
    """Runs of an agent that began since a time."""

    agent_id: Id | None = None
    since: Annotated[str, Meta(max_length=64, extra_json_schema={"format": "date-time"})] | None = (
        None
    )
    """An RFC 3339 time with its zone."""
    limit: Annotated[int, Meta(ge=1, le=1_000)] = 100


class TraceQuery(StrictRecord, frozen=True, kw_only=True):
    """Where a page of events begins, counted from 0, and how long it is."""

    offset: Place = 0
    limit: Annotated[int, Meta(ge=1, le=EVENTS_MAX)] = EVENTS_MAX


class TraceSummary(Record, frozen=True, kw_only=True):
    """A run; times in seconds since the epoch."""

    run_id: str
    agent_id: str
    started_at: int
    ended_at: int | None = None
    prompt_ids: tuple[str, ...] = ()
    final_status: str | None = None


class TraceList(msgspec.Struct, frozen=True, kw_only=True):
    """Runs, newest first."""

    runs: tuple[TraceSummary, ...]


class TraceRoutes:
    """Shows the logs of runs, and pins them."""

    def __init__(self, context: OperatorContext) -> None:
        self._context = context

    async def list_traces(self, call: RouteCall) -> Reply:
        """List runs, newest first."""
        asked: TracesQuery = call.query
        wanted = TraceFilter(
            agent_id=asked.agent_id,
            since=None if asked.since is None else parse_time(asked.since),
            limit=asked.limit,
        )
        runs = await list_traces(call.view, wanted)
        return as_json(TraceList(runs=tuple(map(_summary, runs))))

    async def get_trace(self, call: RouteCall) -> Reply:
        """Get a page of a run's events, one JSON object per line."""
        asked: TraceQuery = call.query
        page = await read_trace(call.view, call.path["run_id"], asked.offset, asked.limit)
        end = asked.offset + len(page.events)
        headers: list[Header] = [_NDJSON, (b"x-trace-total-events", str(page.total).encode())]
        if page.events and end < page.total:
            headers.append((b"x-trace-next-offset", str(end).encode()))
        return Bytes(200, b"".join(map(_line, page.events)), headers)

    async def pin(self, call: RouteCall) -> Reply:
        """Keep a run, and the log of its thread from there on, from the purge."""
        run = await call.view.run(call.path["run_id"])
        await self._context.audit(call, AuditAction.PIN, f"runs/{run.run_id}")
        pinned = PinnedRun(thread_id=run.thread_id, by=call.actor, at=call.view.now_ms())
        await pin_run(self._context.services.profile, run.run_id, pinned)
        return Bytes(204)


def parse_time(text: str) -> int:
    """Return an RFC 3339 time in milliseconds.

    Raises:
        HttpError: It is no such time, or has no zone.
    """
    try:
        time = datetime.fromisoformat(text.strip())
        if time.tzinfo is not None:
            return int(time.timestamp() * 1000)
    except (ValueError, OverflowError):
        pass
    message = "invalid `since` query parameter; expected RFC 3339 timestamp"
    raise HttpError(400, "invalid_query", message)


def _summary(run: RunRecord) -> TraceSummary:
    started, ended = run.started_at or run.created_at, run.finished_at
    return TraceSummary(
        run_id=run.run_id,
        agent_id=run.agent_id,
        started_at=started // 1000,
        ended_at=None if ended is None else ended // 1000,
        final_status=None if run.termination is None else reason_text(run.termination),
    )


def _line(logged: LoggedEvent) -> bytes:
    payload: Any = msgspec.json.decode(encode_json(logged.event))
    if not isinstance(payload, dict):
        raise CorruptRecord(what="An event", problem="it has no fields")
    kind = payload.pop("event_type", payload.pop("type", ""))
    return encode_json({"kind": kind, "ts": logged.created_at, "payload": payload}) + b"\n"
