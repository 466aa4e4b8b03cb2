"""Schedules and triggers over HTTP, in one table."""

import re
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import msgspec

from awaken.contracts.config.audit import AuditAction
from awaken.contracts.storage.queries import (
    DeliveryQuery,
    FiringQuery,
    Page,
    ScheduleQuery,
    TriggerQuery,
    at_cursor,
)
from awaken.contracts.storage.schedule_errors import HookUnreadable
from awaken.contracts.storage.schedules import (
    DeliveryOutcome,
    HookDelivery,
    RunTarget,
    Schedule,
    ScheduleSpec,
    Trigger,
    TriggerSpec,
)
from awaken.contracts.tenancy import (
    add_namespace,
    namespace_in,
    namespace_of,
    remove_namespace,
)
from awaken.scheduling.schedules import Schedules
from awaken.scheduling.scheduling import Scheduling
from awaken.scheduling.triggers import Triggers
from awaken.services.view import AppServices
from awaken.transport.asgi import Reply, as_json
from awaken.transport.json_bodies import VALUES_MAX, check_document
from awaken.transport.problems import HttpError
from awaken.transport.routes import Access, ApiRoute, RouteCall, WireProtocol, make_route

from . import views
from .record_routes import SwitchedRecordRoutes

HOOK_BYTES_MAX = 1024 * 1024
"""How long the body of a webhook may be."""
_SCHEDULE = "/v1/schedules/{schedule_id}"
_TRIGGER = "/v1/triggers/{trigger_id}"
_ZERO = re.compile(rb"(?<!\\)((?:\\\\)*)\\u0000")
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_HALVES = re.compile(
    rb"(?<!\\)((?:\\\\)*)"
    rb"(\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
)
"""Surrogates of a JSON text: whole pairs, and halves, with the backslashes before them."""
_SIGNATURES = (
    "Webhook-Id",
    "Webhook-Timestamp",
    "Webhook-Signature",
    "X-Hub-Signature-256",
    "X-GitHub-Delivery",
    "X-GitHub-Event",
    "Stripe-Signature",
)


QueryT = TypeVar("QueryT", ScheduleQuery, TriggerQuery, FiringQuery, DeliveryQuery)
FindScheduling = Callable[[], Scheduling]
"""Returns the schedules and triggers of the process; they are loaded when it is first called."""


def schedules_protocol(
    services: AppServices, find_scheduling: FindScheduling, hook_secrets: tuple[str, ...]
) -> WireProtocol:
    """Make the routes of schedules and triggers; callers may name these secrets in triggers."""
    schedules = ScheduleRoutes(services, find_scheduling)
    triggers = TriggerRoutes(services, find_scheduling, hook_secrets)
    routes = (*_schedule_routes(schedules), *_trigger_routes(triggers))
    return WireProtocol(name="schedules", routes=routes)


_read = partial(make_route, Access.READ)
_change = partial(make_route, Access.INVOKE, headers=("X-Awaken-Actor",))
_replace = partial(make_route, Access.INVOKE, headers=("If-Match", "X-Awaken-Actor"))


def _schedule_routes(routes: "ScheduleRoutes") -> tuple[ApiRoute, ...]:
    listed = views.ScheduleList
    return (
        _change(
            "POST /v1/schedules",
            routes.create,
            views.ScheduleView,
            body=views.NewSchedule,
            status=201,
        ),
        _read(
            "GET /v1/schedules",
            routes.list_schedules,
            listed[views.ScheduleView],
            query=views.ScheduleFilter,
        ),
        _read(
            "POST /v1/schedules/preview",
            routes.preview,
            views.UpcomingTimes,
            body=views.PreviewSchedule,
        ),
        _read(f"GET {_SCHEDULE}", routes.get, views.ScheduleView),
        _replace(f"PUT {_SCHEDULE}", routes.update, views.ScheduleView, body=ScheduleSpec),
        _change(f"DELETE {_SCHEDULE}", routes.delete, None, status=204),
        _change(f"POST {_SCHEDULE}/pause", routes.pause, views.ScheduleView),
        _change(f"POST {_SCHEDULE}/resume", routes.resume, views.ScheduleView),
        _change(f"POST {_SCHEDULE}/fire", routes.fire, views.FiringView, status=202),
        _read(
            f"GET {_SCHEDULE}/upcoming",
            routes.list_upcoming,
            views.UpcomingTimes,
            query=views.UpcomingQuery,
        ),
        _read(
            f"GET {_SCHEDULE}/firings",
            routes.list_firings,
            listed[views.FiringView],
            query=views.FiringFilter,
        ),
    )


