"""What must be true of a runtime's store at each death of a process, and when all is over."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec

from awaken.contracts.events import RunFinish
from awaken.contracts.lifecycle import Cancelled, RunStatus, Suspended, TicketStatus
from awaken.contracts.messages.message import Message, Role
from awaken.contracts.record import Record
from awaken.contracts.runs.records import RunRecord
from awaken.contracts.storage.dispatch import DispatchStatus
from awaken.contracts.storage.queries import RunQuery, ThreadQuery
from awaken.contracts.storage.store import OutboxEntry, ToolRecord, ToolRecordStatus
from awaken.contracts.suspension.tickets import Ticket
from awaken.contracts.tool_results import ToolStatus
from awaken.runtime.tools.recall import OUTCOME_UNKNOWN
from awaken.stores.sqlite.writer import run_without_suspending

from .checker import check_after_quiescence, check_before_recovery
from .client_steps import THREAD
from .history import Effect, History, Ledger
from .runtime_worlds import ACKS, EFFECTS, STORE
from .store_file import StoreFile
from .views import ThreadView, view_of

ONCE, ONCE_RECONCILED = {"send", "wire"}, {"pay", "ask"}
NEVER_JOURNALLED = {"look", "work"}
MAY_COLLIDE = {"add"}
"""Tools that read what they write: one that ran on old state is run again, until it is settled."""
UNKNOWN_MARK = f"[{OUTCOME_UNKNOWN}]"


class Remains(Record, frozen=True, kw_only=True):
    """Everything that a process has left behind."""

    views: dict[str, ThreadView]
    """Every thread."""
    orders: tuple[OutboxEntry, ...]
    """What commits have asked for and nobody has carried out, or everybody has given up."""
    runs: dict[str, RunRecord]
    journal: dict[str, ToolRecord]
    """By the idempotency key of the call."""
    tickets: dict[str, Ticket]
    """Those that clients were told to be decided."""
    open_tickets: frozenset[str]
    """The runs that have an open one."""
    effects: tuple[Effect, ...]
    acks: tuple[str, ...]

    @property
    def view(self) -> ThreadView | None:
        """The thread that clients talk to."""
        return self.views.get(THREAD)

    @property
    def results(self) -> dict[str, str]:
        """The text of each committed result, by the key of its call."""
        return {
            _key(it.message): it.message.text
            for view in self.views.values()
            for it in view.messages
            if it.message.role is Role.TOOL
        }

    @property
    def unknown(self) -> set[str]:
        """Calls whose result says that nobody knows what they did."""
        return {key for key, text in self.results.items() if text.startswith(UNKNOWN_MARK)}

    def acked(self, verb: str) -> list[str]:
        """What clients were told, of one kind."""
        return [ack.removeprefix(f"{verb} ") for ack in self.acks if ack.startswith(f"{verb} ")]


class Witness:
    """Looks at a store after each death, and remembers what must not happen any more."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._over: dict[str, int] = {}
        """Calls that are over, with how often they had been executed by then."""
        self._begun: set[str] = set()
        self._known: set[str] = set()
        """Calls whose result is durable and says what they did."""
        self.deaths = 0
        self.history = History()

    def look(self, history: History) -> list[str]:
        """Check what a process has left behind, before anybody goes on with it."""
        self._took(history)
        self.deaths += 1
        if not (self._folder / STORE).exists():
            return []
        file = StoreFile(self._folder / STORE)
        try:
            if "threads" not in file.tables():
                return []
            remains = run_without_suspending(_remains(file, self._folder))
            problems = (
                run_without_suspending(check_before_recovery(file, self.history))
                if self.history
                else []
            )
        finally:
            file.shut()
        problems += self._effect_problems(remains) + _ack_problems(remains)
        self._remember(remains)
        return problems

    def ended(self, history: History) -> None:
        """Take down what the last process did, which came to its end."""
        self._took(history)

    def last_look(self) -> tuple[Remains, list[str]]:
        """Check what is left when nothing is left to do."""
        file = StoreFile(self._folder / STORE)
        try:
            remains = run_without_suspending(_remains(file, self._folder))
            problems = run_without_suspending(check_after_quiescence(file, self.history))
        finally:
            file.shut()
        problems += self._effect_problems(remains) + _ack_problems(remains)
        problems += [
            f"nobody knows what {key} did, and it had not begun"
            for key in remains.unknown - self._begun
        ]
        problems += [
            f"nobody knows what {key} did, and its result was durable"
            for key in remains.unknown & self._known
        ]
        problems += [
            f"nobody knows what {key} did, and its tool does"
            for key in remains.unknown
            if key in remains.journal and remains.journal[key].tool_name not in ONCE
        ]
        return remains, problems + _end_problems(remains)

    def _took(self, history: History) -> None:
        """From now on an answer that never came does not matter: somebody may have asked again."""
        answered = [it for it in self.history.operations if it.told is not None]
        self.history = History(answered) + history

    def _remember(self, remains: Remains) -> None:
        counts = Counter(map(key_of, remains.effects))
        for key, record in remains.journal.items():
            self._begun.add(key)
            result = record.result
            is_over = record.status is ToolRecordStatus.FINISHED
            if record.tool_name in MAY_COLLIDE:
                continue
            if is_over and result is not None and result.status is not ToolStatus.PENDING:
                self._over.setdefault(key, counts[key])
                if not (result.message or "").startswith(UNKNOWN_MARK):
                    self._known.add(key)
        for key in remains.results:
            self._over.setdefault(key, counts[key])

    def _effect_problems(self, remains: Remains) -> Iterator[str] | list[str]:
        counts = Counter(map(key_of, remains.effects))
        problems = [
            f"call {key} was over after {n} executions and has {counts[key]}"
            for key, n in self._over.items()
            if counts[key] > n
        ]
        for effect in remains.effects:
            tool, key = effect.call_id.split(" ")[0], key_of(effect)
            if tool in ONCE | ONCE_RECONCILED and counts[key] > 1:
                problems.append(f"{tool} {key} was executed {counts[key]} times")
            is_known = key in remains.journal or effect.run_id not in remains.runs
            if tool not in NEVER_JOURNALLED and not is_known:
                problems.append(f"{tool} {key} was executed and no intent is durable")
        return problems


