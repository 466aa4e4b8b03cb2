"""What the routes of schedules and triggers have in common."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgspec

from awaken.contracts.config.audit import AuditAction
from awaken.contracts.storage.schedules import Schedule, Trigger
from awaken.scheduling.callers import ScheduleCaller
from awaken.scheduling.record_cases import RecordCases
from awaken.services.view import AppServices
from awaken.transport.asgi import Bytes, Reply, as_json
from awaken.transport.problems import HttpError
from awaken.transport.routes import Access, RouteCall

RecordT = TypeVar("RecordT", bound=Schedule | Trigger)


CasesT = TypeVar("CasesT", bound=RecordCases[Any])


class SwitchedRecordRoutes(Generic[CasesT, RecordT]):
    """What schedules and triggers have in common: read, changed and switched by their id.

    Changes are recorded in the audit, if there is one.
    """

    def __init__(
        self,
        kind: str,
        services: AppServices,
        find_cases: Callable[[ScheduleCaller], CasesT],
        show: Callable[[RouteCall, RecordT], msgspec.Struct],
        hook_secrets: tuple[str, ...] = (),
    ) -> None:
        self._kind = kind
        self._services = services
        self._find_cases = find_cases
        self._show = show
        self._hook_secrets = hook_secrets

    def cases(self, call: RouteCall) -> CasesT:
        """The use cases, as the caller may see them."""
        principal = call.principal
        # What is the deployment's is not for a caller with a tenant, whatever scopes it has.
        is_shared = principal.tenant_id is None
        may_name_all = is_shared and principal.may(Access.CONFIG)
        return self._find_cases(
            ScheduleCaller(
                principal_id=principal.id,
                tenant_id=principal.tenant_id,
                is_operator=is_shared and principal.may(Access.OPERATE),
                secrets=None if may_name_all else self._hook_secrets,
            )
        )

    def read_id(self, call: RouteCall) -> str:
        """The id that a path names, as the caller knows it."""
        return str(call.path[f"{self._kind}_id"])

    def reply(self, call: RouteCall, record: RecordT, status: int = 200) -> Reply:
        """Answer with a record, and the revision that a change of it names."""
        etag = (b"etag", f'"{record.spec_revision}"'.encode())
        return as_json(self._show(call, record), status, (etag,))

    async def audit(
        self, call: RouteCall, action: AuditAction, record_id: str, **details: Any
    ) -> None:
        """Record what the caller is about to do.

        Raises:
            StorageError: It could not be recorded; the route must not act.
        """
        if self._services.audit is not None:
            await self._services.audit.record(
                action,
                f"{self._kind}s/{record_id}",
                actor=call.actor,
                details=details or None,
                ip=call.client,
                request_id=call.request_id or None,
            )

    async def check_control(
        self, call: RouteCall, action: AuditAction, **details: Any
    ) -> tuple[CasesT, str]:
        """Refuse a caller that may not change the record of a path, and record that it will.

        Returns the use cases and the id.
        """
        cases, record_id = self.cases(call), self.read_id(call)
        await cases.check_control(record_id)
        await self.audit(call, action, record_id, **details)
        return cases, record_id

    async def read(self, call: RouteCall) -> Reply:
        """Answer with the record of a path."""
        return self.reply(call, await self.cases(call).get(self.read_id(call)))

    async def replace(self, call: RouteCall) -> Reply:
        """Replace what a record says, if it still says what the caller has read."""
        revision = _read_revision(call)
        cases, record_id = await self.check_control(call, AuditAction.UPDATE)
        return self.reply(call, await cases.update(record_id, call.body, revision=revision))

    async def remove(self, call: RouteCall) -> Reply:
        """Delete a record."""
        cases, record_id = await self.check_control(call, AuditAction.DELETE)
        await cases.delete(record_id)
        return Bytes(204)

    async def switch(self, call: RouteCall, to: str) -> Reply:
        """Pause a record (`paused`), or resume it (`active`)."""
        cases, record_id = await self.check_control(call, AuditAction.SWITCH, to=to)
        change = cases.pause if to == "paused" else cases.resume
        return self.reply(call, await change(record_id))


def _read_revision(call: RouteCall) -> str | None:
    """Return the revision that `If-Match` names; None if it says that any will do.

    Raises:
        HttpError: It is not there: another's change would be overwritten unseen.
    """
    given = call.headers.get("if-match", "").strip().removeprefix("W/").strip('"')
    if not given:
        message = 'Name the revision that you change in If-Match, or "*" for whatever it says now.'
        raise HttpError(428, "revision_required", message)
    return None if given == "*" else given
