"""What was acknowledged is durable, what was refused is absent, what is unknown is whole or not."""

from collections import defaultdict
from collections.abc import Mapping

from awaken.contracts.storage.dispatch import DispatchStatus, RunDispatch
from awaken.contracts.storage.store import CommitReceipt

from .history import BROKEN, FAILED, OK, UNKNOWN, History, Operation, digest
from .views import Evidence, ThreadView

Views = Mapping[str, ThreadView | None]

ENDS = frozenset(
    [
        "commit",
        "release",
        "requeue",
        "uncharged",
        "give_up",
        "reclaim",
        "interrupt",
        "cancel",
        "delete",
    ]
)
"""What can take a claim away."""


async def durability_problems(evidence: Evidence, history: History, views: Views) -> list[str]:
    """Compare every operation of a history with what the store has."""
    facts = _Facts(evidence, history, views)
    problems = []
    for operation in history.operations:
        found = _answer_problems(operation) + await facts.problems(operation)
        where = f"{operation.asked.op} ({operation.asked.kind}, {operation.outcome}): "
        problems += [where + problem for problem in found]
    return problems + await facts.attempt_problems()


def _answer_problems(operation: Operation) -> list[str]:
    if operation.outcome == BROKEN:
        return [f"the store broke: {operation.told and operation.told.error}"]
    if operation.wish.must_fail and operation.outcome == OK:
        return ["it had to be refused"]
    return []


