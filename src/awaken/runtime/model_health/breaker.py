"""A circuit breaker as an immutable value: each event returns the next one.

It uses neither a clock nor a store.
"""

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from awaken.contracts.record import Record, StrictRecord


class BreakerState(StrEnum):
    """Whether a model may be called. `BREAKER_TRANSITIONS` lists every transition."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


class Heard(StrEnum):
    """The events that move a breaker to another state."""

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
"""An event that is not listed leaves the state unchanged."""


class BreakerPolicy(StrictRecord, frozen=True, kw_only=True):
    """When a breaker opens, and how it closes again."""

    threshold: int = 5
    """It opens after this many failures in a row."""
    cooldown_ms: int = 30_000
    half_open_max: int = 1
    """How many calls may probe at the same time."""


class Breaker(Record, frozen=True, kw_only=True):
    """One model's breaker: an immutable value, and the form in which it is shared."""

    state: BreakerState = BreakerState.CLOSED
    failures: int = 0
    """How many calls failed in a row."""
    probes: int = 0
    """How many calls are probing a half-open breaker."""
    changed_at: int = 0
    """When it entered this state; always later than its previous change."""
    error: str | None = None
    """The code of the last failure."""

    def retry_at(self, policy: BreakerPolicy) -> int:
        """When the model may be called again if no other event arrives."""
        return 0 if self.state is BreakerState.CLOSED else self.changed_at + policy.cooldown_ms

    def is_available(self, now: int, policy: BreakerPolicy) -> bool:
        """Whether a call may begin. This check changes nothing."""
        if self.state is BreakerState.HALF_OPEN and self.probes < policy.half_open_max:
            return True
        # A probe that never reports blocks others for one cooldown at most. A change in the far
        # future was made before a clock was set back.
        is_future = self.changed_at > now + policy.cooldown_ms
        return is_future or now >= self.retry_at(policy)

    def after_start(self, now: int, policy: BreakerPolicy) -> "Breaker":
        """The breaker after an allowed call has begun."""
        if self.state is BreakerState.CLOSED:
            return self
        if self.state is BreakerState.HALF_OPEN and self.probes < policy.half_open_max:
            return msgspec.structs.replace(self, probes=self.probes + 1)
        return msgspec.structs.replace(self._move_to(Heard.PROBED, now), probes=1)

    def after_success(self, now: int) -> "Breaker":
        """The breaker after a call has succeeded: failures and probes are reset."""
        if self.state is BreakerState.CLOSED and not self.failures:
            return self
        return msgspec.structs.replace(
            self._move_to(Heard.SUCCEEDED, now), failures=0, probes=0, error=None
        )

    def after_failure(self, now: int, policy: BreakerPolicy, code: str) -> "Breaker":
        """The breaker after a call has failed through the model's fault."""
        failures = self.failures + 1
        event = Heard.FAILED if failures < policy.threshold else Heard.FAILED_TOO_OFTEN
        moved = self._move_to(event, now)
        return msgspec.structs.replace(moved, failures=failures, probes=0, error=code)

    def after_abandon(self) -> "Breaker":
        """The breaker after a call without an outcome; if it was a probe, another may begin."""
        return msgspec.structs.replace(self, probes=self.probes - 1) if self.probes else self

    def _move_to(self, event: Heard, now: int) -> "Breaker":
        state = BREAKER_TRANSITIONS.get((self.state, event))
        if state is None:
            return self
        return msgspec.structs.replace(self, state=state, changed_at=max(now, self.changed_at + 1))
