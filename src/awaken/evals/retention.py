"""What is not kept of evals: the threads of their samples after a time, and objects without a name.

Items and scores stay, with the text and the calls of each sample. An object is removed if no
revision of a dataset, no kept replay, no item and no run has named it for a day, and while no eval
is open: what is just being written is named soon after.
"""

import asyncio
import itertools
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import msgspec

from awaken.contracts.errors import AwakenError
from awaken.contracts.evals.cases import DatasetRevision
from awaken.contracts.evals.eval_runs import EvalRecord, EvalStatus
from awaken.contracts.evals.store import EvalQuery
from awaken.contracts.record import Record
from awaken.contracts.runs.records import RunKind
from awaken.contracts.storage.queries import RunQuery, at_cursor
from awaken.contracts.storage.store import DeleteStrategy

from .driving import list_items
from .preparing import EvalParts
from .replay_jobs import list_kept_results
from .samples import thread_of

logger = logging.getLogger(__name__)

RETENTION = "eval_retention"
"""The profile entry of what was removed, and of objects that nothing names."""
DAY_MS = 24 * 3_600_000
PAUSE_MS = 3_600_000
"""How often all processes together look for what is not kept."""
PAGE = 500
UNNAMED_MAX = 20_000
"""How many unnamed objects are remembered; more are found the next time."""
_IN_WORLDS = (RunKind.EVAL, RunKind.REPLAY)


class EvalsKept(Record, frozen=True, kw_only=True):
    """How long the parts of evals are kept that cost much."""

    threads_ms: int = 30 * DAY_MS
    """The threads of the samples of an eval, after its end."""
    unnamed_ms: int = DAY_MS
    """Objects that nothing names, since that was first seen."""


class _Noted(Record, frozen=True, kw_only=True):
    """What the store remembers between two looks."""

    at: int = 0
    done_no: int = 0
    """Of all evals up to this number the threads are deleted."""
    unnamed: dict[str, int] = {}  # noqa: RUF012 - msgspec copies an empty default
    """When it was first seen that nothing names an object, by its hash."""


class _Naming(msgspec.Struct, frozen=True):
    """The part of a case or a world that names another object."""

    recording: str | None = None