class _Facts:
    """One comparison."""

    def __init__(self, evidence: Evidence, history: History, views: Views) -> None:
        self._store = evidence.store
        self._history = history
        self._views = views
        self._deleted = {name for it in history.of_kind("delete") for name in it.wish.deleted}
        self._is_purged = any(True for _ in history.of_kind("purge"))
        self._sure = {
            it.wish.commit_id for it in history.of_kind("commit") if it.outcome in (OK, UNKNOWN)
        }
        self._writers = self._writers_of_state()

    async def problems(self, operation: Operation) -> list[str]:
        """What does not fit one operation."""
        if operation.wish.thread_id in self._deleted:
            return self._deletion(operation) if operation.asked.kind == "delete" else []
        problems: list[str] = []
        match operation.asked.kind:
            case "commit":
                problems = await self._commit(operation)
            case "enqueue" | "interrupt" | "revive":
                problems = await self._queued(operation)
            case "decide":
                problems = await self._decided(operation)
            case "claim":
                problems = await self._claim(operation)
            case "release" | "requeue" | "uncharged":
                problems = await self._end(operation)
        return problems

    async def attempt_problems(self) -> list[str]:
        """Every claim that was handed out is counted, before anything was executed."""
        attempts: dict[str, list[int]] = defaultdict(list)
        uncharged = {it.wish.dispatch_id for it in self._history.of_kind("uncharged")}
        for operation in self._history.of_kind("claim"):
            for claimed in operation.told.claimed if operation.told else ():
                attempts[claimed.dispatch_id].append(claimed.attempt)
        problems = []
        for dispatch_id, counts in attempts.items():
            stored = await self._store.find_dispatch(dispatch_id)
            claims = max(len(counts), *counts)
            if stored is None or dispatch_id in uncharged or stored.attempt_count >= claims:
                continue
            problems.append(
                f"dispatch {dispatch_id} was claimed {claims} times, counted {stored.attempt_count}"
            )
        return problems

    async def _commit(self, operation: Operation) -> list[str]:
        wish = operation.wish
        view = self._views[wish.thread_id]
        receipts = () if view is None else view.rows.receipts
        stored = next((it for it in receipts if it.commit_id == wish.commit_id), None)
        if stored is None or view is None:
            return await self._absence(operation, view)
        problems = []
        told = operation.told.receipt if operation.told else None
        if operation.outcome == FAILED and wish.commit_id not in self._sure:
            problems.append("it was refused and is there")
        if operation.outcome == FAILED:
            return problems + self._refused_again(operation)
        if told is not None and told != stored:
            problems.append(f"its receipt was {told}, the store says {stored}")
        if stored.version != wish.expected_version + 1:
            problems.append(f"it expected {wish.expected_version} and made {stored.version}")
        problems += _history_parts(operation, view, stored)
        return problems + await self._other_parts(operation, view)

    async def _absence(self, operation: Operation, view: ThreadView | None) -> list[str]:
        """A commit that is not there left nothing behind."""
        wish, problems = operation.wish, []
        if self._is_purged and wish.thread_id.startswith("old"):
            return []
        if operation.outcome == OK:
            problems.append("it was acknowledged and is lost")
        if operation.outcome == FAILED or view is None:
            return problems
        named = {id_ for id_, _ in wish.messages} & view.message_ids
        problems += [f"it is absent, its message {id_} is not" for id_ in sorted(named)]
        for dispatch_id in wish.queued:
            if await self._store.find_dispatch(dispatch_id) is not None:
                problems.append(f"it is absent, its dispatch {dispatch_id} is not")
        return problems

    async def _other_parts(self, operation: Operation, view: ThreadView) -> list[str]:
        """A commit that is there is there with its run, tickets, state and dispatches."""
        wish, problems, rows = operation.wish, [], view.rows
        if not self._is_purged:
            if wish.run_id and await self._store.load_run(wish.run_id) is None:
                problems.append(f"its run {wish.run_id} is missing")
            for ticket_id in wish.tickets:
                if await self._store.find_ticket(ticket_id) is None:
                    problems.append(f"its ticket {ticket_id} is missing")
        problems += [
            f"its state {key} is {view.state.get(key)}"
            for key, value in wish.state.items()
            if self._writers[wish.thread_id, key] == 1 and view.state.get(key) != value
        ]
        for dispatch_id in wish.queued:
            if await self._store.find_dispatch(dispatch_id) is None:
                problems.append(f"its dispatch {dispatch_id} is missing")
        for dispatch_id in wish.absorbed:
            taken = await self._store.find_dispatch(dispatch_id)
            if taken is not None and taken.status is not DispatchStatus.ACKED:
                problems.append(f"it took in dispatch {dispatch_id}, which is {taken.status}")
        if wish.releases and rows.claim_token == wish.token:
            problems.append(f"it ended the claim {wish.token}, which is still there")
        return problems

    async def _decided(self, operation: Operation) -> list[str]:
        """A ticket has one decision, the acknowledged one; several are taken together."""
        taken, known = [], 0
        for ticket_id, decision_id in operation.wish.decided:
            ticket = await self._store.find_ticket(ticket_id)
            known += ticket is not None
            if ticket is not None and ticket.decision is not None:
                taken.append(ticket.decision.decision_id == decision_id)
        problems = []
        if operation.outcome == OK and (len(taken) < known or not all(taken)):
            problems.append(f"{operation.wish.decided} was acknowledged and is not there")
        if operation.outcome == UNKNOWN and any(taken) and sum(taken) < known:
            problems.append(f"{operation.wish.decided} is there in part")
        for dispatch_id in operation.told.dispatch_ids if operation.told else ():
            if await self._store.find_dispatch(dispatch_id) is None:
                problems.append(f"its dispatch {dispatch_id} is missing")
        return problems

    async def _queued(self, operation: Operation) -> list[str]:
        names = operation.told.dispatch_ids if operation.told else ()
        if operation.asked.kind == "interrupt" and operation.outcome == OK:
            names = operation.wish.queued
        problems = []
        for dispatch_id in names if not self._is_purged else ():
            if await self._store.find_dispatch(dispatch_id) is None:
                problems.append(f"dispatch {dispatch_id} was acknowledged and is lost")
        for dispatch_id in operation.wish.queued if operation.outcome == FAILED else ():
            if await self._store.find_dispatch(dispatch_id) is not None:
                problems.append(f"dispatch {dispatch_id} was refused and is there")
        return problems

    async def _claim(self, operation: Operation) -> list[str]:
        problems = []
        for claimed in operation.told.claimed if operation.told else ():
            stored = await self._store.find_dispatch(claimed.dispatch_id)
            if stored is None:
                if claimed.thread_id not in self._deleted and not self._is_purged:
                    problems.append(f"the claimed dispatch {claimed.dispatch_id} is lost")
                continue
            is_held = stored.claim_token == claimed.token
            if not is_held and not self._may_have_ended(operation, stored):
                problems.append(f"the claim {claimed.token} was acknowledged and is lost")
        return problems

    async def _end(self, operation: Operation) -> list[str]:
        wish = operation.wish
        stored = await self._store.find_dispatch(wish.dispatch_id)
        if operation.outcome == OK and stored is not None and stored.claim_token == wish.token:
            return [f"the claim {wish.token} was given back and is still there"]
        return []

    def _refused_again(self, operation: Operation) -> list[str]:
        """A commit that was applied is applied when it comes again."""
        client, number = operation.place
        return [
            f"it was acknowledged as {it.asked.op} and refused when it came again"
            for it in self._history.of_kind("commit")
            if it.place[0] == client
            and it.place[1] < number
            and it.outcome == OK
            and it.asked.digest == operation.asked.digest
        ]

    def _deletion(self, operation: Operation) -> list[str]:
        gone = operation.wish.deleted
        later = self._history.not_before(operation)
        if operation.outcome != OK or any(it.wish.thread_id in gone for it in later):
            return []
        return [
            f"thread {name} was deleted and is there"
            for name in gone
            if self._views.get(name) is not None
        ]

    def _may_have_ended(self, operation: Operation, stored: RunDispatch) -> bool:
        """Whether anything may have ended a claim: by its client later, by others at any time."""
        return any(
            it.asked.kind in ENDS and it.outcome in (OK, UNKNOWN)
            for it in self._history.not_before(operation)
            if it.asked.kind in ("reclaim", "interrupt")
            or stored.thread_id == it.wish.thread_id
            or stored.dispatch_id == it.wish.dispatch_id
        )

    def _writers_of_state(self) -> dict[tuple[str, str], int]:
        """How many commits wrote a key of a thread; the value of one that wrote alone is known."""
        found: dict[tuple[str, str], set[str]] = defaultdict(set)
        for operation in self._history.of_kind("commit"):
            for key in operation.wish.state:
                found[operation.wish.thread_id, key].add(operation.wish.commit_id)
        return {place: len(ids) for place, ids in found.items()}


def _history_parts(operation: Operation, view: ThreadView, stored: CommitReceipt) -> list[str]:
    """A commit that is there is there with its messages and events, in their places."""
    wish, problems = operation.wish, []
    last = stored.message_count
    messages = view.messages[last - len(wish.messages) : last]
    if tuple((it.message.id, digest(it.message)) for it in messages) != wish.messages:
        problems.append(f"its messages are {[it.message_id for it in messages]}")
    if wish.events and stored.event_seq > view.rows.purged_seq:
        last = stored.event_seq - view.rows.purged_seq
        events = view.events[last - len(wish.events) : last]
        if tuple(digest(it.event) for it in events) != wish.events:
            problems.append(f"its events are {[it.seq for it in events]}")
    return problems
