"""The evals of one process: made, started, taken over, cancelled and finished.

An eval is a job that one process at a time has claimed, by a lease in the store. The lease only
keeps others from doing the same work: what a driver does may be done twice without harm. A sweep of
any process takes over an eval whose lease has run out.
"""

import asyncio
import logging
import math
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec

from awaken.contracts.errors import AwakenError, InvalidRecord, StorageError
from awaken.contracts.evals.errors import InvalidEval, UnknownEval
from awaken.contracts.evals.eval_runs import EvalItem, EvalRecord, EvalSpec, EvalStatus
from awaken.contracts.evals.store import EvalQuery
from awaken.contracts.evals.verdicts import ComparisonVerdict, SequentialLook
from awaken.contracts.evals.worlds import ModelSource
from awaken.contracts.models.budgets import SHARED_LEDGER, decode_ledger, group_scope
from awaken.contracts.models.model_specs import NANOS
from awaken.contracts.state.profile import OPEN_EVALS
from awaken.redaction import describe_error
from awaken.scoring.comparisons import plan_look
from awaken.scoring.cost import count_tokens
from awaken.scoring.statistics.power import LOOKS

from .claims import WorkClaims
from .driving import EvalDriver, cancel_children, find_status, list_items
from .planning import MODELS
from .preparing import EvalParts, PreparedEval, prepare_eval
from .results import check_comparable, check_tried, summarize_eval
from .samples import group_of, list_group_budgets

logger = logging.getLogger(__name__)

_OPEN = (EvalStatus.PLANNED, EvalStatus.RUNNING)
OnItem = Callable[[EvalItem], None]
OnEval = Callable[[EvalRecord], None]


