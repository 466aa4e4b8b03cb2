"""Drives one eval: it submits samples, scores what ended, and writes items once.

All progress is in the store: the runs of samples, found by their ids, and the items. A driver that
takes over reads which items are missing, and goes on with those. So a driver may die at any moment,
and two drivers at once do harm to nothing but a judge's call in flight.
"""

import asyncio
import itertools
import logging
from collections import deque
from collections.abc import Callable

import msgspec

from awaken.contracts.errors import AwakenError
from awaken.contracts.evals.errors import CannotRecord
from awaken.contracts.evals.eval_runs import EvalItem, EvalMode, EvalRecord, EvalStatus, ItemStatus
from awaken.contracts.evals.scores import Outcome, Score, ScoreSource, StoredScore
from awaken.contracts.evals.store import EvalStore
from awaken.contracts.evals.worlds import ModelSource, ReplayDivergence
from awaken.contracts.models.budgets import BudgetExceeded
from awaken.runtime.resolution.resolver import DEFAULT_AGENT
from awaken.scoring.judged import NAMES as JUDGED

from .divergences import find_divergences
from .judging import CallPurse, RuntimeAsk, SimulatedPerson
from .outcomes import build_item, build_outcome, merge_turns
from .pins import has_changes
from .planning import MODELS, PlannedSample
from .preparing import EvalParts, PreparedEval, make_case_scorers
from .samples import SampleSetup, agent_of, group_of, list_group_budgets, run_of, thread_of
from .sampling import SampleEnd, SampleRunner

logger = logging.getLogger(__name__)

PAGE = 1_000
WAITS_MAX = 50
"""How often a sample waits for reservations of others before the rest counts as cut."""
OnItem = Callable[[str, EvalItem], None]