def key_of(effect: Effect) -> str:
    """The idempotency key under which a tool was executed."""
    return effect.call_id.split(" ", 2)[2]


async def _remains(file: StoreFile, folder: Path) -> Remains:
    store = file.store
    runs = (await store.list_runs(RunQuery(limit=200))).items
    acks = (folder / ACKS).read_text("utf-8").split("\n") if (folder / ACKS).exists() else []
    decided = [ack.removeprefix("decided ") for ack in acks if ack.startswith("decided ")]
    found = {id_: await store.find_ticket(id_) for id_ in decided}
    threads = (await store.list_threads(ThreadQuery(limit=200))).items
    found_views = {it.id: await view_of(file, it.id) for it in threads}
    return Remains(
        views={id_: view for id_, view in sorted(found_views.items()) if view is not None},
        orders=(*await store.list_outbox(), *await store.list_dead_outbox()),
        runs={run.run_id: run for run in runs},
        journal={
            f"{run.run_id}:{it.step}:{it.call_id}": it
            for run in runs
            for it in await store.list_tool_records(run.run_id)
        },
        tickets={id_: ticket for id_, ticket in found.items() if ticket is not None},
        open_tickets=frozenset(ticket.run_id for ticket in await store.list_tickets()),
        effects=tuple(Ledger(folder / EFFECTS).read()),
        acks=tuple(acks),
    )


def _key(message: Message) -> str:
    meta = message.metadata
    step = (meta.step_index or 0) + 1 if meta is not None else 0
    return f"{meta.run_id if meta else ''}:{step}:{message.tool_call_id}"


def _ack_problems(remains: Remains) -> list[str]:
    """What a client was told holds from then on, whatever dies."""
    view, problems = remains.view, []
    if remains.acked("deleted"):
        return ["the thread was deleted and is there"] if view is not None else []
    dispatches = [it for found in remains.views.values() for it in found.dispatches]
    sent = {ticket for it in dispatches for ticket, _ in it.request.decisions}
    known = {it.run_id for it in dispatches} | set(remains.runs)
    if not remains.acked("deleting"):
        lost = [it for it in remains.acked("submitted") if it not in known]
        problems += [f"{it} was submitted and is lost" for it in lost]
    for ticket_id in remains.acked("decided"):
        ticket = remains.tickets.get(ticket_id)
        if ticket is None or (ticket.status is TicketStatus.OPEN and ticket_id not in sent):
            problems.append(f"ticket {ticket_id} was decided and is open")
    for ack in remains.acked("taken"):
        ticket_id, decision_id = ack.split(" ")
        ticket = remains.tickets.get(ticket_id)
        given = None if ticket is None else ticket.decision
        if given is None or given.decision_id != decision_id:
            problems.append(f"{decision_id} was taken for ticket {ticket_id}, which has {given}")
    messages = [] if view is None else [it.message.text for it in view.messages]
    queued = [
        message.text
        for it in dispatches
        if it.status in (DispatchStatus.QUEUED, DispatchStatus.CLAIMED)
        for message in it.request.messages
    ]
    for note in remains.acked("steered"):
        if note not in [*messages, *queued]:
            problems.append(f"the message '{note}' was accepted and is lost")
    return problems


