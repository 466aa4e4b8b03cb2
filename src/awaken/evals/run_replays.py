"""What operators do with stored runs: record, replay and compare them."""

from collections.abc import Sequence

from awaken.contracts.evals.errors import CannotReplay
from awaken.contracts.evals.recordings import Recording
from awaken.contracts.evals.replays import ReplayResult, ReplaySpec

from .comparing import RunDiff, compare_runs
from .redacting import SECRETS, Recordings
from .replaying import Replays


class RunReplays:
    """Records, replays and compares the runs of one process's store."""

    def __init__(self, recordings: Recordings, replays: Replays) -> None:
        self._recordings = recordings
        self._replays = replays

    async def record(self, run_id: str, detectors: Sequence[str] = SECRETS) -> Recording:
        """Record a run, redacted by the named detectors.

        Raises:
            UnknownRun: There is no such run.
            CannotRecord: It cannot be recorded.
            InvalidSpec: There is no such detector.
        """
        return await self._recordings.record(run_id, detectors)

    async def replay(self, run_id: str, spec: ReplaySpec) -> ReplayResult:
        """Replay a run as it is stored; nothing outside is touched.

        Raises:
            UnknownRun: There is no such run.
            CannotRecord: It cannot be recorded.
            CannotReplay: It cannot be replayed in this way.
        """
        recording = await self._recordings.record(run_id, ())
        return await self.replay_recording(recording, spec)

    async def replay_recording(self, recording: Recording, spec: ReplaySpec) -> ReplayResult:
        """Replay a recording; nothing outside is touched.

        Raises:
            CannotReplay: It cannot be replayed in this way.
        """
        if spec.variant is not None and spec.variant.draft_id is not None:
            problem = "a draft has no agents to run; preview it, and name its publication"
            raise CannotReplay(run_id=recording.run.run_id, problem=problem)
        return await self._replays.replay(recording, spec)

    async def compare(self, first: str, second: str) -> RunDiff:
        """Compare two runs.

        Raises:
            UnknownRun: One of them does not exist.
            CannotRecord: One of them cannot be recorded.
        """
        one = await self._recordings.record(first, ())
        return compare_runs(one, await self._recordings.record(second, ()))
