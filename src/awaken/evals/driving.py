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

from awaken.contracts.errors import AwakenError, StoreUnavailable
from awaken.contracts.evals.eval_runs import EvalItem, EvalMode, EvalRecord, EvalStatus, ItemStatus
from awaken.contracts.evals.scores import Outcome, Score, ScoreSource, StoredScore
from awaken.contracts.evals.store import EvalStore
from awaken.contracts.evals.worlds import ModelSource, ReplayDivergence
from awaken.contracts.models.budgets import BudgetExceeded
from awaken.runtime.resolution.resolver import DEFAULT_AGENT
from awaken.scoring.judged import NAMES as JUDGED

from .divergences import find_divergences
from .ends_below import check_below
from .judging import CallPurse, RuntimeAsk, SimulatedPerson
from .outcomes import build_item, build_outcome, check_script, merge_turns, name_unscored
from .pairs import add_other, score_pair
from .pins import has_changes
from .planning import MODELS, PlannedSample
from .preparing import EvalParts, PreparedEval, expects_failure, make_case_scorers
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
        has_lead = prepared.find_comparing() is not None
        self._lead = prepared.spec.variants[0].name if has_lead else None
        """The variant that a scorer compares the others with."""
        self._leads: dict[tuple[str, int], asyncio.Future[EvalItem | None]] = {}
        """Its items by case and repeat, as they are written; None if the driver is stopped."""
        self.is_stopped = False
        """Whether no further sample begins."""

    async def drive(self, upto: int | None = None) -> None:
        """Write the items that are missing, of the first samples or of all.

        Raises:
            StorageError: The store fails; what was written stays.
        """
        items = await list_items(self._parts.evals, self._record.eval_id)
        done = {it.number for it in items}
        for it in items:
            self._keep_lead(it.case_id, it.sample, it.variant, it)
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
            if sample.variant == self._lead:
                self._leads.setdefault((sample.case_id, sample.sample), asyncio.Future())
            if self._is_cut:
                item = self._build_cut(sample, "the budget was used up before it")
            else:
                item = await self._run_sample(sample)
            written: EvalItem | None = None
            if not self.is_stopped:
                written = await self._write(item)
            self._keep_lead(sample.case_id, sample.sample, sample.variant, written)

    def _keep_lead(self, case_id: str, sample: int, variant: str, item: EvalItem | None) -> None:
        if variant != self._lead:
            return
        kept = self._leads.setdefault((case_id, sample), asyncio.Future())
        if not kept.done():
            kept.set_result(item)

    async def _add_other(self, sample: PlannedSample, outcome: Outcome) -> Outcome:
        """Add the first variant's answer, when its item is written.

        The plan begins with that sample, so another lane has it, or it is done. Meanwhile this one
        has landed: it holds no reservation that the other may be waiting for.
        """
        thread_id = self._flying.pop(sample.number)
        self._landed.set()
        lead = self._leads.get((sample.case_id, sample.sample))
        item = None if lead is None else await asyncio.shield(lead)
        self._flying[sample.number] = thread_id
        return await add_other(outcome, item, self._parts.recorder)

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
            outcome, scores, end = await self._score(sample, setup, end)
        except BudgetExceeded as error:
            end = SampleEnd(status=ItemStatus.CUT, error=str(error))
            outcome, scores = None, ()
        finally:
            self._flying.pop(sample.number, None)
            self._landed.set()
        has_parted = outcome is not None and bool(outcome.divergences)
        if (
            has_parted
            and prepared.spec.mode_or_live is EvalMode.VERIFY
            and not end.status.is_missing
        ):
            end = msgspec.structs.replace(end, status=ItemStatus.DIVERGED)
        specs = prepared.scorers_of(given.case, variant.name)
        looks = expects_failure(prepared.scorers_of(given.case))
        item = build_item(sample, given, end, outcome, scores, expects_failure=looks)
        return name_unscored(item, specs), end

    async def _score(
        self, sample: PlannedSample, setup: SampleSetup, end: SampleEnd
    ) -> tuple[Outcome | None, tuple[Score, ...], SampleEnd]:
        recordings = []
        for run_id in end.run_ids:
            try:
                recordings.append(await self._parts.recorder.record(run_id))
            except StoreUnavailable:
                # Without its recording the sample would stay unscored, as items are written once.
                raise
            except AwakenError as error:
                logger.info("Sample '%s' has no recording: %s", run_id, error)
        if not recordings:
            return None, (), end
        end = check_below(end, recordings, setup.spec.mode_or_live)
        if setup.spec.mode_or_live is EvalMode.SCRIPTED:
            end = check_script(setup.given.case, recordings, end)
        merged, kept = merge_turns(recordings), setup.given.recording
        divergences: tuple[ReplayDivergence, ...] = ()
        if kept is not None and MODELS[setup.spec.mode_or_live] is ModelSource.RECORDED:
            divergences = find_divergences(kept, merged)
        outcome = build_outcome(setup.given, merged, divergences)
        if end.status.is_missing or end.status is ItemStatus.TIMEOUT:
            return outcome, (), end
        if self._lead not in (None, sample.variant):
            outcome = await self._add_other(sample, outcome)
        if self.is_stopped:
            return outcome, (), end
        return await self._score_outcome(setup, outcome, end)

    async def _score_outcome(
        self, setup: SampleSetup, outcome: Outcome, end: SampleEnd
    ) -> tuple[Outcome, tuple[Score, ...], SampleEnd]:
        """Score an outcome by the scorers of its case; it is cut if no money is left for a judge.

        Its run is paid, but a sample without its verdict says nothing: it is no error of a scorer.
        """
        variant = setup.variant.name
        specs = self._prepared.scorers_of(setup.given.case, variant)
        has_judge = any(it.scorer in JUDGED for it in specs)
        ask = self._make_ask(setup.thread_id, end.run_ids[-1]) if has_judge else None
        scorers = make_case_scorers(self._parts, self._prepared, setup.given.case, variant, ask)
        scores = await score_pair(scorers, outcome, self._lead or "")
        if ask is not None and ask.refusal is not None:
            error = f"its judge could not be asked: {ask.refusal}"
            return outcome, (), msgspec.structs.replace(end, status=ItemStatus.CUT, error=error)
        return outcome, scores, end

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

    async def _write(self, item: EvalItem) -> EvalItem:
        """Write an item, and return it, or the one that another driver wrote before."""
        evals, eval_id = self._parts.evals, self._record.eval_id
        scores = [] if item.run_id is None else self._list_scores(item, item.run_id)
        if not await evals.put_eval_item(eval_id, item, scores):
            found = await evals.list_eval_items(eval_id, after=item.number - 1, limit=1)
            return next((it for it in found if it.number == item.number), item)
        if self._on_item is not None:
            self._on_item(eval_id, item)
        return item

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
