"""Random deliveries, claims, crashes and interrupts against a model made of plain lists."""

from functools import partial
from typing import Any

import msgspec
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from mailbox_model import (
    ACKED,
    CANCELLED,
    CLAIMED,
    DEAD,
    QUEUED,
    SUPERSEDED,
    Hold,
    Item,
    Line,
    Model,
)
from stores import STORES, NamedStore, Subject, name_of
from tests.sampling import sampled

from awaken.contracts.errors import AwakenError, LeaseLost
from awaken.contracts.lifecycle import Cancelled, RunStatus
from awaken.contracts.runs.records import RunRecord, Waiting, WaitingReason
from awaken.contracts.storage.dispatch import Claim, DispatchStatus, InputMode, Release, RunDispatch
from awaken.contracts.storage.queries import LIMIT_MAX, DispatchQuery
from awaken.contracts.storage.store import CancelWanted, Commit

threads = st.sampled_from(("a", "b", "c"))
numbers = st.integers(0, 200)
modes = st.sampled_from(("queue", "queue", "steer", "resume"))
keys = st.sampled_from((None, None, None, "k", "l"))
delays = st.sampled_from((0, 0, 0, 50, 500))
leases = st.sampled_from((100, 1000))
ends = st.sampled_from((ACKED, DEAD, SUPERSEDED))


