"""Random suspensions, decisions and deadlines against a model that keeps one dict of tickets."""

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from stores import STORES, NamedStore, Subject, name_of
from tests.sampling import sampled

from awaken.contracts.errors import AlreadyDecided, AwakenError
from awaken.contracts.lifecycle import Cancelled, NaturalEnd, RunStatus, TicketStatus
from awaken.contracts.messages.message import Message, Role, ToolCall
from awaken.contracts.runs.records import RunRecord, Waiting, WaitingReason
from awaken.contracts.storage.dispatch import Claim, Release, RunDispatch
from awaken.contracts.storage.store import Commit
from awaken.contracts.suspension.tickets import SUPERSEDED, Ticket, ToolCallResume
from awaken.testing.store_conformance.writing import read_everything

THREADS = ("thread-a", "thread-b")
OPEN, DECIDED, CLOSED = TicketStatus.OPEN, TicketStatus.DECIDED, TicketStatus.CLOSED
WAITING, RUNNING, DONE = RunStatus.WAITING, RunStatus.RUNNING, RunStatus.DONE
threads = st.sampled_from(THREADS)
numbers = st.integers(0, 50)
change = msgspec.structs.replace


class TicketMachine(RuleBasedStateMachine):
    def __init__(self, open_store: Callable[[], Subject]) -> None:
        super().__init__()
        self.subject = open_store()
        self.store, self.do = self.subject.store, self.subject.do
        self.versions = dict.fromkeys(THREADS, 0)
        self.runs: dict[str, str] = {}
        """The open run of each thread that has one."""
        self.tokens: dict[str, str] = {}
        """The claim on each thread that a process has."""
        self.causes: dict[str, str] = {}
        """Why the run of a thread is to be cancelled."""
        self.tickets: dict[str, Ticket] = {}
        self.count = 0

    def teardown(self) -> None:
        self.subject.close()

    def fresh(self, kind: str) -> str:
        self.count += 1
        return f"{kind}-{self.count}"

    def build(self, thread: str, **parts: Any) -> Commit:
        return Commit(
            commit_id=self.fresh("commit"),
            thread_id=thread,
            expected_version=self.versions[thread],
            committed_at=self.count,
            fencing_token=self.tokens.get(thread),
            **parts,
        )

    def send(self, thread: str, **parts: Any) -> None:
        self.do(self.store.commit(self.build(thread, **parts)))
        self.versions[thread] += 1
        for ticket in parts.get("tickets", ()):
            self.tickets[ticket.ticket_id] = ticket

    def refuse(self, thread: str, **parts: Any) -> None:
        before = self.do(read_everything(self.store))
        with pytest.raises(AwakenError):
            self.do(self.store.commit(self.build(thread, **parts)))
        assert self.do(read_everything(self.store)) == before

    def record(self, thread: str, run: str, status: RunStatus) -> RunRecord:
        waiting = Waiting(reason=WaitingReason.TOOL_PERMISSION) if status is WAITING else None
        return RunRecord(
            run_id=run, thread_id=thread, agent_id="agent", status=status, waiting=waiting
        )

    def live(self, thread: str) -> list[Ticket]:
        """Tickets of the thread's open run that are not closed."""
        run = self.runs.get(thread)
        return [it for it in self.tickets.values() if it.run_id == run and it.status is not CLOSED]

    def pick(self, number: int, *statuses: TicketStatus) -> Ticket | None:
        found = [it for it in self.tickets.values() if it.status in statuses]
        return found[number % len(found)] if found else None

    # --- what a run and its deciders do ---

    @rule(
        thread=threads, calls=st.integers(1, 3), delays=st.lists(st.integers(-50, 300), max_size=3)
    )
    def suspend(self, thread: str, calls: int, delays: list[int]) -> None:
        """A run asks for calls and waits on a ticket for each."""
        if thread in self.runs:
            return
        run = self.fresh("run")
        ids = [self.fresh("call") for _ in range(calls)]
        asks = Message(
            role=Role.ASSISTANT,
            id=self.fresh("message"),
            tool_calls=tuple(ToolCall(id=call_id, name="search") for call_id in ids),
        )
        running = self.record(thread, run, RUNNING)
        self.send(thread, run=running, messages=(asks,))
        self.runs[thread] = run
        self.refuse(thread, run=self.record(thread, run, WAITING))
        now = self.subject.clock.now_ms()
        deadlines = [*(now + delay for delay in delays), None, None, None]
        tickets = tuple(
            Ticket(
                ticket_id=self.fresh("ticket"),
                thread_id=thread,
                run_id=run,
                call_id=call_id,
                tool_name="search",
                expires_at=deadline,
                created_at=self.count % 5,
            )
            for call_id, deadline in zip(ids, deadlines, strict=False)
        )
        self.send(thread, run=self.record(thread, run, WAITING), tickets=tickets)

    @rule(number=numbers)
    def decide(self, number: int) -> None:
        ticket = self.pick(number, OPEN)
        if ticket is not None:
            decision = ToolCallResume(decision_id=self.fresh("decision"))
            self.send(
                ticket.thread_id, tickets=(change(ticket, status=DECIDED, decision=decision),)
            )

    @rule(number=numbers)
    def decide_again(self, number: int) -> None:
        """A decision is taken once: another one is refused, the same one changes nothing."""
        ticket = self.pick(number, DECIDED)
        if ticket is None or ticket not in self.live(ticket.thread_id):
            return
        other = ToolCallResume(decision_id="another")
        self.refuse(ticket.thread_id, tickets=(change(ticket, decision=other),))
        self.refuse(ticket.thread_id, tickets=(change(ticket, status=OPEN, decision=None),))
        instead = change(ticket, status=CLOSED, closed_because=SUPERSEDED)
        self.refuse(ticket.thread_id, tickets=(instead,))
        self.send(ticket.thread_id, tickets=(ticket,))
        self.send(ticket.thread_id, tickets=(change(ticket, status=CLOSED),))
        self.tickets[ticket.ticket_id] = ticket

    @rule(number=numbers, answer=st.sampled_from(("yes", "no")), again=st.booleans())
    def decide_in_the_store(self, number: int, answer: str, again: bool) -> None:
        """From any process, whoever has the thread: each ticket gets one decision, or none."""
        ticket = self.pick(number, OPEN, DECIDED, CLOSED)
        if ticket is None:
            return
        fresh = ToolCallResume(decision_id=self.fresh(answer), result=answer, updated_at=self.count)
        decision = ticket.decision if again and ticket.decision is not None else fresh
        place, given = (ticket.thread_id, ticket.run_id), [(ticket.ticket_id, decision)]
        then = RunDispatch(
            dispatch_id=self.fresh("dispatch"), thread_id=ticket.thread_id, run_id=ticket.run_id
        )
        if ticket.decision is not None and decision is ticket.decision:
            assert self.do(self.store.decide(*place, given, then)) is None
        elif ticket.status is OPEN and ticket.thread_id not in self.causes:
            made = self.do(self.store.decide(*place, given, then))
            assert made.dispatch_id == then.dispatch_id
            self.tickets[ticket.ticket_id] = change(
                ticket, status=DECIDED, decision=decision, updated_at=decision.updated_at
            )
        else:
            before = self.do(read_everything(self.store))
            with pytest.raises(AlreadyDecided):
                self.do(self.store.decide(*place, given, then))
            assert self.do(read_everything(self.store)) == before

    @rule(thread=threads)
    def take(self, thread: str) -> None:
        """A process goes on with the run, and has its thread until its lease runs out."""
        if thread in self.runs and thread not in self.tokens:
            token = self.fresh("token")
            claim = Claim(worker_id="process", lease_ms=100)
            record = self.record(thread, self.runs[thread], RUNNING)
            commit = msgspec.structs.replace(
                self.build(thread, run=record, claim=claim), fencing_token=token
            )
            self.do(self.store.commit(commit))
            self.versions[thread] += 1
            self.tokens[thread] = token

    @rule()
    def take_over(self) -> None:
        """Whoever had a thread is dead; what it was asked for is not forgotten."""
        self.subject.clock.advance(101)
        self.do(self.store.reclaim())
        self.tokens.clear()

    @rule(thread=threads)
    def want_cancel(self, thread: str) -> None:
        cause = self.fresh("cause")
        holder = self.do(self.store.request_cancel(thread, cause, self.runs.get(thread)))
        is_asked = holder is not None
        assert is_asked is (thread in self.tokens)
        if is_asked:
            self.causes.setdefault(thread, cause)

    @rule(number=numbers)
    def ask_again(self, number: int) -> None:
        """The call of a decided ticket gets another one."""
        ticket = self.pick(number, DECIDED)
        if ticket is None or ticket not in self.live(ticket.thread_id):
            return
        fresh = change(ticket, ticket_id=self.fresh("ticket"), status=OPEN, decision=None)
        self.send(ticket.thread_id, tickets=(fresh,))

    @rule(number=numbers, status=st.sampled_from(TicketStatus))
    def touch_a_closed_one(self, number: int, status: TicketStatus) -> None:
        ticket = self.pick(number, CLOSED)
        if ticket is not None and status is not CLOSED:
            decision = ToolCallResume(decision_id="late") if status is DECIDED else None
            self.refuse(
                ticket.thread_id, tickets=(change(ticket, status=status, decision=decision),)
            )

    @rule(number=numbers)
    def steal(self, number: int) -> None:
        """A ticket never moves to another call, run or thread."""
        ticket = self.pick(number, OPEN, DECIDED)
        if ticket is not None:
            other = THREADS[ticket.thread_id == THREADS[0]]
            self.refuse(ticket.thread_id, tickets=(change(ticket, call_id="other"),))
            self.refuse(other, tickets=(ticket,))
            self.refuse(ticket.thread_id, tickets=(ticket, ticket))

    @rule(thread=threads, leaves=st.booleans())
    def end(self, thread: str, leaves: bool) -> None:
        """A run ends with its calls answered and its tickets closed, or not at all."""
        if thread not in self.runs:
            return
        live = self.live(thread)
        done = self.record(thread, self.runs[thread], DONE)
        if thread in self.causes:
            done = change(done, termination=Cancelled(cause=self.causes[thread]))
        calls = dict.fromkeys(ticket.call_id for ticket in live)
        answers = tuple(
            Message(role=Role.TOOL, id=self.fresh("message"), tool_call_id=call) for call in calls
        )
        still_open = [ticket for ticket in live if ticket.status is OPEN]
        if leaves and still_open:
            rest = tuple(change(it, status=CLOSED) for it in still_open[1:])
            self.refuse(thread, run=done, messages=answers, tickets=rest)
            return
        closed = tuple(change(ticket, status=CLOSED) for ticket in still_open)
        parts = {"messages": answers, "tickets": closed}
        release = {"release": Release()} if thread in self.tokens else {}
        if thread in self.causes:
            self.refuse(thread, run=change(done, termination=NaturalEnd()), **parts, **release)
        self.send(thread, run=done, **parts, **release)
        del self.runs[thread]
        self.tokens.pop(thread, None)
        self.causes.pop(thread, None)

    @rule(ms=st.sampled_from((1, 40, 200)))
    def pass_time(self, ms: int) -> None:
        self.subject.clock.advance(ms)

    @rule(thread=threads, chance=st.integers(0, 5))
    def delete(self, thread: str, chance: int) -> None:
        if chance == 0 and self.versions[thread]:
            self.do(self.store.delete_thread(thread))
            self.versions[thread] = 0
            self.runs.pop(thread, None)
            self.tokens.pop(thread, None)
            self.causes.pop(thread, None)
            self.tickets = {name: it for name, it in self.tickets.items() if it.thread_id != thread}

    # --- what must hold after every rule ---

    @invariant()
    def every_ticket_is_found_as_it_is(self) -> None:
        for name, ticket in self.tickets.items():
            assert self.do(self.store.find_ticket(name)) == ticket
        assert self.do(self.store.find_ticket("nobody")) is None

    @invariant()
    def open_tickets_are_listed(self) -> None:
        found = [it for it in self.tickets.values() if it.status is OPEN]
        found.sort(key=lambda it: (it.created_at, it.ticket_id))
        assert list(self.do(self.store.list_tickets())) == found
        for thread in THREADS:
            own = [it for it in found if it.thread_id == thread]
            assert list(self.do(self.store.list_tickets(thread))) == own

    @invariant()
    def deadlines_that_passed_are_listed(self) -> None:
        now = self.subject.clock.now_ms()
        late = [
            (it.expires_at, name)
            for name, it in self.tickets.items()
            if it.status is OPEN and it.expires_at is not None and it.expires_at < now
        ]
        listed = self.do(self.store.list_expired_tickets())
        assert sorted((it.expires_at, it.ticket_id) for it in listed) == sorted(late)
        deadlines = [it.expires_at or 0 for it in listed]
        assert deadlines == sorted(deadlines)

    @invariant()
    def a_wanted_cancel_is_known_until_its_run_has_ended(self) -> None:
        for thread in THREADS:
            seen = self.do(self.store.checkout(thread))
            assert (seen and seen.cancel_cause) == self.causes.get(thread)

    @invariant()
    def a_waiting_run_has_its_tickets(self) -> None:
        for thread in THREADS:
            seen = self.do(self.store.checkout(thread))
            shown = {} if seen is None else {it.ticket_id: it for it in seen.tickets}
            assert shown == {it.ticket_id: it for it in self.live(thread)}


@sampled
@pytest.mark.parametrize("named", STORES, ids=name_of)
def test_tickets_behave_like_their_model(named: NamedStore) -> None:
    machine = partial(TicketMachine, named.open)
    run_state_machine_as_test(machine, settings=named.settings())
