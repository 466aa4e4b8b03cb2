"""Schedules and triggers: what starts runs without a caller, as it is stored.

A schedule is a row. Each of its due times becomes one dispatch, in the same transaction that
records the firing and moves the schedule to its next due time: a due time fires once, however many
processes look at it and wherever one of them stops. What is due, and how long a lease lasts, is
decided by the store's clock.
"""

from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

import msgspec

from awaken.contracts.record import Record, StrictRecord

from .dispatch import RunDispatch
from .queries import DeliveryQuery, FiringQuery, Page, ScheduleQuery, TriggerQuery


class CronTiming(StrictRecord, frozen=True, kw_only=True, tag_field="type", tag="cron"):
    """Local times in an IANA zone, as a cron expression of five fields."""

    expression: str
    zone: str = "UTC"


class IntervalTiming(StrictRecord, frozen=True, kw_only=True, tag_field="type", tag="interval"):
    """Every so many milliseconds, counted from `start_at`, else from the schedule's creation."""

    every_ms: int
    start_at: int | None = None


class OneShotTiming(StrictRecord, frozen=True, kw_only=True, tag_field="type", tag="once"):
    """One time, in milliseconds since the epoch."""

    at: int


Timing = CronTiming | IntervalTiming | OneShotTiming


class OverlapPolicy(StrEnum):
    """What happens at a due time while the run of the previous one has not ended."""

    SKIP = "skip"
    """The due time is skipped."""
    QUEUE = "queue"
    """The due time waits until that run has ended."""
    INTERRUPT = "interrupt"
    """That run is cancelled first."""


class ScheduleStatus(StrEnum):
    """Whether a schedule has due times."""

    ACTIVE = "active"
    PAUSED = "paused"
    ENDED = "ended"
    """Its last due time has passed, or it has fired as often as it may."""


class RunTarget(StrictRecord, frozen=True, kw_only=True):
    """The run that is started."""

    agent_id: str
    input: Any = ""
    """A text, a list of messages, or another JSON value, which the agent gets as JSON."""
    context: dict[str, Any] | None = None
    """The context of the run."""
    thread_id: str | None = None
    """The thread of every run; absent: each run has a new one."""
    event: str | None = None
    """The event that an open workflow on the thread gets, with the input as its payload. No run is
    started then. Absent: a run is started; an open workflow gets the input as `message`."""


class ScheduleSpec(StrictRecord, frozen=True, kw_only=True):
    """What a person says of a schedule."""

    timing: Timing
    target: RunTarget
    description: str = ""
    overlap: OverlapPolicy = OverlapPolicy.SKIP
    catch_up: int = 1
    """How many missed due times fire after an outage, the newest ones; the rest are skipped."""
    jitter_ms: int = 0
    """A due time fires up to this much later, and before the next one is due; how much depends only
    on it and the schedule."""
    end_at: int | None = None
    """No due time is later than this."""
    max_count: int | None = None
    """How often it fires at most, by hand too; skipped due times do not count."""


class Creator(Record, frozen=True, kw_only=True):
    """In whose name runs are started; its rights are checked each time."""

    principal_id: str | None = None
    """The caller who made it, by the id of its token or login; None: the host's own code."""
    tenant_id: str | None = None
    user_id: str | None = None
    """The user of the runs."""
    is_demo: bool = False
    """Whether it is demo data: nothing is ever started in its name."""


class FiringOutcome(StrEnum):
    """What became of a due time."""

    FIRED = "fired"
    DELIVERED = "delivered"
    """It is an event of a workflow that was open on the thread, and has started no run."""
    SKIPPED = "skipped"
    REFUSED = "refused"
    """No run may be started: the creator lost its rights, or the agent does not exist."""


class Firing(Record, frozen=True, kw_only=True):
    """One due time, or a range of them that was skipped; times are milliseconds."""

    firing_id: str
    """The same for the same due time of a schedule."""
    schedule_id: str
    due_at: int
    last_due_at: int | None = None
    """The last due time of a range."""
    count: int = 1
    """How many due times these are."""
    outcome: FiringOutcome
    reason: str | None = None
    """Why no run was started: `missed`, `overlap`, or the code of a refusal."""
    detail: str | None = None
    """The reason as a sentence."""
    run_id: str | None = None
    thread_id: str | None = None
    is_manual: bool = False
    """Whether a person fired it; then `due_at` is when."""
    fired_at: int = 0
    """When it was decided, by the store's clock."""


