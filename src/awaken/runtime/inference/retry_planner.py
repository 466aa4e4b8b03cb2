"""Whether and when a model is called again after a failure, and which models are left."""

import asyncio
import hashlib

from awaken.contracts.models.errors import (
    AllModelsUnavailable,
    ModelError,
    Overloaded,
    StreamInterrupted,
)
from awaken.contracts.models.model_specs import RetryPolicy
from awaken.runtime.resolution.models import ModelRoute
from awaken.runtime.run import Run
from awaken.runtime.spending.ledgers import time_left_ms


class RetryPlanner:
    """The attempts that one inference has left, by its agent's retry policy and its pool."""

    __slots__ = (
        "_began", "_breaks", "_failures", "_given_up", "_last", "_policy", "_routes", "_run",
        "_waited",
    )  # fmt: skip

    def __init__(self, run: Run, routes: tuple[ModelRoute, ...], began: int) -> None:
        self._run = run
        self._policy = run.agent.retry
        self._began = began
        self._routes = routes
        self._given_up: tuple[ModelRoute, ...] = ()
        self._failures = 0
        self._breaks = 0
        self._waited = 0
        """Pauses that took no time, in milliseconds: the deadline counts them."""
        self._last: tuple[type[ModelError], str] | None = None
        """The latest retryable failure of a call that was made."""

    @property
    def usable_routes(self) -> tuple[ModelRoute, ...]:
        """The models that were not given up, in their order."""
        return tuple(route for route in self._routes if route not in self._given_up)

    async def outlasts(
        self, error: ModelError, asked: ModelRoute | None, *, has_begun: bool
    ) -> bool:
        """Wait until the next call may begin, of the same model or of another one.

        False when there is no next call.
        """
        if isinstance(error, AllModelsUnavailable):
            # An inference that has made a call waits for the breaker; a new one fails at once.
            return self._last is not None and await self._pause(error, 0)
        if error.retryable:
            self._last = (type(error), str(error))
        if has_begun:
            self._breaks += 1
            attempt, most = self._breaks, self._policy.max_stream_retries
        else:
            self._failures += 1
            attempt, most = self._failures, self._policy.max_retries
        may_repeat = error.retryable and attempt <= most and not self._is_quicker_elsewhere(error)
        if may_repeat and await self._pause(error, attempt - 1):
            return True
        return self._switch(error, asked)

    def has_root_cause(self, error: ModelError, *, has_begun: bool) -> bool:
        """Whether `root_cause` says more than the error that ended the last attempt."""
        if isinstance(error, AllModelsUnavailable):
            return self._last is not None
        is_other = error.retryable and not isinstance(error, StreamInterrupted)
        return is_other and has_begun and self._breaks > 1

    def root_cause(self, error: ModelError) -> ModelError:
        """Return the error that explains why there is no answer."""
        if isinstance(error, AllModelsUnavailable) and self._last is not None:
            kind, message = self._last
            return kind(message, retry_after_ms=error.retry_after_ms)
        return StreamInterrupted(f"the stream broke off: {error}")

    def _is_quicker_elsewhere(self, error: ModelError) -> bool:
        is_long = (error.retry_after_ms or 0) > self._policy.backoff_cap_ms
        return is_long and len(self.usable_routes) > 1

    async def _pause(self, error: ModelError, attempt: int) -> bool:
        pause = backoff_ms(self._policy, error, attempt, self._run.identity.run_id)
        passed = self._run.services.clock.monotonic_ms() - self._began + self._waited
        if passed + pause > self._policy.deadline_ms:
            return False
        time_left = time_left_ms(self._run)
        if time_left is not None:
            # After the pause, the budget refuses the next call.
            pause = min(pause, time_left)
        if all(getattr(it.client, "is_virtual", False) for it in self._routes):
            # Nobody answers but a recording or a script: there is no provider to spare.
            self._waited += pause
        elif pause:
            # A cancellation of the run ends the pause.
            await asyncio.sleep(pause / 1000)
        return True

    def _switch(self, error: ModelError, asked: ModelRoute | None) -> bool:
        """Switch to another model of the pool; False when no other one can help."""
        pool = self._run.agent.pool
        if pool is None or asked is None or error.blames_request:
            return False
        given_up = (*self._given_up, asked)
        if len(given_up) > pool.max_switches or len(given_up) >= len(self._routes):
            return False
        self._given_up = given_up
        self._failures = self._breaks = 0
        return True


def backoff_ms(policy: RetryPolicy, error: ModelError, attempt: int, salt: str) -> int:
    """Return how long to wait before the next call; a longer time from the provider wins.

    The jitter is a function of the run, so that runs that failed together do not retry together,
    and one run always behaves the same.
    """
    is_full = isinstance(error, Overloaded)
    base = policy.overloaded_backoff_base_ms if is_full else policy.backoff_base_ms
    pause = min(base << attempt, max(policy.backoff_cap_ms, base))
    draw = hashlib.blake2b(f"{salt}:{attempt}".encode(), digest_size=2).digest()
    jitter = pause * int.from_bytes(draw) // (4 * 0xFFFF)
    return max(pause + jitter, error.retry_after_ms or 0)
