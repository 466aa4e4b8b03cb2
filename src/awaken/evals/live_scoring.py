"""Live scoring: a sample of real runs is scored after its end, once over all processes.

One process at a time looks for runs that began since the last look, by a claim in the store. Which
of them are scored follows from their ids, so that every process decides alike; a run that is not
sampled is only read in a list. Runs that are due stay in a profile entry until they are scored, so
a process that dies loses nothing: another one goes on, and asks at most one judge again.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any

import msgspec

from awaken.contracts.config.specs import LiveScoringSpec
from awaken.contracts.errors import AwakenError, StoreUnavailable
from awaken.contracts.evals.cases import Case
from awaken.contracts.evals.scores import ModelReply, Outcome, Score, ScorerSpec, ScoreSource
from awaken.contracts.evals.store import ScoreQuery
from awaken.contracts.models.budgets import Budget, BudgetExceeded, BudgetScope, group_scope
from awaken.contracts.record import Record, always
from awaken.contracts.runs.records import RunKind, RunRecord
from awaken.contracts.storage.queries import Order, RunQuery, at_cursor
from awaken.scoring.registry import make_scorers

from .calibrating import build_run_score
from .claims import WorkClaims
from .judging import CallPurse, RuntimeAsk
from .outcomes import build_outcome
from .preparing import EvalParts
from .samples import SampleCase

logger = logging.getLogger(__name__)

CLAIM = ":scores"
OWNER = "live_scoring"
PROGRESS = "progress"
SETTLE_MS = 5_000
"""Runs that began later are left to the next look: another process may just write one."""
PAGES_MAX = 10
DUE_MAX = 1_000
"""How many runs may wait for their end or their scores; beyond, the oldest are given up."""
LOOKED_AT = 100
"""How many of them one sweep looks at."""
DAY_MS = 86_400_000
_MAX = float(1 << 64)
ListSpecs = Callable[[], Sequence[LiveScoringSpec]]


class ScoringProgress(Record, frozen=True, kw_only=True):
    """How far live scoring is; what it gave up is counted, never scored with 0."""

    since: int = 0
    """Runs that began before this time have been looked at."""
    seen: tuple[str, ...] = ()
    """Those that began at exactly this time."""
    due: tuple[tuple[str, tuple[str, ...]], ...] = always(())
    """Sampled runs that have no scores yet, with the ids of the records that sampled them."""
    scored: int = always(0)
    cut: int = always(0)
    """Scores that the budget of their day had no money for."""
    lost: int = always(0)
    """Runs that could not be recorded, or waited behind too many others."""
    day: int = 0


class LiveScoring:
    """Scores runs of this store; its task is owned here."""

    def __init__(self, parts: EvalParts, list_specs: ListSpecs, settle_ms: int = SETTLE_MS) -> None:
        self._parts = parts
        self._settle_ms = settle_ms
        self._list_specs = list_specs
        engine = parts.control.engine
        self._engine = engine
        self._claims = WorkClaims(engine, parts.worker_id, parts.limits.lease_ms)
        self._task: asyncio.Task[object] | None = None

    def sweep(self) -> None:
        """Look for due runs in a task of this process, unless it does so already."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._sweep_once(), name="live scoring")

    async def close(self) -> None:
        """Stop; what is due stays due."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task], timeout=10)

    async def _sweep_once(self) -> None:
        try:
            await self.score_due()
        except AwakenError as error:
            logger.warning("Live scoring stops for now: %s", error)
        except Exception:
            logger.exception("Live scoring stops for now.")

    async def score_due(self) -> int:
        """Find sampled runs and score those that have ended; returns how many scores it wrote.

        Raises:
            StorageError: The store fails; what was written stays.
        """
        if not await self._claims.claim(CLAIM):
            return 0
        try:
            specs = {it.id: it for it in self._list_specs()}
            progress = await self._look_for_runs(tuple(specs.values()))
            written = 0
            for run_id, names in progress.due[:LOOKED_AT]:
                if not await self._claims.claim(CLAIM):
                    break
                chosen = [specs[it] for it in names if it in specs]
                written += await self._try_run(run_id, chosen)
            return written
        finally:
            await self._claims.release(CLAIM)

    async def load_progress(self) -> ScoringProgress:
        """Return how far live scoring is."""
        entry = await self._engine.services.profile.find_entry(OWNER, PROGRESS)
        return _read(None if entry is None else entry.value)

    async def _look_for_runs(self, specs: Sequence[LiveScoringSpec]) -> ScoringProgress:
        """Add the sampled runs that began since the last look to those that are due."""
        now = await self._engine.store.now_ms()
        known = await self.load_progress()
        if known.since == 0:
            # What began before live scoring was switched on is not scored.
            page = await self._engine.store.list_runs(RunQuery(since=now, limit=200))
            begun = tuple(it.run_id for it in page.items)
            return await self._change(
                lambda it: msgspec.structs.replace(it, since=now, seen=begun), now
            )
        query = RunQuery(
            since=known.since,
            until=now - self._settle_ms,
            kinds=(RunKind.CHAT, RunKind.TASK),
            order=Order.ASC,
            limit=200,
        )
        found: list[RunRecord] = []
        for _ in range(PAGES_MAX):
            page = await self._engine.store.list_runs(query)
            found += page.items
            if page.next_cursor is None:
                break
            query = at_cursor(query, page.next_cursor)
        fresh = [it for it in found if it.run_id not in known.seen]
        if not fresh:
            return known
        since = fresh[-1].created_at
        seen = tuple(it.run_id for it in found if it.created_at == since)
        due = [(it.run_id, names) for it in fresh if (names := choose_specs(it, specs))]

        def change(it: ScoringProgress) -> ScoringProgress:
            waiting = (*it.due, *due)
            kept = waiting[-DUE_MAX:]
            lost = it.lost + len(waiting) - len(kept)
            return msgspec.structs.replace(it, since=since, seen=seen, due=kept, lost=lost)

        return await self._change(change, now)

    async def _try_run(self, run_id: str, specs: Sequence[LiveScoringSpec]) -> int:
        """Score a run that has ended; one that has not goes to the end of the line."""
        now = await self._engine.store.now_ms()
        record = await self._engine.store.load_run(run_id)
        if record is not None and specs and not record.status.is_terminal:
            await self._change(lambda it: _move_back(it, run_id), now)
            return 0
        written = cut = lost = 0
        if record is not None:
            try:
                recording = await self._parts.recorder.record(run_id)
            except StoreUnavailable:
                # The run stays due: nothing is wrong with it.
                raise
            except AwakenError as error:
                logger.info("Run '%s' is not scored: %s", run_id, error)
                lost = 1
            else:
                said = "\n".join(it.text for it in recording.input)
                given = SampleCase(case=Case(id="live", user_input=said), recording=recording)
                outcome = build_outcome(given, recording)
                for spec in specs:
                    more, less = await self._score(record, spec, outcome)
                    written, cut = written + more, cut + less
        else:
            lost = 1

        def change(it: ScoringProgress) -> ScoringProgress:
            rest = tuple(each for each in it.due if each[0] != run_id)
            return msgspec.structs.replace(
                it, due=rest, scored=it.scored + written, cut=it.cut + cut, lost=it.lost + lost
            )

        await self._change(change, now)
        return written

    async def _score(
        self, record: RunRecord, spec: LiveScoringSpec, outcome: Outcome
    ) -> tuple[int, int]:
        """Score a run by one record; returns how many scores were written, and how many cut."""
        evals = self._parts.evals
        query = ScoreQuery(run_id=record.run_id, source=ScoreSource.ONLINE, limit=1_000)
        # A process that died may have written some of them; other records have their own.
        known = {it.scorer for it in await evals.list_scores(query) if it.by == spec.id}
        wanted = [it for it in list_scorers(spec) if it.shown_name not in known]
        now = await self._engine.store.now_ms()
        ask = _DayAsk(self._make_ask(record, spec, now // DAY_MS))
        written = cut = 0
        for it in wanted:
            ask.is_cut = False
            score = await self._mark(it, ask, outcome)
            if ask.is_cut:
                cut += 1
                continue
            now = self._parts.clock.now_ms()
            stored = build_run_score(record, score, ScoreSource.ONLINE, now, by=spec.id)
            await evals.add_scores([stored])
            written += 1
        return written, cut

    async def _mark(self, spec: ScorerSpec, ask: "_DayAsk", outcome: Outcome) -> Score:
        """Score an outcome by one scorer.

        A scorer that cannot be made in this process is a missing score that says why: it costs
        neither the others of its record, nor other records, nor the runs behind this one.
        """
        try:
            (scorer,) = make_scorers([spec], ask=ask, modules=self._parts.modules)
        except AwakenError as error:
            return Score(name=spec.shown_name, error=str(error))
        return await scorer.score(outcome)

    def _make_ask(self, record: RunRecord, spec: LiveScoringSpec, day: int) -> RuntimeAsk:
        budgets: tuple[Budget, ...] = ()
        if spec.max_usd_per_day is not None:
            budgets = (Budget(scope=BudgetScope.GROUP, cost_usd=spec.max_usd_per_day),)
        purse = CallPurse(
            group=group_of_day(spec.id, day),
            budgets=budgets,
            thread_id=record.thread_id,
            parent_run_id=record.run_id,
            tenant_id=record.tenant_id,
        )
        return RuntimeAsk(self._engine, self._parts.evals, self._parts.ids, purse)

    async def _change(
        self, change: Callable[[ScoringProgress], ScoringProgress], now: int
    ) -> ScoringProgress:
        today = now // DAY_MS

        def apply(stored: Any) -> Any:
            made = change(_read(stored))
            return msgspec.to_builtins(msgspec.structs.replace(made, day=today))

        profile = self._engine.services.profile
        before = await self.load_progress()
        value = await profile.change_entry(OWNER, PROGRESS, apply, now=now)
        if before.day not in (0, today):
            # The ledgers of a day that is over are not needed any more.
            for spec in self._list_specs():
                await profile.clear_owner(group_scope(group_of_day(spec.id, before.day)))
        return _read(value)


class _DayAsk:
    """Asks judges, and remembers whether the money of the day was used up."""

    def __init__(self, ask: RuntimeAsk) -> None:
        self._ask = ask
        self.is_cut = False

    async def ask(
        self, model_id: str | None, system: str, text: str, schema: dict[str, Any]
    ) -> ModelReply:
        try:
            return await self._ask.ask(model_id, system, text, schema)
        except BudgetExceeded:
            self.is_cut = True
            raise


def choose_specs(run: RunRecord, specs: Sequence[LiveScoringSpec]) -> tuple[str, ...]:
    """Return the records that sample a run; runs below others are part of these."""
    if run.parent_run_id is not None or run.is_workflow:
        return ()
    names = (run.agent_id, run.active_agent_id)
    return tuple(
        it.id
        for it in specs
        if it.enabled
        and (not it.agents or any(name in it.agents for name in names))
        and draw_sample(it.id, run.run_id) < it.sample
    )


def draw_sample(spec_id: str, run_id: str) -> float:
    """Return a number from 0 to below 1 that is the same in every process."""
    digest = blake2b(f"{spec_id}\n{run_id}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / _MAX


def list_scorers(spec: LiveScoringSpec) -> tuple[ScorerSpec, ...]:
    """Return the scorers of a record."""
    return tuple(
        ScorerSpec(scorer=it.scorer, name=it.name, options=it.options, threshold=it.threshold)
        for it in spec.scorers
    )


def group_of_day(spec_id: str, day: int) -> str:
    """The id of the group whose ledger the judges of a day spend from."""
    return f"scores:{spec_id}:{day}"


def _move_back(progress: ScoringProgress, run_id: str) -> ScoringProgress:
    own = tuple(it for it in progress.due if it[0] == run_id)
    rest = tuple(it for it in progress.due if it[0] != run_id)
    return msgspec.structs.replace(progress, due=(*rest, *own))


def _read(stored: Any) -> ScoringProgress:
    return ScoringProgress() if stored is None else msgspec.convert(stored, ScoringProgress)
