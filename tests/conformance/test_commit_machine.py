"""Random commits, valid and not, against a model that keeps a list and reads all of it every time.

The model judges a commit by trying it: it appends the commit to the thread's list and scans the
whole history for a broken rule. The store never scans, so the two agree only if both are right.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import msgspec
import pytest
from commit_model import OPEN_TICKETS, BrokenRule, History
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from stores import STORES, NamedStore, Subject, name_of
from tests.sampling import sampled

from awaken.contracts.errors import (
    AwakenError,
    IdempotencyConflict,
    LeaseLost,
    ThreadClaimed,
    VersionConflict,
)
from awaken.contracts.lifecycle import (
    RunStatus,
    TicketStatus,
)
from awaken.contracts.messages.deltas import TextDelta
from awaken.contracts.messages.message import Message, Role, ToolCall
from awaken.contracts.runs.records import RunRecord, Waiting, WaitingReason
from awaken.contracts.state.keys import StoredValue
from awaken.contracts.storage.dispatch import Claim, Release
from awaken.contracts.storage.queries import LIMIT_MAX, MessageQuery
from awaken.contracts.storage.store import Commit
from awaken.contracts.suspension.tickets import Ticket, ToolCallResume
from awaken.testing.store_conformance.writing import read_everything

THREADS = ("thread-a", "thread-b")
CALLS = ("c-0", "c-1", "c-2")
FLAWS = (
    *("behind", "ahead"),
    *("repeat", "no id", "orphan", "double", "interrupt"),
    *("end", "wait", "rival"),
)


message_moves = st.lists(
    st.one_of(
        st.sampled_from([("say",), ("repeat",), ("no id",)]),
        st.tuples(st.just("ask"), st.lists(st.sampled_from(CALLS), max_size=3)),
        st.tuples(st.just("answer"), st.sampled_from((*CALLS, "c-9"))),
    ),
    max_size=3,
)
run_moves = st.none() | st.tuples(
    st.integers(0, 2), st.sampled_from(RunStatus), st.booleans() | st.just(value=False)
)
ticket_moves = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from(CALLS), st.sampled_from(TicketStatus)), max_size=2
)


class CommitMachine(RuleBasedStateMachine):
    def __init__(self, open_store: Callable[[], Subject]) -> None:
        super().__init__()
        self.subject = open_store()
        self.store, self.now = self.subject.store, self.subject.do
        self.claims: dict[str, str] = {}
        self.histories: dict[str, History] = {}
        self.count = 0

    def teardown(self) -> None:
        self.subject.close()

    def fresh(self, kind: str) -> str:
        self.count += 1
        return f"{kind}-{self.count}"

    def history(self, thread_id: str) -> History:
        return self.histories.get(thread_id, History([]))

    def build(self, thread_id: str, **parts: Any) -> Commit:
        known = {
            "commit_id": self.fresh("commit"),
            "thread_id": thread_id,
            "expected_version": len(self.history(thread_id).commits),
            "committed_at": self.count,
            "fencing_token": self.claims.get(thread_id),
        }
        return Commit(**(known | parts))

    def send(self, commit: Commit) -> bool:
        """Commit, and compare the outcome with the model's; true when it was applied."""
        history = self.history(commit.thread_id)
        trial = History([*history.commits, commit])
        is_valid = commit.expected_version == len(history.commits)
        try:
            trial.check()
        except BrokenRule:
            is_valid = False
        if not is_valid:
            self.expect_refusal(commit)
            return False
        receipt = self.now(self.store.commit(commit))
        assert receipt.version == len(trial.commits) == commit.expected_version + 1
        assert receipt.message_count == len(trial.messages)
        assert receipt.event_seq == len(trial.events)
        self.histories[commit.thread_id] = trial
        return True

    def expect_refusal(self, commit: Commit) -> AwakenError:
        before = self.now(read_everything(self.store))
        refused: AwakenError | None = None
        try:
            self.now(self.store.commit(commit))
        except AwakenError as error:
            refused = error
        assert refused is not None, f"accepted: {commit!r}"
        assert self.now(read_everything(self.store)) == before
        return refused

    # --- commits ---

    @rule(
        thread_id=st.sampled_from(THREADS),
        messages=message_moves,
        run=run_moves,
        tickets=ticket_moves,
        events=st.integers(0, 3),
        late=st.sampled_from((0, 0, 0, 0, 0, -1, 1)),
    )
    def commit_anything(
        self, thread_id: str, messages: Any, run: Any, tickets: Any, events: int, late: int
    ) -> None:
        history = self.history(thread_id)
        commit = self.build(
            thread_id,
            messages=tuple(self.message(history, *move) for move in messages),
            run=None if run is None else self.run_record(thread_id, *run),
            tickets=tuple(self.ticket(thread_id, *move) for move in tickets),
            events=tuple(TextDelta(delta=self.fresh("event")) for _ in range(events)),
        )
        expected = max(commit.expected_version + late, 0)
        self.send(msgspec.structs.replace(commit, expected_version=expected))

    def message(self, history: History, move: str, detail: Any = None) -> Message:
        message_id: str | None = self.fresh("message")
        if move == "repeat" and history.messages:
            message_id = history.messages[-1].id
        if move == "no id":
            message_id = None
        if move == "ask":
            calls = tuple(ToolCall(id=call_id, name="search") for call_id in detail)
            return Message(role=Role.ASSISTANT, id=message_id, tool_calls=calls)
        if move == "answer":
            return Message(role=Role.TOOL, id=message_id, tool_call_id=detail)
        return Message(role=Role.USER, id=message_id)

    def run_record(
        self, thread_id: str, number: int, status: RunStatus, is_odd: bool = False
    ) -> RunRecord:
        waits = (status is RunStatus.WAITING) is not is_odd
        return RunRecord(
            run_id=f"{thread_id}-run-{number}",
            thread_id=thread_id,
            agent_id="agent",
            status=status,
            waiting=Waiting(reason=WaitingReason.USER_INPUT) if waits else None,
            steps=self.count,
        )

    def ticket(self, thread_id: str, number: int, call_id: str, status: TicketStatus) -> Ticket:
        open_runs = self.history(thread_id).open_runs
        is_decided = status is TicketStatus.DECIDED
        return Ticket(
            ticket_id=f"{thread_id}-ticket-{number}",
            thread_id=thread_id,
            run_id=open_runs[0].run_id if open_runs else f"{thread_id}-run-0",
            call_id=call_id,
            tool_name="search",
            status=status,
            decision=ToolCallResume(decision_id=f"{self.count % 2}") if is_decided else None,
        )

    @rule(thread_id=st.sampled_from(THREADS), share=st.integers(0, 3), events=st.integers(0, 2))
    def go_on(self, thread_id: str, share: int, events: int) -> None:
        """Do what a run would do next; the store must accept it."""
        history = self.history(thread_id)
        logged = tuple(TextDelta(delta=self.fresh("event")) for _ in range(events))
        parts = self.next_parts(thread_id, history, share)
        assert self.send(self.build(thread_id, events=logged, **parts)), "a valid commit"

    def next_parts(self, thread_id: str, history: History, share: int) -> dict[str, Any]:
        running = self.current_run(thread_id, history, RunStatus.RUNNING)
        if running is None:
            return {}
        calls = list(history.open_calls())
        if calls and share == 0:
            return self.suspension(thread_id, history, calls)
        if calls:
            answers = [self.message(history, "answer", call_id) for call_id in calls[:share]]
            return {"messages": tuple(answers), "run": running}
        asks = self.message(history, "ask", CALLS[:share])
        return {"messages": (asks,), "run": running, "state": {f"key-{share}": self.value()}}

    @rule(thread_id=st.sampled_from(THREADS))
    def end(self, thread_id: str) -> None:
        """End the run with everything settled; the store must accept it."""
        history = self.history(thread_id)
        if not history.open_runs:
            return
        answers = [self.message(history, "answer", call_id) for call_id in history.open_calls()]
        closed = [
            msgspec.structs.replace(ticket, status=TicketStatus.CLOSED)
            for ticket in history.tickets.values()
            if ticket.status is TicketStatus.OPEN
        ]
        done = self.current_run(thread_id, history, RunStatus.DONE)
        parts = {"messages": tuple(answers), "tickets": tuple(closed), "run": done}
        assert self.send(self.build(thread_id, **parts)), "a valid end"

    def suspension(self, thread_id: str, history: History, calls: list[str]) -> dict[str, Any]:
        first = 10 * self.count
        tickets = tuple(
            self.ticket(thread_id, first + at, call_id, TicketStatus.OPEN)
            for at, call_id in enumerate(calls)
        )
        if history.open_runs[0].status is RunStatus.WAITING:
            return {"tickets": tickets}
        waiting = self.current_run(thread_id, history, RunStatus.WAITING)
        return {"run": waiting, "tickets": tickets}

    def current_run(self, thread_id: str, history: History, status: RunStatus) -> RunRecord | None:
        known = [*history.open_runs, None][0]
        if known is not None:
            return msgspec.structs.replace(
                self.run_record(thread_id, 0, status), run_id=known.run_id
            )
        unused = (n for n in range(30) if f"{thread_id}-run-{n}" not in history.runs)
        number = next(unused, None)
        return None if number is None else self.run_record(thread_id, number, status)

    def value(self) -> StoredValue | None:
        data = msgspec.Raw(str(self.count).encode())
        return StoredValue(version=1, data=data) if self.count % 3 else None

    @rule(
        thread_id=st.sampled_from(THREADS),
        share=st.integers(0, 3),
        flaw=st.sampled_from(FLAWS),
    )
    def go_wrong(self, thread_id: str, share: int, flaw: str) -> None:
        """Spoil what a run would do next in one way; the store must refuse it."""
        history = self.history(thread_id)
        commit = self.build(thread_id, **self.next_parts(thread_id, history, share))
        spoilt = self.spoilt(commit, history, flaw)
        if spoilt is not None:
            assert not self.send(spoilt), flaw

    def spoilt(self, commit: Commit, history: History, flaw: str) -> Commit | None:
        change = msgspec.structs.replace
        after = History([*history.commits, commit])
        if flaw in ("behind", "ahead"):
            step = -1 if flaw == "behind" else 1
            return change(commit, expected_version=commit.expected_version + step)
        if flaw in ("end", "wait", "rival"):
            return self.with_spoilt_run(commit, after, flaw)
        extra = self.extra_message(after, flaw)
        return extra and change(commit, messages=(*commit.messages, extra))

    def with_spoilt_run(self, commit: Commit, after: History, flaw: str) -> Commit | None:
        """End or wait with a call open and no ticket, or begin a run beside the open one."""
        change = msgspec.structs.replace
        if flaw == "rival":
            rival = self.run_record(commit.thread_id, 99, RunStatus.RUNNING)
            is_busy = History(after.commits[:-1]).open_runs
            return change(commit, run=rival, tickets=()) if is_busy else None
        if not after.open_calls() or after.tickets:
            return None
        status = RunStatus.DONE if flaw == "end" else RunStatus.WAITING
        record = self.current_run(commit.thread_id, after, status)
        return change(commit, run=record, tickets=())

    def extra_message(self, after: History, flaw: str) -> Message | None:
        answered = [m.tool_call_id for m in after.messages[-1:] if m.role is Role.TOOL]
        match flaw:
            case "orphan":
                return self.message(after, "answer", "c-9")
            case "double":
                return self.message(after, "answer", answered[0]) if answered else None
            case "interrupt":
                return self.message(after, "say") if after.open_calls() else None
            case "repeat" if not after.messages:
                return None
        return self.message(after, flaw)

    # --- claims ---

    @rule(thread_id=st.sampled_from(THREADS), events=st.integers(0, 2))
    def take(self, thread_id: str, events: int) -> None:
        """Take the thread with a commit; somebody else who tries is refused."""
        token = self.fresh("token")
        logged = tuple(TextDelta(delta=self.fresh("event")) for _ in range(events))
        mine = Claim(worker_id="worker", lease_ms=1000)
        commit = self.build(thread_id, claim=mine, events=logged)
        commit = msgspec.structs.replace(commit, fencing_token=token)
        if thread_id in self.claims:
            assert isinstance(self.expect_refusal(commit), ThreadClaimed)
            return
        assert self.send(commit), "a valid claim"
        self.claims[thread_id] = token

    @precondition(lambda self: self.claims)
    @rule(data=st.data())
    def let_go(self, data: st.DataObject) -> None:
        thread_id = data.draw(st.sampled_from(sorted(self.claims)))
        assert self.send(self.build(thread_id, release=Release())), "a valid release"
        del self.claims[thread_id]

    @rule(thread_id=st.sampled_from(THREADS), share=st.integers(0, 3), has_token=st.booleans())
    def intrude(self, thread_id: str, share: int, has_token: bool) -> None:
        """Write without the token, or with another one; the store must refuse it."""
        commit = self.build(thread_id, **self.next_parts(thread_id, self.history(thread_id), share))
        token = self.fresh("token") if has_token else None
        commit = msgspec.structs.replace(commit, fencing_token=token)
        if has_token:
            assert isinstance(self.expect_refusal(commit), LeaseLost)
        elif thread_id in self.claims:
            assert isinstance(self.expect_refusal(commit), ThreadClaimed)

    # --- retries and deletion ---

    @precondition(lambda self: self.histories)
    @rule(data=st.data(), changes=st.booleans())
    def send_again(self, data: st.DataObject, changes: bool) -> None:
        thread_id = data.draw(st.sampled_from(sorted(self.histories)))
        commits = self.histories[thread_id].commits
        old = data.draw(st.sampled_from(commits))
        if changes:
            other = msgspec.structs.replace(old, expected_version=old.expected_version + 1)
            assert isinstance(self.expect_refusal(other), IdempotencyConflict)
            return
        before = self.now(read_everything(self.store))
        receipt = self.now(self.store.commit(old))
        assert receipt == self.now(self.store.find_commit(old.commit_id, thread_id))
        assert receipt.version == old.expected_version + 1
        assert self.now(read_everything(self.store)) == before

    @precondition(lambda self: self.histories)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        thread_id = data.draw(st.sampled_from(sorted(self.histories)))
        commits = self.histories.pop(thread_id).commits
        self.claims.pop(thread_id, None)
        self.now(self.store.delete_thread(thread_id))
        late = msgspec.structs.replace(commits[-1], expected_version=len(commits))
        has_token = late.fencing_token is not None and late.claim is None
        expected = LeaseLost if has_token else VersionConflict
        assert isinstance(self.expect_refusal(late), expected)

    # --- what must hold after every rule ---

    @invariant()
    def the_store_shows_what_the_model_holds(self) -> None:
        for thread_id in THREADS:
            self.compare(thread_id, self.history(thread_id))

    def compare(self, thread_id: str, history: History) -> None:
        checkout = self.now(self.store.checkout(thread_id))
        if not history.commits:
            assert checkout is None
            return
        assert checkout is not None
        history.check()
        assert list(checkout.messages) == history.messages
        assert checkout.thread.version == len(history.commits)
        assert checkout.state == history.state
        assert [checkout.open_run] == (history.open_runs or [None])
        assert {ticket.ticket_id: ticket for ticket in checkout.tickets} == {
            ticket_id: ticket
            for ticket_id, ticket in history.tickets.items()
            if ticket.status in OPEN_TICKETS
            and ticket.run_id in [run.run_id for run in history.open_runs]
        }
        for run_id, run in history.runs.items():
            assert self.now(self.store.load_run(run_id)) == run
        self.compare_sequences(thread_id, history)

    def compare_sequences(self, thread_id: str, history: History) -> None:
        logged = self.now(self.store.list_events(thread_id))
        assert [entry.event for entry in logged] == history.events
        assert [entry.seq for entry in logged] == list(range(1, len(logged) + 1))
        page = self.now(self.store.list_messages(thread_id, MessageQuery(limit=LIMIT_MAX)))
        assert [record.seq for record in page.items] == list(range(1, page.total + 1))
        times = [commit.committed_at for commit in history.commits for _ in commit.messages]
        assert [record.created_at for record in page.items] == times

    @invariant()
    def open_tickets_are_those_of_the_model(self) -> None:
        listed = {ticket.ticket_id for ticket in self.now(self.store.list_tickets())}
        assert listed == set(self.open_ticket_ids())

    def open_ticket_ids(self) -> Iterator[str]:
        for history in self.histories.values():
            for ticket_id, ticket in history.tickets.items():
                if ticket.status is TicketStatus.OPEN:
                    yield ticket_id


@sampled
@pytest.mark.parametrize("named", STORES, ids=name_of)
def test_a_commit_store_behaves_like_its_model(named: NamedStore) -> None:
    machine = partial(CommitMachine, named.open)
    run_state_machine_as_test(machine, settings=named.settings())
