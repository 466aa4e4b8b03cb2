"""Replays that a server does in the background: begun, followed, cancelled, read afterwards.

A replay runs in the process that was asked, which says every few seconds that it is alive. Its
record is a profile entry of the replayed run, so that every process of the store can show and
cancel it. If its process ends, the replay is lost and says so; nothing outside was touched.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import msgspec

from awaken.contracts.config.publications import hash_object
from awaken.contracts.errors import AwakenError
from awaken.contracts.evals.errors import TooManyReplays, UnknownReplay
from awaken.contracts.evals.recordings import Recording
from awaken.contracts.evals.replays import ReplayRecord, ReplayResult, ReplaySpec, ReplayStatus
from awaken.contracts.evals.store import EvalObjectSource, EvalStore, ObjectKind
from awaken.contracts.evals.worlds import ReplayDivergence
from awaken.contracts.record import Record, always
from awaken.redaction import describe_error
from awaken.runtime.engine import RunEngine

from .comparing import RunDiff, compare_runs
from .pins import PinnedConfig
from .replaying import Replays

logger = logging.getLogger(__name__)

INDEX = "replays"
"""The profile entry that lists the replays which are kept, oldest first."""
LOST = "the process that did it ended"
_WAIT_STEP_S = 0.5


class ReplayLimits(Record, frozen=True, kw_only=True):
    """Bounds of the replays of one process, and of what a store keeps of them."""

    at_once: int = 4
    time_ms: int = 600_000
    alive_ms: int = 15_000
    """How long a replay whose process is silent is not taken for lost."""
    kept: int = 500
    """How many replays the store keeps; older ones are removed."""
    keep_ms: int = 30 * 24 * 3_600_000


class ReplayOutcome(Record, frozen=True, kw_only=True):
    """What came of a replay: where it parted, and both runs side by side."""

    is_same: bool
    divergences: tuple[ReplayDivergence, ...] = always(())
    incomplete: tuple[str, ...] = ()
    """What the recording does not have, and so was not compared."""
    ended: str | None = None
    """The type of the end of the replayed run; None if it waits."""
    diff: RunDiff
    """The run (`before`) and its replay (`after`): aligned steps, state and figures."""


class FollowedReplay(Record, frozen=True, kw_only=True):
    """A replay, and its result once it is done."""

    replay: ReplayRecord
    result: ReplayOutcome | None = None
    missing: str | None = None
    """Why a replay that is done has no result any more."""


class _KeptOutcome(Record, frozen=True, kw_only=True):
    """The part of what is kept of a replay that most readers want."""

    outcome: ReplayOutcome


class _KeptReplay(_KeptOutcome, frozen=True, kw_only=True):
    """What is kept of a replay; its id makes it another object than that of an equal replay."""

    replay_id: str
    replayed: Recording


class _Ended(Exception):
    """The replay has ended, by another process."""


class ReplayJobs:
    """The replays of this process; every task of them is owned here."""

    def __init__(
        self, engine: RunEngine, evals: EvalStore, replays: Replays, limits: ReplayLimits
    ) -> None:
        self._engine = engine
        self._evals = evals
        self._replays = replays
        self._limits = limits
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._starting = 0

    def check_room(self) -> None:
        """Refuse a replay if this process does as many as it may.

        Raises:
            TooManyReplays: It does.
        """
        if len(self._tasks) + self._starting >= self._limits.at_once:
            raise TooManyReplays(limit=self._limits.at_once)

    async def begin(
        self,
        recording: Recording,
        spec: ReplaySpec,
        pinned: PinnedConfig | None,
        by: str,
        *,
        acts_for_user: bool = True,
    ) -> ReplayRecord:
        """Begin a replay in a task of this process; see `Replays.replay` for whom it acts.

        Raises:
            TooManyReplays: This process does as many as it may.
            CannotReplay: The recording lacks what the mode needs.
        """
        self.check_room()
        self._replays.check(recording, spec)
        self._starting += 1
        try:
            record = await self._create(recording.run.run_id, spec, pinned, by)
            work = partial(self._replay, record, recording, acts_for_user=acts_for_user)
            task = asyncio.create_task(
                self._follow_through(record, work), name=f"replay {record.replay_id}"
            )
        finally:
            self._starting -= 1
        self._tasks[record.replay_id] = task
        task.add_done_callback(lambda _: self._tasks.pop(record.replay_id, None))
        return record

    async def _create(
        self, run_id: str, spec: ReplaySpec, pinned: PinnedConfig | None, by: str
    ) -> ReplayRecord:
        now = await self._engine.store.now_ms()
        record = ReplayRecord(
            replay_id=self._engine.services.ids.new_id(),
            run_id=run_id,
            spec=spec,
            publication=None if pinned is None else pinned.publication,
            manifest_hash=None if pinned is None else pinned.manifest_hash,
            created_by=by,
            created_at=now,
            alive_until=now + self._limits.alive_ms,
        )
        # Listed first: what is not listed would never be removed.
        await self._list(record, now)
        await self._change(record, lambda _: record, now)
        return record

    async def load(self, run_id: str, replay_id: str, wait_ms: int = 0) -> FollowedReplay:
        """Return a replay, and its result; waits for its end, at most so long.

        Raises:
            UnknownReplay: There is none.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait_ms / 1000
        while True:
            record = await self._find(run_id, replay_id)
            left = deadline - loop.time()
            if record.status.is_terminal or left <= 0:
                return await self._show(record)
            if (task := self._tasks.get(replay_id)) is not None:
                await asyncio.wait([task], timeout=left)
            else:
                # Another process does it.
                await asyncio.sleep(min(left, _WAIT_STEP_S))

    async def load_recording(self, run_id: str, replay_id: str) -> Recording:
        """Return the recording of the replayed run.

        Raises:
            UnknownReplay: There is no such replay, it is not done, or its recording was deleted.
        """
        name = (await self._find(run_id, replay_id)).result
        found = {} if name is None else await self._evals.load_eval_objects([name])
        if name is None or name not in found:
            raise UnknownReplay(run_id=run_id, replay_id=replay_id)
        return msgspec.json.decode(found[name], type=_KeptReplay).replayed

    async def list_of(self, run_id: str) -> tuple[ReplayRecord, ...]:
        """Return the replays of a run that are kept, newest first."""
        now = await self._engine.store.now_ms()
        entries = await self._engine.services.profile.list_entries(owner_of(run_id))
        found = [_show_lost(msgspec.convert(it.value, ReplayRecord), now) for it in entries]
        return tuple(sorted(found, key=lambda it: (-it.created_at, it.replay_id)))

    async def cancel(self, run_id: str, replay_id: str) -> FollowedReplay:
        """Cancel a replay, whichever process does it; one that has ended stays as it is.

        Raises:
            UnknownReplay: There is none.
        """
        record = await self._find(run_id, replay_id)
        await self._end(record, status=ReplayStatus.CANCELLED)
        if (task := self._tasks.get(replay_id)) is not None:
            task.cancel()
            await asyncio.wait([task])
        return await self.load(run_id, replay_id)

    async def close(self) -> None:
        """Stop the replays of this process; each says that it was lost."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=10)

    async def _follow_through(
        self, record: ReplayRecord, replay: Callable[[], Coroutine[Any, Any, None]]
    ) -> None:
        """Replay while this process says that it is alive; the first end that is written counts."""
        work = asyncio.create_task(replay(), name=f"work of replay {record.replay_id}")
        try:
            while not work.done():
                await asyncio.wait([work], timeout=self._limits.alive_ms / 3_000)
                if not work.done() and not await self._renew(record):
                    return
            await work
        except asyncio.CancelledError:
            # The process closes, unless the replay was cancelled, which is written already.
            await self._end(record, status=ReplayStatus.FAILED, problem=LOST)
            raise
        finally:
            work.cancel()
            await asyncio.wait([work])

    async def _replay(
        self, record: ReplayRecord, recording: Recording, *, acts_for_user: bool
    ) -> None:
        try:
            result = await self._replays.replay(recording, record.spec, acts_for_user=acts_for_user)
            kept = await self._keep(record.replay_id, recording, result)
        except AwakenError as error:
            problem, code = str(error), error.code
            await self._end(record, status=ReplayStatus.FAILED, problem=problem, code=code)
        except Exception as error:
            logger.exception("Replay '%s' failed.", record.replay_id)
            problem = describe_error(error)
            await self._end(record, status=ReplayStatus.FAILED, problem=problem, code="internal")
        else:
            await self._end(record, status=ReplayStatus.DONE, result=kept)

    async def _keep(self, replay_id: str, recording: Recording, result: ReplayResult) -> str:
        """Keep a result and the replayed run, so that both are deleted with their conversation."""
        diff = await asyncio.to_thread(compare_runs, recording, result.replayed)
        outcome = ReplayOutcome(
            is_same=result.is_same,
            divergences=result.divergences,
            incomplete=result.incomplete,
            ended=result.ended,
            diff=diff,
        )
        kept = _KeptReplay(replay_id=replay_id, outcome=outcome, replayed=result.replayed)
        # The keys of objects keep their order, as in recordings.
        body = msgspec.json.encode(kept)
        run, name = recording.run, hash_object(body)
        source = EvalObjectSource(
            hash=name,
            kind=ObjectKind.RECORDING,
            thread_id=run.thread_id,
            user_id=run.user_id,
            tenant_id=run.tenant_id,
        )
        await self._evals.put_eval_objects({name: body}, [source])
        return name

    async def _find(self, run_id: str, replay_id: str) -> ReplayRecord:
        profile = self._engine.services.profile
        entry = await profile.find_entry(owner_of(run_id), replay_id)
        if entry is None:
            raise UnknownReplay(run_id=run_id, replay_id=replay_id)
        record = msgspec.convert(entry.value, ReplayRecord)
        return _show_lost(record, await self._engine.store.now_ms())

    async def _show(self, record: ReplayRecord) -> FollowedReplay:
        if record.result is None:
            return FollowedReplay(replay=record)
        found = await self._evals.load_eval_objects([record.result])
        if record.result not in found:
            return FollowedReplay(replay=record, missing="its result was deleted")
        kept = msgspec.json.decode(found[record.result], type=_KeptOutcome)
        return FollowedReplay(replay=record, result=kept.outcome)

    async def _renew(self, record: ReplayRecord) -> bool:
        """Say that the replay is alive; False if it has ended meanwhile."""
        try:
            now = await self._engine.store.now_ms()
            until = now + self._limits.alive_ms
            await self._change(
                record, lambda it: msgspec.structs.replace(_check_open(it), alive_until=until), now
            )
        except _Ended:
            return False
        except AwakenError as error:
            logger.warning("Replay '%s' could not say it is alive: %s", record.replay_id, error)
        return True

    async def _end(self, record: ReplayRecord, **fields: Any) -> None:
        """Write how a replay ended, unless an end is written already."""
        now = await self._engine.store.now_ms()
        try:
            await self._change(
                record,
                lambda it: msgspec.structs.replace(_check_open(it), finished_at=now, **fields),
                now,
            )
        except _Ended:
            logger.info("Replay '%s' has ended already.", record.replay_id)

    async def _change(self, record: ReplayRecord, change: Any, now: int) -> None:
        def apply(stored: Any) -> Any:
            held = None if stored is None else msgspec.convert(stored, ReplayRecord)
            return msgspec.to_builtins(change(held))

        profile = self._engine.services.profile
        await profile.change_entry(owner_of(record.run_id), record.replay_id, apply, now=now)

    async def _list(self, record: ReplayRecord, now: int) -> None:
        """List a replay among those that are kept, and remove those that are too old."""
        limits, dropped = self._limits, list[list[Any]]()

        def change(stored: Any) -> Any:
            listed = [*(stored or ()), [now, record.run_id, record.replay_id]]
            fresh = [it for it in listed[-limits.kept :] if it[0] > now - limits.keep_ms]
            dropped[:] = [it for it in listed if it not in fresh]
            return fresh

        profile = self._engine.services.profile
        await profile.change_entry(INDEX, INDEX, change, now=now)
        for _, run_id, replay_id in dropped:
            await self._remove(run_id, replay_id)

    async def _remove(self, run_id: str, replay_id: str) -> None:
        try:
            old = await self._find(run_id, replay_id)
        except UnknownReplay:
            return
        if old.result is not None:
            await self._evals.delete_eval_objects([old.result])
        await self._engine.services.profile.delete_entry(owner_of(run_id), replay_id)


async def list_kept_results(engine: RunEngine) -> list[str]:
    """Return the objects of the results of all replays that are kept."""
    profile = engine.services.profile
    index = await profile.find_entry(INDEX, INDEX)
    found: list[str] = []
    for _, run_id, replay_id in () if index is None else index.value:
        entry = await profile.find_entry(owner_of(run_id), replay_id)
        if entry is not None:
            record = msgspec.convert(entry.value, ReplayRecord)
            found += () if record.result is None else (record.result,)
    return found


def owner_of(run_id: str) -> str:
    """The owner of the profile entries of a run's replays."""
    return f"replays::{run_id}"


def _check_open(record: ReplayRecord | None) -> ReplayRecord:
    if record is None or record.status.is_terminal:
        raise _Ended
    return record


def _show_lost(record: ReplayRecord, now: int) -> ReplayRecord:
    if record.status.is_terminal or record.alive_until > now:
        return record
    return msgspec.structs.replace(record, status=ReplayStatus.FAILED, problem=LOST)
