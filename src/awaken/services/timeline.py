"""The timeline of a run: its steps, model calls, tool calls and waits, from its log alone.

It has no contents: no text, no arguments, no results. A span that the log has no times for, as in
logs of earlier versions, lies between two commits and says so.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from awaken.contracts.events import (
    InferenceComplete,
    LoggedEvent,
    RunFinish,
    RunStart,
    StepEnd,
    StepStart,
    ToolCallDone,
    ToolCallReady,
    ToolCallResumed,
)
from awaken.contracts.lifecycle import RunStatus, Suspended
from awaken.contracts.record import Record
from awaken.contracts.runs.records import RunRecord
from awaken.contracts.suspension.tickets import ToolCallOutcome
from awaken.contracts.tools.tool import ToolEffect

from .view import TenantView

SPANS_MAX = 500
"""A page ends with the step that reaches this number of spans."""
_READ = 1_000

Effects = Mapping[tuple[int, str], ToolEffect]
"""The effects of calls that the tool journal has, by step and call id."""
NO_EFFECTS: Effects = {}


class TimelineSpan(Record, frozen=True, kw_only=True):
    """A step, a model call, a tool call, or a wait; times in milliseconds."""

    kind: str
    """`step`, `model`, `tool` or `wait`."""
    start: int = msgspec.field(default_factory=int)
    """Since the start of the run."""
    ms: int | None = None
    """How long it took; absent while it goes on."""
    is_estimated: bool = False
    """Whether the log has no times of it: it took place between two commits."""
    id: str | None = None
    n: int | None = None
    """The number of the step, from 1."""
    model: str | None = None
    first_token_ms: int | None = None
    tokens: tuple[int, int] | None = None
    """Of the request and of the answer."""
    cost_nanos: int | None = None
    attempts: int | None = None
    call_id: str | None = None
    tool: str | None = None
    outcome: str | None = None
    effect: ToolEffect | None = None
    child_run_id: str | None = None
    reason: str | None = None
    """Why the run waits."""
    tickets: tuple[str, ...] = ()
    seq: int | None = None
    """Its last event in the thread's log."""
    children: tuple["TimelineSpan", ...] = ()


class Timeline(Record, frozen=True, kw_only=True):
    """A page of a run's spans, in the order of the log."""

    run_id: str
    status: RunStatus
    started_at: int | None = None
    duration_ms: int | None = None
    """From its start to its end; absent before its end."""
    spans: tuple[TimelineSpan, ...] = msgspec.field(default_factory=tuple)
    next_cursor: int | None = None
    """The place in the log after which the next page begins; absent on the last page."""


async def read_timeline(view: TenantView, run_id: str, after: int = 0) -> Timeline:
    """Read a page of a run's timeline, which may still grow.

    Raises:
        UnknownRun: There is none, or it belongs to another tenant.
    """
    record = await view.run(run_id)
    journal = await view.engine.store.list_tool_records(view.add_namespace(run_id))
    # Of a workflow, `step` counts the resets, and no call id repeats.
    journalled = {(0 if it.kind else it.step, it.call_id): it.effect for it in journal}
    folder = TimelineFolder(record, journalled)
    place, page, count = 0, list[TimelineSpan](), 0
    while events := await view.run_events(run_id, place, _READ):
        place = events[-1].seq
        for span in folder.fold(events):
            if (span.seq or 0) <= after:
                continue
            if count >= SPANS_MAX:
                return _build_page(record, page, page[-1].seq)
            page.append(span)
            count += 1 + len(span.children)
        if len(events) < _READ:
            break
    page += folder.list_open()
    return _build_page(record, page, None)


def _build_page(record: RunRecord, spans: list[TimelineSpan], cursor: int | None) -> Timeline:
    return Timeline(
        run_id=record.run_id,
        status=record.status,
        started_at=record.started_at,
        duration_ms=record.duration_ms,
        spans=tuple(spans),
        next_cursor=cursor,
    )


def build_timeline(
    record: RunRecord, events: Iterable[LoggedEvent], effects: Effects = NO_EFFECTS
) -> tuple[TimelineSpan, ...]:
    """Return all spans of a run from all its events."""
    folder = TimelineFolder(record, effects)
    return (*folder.fold(events), *folder.list_open())


