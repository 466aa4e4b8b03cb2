"""Delegating to another agent from a call: start it once, wait for it, pass decisions on to it.

The id of the child is derived from the call's id, so that a call that runs again finds it. When
the call ends, the child is cancelled.
"""

from functools import partial
from typing import Any

from awaken.authoring.output import OutputInvalid
from awaken.authoring.results import to_json_form
from awaken.contracts.backend_results import (
    BackendRunOutput,
    BackendRunResult,
    BackendRunStatus,
    backend_status,
)
from awaken.contracts.backends.errors import BackendExecutionFailed, ExecutionBackendError
from awaken.contracts.lifecycle import NaturalEnd, Suspended, Termination, reason_text
from awaken.contracts.plugins.loop_state import BACKEND_OUTPUT
from awaken.contracts.runs.records import RunRecord, RunRequest, WaitingReason
from awaken.contracts.suspension.tickets import Ticket
from awaken.contracts.tools.sub_runs import Delegation
from awaken.runtime.outbox import delegate_of
from awaken.runtime.run import Run
from awaken.runtime.tools.delegate_tickets import (
    find_deleted_child,
    load_deleted_child,
    questions_of_delegate,
    stop_child,
)

from .child_requests import agent_request, is_child
from .delegates import Children
from .progress import ProgressForwarder


async def run_delegate(
    children: Children,
    run: Run,
    call_id: str,
    forwarder: ProgressForwarder,
    delegation: Delegation,
) -> BackendRunResult:
    """Run another agent on a prompt; return its result when it has ended or waits for input.

    Raises:
        ExecutionBackendError: The agent cannot be called.
    """
    child_id, answer = forwarder.child_run_id, delegation.answer
    # Built only when there is no child yet: a child that was started may always finish.
    request = partial(_request_child, run, call_id, child_id, delegation)
    try:
        record = await children.wait_until_settled(run, forwarder, request)
        asked = questions_of_delegate(run.tickets.get(call_id))
        if (
            record is not None
            and answer is not None
            and await children.pass_on(record, answer, asked)
        ):
            record = await children.wait_until_settled(run, forwarder, request)
    except ExecutionBackendError:
        # Nothing was started.
        raise
    except BaseException:
        if run.journal.closed_by is None:
            # The call has ended, for any reason: no call waits for the child any more.
            children.cancel_here(child_id)
            run.order(stop_child(run.identity, child_id))
        raise
    record = record or find_deleted_child(answer, child_id)
    record = record or await load_deleted_child(run.store, child_id)
    if record is None or not is_child(run, record):
        raise BackendExecutionFailed(problem=f"the thread of run '{child_id}' was deleted")
    result = await _result(run, record)
    if result.status.is_waiting and not delegation.may_wait:
        # The answer that the caller uses is this one: a decision on the child would change nothing.
        run.order(stop_child(run.identity, child_id))
    return result


async def _request_child(
    run: Run, call_id: str, child_id: str, delegation: Delegation
) -> RunRequest | None:
    """Build the request of a child that does not exist; None if it existed before.

    The call has waited for it, or an earlier execution of the run has started it.
    """
    ticket = run.tickets.get(call_id)
    if ticket is not None and delegate_of(ticket) == child_id:
        return None
    may_have_begun = run.is_continued or run.recovery is not None
    if may_have_begun and await load_deleted_child(run.store, child_id) is not None:
        return None
    return await agent_request(run, call_id, child_id, delegation)


async def _result(run: Run, record: RunRecord) -> BackendRunResult:
    """Return the result of a child from its record."""
    tickets: tuple[Ticket, ...] = ()
    if record.waiting is not None:
        status, message = _wait_status(record), record.waiting.question or record.waiting.message
        tickets = await run.store.list_tickets(record.thread_id)
    else:
        assert record.termination is not None
        status, message = _end_status(record.termination, record.backend_status)
    return BackendRunResult(
        agent_id=record.active_agent_id or record.agent_id,
        run_id=record.run_id,
        thread_id=record.thread_id,
        status=status,
        termination=record.termination or Suspended(),
        message=message,
        response=record.final_output or "",
        output=await _output(run, record),
        steps=record.steps,
        usage=record.usage,
        tickets=tickets,
    )


async def _output(run: Run, record: RunRecord) -> BackendRunOutput:
    """Return the output of the child; only a remote one can have more than its text."""
    known = run.pinned.registries.agents.get(record.agent_id)
    # An unknown agent was resolved by the host's resolver, in an earlier process.
    if known is None or known.spec.endpoint is not None:
        checkout = await run.store.checkout(record.thread_id)
        stored = None if checkout is None else checkout.state.get(BACKEND_OUTPUT.name)
        if stored is not None:
            return BACKEND_OUTPUT.decode(stored)
    return BackendRunOutput(text=record.final_output, data=_decode_data(run, record))


def _decode_data(run: Run, record: RunRecord) -> Any:
    """The answer as JSON of the agent's output type; None if it has none, or has changed since."""
    speaker = run.pinned.registries.agents.get(record.active_agent_id or record.agent_id)
    output = None if speaker is None else speaker.output
    if output is None or output.schema is None or not isinstance(record.termination, NaturalEnd):
        return None
    try:
        return to_json_form(output.decode(record.final_output or ""))
    except OutputInvalid:
        return None


def _end_status(
    termination: Termination, reported: BackendRunStatus | None
) -> tuple[BackendRunStatus, str | None]:
    """Return how a child ended: as its backend reported, else by its termination."""
    status, message = backend_status(termination)
    if reported is None or reported is status:
        return status, message
    is_failed = reported is BackendRunStatus.FAILED
    return reported, message or reason_text(termination) if is_failed else None


def _wait_status(record: RunRecord) -> BackendRunStatus:
    assert record.waiting is not None
    if record.waiting.message == "auth_required":
        return BackendRunStatus.WAITING_AUTH
    if record.waiting.reason is WaitingReason.USER_INPUT:
        return BackendRunStatus.WAITING_INPUT
    return BackendRunStatus.SUSPENDED
