"""The times, retries and limits of the mailbox."""

from awaken.contracts.errors import InvalidInput
from awaken.contracts.record import StrictRecord

DAY_MS = 24 * 60 * 60 * 1000


class MailboxConfig(StrictRecord, frozen=True, kw_only=True):
    """Times and bounds of a worker and its mailbox; all times are milliseconds.

    Raises:
        InvalidInput: A number is out of range, or two of them contradict each other.
    """

    lease_ms: int = 30_000
    """How long a claim lasts if its holder does not renew it."""
    renew_ms: int = 10_000
    """How often a holder renews its claim."""
    sweep_ms: int = 15_000
    """How often to look for claims of dead workers, passed deadlines and old records."""
    poll_ms: int = 250
    """How long a worker waits for a signal before it looks for work by itself."""
    concurrency: int = 64
    """How many runs one worker executes at once."""
    max_attempts: int = 5
    """How often a dispatch is executed before it becomes a dead letter."""
    unknown_agent_ms: int = 60 * 60 * 1000
    """How long a dispatch for an unknown agent waits for another worker that serves it."""
    retry_base_ms: int = 250
    """The longest pause after the first failure; it doubles with each further one."""
    retry_cap_ms: int = 30_000
    """The longest pause between two attempts, and between two calls of an unavailable store."""
    thread_backlog: int = 1000
    """How many dispatches may wait on one thread."""
    queue_limit: int = 100_000
    """How many dispatches may wait on all threads together."""
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
            if value is not None and type(value) is not int:
                raise InvalidInput(what=name, problem=f"{value!r} is not a whole number")
            if value is not None and value < _LEAST.get(name, 1):
                raise InvalidInput(what=name, problem=f"{value} is too small")
        if self.renew_ms * 2 > self.lease_ms:
            problem = f"it must be at most half of lease_ms ({self.lease_ms}), to survive one miss"
            raise InvalidInput(what="renew_ms", problem=problem)
        for kind in ("retry", "relay"):
            cap = getattr(self, f"{kind}_cap_ms")
            if getattr(self, f"{kind}_base_ms") > cap:
                problem = f"it must not be above {kind}_cap_ms ({cap})"
                raise InvalidInput(what=f"{kind}_base_ms", problem=problem)


_LEAST = {"frame_ms": 0, "retention_ms": 0, "drain_ms": 0, "unknown_agent_ms": 0}