def _trigger_routes(routes: "TriggerRoutes") -> tuple[ApiRoute, ...]:
    listed = views.ScheduleList
    return (
        _change(
            "POST /v1/triggers",
            routes.create,
            views.TriggerView,
            body=views.NewTrigger,
            status=201,
        ),
        _read(
            "GET /v1/triggers",
            routes.list_triggers,
            listed[views.TriggerView],
            query=views.TriggerFilter,
        ),
        _read(f"GET {_TRIGGER}", routes.get, views.TriggerView),
        _replace(f"PUT {_TRIGGER}", routes.update, views.TriggerView, body=TriggerSpec),
        _change(f"DELETE {_TRIGGER}", routes.delete, None, status=204),
        _change(f"POST {_TRIGGER}/pause", routes.pause, views.TriggerView),
        _change(f"POST {_TRIGGER}/resume", routes.resume, views.TriggerView),
        _read(
            f"GET {_TRIGGER}/deliveries",
            routes.list_deliveries,
            listed[views.HookDeliveryView],
            query=views.HookDeliveryFilter,
        ),
        make_route(
            Access.OPEN,
            f"POST {_TRIGGER}",
            routes.accept,
            views.HookAccepted,
            body=bytes,
            body_bytes=HOOK_BYTES_MAX,
            is_body_opaque=True,
            headers=_SIGNATURES,
            status=202,
        ),
    )


class ScheduleRoutes:
    """Creates, changes, lists and fires schedules; a tenant sees its own."""

    def __init__(self, services: AppServices, find_scheduling: FindScheduling) -> None:
        self._records: SwitchedRecordRoutes[Schedules, Schedule] = SwitchedRecordRoutes(
            "schedule",
            services,
            lambda caller: find_scheduling().schedules.as_caller(caller),
            lambda _, schedule: views.show_schedule(schedule),
        )

    async def create(self, call: RouteCall) -> Reply:
        """Create a schedule, which starts runs in the name of the caller."""
        body: views.NewSchedule = call.body
        await self._records.audit(call, AuditAction.CREATE, body.id or "new")
        spec = _take_spec(body, ScheduleSpec)
        return self._records.reply(call, await self._records.cases(call).add(spec, body.id), 201)

    async def list_schedules(self, call: RouteCall) -> Reply:
        """List schedules by creation time, with their next due times and last outcomes."""
        asked: views.ScheduleFilter = call.query
        query = ScheduleQuery(
            tenant_id=call.principal.tenant_id,
            status=asked.status,
            agent_id=asked.agent_id,
            order=asked.order,
            limit=asked.limit,
        )
        cases = self._records.cases(call)
        page = await cases.list(_turn_to(query, asked.cursor), with_demo=asked.demo)
        return _reply_page(page, views.show_schedule)

    async def preview(self, call: RouteCall) -> Reply:
        """Show the next due times that a timing would have; nothing is stored."""
        body: views.PreviewSchedule = call.body
        spec = ScheduleSpec(
            timing=body.timing,
            target=RunTarget(agent_id="preview"),
            end_at=body.end_at,
            max_count=body.max_count,
        )
        due = await self._records.cases(call).preview(spec, body.count)
        return as_json(views.UpcomingTimes(due=due))

    async def get(self, call: RouteCall) -> Reply:
        """Get a schedule."""
        return await self._records.read(call)

    async def update(self, call: RouteCall) -> Reply:
        """Replace what a schedule says; its next due time follows from the new timing."""
        return await self._records.replace(call)

    async def delete(self, call: RouteCall) -> Reply:
        """Delete a schedule with its history; runs that it started go on."""
        return await self._records.remove(call)

    async def pause(self, call: RouteCall) -> Reply:
        """Pause a schedule: it has no due times until it is resumed."""
        return await self._records.switch(call, "paused")

    async def resume(self, call: RouteCall) -> Reply:
        """Resume a paused schedule, from its next due time on."""
        return await self._records.switch(call, "active")

    async def fire(self, call: RouteCall) -> Reply:
        """Start a run of a schedule now; its due times stay as they are."""
        cases, schedule_id = await self._records.check_control(call, AuditAction.FIRE)
        return as_json(views.show_firing(await cases.fire(schedule_id)), 202)

    async def list_upcoming(self, call: RouteCall) -> Reply:
        """List the next due times of a schedule, without their jitter."""
        schedule_id = self._records.read_id(call)
        due = await self._records.cases(call).upcoming(schedule_id, call.query.count)
        return as_json(views.UpcomingTimes(due=due))

    async def list_firings(self, call: RouteCall) -> Reply:
        """List what became of the due times of a schedule, the newest first."""
        asked: views.FiringFilter = call.query
        schedule_id = self._records.read_id(call)
        query = FiringQuery(
            schedule_id=_store_id(call, schedule_id),
            outcome=asked.outcome,
            order=asked.order,
            limit=asked.limit,
        )
        cases = self._records.cases(call)
        page = await cases.firings(schedule_id, _turn_to(query, asked.cursor))
        return _reply_page(page, views.show_firing)


