"""What to do with a claimed dispatch, decided from the stored state of its thread."""

from collections.abc import Sequence
from itertools import chain

import msgspec

from awaken.contracts.errors import InvalidResume, ThreadHasWorkflow
from awaken.contracts.identity import normalize_id
from awaken.contracts.lifecycle import Cancelled, Failed, RunStatus, Termination, TicketStatus
from awaken.contracts.messages.message import Message
from awaken.contracts.plugins.loop_state import PENDING_MESSAGES
from awaken.contracts.runs.records import RunRecord, RunRequest, WaitingReason
from awaken.contracts.storage.dispatch import DispatchStatus, InputMode, Release, RunDispatch
from awaken.contracts.storage.store import Checkout
from awaken.contracts.suspension.tickets import ToolCallResume
from awaken.contracts.tasks import ORPHANED, SUB_AGENT
from awaken.runtime.journal.known_messages import filter_known

from .resume import list_undecided

Decision = tuple[str, ToolCallResume]

ATTEMPTS_EXHAUSTED = "attempts_exhausted"


class Drop(msgspec.Struct, frozen=True):
    """The run has ended, or has taken the input in and waits: nothing is left to deliver."""

    record: RunRecord


class EndRun(msgspec.Struct, frozen=True):
    """The run ends without being executed."""

    termination: Termination
    release: Release
    has_begun: bool


class Deliver(msgspec.Struct, frozen=True):
    """The run is started or continued; `decisions` are those that a recovered run has not seen."""

    request: RunRequest
    decisions: tuple[Decision, ...] = ()
    found: Checkout | None = None
    """The thread as it was read for a run that is new: under its claim it stays as it is."""


class RecoverFirst(msgspec.Struct, frozen=True):
    """Another run of the thread is recovered first; then the dispatch is planned again."""

    request: RunRequest


class EndFirst(msgspec.Struct, frozen=True):
    """Another run of the thread is cancelled first; then the dispatch is planned again."""

    termination: Termination


class Postpone(msgspec.Struct, frozen=True):
    """The run that waits on the thread must not take the input: the dispatch stays queued."""

    record: RunRecord


Delivery = Drop | EndRun | Deliver | RecoverFirst | EndFirst | Postpone


def delivery_of(
    dispatch: RunDispatch, checkout: Checkout | None, record: RunRecord | None
) -> Delivery:
    """Decide from the record of the dispatch's run and from the open run of its thread.

    Raises:
        InvalidResume: Another input has used the id of the run.
    """
    if record is not None and record.status is RunStatus.DONE:
        is_hinted = dispatch.request.run_id_hint == record.run_id
        is_other = is_hinted and record.dispatch_id != dispatch.dispatch_id
        if is_other and not _is_read(dispatch, checkout):
            raise InvalidResume(run_id=record.run_id, problem="another input has used its id")
        return Drop(record)
    open_run = checkout.open_run if checkout is not None else None
    if open_run is not None and open_run.waiting is not None:
        open_run = open_run.release_hold()
    has_begun = open_run is not None and is_own(open_run, dispatch)
    if (cancelled := _find_cancel(dispatch, checkout, has_begun=has_begun)) is not None:
        return cancelled
    if open_run is not None and _is_over(dispatch, open_run, checkout):
        return Drop(open_run)
    if dispatch.is_exhausted:
        return _plan_end(dispatch, has_begun=has_begun)
    if has_begun and open_run is not None and _is_function(open_run):
        lost = Failed(message="the process that executed the task is gone", code=ORPHANED)
        return EndRun(lost, Release(), has_begun=True)
    plan = _plan_delivery(
        _with_undecided(dispatch, checkout), open_run, _list_new_messages(dispatch, checkout)
    )
    # No other dispatch has the id of this run: the store refuses it.
    is_new = record is None and isinstance(plan, Deliver)
    return msgspec.structs.replace(plan, found=checkout) if is_new else plan


