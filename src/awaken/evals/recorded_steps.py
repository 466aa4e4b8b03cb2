"""The steps of a run, put together from its messages, its log, its tool journal and its tickets."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from awaken.contracts.evals.recordings import (
    RecordedCall,
    RecordedDecision,
    RecordedStep,
    Recording,
)
from awaken.contracts.events import (
    InferenceComplete,
    LoggedEvent,
    RunStart,
    StepStart,
    ToolCallDone,
    ToolCallResumed,
)
from awaken.contracts.lifecycle import Cancelled, Failed
from awaken.contracts.messages.content import text_of
from awaken.contracts.messages.message import Message, Role, ToolCall, Visibility
from awaken.contracts.plugins.loop_state import ACTIVE_AGENT, REQUEST_OPTIONS
from awaken.contracts.runs.records import RunRecord
from awaken.contracts.state.context_state import CONTEXT_STATE
from awaken.contracts.state.keys import StoredValue
from awaken.contracts.storage.state_history import FoldedState
from awaken.contracts.storage.store import ToolRecord, ToolRecordStatus
from awaken.contracts.suspension.tickets import SuspendTicket, Ticket, ToolCallOutcome
from awaken.contracts.tool_results import ToolResult, ToolStatus
from awaken.contracts.tools.tool import ToolEffect
from awaken.runtime.tools.settle import CANCELLED, INTERRUPTED

from .result_digests import digest_result

RUNTIME_KEYS = "__runtime"
"""The names of the keys that the loop keeps for itself begin so."""
ASK_AGAIN = "Answer again."
"""How a message ends that the loop writes itself if an answer does not fit its type."""
CUT_OFF = "interrupted"
"""The code of the result of a call that was cut off by the end of its run."""
_SHOWN = (ACTIVE_AGENT.name, CONTEXT_STATE.name, REQUEST_OPTIONS.name)


def is_recorded_key(name: str) -> bool:
    """Whether values of a key are part of recordings; the loop makes those of others again."""
    return not name.startswith(RUNTIME_KEYS) or name in _SHOWN


class LoggedRun(msgspec.Struct, frozen=True, kw_only=True):
    """What is stored of one run."""

    record: RunRecord
    events: Sequence[LoggedEvent]
    messages: Sequence[Message]
    """Its messages after its input."""
    tool_records: Sequence[ToolRecord]
    tickets: Sequence[Ticket]
    states: Sequence[tuple[int, FoldedState]]
    children: Mapping[str, tuple[Recording, ...]]
    """Recordings of the runs below it, by the call that started them."""


class _CallLog(msgspec.Struct):
    """What the log says of one call."""

    done: ToolCallDone | None = None
    resumed: ToolCallResumed | None = None
    questions: list[tuple[str, SuspendTicket]] = []
    """Ticket ids and questions, in order."""
    decided_in: dict[str, int] = {}
    """The activation in which each ticket's decision took effect, by ticket id."""


class _StepLog(msgspec.Struct):
    """What the log says of one step."""

    resumed_as: str | None = None
    first_seq: int = 0
    inference: InferenceComplete | None = None
    calls: dict[str, _CallLog] = {}
    last_seq: int = 0


