"""A circuit breaker as a value: every event gives the next one. It knows no clock and no store."""

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from awaken.contracts.record import Record, StrictRecord


class BreakerState(StrEnum):
    """Whether a model may be asked. `BREAKER_TRANSITIONS` lists every move."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


class Heard(StrEnum):
    """What moves a breaker."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    FAILED_TOO_OFTEN = "failed_too_often"
    PROBED = "probed"


BREAKER_TRANSITIONS: Mapping[tuple[BreakerState, Heard], BreakerState] = {
    (BreakerState.CLOSED, Heard.FAILED_TOO_OFTEN): BreakerState.OPEN,
    (BreakerState.OPEN, Heard.PROBED): BreakerState.HALF_OPEN,
    (BreakerState.OPEN, Heard.SUCCEEDED): BreakerState.CLOSED,
    (BreakerState.HALF_OPEN, Heard.PROBED): BreakerState.HALF_OPEN,
    (BreakerState.HALF_OPEN, Heard.FAILED): BreakerState.OPEN,
    (BreakerState.HALF_OPEN, Heard.FAILED_TOO_OFTEN): BreakerState.OPEN,
    (BreakerState.HALF_OPEN, Heard.SUCCEEDED): BreakerState.CLOSED,
}
"""What is not listed leaves a breaker where it is."""


class BreakerPolicy(StrictRecord, frozen=True, kw_only=True):
    """When a breaker opens, and how it closes again."""

    threshold: int = 5
    """It opens after this many failures in a row."""
    cooldown_ms: int = 30_000
    half_open_max: int = 1
    """How many calls at a time may probe."""


class Breaker(Record, frozen=True, kw_only=True):
    """One model's breaker: an immutable value, and the form in which it is shared."""

    state: BreakerState = BreakerState.CLOSED
    failures: int = 0
    """Calls that failed in a row."""
    probes: int = 0
    """Calls under way that probe a half-open breaker."""
    changed_at: int = 0
    """When it got into this state; later than every earlier change of it."""
    error: str | None = None
    """The code of the last failure."""

    def retry_at(self, policy: BreakerPolicy) -> int:
        """When the model may be asked again if nothing else is heard."""
        return 0 if self.state is BreakerState.CLOSED else self.changed_at + policy.cooldown_ms

    def is_available(self, now: int, policy: BreakerPolicy) -> bool:
        """Whether a call may begin. Asking changes nothing."""
        if self.state is BreakerState.HALF_OPEN and self.probes < policy.half_open_max:
            return True
        # Who probes and is not heard of again keeps others from it for a cooldown, no longer. A
        # change in the far future was made before a clock was set back.
        is_future = self.changed_at > now + policy.cooldown_ms
        return is_future or now >= self.retry_at(policy)

    def after_start(self, now: int, policy: BreakerPolicy) -> "Breaker":
        """A call begins that was allowed to."""
        if self.state is BreakerState.CLOSED:
            return self
        if self.state is BreakerState.HALF_OPEN and self.probes < policy.half_open_max:
            return msgspec.structs.replace(self, probes=self.probes + 1)
        return msgspec.structs.replace(self._move_to(Heard.PROBED, now), probes=1)

    def after_success(self, now: int) -> "Breaker":
        """A call ended well: all is forgotten."""
        if self.state is BreakerState.CLOSED and not self.failures:
            return self
        return msgspec.structs.replace(
            self._move_to(Heard.SUCCEEDED, now), failures=0, probes=0, error=None
        )

    def after_failure(self, now: int, policy: BreakerPolicy, code: str) -> "Breaker":
        """A call failed by the model's fault."""
        failures = self.failures + 1
        heard = Heard.FAILED if failures < policy.threshold else Heard.FAILED_TOO_OFTEN
        moved = self._move_to(heard, now)
        return msgspec.structs.replace(moved, failures=failures, probes=0, error=code)

    def after_abandon(self) -> "Breaker":
        """A call ended without telling anything; if it was a probe, another may begin."""
        return msgspec.structs.replace(self, probes=self.probes - 1) if self.probes else self

    def _move_to(self, heard: Heard, now: int) -> "Breaker":
        state = BREAKER_TRANSITIONS.get((self.state, heard))
        if state is None:
            return self
        return msgspec.structs.replace(self, state=state, changed_at=max(now, self.changed_at + 1))
