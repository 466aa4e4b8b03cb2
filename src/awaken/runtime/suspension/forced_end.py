"""Ending a run by force: one commit, built from the stored state, without any code of the agent.

For runs that no process can or should execute any more. The run is left as after a normal end:
every call has its result, no ticket is open, and the log ends with `run_finish`.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from awaken.contracts.backend_results import backend_status
from awaken.contracts.backends.requests import REMOTE_TARGETS
from awaken.contracts.clock import IdSource
from awaken.contracts.events import AgentEvent, RunFinish, RunStart, StepEnd, ToolCallDone
from awaken.contracts.identity import PROVENANCE, read_provenance
from awaken.contracts.lifecycle import (
    Cancelled,
    RunStatus,
    Termination,
    TicketStatus,
    reason_text,
)
from awaken.contracts.messages.message import Message, MessageMetadata, Role, ToolCall, as_blocks
from awaken.contracts.plugins.loop_state import ACTIVE_AGENT, PENDING_MESSAGES
from awaken.contracts.runs.records import RunRecord
from awaken.contracts.runs.threads import Thread
from awaken.contracts.state.keys import StoredValue
from awaken.contracts.storage.dispatch import Release, RunDispatch
from awaken.contracts.storage.store import Checkout, Commit
from awaken.contracts.suspension.tickets import Ticket
from awaken.contracts.tasks import BACKGROUND_TASKS
from awaken.contracts.tool_results import ToolResult
from awaken.runtime.journal.bookmark import Bookmark, read_bookmark
from awaken.runtime.journal.known_messages import filter_known, with_free_ids
from awaken.runtime.outbox import list_commands_at_end
from awaken.runtime.resolution.resolver import DEFAULT_AGENT
from awaken.runtime.tools.execution import shown_text
from awaken.runtime.tools.settle import CANCELLED, INTERRUPTED

from .recovery import latest_turn


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """How a run is ended, when, and under which claim."""

    termination: Termination
    now_ms: int
    ids: IdSource
    token: str | None = None
    release: Release | None = None


def build_forced_end(checkout: Checkout, ending: Ending) -> Commit | None:
    """The commit that ends the thread's open run; None when it has none."""
    record = checkout.open_run
    if record is None:
        return None
    record = record.release_hold()
    mark = read_bookmark(record.bookmark) or Bookmark(step=record.steps)
    step = max(mark.step, record.steps)
    metadata = MessageMetadata(run_id=record.run_id, step_index=step - 1 if step else None)
    answer, open_calls = latest_turn(checkout.messages)
    results, events = _answers(tuple(open_calls.values()), metadata, ending)
    if record.status is RunStatus.WAITING:
        # The log shows the run continue and end: its step was over when it began to wait.
        events.insert(0, _start(record))
    elif mark.is_step_open:
        events.append(StepEnd())
    is_remote = mark.is_remote or _has_targets(checkout, record.run_id)
    response = answer.text if answer is not None else ""
    if is_remote or record.backend_status is not None:
        response = response if mark.remote_end is not None else ""
        record = _close_remote_record(record, mark, ending.termination)
    else:
        record = msgspec.structs.replace(record, steps=step)
    ended = _end_record(record, response, ending)
    held = _list_held_messages(checkout, metadata, ending.ids)
    return _commit(
        checkout.thread,
        ending,
        ended,
        messages=(*results, *held),
        state=_drop_delivered_tasks(checkout, held),
        tickets=_close_tickets(checkout.tickets, ending),
        events=(*events, _finish(ended, response, ending.termination)),
        outbox=tuple(list_commands_at_end(ended, may_have_children=True, is_remote=is_remote)),
    )


def _close_remote_record(record: RunRecord, mark: Bookmark, termination: Termination) -> RunRecord:
    """The record of a remote run; a turn that was cut off has counted no steps."""
    steps = record.steps if mark.is_step_open else max(mark.step, record.steps)
    status, _ = backend_status(termination)
    return msgspec.structs.replace(record, steps=steps, backend_status=status)


def _has_targets(checkout: Checkout, run_id: str) -> bool:
    """Whether the run, which may wait, has left work at a remote backend."""
    stored = checkout.state.get(REMOTE_TARGETS.name)
    targets = {} if stored is None else REMOTE_TARGETS.decode(stored)
    return any(target.run_id == run_id for target in targets.values())


