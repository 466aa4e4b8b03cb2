"""Random commits, purges and readers against a log that is one list per thread."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from stores import STORES, NamedStore, Subject, name_of
from tests.sampling import sampled

from awaken.contracts.errors import CursorExpired, VersionConflict
from awaken.contracts.lifecycle import RunStatus
from awaken.contracts.messages.deltas import TextDelta
from awaken.contracts.runs.records import RunRecord
from awaken.contracts.storage.store import Commit, OutboxEntry

THREADS = ("thread-a", "thread-b")
SIZE_MAX = 4
threads = st.sampled_from(THREADS)


@dataclass
class Log:
    """One thread: every event that was ever logged, and how many are gone."""

    version: int = 0
    open_run: str | None = None
    events: list[tuple[int, str | None, int, str]] = field(default_factory=list)
    purged: int = 0

    def after(self, cursor: int, limit: int) -> list[tuple[int, str | None, int, str]]:
        kept = [entry for entry in self.events[self.purged :] if entry[0] > cursor]
        return kept[:limit]


class EventLogMachine(RuleBasedStateMachine):
    def __init__(self, open_store: Callable[[], Subject]) -> None:
        super().__init__()
        self.subject = open_store()
        self.store, self.do = self.subject.store, self.subject.do
        self.logs = {name: Log() for name in THREADS}
        self.seen = {name: [] for name in THREADS}  # What a reader who follows along has got.
        self.outbox: list[str] = []
        self.count = self.time = 0

    def teardown(self) -> None:
        self.subject.close()

    def fresh(self, kind: str) -> str:
        self.count += 1
        return f"{kind}-{self.count}"

    @rule(
        thread=threads,
        size=st.integers(0, SIZE_MAX),
        later=st.integers(0, 2),
        run=st.sampled_from(("none", "go on", "end")),
        mails=st.integers(0, 2),
        is_late=st.sampled_from((False, False, False, True)),
    )
    def commit(
        self, thread: str, size: int, later: int, run: str, mails: int, is_late: bool
    ) -> None:
        log = self.logs[thread]
        self.time += later
        at = self.time
        name = None if run == "none" else (log.open_run or self.fresh("run"))
        texts = [self.fresh("event") for _ in range(size)]
        entries = [self.fresh("mail") for _ in range(mails)]
        commit = Commit(
            commit_id=self.fresh("commit"),
            thread_id=thread,
            expected_version=log.version + is_late,
            committed_at=at,
            run=None if name is None else self.record(thread, name, run),
            events=tuple(TextDelta(delta=text) for text in texts),
            outbox=tuple(OutboxEntry(entry_id=entry, kind="mail") for entry in entries),
        )
        if is_late:
            with pytest.raises(VersionConflict):
                self.do(self.store.commit(commit))
            return
        receipt = self.do(self.store.commit(commit))
        owner = name or log.open_run
        for text in texts:
            log.events.append((len(log.events) + 1, owner, at, text))
        assert receipt.event_seq == len(log.events)
        assert self.do(self.store.commit(commit)) == receipt
        log.version += 1
        self.outbox += entries
        if name is not None:
            log.open_run = None if run == "end" else name

    def record(self, thread: str, name: str, move: str) -> RunRecord:
        status = RunStatus.DONE if move == "end" else RunStatus.RUNNING
        return RunRecord(run_id=name, thread_id=thread, agent_id="agent", status=status)

    @rule(age=st.integers(-1, 5), limit=st.integers(1, 6))
    def purge(self, age: int, limit: int) -> None:
        """Some go if any may, from the front on, at most so many or one whole commit more."""
        before = self.time - age
        purgeable = {name: self.purgeable(log, before) for name, log in self.logs.items()}
        purgeable_count = sum(purgeable.values())
        removed = self.do(self.store.purge(before, limit)).events
        most = limit - 1 + SIZE_MAX
        assert bool(purgeable_count) <= removed <= min(most, purgeable_count)
        for name, log in self.logs.items():
            kept = self.do(self.store.list_events(name, limit=1))
            first = kept[0].seq if kept else len(log.events) + 1
            gone = first - 1 - log.purged
            assert 0 <= gone <= purgeable[name]
            log.purged += gone
            removed -= gone
        assert removed == 0

    def purgeable(self, log: Log, before: int) -> int:
        count = 0
        for _, owner, at, _ in log.events[log.purged :]:
            if at >= before or (owner is not None and owner == log.open_run):
                break
            count += 1
        return count

    @rule(thread=threads, cursor=st.integers(-2, 60), limit=st.integers(0, 5))
    def read(self, thread: str, cursor: int, limit: int) -> None:
        log = self.logs[thread]
        work = self.store.list_events(thread, after=cursor, limit=limit)
        if 0 < cursor < log.purged:
            with pytest.raises(CursorExpired) as caught:
                self.do(work)
            assert caught.value.purged_seq == log.purged
            return
        assert self.shown(self.do(work)) == log.after(cursor, limit)

    @rule(thread=threads, limit=st.integers(1, 5))
    def follow(self, thread: str, limit: int) -> None:
        """A reader with a cursor gets every event once, or is told that it missed some."""
        log, seen = self.logs[thread], self.seen[thread]
        cursor = seen[-1][0] if seen else log.purged
        if 0 < cursor < log.purged:
            with pytest.raises(CursorExpired):
                self.do(self.store.list_events(thread, after=cursor))
            seen.clear()
            return
        seen += self.shown(self.do(self.store.list_events(thread, after=cursor, limit=limit)))
        assert seen == log.events[seen[0][0] - 1 : seen[-1][0]] if seen else True

    def shown(self, logged: Any) -> list[tuple[int, str | None, int, str]]:
        return [(it.seq, it.run_id, it.created_at, it.event.delta) for it in logged]

    @rule(share=st.integers(0, 3))
    def send_mail(self, share: int) -> None:
        sent = self.outbox[:share]
        self.do(self.store.delete_outbox([*sent, "unknown"]))
        self.outbox = self.outbox[share:]

    @rule(thread=threads, chance=st.integers(0, 5))
    def delete(self, thread: str, chance: int) -> None:
        if chance == 0 and self.logs[thread].version and not self.outbox:
            self.do(self.store.delete_thread(thread))
            self.logs[thread], self.seen[thread] = Log(), []

    @invariant()
    def what_is_left_has_no_gap(self) -> None:
        for name, log in self.logs.items():
            assert self.shown(self.do(self.store.list_events(name))) == log.events[log.purged :]

    @invariant()
    def the_outbox_is_in_order(self) -> None:
        assert [it.entry_id for it in self.do(self.store.list_outbox())] == self.outbox[:100]


@sampled
@pytest.mark.parametrize("named", STORES, ids=name_of)
def test_an_event_log_behaves_like_a_list(named: NamedStore) -> None:
    machine = partial(EventLogMachine, named.open)
    run_state_machine_as_test(machine, settings=named.settings())