def _find_cancel(
    dispatch: RunDispatch, checkout: Checkout | None, *, has_begun: bool
) -> EndRun | EndFirst | None:
    """The delivery that a requested cancel leads to; None when no cancel was requested."""
    cause = checkout.cancel_cause if checkout is not None else None
    if cause is not None and not has_begun and checkout is not None and checkout.open_run:
        return EndFirst(Cancelled(cause=cause))
    cause = cause or dispatch.cancel_cause
    if has_begun and checkout is not None and checkout.open_run and checkout.open_run.is_workflow:
        # It is entered again, to clean up.
        return None
    # Messages of tasks and of other agents enter the thread before a cancellation ends the run.
    if cause is None or (dispatch.is_notification and not has_begun):
        return None
    return EndRun(Cancelled(cause=cause), Release(), has_begun=has_begun)


def _is_over(dispatch: RunDispatch, open_run: RunRecord, checkout: Checkout | None) -> bool:
    """Whether a run has taken all of the input in and now waits for something else.

    The process with this dispatch died, and another delivery continued the run.
    """
    request = dispatch.request
    if open_run.status is not RunStatus.WAITING or dispatch.cancel_cause is not None:
        return False
    if dispatch.taken_by == open_run.run_id:
        return True
    if dispatch.is_release:
        reason = None if open_run.waiting is None else open_run.waiting.reason
        return reason not in (WaitingReason.MANUAL_PAUSE, WaitingReason.WORKFLOW_DIVERGED)
    tickets = () if checkout is None else checkout.tickets
    if request.decisions or any(it.status is TicketStatus.DECIDED for it in tickets):
        # Even if its messages are known, the dispatch continues the decided calls.
        return False
    is_known = bool(request.messages) and not _list_new_messages(dispatch, checkout)
    return is_known and is_own(open_run, dispatch)


def _is_read(dispatch: RunDispatch, checkout: Checkout | None) -> bool:
    """Whether the thread has all messages of a dispatch: its run may go on under another one."""
    messages = dispatch.request.messages
    return bool(messages) and checkout is not None and not filter_known(messages, checkout.messages)


def _list_new_messages(dispatch: RunDispatch, checkout: Checkout | None) -> tuple[Message, ...]:
    """The messages of a dispatch that neither its thread nor the pending messages contain."""
    messages = dispatch.request.messages
    is_again_likely = dispatch.is_notification or (
        checkout is not None and checkout.open_run is not None
    )
    if checkout is None or not is_again_likely:
        return messages
    stored = checkout.run_state.get(PENDING_MESSAGES.name)
    held = () if stored is None else PENDING_MESSAGES.decode(stored)
    return filter_known(messages, chain(checkout.messages, held))


def _with_undecided(dispatch: RunDispatch, checkout: Checkout | None) -> RunDispatch:
    if dispatch.mode is not InputMode.RESUME or not dispatch.request.decisions:
        return dispatch
    left = list_undecided(dispatch, () if checkout is None else checkout.tickets)
    request = msgspec.structs.replace(dispatch.request, decisions=left)
    return msgspec.structs.replace(dispatch, request=request)


def _is_function(run: RunRecord) -> bool:
    """Whether the run executes a function, which only the process that started it can do."""
    return run.task is not None and run.task.task_type != SUB_AGENT


def _plan_delivery(
    dispatch: RunDispatch, open_run: RunRecord | None, messages: tuple[Message, ...]
) -> Delivery:
    if open_run is None or open_run.status is RunStatus.CREATED:
        return Deliver(_fresh(dispatch, messages))
    if dispatch.is_held_by(open_run):
        return Postpone(open_run)
    if open_run.status is RunStatus.WAITING:
        # A message to a waiting run always takes the place of its decisions.
        return Deliver(_continue_request(dispatch, open_run, messages))
    if not is_own(open_run, dispatch):
        # Its own dispatch may be queued behind this one, and a thread is served in order.
        return RecoverFirst(continuation(open_run))
    return _plan_recovery(dispatch, open_run, messages)


