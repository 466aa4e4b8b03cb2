"""Budgets: what runs, threads, tenants and groups may spend, and the ledgers of what they spent.

The cost of a call is reserved before the call and settled after it, so that reservations of calls
in flight count as spent until the calls are over.
"""

import math
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Protocol

import msgspec

from awaken.contracts.errors import InvalidValue, RunError
from awaken.contracts.lifecycle import StoppedReason
from awaken.contracts.record import Record, StrictRecord
from awaken.contracts.state.keys import StateKey, StateScope

from .inference import TokenUsage
from .model_specs import NANOS, ModelSpec

HOLD_MS = 3_600_000
"""How long a reservation counts that is never settled because its process died."""


class BudgetScope(StrEnum):
    """The scope whose spending a budget limits."""

    RUN = "run"
    THREAD = "thread"
    TENANT = "tenant"
    """All runs that name the same tenant, in all processes of a store."""
    GROUP = "group"
    """All runs that were started for one purpose, such as an eval, in all processes of a store."""

    @property
    def is_shared(self) -> bool:
        """Whether the ledger is an entry that runs of all processes change."""
        return self in SHARED_SCOPES


SHARED_SCOPES = (BudgetScope.TENANT, BudgetScope.GROUP)


class Budget(StrictRecord, frozen=True, kw_only=True):
    """A limit on tokens, money or executing time. A soft one asks a person instead of stopping."""

    scope: BudgetScope = BudgetScope.RUN
    tokens: int | None = None
    """Prompt and completion tokens together."""
    cost_usd: float | None = None
    time_ms: int | None = None
    """Time in which runs execute; waiting for a decision does not count."""
    soft: bool = False

    def __post_init__(self) -> None:
        names = ("tokens", "cost_usd", "time_ms")
        given = {it: limit for it in names if (limit := getattr(self, it)) is not None}
        if not given:
            raise InvalidValue(what="budget", problem="set a limit: tokens, cost_usd or time_ms")
        for name, limit in given.items():
            is_number = type(limit) is int or (type(limit) is float and name == "cost_usd")
            if not is_number or not math.isfinite(limit) or limit <= 0:
                kind = "positive number" if name == "cost_usd" else "positive whole number"
                problem = f"the limit must be a {kind}"
                raise InvalidValue(what=f"budget: {name}={limit!r:.80}", problem=problem)

    @property
    def key(self) -> str:
        """Identifies the budget in a ledger."""
        return f"{self.scope}:{self.tokens}:{self.cost_usd}:{self.time_ms}"

    @property
    def limits(self) -> "tuple[tuple[str, int], ...]":
        """The limits that are set, in the units of an `Amount`."""
        nanos = None if self.cost_usd is None else max(1, round(self.cost_usd * NANOS))
        units = (("tokens", self.tokens), ("nanos", nanos), ("ms", self.time_ms))
        return tuple((unit, limit) for unit, limit in units if limit is not None)


class TenantBudget(Budget, frozen=True, kw_only=True):
    """A budget of one tenant; other runs do not know it."""

    tenant_id: str


class Amount(Record, frozen=True, kw_only=True):
    """An amount of tokens, money and time."""

    tokens: int = 0
    nanos: int = 0
    """Billionths of a US dollar."""
    ms: int = 0

    @classmethod
    def of(cls, usage: TokenUsage) -> "Amount":
        """Usage as an amount; negative counts become 0."""
        counts = (usage.prompt_tokens, usage.completion_tokens)
        tokens = sum(max(0, count or 0) for count in counts)
        return cls(tokens=tokens, nanos=max(0, usage.cost_nanos or 0))

    def plus(self, other: "Amount") -> "Amount":
        """Add two amounts."""
        return Amount(
            tokens=self.tokens + other.tokens,
            nanos=self.nanos + other.nanos,
            ms=self.ms + other.ms,
        )


class Hold(Record, frozen=True, kw_only=True):
    """The reservation of one call in flight."""

    amount: Amount
    at: int
    """When it was reserved, in milliseconds since the epoch."""


class Share(Record, frozen=True, kw_only=True):
    """The part of its budgets that a run has given to a child run."""

    run_id: str
    """The run that gave it."""
    call_id: str
    """The tool call that started the child run."""
    budgets: tuple[Budget, ...]
    """What the child run may spend."""

    @property
    def most(self) -> Amount:
        """The limit of all budgets together, without time, which passes for all runs at once."""
        limits = [dict(budget.limits) for budget in self.budgets]
        tokens, nanos = (
            min((limit[unit] for limit in limits if unit in limit), default=0)
            for unit in ("tokens", "nanos")
        )
        return Amount(tokens=tokens, nanos=nanos)