class EvalRunner:
    """Makes and drives evals in this process; every task of it is owned here."""

    def __init__(self, parts: EvalParts, on_change: "list[OnEval] | None" = None) -> None:
        if parts.limits.evals_at_once < 1:
            raise InvalidEval(problem="evals_at_once must be at least 1")
        self.parts = parts
        self._claims = WorkClaims(parts.control.engine, parts.worker_id, parts.limits.lease_ms)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._drivers: dict[str, EvalDriver] = {}
        self._has_waiting = False
        """Whether an eval may wait until one of this process ends."""
        self._search: asyncio.Task[None] | None = None
        self.on_change = [] if on_change is None else on_change
        """Called with each eval that this process makes, begins or ends."""
        self._watchers: dict[str, list[OnItem]] = {}

    async def create(
        self, spec: EvalSpec, by: str = "", tenant_id: str | None = None
    ) -> EvalRecord:
        """Plan an eval and keep it; nothing is spent.

        Raises:
            EvalError: Something that it names does not exist, does not compile, or is not enough,
                or its baseline cannot be compared with it.
            EvalExists: Its id is taken.
        """
        prepared = await prepare_eval(self.parts, spec, by=by)
        spec = prepared.spec
        eval_id = spec.id or self.parts.ids.new_id()
        record = EvalRecord(
            eval_id=eval_id,
            spec=msgspec.structs.replace(spec, id=eval_id, revision=prepared.revision.revision),
            revision=prepared.revision.revision,
            planned=len(prepared.samples),
            publications=prepared.publications,
            manifest_hash=prepared.manifest_hash,
            tenant_id=tenant_id,
            created_by=by,
            created_at=self.parts.clock.now_ms(),
        )
        if spec.baseline is not None:
            await self._check_baseline(spec.baseline, record)
        # Listed first: an eval that is not listed would never be taken over.
        await self._list_open(eval_id, is_open=True)
        await self.parts.evals.create_eval(record)
        self._tell_change(record)
        return record

    async def _check_baseline(self, eval_id: str, record: EvalRecord) -> None:
        """Refuse a baseline that could not be compared, before anything is spent.

        Raises:
            NotComparable: It tried something else, or it ended without a sample.
        """
        baseline = await self.load(eval_id, record.tenant_id)
        check_comparable(baseline, record)
        if baseline.status.is_terminal:
            check_tried(baseline, await self.parts.evals.list_eval_items(eval_id, limit=1), record)

    async def load(self, eval_id: str, tenant_id: str | None = None) -> EvalRecord:
        """Load an eval.

        Raises:
            UnknownEval: There is none, or it belongs to another tenant.
        """
        record = await self.parts.evals.load_eval(eval_id)
        if record is None or (tenant_id is not None and record.tenant_id != tenant_id):
            raise UnknownEval(eval_id=eval_id)
        return record

    def start(self, eval_id: str) -> bool:
        """Drive an eval in a task of this process, at once or when another one of it ends.

        Returns False if this process drives as many as it may.
        """
        if eval_id in self._tasks:
            return True
        if self._is_full():
            return False
        task = asyncio.create_task(self._drive(eval_id), name=f"eval {eval_id}")
        self._tasks[eval_id] = task
        task.add_done_callback(partial(self._give_way, eval_id))
        return True

    def _is_full(self) -> bool:
        if len(self._tasks) < self.parts.limits.evals_at_once:
            return False
        self._has_waiting = True
        return True

    def _give_way(self, eval_id: str, _: "asyncio.Task[None]") -> None:
        """Let evals that wait begin, now that one has ended."""
        self._tasks.pop(eval_id, None)
        if self._has_waiting and (self._search is None or self._search.done()):
            self._has_waiting = False
            self._search = asyncio.create_task(self._start_waiting(), name="evals that wait")

    async def _start_waiting(self) -> None:
        try:
            await self.sweep()
        except AwakenError as error:
            # The next sweep looks again.
            logger.warning("Evals that wait do not begin yet: %s", error)

    async def wait(self, eval_id: str, timeout_ms: int | None = None) -> EvalRecord:
        """Wait for the end of an eval, whichever process drives it.

        Raises:
            UnknownEval: There is no such eval.
            TimeoutError: It takes longer.
        """
        async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
            while True:
                if (task := self._tasks.get(eval_id)) is not None:
                    await asyncio.wait([task])
                record = await self.load(eval_id)
                if record.status.is_terminal:
                    return record
                if eval_id not in self._tasks and not self.start(eval_id):
                    await asyncio.sleep(self.parts.limits.lease_ms / 10_000)
                elif eval_id not in self._tasks:
                    await asyncio.sleep(0.05)

    async def cancel(self, eval_id: str) -> EvalRecord:
        """Cancel an eval and the runs of its samples; one that has ended stays as it is.

        Raises:
            UnknownEval: There is no such eval.
        """
        for status in _OPEN:
            record = await self.load(eval_id)
            if record.status is not status:
                continue
            ended = msgspec.structs.replace(
                record,
                status=EvalStatus.CANCELLED,
                spent=await self._count_spent(record),
                finished_at=self.parts.clock.now_ms(),
            )
            if await self.parts.evals.update_eval(ended, was=status):
                self._tell_change(ended)
                await self._list_open(eval_id, is_open=False)
                await self._cancel_samples(ended)
                return ended
        return await self.load(eval_id)

    async def _cancel_samples(self, record: EvalRecord) -> None:
        driver = self._drivers.get(record.eval_id)
        if driver is not None:
            await driver.cancel_samples()
        with suppress(AwakenError):
            prepared = await prepare_eval(self.parts, record.spec, record.publications)
            await cancel_children(self.parts, record, prepared)
        if (task := self._tasks.get(record.eval_id)) is not None:
            task.cancel()

    async def sweep(self) -> None:
        """Take over evals that no process drives, as many as this one may."""
        for status in _OPEN:
            found = await self.parts.evals.list_evals(EvalQuery(status=status))
            for _, record in reversed(found):
                if record.eval_id in self._tasks:
                    continue
                if self._is_full():
                    return
                if await self._claims.is_free(record.eval_id):
                    self.start(record.eval_id)

    async def close(self) -> None:
        """Stop driving; other processes, or this one at its next start, go on."""
        self._has_waiting = False
        tasks = list(self._tasks.values())
        if self._search is not None:
            tasks.append(self._search)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=10)

    async def _drive(self, eval_id: str) -> None:
        try:
            if not await self._claims.claim(eval_id):
                return
        except AwakenError as error:
            self._has_waiting = False
            logger.warning("Eval '%s' is not driven here: %s", eval_id, error)
            return
        beat = asyncio.create_task(self._renew(eval_id), name=f"lease of eval {eval_id}")
        try:
            await self._drive_claimed(eval_id)
        except InvalidRecord as error:
            # Written again it would be refused again.
            await self._fail(eval_id, describe_error(error))
        except StorageError as error:
            # A sweep, of this process or another one, goes on; others that wait would stop as well.
            self._has_waiting = False
            logger.warning("Eval '%s' stops for now: %s", eval_id, error)
        except Exception as error:
            # Tried again it would fail again, and pay again.
            logger.exception("Eval '%s' failed.", eval_id)
            await self._fail(eval_id, describe_error(error))
        finally:
            self._drivers.pop(eval_id, None)
            beat.cancel()
            await asyncio.wait([beat])
            with suppress(AwakenError):
                await self._claims.release(eval_id)

    async def _fail(self, eval_id: str, problem: str) -> None:
        with suppress(AwakenError):
            record = await self.load(eval_id)
            if record.status is EvalStatus.RUNNING:
                await self._end(record, EvalStatus.FAILED, problem=problem)

    async def _drive_claimed(self, eval_id: str) -> None:
        record = await self.load(eval_id)
        if record.status.is_terminal:
            return
        if record.status is EvalStatus.PLANNED:
            record = msgspec.structs.replace(
                record, status=EvalStatus.RUNNING, started_at=self.parts.clock.now_ms()
            )
            if not await self.parts.evals.update_eval(record, was=EvalStatus.PLANNED):
                return
            self._tell_change(record)
        try:
            prepared = await prepare_eval(self.parts, record.spec, record.publications)
        except AwakenError as error:
            # It could be prepared when it was made: this process has other code.
            await self._end(record, EvalStatus.FAILED, problem=str(error))
            return
        driver = EvalDriver(self.parts, record, prepared, self._tell)
        self._drivers[eval_id] = driver
        async with self._limit_time(record, driver):
            record = await self._drive_to_looks(record, prepared, driver)
            await driver.drive(record.planned)
        if not driver.is_stopped:
            await self.finish(record, prepared)

    async def _drive_to_looks(
        self, record: EvalRecord, prepared: PreparedEval, driver: EvalDriver
    ) -> EvalRecord:
        """Drive an eval that may stop early until a look decides; all looks are recorded."""
        has_other = len(record.spec.variants) > 1 or record.spec.baseline is not None
        if not (record.spec.stop_early and has_other):
            return record
        for fraction in LOOKS[len(record.looks) : -1]:
            if record.looks and record.looks[-1]["is_decided"]:
                break
            upto = math.ceil(fraction * record.planned)
            await driver.drive(upto)
            items = await list_items(self.parts.evals, record.eval_id)
            look = plan_look(len(items), record.planned)
            if driver.is_stopped or look is None:
                return record
            record = await self._look(record, prepared, items, look)
        return record

    async def _look(
        self,
        record: EvalRecord,
        prepared: PreparedEval,
        items: list[EvalItem],
        look: SequentialLook,
    ) -> EvalRecord:
        figures = await summarize_eval(self.parts, record, prepared, items, look)
        verdicts = {
            f"{it.second}/{scorer.scorer}": str(scorer.verdict)
            for it in figures.comparisons
            for scorer in it.scorers
        }
        is_decided = bool(verdicts) and ComparisonVerdict.UNDECIDED not in verdicts.values()
        seen = {
            "look": msgspec.to_builtins(look),
            "items": len(items),
            "verdicts": verdicts,
            "is_decided": is_decided,
        }
        looked = msgspec.structs.replace(
            record,
            looks=(*record.looks, seen),
            planned=len(items) if is_decided else record.planned,
        )
        await self.parts.evals.update_eval(looked, was=EvalStatus.RUNNING)
        return looked

    def _limit_time(self, record: EvalRecord, driver: EvalDriver) -> "_TimeLimit":
        budget = record.spec.budget
        limit = None if budget is None else budget.time_ms
        began = record.started_at or self.parts.clock.now_ms()
        left = None if limit is None else began + limit - self.parts.clock.now_ms()
        return _TimeLimit(driver, left)

    async def finish(self, record: EvalRecord, prepared: PreparedEval) -> EvalRecord:
        """Sum up an eval whose items are written, and end it."""
        items = await list_items(self.parts.evals, record.eval_id)
        status = find_status(items, record.planned)
        # What was looked at before is judged by the bound of the last look, not as if for once.
        look = plan_look(len(items), record.planned) if record.looks else None
        figures = await summarize_eval(self.parts, record, prepared, items, look)
        summary = msgspec.to_builtins(figures)
        return await self._end(record, status, summary)

    async def _end(
        self,
        record: EvalRecord,
        status: EvalStatus,
        summary: dict[str, Any] | None = None,
        problem: str | None = None,
    ) -> EvalRecord:
        ended = msgspec.structs.replace(
            record,
            status=status,
            summary=summary or {},
            spent=await self._count_spent(record),
            problem=problem,
            finished_at=self.parts.clock.now_ms(),
        )
        await self.parts.evals.update_eval(ended, was=EvalStatus.RUNNING)
        self._tell_change(ended)
        await self._list_open(record.eval_id, is_open=False)
        return ended

    async def _list_open(self, eval_id: str, *, is_open: bool) -> None:
        """List an eval among those that have not ended, or remove it."""
        profile = self.parts.control.engine.services.profile

        def change(stored: Any) -> Any:
            others = [it for it in stored or () if it != eval_id]
            return [*others, eval_id] if is_open else others

        now = self.parts.clock.now_ms()
        await profile.change_entry(OPEN_EVALS, OPEN_EVALS, change, now=now)

    async def _count_spent(self, record: EvalRecord) -> dict[str, Any]:
        """Return what an eval has spent: by its ledger if it has one, else by its items."""
        items = await list_items(self.parts.evals, record.eval_id)
        spent = count_items(items, is_live=MODELS[record.spec.mode_or_live] is ModelSource.LIVE)
        if budgets := list_group_budgets(record.spec):
            profile = self.parts.control.engine.services.profile
            owner = group_scope(group_of(record.eval_id))
            entry = await profile.find_entry(owner, SHARED_LEDGER)
            ledger = decode_ledger(None if entry is None else entry.value).spent
            spent["tokens"] = ledger.tokens
            if ledger.nanos or any(it.cost_usd is not None for it in budgets):
                # Otherwise a model without a price would seem to be free.
                spent["cost_usd"] = ledger.nanos / NANOS
        return spent

    def watch(self, eval_id: str, on_item: OnItem) -> Callable[[], None]:
        """Call back for each item that this process writes; returns what ends it."""
        self._watchers.setdefault(eval_id, []).append(on_item)

        def unwatch() -> None:
            self._watchers[eval_id].remove(on_item)

        return unwatch

    def _tell_change(self, record: EvalRecord) -> None:
        for on_change in self.on_change:
            on_change(record)

    def _tell(self, eval_id: str, item: EvalItem) -> None:
        for on_item in self._watchers.get(eval_id, ()):
            on_item(item)

    async def _renew(self, eval_id: str) -> None:
        """Renew the lease while the eval is driven, and stop the driver when it should not be."""
        pause_s = self.parts.limits.lease_ms / 3_000
        while True:
            await asyncio.sleep(pause_s)
            try:
                is_mine = await self._claims.claim(eval_id)
                record = await self.load(eval_id)
            except AwakenError as error:
                logger.warning("The lease of eval '%s' was not renewed: %s", eval_id, error)
                continue
            if not is_mine:
                logger.warning("Eval '%s' is driven by another process now.", eval_id)
                self._stop_driver(eval_id)
                return
            if record.status.is_terminal:
                driver = self._drivers.get(eval_id)
                if driver is not None:
                    await driver.cancel_samples()
                self._stop_driver(eval_id)
                return

    def _stop_driver(self, eval_id: str) -> None:
        if (task := self._tasks.get(eval_id)) is not None:
            task.cancel()


class _TimeLimit:
    """Cuts an eval when its time is over: samples that execute go on, and no other one begins."""

    def __init__(self, driver: EvalDriver, left_ms: int | None) -> None:
        self._driver = driver
        self._left_ms = left_ms
        self._timer: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> None:
        if self._left_ms is not None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(max(0, self._left_ms) / 1000, self._driver.cut)

    async def __aexit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()


def count_items(items: list[EvalItem], *, is_live: bool = True) -> dict[str, Any]:
    """Return what items and their judges have spent, as far as it is known; None if none of it is.

    Recorded and scripted answers are not paid for: there, only judges spend.
    """
    tokens: list[float | None] = []
    costs: list[float | None] = []
    for item in items:
        if is_live and item.usage is not None:
            tokens.append(count_tokens(item.usage))
            costs.append(item.cost_usd)
        judges = [it.judge for it in item.scores if it.judge is not None]
        tokens += [it.tokens for it in judges]
        costs += [it.cost_usd for it in judges]
    return {"tokens": _add_known(tokens), "cost_usd": _add_known(costs)}


def _add_known(amounts: list[float | None]) -> float | None:
    known = [it for it in amounts if it is not None]
    return sum(known) if known or not amounts else None
