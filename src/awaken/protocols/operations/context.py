"""What the routes of operators share: services, and the audit of what they do."""

from typing import Annotated, Any, Generic, TypeVar

import msgspec
from msgspec import Meta

from awaken.contracts.config.audit import AuditAction
from awaken.contracts.memory.access import MemoryAccess
from awaken.contracts.memory.errors import MemoryUnavailable
from awaken.contracts.plugins.statistics import StatisticsKeeper
from awaken.contracts.storage.queries import DEFAULT_LIMIT, LIMIT_MAX, OFFSET_MAX
from awaken.contracts.suspension.policy import PolicyInspector
from awaken.services.activity import ActivityFeed
from awaken.services.dispatches import Deliveries
from awaken.services.view import AppServices
from awaken.transport.problems import HttpError
from awaken.transport.routes import RouteCall

T = TypeVar("T")

Id = Annotated[str, Meta(max_length=256, pattern=r"^[^\x00-\x1f\x7f]*$")]
Place = Annotated[int, Meta(ge=0, le=OFFSET_MAX)]
PageSize = Annotated[int, Meta(ge=1, le=LIMIT_MAX)]
DEFAULT_PAGE: PageSize = DEFAULT_LIMIT


class OperatorList(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """A page of a list; `next_cursor` is where the next one begins."""

    items: tuple[T, ...]
    next_cursor: str | None = None


class OperatorContext:
    """The services that the routes of operators call."""

    def __init__(
        self,
        services: AppServices,
        statistics: StatisticsKeeper,
        policy: PolicyInspector,
        activity: ActivityFeed,
    ) -> None:
        self.services = services
        self.statistics = statistics
        self.policy = policy
        self.activity = activity

    def deliveries(self, call: RouteCall) -> Deliveries:
        """The deliveries that the caller may see."""
        control = self.services.control
        return Deliveries(control.mailbox, call.principal.tenant_id, control.start_queued)

    @property
    def memory(self) -> MemoryAccess:
        """Facts and documents; the caller must check first to whom they belong.

        Raises:
            MemoryUnavailable: This process keeps no memory.
        """
        if self.services.find_memory is None:
            raise MemoryUnavailable(problem="the host has left it out")
        found: MemoryAccess = self.services.find_memory()
        return found

    async def audit(
        self, call: RouteCall, action: AuditAction, resource: str, **details: Any
    ) -> None:
        """Record what the caller is about to do; without an audit nothing is recorded.

        Raises:
            StorageError: It could not be recorded; the route must not act.
        """
        await call.audit(action, resource, **details)


def check_sees_all(call: RouteCall) -> None:
    """Refuse a caller with a tenant.

    Raises:
        HttpError: It has a tenant.
    """
    if call.principal.tenant_id is not None:
        message = "This is about all tenants together; use a token without a tenant."
        raise HttpError(403, "forbidden", message)
