"""The processes of a store: each reports what it is and does, and any of them can list all.

A process writes one small profile entry every few seconds, beside its runs. An entry that was not
renewed for `SILENT_MS` counts as gone: readers ignore it, and the sweeper removes it.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping

import msgspec

from awaken.contracts.config.compiler import ConfigProblem
from awaken.contracts.plugins.statistics import AgentFigures, StatisticsKeeper, StatisticsSummary
from awaken.contracts.record import Record
from awaken.contracts.state.profile import DamageTolerantProfiles, ProfileEntry, ProfileStore

logger = logging.getLogger(__name__)

OWNER = "system::workers"
"""The owner of the entries; each is keyed by the id of its process."""
REPORT_MS = 5_000
SILENT_MS = 60_000
NAMES_MAX = 500
"""How many agents an entry names at most."""
UNUSABLE_MAX = 100
REFUSED_MAX = 200
"""How many refused runs an entry names at most."""
REFUSED_MS = 10 * 60_000
"""How long a refusal counts."""
REFUSALS_MAX = 8
FIGURES_BYTES = 64 * 1024
"""How much of the statistics an entry has at most; the busiest agents come first."""
_STORE_S = 5.0
_LAST_S = 2.0
"""How long a process that stops tries to remove its entry, which is not shown for long anyway."""
_SAMPLE_S = 1.0


class WorkerConfig(Record, frozen=True, kw_only=True):
    """Which configuration a process has applied."""

    publication: int | None = None
    config_revision: int | None = None
    applied_at: int | None = None
    unusable: Mapping[str, str] = {}
    """Why agents of the publication cannot start in this process, by their id."""
    problem: str | None = None
    """Why the head could not be applied at all."""
    trial: int | None = None
    """The publication of a trial that the process has compiled."""
    trial_problems: tuple[ConfigProblem, ...] = ()


class WorkerLoad(Record, frozen=True, kw_only=True):
    """What a process serves and executes."""

    agents: tuple[str, ...]
    agent_count: int
    running: int
    slots: int
    """How many queued runs it executes at once; 0 if it claims none."""
    kind: str = ""
    """What it is for operators: `server`, `worker` or `runtime`."""
    max_busy: Mapping[str, int] = {}
    """How many claims its tenants may have, by their id, as far as they are limited."""


class WorkerIdentity(Record, frozen=True, kw_only=True):
    """What a process is."""

    id: str
    version: str
    host: str
    pid: int


class WorkerEntry(Record, frozen=True, kw_only=True, omit_defaults=False):
    """One process as it last reported itself; times are the store's, in milliseconds."""

    id: str
    version: str
    host: str
    pid: int
    agents: tuple[str, ...] = ()
    agent_count: int = 0
    running: int = 0
    slots: int = 0
    kind: str = ""
    max_busy: Mapping[str, int] = {}
    loop_lag_ms: int = 0
    """The longest delay of the event loop since the report before."""
    started_at: int = 0
    at: int = 0
    publication: int | None = None
    config_revision: int | None = None
    applied_at: int | None = None
    unusable: Mapping[str, str] = {}
    problem: str | None = None
    trial: int | None = None
    trial_problems: tuple[ConfigProblem, ...] = ()
    refused: Mapping[str, int] = {}
    """The runs that it could not continue lately, and when, by their id."""
    statistics: StatisticsSummary | None = None

    @property
    def config(self) -> WorkerConfig:
        """Which configuration the process has applied."""
        return WorkerConfig(
            publication=self.publication,
            config_revision=self.config_revision,
            applied_at=self.applied_at,
            unusable=self.unusable,
            problem=self.problem,
            trial=self.trial,
            trial_problems=self.trial_problems,
        )