def build_steps(run: LoggedRun) -> tuple[RecordedStep, ...]:
    """Return the steps of a run in order; the last one has no answer if the run ended before it."""
    answers, results, inputs = _sort_messages(run.messages)
    logs = _read_log(run.events, find_first_step(run.record), inputs)
    tickets = {it.ticket_id: it for it in run.tickets}
    journal = {(it.step, it.call_id): it for it in run.tool_records}
    begun = 0 if run.events or run.record.is_workflow else run.record.steps
    count = max((*answers, *inputs, *logs, begun))
    steps, before = [], run.states[0][1] if run.states else FoldedState()
    for number in range(1, count + 1):
        log, answer = logs.get(number, _StepLog()), answers.get(number)
        calls = tuple(
            _build_call(
                call,
                log.calls.get(call.id) or _recall_questions(run, call),
                journal.get((number, call.id)),
                results.get((number, call.id)),
                tickets,
            )
            for call in (answer.tool_calls or () if answer is not None else ())
            if (number, call.id) in results or call.id in log.calls
        )
        last = number == count
        after = _find_state(run.states, log.last_seq, before, is_last=last)
        children = tuple(it for call in calls for it in run.children.get(call.id, ()))
        made = _build_step(number, log, answer, inputs.get(number, ()), calls, children)
        if log.inference is None and (number in logs or number <= begun):
            made = _mark_end(made, run.record, is_logged=number in logs)
        if log.resumed_as is not None or before is not after:
            changed = _list_changes(before, after)
            agent_id = _find_resumed(log, run.states)
            made = msgspec.structs.replace(made, state=changed, resumed_as=agent_id)
        steps.append(made)
        before = after
    return tuple(steps)


def _mark_end(step: RecordedStep, record: RunRecord, *, is_logged: bool) -> RecordedStep:
    """Return a step, of which no whole inference is known, with how its answer ended.

    In the last step of a run that failed or was cancelled there may be no answer, and one without
    calls is what readers had seen of it by then. Any other step without an answer had a blank one.
    """
    answer = step.answer
    is_stopped = isinstance(record.termination, Failed | Cancelled) and step.n >= record.steps
    if answer is None and not is_logged and not is_stopped:
        return msgspec.structs.replace(step, answer=Message(role=Role.ASSISTANT))
    is_cut = is_stopped and answer is not None and not answer.tool_calls
    return msgspec.structs.replace(step, is_cut=True) if is_cut else step


def _recall_questions(run: LoggedRun, call: ToolCall) -> _CallLog:
    """Return what tickets say of a call that the log has lost: its questions, decided together."""
    if run.events:
        return _CallLog()
    asked = [
        it
        for it in run.tickets
        if (it.call_id, it.tool_name) == (call.id, call.name) and it.arguments == call.arguments
    ]
    return _CallLog(
        questions=[(it.ticket_id, SuspendTicket()) for it in asked],
        decided_in={it.ticket_id: 1 for it in asked if it.decision is not None},
    )


def _find_resumed(log: _StepLog, states: Sequence[tuple[int, FoldedState]]) -> str | None:
    """Return the agent that a waiting run went on with, before it began the next step."""
    if log.resumed_as is None:
        return None
    then = [folded for at, folded in states if at < log.first_seq]
    stored = then[-1].thread.get(ACTIVE_AGENT.name) if then else None
    return log.resumed_as if stored is None else ACTIVE_AGENT.decode(stored)


def _build_step(
    number: int,
    log: _StepLog,
    answer: Message | None,
    inputs: Sequence[Message],
    calls: tuple[RecordedCall, ...],
    children: tuple[Recording, ...],
) -> RecordedStep:
    inference = log.inference
    if inference is None:
        return RecordedStep(
            n=number, inputs=tuple(inputs), answer=answer, calls=calls, children=children
        )
    return RecordedStep(
        n=number,
        digest=inference.request_digest,
        inputs=tuple(inputs),
        # A blank answer is not stored, and is one nevertheless.
        answer=answer if answer is not None else Message(role=Role.ASSISTANT),
        model=inference.model,
        usage=inference.usage,
        at=inference.started_at or 0,
        ms=inference.duration_ms,
        first_token_ms=inference.first_token_ms,
        attempts=inference.attempts,
        calls=calls,
        children=children,
    )


def find_first_step(record: RunRecord) -> int:
    """Return the step in which the log of a run begins; 0: before its first step."""
    forked = record.forked_from
    if forked is None:
        return 0
    return forked.step - 1 if forked.results is None else forked.step


