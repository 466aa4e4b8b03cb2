"""Bodies, queries and replies; all times are milliseconds since the epoch."""

from typing import Annotated, Any, Generic, TypeVar

import msgspec
from msgspec import Meta

from awaken.contracts.record import StrictRecord
from awaken.contracts.storage.queries import DEFAULT_LIMIT, LIMIT_MAX, Order
from awaken.contracts.storage.schedules import (
    DeliveryOutcome,
    EventFilter,
    Firing,
    FiringOutcome,
    HookDelivery,
    OverlapPolicy,
    RunTarget,
    Schedule,
    ScheduleSpec,
    ScheduleStatus,
    SignatureScheme,
    Timing,
    Trigger,
    TriggerSpec,
)

T = TypeVar("T")

Id = Annotated[str, Meta(max_length=256, pattern=r"^[^\x00-\x1f\x7f]*$")]
PageSize = Annotated[int, Meta(ge=1, le=LIMIT_MAX)]
DEFAULT_PAGE: PageSize = DEFAULT_LIMIT
UpcomingCount = Annotated[int, Meta(ge=1, le=100)]
UPCOMING: UpcomingCount = 10


class NewSchedule(ScheduleSpec, frozen=True, kw_only=True):
    """A schedule to create; without an id it gets one."""

    id: str | None = None


class PreviewSchedule(StrictRecord, frozen=True, kw_only=True):
    """A timing whose next due times are asked for."""

    timing: Timing
    end_at: int | None = None
    max_count: int | None = None
    count: UpcomingCount = UPCOMING


class NewTrigger(TriggerSpec, frozen=True, kw_only=True):
    """A trigger to create; without an id it gets one."""

    id: str | None = None


class ScheduleFilter(StrictRecord, frozen=True, kw_only=True):
    """Schedules by status and agent."""

    status: ScheduleStatus | None = None
    agent_id: Id | None = None
    demo: bool = False
    """Whether to list those of the demo data as well."""
    order: Order = Order.ASC
    cursor: str | None = None
    limit: PageSize = DEFAULT_PAGE


class TriggerFilter(StrictRecord, frozen=True, kw_only=True):
    """Triggers by agent."""

    agent_id: Id | None = None
    demo: bool = False
    """Whether to list those of the demo data as well."""
    order: Order = Order.ASC
    cursor: str | None = None
    limit: PageSize = DEFAULT_PAGE


class FiringFilter(StrictRecord, frozen=True, kw_only=True):
    """Firings by outcome, the newest first unless asked otherwise."""

    outcome: FiringOutcome | None = None
    order: Order = Order.DESC
    cursor: str | None = None
    limit: PageSize = DEFAULT_PAGE


class HookDeliveryFilter(StrictRecord, frozen=True, kw_only=True):
    """Deliveries by outcome, the newest first unless asked otherwise."""

    outcome: DeliveryOutcome | None = None
    order: Order = Order.DESC
    cursor: str | None = None
    limit: PageSize = DEFAULT_PAGE


class UpcomingQuery(StrictRecord, frozen=True, kw_only=True):
    """How many due times."""

    count: UpcomingCount = UPCOMING


class _Shown(msgspec.Struct, frozen=True, kw_only=True):
    """A reply that includes all fields, also empty ones."""


class ScheduleList(_Shown, Generic[T], frozen=True, kw_only=True):
    """A page of a list; `next_cursor` is where the next one begins."""

    items: tuple[T, ...]
    next_cursor: str | None = None


class FiringView(_Shown, frozen=True, kw_only=True):
    """What became of a due time, or of `count` of them up to `last_due_at`."""

    id: str
    schedule_id: str
    due_at: int
    last_due_at: int | None
    count: int
    fired_at: int
    """When it was decided."""
    outcome: FiringOutcome
    reason: str | None
    """Why no run was started: `missed`, `overlap`, `changed`, or the code of a refusal."""
    detail: str | None
    run_id: str | None
    thread_id: str | None
    is_manual: bool