def never_begun(checkout: Checkout | None, dispatch: RunDispatch, ending: Ending) -> Commit:
    """The commit that ends a run that no process ever began; its input is not taken in.

    The thread keeps its current agent: the requested one has not answered, and may not exist.
    """
    request = dispatch.request.with_trimmed_ids()
    thread = Thread(id=dispatch.thread_id) if checkout is None else checkout.thread
    provenance = dict(zip(PROVENANCE, read_provenance(request), strict=True))
    record = RunRecord(
        run_id=dispatch.run_id,
        thread_id=dispatch.thread_id,
        agent_id=request.agent_id or DEFAULT_AGENT,
        lineage=request.lineage,
        task=request.task,
        trace=request.trace,
        created_at=ending.now_ms,
        **provenance | {"dispatch_id": dispatch.dispatch_id},
    )
    ended = _end_record(record, "", ending)
    finish = _finish(ended, "", ending.termination)
    orders = tuple(list_commands_at_end(ended, may_have_children=False))
    events, state = (_start(record), finish), _keep_agent(checkout)
    return _commit(thread, ending, ended, events=events, state=state, outbox=orders)


def _keep_agent(checkout: Checkout | None) -> dict[str, StoredValue | None]:
    """State that keeps the thread's agent, if so far only its latest run names it."""
    latest = None if checkout is None else checkout.latest_run
    if checkout is None or latest is None or checkout.state.get(ACTIVE_AGENT.name) is not None:
        return {}
    return {ACTIVE_AGENT.name: ACTIVE_AGENT.encode(latest.active_agent_id or latest.agent_id)}


def _commit(thread: Thread, ending: Ending, run: RunRecord, **parts: Any) -> Commit:
    return Commit(
        commit_id=ending.ids.new_id(),
        thread_id=thread.id,
        expected_version=thread.version,
        committed_at=ending.now_ms,
        fencing_token=ending.token,
        release=ending.release,
        run=run,
        **parts,
    )


def _answers(
    calls: Sequence[ToolCall], metadata: MessageMetadata, ending: Ending
) -> tuple[list[Message], list[AgentEvent]]:
    text = CANCELLED if isinstance(ending.termination, Cancelled) else INTERRUPTED
    messages: list[Message] = []
    events: list[AgentEvent] = []
    for call in calls:
        result = ToolResult.error(call.name, text, code="interrupted")
        message = Message(
            role=Role.TOOL,
            id=ending.ids.new_id(),
            content=as_blocks(shown_text(result)),
            tool_call_id=call.id,
            metadata=metadata,
        )
        messages.append(message)
        events.append(
            ToolCallDone(
                id=call.id, message_id=message.id or "", result=result, outcome=result.outcome
            )
        )
    return messages, events


def _list_held_messages(
    checkout: Checkout, metadata: MessageMetadata, ids: IdSource
) -> list[Message]:
    """Messages that were sent to the run and not yet taken in; they stay in the thread."""
    stored = checkout.run_state.get(PENDING_MESSAGES.name)
    pending = () if stored is None else PENDING_MESSAGES.decode(stored)
    held = {message.id or number: message for number, message in enumerate(pending)}.values()
    # A duplicate id would make every commit fail, and the run could never end.
    fresh = with_free_ids(filter_known(held, checkout.messages), checkout.messages)
    return [
        msgspec.structs.replace(message, id=message.id or ids.new_id(), metadata=metadata)
        for message in fresh
    ]


def _drop_delivered_tasks(
    checkout: Checkout, held: Iterable[Message]
) -> dict[str, StoredValue | None]:
    """State with the tasks of the thread, without those whose end is among the messages."""
    stored = checkout.state.get(BACKGROUND_TASKS.name)
    ends = {it.sender.task_id for it in held if it.sender is not None and it.sender.is_end}
    if stored is None or not ends:
        return {}
    left = {id_: task for id_, task in BACKGROUND_TASKS.decode(stored).items() if id_ not in ends}
    return {BACKGROUND_TASKS.name: BACKGROUND_TASKS.encode(left) if left else None}


def _close_tickets(tickets: Sequence[Ticket], ending: Ending) -> tuple[Ticket, ...]:
    return tuple(
        msgspec.structs.replace(
            ticket,
            status=TicketStatus.CLOSED,
            closed_because=reason_text(ending.termination),
            updated_at=ending.now_ms,
        )
        for ticket in tickets
        if ticket.status is TicketStatus.OPEN
    )


def _end_record(record: RunRecord, response: str, ending: Ending) -> RunRecord:
    return msgspec.structs.replace(
        record,
        status=RunStatus.DONE,
        waiting=None,
        termination=ending.termination,
        bookmark=None,
        final_output=response or None,
        finished_at=ending.now_ms,
        updated_at=ending.now_ms,
    )


def _start(record: RunRecord) -> RunStart:
    return RunStart(
        thread_id=record.thread_id,
        run_id=record.run_id,
        parent_run_id=record.parent_run_id,
        identity=record.identity,
    )


def _finish(record: RunRecord, response: str, termination: Termination) -> RunFinish:
    label = record.backend_status and record.backend_status.label(termination)
    return RunFinish(
        thread_id=record.thread_id,
        run_id=record.run_id,
        identity=record.identity,
        result={
            "response": response,
            "status": label or record.status.value,
            "status_reason": reason_text(termination),
        },
        termination=termination,
    )