def _read_log(
    events: Iterable[LoggedEvent], number: int, inputs: Collection[int]
) -> dict[int, _StepLog]:
    """Return what the log says of each step; it begins in the step `number`.

    `inputs` are the steps before which something reached the run.
    """
    logs: dict[int, _StepLog] = {number: _StepLog()} if number else {}
    activation = 0
    resumed_as = None
    for logged in events:
        event = logged.event
        if isinstance(event, RunStart):
            activation += 1
            if activation > 1 and (who := event.identity) is not None:
                resumed_as = who.active_agent_id or who.agent_id
        elif isinstance(event, StepStart):
            number += 1
            logs[number] = _StepLog(resumed_as, logged.seq)
            resumed_as = None
        step = logs.get(number)
        if step is None:
            continue
        step.last_seq = logged.seq
        if isinstance(event, InferenceComplete):
            step.inference = event
        elif isinstance(event, ToolCallDone):
            call = step.calls.setdefault(event.id, _CallLog())
            _note_decided(call, activation)
            if event.outcome is ToolCallOutcome.SUSPENDED:
                question = event.result.suspension or SuspendTicket()
                call.questions.append((event.ticket_id or "", question))
            else:
                call.done = event
        elif isinstance(event, ToolCallResumed):
            call = step.calls.setdefault(event.target_id, _CallLog())
            _note_decided(call, activation)
            call.resumed = event
    if resumed_as is not None and number + 1 in inputs:
        # It went on with a message, and a rule stopped it before it answered.
        logs[number + 1] = _StepLog(resumed_as, 1 << 62)
    return logs


def _note_decided(call: _CallLog, activation: int) -> None:
    """Note that the newest question of a call was decided: its next event says so."""
    if call.questions:
        call.decided_in.setdefault(call.questions[-1][0], activation)


def _sort_messages(
    messages: Iterable[Message],
) -> tuple[dict[int, Message], dict[tuple[int, str], Message], dict[int, list[Message]]]:
    """Return the answers by step, results by step and call, and the input before each step."""
    answers: dict[int, Message] = {}
    results: dict[tuple[int, str], Message] = {}
    inputs: dict[int, list[Message]] = {}
    for message in messages:
        index = None if message.metadata is None else message.metadata.step_index
        number = 0 if index is None else index + 1
        if message.role is Role.ASSISTANT:
            answers[number] = message
        elif message.role is Role.TOOL:
            results[number, message.tool_call_id or ""] = message
        elif not _is_of_loop(message):
            inputs.setdefault(number + 1, []).append(message)
    return answers, results, inputs


def _is_of_loop(message: Message) -> bool:
    """Whether the loop wrote a message itself, and writes it again when the run is replayed."""
    is_hidden = message.visibility is Visibility.INTERNAL and message.sender is None
    return is_hidden and message.role is Role.USER and message.text.endswith(ASK_AGAIN)


def _build_call(
    call: ToolCall,
    log: _CallLog,
    record: ToolRecord | None,
    message: Message | None,
    tickets: Mapping[str, Ticket],
) -> RecordedCall:
    result = _find_result(call, log, record, message)
    ended = log.done or log.resumed
    is_kept = record is not None and record.result is not None and _is_same(record.result, result)
    # A command that the state refused has an error for its result, and changed nothing.
    updates = record.updates if record is not None and is_kept else ()
    decisions = tuple(_build_decision(it, log, tickets) for it in log.questions)
    # Who asks by itself is executed, also if the call was declined then.
    has_asked = any(not it.question.asked_by for it in decisions)
    return RecordedCall(
        id=call.id,
        tool=call.name,
        arguments=call.arguments,
        effect=ToolEffect.NONE if record is None else record.effect,
        result=result,
        outcome=result.outcome,
        updates=updates,
        digest=digest_result(result, updates),
        decisions=decisions,
        ms=0 if ended is None else ended.duration_ms,
        attempts=1 if ended is None else ended.attempts,
        has_run=has_asked or _has_run(result, record, ended),
    )


