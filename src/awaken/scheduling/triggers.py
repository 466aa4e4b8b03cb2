"""The use cases of webhook triggers, and what a delivered request starts."""

import hashlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from awaken.contracts.clock import IdSource
from awaken.contracts.errors import InvalidInput
from awaken.contracts.secrets import SecretUnresolved
from awaken.contracts.storage.dispatch import RunDispatch
from awaken.contracts.storage.queries import DeliveryQuery, Page, TriggerQuery
from awaken.contracts.storage.schedule_errors import (
    HookRefused,
    HookUnreadable,
    ScheduleChanged,
    TriggerPaused,
    UnknownTrigger,
)
from awaken.contracts.storage.schedules import (
    DeliveryOutcome,
    HookDelivery,
    ScheduleStore,
    SignatureScheme,
    Trigger,
    TriggerSpec,
)
from awaken.mailbox.services import MailboxServices

from .callers import (
    HOST,
    ScheduleCaller,
    check_new_id,
    check_revision,
    retry_change,
)
from .due_times import check_description
from .mapping import check_mapping, is_wanted, list_missing, map_target
from .rights import NEVER_QUEUED, RunRefusal, RunStarter
from .run_requests import StartedBy
from .signatures import SignedDelivery, verify
from .starts import WantedStart, plan_start

logger = logging.getLogger(__name__)

SECRETS_MAX = 5
_DETAIL_CHARS_MAX = 500
_NO_SECRET = "no trigger has this secret"
"""Signatures of unknown triggers are computed with it, so that their refusal takes as long."""

ResolveSecret = Callable[[str], str]


class TriggerParts(msgspec.Struct, frozen=True, kw_only=True):
    """What triggers need of their process."""

    store: ScheduleStore
    services: MailboxServices
    starter: RunStarter
    ids: IdSource
    now_ms: Callable[[], Awaitable[int]]
    resolve_secret: ResolveSecret
    check_reference: Callable[[object], str]
    """Says what is wrong with a reference to a secret; an empty text if nothing is."""


