"""What a durable turn writes so that it can be recorded: state changes, times and digests."""

from bench.replay import BYTES_RATIO, measure_growth, strip_commit

from awaken.contracts.events import InferenceComplete
from awaken.contracts.storage.store import Commit


def test_history_writes_hardly_more_bytes() -> None:
    without, full = measure_growth(1, is_full=False), measure_growth(1, is_full=True)
    assert without.bytes > 0
    assert full.bytes <= without.bytes * BYTES_RATIO
    # Wherever in its thread a turn is.
    assert full.longest <= full.bytes * 1.5


def test_what_is_measured_without_history_has_neither_digests_nor_times() -> None:
    event = InferenceComplete(model="m", started_at=5, request_digest="d", attempts=2)
    commit = Commit(
        commit_id="c", thread_id="t", expected_version=0, committed_at=1, events=(event,)
    )
    (stripped,) = strip_commit(commit).events
    assert stripped == InferenceComplete(model="m")