class EvalDriver:
    """Drives one eval in this process until all its items are written, or until it is stopped."""

    def __init__(
        self,
        parts: EvalParts,
        record: EvalRecord,
        prepared: PreparedEval,
        on_item: OnItem | None = None,
    ) -> None:
        self._parts = parts
        self._record = record
        self._prepared = prepared
        self._on_item = on_item
        self._runner = SampleRunner(parts.control, parts.evals, parts.clock)
        self._pending: deque[PlannedSample] = deque()
        self._flying: dict[int, str] = {}
        """The threads of the samples that execute, by number."""
        self._landed = asyncio.Event()
        """Set when a sample ends: its reservations are free."""
        self._is_cut = False
        self.is_stopped = False
        """Whether no further sample begins."""

    async def drive(self, upto: int | None = None) -> None:
        """Write the items that are missing, of the first samples or of all.

        Raises:
            StorageError: The store fails; what was written stays.
        """
        done = {it.number for it in await list_items(self._parts.evals, self._record.eval_id)}
        samples = self._prepared.samples[:upto]
        self._pending.extend(it for it in samples if it.number not in done)
        lanes = min(self._prepared.spec.concurrency, len(self._pending))
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(lanes):
                    group.create_task(self._take_samples())
        except BaseExceptionGroup as failures:
            # The first failure explains the others.
            raise failures.exceptions[0] from failures

    async def cancel_samples(self) -> None:
        """Cancel the runs of the samples that execute."""
        self.is_stopped = True
        for thread_id in list(self._flying.values()):
            await self._parts.control.cancel_thread(thread_id)

    def cut(self) -> None:
        """Let no further sample begin; those that are missing are cut."""
        self._is_cut = True

    async def _take_samples(self) -> None:
        while self._pending and not self.is_stopped:
            sample = self._pending.popleft()
            if self._is_cut:
                item = self._build_cut(sample, "the budget was used up before it")
            else:
                item = await self._run_sample(sample)
            if not self.is_stopped:
                await self._write(item)

    async def _run_sample(self, sample: PlannedSample) -> EvalItem:
        """Run a sample; again after errors of providers, or when others had reserved all money."""
        retries, waits = self._parts.limits.infra_retries, WAITS_MAX
        for attempt in itertools.count():
            item, end = await self._try_sample(sample, attempt)
            match end.status:
                case ItemStatus.INFRA_ERROR if retries > 0:
                    retries -= 1
                case ItemStatus.CUT if waits > 0 and self._flying and not end.has_begun:
                    waits -= 1
                    self._landed.clear()
                    await self._landed.wait()
                case ItemStatus.CUT:
                    self._is_cut = True
                    return item
                case _:
                    return item
            if self.is_stopped:
                return item
        raise AssertionError

    async def _try_sample(self, sample: PlannedSample, attempt: int) -> tuple[EvalItem, SampleEnd]:
        prepared, eval_id = self._prepared, self._record.eval_id
        given, variant = prepared.cases[sample.case_id], prepared.find_variant(sample.variant)
        agent_id = agent_of(given, variant)
        setup = SampleSetup(
            eval_id=eval_id,
            thread_id=thread_of(eval_id, sample.number, attempt),
            agent_id=agent_id,
            publication=prepared.publications.get(variant.name),
            tenant_id=self._record.tenant_id,
            variant=variant,
            spec=prepared.spec,
            given=given,
        )
        changes = None
        if has_changes(variant):
            changes = msgspec.structs.replace(variant, agent_id=agent_id or DEFAULT_AGENT)
        person = None
        if given.case.user is not None:
            person = SimulatedPerson(given.case.user, self._make_ask(setup.thread_id, None))
        self._flying[sample.number] = setup.thread_id
        try:
            end = await self._runner.run(setup, changes, person)
            outcome, scores = await self._score(setup, end)
        except BudgetExceeded as error:
            end = SampleEnd(status=ItemStatus.CUT, error=str(error))
            outcome, scores = None, ()
        finally:
            self._flying.pop(sample.number, None)
            self._landed.set()
        has_parted = outcome is not None and bool(outcome.divergences)
        if has_parted and prepared.spec.mode is EvalMode.VERIFY and not end.status.is_missing:
            end = msgspec.structs.replace(end, status=ItemStatus.DIVERGED)
        return build_item(sample, given, end, outcome, scores), end

    async def _score(
        self, setup: SampleSetup, end: SampleEnd
    ) -> tuple[Outcome | None, tuple[Score, ...]]:
        recordings = []
        for run_id in end.run_ids:
            try:
                recordings.append(await self._parts.recorder.record(run_id))
            except (CannotRecord, AwakenError) as error:
                logger.info("Sample '%s' has no recording: %s", run_id, error)
        if not recordings:
            return None, ()
        merged, kept = merge_turns(recordings), setup.given.recording
        divergences: tuple[ReplayDivergence, ...] = ()
        if kept is not None and MODELS[setup.spec.mode] is ModelSource.RECORDED:
            divergences = find_divergences(kept, merged)
        outcome = build_outcome(setup.given, merged, divergences)
        if end.status.is_missing or end.status is ItemStatus.TIMEOUT:
            return outcome, ()
        return outcome, await self.score_outcome(setup, outcome, end.run_ids[-1])

    async def score_outcome(
        self, setup: SampleSetup, outcome: Outcome, run_id: str
    ) -> tuple[Score, ...]:
        """Score an outcome by the scorers of its case."""
        specs = self._prepared.scorers_of(setup.given.case)
        has_judge = any(it.scorer in JUDGED for it in specs)
        ask = self._make_ask(setup.thread_id, run_id) if has_judge else None
        scorers = make_case_scorers(self._parts, self._prepared, setup.given.case, ask)
        return tuple([await it.score(outcome) for it in scorers])

    def _make_ask(self, thread_id: str, run_id: str | None) -> RuntimeAsk:
        spec = self._prepared.spec
        purse = CallPurse(
            group=group_of(self._record.eval_id),
            budgets=list_group_budgets(spec),
            thread_id=thread_id,
            parent_run_id=run_id,
            tenant_id=self._record.tenant_id,
            model_id=spec.judge_model_id,
        )
        return RuntimeAsk(self._parts.control.engine, self._parts.evals, self._parts.ids, purse)

    def _build_cut(self, sample: PlannedSample, problem: str) -> EvalItem:
        given = self._prepared.cases[sample.case_id]
        end = SampleEnd(status=ItemStatus.CUT, error=problem)
        return build_item(sample, given, end, None, ())

    async def _write(self, item: EvalItem) -> None:
        evals = self._parts.evals
        if not await evals.put_eval_item(self._record.eval_id, item):
            return
        if item.run_id is not None and item.scores:
            await evals.add_scores(self._list_scores(item, item.run_id))
        if self._on_item is not None:
            self._on_item(self._record.eval_id, item)

    def _list_scores(self, item: EvalItem, run_id: str) -> list[StoredScore]:
        now = self._parts.clock.now_ms()
        return [
            StoredScore(
                run_id=run_id,
                scorer=it.name,
                source=ScoreSource.EVAL,
                at=now,
                score=it,
                tenant_id=self._record.tenant_id,
            )
            for it in item.scores
        ]


async def list_items(evals: EvalStore, eval_id: str) -> list[EvalItem]:
    """Return all items of an eval, in the order of the plan."""
    found: list[EvalItem] = []
    while page := await evals.list_eval_items(
        eval_id, after=found[-1].number if found else -1, limit=PAGE
    ):
        found += page
    return found


async def cancel_children(parts: EvalParts, record: EvalRecord, prepared: PreparedEval) -> int:
    """Cancel the runs of samples that have no item, whichever process executes them.

    Samples begin in the order of the plan: behind as many that have not begun as an eval executes
    at once, no other one has.
    """
    done = {it.number for it in await list_items(parts.evals, record.eval_id)}
    store, cancelled, idle = parts.control.engine.store, 0, 0
    for sample in prepared.samples:
        if sample.number in done:
            continue
        is_found = False
        for attempt in itertools.count():
            thread_id = thread_of(record.eval_id, sample.number, attempt)
            dispatch = await store.find_dispatch_of_run(run_of(thread_id, 0))
            if dispatch is None:
                break
            is_found = True
            await parts.control.cancel_thread(thread_id)
        cancelled, idle = cancelled + is_found, 0 if is_found else idle + 1
        if idle > prepared.spec.concurrency:
            break
    return cancelled


def find_status(items: list[EvalItem], planned: int) -> EvalStatus:
    """Return how an eval ends whose driver has nothing left to do."""
    is_whole = len(items) >= planned and not any(it.status.is_missing for it in items)
    return EvalStatus.DONE if is_whole else EvalStatus.INCOMPLETE
