"""What people do with stored runs: record, replay, fork and compare them."""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import msgspec

from awaken.contracts.errors import InvalidInput, UnknownRun
from awaken.contracts.evals.errors import CannotReplay
from awaken.contracts.evals.recordings import Recording
from awaken.contracts.evals.replays import ReplayMode, ReplayResult, ReplaySpec
from awaken.contracts.evals.worlds import Variant
from awaken.runtime.engine import RunEngine

from .comparing import RunDiff, compare_runs
from .forking import ForkAt, ForkedRunMade, fork_and_start
from .pins import PinnedConfig, SnapshotSource
from .redacting import SECRETS, Recordings, redact_recording
from .replay_jobs import FollowedReplay, ReplayJobs
from .replaying import Replays


class RunReplays:
    """Records, replays, forks and compares the runs of one store."""

    def __init__(
        self,
        engine: RunEngine,
        recordings: Recordings,
        replays: Replays,
        make_jobs: Callable[[], ReplayJobs],
        snapshots: SnapshotSource | None = None,
    ) -> None:
        """`make_jobs` makes what does replays in the background; `snapshots` pins drafts."""
        self._engine = engine
        self._recordings = recordings
        self._replays = replays
        self._make_jobs = make_jobs
        self._snapshots = snapshots

    @cached_property
    def jobs(self) -> ReplayJobs:
        """The replays that this process does in the background.

        Raises:
            EvalsUnavailable: The store has no place for their results.
        """
        return self._make_jobs()

    async def close(self) -> None:
        """Stop the replays in the background."""
        if "jobs" in self.__dict__:
            await self.jobs.close()

    async def record(self, run_id: str, detectors: Sequence[str] = SECRETS) -> Recording:
        """Record a run, redacted by the named detectors; none leaves everything in it.

        Raises:
            UnknownRun: There is no such run.
            CannotRecord: It cannot be recorded.
            InvalidSpec: There is no such detector.
        """
        return await self._recordings.record(run_id, detectors)

    async def verify(self, run: str | Recording) -> ReplayResult:
        """Replay a run with recorded models and tools; every difference is a divergence.

        Raises:
            UnknownRun: There is no such run.
            CannotRecord: It cannot be recorded.
            CannotReplay: It cannot be replayed.
        """
        return await self.replay(run, ReplaySpec(keep_going=True))

    async def what_if(
        self, run: str | Recording, *, from_step: int = 1, **changes: Any
    ) -> ReplayResult:
        """Replay a run with live models, recorded tools, and something changed.

        Args:
            run: The id of a run, or a recording.
            from_step: The first step that is not taken from the recording.
            **changes: Fields of `Variant`: `model_id`, `instructions`, `tool_descriptions`,
                `publication`, `draft_id`, `overrides`, or `changes` with fields of the spec.

        Raises:
            InvalidInput: There is no such change.
            UnknownRun: There is no such run.
            CannotRecord: It cannot be recorded.
            CannotReplay: It cannot be replayed in this way.
        """
        try:
            variant = msgspec.convert({"name": "changed", **changes}, Variant)
        except msgspec.ValidationError as error:
            raise InvalidInput(what="changes", problem=str(error)) from error
        spec = ReplaySpec(
            mode=ReplayMode.WHAT_IF, variant=variant, from_step=from_step, keep_going=True
        )
        return await self.replay(run, spec)

    async def replay(self, run: str | Recording, spec: ReplaySpec, by: str = "") -> ReplayResult:
        """Replay a run or a recording; nothing outside is touched.

        Raises:
            UnknownRun: There is no such run.
            CannotRecord: It cannot be recorded.
            CannotReplay: It cannot be replayed in this way.
            ReplayTimedOut: It takes longer than it may.
        """
        recording = await self._recordings.record(run, ()) if isinstance(run, str) else run
        spec, _ = await self._pin(recording, spec, by)
        return await self._replays.replay(recording, spec)

    async def begin(
        self, run_id: str, spec: ReplaySpec, by: str = "", *, acts_for_user: bool = True
    ) -> FollowedReplay:
        """Begin a replay of a run in the background; see `jobs` for how to follow it.

        A live replay acts for the run's user unless `acts_for_user` is false: then for nobody.

        Raises:
            UnknownRun: There is no such run.
            CannotRecord: It cannot be recorded.
            CannotReplay: It cannot be replayed in this way.
            TooManyReplays: This process does as many as it may.
        """
        self.jobs.check_room()
        recording = await self._recordings.record(run_id, ())
        spec, pinned = await self._pin(recording, spec, by)
        begun = await self.jobs.begin(recording, spec, pinned, by, acts_for_user=acts_for_user)
        return FollowedReplay(replay=begun)

    async def load_replayed(
        self, run_id: str, replay_id: str, detectors: Sequence[str] = SECRETS
    ) -> Recording:
        """Return what the run of a replay did, redacted by the named detectors.

        Raises:
            UnknownReplay: There is no such replay, it is not done, or its recording was deleted.
            InvalidSpec: There is no such detector.
        """
        found = await self.jobs.load_recording(run_id, replay_id)
        return redact_recording(found, detectors) if detectors else found

    async def _pin(
        self, recording: Recording, spec: ReplaySpec, by: str
    ) -> tuple[ReplaySpec, PinnedConfig | None]:
        """Return a spec that names a publication in place of a draft, and that publication."""
        variant, run_id = spec.variant, recording.run.run_id
        if variant is None or (variant.draft_id is None and variant.publication is None):
            return spec, None
        if self._snapshots is None:
            problem = "a draft or a publication needs managed configuration"
            raise CannotReplay(run_id=run_id, problem=problem)
        if variant.draft_id is None:
            assert variant.publication is not None
            return spec, await self._snapshots.pin_publication(variant.publication)
        if variant.publication is not None:
            raise CannotReplay(run_id=run_id, problem="name a draft or a publication, not both")
        pinned = await self._snapshots.pin_draft(variant.draft_id, by)
        named = msgspec.structs.replace(variant, draft_id=None, publication=pinned.publication)
        return msgspec.structs.replace(spec, variant=named), pinned

    async def fork(
        self,
        run_id: str,
        step: int,
        results: int | None = None,
        *,
        allow_effects: bool = False,
    ) -> ForkedRunMade:
        """Go on from a point of a run, for real, on a new thread; effects ask a person first.

        Args:
            run_id: The run; it stays as it is.
            step: The step that the fork does itself, 1-based.
            results: How many results of the step's calls the fork keeps; 0: it has the answer of
                the step and executes its calls. Absent: it asks the model.
            allow_effects: Whether effects happen without asking.

        Raises:
            UnknownRun: There is no such run.
            InvalidInput: The run has no such point.
            CannotReplay: Its log was purged, or it is a workflow's.
            AwakenError: The fork was made, and cannot begin here.
        """
        record = await self._engine.store.load_run(run_id)
        if record is None:
            raise UnknownRun(run_id=run_id)
        at = ForkAt(step=step, results=results)
        return await fork_and_start(self._engine, record, at, allow_effects=allow_effects)

    async def compare(self, first: str | Recording, second: str | Recording) -> RunDiff:
        """Compare two runs: aligned steps, calls, state, ends and figures.

        Raises:
            UnknownRun: One of them does not exist.
            CannotRecord: One of them cannot be recorded.
        """
        one = await self._recordings.record(first, ()) if isinstance(first, str) else first
        two = await self._recordings.record(second, ()) if isinstance(second, str) else second
        return compare_runs(one, two)
