"""How many runs are open, and what ended runs have used."""

from typing import Annotated

from msgspec import Meta

from awaken.contracts.errors import InvalidInput
from awaken.contracts.record import StrictRecord
from awaken.contracts.storage.usage import DAY_MS
from awaken.services.costly_runs import list_costly_runs
from awaken.services.run_summary import summarize_runs
from awaken.services.usage import UsageField, UsageQuery, report_usage
from awaken.transport.asgi import Reply, as_json
from awaken.transport.routes import RouteCall

from .context import OperatorContext

DEFAULT_DAYS = 7
Time = Annotated[int, Meta(ge=0, le=2**53)]


class UsagePeriod(StrictRecord, frozen=True, kw_only=True, rename={"from_": "from"}):
    """The days of two times in milliseconds, and what to group by: `day,agent,model,tenant`."""

    from_: Time | None = None
    """Absent: six days before `to`."""
    to: Time | None = None
    """Absent: now."""
    by: Annotated[str, Meta(max_length=64)] = "day"


class CostlyPeriod(StrictRecord, frozen=True, kw_only=True, rename={"from_": "from"}):
    """The times in milliseconds between which runs began, and how many of them to list."""

    from_: Time | None = None
    """Absent: seven days before `to`."""
    to: Time | None = None
    """Absent: now."""
    limit: Annotated[int, Meta(ge=1, le=100)] = 10


class UsageRoutes:
    """Sums up runs; a caller with a tenant sees its own."""

    def __init__(self, context: OperatorContext) -> None:
        self._context = context

    async def get_summary(self, call: RouteCall) -> Reply:
        """Count the runs that have not ended, by status."""
        return as_json(await summarize_runs(self._context.services.store, call.principal.tenant_id))

    async def get_usage(self, call: RouteCall) -> Reply:
        """Sum the tokens and the cost of ended runs by day, agent, model and tenant."""
        asked: UsagePeriod = call.query
        until = self._context.services.clock.now_ms() if asked.to is None else asked.to
        since = max(until - (DEFAULT_DAYS - 1) * DAY_MS, 0) if asked.from_ is None else asked.from_
        query = UsageQuery(
            since=since, until=until, by=_read_fields(asked.by), tenant_id=call.principal.tenant_id
        )
        return as_json(await report_usage(self._context.services.store, query))

    async def list_costly_runs(self, call: RouteCall) -> Reply:
        """List the most expensive of the latest ended runs of a period, at most 1,000 of them."""
        asked: CostlyPeriod = call.query
        until = self._context.services.clock.now_ms() if asked.to is None else asked.to
        since = max(until - DEFAULT_DAYS * DAY_MS, 0) if asked.from_ is None else asked.from_
        return as_json(await list_costly_runs(call.view, since, until, asked.limit))


def _read_fields(by: str) -> tuple[UsageField, ...]:
    names = [it.strip() for it in by.split(",") if it.strip()]
    try:
        return tuple(dict.fromkeys(map(UsageField, names)))
    except ValueError:
        problem = f"it is a list of {', '.join(UsageField)}"
        raise InvalidInput(what="by", problem=problem) from None
