"""Logs one line for each class of refused requests, however many there are.

The first request of a class is logged at once. Those that follow within a minute are counted, and
logged with the next one, or when the server closes.
"""

import logging

from awaken.contracts.clock import Clock
from awaken.contracts.messages.content import escape_unprintable
from awaken.transport.problems import HttpError

logger = logging.getLogger("awaken.refusals")
# A program that configures no logging prints nothing for a refused request.
logger.addHandler(logging.NullHandler())

WINDOW_MS = 60_000
CLASSES_MAX = 200
_TEXT_CHARS = 300


class _Class:
    __slots__ = ("count", "logged_ms")

    def __init__(self) -> None:
        self.count = 0
        self.logged_ms: int | None = None


class RefusalLog:
    """Logs refusals by status, code and route; memory and log lines are bounded."""

    __slots__ = ("_classes", "_clock")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._classes: dict[tuple[int, str, str], _Class] = {}

    def note(self, problem: HttpError, route: str, client: str) -> bool:
        """Count a refusal, and log its class if that is due; returns whether it was."""
        key = (problem.status, problem.code, route)
        if key not in self._classes and len(self._classes) >= CLASSES_MAX:
            key = (problem.status, "other", "")
        known = self._classes.setdefault(key, _Class())
        known.count += 1
        now = self._clock.monotonic_ms()
        if known.logged_ms is not None and now - known.logged_ms < WINDOW_MS:
            return False
        known.logged_ms = now
        text = escape_unprintable(problem.message[:_TEXT_CHARS])
        self._log(key, known, f"{text} (last asked by {client or '?'})")
        return True

    def close(self) -> None:
        """Log what was counted and not logged yet."""
        for key, known in self._classes.items():
            if known.count:
                self._log(key, known, "the server closes")
        self._classes.clear()

    def _log(self, key: tuple[int, str, str], known: _Class, text: str) -> None:
        status, code, route = key
        count, known.count = known.count, 0
        logger.warning(
            "Refused %d request%s to %s with %d %s: %s",
            count,
            "" if count == 1 else "s",
            route or "several routes",
            status,
            code,
            text,
            extra={
                "event": "requests_refused",
                "status": status,
                "code": code,
                "route": route,
                "count": count,
            },
        )
