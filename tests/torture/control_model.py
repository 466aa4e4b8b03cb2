"""What clients were told about decisions, cancels, messages and keys, and whether it came true.

The model knows nothing of how a runtime works. It holds the requests that clients made with the
replies they got, and judges the store that is left when nothing is left to do:

* acknowledged: it happened, exactly once;
* refused: it did not happen;
* not answered: it happened once, or not at all.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from awaken.contracts.events import RunFinish
from awaken.contracts.lifecycle import Cancelled, RunStatus, Suspended, TicketStatus
from awaken.contracts.messages.message import Role
from awaken.contracts.storage.store import Store
from awaken.contracts.suspension.tickets import DecisionAction, Ticket

from .checker import thread_problems
from .control_node import OK, REFUSED, Reply, Request
from .history import Effect
from .views import Evidence, ThreadView, view_of

SUCCESSES = ("paid", "heard None")
UNKNOWN_OUTCOME = "may or may not have taken effect"


@dataclass(slots=True)
class Told:
    """One request and the reply to it, if one came."""

    asked: Request
    reply: Reply | None = None

    @property
    def is_acknowledged(self) -> bool:
        """Whether the client may rely on it."""
        return self.reply is not None and self.reply.outcome == OK and self.reply.value is not False

    @property
    def is_refused(self) -> bool:
        """Whether the client may rely on it not having happened."""
        if self.reply is None:
            return False
        return self.reply.outcome == REFUSED or self.reply.value is False


@dataclass(slots=True)
class Record:
    """Everything that clients asked for and were told, by what it was about."""

    requests: list[Told] = field(default_factory=list)
    written: dict[str, str] = field(default_factory=dict)
    """Messages between agents, with the thread that each was written to."""
    accepted: set[str] = field(default_factory=set)
    """Those of them that a tool's result says were accepted."""
    broken: list[tuple[str, str]] = field(default_factory=list)
    """Requests of any kind that broke with an error that has no name."""

    def of_kind(self, kind: str) -> list[Told]:
        """The requests of one kind, in the order they were made."""
        return [it for it in self.requests if it.asked.kind == kind]

    @property
    def counts(self) -> dict[str, int]:
        """How many requests of each kind were answered how."""
        found: Counter[str] = Counter()
        for it in self.requests:
            word = "acknowledged" if it.is_acknowledged else "open"
            found[f"{it.asked.kind}s {'refused' if it.is_refused else word}"] += 1
        return dict(sorted(found.items()))


async def find_problems(evidence: Evidence, record: Record, ledger: Iterable[Effect]) -> list[str]:
    """Judge a store in which nothing is left to do: every thread, and every promise."""
    views = await read_threads(evidence, record)
    problems = []
    for name, view in views.items():
        if view is not None:
            problems += [f"thread {name}: {it}" for it in thread_problems(view)]
            problems += [f"thread {name}: it is still claimed"] * bool(view.rows.claim_token)
    return problems + await find_broken_promises(evidence.store, views, record, ledger)


async def read_threads(evidence: Evidence, record: Record) -> dict[str, ThreadView | None]:
    """Every thread that a client has named."""
    named = [it.asked.thread_id for it in record.of_kind("submit")]
    return {
        name: await view_of(evidence, name)
        for name in dict.fromkeys([*named, *record.written.values()])
    }


async def find_broken_promises(
    store: Store,
    views: Mapping[str, ThreadView | None],
    record: Record,
    ledger: Iterable[Effect],
) -> list[str]:
    """Compare what clients were told with what is there; an empty record proves nothing."""
    if not record.requests:
        return ["nothing was asked for"]
    deleted = {it.asked.thread_id for it in record.of_kind("delete") if not it.is_refused}
    submitted = {it.asked.thread_id for it in record.of_kind("submit") if it.is_acknowledged}
    kept = {name: view for name, view in views.items() if view and name not in deleted}
    problems = [f"thread {name} is lost" for name in submitted - deleted - kept.keys()]
    problems += [f"a {kind} broke: {error[-400:]}" for kind, error in record.broken]
    for name, view in kept.items():
        problems += [f"thread {name}: {it}" for it in _thread_problems(view)]
    problems += _deleted_problems(record, views)
    problems += await _submit_problems(store, record, kept)
    problems += await _cancel_problems(store, record, deleted)
    problems += await _decision_problems(store, record, list(ledger), kept)
    problems += _note_problems(record, kept)
    return problems + _written_problems(record, kept)


