"""Trouble that lasts: logged when it begins and when it ends, with growing pauses between."""

import logging


class Outage:
    """Counts failures in a row of one thing that is tried again and again."""

    __slots__ = ("_base_ms", "_cap_ms", "_failures", "_logger", "_what")

    def __init__(self, what: str, base_ms: int, cap_ms: int, logger: logging.Logger) -> None:
        self._what = what
        self._base_ms = base_ms
        self._cap_ms = cap_ms
        self._logger = logger
        self._failures = 0

    def failed(self, error: Exception) -> int:
        """Note a failure; returns how long to wait before the next try, in milliseconds."""
        if not self._failures:
            self._logger.warning("%s fails and is tried again: %s", self._what, error)
        self._failures += 1
        return backoff_ms(self._failures, self._base_ms, self._cap_ms)

    def succeeded(self) -> None:
        """Note a success."""
        if self._failures:
            self._logger.info("%s works again after %d failures.", self._what, self._failures)
        self._failures = 0


def backoff_ms(attempt: int, base_ms: int, cap_ms: int) -> int:
    """The longest pause after an attempt: doubled with each one, never above the cap."""
    # Beyond this many doublings every cap is reached, and the number would only get long.
    return min(cap_ms, base_ms << min(attempt - 1, 40))
