"""What schedules and triggers share: who asks, and how a change is written."""

import re
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec

from awaken.contracts.errors import DemoRecord, InvalidInput
from awaken.contracts.storage.schedule_errors import (
    NotTheCreator,
    RightsUnverifiable,
    ScheduleChanged,
    SecretNotAllowed,
)
from awaken.contracts.storage.schedules import (
    Creator,
    Schedule,
    Trigger,
)
from awaken.contracts.tenancy import add_namespace, namespace_of, remove_namespace

from .rights import RunStarter

T = TypeVar("T")

TRIES_MAX = 10
"""How often a change is tried again that another writer comes before."""
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class ScheduleCaller(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks: the host's own code, or a caller of a server. A tenant sees only its own.

    Runs start in the name of the creator, so that only it says what they do. An operator may stop,
    fire and delete what others created. The host's own code may act for anyone.
    """

    principal_id: str | None = None
    tenant_id: str | None = None
    is_operator: bool = False
    """Whether the caller has the scope `operate`; a caller with a tenant never has."""
    secrets: tuple[str, ...] | None = None
    """The references that its triggers may name, `*` at the end for any rest; None: all."""

    def add_namespace(self, given: str) -> str:
        """Return the stored form of an id."""
        return add_namespace(namespace_of(self.tenant_id), given)

    def hide_namespace(self, stored: str) -> str:
        """Return an id as the caller knows it."""
        return remove_namespace(namespace_of(self.tenant_id), stored)

    def sees(self, creator: Creator) -> bool:
        """Whether an object of this creator exists for the caller."""
        return self.tenant_id in (None, creator.tenant_id)

    def check_secret(self, reference: str) -> None:
        """Refuse a secret that the caller may not name: who may sign with it may guess it.

        Raises:
            SecretNotAllowed: The deployment does not offer it for triggers.
        """
        if self.secrets is None or any(_matches(it, reference) for it in self.secrets):
            return
        allowed = ", ".join(self.secrets) or "none"
        raise SecretNotAllowed(reference=reference, allowed=allowed)

    def check_control(self, record_id: str, creator: Creator) -> None:
        """Refuse to pause, resume, fire or delete what the caller may not.

        Raises:
            NotTheCreator: It is neither the creator nor an operator.
            DemoRecord: It is demo data.
        """
        if creator.is_demo:
            raise DemoRecord(record_id=record_id)
        if not (self._is(creator) or self.is_operator):
            raise _refuse(record_id, creator)

    async def take_over(self, starter: RunStarter, record_id: str, creator: Creator) -> Creator:
        """Return the creator of what the caller changes: what is new never runs as another.

        An operator becomes the creator. It has no tenant, so that it changes nothing of one.

        Raises:
            NotTheCreator: The caller may not change it.
            DemoRecord: It is demo data.
            RightsUnverifiable: No server can look up its rights later.
        """
        if creator.is_demo:
            raise DemoRecord(record_id=record_id)
        if self._is(creator):
            return creator
        if not self.is_operator or creator.tenant_id is not None:
            raise _refuse(record_id, creator)
        return await self.as_creator(starter, None)

    def _is(self, creator: Creator) -> bool:
        is_same = (self.principal_id, self.tenant_id) == (creator.principal_id, creator.tenant_id)
        return self.principal_id is None or is_same

    async def as_creator(self, starter: RunStarter, user_id: str | None) -> Creator:
        """Return the creator of what the caller makes.

        Raises:
            RightsUnverifiable: No server can look up its rights later.
        """
        user = self.principal_id if user_id is None else user_id
        made = Creator(principal_id=self.principal_id, tenant_id=self.tenant_id, user_id=user)
        if self.principal_id is not None and await starter.find_problem(made) is not None:
            raise RightsUnverifiable(principal_id=self.principal_id)
        return made


HOST = ScheduleCaller()


def _matches(pattern: str, reference: str) -> bool:
    if pattern.endswith("*"):
        return reference.startswith(pattern[:-1])
    return reference == pattern


def _refuse(record_id: str, creator: Creator) -> NotTheCreator:
    named = "the server's own code" if creator.principal_id is None else f"'{creator.principal_id}'"
    return NotTheCreator(record_id=record_id, owner=named)


def check_new_id(given: str) -> str:
    """Return an id that a person chose.

    Raises:
        InvalidInput: It cannot be an id.
    """
    if _ID.fullmatch(given) is None:
        problem = "write 1 to 100 letters, digits, '.', '_' and '-', beginning with no mark"
        raise InvalidInput(what=f"id {given!r:.120}", problem=problem)
    return given


def check_revision(record_id: str, record: Schedule | Trigger, expected: str | None) -> None:
    """Refuse a change of what another caller has changed meanwhile; None expects nothing.

    Raises:
        ScheduleChanged: It does not say any more what the caller has read.
    """
    if expected is not None and record.spec_revision != expected:
        raise ScheduleChanged(record_id=record_id)


async def retry_change(change: Callable[[], Awaitable[T]]) -> T:
    """Read, change and write a record again while another writer comes first.

    Raises:
        ScheduleChanged: Others came first every time.
    """
    for _ in range(TRIES_MAX - 1):
        try:
            return await change()
        except ScheduleChanged:
            continue
    return await change()