def _thread_problems(view: ThreadView) -> list[str]:
    problems = [
        f"dispatch {it.dispatch_id} is still {it.status}"
        for it in view.dispatches
        if not it.status.is_terminal
    ]
    ends = Counter(
        it.run_id
        for it in view.events
        if isinstance(it.event, RunFinish) and not isinstance(it.event.termination, Suspended)
    )
    problems += [f"run {run_id} has {n} terminal events" for run_id, n in ends.items() if n != 1]
    started = {it.run_id for it in view.events}
    problems += [f"run {it} has no terminal event" for it in started - set(ends)]
    said = Counter(it.message.text for it in view.messages if it.message.role is Role.USER)
    return problems + [f"'{text[:60]}' was said {n} times" for text, n in said.items() if n > 1]


def _deleted_problems(record: Record, views: Mapping[str, ThreadView | None]) -> list[str]:
    deletes = [it.asked.thread_id for it in record.of_kind("delete") if it.is_acknowledged]
    return [f"thread {name} was deleted and is there" for name in deletes if views.get(name)]


async def _submit_problems(
    store: Store, record: Record, views: Mapping[str, ThreadView]
) -> list[str]:
    """Check that each submission has one run id under its key, and that its message was said."""
    problems = []
    runs: dict[str, set[str]] = defaultdict(set)
    for told in record.of_kind("submit"):
        if told.is_acknowledged and told.reply is not None:
            runs[told.asked.key].add(told.reply.value)
    problems += [
        f"key {key} was answered with the runs {sorted(named)}"
        for key, named in runs.items()
        if len(named) > 1
    ]
    cancelled = {it.asked.run_id for it in record.of_kind("cancel") if not it.is_refused}
    for told in record.of_kind("submit"):
        view = views.get(told.asked.thread_id)
        if not told.is_acknowledged or told.reply is None or view is None:
            continue
        if not _count_said(view, told.asked.text) and told.reply.value not in cancelled:
            problems.append(f"'{told.asked.text[:60]}' was accepted and is not there")
        run = await store.load_run(told.reply.value)
        if run is not None and run.status is not RunStatus.DONE:
            problems.append(f"run {run.run_id} is still {run.status}")
    return problems


def _count_said(view: ThreadView, text: str) -> int:
    return sum(it.message.text == text for it in view.messages)


async def _cancel_problems(store: Store, record: Record, deleted: set[str]) -> list[str]:
    """An acknowledged cancel ends its run as cancelled; a refused one does not."""
    problems = []
    asked: dict[str, list[Told]] = defaultdict(list)
    for told in record.of_kind("cancel"):
        asked[told.asked.run_id].append(told)
    for run_id, cancels in asked.items():
        run = await store.load_run(run_id)
        if run is None or run.thread_id in deleted:
            # Input that never began has no run; the message is checked with its submission.
            continue
        is_cancelled = isinstance(run.termination, Cancelled)
        if any(it.is_acknowledged for it in cancels) and not is_cancelled:
            problems.append(f"the cancel of run {run_id} was acknowledged; {run.termination}")
        if all(it.is_refused for it in cancels) and is_cancelled:
            problems.append(f"the cancel of run {run_id} was refused; {run.termination}")
    return problems