def _end_problems(remains: Remains) -> list[str]:
    """In the end every run has ended or waits for somebody, and every message is there once."""
    problems = _answer_problems(remains)
    for run in remains.runs.values():
        is_waiting = run.status is RunStatus.WAITING and run.run_id in remains.open_tickets
        if run.status is not RunStatus.DONE and not is_waiting:
            problems.append(f"run {run.run_id} is {run.status}, and nobody is asked for anything")
    for run_id in remains.acked("cancelled"):
        run = remains.runs.get(run_id)
        if run is not None and not isinstance(run.termination, Cancelled):
            problems.append(f"run {run_id} was cancelled and ended as {run.termination}")
    for view in remains.views.values():
        said = Counter(it.message.text for it in view.messages if it.message.role is Role.USER)
        problems += [f"'{text}' was said {n} times" for text, n in said.items() if n > 1]
    ended = Counter(
        it.run_id
        for view in remains.views.values()
        for it in view.events
        if isinstance(it.event, RunFinish) and not _is_waiting(it.event)
    )
    if THREAD not in remains.views:
        return problems
    problems += [
        f"run {run_id} is {run.status} and finished {ended[run_id]} times"
        for run_id, run in remains.runs.items()
        if ended[run_id] != int(run.status is RunStatus.DONE)
    ]
    return problems


def _is_waiting(event: RunFinish) -> bool:
    """Whether the run only paused: for a decision, or for its tasks."""
    return isinstance(event.termination, Suspended) or event.awaits_tasks


def _answer_problems(remains: Remains) -> list[str]:
    """Each question has its own answer, and what was forbidden was not done."""
    problems = []
    for key, text in remains.results.items():
        call_id = key.rpartition(":")[2]
        if text.startswith(("first: ", "second: ")) and text != f"{call_id}: yes to {call_id}":
            problems.append(f"call {key} was told '{text}'")
    wired = any(it.call_id.startswith("wire ") for it in remains.effects)
    if "forbidden" in remains.acks and wired:
        problems.append("it was forbidden to wire anything, and something was wired")
    return problems


def _kind(event: object) -> str:
    return str(msgspec.to_builtins(event)["event_type"])


def differences(golden: Remains, found: Remains, deaths: int, varies: frozenset[str]) -> list[str]:
    """In what an ending after crashes differs from the one without; unknown outcomes may."""
    unknown = found.unknown
    problems = []
    for name, wanted, got in (
        ("order", _messages(golden, unknown), _messages(found, unknown)),
        ("messages", Counter(_messages(golden, unknown)), Counter(_messages(found, unknown))),
        ("runs", _endings(golden), _endings(found)),
        ("events", _events(golden), _events(found)),
        ("dead letters", _dead(golden), _dead(found)),
        ("state", *(({}, {}) if unknown else (_state(golden), _state(found)))),
    ):
        if wanted != got and name not in varies:
            problems.append(f"{name} differ: {_difference(wanted, got)}")
    if "effects" not in varies:
        strange = set(map(key_of, found.effects)) - set(map(key_of, golden.effects))
        problems += [f"an effect under another key: {key}" for key in strange]
    usual, counts = attempts(golden), attempts(found)
    problems += [
        f"run {run_id} was tried {counts[run_id]} times after {deaths} deaths"
        for run_id in usual
        if counts[run_id] > max(usual[run_id], 1) + deaths
    ]
    return problems


def _messages(remains: Remains, unknown: set[str]) -> list[tuple[object, ...]]:
    return [
        (
            thread_id,
            it.message.role,
            "?"
            if it.message.role is Role.TOOL and _key(it.message) in unknown
            else it.message.text,
            it.message.tool_call_id,
            tuple(call.id for call in it.message.tool_calls or ()),
        )
        for thread_id, view in remains.views.items()
        for it in view.messages
    ]


def _endings(remains: Remains) -> dict[str, tuple[object, ...]]:
    return {
        id_: (run.status, type(run.termination).__name__, run.steps, run.final_output, run.usage)
        for id_, run in remains.runs.items()
    }


def _events(remains: Remains) -> Counter[tuple[str | None, str]]:
    events = (it for view in remains.views.values() for it in view.events)
    return Counter((it.run_id, _kind(it.event)) for it in events)


def _dead(remains: Remains) -> set[str]:
    dispatches = (it for view in remains.views.values() for it in view.dispatches)
    return {it.run_id for it in dispatches if it.status is DispatchStatus.DEAD_LETTER}


def _state(remains: Remains) -> dict[tuple[str, str], str]:
    return {
        (thread_id, key): digest
        for thread_id, view in remains.views.items()
        for key, digest in view.state.items()
    }


def attempts(remains: Remains) -> Counter[str]:
    """How often each run was tried at most under one dispatch."""
    counts: Counter[str] = Counter()
    for it in (it for view in remains.views.values() for it in view.dispatches):
        counts[it.run_id] = max(counts[it.run_id], it.attempt_count)
    return counts


def _difference(wanted: object, got: object) -> str:
    match wanted, got:
        case list(), list():
            missing = [it for it in wanted if it not in got]
            extra = [it for it in got if it not in wanted]
        case Counter(), Counter():
            missing, extra = list((wanted - got).items()), list((got - wanted).items())
        case dict(), dict():
            missing = [it for it in wanted.items() if it not in got.items()]
            extra = [it for it in got.items() if it not in wanted.items()]
        case _:
            missing, extra = [wanted], [got]
    return f"missing {missing}, extra {extra}" if missing or extra else "their order"