class ScheduleView(_Shown, frozen=True, kw_only=True):
    """A schedule, when it is due next, and what became of the last due time."""

    id: str
    description: str
    status: ScheduleStatus
    timing: Timing
    target: RunTarget
    overlap: OverlapPolicy
    catch_up: int
    jitter_ms: int
    end_at: int | None
    max_count: int | None
    revision: str
    """Names what the schedule says: `If-Match` of a change. Firings do not change it."""
    next_due: int | None
    """The next due time; absent unless the schedule is active."""
    fires_at: int | None
    """When a process looks at it: the due time with its jitter, or later while it waits."""
    last: FiringView | None
    last_run_id: str | None
    fired_count: int
    skipped_count: int
    """How many due times started no run."""
    tenant_id: str | None
    created_by: str | None
    """The caller in whose name runs are started; absent: the server's own code."""
    user_id: str | None
    is_demo: bool
    """Whether it is demo data, which starts nothing and cannot be changed."""
    created_at: int
    updated_at: int


class UpcomingTimes(_Shown, frozen=True, kw_only=True):
    """Due times in order, without their jitter."""

    due: tuple[int, ...]


class HookDeliveryView(_Shown, frozen=True, kw_only=True):
    """An event that a sender delivered."""

    delivery_id: str
    trigger_id: str
    event: str | None
    outcome: DeliveryOutcome
    reason: str | None
    detail: str | None
    run_id: str | None
    thread_id: str | None
    received_at: int


class TriggerView(_Shown, frozen=True, kw_only=True):
    """A webhook trigger; its secrets are references and are never shown."""

    id: str
    path: str
    """Where the sender delivers, below the address of the server."""
    description: str
    is_paused: bool
    scheme: SignatureScheme
    secrets: tuple[str, ...]
    missing_secrets: tuple[str, ...] | None
    """The references that the answering process cannot read; null: a tenant is not told."""
    target: RunTarget
    thread: str | None
    filter: EventFilter
    revision: str
    """Names what the trigger says: `If-Match` of a change. Deliveries do not change it."""
    last: HookDeliveryView | None
    fired_count: int
    tenant_id: str | None
    created_by: str | None
    user_id: str | None
    is_demo: bool
    """Whether it is demo data, which starts nothing and cannot be changed."""
    created_at: int
    updated_at: int


class HookAccepted(_Shown, frozen=True, kw_only=True):
    """The answer to a sender; a repeated delivery gets the same."""

    status: DeliveryOutcome
    run_id: str | None = None


def show_firing(firing: Firing) -> FiringView:
    """Return a firing as clients see it."""
    return FiringView(id=firing.firing_id, **_take(FiringView, firing, "id"))


def show_schedule(schedule: Schedule) -> ScheduleView:
    """Return a schedule as clients see it."""
    return ScheduleView(
        id=schedule.schedule_id,
        revision=schedule.spec_revision,
        fires_at=schedule.wake_at,
        last=None if schedule.last is None else show_firing(schedule.last),
        created_by=schedule.creator.principal_id,
        **_take(
            ScheduleView,
            {**_fields(schedule.creator), **_fields(schedule.spec), **_fields(schedule)},
            "id",
            "revision",
            "fires_at",
            "last",
            "created_by",
        ),
    )


def show_delivery(delivery: HookDelivery) -> HookDeliveryView:
    """Return a delivery as clients see it."""
    return HookDeliveryView(**_take(HookDeliveryView, delivery))


def show_trigger(trigger: Trigger, path: str, missing: tuple[str, ...] | None) -> TriggerView:
    """Return a trigger as clients see it."""
    return TriggerView(
        id=trigger.trigger_id,
        path=path,
        revision=trigger.spec_revision,
        missing_secrets=missing,
        last=None if trigger.last is None else show_delivery(trigger.last),
        created_by=trigger.creator.principal_id,
        **_take(
            TriggerView,
            {**_fields(trigger.creator), **_fields(trigger.spec), **_fields(trigger)},
            "id",
            "path",
            "revision",
            "missing_secrets",
            "last",
            "created_by",
        ),
    )


def _fields(record: msgspec.Struct) -> dict[str, Any]:
    return {name: getattr(record, name) for name in record.__struct_fields__}


def _take(kind: type[msgspec.Struct], source: Any, *others: str) -> dict[str, Any]:
    """Return the fields of a reply that its source has under the same names."""
    given = source if isinstance(source, dict) else _fields(source)
    return {name: given[name] for name in kind.__struct_fields__ if name not in others}
