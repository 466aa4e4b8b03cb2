"""Usage by day of the memory store, and what else is asked about all runs."""

from collections import Counter

from awaken.contracts.clock import Clock
from awaken.contracts.lifecycle import RunStatus
from awaken.contracts.runs.records import RunKind, RunRecord
from awaken.contracts.storage.usage import SETTLE_MS, UsageDay, UsageKey
from awaken.stores.rules.usage import add_run

from .listings import list_events
from .tables import Tables

_SHOWN = (RunKind.CHAT, RunKind.TASK)


class MemoryUsage:
    """Sums usage, and answers what is asked about all runs."""

    def __init__(self, tables: Tables, clock: Clock) -> None:
        self._tables = tables
        self.clock = clock

    def list_pinned_publications(self) -> frozenset[int]:
        """Return the publications of runs that have not ended."""
        runs = self._tables.runs.values()
        return frozenset(
            run.publication
            for run in runs
            if run.publication is not None and run.status is not RunStatus.DONE
        )

    def count_open_runs(self, tenant_id: str | None) -> dict[str, int]:
        """Count the chats and tasks that have not ended, by status."""
        threads, found = self._tables.threads, Counter[str]()
        for run in self._tables.runs.values():
            is_shown = run.status is not RunStatus.DONE and run.kind in _SHOWN
            if is_shown and tenant_id in (None, threads[run.thread_id].shown.tenant_id):
                found[run.status.value] += 1
        return dict(found)

    def count_usage(self, limit: int) -> int:
        """Add ended runs to the usage of their days; returns how many were looked at."""
        tables, until = self._tables, self.clock.now_ms() - SETTLE_MS
        ended = [(_end_time(run), run.run_id, run) for run in tables.runs.values() if _is_done(run)]
        due = sorted(it for it in ended if tables.usage_cursor < it[:2] and it[0] <= until)[:limit]
        for at, run_id, run in due:
            thread = tables.threads[run.thread_id]
            events = list_events(thread, max(run.log_start, thread.purged_seq), len(thread.events))
            own = [it.event for it in events if it.run_id == run_id]
            add_run(tables.usage, run, at, own, thread.shown.tenant_id)
            tables.usage_cursor = (at, run_id)
        return len(due)

    def list_usage(
        self, first_day: int, last_day: int, tenant_id: str | None
    ) -> tuple[UsageDay, ...]:
        """Return the usage of the days between two, both included, by day, agent and model."""
        found = [
            UsageDay(key=key, sums=sums)
            for key, sums in self._tables.usage.items()
            if first_day <= key.day <= last_day and tenant_id in (None, key.tenant_id)
        ]
        return tuple(sorted(found, key=lambda it: _place(it.key)))


def _is_done(run: RunRecord) -> bool:
    return run.status is RunStatus.DONE


def _end_time(run: RunRecord) -> int:
    return run.updated_at if run.finished_at is None else run.finished_at


def _place(key: UsageKey) -> tuple[int, str, str, str]:
    return key.day, key.agent_id, key.model, key.tenant_id or ""