class Schedule(Record, frozen=True, kw_only=True):
    """A schedule as it is stored."""

    schedule_id: str
    spec: ScheduleSpec
    creator: Creator = Creator()
    status: ScheduleStatus = ScheduleStatus.ACTIVE
    next_due: int | None = None
    """The first due time that is not decided yet; None unless it is active."""
    wake_at: int | None = None
    """When to look at it: the next due time and its jitter, or later while it has to wait."""
    decided_until: int = 0
    """No due time up to this one is decided again, even if the clock is set back."""
    fired_count: int = 0
    skipped_count: int = 0
    """How many due times started no run."""
    last: Firing | None = None
    """The latest firing."""
    last_run_id: str | None = None
    """The run of the latest due time that fired, or what it has continued as by now."""
    revision: int = 0
    """Rises with every change; a writer names the one that it has read."""
    created_at: int = 0
    updated_at: int = 0

    @property
    def spec_revision(self) -> str:
        """Names what people say of it: no firing changes this text."""
        return name_revision(self.spec)

    @property
    def fires_left(self) -> int | None:
        """How many runs it may still start; None: any number."""
        count_max = self.spec.max_count
        return None if count_max is None else max(0, count_max - self.fired_count)

    def end(self) -> "Schedule":
        """Return the schedule without due times."""
        return msgspec.structs.replace(
            self, status=ScheduleStatus.ENDED, next_due=None, wake_at=None
        )


class SignatureScheme(StrEnum):
    """How the sender of a webhook signs its requests."""

    STANDARD_WEBHOOKS = "standard_webhooks"
    GITHUB = "github"
    STRIPE = "stripe"


class EventFilter(StrictRecord, frozen=True, kw_only=True):
    """Which events start a run; others are acknowledged and ignored."""

    events: tuple[str, ...] = ()
    """Names such as `issues`, `issues.opened` or `invoice.paid`; empty means any."""
    where: dict[str, Any] = {}
    """Values that the body must have, by JSON pointer."""


class TriggerSpec(StrictRecord, frozen=True, kw_only=True):
    """What a person says of a webhook trigger.

    In `target.input`, the values of `target.context` and `thread` a placeholder such as
    `{/issue/title}` stands for the value at a JSON pointer into the body.
    """

    scheme: SignatureScheme
    secrets: tuple[str, ...]
    """References such as `env:HOOK_GITHUB`; several while one replaces another."""
    target: RunTarget
    """`thread_id` must be absent: `thread` says which thread a run gets."""
    thread: str | None = None
    """A text with placeholders: equal texts share a thread of this trigger; absent: a new one."""
    filter: EventFilter = EventFilter()
    description: str = ""
    is_paused: bool = False


class DeliveryOutcome(StrEnum):
    """What became of a delivered event."""

    FIRED = "fired"
    DELIVERED = "delivered"
    """It is an event of a workflow that was open on the thread, and has started no run."""
    IGNORED = "ignored"
    """The filter does not let it through."""
    REFUSED = "refused"


class HookDelivery(Record, frozen=True, kw_only=True):
    """One event that a sender delivered, once or several times."""

    trigger_id: str
    delivery_id: str
    """The sender's own id of the event."""
    digest: str = ""
    """The hash of the body."""
    event: str | None = None
    outcome: DeliveryOutcome = DeliveryOutcome.FIRED
    reason: str | None = None
    detail: str | None = None
    run_id: str | None = None
    thread_id: str | None = None
    received_at: int = 0


class Trigger(Record, frozen=True, kw_only=True):
    """A webhook trigger as it is stored."""

    trigger_id: str
    spec: TriggerSpec
    creator: Creator = Creator()
    last: HookDelivery | None = None
    """The latest delivery."""
    fired_count: int = 0
    revision: int = 0
    created_at: int = 0
    updated_at: int = 0

    @property
    def spec_revision(self) -> str:
        """Names what people say of it: no delivery changes this text."""
        return name_revision(self.spec)


def name_revision(spec: ScheduleSpec | TriggerSpec) -> str:
    """Return a text that is equal for equal specs."""
    # Not by every process that has a store: it loads OpenSSL.
    from hashlib import blake2b  # noqa: PLC0415

    return blake2b(msgspec.json.encode(spec, order="sorted"), digest_size=8).hexdigest()


class ClaimedSchedules(Record, frozen=True, kw_only=True):
    """Schedules that are due, leased to the caller, and the store's time."""

    now: int
    items: tuple[Schedule, ...] = ()