class TimelineFolder:
    """Makes spans of the events of one run, which it is given in order."""

    def __init__(self, record: RunRecord, effects: Effects = NO_EFFECTS) -> None:
        self._record = record
        self._effects = effects
        self._origin = record.started_at
        self._committed = record.started_at or 0
        """The time of the commit before the current event's."""
        self._latest = self._committed
        self._n = 0
        self._step: TimelineSpan | None = None
        self._children: list[TimelineSpan] = []
        self._wait: TimelineSpan | None = None
        self._names: dict[str, str] = {}
        self._tickets: dict[str, str] = {}
        """The tickets of suspended calls, by call id."""

    def fold(self, events: Iterable[LoggedEvent]) -> Iterator[TimelineSpan]:
        """Yield the spans that these events end."""
        for logged in events:
            if self._origin is None:
                self._origin = self._committed = self._latest = logged.created_at
            if logged.created_at != self._latest:
                self._committed, self._latest = self._latest, logged.created_at
            yield from self._take(logged)

    def list_open(self) -> list[TimelineSpan]:
        """Return what goes on: the step that executes, or the wait."""
        found = [] if self._wait is None else [self._wait]
        if self._step is not None:
            step = msgspec.structs.replace(self._step, children=tuple(self._children))
            found.append(step)
        return found

    def _take(self, logged: LoggedEvent) -> Iterator[TimelineSpan]:
        match logged.event:
            case RunStart():
                yield from self._end_wait(logged)
            case StepStart(message_id=message_id):
                yield from self._end_wait(logged)
                yield from self._end_step(logged)
                self._n += 1
                start = self._since_start(self._committed)
                self._step = TimelineSpan(
                    kind="step", id=message_id or None, n=self._n, start=start
                )
            case InferenceComplete() as event:
                self._children.append(self._build_model(logged, event))
            case ToolCallReady(id=call_id, name=name):
                self._names[call_id] = name
            case ToolCallDone() | ToolCallResumed() as event:
                yield from self._end_wait(logged)
                self._children.append(self._build_tool(logged, event))
                if self._step is None:
                    # A decided call goes on before the next step begins.
                    yield self._children.pop()
            case StepEnd():
                yield from self._end_step(logged)
            case RunFinish() as event:
                yield from self._end_step(logged)
                self._begin_wait(logged, event)

    def _begin_wait(self, logged: LoggedEvent, event: RunFinish) -> None:
        is_waiting = isinstance(event.termination, Suspended) or event.awaits_tasks
        if not is_waiting:
            return
        shown = event.result if isinstance(event.result, dict) else {}
        waiting = self._record.waiting
        is_latest = waiting is not None and logged.created_at == self._record.updated_at
        reason = str(waiting.reason) if waiting is not None and is_latest else None
        if reason is None:
            reason = "tool_permission" if self._tickets else str(shown.get("status_reason", ""))
        self._wait = TimelineSpan(
            kind="wait",
            reason=reason or None,
            start=self._since_start(logged.created_at),
            tickets=tuple(self._tickets.values()),
            seq=logged.seq,
        )

    def _end_wait(self, logged: LoggedEvent) -> Iterator[TimelineSpan]:
        wait, self._wait = self._wait, None
        if wait is not None:
            end = self._since_start(logged.created_at)
            yield msgspec.structs.replace(wait, ms=max(0, end - wait.start))

    def _end_step(self, logged: LoggedEvent) -> Iterator[TimelineSpan]:
        step, children = self._step, tuple(self._children)
        self._step, self._children = None, []
        if step is not None:
            end = self._since_start(logged.created_at)
            start = min([step.start, *(it.start for it in children)])
            yield msgspec.structs.replace(
                step, start=start, ms=max(0, end - start), children=children, seq=logged.seq
            )

    def _build_model(self, logged: LoggedEvent, event: InferenceComplete) -> TimelineSpan:
        usage = event.usage
        return TimelineSpan(
            kind="model",
            model=event.model,
            first_token_ms=event.first_token_ms,
            tokens=None
            if usage is None
            else (usage.prompt_tokens or 0, usage.completion_tokens or 0),
            cost_nanos=None if usage is None else usage.cost_nanos,
            attempts=event.attempts,
            seq=logged.seq,
            **self._place(logged, event.started_at, event.duration_ms),
        )

    def _build_tool(
        self, logged: LoggedEvent, event: ToolCallDone | ToolCallResumed
    ) -> TimelineSpan:
        metadata: object
        if isinstance(event, ToolCallDone):
            call_id, tool, metadata = event.id, event.result.tool_name, event.result.metadata
            outcome = str(event.outcome)
            if event.outcome is ToolCallOutcome.SUSPENDED and event.ticket_id is not None:
                self._tickets[call_id] = event.ticket_id
        else:
            call_id, tool = event.target_id, self._names.get(event.target_id, "")
            shown = event.result if isinstance(event.result, dict) else {}
            metadata = shown.get("metadata")
            outcome = "failed" if event.is_failed else "resumed"
            outcome = "declined" if event.is_declined else outcome
            self._tickets.pop(call_id, None)
        child = metadata.get("child_run_id") if isinstance(metadata, Mapping) else None
        step = 0 if self._record.is_workflow else self._n
        return TimelineSpan(
            kind="tool",
            call_id=call_id,
            tool=tool or self._names.get(call_id),
            outcome=outcome,
            effect=self._effects.get((step, call_id), ToolEffect.NONE),
            child_run_id=child if isinstance(child, str) else None,
            tickets=() if event.ticket_id is None else (event.ticket_id,),
            attempts=event.attempts,
            seq=logged.seq,
            **self._place(logged, event.started_at, event.duration_ms),
        )

    def _place(self, logged: LoggedEvent, started_at: int | None, ms: int) -> dict[str, Any]:
        """Return the times of a span: as logged, else those of the commits around it."""
        if started_at is not None:
            return {"start": self._since_start(started_at), "ms": ms}
        end = logged.created_at
        begin = end - ms if ms else self._committed
        start = self._since_start(begin)
        return {"start": start, "ms": max(0, end - begin), "is_estimated": True}

    def _since_start(self, at: int) -> int:
        return max(0, at - (self._origin or 0))