def _has_run(
    result: ToolResult, record: ToolRecord | None, ended: ToolCallDone | ToolCallResumed | None
) -> bool:
    """Whether a tool was executed, or would have been if the run had not been stopped there."""
    if record is not None or ended is None or ended.started_at is not None:
        return True
    # The end of its run cut it off, and wrote its result without its times.
    return is_cut_off(result)


def is_cut_off(result: ToolResult) -> bool:
    """Whether a call has no result of its own because its run was stopped."""
    is_error = result.status is ToolStatus.ERROR
    return is_error and result.metadata.get("code") == CUT_OFF


def _is_same(one: ToolResult, two: ToolResult) -> bool:
    return one.status is two.status and one.data == two.data and one.message == two.message


def _find_result(
    call: ToolCall, log: _CallLog, record: ToolRecord | None, message: Message | None
) -> ToolResult:
    """Return the final result of a call: from the log, else the journal, else its message."""
    if log.done is not None:
        return log.done.result
    if message is None:
        question = log.questions[-1][1] if log.questions else None
        return ToolResult.from_ticket(call.name, question)
    text = text_of(message.content)
    if text in (CANCELLED, INTERRUPTED) and log.resumed is None:
        return ToolResult.error(call.name, text, code=CUT_OFF)
    if record is not None and record.status is ToolRecordStatus.FINISHED:
        found = record.result
        if found is not None and found.status is not ToolStatus.PENDING:
            return found
    if log.resumed is not None:
        return _read_resumed(call, log.resumed, text)
    return ToolResult(tool_name=call.name, message=text)


def _read_resumed(call: ToolCall, resumed: ToolCallResumed, text: str) -> ToolResult:
    """Return the result of a resumed call, of which the log has the payload only."""
    data: Any = resumed.result
    metadata: dict[str, Any] = {}
    if resumed.is_failed:
        return ToolResult(tool_name=call.name, status=ToolStatus.ERROR, message=text)
    if isinstance(data, dict) and data.keys() == {"data", "metadata"}:
        data, metadata = data["data"], data["metadata"]
    shown = msgspec.json.encode(data).decode()
    return ToolResult(
        tool_name=call.name,
        data=None if data == text else data,
        message=None if shown == text else text,
        metadata=metadata,
    )


def _build_decision(
    asked: tuple[str, SuspendTicket], log: _CallLog, tickets: Mapping[str, Ticket]
) -> RecordedDecision:
    ticket_id, question = asked
    ticket = tickets.get(ticket_id)
    if ticket is not None:
        question = msgspec.structs.replace(
            question,
            suspension=msgspec.structs.replace(ticket.suspension, id=ticket.topic or ""),
            resume_mode=ticket.resume_mode,
            asks=ticket.asks,
            asked_by=ticket.asked_by,
            hears_refusal=ticket.hears_refusal,
            expires_at=ticket.expires_at,
            on_expiry=ticket.on_expiry,
            deciders=ticket.deciders,
        )
    return RecordedDecision(
        question=question,
        decision=None if ticket is None else ticket.decision,
        activation=log.decided_in.get(ticket_id, 0),
    )


def _find_state(
    states: Sequence[tuple[int, FoldedState]], seq: int, before: FoldedState, *, is_last: bool
) -> FoldedState:
    """Return the state at the end of a step: after its last commit, or that of the run."""
    if is_last:
        return states[-1][1] if states else before
    found = [folded for at, folded in states if at <= seq]
    return found[-1] if found else before


def _list_changes(before: FoldedState, after: FoldedState) -> dict[str, StoredValue | None]:
    if before is after:
        return {}
    old, new = {**before.thread, **before.run}, {**after.thread, **after.run}
    return {
        name: new.get(name)
        for name in sorted({*old, *new})
        if is_recorded_key(name) and old.get(name) != new.get(name)
    }