async def _decision_problems(
    store: Store, record: Record, ledger: list[Effect], views: Mapping[str, ThreadView]
) -> list[str]:
    """One ticket has one decision: the acknowledged one, and the tool did as it says."""
    effects = Counter((it.run_id, it.call_id) for it in ledger if it.at == "start")
    problems = [
        f"{name} of run {run_id} was executed {n} times"
        for (run_id, name), n in effects.items()
        if n > 1
    ]
    asked: dict[str, dict[str, list[Told]]] = defaultdict(lambda: defaultdict(list))
    for told in record.of_kind("decide"):
        asked[told.asked.ticket_id][told.asked.decision_id].append(told)
    cancels = {it.asked.run_id for it in record.of_kind("cancel") if not it.is_refused}
    decided_calls = set()
    for ticket_id, decisions in asked.items():
        ticket = await store.find_ticket(ticket_id)
        if ticket is None or ticket.thread_id not in views:
            problems.append(f"ticket {ticket_id} was decided and is not there")
            continue
        call = (ticket.run_id, f"{ticket.tool_name} {ticket.call_id}")
        decided_calls.add(call)
        result = _find_result(views[ticket.thread_id], ticket.call_id)
        found = _ticket_problems(ticket, decisions)
        found += _effect_problems(decisions, effects[call], result, ticket.run_id in cancels)
        if found:
            run = await store.load_run(ticket.run_id)
            end = None if run is None else run.termination
            problems += [f"ticket {ticket_id} ({ticket.tool_name}): {it}; {end}" for it in found]
    return problems + [
        f"{name} of run {run_id} was executed and never decided"
        for run_id, name in effects.keys() - decided_calls
    ]


def _find_result(view: ThreadView, call_id: str) -> str:
    results = [it.message.text for it in view.messages if it.message.tool_call_id == call_id]
    return results[0] if results else ""


def _ticket_problems(ticket: Ticket, decisions: Mapping[str, list[Told]]) -> list[str]:
    acknowledged = [
        name for name, told in decisions.items() if any(it.is_acknowledged for it in told)
    ]
    refused = [name for name, told in decisions.items() if all(it.is_refused for it in told)]
    if len(acknowledged) > 1:
        return [f"the decisions {acknowledged} were both acknowledged"]
    taken = None if ticket.decision is None else ticket.decision.decision_id
    if ticket.status is TicketStatus.OPEN:
        return ["it is still open"]
    if acknowledged and taken != acknowledged[0]:
        return [f"{acknowledged[0]} was acknowledged, {taken} was taken; {ticket.closed_because}"]
    return [f"{taken} was refused and taken"] if taken in refused else []


def _effect_problems(
    decisions: Mapping[str, list[Told]], executed: int, result: str, is_cancelled: bool
) -> list[str]:
    told = [it for given in decisions.values() for it in given]
    resumes = [it for it in told if it.asked.action == DecisionAction.RESUME]
    may_run = any(not it.is_refused for it in resumes)
    is_declined = any(it.is_acknowledged for it in told if it not in resumes)
    if executed and (is_declined or not may_run):
        return ["it was declined and executed"]
    if not executed and result in SUCCESSES:
        return [f"it was never executed and has the result '{result}'"]
    is_lost = not executed and UNKNOWN_OUTCOME not in result and not is_cancelled
    if any(it.is_acknowledged for it in resumes) and is_lost:
        return [f"it was approved and never executed; its result is '{result}'"]
    return []


def _note_problems(record: Record, views: Mapping[str, ThreadView]) -> list[str]:
    """Steering notes and messages between agents arrive once."""
    problems = []
    for told in record.of_kind("steer"):
        view = views.get(told.asked.thread_id)
        if view is None or not told.is_acknowledged:
            continue
        if (count := _count_said(view, told.asked.text)) != 1:
            problems.append(f"'{told.asked.text}' was accepted and said {count} times")
    return problems


def _written_problems(record: Record, views: Mapping[str, ThreadView]) -> list[str]:
    """A message to another agent arrives at most once; once, when it was accepted."""
    problems = []
    for text, target in record.written.items():
        messages = views[target].messages if target in views else ()
        count = sum(text in it.message.text.split("\n") for it in messages)
        if count > 1 or (text in record.accepted and count == 0):
            word = "accepted" if text in record.accepted else "not answered"
            problems.append(f"'{text}' to {target} was {word} and arrived {count} times")
    return problems
