"""Usage of ended runs, grouped by day, agent, model and tenant. A run appears within 60 seconds."""

from collections.abc import Sequence
from enum import StrEnum

from awaken.contracts.errors import InvalidInput
from awaken.contracts.record import Record
from awaken.contracts.storage.store import UsageStore
from awaken.contracts.storage.usage import DAY_MS, UsageKey, UsageSums

DAYS_MAX = 366
"""How many days one query may span."""


class UsageField(StrEnum):
    """What usage can be grouped by."""

    DAY = "day"
    AGENT = "agent"
    MODEL = "model"
    TENANT = "tenant"


class UsageQuery(Record, frozen=True, kw_only=True):
    """The days that two times lie in and all between them; times are milliseconds, days UTC."""

    since: int
    until: int
    by: tuple[UsageField, ...] = (UsageField.DAY,)
    tenant_id: str | None = None


class UsageRow(Record, frozen=True, kw_only=True):
    """The usage of one group; a field that the query does not group by is absent."""

    day: int | None = None
    """The beginning of the day in UTC, in milliseconds."""
    agent_id: str | None = None
    model: str | None = None
    """Empty for usage that no logged call reported."""
    tenant_id: str | None = None
    sums: UsageSums


class UsageSummary(Record, frozen=True, kw_only=True):
    """The groups of a query in the order of its fields, and the sum of all of them."""

    rows: tuple[UsageRow, ...]
    total: UsageSums


async def report_usage(store: UsageStore, query: UsageQuery) -> UsageSummary:
    """Sum the usage of some days.

    Raises:
        InvalidInput: The days end before they begin, or are too many.
    """
    first, last = query.since // DAY_MS, query.until // DAY_MS
    if last < first:
        raise InvalidInput(what="usage", problem="its last day is before its first")
    if last - first >= DAYS_MAX:
        raise InvalidInput(what="usage", problem=f"it is of more than {DAYS_MAX} days")
    groups: dict[tuple[int | str, ...], UsageRow] = {}
    total = UsageSums()
    for found in await store.list_usage(first, last, query.tenant_id):
        place = tuple(_read_field(found.key, name) for name in query.by)
        known = groups.get(place)
        sums = found.sums if known is None else known.sums.plus(found.sums)
        groups[place] = _make_row(found.key, query.by, sums)
        total = total.plus(found.sums)
    return UsageSummary(rows=tuple(groups[it] for it in sorted(groups)), total=total)


def _read_field(key: UsageKey, name: UsageField) -> int | str:
    match name:
        case UsageField.DAY:
            return key.day
        case UsageField.AGENT:
            return key.agent_id
        case UsageField.MODEL:
            return key.model
        case UsageField.TENANT:
            return key.tenant_id or ""


def _make_row(key: UsageKey, by: Sequence[UsageField], sums: UsageSums) -> UsageRow:
    return UsageRow(
        day=key.day * DAY_MS if UsageField.DAY in by else None,
        agent_id=key.agent_id if UsageField.AGENT in by else None,
        model=key.model if UsageField.MODEL in by else None,
        tenant_id=key.tenant_id if UsageField.TENANT in by else None,
        sums=sums,
    )
