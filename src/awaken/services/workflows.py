"""Runs of workflows for those who look at them: the journal, and what they wait for."""

from typing import Any

import msgspec

from awaken.contracts.errors import AwakenError
from awaken.contracts.lifecycle import RunStatus, TicketStatus
from awaken.contracts.runs.records import Divergence, RunRecord
from awaken.contracts.storage.dispatch import InputMode
from awaken.contracts.storage.store import ToolRecord, ToolRecordStatus
from awaken.contracts.suspension.tickets import Ticket
from awaken.contracts.tool_results import ToolStatus
from awaken.contracts.workflows.errors import EventRefused
from awaken.contracts.workflows.steps import MESSAGE_EVENT, StepKind, read_path
from awaken.contracts.workflows.waits import asks_person
from awaken.mailbox.workflow_runs import (
    EventReceipt,
    SentEvent,
    check_speaker,
    find_receiver,
    find_sent_event,
    make_event,
)
from awaken.runtime.engine import RunEngine
from awaken.runtime.workflows.step_journal import StepJournal

from .control import RunControl
from .threads import ThreadView


class StepView(msgspec.Struct, frozen=True, kw_only=True):
    """One step of a workflow's journal."""

    path: str
    """`3.0.1` is the first step of the first branch of step 3."""
    kind: str
    name: str
    status: str
    """`running`, `waiting`, `done` or `failed`."""
    attempt: int = 1
    effect: str = "none"
    error: str | None = None
    ticket_id: str | None = None
    """The ticket that it waits for."""
    event: str | None = None
    """The event that it waits for."""
    event_schema: dict[str, Any] | None = None
    """The JSON Schema that the event must fit; absent: any value."""
    until: int | None = None
    """When its wait ends by itself, in milliseconds."""
    child_run_id: str | None = None
    """The run of the agent that it asked."""
    winner: int | None = None
    """The branch that won a race."""
    result: Any = None


class WorkflowView(msgspec.Struct, frozen=True, kw_only=True):
    """The journal of a workflow's run, and what the run waits for."""

    run_id: str
    thread_id: str
    workflow: str
    status: str
    value: Any = None
    """What the workflow shows with `ctx.set_status`."""
    steps: tuple[StepView, ...]
    is_workflow: bool = True
    """False for a run in which an agent's model answers: it has no steps here."""
    waiting_events: tuple[str, ...] = ()
    sleeping_until: int | None = None
    """When the next of its deadlines is, in milliseconds."""
    diverged: Divergence | None = None
    resets: int = 0


async def read_workflow(engine: RunEngine, run: RunRecord) -> WorkflowView:
    """Read the journal of a run; nothing of it is executed. An agent's run has none."""
    if not run.is_workflow:
        return WorkflowView(
            run_id=run.run_id,
            thread_id=run.thread_id,
            workflow=run.agent_id,
            status=run.status.value,
            steps=(),
            is_workflow=False,
        )
    journal = StepJournal(await engine.store.list_tool_records(run.run_id))
    found = await engine.store.list_run_tickets(run.thread_id, run.run_id)
    tickets = {read_path(it.call_id): it for it in found if it.status is TicketStatus.OPEN}
    statuses = [it for it in journal.steps.values() if it.kind == StepKind.STATUS]
    last = statuses[-1].result if statuses else None
    due = [it.expires_at for it in tickets.values() if it.expires_at is not None]
    events = [it.tool_name for it in tickets.values() if _is_event(it)]
    return WorkflowView(
        run_id=run.run_id,
        thread_id=run.thread_id,
        workflow=run.agent_id,
        status=run.status.value,
        value=None if last is None else last.data,
        steps=tuple(_show_step(path, it, tickets.get(path)) for path, it in journal.steps.items()),
        waiting_events=tuple(dict.fromkeys(events)),
        sleeping_until=min(due, default=None),
        diverged=None if run.waiting is None else run.waiting.diverged,
        resets=journal.generation,
    )


def _is_event(ticket: Ticket) -> bool:
    return ticket.suspension.action == "workflow:wait_for"