class WorkerReport:
    """Reports this process to the others, from `open` until `close`.

    A store that fails is tried again with the next report. The entry is removed by `close`.
    """

    def __init__(
        self,
        identity: WorkerIdentity,
        profile: ProfileStore,
        now: Callable[[], Awaitable[int]],
        measure_load: Callable[[], WorkerLoad],
    ) -> None:
        self.identity = identity
        self.statistics: StatisticsKeeper | None = None
        """Where the figures of the entry come from, once something measures the runs."""
        self._profile = profile
        self._now = now
        self.measure_load = measure_load
        self._config = WorkerConfig()
        self._refused: dict[str, tuple[int, int]] = {}
        """When this process last refused a run, and how often, by the run's id."""
        self._started_at: int | None = None
        self._lag_s = 0.0
        self._is_written = False
        self._is_failing = False
        self._changed = asyncio.Event()
        self._reporting: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Report now and then every `REPORT_MS`; calling it twice is harmless.

        The other processes know this one when it returns, unless the store fails: what happens
        later is not decided without it. Its worker has started before, if it has one, because a
        process that claims nothing is not asked whether it can continue a run.
        """
        if self._reporting is None:
            await self._try_to_write()
            self._reporting = asyncio.create_task(self._report_until_closed(), name="report")

    async def close(self) -> None:
        """Stop, and remove the entry; if the store fails, it is ignored after `SILENT_MS`."""
        reporting, self._reporting = self._reporting, None
        if reporting is not None:
            reporting.cancel()
            await asyncio.wait([reporting])
        if self._is_written:
            self._is_written = False
            try:
                async with asyncio.timeout(_LAST_S):
                    await self._profile.delete_entry(OWNER, self.identity.id)
            except Exception as error:  # noqa: BLE001 - it is removed by others
                logger.warning("The entry of this process was not removed: %r", error)

    def set_config(self, config: WorkerConfig) -> None:
        """Set what the process has applied; it is reported at once."""
        unusable = dict(list(config.unusable.items())[:UNUSABLE_MAX])
        self._config = msgspec.structs.replace(config, unusable=unusable)
        self._changed.set()

    async def refuse_run(self, run_id: str) -> bool:
        """Note that this process cannot continue a run; returns whether no live one can.

        A process that did not take the run although it was offered `REFUSALS_MAX` times has no
        use for it either.

        Raises:
            StorageError: The store could not answer.
        """
        now = await self._now()
        _, times = self._refused.pop(run_id, (0, 0))
        self._refused[run_id] = (now, times + 1)
        if len(self._refused) > REFUSED_MAX:
            del self._refused[next(iter(self._refused))]
        await self.write()
        if times + 1 >= REFUSALS_MAX:
            return True
        live = [it for it in await list_workers(self._profile, now) if it.slots]
        return all(now - it.refused.get(run_id, -REFUSED_MS) < REFUSED_MS for it in live)

    async def write(self) -> WorkerEntry:
        """Write the entry now, and return it.

        Raises:
            StorageError: The store could not take it.
        """
        now = await self._now()
        self._started_at = self._started_at or now
        lag_s, self._lag_s = self._lag_s, 0.0
        entry = WorkerEntry(
            **msgspec.structs.asdict(self.identity),
            **msgspec.structs.asdict(self.measure_load()),
            **msgspec.structs.asdict(self._config),
            loop_lag_ms=round(lag_s * 1000),
            started_at=self._started_at,
            at=now,
            refused={name: at for name, (at, _) in self._refused.items() if now - at < REFUSED_MS},
            statistics=self._summarize(),
        )
        self._is_written = True
        await self._profile.save_entry(
            ProfileEntry(
                owner=OWNER, key=entry.id, value=msgspec.to_builtins(entry), updated_at=now
            )
        )
        return entry

    def _summarize(self) -> StatisticsSummary | None:
        return None if self.statistics is None else fit_summary(self.statistics.summarize())

    async def _report_until_closed(self) -> None:
        while True:
            await self._wait_for_next()
            await self._try_to_write()

    async def _try_to_write(self) -> None:
        self._changed.clear()
        try:
            async with asyncio.timeout(_STORE_S):
                await self.write()
            self._is_failing = False
        except Exception:
            # Tried again with the next report; logged once per outage.
            level = logging.DEBUG if self._is_failing else logging.WARNING
            logger.log(level, "This process could not report itself.", exc_info=True)
            self._is_failing = True

    async def _wait_for_next(self) -> None:
        """Wait for the next report, and measure how late the event loop wakes this task."""
        loop = asyncio.get_running_loop()
        end = loop.time() + REPORT_MS / 1000
        while (left := end - loop.time()) > 0 and not self._changed.is_set():
            due = loop.time() + min(left, _SAMPLE_S)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(due):
                    await self._changed.wait()
            self._lag_s = max(self._lag_s, loop.time() - due)


def fit_summary(summary: StatisticsSummary) -> StatisticsSummary:
    """Leave out the agents with the fewest calls, until the figures fit into an entry."""
    left = FIGURES_BYTES - len(msgspec.json.encode(summary.models))
    if left < 0:
        return StatisticsSummary(window_ms=summary.window_ms)
    kept: dict[str, AgentFigures] = {}
    busiest = sorted(summary.agents.items(), key=lambda it: -it[1].inferences.count)
    for name, figures in busiest:
        left -= len(msgspec.json.encode(figures)) + len(name)
        if left < 0:
            break
        kept[name] = figures
    return msgspec.structs.replace(summary, agents=kept)


async def list_workers(profile: ProfileStore, now: int) -> tuple[WorkerEntry, ...]:
    """List the processes that reported themselves within `SILENT_MS`, by their id."""
    entries = [_decode(entry) for entry in await _list_reports(profile)]
    return tuple(it for it in entries if it is not None and now - it.at < SILENT_MS)


async def has_unreadable_workers(profile: ProfileStore, now: int) -> bool:
    """Whether a process of a version that this one cannot read has reported itself lately."""
    return any(
        _decode(it) is None and now - it.updated_at < SILENT_MS
        for it in await _list_reports(profile)
    )


async def remove_silent_workers(profile: ProfileStore, now: int) -> int:
    """Remove the entries of processes that ended without removing theirs; returns how many."""
    removed = 0
    for stored in await _list_reports(profile):
        entry = _decode(stored)
        # What this version cannot read is a report of another one, and as old as it was written.
        at = stored.updated_at if entry is None else entry.at
        if now - at >= SILENT_MS:
            await profile.delete_entry(OWNER, stored.key)
            removed += 1
    return removed


def sum_statistics(workers: Mapping[str, StatisticsSummary]) -> StatisticsSummary:
    """Add up the figures of several processes."""
    total = StatisticsSummary()
    for figures in workers.values():
        total = total.plus(figures)
    return total


async def _list_reports(profile: ProfileStore) -> tuple[ProfileEntry, ...]:
    """List all entries; a damaged one counts as one of a version that this one cannot read."""
    if isinstance(profile, DamageTolerantProfiles):
        return await profile.list_readable_entries(OWNER)
    return await profile.list_entries(OWNER)


def _decode(stored: ProfileEntry) -> WorkerEntry | None:
    try:
        return msgspec.convert(stored.value, WorkerEntry)
    except msgspec.ValidationError:
        # A process of another version wrote it.
        logger.warning("Profile entry '%s' of %s is no worker.", stored.key, stored.owner)
        return None