class TriggerRoutes:
    """Creates, changes and lists triggers, and accepts what senders deliver."""

    def __init__(
        self,
        services: AppServices,
        find_scheduling: FindScheduling,
        hook_secrets: tuple[str, ...],
    ) -> None:
        self._find_scheduling = find_scheduling
        self._records: SwitchedRecordRoutes[Triggers, Trigger] = SwitchedRecordRoutes(
            "trigger",
            services,
            lambda caller: find_scheduling().triggers.as_caller(caller),
            self._show,
            hook_secrets,
        )

    async def create(self, call: RouteCall) -> Reply:
        """Create a webhook trigger, which starts runs in the name of the caller."""
        body: views.NewTrigger = call.body
        await self._records.audit(call, AuditAction.CREATE, body.id or "new")
        spec, cases = _take_spec(body, TriggerSpec), self._records.cases(call)
        return self._records.reply(call, await cases.create(spec, trigger_id=body.id), 201)

    async def list_triggers(self, call: RouteCall) -> Reply:
        """List webhook triggers by creation time, with their last deliveries."""
        asked: views.TriggerFilter = call.query
        query = TriggerQuery(
            tenant_id=call.principal.tenant_id,
            agent_id=asked.agent_id,
            order=asked.order,
            limit=asked.limit,
        )
        cases = self._records.cases(call)
        page = await cases.list(_turn_to(query, asked.cursor), with_demo=asked.demo)
        return _reply_page(page, partial(self._show, call))

    async def get(self, call: RouteCall) -> Reply:
        """Get a webhook trigger."""
        return await self._records.read(call)

    async def update(self, call: RouteCall) -> Reply:
        """Replace what a webhook trigger says."""
        return await self._records.replace(call)

    async def delete(self, call: RouteCall) -> Reply:
        """Delete a webhook trigger with its deliveries; runs that it started go on."""
        return await self._records.remove(call)

    async def pause(self, call: RouteCall) -> Reply:
        """Pause a webhook trigger: it refuses deliveries until it is resumed."""
        return await self._records.switch(call, "paused")

    async def resume(self, call: RouteCall) -> Reply:
        """Resume a paused webhook trigger."""
        return await self._records.switch(call, "active")

    async def list_deliveries(self, call: RouteCall) -> Reply:
        """List what senders delivered to a webhook trigger, the newest first."""
        asked: views.HookDeliveryFilter = call.query
        trigger_id = self._records.read_id(call)
        query = DeliveryQuery(
            trigger_id=_store_id(call, trigger_id),
            outcome=asked.outcome,
            order=asked.order,
            limit=asked.limit,
        )
        cases = self._records.cases(call)
        page = await cases.deliveries(trigger_id, _turn_to(query, asked.cursor))
        return _reply_page(page, views.show_delivery)

    async def accept(self, call: RouteCall) -> Reply:
        """Accept a signed webhook, which starts a run; a repeat gets the same answer."""
        triggers, headers = self._find_scheduling().triggers, call.headers
        decode = partial(_decode_event, headers.get("content-type", ""))
        delivery = await triggers.accept(self._records.read_id(call), headers, call.body, decode)
        if delivery.outcome is DeliveryOutcome.REFUSED:
            message = "The event was verified, but no run may be started for it."
            raise HttpError(409, "run_refused", message)
        return as_json(_answer_sender(delivery), 202)

    def _show(self, call: RouteCall, trigger: Trigger) -> views.TriggerView:
        stored_id = _store_id(call, trigger.trigger_id)
        missing: tuple[str, ...] | None = None
        if trigger.creator.is_demo:
            missing = ()
        elif call.principal.tenant_id is None:
            # Which secrets a process has is the deployment's.
            missing = self._find_scheduling().triggers.list_missing_secrets(trigger)
        return views.show_trigger(trigger, f"/v1/triggers/{stored_id}", missing)


