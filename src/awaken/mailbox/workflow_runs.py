"""What an operator and the outside send to a run of a workflow: events, and resets.

No code of a workflow runs here, so any process with the store can do it.
"""

import asyncio
from itertools import islice
from typing import Any

import msgspec

from awaken.authoring.json_schemas import JsonSchema
from awaken.contracts.errors import (
    DemoRecord,
    InvalidInput,
    LimitExceeded,
    ThreadClaimed,
    VersionConflict,
)
from awaken.contracts.identity import derive_id
from awaken.contracts.lifecycle import RunStatus, TicketStatus
from awaken.contracts.messages.message import Transcript
from awaken.contracts.runs.records import RunKind, RunRecord, RunRequest, Waiting, WaitingReason
from awaken.contracts.storage.dispatch import InputMode, RunDispatch
from awaken.contracts.storage.queries import DispatchQuery
from awaken.contracts.storage.store import Commit, ToolRecord, ToolRecordStatus
from awaken.contracts.suspension.tickets import Ticket
from awaken.contracts.tenancy import namespace_in
from awaken.contracts.tool_results import ToolResult
from awaken.contracts.tools.tool import ToolEffect
from awaken.contracts.workflows.errors import (
    EventIdReused,
    EventRefused,
    NotAWorkflow,
    ResetRefused,
    RunHasEnded,
    RunStillQueued,
    TooManyEvents,
)
from awaken.contracts.workflows.steps import (
    EVENT_NAME_CHARS,
    EVENTS_MAX,
    MESSAGE_EVENT,
    RESULT_BYTES,
    StepKind,
    iterate_continuations,
    make_call_id,
    make_call_prefix,
    read_path,
)
from awaken.runtime.journal.request_checks import check_id
from awaken.runtime.outbox import delegate_of
from awaken.runtime.tools.delegate_tickets import stop_child
from awaken.runtime.workflows.event_queue import (
    find_input,
    find_taken,
    list_events,
    make_event_message,
)
from awaken.runtime.workflows.step_journal import StepJournal

from .services import MailboxServices
from .submissions import Delivery, continuation, digest, dispatch_for

CONTINUATIONS_MAX = 10_000
"""How many times a run may have continued as new that an event for the first one still reaches."""
_SLICE = 250
"""How many ids are made before others have their turn."""


class EventReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """The receipt of an event; the same event again gives the same receipt."""

    run_id: str
    name: str
    event_id: str
    is_duplicate: bool = False


class ResetReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """What a reset takes back: the steps, and those whose effects stay in the world."""

    run_id: str
    step: str | None
    steps: tuple[str, ...]
    """The paths of the steps that are taken again."""
    effects: tuple[str, ...]
    """Those of them that had an effect: it is not undone, and may happen again."""


def check_open_workflow(run: RunRecord) -> None:
    """Check that a run is one of a workflow and has not ended.

    Raises:
        RunStillQueued: It is still queued, and nothing says yet what it is.
        NotAWorkflow: An agent's model answers in it.
        RunHasEnded: It takes no more events.
        DemoRecord: It is demo data.
    """
    if run.status is RunStatus.CREATED:
        raise RunStillQueued(run_id=run.run_id.removeprefix(namespace_in(run.run_id)))
    if not run.is_workflow:
        raise NotAWorkflow(run_id=run.run_id)
    if run.purpose is RunKind.DEMO:
        raise DemoRecord(record_id=run.run_id)
    if run.status is RunStatus.DONE:
        raise RunHasEnded(run_id=run.run_id)