def _show_step(path: str, record: ToolRecord, ticket: Ticket | None) -> StepView:
    result = record.result
    is_failed = result is not None and result.status is ToolStatus.ERROR
    is_race = record.kind == StepKind.RACE and result is not None
    child = None if result is None else result.metadata.get("child_run_id")
    waits = ticket if ticket is not None and _is_event(ticket) else None
    return StepView(
        path=path,
        kind=record.kind,
        name=record.tool_name,
        status=_state_of(record),
        attempt=record.attempt,
        effect=record.effect.value,
        error=result.message if result is not None and is_failed else None,
        ticket_id=None if ticket is None else ticket.ticket_id,
        event=None if waits is None else waits.tool_name,
        event_schema=None if waits is None else waits.suspension.response_schema,
        until=None if ticket is None else ticket.expires_at,
        child_run_id=child if isinstance(child, str) else None,
        winner=result.data["winner"] if result is not None and is_race else None,
        result=None if result is None or is_race or ticket is not None else result.data,
    )


def _state_of(record: ToolRecord) -> str:
    if record.status is not ToolRecordStatus.FINISHED:
        return "running"
    if record.result is None or record.result.status is ToolStatus.SUCCESS:
        return "done"
    return "waiting" if record.result.status is ToolStatus.PENDING else "failed"


async def list_waits(view: ThreadView, run: RunRecord) -> list[Ticket]:
    """List what a run of a workflow waits for that nobody decides: events, and times."""
    if not run.is_workflow or run.status is not RunStatus.WAITING:
        return []
    found = await view.run_tickets(run.thread_id, run.run_id)
    return [it for it in found if it.status is TicketStatus.OPEN and not asks_person(it)]


async def send_event(
    engine: RunEngine,
    control: RunControl,
    run: RunRecord,
    event: tuple[str, Any, str | None],
    sender: str | None = None,
) -> EventReceipt:
    """Send an event, as name, payload and id, to a run of a workflow, wherever it is.

    A run that has continued as a new one passes it on. With another `sender` than the run's user
    it is no `message`: what a person says acts for that person, so it is said on the thread. It is
    durable when this returns, and reaches the run once. The same event under the same id
    gives the same receipt, also after the end of the run.

    Raises:
        InvalidInput: Its name or its id is malformed, or its payload has no JSON form.
        LimitExceeded: It is too large.
        RunStillQueued: The run is still queued.
        NotAWorkflow: An agent's model answers in the run.
        RunHasEnded: It takes no more events.
        EventRefused: It does not fit.
        EventIdReused: The id was used for another event.
        TooManyEvents: Too many events wait, and no step waits for this one.
    """
    name, payload, given_id = event
    services = control.mailbox.services
    event_id = services.ids.new_id() if given_id is None else given_id
    sent = SentEvent(run_id=run.run_id, name=name, payload=payload, event_id=event_id)
    if given_id is not None:
        known = await find_sent_event(services, run, sent)
        if known is not None:
            return known
    run = await find_receiver(services, run)
    check_speaker(run, name, sender)
    await check_declared_event(engine, run, name, payload)
    request = await make_event(services, run, sent)
    receipt = await control.submit(
        request, InputMode.STEER, {"dedupe_key": sent.dedupe_key}, asked=sent.asked
    )
    return sent.make_receipt(is_duplicate=receipt.is_duplicate)


async def check_declared_event(engine: RunEngine, run: RunRecord, name: str, payload: Any) -> None:
    """Check an event by the types that the workflow declares, if this process has it.

    Raises:
        EventRefused: The workflow takes no such event, or the payload does not fit.
    """
    try:
        agent = await engine.registry.resolve(run.agent_id, run.publication)
    except AwakenError:
        return
    workflow = agent.workflow
    if workflow is None or not workflow.events:
        return
    if name not in workflow.events and name != MESSAGE_EVENT:
        known = ", ".join(workflow.events)
        raise EventRefused(what=f"The event '{name}'", problem=f"the workflow takes: {known}")
    schema = workflow.event_schemas.get(name)
    if schema is not None and (violations := schema.violations(payload)):
        raise EventRefused(what=f"The event '{name}'", problem="; ".join(violations))