class EvalRetention:
    """Removes what is not kept of the evals of a store; one process at a time does it."""

    def __init__(self, parts: EvalParts, kept: EvalsKept | None = None) -> None:
        self._parts = parts
        self._kept = kept or EvalsKept()
        self._store = parts.control.engine.store
        self._profile = parts.control.engine.services.profile
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Look in a task of this process, so that other sweeps do not wait for many deletions."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._sweep_logged(), name="retention of evals")

    async def close(self) -> None:
        """Stop looking; another process, or this one the next time, goes on."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _sweep_logged(self) -> None:
        try:
            await self.sweep()
        except AwakenError as error:
            logger.warning("What is old of evals was not removed: %s", error)

    async def sweep(self) -> None:
        """Remove what is not kept, unless a process has done so within the last hour.

        Raises:
            StorageError: The store fails; the rest is removed the next time.
        """
        now = await self._store.now_ms()
        noted = await self._begin(now)
        if noted is None:
            return
        done_no = await self._delete_threads(noted.done_no, now - self._kept.threads_ms)
        unnamed = await self._delete_unnamed(noted.unnamed, now)
        found = _Noted(at=now, done_no=done_no, unnamed=unnamed)
        await self._change(lambda _: found, now)

    async def _begin(self, now: int) -> _Noted | None:
        """Note that this process looks; None if another one has looked lately."""
        entry = await self._profile.find_entry(RETENTION, RETENTION)
        if entry is not None and msgspec.convert(entry.value, _Noted).at > now - PAUSE_MS:
            return None
        before: list[_Noted] = []

        def change(noted: _Noted) -> _Noted:
            before[:] = [noted]
            is_late = noted.at <= now - PAUSE_MS
            return msgspec.structs.replace(noted, at=now) if is_late else noted

        await self._change(change, now)
        (noted,) = before
        return noted if noted.at <= now - PAUSE_MS else None

    async def _change(self, change: Any, now: int) -> None:
        def apply(stored: Any) -> Any:
            noted = _Noted() if stored is None else msgspec.convert(stored, _Noted)
            return msgspec.to_builtins(change(noted))

        await self._profile.change_entry(RETENTION, RETENTION, apply, now=now)

    async def _delete_threads(self, done_no: int, before: int) -> int:
        """Delete the threads of evals that ended before a time; returns the last number done.

        Evals are numbered as they are made: one that has not ended long ago holds later ones back.
        """
        waiting = [found async for found in self._list_evals() if found[0] > done_no]
        for no, record in sorted(waiting, key=lambda it: it[0]):
            ended = record.finished_at
            if not record.status.is_terminal or ended is None or ended > before:
                break
            await self._delete_samples(record)
            done_no = no
        return done_no

    async def _delete_samples(self, record: EvalRecord) -> None:
        for number in range(record.planned):
            for attempt in itertools.count():
                thread_id = thread_of(record.eval_id, number, attempt)
                if await self._store.load_thread(thread_id) is None:
                    break
                try:
                    await self._store.delete_thread(thread_id, DeleteStrategy.CASCADE)
                except AwakenError as error:
                    # A run that hangs on it: a person has to see to it, and nothing else waits.
                    logger.warning("Thread '%s' is not deleted: %s", thread_id, error)

    async def _list_evals(self) -> AsyncIterator[tuple[int, EvalRecord]]:
        """Yield all evals, newest first."""
        before: int | None = None
        while True:
            page = await self._parts.evals.list_evals(EvalQuery(before_no=before, limit=PAGE))
            for found in page:
                yield found
            if not page:
                return
            before = page[-1][0]

    async def _delete_unnamed(self, seen: Mapping[str, int], now: int) -> dict[str, int]:
        """Delete objects that nothing has named for long; returns what is unnamed now."""
        evals = self._parts.evals
        objects = [it async for it in self._list_objects()]
        if not objects or await self._has_open_eval():
            return dict(seen)
        named = await self._list_named()
        unnamed = {it: seen.get(it, now) for it in objects if it not in named}
        old = [it for it, since in unnamed.items() if since <= now - self._kept.unnamed_ms]
        for begin in range(0, len(old), PAGE):
            if await self._has_open_eval():
                break
            removed = old[begin : begin + PAGE]
            await evals.delete_eval_objects(removed)
            unnamed = {it: since for it, since in unnamed.items() if it not in set(removed)}
        return dict(itertools.islice(unnamed.items(), UNNAMED_MAX))

    async def _has_open_eval(self) -> bool:
        for status in (EvalStatus.PLANNED, EvalStatus.RUNNING):
            if await self._parts.evals.list_evals(EvalQuery(status=status, limit=1)):
                return True
        return False

    async def _list_objects(self) -> AsyncIterator[str]:
        after = ""
        while page := await self._parts.evals.list_eval_objects(after=after, limit=PAGE):
            for name in page:
                yield name
            after = page[-1]

    async def _list_named(self) -> set[str]:
        """Return every object that something names."""
        evals = self._parts.evals
        named = set(await list_kept_results(self._parts.control.engine))
        worlds = {it async for it in self._list_worlds()}
        async for _, record in self._list_evals():
            named |= {it.outcome for it in await list_items(evals, record.eval_id) if it.outcome}
        cases = {entry.hash async for it in self._list_revisions() for entry in it.cases}
        named |= worlds | cases
        return named | await self._list_recordings(sorted(worlds | cases))

    async def _list_recordings(self, names: Sequence[str]) -> set[str]:
        """Return the recordings that cases and worlds name."""
        found: set[str] = set()
        for begin in range(0, len(names), PAGE):
            bodies = await self._parts.evals.load_eval_objects(names[begin : begin + PAGE])
            for body in bodies.values():
                if (name := msgspec.json.decode(body, type=_Naming).recording) is not None:
                    found.add(name)
        return found

    async def _list_worlds(self) -> AsyncIterator[str]:
        query = RunQuery(kinds=_IN_WORLDS, limit=PAGE)
        while True:
            page = await self._store.list_runs(query)
            for record in page.items:
                if record.world is not None:
                    yield record.world.partition("/")[0]
            if page.next_cursor is None:
                return
            query = at_cursor(query, page.next_cursor)

    async def _list_revisions(self) -> AsyncIterator[DatasetRevision]:
        """Yield all revisions of datasets that are not deleted, with their cases."""
        evals, after = self._parts.evals, ""
        while datasets := await evals.list_datasets(after=after, limit=PAGE):
            for newest in datasets:
                for number in range(1, newest.revision + 1):
                    found = await evals.load_dataset(newest.dataset_id, number)
                    if found is not None:
                        yield found
            after = datasets[-1].dataset_id