class Triggers:
    """Creates and changes webhook triggers, and accepts what senders deliver."""

    def __init__(self, parts: TriggerParts, caller: ScheduleCaller = HOST) -> None:
        self._parts = parts
        self._store = parts.store
        self._caller = caller

    def as_caller(self, caller: ScheduleCaller) -> "Triggers":
        """Return the use cases as a caller of a server sees them."""
        return Triggers(self._parts, caller)

    async def create(
        self,
        spec: TriggerSpec | Mapping[str, Any],
        *,
        trigger_id: str | None = None,
        tenant_id: str | None = None,
        user_id: str | None = None,
    ) -> Trigger:
        """Create a trigger; its address is `/v1/triggers/{id}`.

        Args:
            spec: What it says; see `TriggerSpec`.
            trigger_id: Its name, a part of its address. None: a new id.
            tenant_id: The tenant whose runs it starts. None: no tenant.
            user_id: The user of its runs.

        Raises:
            InvalidInput: A field is malformed.
            UnknownAgent: The agent is not registered.
            SecretNotAllowed: The caller may not name one of its secrets.
            AlreadyExists: There is a trigger with that id.
            RightsUnverifiable: The caller's rights cannot be looked up later.
        """
        wanted = await self._check(spec)
        caller = self._caller
        if tenant_id is not None and caller.tenant_id is None:
            caller = msgspec.structs.replace(caller, tenant_id=tenant_id)
        creator = await caller.as_creator(self._parts.starter, user_id)
        given = self._parts.ids.new_id() if trigger_id is None else check_new_id(trigger_id)
        made = Trigger(trigger_id=caller.add_namespace(given), spec=wanted, creator=creator)
        return self._show(await self._store.add_trigger(made))

    async def get(self, trigger_id: str) -> Trigger:
        """Return a trigger.

        Raises:
            UnknownTrigger: There is none, or it belongs to another tenant.
        """
        return self._show(await self._load(trigger_id))

    async def list(
        self, query: TriggerQuery | None = None, *, with_demo: bool = False
    ) -> Page[Trigger]:
        """List triggers by creation time; of a tenant, its own.

        Without those of the demo data a page may be short although another one follows.
        """
        query = query or TriggerQuery()
        if self._caller.tenant_id is not None:
            query = msgspec.structs.replace(query, tenant_id=self._caller.tenant_id)
        page = await self._store.list_triggers(query)
        shown = (self._show(it) for it in page.items if with_demo or not it.creator.is_demo)
        return msgspec.structs.replace(page, items=tuple(shown))

    async def update(
        self,
        trigger_id: str,
        spec: TriggerSpec | Mapping[str, Any],
        *,
        revision: str | None = None,
    ) -> Trigger:
        """Replace what a trigger says.

        Args:
            trigger_id: The trigger.
            spec: What it says from now on.
            revision: The `spec_revision` of what the caller has read. None: whatever it says.

        Raises:
            UnknownTrigger: There is none, or it belongs to another tenant.
            InvalidInput: A field is malformed.
            UnknownAgent: The agent is not registered.
            SecretNotAllowed: The caller may not name one of its secrets.
            NotTheCreator: The caller may not change it.
            ScheduleChanged: Another caller changed it since the caller has read it.
        """
        stored = await self._load(trigger_id)
        check_revision(trigger_id, stored, revision)
        creator = await self._caller.take_over(self._parts.starter, trigger_id, stored.creator)
        wanted = await self._check(spec)

        def change(trigger: Trigger) -> Trigger:
            if trigger.creator != stored.creator:
                raise ScheduleChanged(record_id=trigger_id)
            check_revision(trigger_id, trigger, revision)
            return msgspec.structs.replace(trigger, spec=wanted, creator=creator)

        return await self._change(trigger_id, change)

    async def check_control(self, trigger_id: str) -> None:
        """Refuse a caller that may not pause, resume or delete a trigger.

        Raises:
            UnknownTrigger: There is none, or it belongs to another tenant.
            NotTheCreator: The caller is neither its creator nor an operator.
        """
        await self._load_to_control(trigger_id)

    async def pause(self, trigger_id: str) -> Trigger:
        """Refuse deliveries until it is resumed.

        Raises:
            UnknownTrigger: There is none, or it belongs to another tenant.
            NotTheCreator: The caller is neither its creator nor an operator.
        """
        return await self._switch(trigger_id, is_paused=True)

    async def resume(self, trigger_id: str) -> Trigger:
        """Accept deliveries again.

        Raises:
            UnknownTrigger: There is none, or it belongs to another tenant.
            NotTheCreator: The caller is neither its creator nor an operator.
        """
        return await self._switch(trigger_id, is_paused=False)

    async def delete(self, trigger_id: str) -> None:
        """Remove a trigger with its deliveries; runs that it started go on.

        Raises:
            UnknownTrigger: There is none, or it belongs to another tenant.
            NotTheCreator: The caller is neither its creator nor an operator.
        """
        stored = await self._load_to_control(trigger_id)
        await self._store.delete_trigger(stored.trigger_id)

    async def deliveries(
        self, trigger_id: str, query: DeliveryQuery | None = None
    ) -> Page[HookDelivery]:
        """List what senders delivered, by when it was received.

        Raises:
            UnknownTrigger: There is none, or it belongs to another tenant.
        """
        stored = await self._load(trigger_id)
        query = query or DeliveryQuery(trigger_id=trigger_id)
        query = msgspec.structs.replace(query, trigger_id=stored.trigger_id)
        page = await self._store.list_deliveries(query)
        return msgspec.structs.replace(page, items=tuple(map(self.show_delivery, page.items)))

    def list_missing_secrets(self, trigger: Trigger) -> tuple[str, ...]:
        """List the references of a trigger that this process cannot read."""
        return tuple(it for it in trigger.spec.secrets if self._resolve(it) is None)

    async def accept(
        self,
        trigger_id: str,
        headers: Mapping[str, str],
        body: bytes,
        decode: Callable[[bytes], Any],
    ) -> HookDelivery:
        """Verify a delivered request and start its run, once; a repeat returns the first answer.

        `trigger_id` is the stored id: the address names the tenant's trigger. Headers are keyed by
        lower-case names. `decode` reads the body, and raises `HookUnreadable`.

        Raises:
            HookRefused: There is no such trigger, or the request is not signed or too old.
            HookUnreadable: The request is signed, and its body is no JSON or names no event; the
                history says so.
            TriggerPaused: The request is signed, and the trigger is paused.
            StorageError: The run cannot be queued; the sender tries again.
        """
        trigger = await self._store.find_trigger(trigger_id)
        now = await self._parts.now_ms()
        secrets = (_NO_SECRET,) if trigger is None else self._read_secrets(trigger)
        scheme = SignatureScheme.GITHUB if trigger is None else trigger.spec.scheme
        signed = verify(scheme, secrets, headers, body, now)
        if trigger is None or signed is None:
            raise HookRefused
        try:
            event = decode(body)
            delivery = _name_delivery(trigger, signed, body, event)
        except HookUnreadable as error:
            await self._record(
                HookDelivery(
                    trigger_id=trigger_id,
                    delivery_id=signed.delivery_id or hashlib.sha256(body).hexdigest(),
                    outcome=DeliveryOutcome.REFUSED,
                    reason=error.code,
                    detail=str(error),
                )
            )
            raise
        known = await self._store.find_delivery(trigger_id, delivery.delivery_id)
        if known is not None and known.outcome is not DeliveryOutcome.REFUSED:
            return known
        if trigger.spec.is_paused:
            raise TriggerPaused
        if not is_wanted(trigger.spec.filter, delivery.event, event):
            ignored = msgspec.structs.replace(delivery, outcome=DeliveryOutcome.IGNORED)
            return await self._record(ignored)
        return await self._start(trigger, delivery, event)

    def show_delivery(self, delivery: HookDelivery) -> HookDelivery:
        """Return a delivery with the ids that the caller knows."""
        hide = self._caller.hide_namespace
        return msgspec.structs.replace(
            delivery,
            trigger_id=hide(delivery.trigger_id),
            run_id=delivery.run_id and hide(delivery.run_id),
            thread_id=delivery.thread_id and hide(delivery.thread_id),
        )

    async def _start(self, trigger: Trigger, delivery: HookDelivery, event: Any) -> HookDelivery:
        spec, starter, services = trigger.spec, self._parts.starter, self._parts.services
        start = await plan_start(
            services,
            starter,
            WantedStart(
                creator=trigger.creator,
                started_by=StartedBy(
                    kind="trigger",
                    id=trigger.trigger_id,
                    created_at=trigger.created_at,
                    key=delivery.delivery_id,
                ),
                agent_id=spec.target.agent_id,
                make_target=lambda: map_target(spec, trigger.trigger_id, event),
            ),
        )
        if isinstance(start, RunRefusal):
            return await self._refuse(delivery, start)
        missing = ", ".join(list_missing(spec, event))
        fired = msgspec.structs.replace(
            delivery,
            outcome=DeliveryOutcome.DELIVERED if start.is_delivered else DeliveryOutcome.FIRED,
            detail=f"the body has no {missing}"[:_DETAIL_CHARS_MAX] if missing else None,
            run_id=start.run_id,
            thread_id=start.dispatch.thread_id,
        )
        recorded = await self._record(fired, start.dispatch)
        if recorded.run_id == start.run_id:
            services.announce_queued(start.dispatch)
            starter.on_queued()
        return recorded

    async def _refuse(self, delivery: HookDelivery, refusal: RunRefusal) -> HookDelivery:
        return await self._record(
            msgspec.structs.replace(
                delivery,
                outcome=DeliveryOutcome.REFUSED,
                reason=refusal.reason,
                detail=refusal.detail,
                run_id=None,
                thread_id=None,
            )
        )

    async def _record(
        self, delivery: HookDelivery, dispatch: RunDispatch | None = None
    ) -> HookDelivery:
        try:
            recorded = await self._store.accept_delivery(delivery, dispatch)
        except NEVER_QUEUED as error:
            if dispatch is None:
                raise
            return await self._refuse(delivery, RunRefusal(error.code, str(error)))
        if recorded is None:
            # Deleted since it was read.
            raise HookRefused
        return recorded

    def _read_secrets(self, trigger: Trigger) -> tuple[str, ...]:
        texts = map(self._resolve, trigger.spec.secrets)
        # The end of a line is never a part of a secret, though many files and variables have one.
        found = tuple(it.rstrip("\r\n") for it in texts if it is not None)
        if not found:
            logger.error("No secret of trigger '%s' can be read.", trigger.trigger_id)
        return found or (_NO_SECRET + trigger.trigger_id,)

    def _resolve(self, reference: str) -> str | None:
        try:
            return self._parts.resolve_secret(reference)
        except SecretUnresolved:
            return None

    async def _check(self, given: TriggerSpec | Mapping[str, Any]) -> TriggerSpec:
        if isinstance(given, TriggerSpec):
            spec = given
        else:
            try:
                spec = msgspec.convert(given, TriggerSpec)
            except msgspec.ValidationError as error:
                raise InvalidInput(what="trigger", problem=str(error)) from error
        if not 1 <= len(spec.secrets) <= SECRETS_MAX:
            problem = f"name 1 to {SECRETS_MAX} references such as env:HOOK_GITHUB"
            raise InvalidInput(what="secrets", problem=problem)
        for reference in spec.secrets:
            if problem := self._parts.check_reference(reference):
                raise InvalidInput(what="secrets", problem=problem)
            self._caller.check_secret(reference)
        check_description(spec.description)
        check_mapping(spec)
        await self._parts.starter.check_agent(spec.target.agent_id)
        if spec.target.event is not None:
            await self._parts.starter.check_receiver(spec.target.agent_id)
        return spec

    async def _switch(self, trigger_id: str, *, is_paused: bool) -> Trigger:
        def change(trigger: Trigger) -> Trigger:
            spec = msgspec.structs.replace(trigger.spec, is_paused=is_paused)
            return msgspec.structs.replace(trigger, spec=spec)

        return await self._change(trigger_id, change)

    async def _change(self, trigger_id: str, change: Callable[[Trigger], Trigger]) -> Trigger:
        async def change_once() -> Trigger:
            stored = await self._load_to_control(trigger_id)
            return await self._store.save_trigger(change(stored))

        return self._show(await retry_change(change_once))

    async def _load_to_control(self, trigger_id: str) -> Trigger:
        stored = await self._load(trigger_id)
        self._caller.check_control(trigger_id, stored.creator)
        return stored

    async def _load(self, trigger_id: str) -> Trigger:
        stored = await self._store.find_trigger(self._caller.add_namespace(trigger_id))
        if stored is None or not self._caller.sees(stored.creator):
            raise UnknownTrigger(trigger_id=trigger_id)
        return stored

    def _show(self, trigger: Trigger) -> Trigger:
        return msgspec.structs.replace(
            trigger,
            trigger_id=self._caller.hide_namespace(trigger.trigger_id),
            last=None if trigger.last is None else self.show_delivery(trigger.last),
        )


def _name_delivery(
    trigger: Trigger, signed: SignedDelivery, body: bytes, event: Any
) -> HookDelivery:
    """Return the delivery of a verified body.

    Raises:
        HookUnreadable: It does not say which event it is.
    """
    fields = event if isinstance(event, dict) else {}
    delivery_id = signed.delivery_id
    if delivery_id is None:
        delivery_id = fields.get("id")
    if not isinstance(delivery_id, str) or not 0 < len(delivery_id) <= 256:
        raise HookUnreadable(problem="it has no id")
    name = signed.event if signed.event is not None else fields.get("type")
    # GitHub signs the body alone: the same body under another id is a repeat too.
    is_unbound = trigger.spec.scheme is SignatureScheme.GITHUB
    return HookDelivery(
        trigger_id=trigger.trigger_id,
        delivery_id=delivery_id,
        digest=hashlib.sha256(body).hexdigest() if is_unbound else "",
        event=name[:200] if isinstance(name, str) else None,
    )