class MailboxMachine(RuleBasedStateMachine):
    def __init__(self, open_store: Any) -> None:
        super().__init__()
        self.subject: Subject = open_store()
        self.store, self.do = self.subject.store, self.subject.do
        self.keeper = self.store.lease_keeper()
        self.model = Model(now=self.subject.clock.now_ms())
        self.count = 0

    def teardown(self) -> None:
        self.keeper.close()
        self.subject.close()

    def fresh(self, kind: str) -> str:
        self.count += 1
        return f"{kind}-{self.count}"

    def pick(self, items: list[Any], number: int) -> Any:
        return items[number % len(items)] if items else None

    # --- submissions ---

    @rule(
        thread=threads, mode=modes, key=keys, delay=delays,
        urgency=st.sampled_from((0, 128, 128)), asks=st.sampled_from("xy"), of_open=st.booleans(),
    )  # fmt: skip
    def enqueue(
        self, thread: str, mode: str, key: str | None, delay: int, urgency: int, asks: str,
        of_open: bool,
    ) -> None:  # fmt: skip
        line = self.model.lines.get(thread)
        run = line.open_run if of_open and line and line.open_run else self.fresh("run")
        item = self.item(self.fresh("d"), thread, run, mode, key, asks)
        item.priority, item.due = urgency, self.model.now + delay
        self.submit(item)

    @rule(number=numbers, asks=st.sampled_from("xy"), thread=threads)
    def enqueue_again(self, number: int, asks: str, thread: str) -> None:
        known = self.pick(self.model.items, number)
        if known is not None and not known.name.startswith("recovered"):
            where = known.thread if number % 3 else thread
            self.submit(self.item(known.name, where, known.run, known.mode, known.key, asks))

    def submit(self, item: Item) -> None:
        expected = self.model.same(item.name, item.thread, item.asks, item.key, item.mode)
        if isinstance(expected, str) and expected:
            assert self.refused(self.store.enqueue(self.dispatch(item))) == expected
            return
        stored = self.do(self.store.enqueue(self.dispatch(item)))
        known = expected if isinstance(expected, Item) else self.model.add(item)
        assert stored.dispatch_id == known.name

    def item(self, name: str, thread: str, run: str, mode: str, key: str | None, asks: str) -> Item:
        return Item(
            name=name, thread=thread, run=run, asks=asks, key=key, mode=mode, priority=128,
            arrival=0, created=0, due=self.model.now, epoch=0,
        )  # fmt: skip

    def dispatch(self, item: Item) -> RunDispatch:
        return RunDispatch(
            dispatch_id=item.name,
            thread_id=item.thread,
            run_id=item.run,
            request_hash=item.asks,
            dedupe_key=item.key,
            mode=InputMode(item.mode),
            priority=item.priority,
            available_at=item.due,
        )

    def refused(self, work: Any) -> str:
        try:
            self.do(work)
        except AwakenError as error:
            return type(error).__name__
        raise AssertionError("not refused")

    # --- claims ---

    @rule(limit=st.integers(0, 3), lease=leases)
    def claim(self, limit: int, lease: int) -> None:
        token = self.fresh("t")
        taken = self.do(self.store.claim("worker", token, lease, limit=limit))
        for place in range(limit):
            item = self.model.next_item()
            if item is None:
                assert len(taken) == place
                return
            assert taken[place].dispatch_id == item.name
            self.model.claim(item, taken[place].claim_token or "", lease)
        assert len(taken) == limit

    @rule(number=numbers, lease=leases)
    def claim_one(self, number: int, lease: int) -> None:
        item = self.pick(self.model.items, number)
        if item is None:
            return
        token = self.fresh("t")
        taken = self.do(self.store.claim_dispatch(item.name, "worker", token, lease))
        is_free = item.status == QUEUED and self.model.line(item.thread).hold is None
        if is_free and self.model.is_stale(item):
            self.model.end(item, SUPERSEDED)
            is_free = False
        assert (taken is not None) is is_free
        if is_free:
            self.model.claim(item, token, lease)

    def held(self, number: int) -> Item | None:
        return self.pick([it for it in self.model.items if it.status == CLAIMED], number)

    @rule(number=numbers, status=ends)
    def release(self, number: int, status: str) -> None:
        item = self.held(number)
        if item is not None:
            release = Release(status=DispatchStatus(status))
            self.do(self.store.release(item.name, item.token or "", release))
            self.model.end(item, status)

    @rule(number=numbers, delay=delays, charge=st.integers(0, 1))
    def requeue(self, number: int, delay: int, charge: int) -> None:
        item = self.held(number)
        if item is not None:
            token = item.token or ""
            work = self.store.requeue(item.name, token, delay_ms=delay, is_charged=bool(charge))
            self.do(work)
            self.model.put_back(item, delay, charge)

    @rule(number=numbers)
    def meddle(self, number: int) -> None:
        """Whoever has no claim, or an old one, changes nothing."""
        item = self.pick(self.model.items, number)
        if item is not None:
            assert self.refused(self.store.release(item.name, "nobody")) == "LeaseLost"
            assert self.refused(self.store.requeue(item.name, "nobody")) == "LeaseLost"
            assert self.refused(self.store.give_up_claim(item.thread, "nobody")) == "LeaseLost"

    @rule(number=numbers)
    def cancel(self, number: int) -> None:
        item = self.pick(self.model.items, number)
        if item is not None:
            is_queued = item.status == QUEUED
            assert (self.do(self.store.cancel_dispatch(item.name)) is not None) is is_queued
            if is_queued:
                self.model.end(item, CANCELLED)

    @rule(thread=threads, whom=st.sampled_from(("whatever", "open", "claimed", "another")))
    def request_cancel(self, thread: str, whom: str) -> None:
        line, cause = self.model.lines.get(thread), self.fresh("cause")
        item = line.hold.item if line is not None and line.hold is not None else None
        named = {
            "open": line and line.open_run,
            "claimed": item and item.run,
            "another": "another run",
        }
        run = named.get(whom)
        expected = self.model.want_cancel(thread, cause, run)
        holder = self.do(self.store.request_cancel(thread, cause, run))
        assert (holder is not None) is expected

    @rule(thread=threads, then=st.booleans())
    def interrupt(self, thread: str, then: bool) -> None:
        name, cause = self.fresh("d"), self.fresh("cause")
        item = self.item(name, thread, self.fresh("run"), "interrupt", None, "x") if then else None
        dropped = self.model.interrupt(thread, cause)
        if item is not None:
            self.model.add(item)
        dispatch = None if item is None else self.dispatch(item)
        done = self.do(self.store.interrupt(thread, cause, dispatch))
        line = self.model.line(thread)
        assert [found.dispatch_id for found in done.superseded] == dropped
        assert (done.epoch, done.has_claim) == (line.epoch, line.hold is not None)

    @rule(limit=st.integers(1, 3))
    def reclaim(self, limit: int) -> None:
        told: list[str] = []
        while True:
            back = self.do(self.store.reclaim(limit))
            told += [found.dispatch_id for found in back]
            if len(back) < limit:
                break
        assert told == self.model.reclaim(told)

    @rule(lease=leases)
    def extend(self, lease: int) -> None:
        holds = [(name, it.hold) for name, it in self.model.lines.items() if it.hold is not None]
        news = self.keeper.extend([hold.token for _, hold in holds] + ["nobody"], lease)
        for (thread, hold), told in zip(holds, news, strict=False):
            hold.until = self.model.now + lease
            assert (told.is_held, told.cancel_cause) == (True, self.model.line(thread).cause)
            assert told.has_input is bool(self.model.inputs(thread))
        assert not news[-1].is_held

    @rule(thread=threads)
    def give_up(self, thread: str) -> None:
        line = self.model.lines.get(thread)
        if line is None or line.hold is None:
            return
        hold = line.hold
        left = self.do(self.store.give_up_claim(thread, hold.token))
        if hold.item is not None:
            self.model.put_back(hold.item, 0, 0)
            assert left is not None
        else:
            made = self.model.go_on(thread, attempts=0)
            assert (left and left.dispatch_id) == (made and made.name)

    @rule(ms=st.sampled_from((1, 60, 150, 1100)))
    def pass_time(self, ms: int) -> None:
        self.subject.clock.advance(ms)
        self.model.now += ms

    # --- commits ---

    def commit(self, thread: str, **parts: Any) -> None:
        line = self.model.line(thread)
        self.do(
            self.store.commit(
                Commit(
                    commit_id=self.fresh("commit"),
                    thread_id=thread,
                    expected_version=line.version,
                    committed_at=self.model.now,
                    **parts,
                )
            )
        )
        line.version += 1

    def run_of(self, thread: str, run: str, status: RunStatus) -> RunRecord:
        waits = Waiting(reason=WaitingReason.USER_INPUT) if status is RunStatus.WAITING else None
        line = self.model.line(thread)
        item = line.hold.item if line.hold is not None else None
        begun_by = line.begun_by if line.open_run else item and item.name
        return RunRecord(
            run_id=run,
            thread_id=thread,
            agent_id="a",
            status=status,
            waiting=waits,
            dispatch_id=begun_by,
        )

    @rule(thread=threads, lease=leases)
    def take_thread(self, thread: str, lease: int) -> None:
        """A run begins or goes on in a process of its own."""
        line, token = self.model.line(thread), self.fresh("t")
        parts = {"fencing_token": token, "claim": Claim(worker_id="process", lease_ms=lease)}
        run = line.open_run or self.fresh("run")
        record = self.run_of(thread, run, RunStatus.RUNNING)
        if line.hold is not None:
            with pytest.raises(AwakenError):
                self.commit(thread, run=record, **parts)
            return
        self.commit(thread, run=record, **parts)
        line.hold = Hold(token, self.model.now + lease)
        if line.open_run is None:
            line.begun_by = None
        line.open_run, line.is_waiting = run, False

    @rule(thread=threads, move=st.sampled_from(("go on", "wait", "end")), absorbs=st.booleans())
    def write(self, thread: str, move: str, absorbs: bool) -> None:
        """The holder of a claim starts, goes on with, suspends or ends its run."""
        line = self.model.line(thread)
        if line.hold is None:
            return
        hold, item = line.hold, line.hold.item
        run = line.open_run or (item.run if item is not None else self.fresh("run"))
        status = {"go on": RunStatus.RUNNING, "wait": RunStatus.WAITING, "end": RunStatus.DONE}[
            move
        ]
        if self.do(self.store.load_run(run)) is not None and line.open_run is None:
            return
        inputs = self.model.inputs(thread) if absorbs else []
        record = self.run_of(thread, run, status)
        parts: dict[str, Any] = {
            "fencing_token": hold.token,
            "absorbed": tuple(found.name for found in inputs),
            "release": None if move == "go on" else Release(),
        }
        if move == "end" and line.cause is not None:
            # Somebody was told that it is cancelled.
            with pytest.raises(CancelWanted, match=line.cause):
                self.commit(thread, run=record, **parts)
            record = msgspec.structs.replace(record, termination=Cancelled(cause=line.cause))
        self.commit(thread, run=record, **parts)
        self.written(line, run, move, item)
        for found in inputs:
            found.taken_by = run if run != found.run else None
            self.model.end(found, ACKED)
        if move == "go on":
            return
        if item is not None:
            self.model.end(item, ACKED)
        else:
            line.hold = None
            self.model.leave(thread, hold)

    def written(self, line: Line, run: str, move: str, item: Item | None) -> None:
        """The thread's run after a commit of its holder."""
        if item is not None and line.open_run == run and line.is_waiting and move == "go on":
            item.taken_by = run if run != item.run else None
        if line.open_run is None:
            line.begun_by = item and item.name
        if move == "end":
            line.cause = None
        line.open_run, line.is_waiting = (None if move == "end" else run), move == "wait"

    @rule(thread=threads, mode=modes, key=keys, asks=st.sampled_from("xy"))
    def decide(self, thread: str, mode: str, key: str | None, asks: str) -> None:
        """A commit queues two dispatches, or neither."""
        line = self.model.line(thread)
        first = self.item(self.fresh("d"), thread, self.fresh("run"), mode, key, asks)
        second = self.item(self.fresh("d"), thread, self.fresh("run"), mode, None, asks)
        meets = self.model.same(first.name, thread, asks, key, mode)
        parts = {"fencing_token": line.hold and line.hold.token}
        enqueued = (self.dispatch(second), self.dispatch(first))
        if isinstance(meets, str) and meets:
            with pytest.raises(AwakenError):
                self.commit(thread, enqueued=enqueued, **parts)
            return
        self.commit(thread, enqueued=enqueued, **parts)
        self.model.add(second)
        if not isinstance(meets, Item):
            self.model.add(first)

    @rule(thread=threads, number=numbers)
    def intrude(self, thread: str, number: int) -> None:
        """A commit without the token, or with another, changes nothing."""
        line = self.model.lines.get(thread)
        if line is None:
            return
        item = self.item(self.fresh("d"), thread, self.fresh("run"), "queue", None, "x")
        parts = {"enqueued": (self.dispatch(item),), "release": Release()}
        with pytest.raises(LeaseLost):
            self.commit(thread, fencing_token="nobody", **parts)
        if line.hold is not None:
            with pytest.raises(AwakenError):
                self.commit(thread, **parts)

    @rule(thread=threads, chance=st.integers(0, 3))
    def delete(self, thread: str, chance: int) -> None:
        if thread in self.model.lines and chance == 0:
            if self.do(self.store.load_thread(thread)) is not None:
                self.do(self.store.delete_thread(thread))
            self.model.delete(thread)

    @rule(age=st.sampled_from((0, 100, 1000)))
    def purge(self, age: int) -> None:
        before = self.model.now - age
        assert self.do(self.store.purge(before)).dispatches == self.model.purge(before)

    # --- what must hold after every rule ---

    @invariant()
    def the_store_shows_what_the_model_holds(self) -> None:
        page = self.do(self.store.list_dispatches(DispatchQuery(limit=LIMIT_MAX)))
        shown = [self.shown(found) for found in page.items]
        expected = sorted(self.model.items, key=lambda it: (it.created, it.name))
        assert shown == [it.shown for it in expected]
        queued = [it for it in self.model.items if it.status == QUEUED]
        assert self.do(self.store.count_queued()) == len(queued)

    def shown(self, found: RunDispatch) -> tuple[object, ...]:
        return (
            *(found.dispatch_id, found.thread_id, found.run_id, str(found.mode)),
            *(found.priority, found.dedupe_key, found.created_at, found.available_at),
            *(found.dispatch_epoch, str(found.status), found.attempt_count),
            *(found.claim_token, found.cancel_cause, found.completed_at),
        )

    @invariant()
    def input_that_could_be_taken_in_is_listed(self) -> None:
        for thread in self.model.lines:
            listed = self.do(self.store.list_inputs(thread))
            expected = [it.name for it in self.model.inputs(thread)]
            assert [found.dispatch_id for found in listed] == expected


@sampled
@pytest.mark.parametrize("named", STORES, ids=name_of)
def test_a_mailbox_behaves_like_its_model(named: NamedStore) -> None:
    machine = partial(MailboxMachine, named.open)
    run_state_machine_as_test(machine, settings=named.settings())
