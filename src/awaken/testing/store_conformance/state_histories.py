"""State over time: what commits changed, and the values after each of them."""

from typing import Any

from awaken.contracts.messages.deltas import TextDelta
from awaken.contracts.state.keys import StoredValue
from awaken.contracts.storage.state_history import (
    FoldedState,
    MissingHistory,
    StateChange,
    StateChanges,
)
from awaken.contracts.storage.store import Store

from .writing import DONE, RUN, RUNNING, THREAD, Writer, run, value

Values = dict[str, StoredValue]


class _Story:
    """Writes runs that change state, and remembers the values after each commit."""

    def __init__(self, store: Store, size: int = 1) -> None:
        self.store = store
        self.writer = Writer(store)
        self.size = size
        self.seq = 0
        self.thread: Values = {}
        self.run: Values = {}
        self.seen: list[tuple[str, int, Values, Values]] = []

    async def play(self, run_id: str, commits: int) -> None:
        """Write a run of so many commits; some change state of the thread, of the run, or none."""
        record, self.run = run(run_id, RUNNING, log_start=self.seq), {}
        for n in range(commits):
            place = self.writer.version
            parts: dict[str, Any] = {"events": (TextDelta(delta=f"{place}"),), "run": record}
            if n % 3 == 1:
                parts["state"] = {
                    f"t-{place % 5}": self.value(place),
                    f"t-{place % 7}": None,
                }
            if n % 4 == 2:
                parts["run_state"] = {f"r-{place % 3}": self.value(place), "r-none": None}
            if n == commits - 1:
                parts["run"] = run(run_id, DONE, log_start=record.log_start)
            self.seq = (await self.writer.commit(**parts)).event_seq
            self.thread = _apply(self.thread, parts.get("state", {}))
            self.run = _apply(self.run, parts.get("run_state", {}))
            self.seen.append((run_id, self.seq, self.thread, self.run))

    def value(self, place: int) -> StoredValue:
        """Return a value of this commit."""
        return value(f'"{place}{"x" * self.size}"')


def _apply(values: Values, changes: dict[str, StoredValue | None]) -> Values:
    after = values | changes
    return {name: it for name, it in after.items() if it is not None}


async def state_is_known_after_every_commit(store: Store) -> None:
    """Of the thread and of the run, for short and for long runs, and when a run began."""
    store.keeps_state_history = True
    story = _Story(store)
    for run_id, commits in (("run-1", 3), ("run-2", 150), ("run-3", 1), ("run-4", 90)):
        before = (story.seq, story.thread)
        await story.play(run_id, commits)
        found = await store.fold_state(run_id, before[0])
        assert found == FoldedState(thread=before[1]), run_id
    for run_id, seq, thread, own in story.seen:
        assert await store.fold_state(run_id, seq) == FoldedState(thread=thread, run=own), seq


async def large_state_is_known_after_every_commit(store: Store) -> None:
    """Also if all values together are too large to be kept a second time."""
    store.keeps_state_history = True
    story = _Story(store, size=3000)
    await story.play("run-1", 80)
    for run_id, seq, thread, own in story.seen:
        assert await store.fold_state(run_id, seq) == FoldedState(thread=thread, run=own), seq


async def changes_of_state_are_listed_by_run(store: Store) -> None:
    """The names of changed keys, of this run only; a commit without changes is not listed."""
    store.keeps_state_history = True
    writer = Writer(store)
    said = (TextDelta(delta="x"),)
    await writer.commit(run=run(), events=said, state={"a": value("1")})
    await writer.commit(run=run(), events=said)
    await writer.commit(run=run(), events=said, state={"a": None}, run_state={"b": value("2")})
    await writer.commit(run=run(status=DONE), events=said, run_state={"b": value("3")})
    await writer.commit(run=run("run-2", log_start=4), events=said, state={"c": value("4")})
    assert await store.list_state_changes(RUN) == StateChanges(
        changes=(
            StateChange(event_seq=1, thread=("a",)),
            StateChange(event_seq=3, thread=("a",), run=("b",)),
            StateChange(event_seq=4, run=("b",)),
        )
    )
    second = StateChange(event_seq=5, thread=("c",))
    assert await store.list_state_changes("run-2") == StateChanges(changes=(second,))
    assert await store.list_state_changes("other") == StateChanges()
    assert await store.fold_state("other", 1) == FoldedState()


async def a_lean_history_says_what_it_does_not_know(store: Store) -> None:
    """What was not kept is missing, and nothing is missing after the next change that is kept."""
    store.keeps_state_history = True
    writer, said = Writer(store), (TextDelta(delta="x"),)
    await writer.commit(run=run(), events=said, state={"a": value("1")})
    store.keeps_state_history = False
    await writer.commit(run=run(), events=said)
    await writer.commit(run=run(), events=said, state={"a": value("2"), "b": value("3")})
    store.keeps_state_history = True
    await writer.commit(run=run(status=DONE), events=said)
    known = FoldedState(thread={"a": value("1")})
    assert [await store.fold_state(RUN, seq) for seq in (1, 2)] == [known, known]
    for seq in (3, 4):
        assert (await store.fold_state(RUN, seq)).missing is MissingHistory.NOT_KEPT
    assert (await store.list_state_changes(RUN)).missing is MissingHistory.NOT_KEPT
    await writer.commit(run=run("run-2", log_start=4), events=said, state={"c": value("4")})
    found = await store.fold_state("run-2", 5)
    assert found == FoldedState(thread={"a": value("2"), "b": value("3"), "c": value("4")})
    assert (await store.list_state_changes("run-2")).missing is None


async def a_purge_removes_the_history_of_state(store: Store) -> None:
    """With the log of that time, and with the thread; later state stays known or says so."""
    store.keeps_state_history = True
    writer, said = Writer(store), (TextDelta(delta="x"),)
    await writer.commit(run=run(), events=said, state={"a": value("1")}, committed_at=10)
    await writer.commit(
        run=run(status=DONE, created_at=1, finished_at=2), events=said, committed_at=20
    )
    assert (await store.fold_state(RUN, 1)).thread == {"a": value("1")}
    assert (await store.purge(25)).events == 2
    assert await store.fold_state(RUN, 1) == FoldedState(missing=MissingHistory.PURGED)
    gone = StateChanges(missing=MissingHistory.PURGED)
    assert await store.list_state_changes(RUN) == gone
    await store.delete_thread(THREAD)
    assert await store.fold_state(RUN, 2) == FoldedState()
    # Nothing of the deleted thread is found by another one of its name.
    again = Writer(store)
    await again.commit(run=run("run-2"), events=said, state={"z": value("9")})
    assert await store.fold_state("run-2", 1) == FoldedState(thread={"z": value("9")})
    assert (await store.list_state_changes("run-2")).missing is None


CHECKS = (
    state_is_known_after_every_commit,
    large_state_is_known_after_every_commit,
    changes_of_state_are_listed_by_run,
    a_lean_history_says_what_it_does_not_know,
    a_purge_removes_the_history_of_state,
)
