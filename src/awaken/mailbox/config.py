"""The times, retries and limits of the mailbox."""

from collections.abc import Mapping

import msgspec

from awaken.contracts.errors import InvalidInput
from awaken.contracts.identity import normalize_id
from awaken.contracts.record import StrictRecord
from awaken.contracts.storage.mailbox import EVERY_TENANT, NUMBER_MAX, TenantLimits

DAY_MS = 24 * 60 * 60 * 1000


class StoreDefault(int):
    """A time that the program does not choose: `choose_times` makes it what fits the store."""


class MailboxConfig(StrictRecord, frozen=True, kw_only=True):
    """Times and bounds of a worker and its mailbox; all times are milliseconds.

    Raises:
        InvalidInput: A number is out of range, or two of them contradict each other.
    """

    lease_ms: int = StoreDefault(30_000)
    """How long the claims of a process last that does not renew them. On Postgres 10,000."""
    renew_ms: int = StoreDefault(10_000)
    """How often a process renews its claims. On Postgres 3,000."""
    sweep_ms: int = StoreDefault(15_000)
    """How often to look for claims of dead workers, passed deadlines and old records.

    On Postgres 3,000: one process at a time looks.
    """
    poll_ms: int = StoreDefault(250)
    """How long a worker waits for a signal before it looks for work by itself.

    On Postgres 1,000, half more or less, and twice that while the bus works and nothing comes.
    """
    concurrency: int = 64
    """How many runs one worker executes at once."""
    max_attempts: int = 5
    """How often a dispatch is executed before it becomes a dead letter."""
    unknown_agent_ms: int = 60 * 60 * 1000
    """How long a dispatch for an unknown agent waits for another worker that serves it."""
    retry_base_ms: int = 250
    """The longest pause after the first failure; it doubles with each further one."""
    retry_cap_ms: int = 30_000
    """The longest pause between two attempts, and between two calls of an unavailable store.

    On Postgres the latter is at most `sweep_ms`.
    """
    thread_backlog: int = 1000
    """How many dispatches may wait on one thread."""
    queue_limit: int = 100_000
    """How many dispatches may wait on all threads together."""
    tenants: Mapping[str, TenantLimits] = {}
    """What each tenant may have at once, by its id; `*` is every tenant that is not named.

    Give all processes of a store the same limits.
    """
    retention_ms: int | None = 7 * DAY_MS
    """How long dispatches, runs and events are kept after their end, and orders given up.

    None keeps them for ever.
    """
    retention_runs: int | None = 10_000
    """How many ended runs the runtime's own store in memory keeps, besides the latest of a thread.

    None keeps all of them for `retention_ms`, as the other stores do.
    """
    purge_ms: int = 60_000
    """How often older records are removed."""
    drain_ms: int = 10_000
    """How long a stopping worker lets its runs continue before it gives them back."""
    relay_ms: int = 1_000
    """How often the relay looks for orders if no commit has woken it."""
    relay_attempts: int = 5
    """How often an order is tried before it is given up."""
    relay_base_ms: int = 1_000
    """The pause after an order's first failure; it grows fivefold with each further one."""
    relay_cap_ms: int = 120_000
    """The longest pause between two attempts at an order."""
    relay_timeout_ms: int = 30_000
    """How long one attempt at an order may take."""
    frame_ms: int = 40
    """How often a run's live events are sent to the processes that read it; 0: never.

    Without them readers in other processes see each step when it is committed.
    """

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if name == "tenants":
                _check_tenants(value)
                continue
            if value is not None and type(value) not in (int, StoreDefault):
                raise InvalidInput(what=name, problem=f"{value!r} is not a whole number")
            if value is not None and value < _LEAST.get(name, 1):
                raise InvalidInput(what=name, problem=f"{value} is too small")
            if value is not None and value > NUMBER_MAX:
                raise InvalidInput(what=name, problem=f"{value} is above {NUMBER_MAX}")
        if self.renew_ms * 2 > self.lease_ms:
            problem = f"it must be at most half of lease_ms ({self.lease_ms}), to survive one miss"
            raise InvalidInput(what="renew_ms", problem=problem)
        for kind in ("retry", "relay"):
            cap = getattr(self, f"{kind}_cap_ms")
            if getattr(self, f"{kind}_base_ms") > cap:
                problem = f"it must not be above {kind}_cap_ms ({cap})"
                raise InvalidInput(what=f"{kind}_base_ms", problem=problem)


def _check_tenants(tenants: Mapping[str, TenantLimits]) -> None:
    if not isinstance(tenants, Mapping):
        raise InvalidInput(what="tenants", problem="it is no mapping of tenants to TenantLimits")
    for name, limits in tenants.items():
        if type(name) is not str or normalize_id(name) != name:
            problem = f"{name!r} is no id of a tenant; `{EVERY_TENANT}` stands for every other one"
            raise InvalidInput(what="tenants", problem=problem)
        if not isinstance(limits, TenantLimits):
            problem = f"that of '{name}' is {type(limits).__name__}, no TenantLimits"
            raise InvalidInput(what="tenants", problem=problem)


_NODE_TIMES = {"lease_ms": 10_000, "renew_ms": 3_000, "sweep_ms": 3_000, "poll_ms": 1_000}


def choose_times(config: MailboxConfig, *, has_nodes: bool) -> MailboxConfig:
    """Choose the times that the program leaves open.

    With one lease per process a renewal costs little, so all of them are shorter.
    """
    times = {
        name: value if has_nodes else int(getattr(config, name))
        for name, value in _NODE_TIMES.items()
        if isinstance(getattr(config, name), StoreDefault)
    }
    if has_nodes and "lease_ms" in times:
        times["lease_ms"] = max(times["lease_ms"], 2 * times.get("renew_ms", config.renew_ms))
    return msgspec.structs.replace(config, **times) if times else config


def limit_outage_pause(config: MailboxConfig, *, has_nodes: bool) -> int:
    """Return the longest pause between two calls of a store that is away.

    Nodes survive an outage, so what was under way before it waits for them after it.
    """
    return min(config.retry_cap_ms, config.sweep_ms) if has_nodes else config.retry_cap_ms


_LEAST = {"frame_ms": 0, "retention_ms": 0, "drain_ms": 0, "unknown_agent_ms": 0}
