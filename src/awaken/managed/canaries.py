"""Canaries: a publication that a share of runs tries, watched by guardrails.

Every process watches; the first one that sees a breach ends the canary, and the others find that
it has ended.
"""

import asyncio
import logging
import math
from collections.abc import Sequence
from typing import Protocol

import msgspec

from awaken.contracts.clock import Clock
from awaken.contracts.config.errors import CanaryConflict, NoCanary
from awaken.contracts.config.heads import Guardrails, SeenCanary
from awaken.contracts.errors import StorageError
from awaken.contracts.models.model_specs import NANOS

from .heads import ConfigHeads
from .live import LiveConfig
from .parts import Author

logger = logging.getLogger(__name__)

LOOK_MS = 5_000
"""How often the guardrails of a canary are judged."""
GUARDRAIL = Author(id="guardrail")
"""Who ends a canary that breaches one."""


class EndedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run that ended: whether it failed, how long it took, and what it cost."""

    is_error: bool
    duration_ms: int
    cost_nanos: int | None = None


class RunSample(Protocol):
    """Reads the runs of a publication that ended lately."""

    async def __call__(self, publication: int | None, since: int) -> Sequence[EndedRun]:
        """Return the runs on a publication that ended after a time."""
        ...


def find_breach(
    rails: Guardrails, tried: Sequence[EndedRun], live: Sequence[EndedRun]
) -> str | None:
    """Return which guardrail a canary breaches, or None; too few runs breach none."""
    if len(tried) < rails.min_runs:
        return None
    rate, usual = _error_rate(tried), _error_rate(live)
    if rails.max_error_rate is not None and rate > rails.max_error_rate:
        return f"error rate {rate:.1%} is above {rails.max_error_rate:.1%}"
    ratio = rails.max_error_rate_ratio
    # Without failures on the live side there is no ratio; `max_error_rate` judges such a canary.
    if ratio is not None and usual > 0 and rate > usual * ratio:
        return f"error rate {rate:.1%} is above {ratio:g} times that of the live one, {usual:.1%}"
    slow = _percentile([it.duration_ms for it in tried], 0.95)
    if rails.max_p95_ms is not None and slow > rails.max_p95_ms:
        return f"p95 of {slow} ms is above {rails.max_p95_ms} ms"
    costs = [it.cost_nanos for it in tried if it.cost_nanos is not None]
    mean = sum(costs) / len(costs) / NANOS if costs else 0.0
    if rails.max_cost_usd_per_run is not None and mean > rails.max_cost_usd_per_run:
        return f"a run costs {mean:.4f} USD, above {rails.max_cost_usd_per_run:g}"
    return None


class CanaryWatch:
    """Ends a canary that breaches a guardrail."""

    def __init__(
        self, live: LiveConfig, heads: ConfigHeads, sample: RunSample, clock: Clock
    ) -> None:
        self._live = live
        self._heads = heads
        self._sample = sample
        self._clock = clock
        self._task: asyncio.Task[None] | None = None

    def open(self) -> None:
        """Watch from now on; idempotent."""
        if self._task is None:
            self._task = asyncio.create_task(self._watch(), name="canary")

    async def close(self) -> None:
        """Stop watching."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait({task})

    async def judge(self) -> str | None:
        """Judge the canary now; returns the guardrail that ended it, or None.

        Raises:
            StorageError: The store did not answer; the canary goes on.
        """
        head = self._live.head
        if head.canary is None:
            return None
        canary, rails = head.canary, head.canary.plan.guardrails
        since = max(canary.since, self._clock.now_ms() - rails.window_ms)
        tried = await self._sample(canary.publication, since)
        usual = await self._sample(head.publication, since)
        breach = find_breach(rails, tried, usual)
        if breach is None:
            return None
        try:
            judged = SeenCanary(publication=canary.publication, since=canary.since)
            await self._heads.end_canary(judged, GUARDRAIL, breach)
        except (NoCanary, CanaryConflict):
            return None
        logger.warning("Publication %d is not tried any more: %s.", canary.publication, breach)
        return breach

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(LOOK_MS / 1000)
            try:
                await self.judge()
            except StorageError as error:
                logger.warning("The canary could not be judged: %s", error)
            except Exception:
                logger.exception("The canary could not be judged.")


def _error_rate(runs: Sequence[EndedRun]) -> float:
    return sum(it.is_error for it in runs) / len(runs) if runs else 0.0


def _percentile(values: list[int], share: float) -> int:
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]