def _turn_to(query: QueryT, cursor: str | None) -> QueryT:
    return query if cursor is None else at_cursor(query, cursor)


def _reply_page(page: Page[Any], show: Callable[[Any], Any]) -> Reply:
    items = tuple(map(show, page.items))
    return as_json(views.ScheduleList(items=items, next_cursor=page.next_cursor))


def _store_id(call: RouteCall, given: str) -> str:
    return add_namespace(namespace_of(call.principal.tenant_id), given)


def _answer_sender(delivery: HookDelivery) -> views.HookAccepted:
    # The sender learns the id that the tenant knows, and nothing of the tenant.
    run_id = delivery.run_id and remove_namespace(namespace_in(delivery.run_id), delivery.run_id)
    return views.HookAccepted(status=delivery.outcome, run_id=run_id)


def _decode_event(content_type: str, data: bytes) -> Any:
    """Decode a verified body, within the limits of every body.

    A zero character in a text becomes U+FFFD: no store keeps it, and the sender cannot mend it.

    Raises:
        HookUnreadable: It is no JSON, or exceeds a limit.
    """
    if content_type.startswith("application/x-www-form-urlencoded"):
        raise HookUnreadable(problem="it is a form; let the sender deliver application/json")
    if b"\\u0000" in data:
        data = _ZERO.sub(rb"\1\\ufffd", data)
    if _SURROGATE.search(data):
        # Senders cut texts in the middle of a character: the rest of the event is not to be lost.
        data = _HALVES.sub(_mend_half, data)
    try:
        check_document(data, VALUES_MAX)
        return msgspec.json.decode(data)
    except HttpError as problem:
        raise HookUnreadable(problem=f"it is refused ({problem.message.rstrip('.')})") from problem
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise HookUnreadable(problem="it is no JSON") from error


def _mend_half(found: re.Match[bytes]) -> bytes:
    backslashes, code = found.groups()
    is_pair = len(code) > len(rb"\ud800")
    return backslashes + (code if is_pair else rb"\ufffd")


def _take_spec(body: Any, kind: Any) -> Any:
    """Return the part of a body that says what to make."""
    return kind(**{name: getattr(body, name) for name in kind.__struct_fields__})
