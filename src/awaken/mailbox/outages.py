"""Repeated failures: logged when they begin and when they end, with growing pauses between."""

import logging


class Outage:
    """Counts consecutive failures of one operation that is tried again and again."""

    __slots__ = ("_base_ms", "_cap_ms", "_failures", "_logger", "_what")

    def __init__(self, what: str, base_ms: int, cap_ms: int, logger: logging.Logger) -> None:
        self._what = what
        self._base_ms = base_ms
        self._cap_ms = cap_ms
        self._logger = logger
        self._failures = 0

    def record_failure(self, error: Exception) -> int:
        """Record a failure; returns how long to wait before the next try, in milliseconds."""
        if not self._failures:
            self._logger.warning("%s failed and will be tried again: %s", self._what, error)
        self._failures += 1
        return backoff_ms(self._failures, self._base_ms, self._cap_ms)

    def record_success(self) -> None:
        """Record a success."""
        if self._failures:
            self._logger.info("%s works again after %d failures.", self._what, self._failures)
        self._failures = 0


def backoff_ms(attempt: int, base_ms: int, cap_ms: int) -> int:
    """Return the longest pause after an attempt: doubled with each one, never above the cap."""
    # After 40 doublings every cap is reached; more would only make the number longer.
    return min(cap_ms, base_ms << min(attempt - 1, 40))