class Ledger(Record, frozen=True, kw_only=True):
    """What was spent in one scope, what calls have reserved, and which budgets were extended."""

    spent: Amount = Amount()
    holds: Mapping[str, Hold] = {}
    """One per run with a call in flight; a run that another process continues replaces its own."""
    extended: Mapping[str, int] = {}
    """How often a soft budget was extended by its limit, by the budget's key."""
    budgets: Mapping[str, tuple[Budget, ...]] = {}
    """The budgets of the agents of a run, by agent id; only the ledgers of runs have them."""
    shares: Mapping[str, Share] = {}
    """What was given to child runs, by run id; a shared ledger has none."""

    def open_holds(self, now: int) -> dict[str, Hold]:
        """The reservations that still count."""
        return {name: hold for name, hold in self.holds.items() if now - hold.at < HOLD_MS}

    def reserve(self, name: str, amount: Amount, now: int) -> "Ledger":
        """Return the ledger with a call's reservation, which replaces its run's earlier one."""
        holds = {**self.open_holds(now), name: Hold(amount=amount, at=now)}
        return msgspec.structs.replace(self, holds=holds)

    def settle(self, name: str, spent: Amount, now: int) -> "Ledger":
        """Return the ledger after a call is over."""
        holds = {other: hold for other, hold in self.open_holds(now).items() if other != name}
        return msgspec.structs.replace(self.charge(spent), holds=holds)

    def charge(self, amount: Amount) -> "Ledger":
        """Return the ledger with more spent."""
        return msgspec.structs.replace(self, spent=self.spent.plus(amount))

    def extend_budget(self, budget: Budget, used: Amount) -> "Ledger":
        """Return the ledger with the budget extended by its limit until something is left of it."""
        times = max(int(getattr(used, unit)) // limit for unit, limit in budget.limits)
        return msgspec.structs.replace(self, extended={**self.extended, budget.key: times})


RUN_LEDGER: StateKey[Ledger, Ledger] = StateKey("__runtime.run_ledger", default=Ledger())
"""What a run spent beyond its usage; its time is what was charged to other ledgers."""
THREAD_LEDGER: StateKey[Ledger, Ledger] = StateKey(
    "__runtime.thread_ledger", default=Ledger(), scope=StateScope.THREAD
)
SHARED_LEDGER = "__runtime.ledger"
"""The profile key under which the ledger of a tenant or of a group is kept."""


def tenant_scope(tenant_id: str) -> str:
    """The owner of a tenant's profile entries."""
    return f"tenant::{tenant_id}"


def group_scope(group_id: str) -> str:
    """The owner of a group's profile entries."""
    return f"group::{group_id}"


class Allowance(Record, frozen=True, kw_only=True):
    """A budget and what is used of it."""

    budget: Budget
    used: Amount
    extended: int = 0

    @classmethod
    def of(cls, budget: Budget, ledger: Ledger, now: int, caller: str = "") -> "Allowance":
        """The allowance of a budget; other calls' reservations count unless the budget is soft."""
        used = ledger.spent
        if not budget.soft:
            for name, hold in ledger.open_holds(now).items():
                used = used if name == caller else used.plus(hold.amount)
        return cls(budget=budget, used=used, extended=ledger.extended.get(budget.key, 0))

    def remainder(self, unit: str) -> int | None:
        """How much of a unit remains, at least 0; None if the budget does not limit it."""
        for name, limit in self.budget.limits:
            if name == unit:
                return max(0, limit * (1 + self.extended) - int(getattr(self.used, unit)))
        return None

    @property
    def limit_reached(self) -> str | None:
        """The limit that is used up, as a text; None if some of every unit remains."""
        for unit, _ in self.budget.limits:
            if self.remainder(unit) == 0:
                return self.describe_limit(unit)
        return None

    def describe_limit(self, unit: str) -> str:
        """A limit as a text for people: `thread: 1,000 tokens`."""
        limit = dict(self.budget.limits)[unit] * (1 + self.extended)
        text = f"${limit / NANOS:,}" if unit == "nanos" else f"{limit:,} {unit}"
        return f"{self.budget.scope}: {text}"


class BudgetExceeded(RunError):
    """A call may not be made, because a budget does not allow it; the run stops."""

    code = "budget_exceeded"
    template = "Stopped by a budget: {detail}."
    detail: str

    @property
    def reason(self) -> StoppedReason:
        """The reason as the run's record stores it."""
        return StoppedReason(code=self.code, detail=self.detail)


def split_budgets(allowances: Iterable[Allowance], share: float) -> tuple[Budget, ...]:
    """The budgets of a child that may spend a share of what its parent has left.

    A shared budget is not split: the child spends from the shared ledger itself.

    Raises:
        BudgetExceeded: Nothing is left to share.
    """
    if not 0 < share <= 1:
        message = "a share is more than 0 and at most 1"
        raise ValueError(message)
    return tuple(
        _split_allowance(allowance, share)
        for allowance in allowances
        if not allowance.budget.scope.is_shared
    )


def _split_allowance(allowance: Allowance, share: float) -> Budget:
    parts: dict[str, int] = {}
    for unit, _ in allowance.budget.limits:
        parts[unit] = math.floor((allowance.remainder(unit) or 0) * share)
        if parts[unit] == 0:
            raise BudgetExceeded(detail=allowance.describe_limit(unit))
    return Budget(
        tokens=parts.get("tokens"),
        cost_usd=parts["nanos"] / NANOS if "nanos" in parts else None,
        time_ms=parts.get("ms"),
        soft=allowance.budget.soft,
    )


class PriceList(Protocol):
    """The prices of models."""

    def nanos(self, model: ModelSpec, usage: TokenUsage) -> int | None:
        """The cost in billionths of a US dollar, or None when the model's price is not known."""
        ...


class OwnPrices:
    """A `PriceList` that uses the prices of the model specs."""

    __slots__ = ()

    def nanos(self, model: ModelSpec, usage: TokenUsage) -> int | None:
        """The cost by the model's own prices, or None when it has none."""
        return None if model.prices is None else model.prices.nanos(usage)


def decode_ledger(value: Any) -> Ledger:
    """Decode a ledger from its stored form; None gives an empty one."""
    return Ledger() if value is None else msgspec.convert(value, Ledger)