class FiringWrite(Record, frozen=True, kw_only=True):
    """What a firing changes, in one transaction."""

    schedule: Schedule
    """The schedule after it; its revision is the one that was read."""
    claim_token: str | None = None
    """The lease under which it was decided; None for a firing by hand, which needs none."""
    firings: tuple[Firing, ...] = ()
    dispatch: RunDispatch | None = None


@runtime_checkable
class ScheduleStore(Protocol):
    """Keeps schedules, triggers and what became of them. Every method is atomic."""

    async def add_schedule(self, schedule: Schedule) -> Schedule:
        """Store a new schedule; its time of change becomes the store's now.

        Its time of creation stays, because due times are counted from it; 0 becomes now as well.

        Raises:
            AlreadyExists: There is one with that id.
        """
        ...

    async def find_schedule(self, schedule_id: str) -> Schedule | None:
        """Return a schedule, or None."""
        ...

    async def save_schedule(self, schedule: Schedule) -> Schedule:
        """Replace a schedule that still has the revision of the given one; ends any lease on it.

        Raises:
            ScheduleChanged: It has another revision, or is gone; nothing was written.
        """
        ...

    async def delete_schedule(self, schedule_id: str) -> bool:
        """Remove a schedule with its history; False if there is none."""
        ...

    async def list_schedules(self, query: ScheduleQuery) -> Page[Schedule]:
        """List schedules by creation time, ties by id."""
        ...

    async def find_next_wake(self, *, is_judge: bool = True) -> tuple[int, int | None]:
        """Return the store's time, and when the first schedule wants to be looked at, or None.

        A caller that is no judge of rights sees only schedules of the host's own code.
        """
        ...

    async def claim_schedules(
        self, claim_token: str, lease_ms: int, *, limit: int = 50, is_judge: bool = True
    ) -> ClaimedSchedules:
        """Lease schedules that are due and that no process has a lease on, the longest due first.

        A lease ends by the store's clock, whatever the process's own clock says.
        """
        ...

    async def write_firing(self, write: FiringWrite) -> bool:
        """Record firings, queue their dispatch and move the schedule on: all of it or nothing.

        Also ends the lease. Returns False, and changes nothing, if the schedule has another
        revision, the lease is another's, or a due time was decided before.

        Raises:
            StorageError: The dispatch cannot be queued, as `MailboxStore.enqueue` says.
        """
        ...

    async def list_firings(self, query: FiringQuery) -> Page[Firing]:
        """List firings by their due time, ties by id."""
        ...

    async def add_trigger(self, trigger: Trigger) -> Trigger:
        """Store a new trigger; its times of creation and change become the store's now.

        Raises:
            AlreadyExists: There is one with that id.
        """
        ...

    async def find_trigger(self, trigger_id: str) -> Trigger | None:
        """Return a trigger, or None."""
        ...

    async def save_trigger(self, trigger: Trigger) -> Trigger:
        """Replace a trigger that still has the revision of the given one.

        Raises:
            ScheduleChanged: It has another revision, or is gone; nothing was written.
        """
        ...

    async def delete_trigger(self, trigger_id: str) -> bool:
        """Remove a trigger with its deliveries; False if there is none."""
        ...

    async def list_triggers(self, query: TriggerQuery) -> Page[Trigger]:
        """List triggers by creation time, ties by id."""
        ...

    async def find_delivery(self, trigger_id: str, delivery_id: str) -> HookDelivery | None:
        """Return a delivery, or None."""
        ...

    async def accept_delivery(
        self, delivery: HookDelivery, dispatch: RunDispatch | None = None
    ) -> HookDelivery | None:
        """Record a delivery and queue its dispatch, all or nothing; a repeat changes nothing.

        Returns the delivery as it was first recorded; None if the trigger is gone. A delivery with
        another id and the same digest is a repeat too, if its digest is not blank. What was refused
        may be delivered again: it is recorded anew, and under its own id in place of the refusal.

        Raises:
            StorageError: The dispatch cannot be queued, as `MailboxStore.enqueue` says.
        """
        ...

    async def list_deliveries(self, query: DeliveryQuery) -> Page[HookDelivery]:
        """List deliveries by when they were received, ties by id."""
        ...

    async def purge_firings(self, before_ms: int, delivered_before_ms: int, limit: int) -> int:
        """Remove at most `limit` older firings, and as many older deliveries; returns how many."""
        ...


def firing_key(firing: Firing) -> tuple[int, str]:
    """Return the place of a firing in listings."""
    return firing.due_at, firing.firing_id