def continuation(record: RunRecord, decisions: Sequence[Decision] = ()) -> RunRequest:
    """A request that continues a run as it was begun: gates must see the same mode and adapter."""
    return RunRequest(
        thread_id=record.thread_id,
        continue_run_id=record.run_id,
        decisions=tuple(decisions),
        run_mode=record.run_mode,
        adapter=record.adapter,
        dispatch_id=record.dispatch_id,
        session_id=record.session_id,
        transport_request_id=record.transport_request_id,
    )


def is_workflow_event(request: RunRequest, open_run: RunRecord) -> bool:
    """Whether a request to the thread of an open run is the event `message` of its workflow.

    Everything that a person says there is, on every wire and in every mode, whatever run id the
    request names: it supersedes nothing, and interrupts nothing.

    Raises:
        ThreadHasWorkflow: The request names another agent, which cannot answer in that run.
    """
    if not open_run.is_workflow or all(it.sender is not None for it in request.messages):
        return False
    if request.agent_id not in (None, open_run.agent_id):
        raise ThreadHasWorkflow(
            thread_id=open_run.thread_id, run_id=open_run.run_id, workflow=open_run.agent_id
        )
    return True


def address_to_workflow(request: RunRequest, open_run: RunRecord | None) -> RunRequest:
    """Return a request as the open run of its thread takes it, if that is a workflow's.

    Raises:
        ThreadHasWorkflow: The request names another agent.
    """
    if open_run is None or not is_workflow_event(request, open_run):
        return request
    if request.run_id_hint == open_run.run_id or not open_run.is_resumable_waiting:
        # The id of the run is used already, or its thread is busy: refused as for any run.
        return request
    return msgspec.structs.replace(
        request, agent_id=open_run.agent_id, run_id_hint=None, dispatch_id_hint=None
    )


def is_own(run: RunRecord, dispatch: RunDispatch) -> bool:
    """Whether the dispatch began the run, continues it or was taken in by it."""
    named = (dispatch.run_id, dispatch.taken_by, dispatch.request.continue_run_id)
    return run.run_id in named or run.dispatch_id == dispatch.dispatch_id


def _plan_end(dispatch: RunDispatch, *, has_begun: bool) -> EndRun:
    cause = f": {dispatch.last_error}" if dispatch.last_error else ""
    message = f"given up after {dispatch.max_attempts} attempts{cause}"
    release = Release(status=DispatchStatus.DEAD_LETTER, error=message)
    return EndRun(Failed(message=message, code=ATTEMPTS_EXHAUSTED), release, has_begun)


def _fresh(dispatch: RunDispatch, messages: tuple[Message, ...]) -> RunRequest:
    is_named = normalize_id(dispatch.request.continue_run_id) is not None
    hint = None if is_named else dispatch.run_id
    return _address_request(dispatch, messages=messages, run_id_hint=hint)


def _continue_request(
    dispatch: RunDispatch, waiting: RunRecord, messages: tuple[Message, ...]
) -> RunRequest:
    return _address_request(
        dispatch, messages=messages, run_id_hint=None, continue_run_id=waiting.run_id
    )


def _plan_recovery(
    dispatch: RunDispatch, running: RunRecord, messages: tuple[Message, ...]
) -> Deliver:
    """Continue where the run stopped; the input is delivered only if the run has not taken it in.

    The record names the dispatch of the last input; an earlier dispatch has `taken_by`.
    """
    is_taken_in = running.dispatch_id == dispatch.dispatch_id or dispatch.taken_by == running.run_id
    request = dispatch.request
    return Deliver(
        _address_request(
            dispatch,
            agent_id=None,
            run_id_hint=None,
            continue_run_id=running.run_id,
            messages=() if is_taken_in else messages,
            decisions=(),
            run_mode=running.run_mode,
            adapter=running.adapter,
        ),
        () if is_taken_in else request.decisions,
    )


def _address_request(dispatch: RunDispatch, **changes: object) -> RunRequest:
    return msgspec.structs.replace(
        dispatch.request,
        thread_id=dispatch.thread_id,
        dispatch_id=dispatch.dispatch_id,
        dispatch_id_hint=None,
        **changes,
    )
