"""What waits for a commit before readers see it."""

from typing import Any

from awaken.contracts.events import StepEnd
from awaken.runtime.journal.journal import Journal


def test_events_that_wait_for_a_commit_are_not_copied_with_each_other_event() -> None:
    nothing: Any = None
    journal = Journal(
        thread_id="t", writer="w", version=0, event_seq=0,
        store=nothing, clock=nothing, feed=nothing, watchers=nothing,
    )  # fmt: skip
    assert journal.announced == ()
    journal.announce(StepEnd())
    waiting = journal.announced
    for _ in range(3):
        journal.announce(StepEnd(), is_logged=False)
    assert journal.announced is waiting
    assert (len(waiting), len(journal.events)) == (4, 1)