async def find_receiver(services: MailboxServices, run: RunRecord) -> RunRecord:
    """Return the run that an event for a run goes to: it, or what it continues as by now.

    Raises:
        RunStillQueued: It is still queued.
        NotAWorkflow: An agent's model answers in it.
        RunHasEnded: It takes no more events.
    """
    if run.continued_as is None or run.status is not RunStatus.DONE:
        check_open_workflow(run)
        return run
    newest = await services.load_open_run(run.thread_id)
    if newest is None or not await _continues(run, newest):
        named = run.continued_as.removeprefix(namespace_in(run.run_id))
        problem = f", and continued as run '{named}', which has not begun or has ended too"
        raise RunHasEnded(run_id=run.run_id.removeprefix(namespace_in(run.run_id)), problem=problem)
    return newest


async def _continues(run: RunRecord, newest: RunRecord) -> bool:
    """Whether a run is what another one goes on as; a further run of the thread is not.

    The ids tell, because records of runs in between may have been deleted by retention.
    """
    later = iterate_continuations(run.run_id)
    for _ in range(CONTINUATIONS_MAX // _SLICE):
        if newest.run_id in islice(later, _SLICE):
            return True
        await asyncio.sleep(0)
    return False


def check_speaker(run: RunRecord, name: str, sender: str | None) -> None:
    """Check that an event does not speak for another user than its sender.

    What a person says acts for that person, but an event acts for the user of its run. None is the
    host's own code, which may speak for anyone.

    Raises:
        EventRefused: It is a `message`, and the run is another user's.
    """
    if name == MESSAGE_EVENT and sender is not None and run.user_id not in (None, sender):
        problem = "it comes from another user than the run's: send it as a message to the thread"
        raise EventRefused(what=f"The event '{name}'", problem=problem)


class SentEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event as it is recognized: sent once under its id, to one run."""

    run_id: str
    name: str
    payload: Any
    event_id: str

    def __post_init__(self) -> None:
        name = self.name
        if not name.strip() or len(name) > EVENT_NAME_CHARS or not name.isprintable():
            problem = f"it has 1 to {EVENT_NAME_CHARS} printable characters"
            raise InvalidInput(what="The event's name", problem=problem)
        check_id("event_id", self.event_id)

    @property
    def dedupe_key(self) -> str:
        """The key under which its dispatch is found again."""
        return f"event:{digest([self.run_id, self.name, self.event_id])}"

    @property
    def message_id(self) -> str:
        """The id of the message that it becomes, whichever run takes it."""
        return derive_id(self.run_id, "event", self.name, self.event_id)

    @property
    def asked(self) -> list[Any]:
        """What is compared if it comes again."""
        return ["event", self.name, self.payload]

    def make_receipt(self, *, is_duplicate: bool) -> EventReceipt:
        """Make the receipt of its sender."""
        return EventReceipt(
            run_id=self.run_id, name=self.name, event_id=self.event_id, is_duplicate=is_duplicate
        )


async def find_sent_event(
    services: MailboxServices, run: RunRecord, event: SentEvent
) -> EventReceipt | None:
    """Return the receipt of an event that was accepted before, also after the end of its run.

    Its dispatch is deleted some time after it was delivered; its message stays as long as the run.

    Raises:
        EventIdReused: The id was used for another event.
    """
    keyed = DispatchQuery(thread_id=run.thread_id, dedupe_key=event.dedupe_key, limit=1)
    known = next(iter((await services.store.list_dispatches(keyed)).items), None)
    if known is None:
        is_same = await _is_in_thread(services, run, event)
    else:
        is_same = known.request_hash == digest(event.asked)
    if is_same is None:
        return None
    if not is_same:
        raise EventIdReused(thread_id=run.thread_id, dedupe_key=event.event_id, run_id=event.run_id)
    return event.make_receipt(is_duplicate=True)


async def _is_in_thread(services: MailboxServices, run: RunRecord, event: SentEvent) -> bool | None:
    """Whether the thread has the same event under the id, or another one; None if it has none."""
    age_ms = services.clock.now_ms() - run.created_at
    retention_ms = services.config.retention_ms
    if retention_ms is None or 2 * age_ms < retention_ms:
        # Nearly always, whatever clocks show: no dispatch of so young a run was deleted.
        return None
    checkout = await services.store.checkout(run.thread_id)
    for message in () if checkout is None else checkout.messages:
        if message.id == event.message_id:
            return bool(msgspec.json.decode(message.text) == msgspec.to_builtins(event.payload))
    return None


async def make_event(services: MailboxServices, run: RunRecord, event: SentEvent) -> RunRequest:
    """Make the request that delivers an event to a run.

    Raises:
        InvalidInput: The payload has no JSON form.
        LimitExceeded: It is larger than the result of a step may be.
        EventRefused: A step waits for it, and it does not fit the schema of that step.
        TooManyEvents: No step waits for it, and too many events wait for their steps.
    """
    name, payload = event.name, event.payload
    try:
        message = make_event_message(event.message_id, name, payload)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(what="The event", problem=str(error)) from error
    if (size := len(message.text.encode())) > RESULT_BYTES:
        raise LimitExceeded(what=f"The event '{name}' in bytes", size=size, limit=RESULT_BYTES)
    for ticket in await services.store.list_run_tickets(run.thread_id, run.run_id):
        if ticket.status is TicketStatus.OPEN and _waits_for(ticket, name):
            _check_schema(name, ticket.suspension.response_schema, payload)
            break
    else:
        # An event that a step waits for is always taken: others must not hold the run up.
        await _check_room(services, run)
    return RunRequest(
        thread_id=run.thread_id,
        continue_run_id=run.run_id,
        messages=(message,),
        run_mode=run.run_mode,
        adapter=run.adapter,
        session_id=run.session_id,
    )


def _waits_for(ticket: Ticket, name: str) -> bool:
    return ticket.suspension.action == "workflow:wait_for" and ticket.tool_name == name


def _check_schema(name: str, schema: dict[str, Any] | None, payload: Any) -> None:
    if schema is None:
        return
    if violations := JsonSchema(schema, what="the event's schema").violations(payload):
        raise EventRefused(what=f"The event '{name}'", problem="; ".join(violations))


async def _check_room(services: MailboxServices, run: RunRecord) -> None:
    thread = await services.store.load_thread(run.thread_id)
    if thread is None or thread.message_count < EVENTS_MAX:
        # Nearly always: so few messages cannot hold too many events.
        return
    checkout = await services.store.checkout(run.thread_id)
    # A step that was taken back leaves its event to the step that is taken again.
    journal = StepJournal(await services.store.list_tool_records(run.run_id))
    taken = set(find_taken(journal.steps).values())
    messages = Transcript(() if checkout is None else checkout.messages)
    # What the run began with are its arguments, and no event.
    taken |= {it.id or "" for it in find_input(run, messages)}
    sent = [it for it in list_events(messages, run.run_id) if it.message_id not in taken]
    if len(sent) >= EVENTS_MAX:
        raise TooManyEvents(run_id=run.run_id, count=len(sent), limit=EVENTS_MAX)


async def plan_reset(services: MailboxServices, run: RunRecord, step: str | None) -> ResetReceipt:
    """Return what a reset would take back; nothing is changed.

    Without a step nothing is: the function is only entered again.

    Raises:
        NotAWorkflow: An agent's model answers in the run.
        RunHasEnded: It has ended.
        ResetRefused: It executes, or has no such step.
    """
    check_open_workflow(run)
    if run.status is not RunStatus.WAITING:
        problem = "it executes; cancel it, or wait until it waits"
        raise ResetRefused(run_id=run.run_id, step=step or "-", problem=problem)
    journal = StepJournal(await services.store.list_tool_records(run.run_id))
    paths = [*journal.steps]
    if step is not None and step not in journal.steps:
        known = ", ".join(paths[-20:]) or "none"
        problem = f"its journal has no such step; the latest are: {known}"
        raise ResetRefused(run_id=run.run_id, step=step, problem=problem)
    taken_back = [] if step is None else _list_taken_back(journal, step)
    effects = [
        f"{path} {journal.steps[path].tool_name} ({journal.steps[path].effect.value})"
        for path in taken_back
        if journal.steps[path].effect is not ToolEffect.NONE
    ]
    return ResetReceipt(
        run_id=run.run_id, step=step, steps=tuple(taken_back), effects=tuple(effects)
    )


def _list_taken_back(journal: StepJournal, step: str) -> list[str]:
    """Return a step, all below it, and all that came later; a race as a whole.

    Whoever wins it another time, nothing of its former course may be left.
    """
    paths = [*journal.steps]
    races = [path for path in paths if journal.steps[path].kind == StepKind.RACE]
    taken = {step, *(it for it in paths if it.startswith(f"{step}."))}
    while True:
        # In the order in which they were first written: a race is, when it is over.
        now = taken | set(paths[min(map(paths.index, taken)) :])
        for race in races:
            below = f"{race}."
            if race in now or any(it.startswith(below) for it in now):
                now |= {race, *(it for it in paths if it.startswith(below))}
        if now == taken:
            return [it for it in paths if it in taken]
        taken = now


async def reset_run(services: MailboxServices, run: RunRecord, plan: ResetReceipt) -> None:
    """Take back steps of a run that waits, and let its function be entered again: one commit.

    Raises:
        ResetRefused: It was continued meanwhile.
    """
    store = services.store
    checkout = await store.checkout(run.thread_id)
    journal = StepJournal(await store.list_tool_records(run.run_id))
    is_here = checkout is not None and checkout.open_run is not None
    if checkout is None or not is_here or checkout.open_run != run:
        raise ResetRefused(run_id=run.run_id, step=plan.step or "-", problem="it goes on")
    now, gone = services.clock.now_ms(), set(plan.steps)
    closed = [it for it in checkout.tickets if read_path(it.call_id) in gone]
    left = tuple(it.ticket_id for it in checkout.tickets if read_path(it.call_id) not in gone)
    waiting = Waiting(reason=WaitingReason.EXTERNAL_EVENT, ticket_ids=left)
    record = ToolRecord(
        run_id=run.run_id,
        call_id=make_call_id(make_call_prefix(run.run_id), journal.generation + 1, "reset"),
        step=journal.generation + 1,
        tool_name=plan.step or "",
        effect=ToolEffect.NONE,
        status=ToolRecordStatus.FINISHED,
        result=ToolResult(tool_name="reset", data={"steps": list(plan.steps)}),
        kind=StepKind.RESET,
    )
    commit = Commit(
        commit_id=services.ids.new_id(),
        thread_id=run.thread_id,
        expected_version=checkout.thread.version,
        committed_at=now,
        run=msgspec.structs.replace(run, waiting=waiting, updated_at=now),
        tool_records=(record,) if plan.step is not None else (),
        tickets=tuple(_close(it, now) for it in closed if it.status is TicketStatus.OPEN),
        enqueued=(make_continuation(services, run),),
        outbox=tuple(
            stop_child(run.identity, child) for it in closed if (child := delegate_of(it))
        ),
    )
    try:
        await store.commit(commit)
    except (VersionConflict, ThreadClaimed) as error:
        raise ResetRefused(
            run_id=run.run_id, step=plan.step or "-", problem="it goes on"
        ) from error
    services.announce_queued(commit.enqueued[0])


def make_continuation(services: MailboxServices, run: RunRecord) -> RunDispatch:
    """Make the dispatch that lets the function of a waiting run be entered again."""
    delivery = Delivery(mode=InputMode.RESUME)
    return dispatch_for(
        continuation(run), delivery, services.ids, max_attempts=services.config.max_attempts
    )


def _close(ticket: Ticket, now_ms: int) -> Ticket:
    return msgspec.structs.replace(
        ticket, status=TicketStatus.CLOSED, closed_because="reset", updated_at=now_ms
    )
