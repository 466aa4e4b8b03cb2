"""Runs that execute at a remote backend: one remote turn between the usual first and last events.

The reference to the remote work is durable before the run waits for it. A cancellation reaches the
other side at once, or by an outbox order in the commit that ends the run.
"""

import asyncio
import logging
from functools import partial
from typing import Any

import msgspec

from awaken.authoring.functions import is_interruption
from awaken.contracts.backend_results import (
    BackendRunOutput,
    BackendRunResult,
    BackendRunStatus,
    backend_status,
)
from awaken.contracts.backends.errors import (
    BackendExecutionFailed,
    ExecutionBackendError,
    RemoteError,
)
from awaken.contracts.errors import AwakenError, StorageError
from awaken.contracts.events import InferenceComplete
from awaken.contracts.lifecycle import (
    BehaviorRequested,
    Cancelled,
    Failed,
    NaturalEnd,
    RunStatus,
    Stopped,
    StoppedReason,
    Suspended,
    Termination,
)
from awaken.contracts.messages.content import Text
from awaken.contracts.messages.deltas import TextDelta
from awaken.contracts.messages.message import Message, MessageMetadata, Role, as_blocks
from awaken.contracts.models.inference import StreamResult
from awaken.contracts.plugins.loop_state import BACKEND_OUTPUT, RUN_LIFECYCLE
from awaken.contracts.runs.records import Waiting, WaitingReason
from awaken.redaction import describe_error, make_loggable, remove_secrets
from awaken.runtime.inference.screens import screen_answer
from awaken.runtime.journal.bookmark import RemoteEnd
from awaken.runtime.loop.closing import end_step
from awaken.runtime.loop.loop import drive_run
from awaken.runtime.run import Run

from .abort import abort_later, abort_now, order_abort
from .backend_calls import call_backend
from .questions import RemoteQuestions

logger = logging.getLogger(__name__)

QUESTION_CHARS = 4096
WITHHELD = "[withheld: it has to be reviewed first]"
REMOTE = "remote"
"""The cancel cause of a run that the other side cancelled."""

_WAITING = {
    "input_required": WaitingReason.USER_INPUT,
    "user_input_required": WaitingReason.USER_INPUT,
    "auth_required": WaitingReason.TOOL_PERMISSION,
    "suspended": WaitingReason.TOOL_PERMISSION,
    "awaiting_tasks": WaitingReason.BACKGROUND_TASKS,
    "rate_limit": WaitingReason.RATE_LIMIT,
    "manual_pause": WaitingReason.MANUAL_PAUSE,
}


async def execute_remote_root_lifecycle(run: Run) -> BackendRunResult:
    """Execute a run at its backend, from its first event to its last.

    An error of the backend ends the run as failed; the caller gets a result, not an exception.
    """
    # The backend cannot receive input during its turn: it is queued, or refused.
    run.inbox.close()
    # The text of an earlier turn is not an answer of this one.
    if run.remote_end is not None:
        run.response = run.state.get(BACKEND_OUTPUT).text or ""
    elif run.step.ending is None:
        run.response = ""
    forget = run.token.on_cancel(partial(abort_later, run))

    async def turn(run: Run) -> Termination:
        forget()
        return await _turn(run)

    termination = (await drive_run(run, turn)).termination
    status, message = backend_status(termination)
    return BackendRunResult(
        agent_id=run.identity.agent_id,
        run_id=run.identity.run_id,
        thread_id=run.identity.thread_id,
        status=run.record.backend_status or status,
        termination=termination,
        message=message,
        response=run.response,
        output=run.state.get(BACKEND_OUTPUT),
        steps=run.record.steps,
        usage=run.usage,
    )


async def _turn(run: Run) -> Termination:
    """Execute one turn at the backend, unless another process has already written its end."""
    # An end that a plugin decided is final, and so is a cancellation that a plugin swallowed.
    if (ended := run.find_due_end() or run.step.ending) is not None:
        return ended
    if not run.step.is_open:
        run.begin_step()
    started_ms = run.services.clock.monotonic_ms()
    try:
        result = _check_result(await call_backend(run, RemoteQuestions(run)))
    except asyncio.CancelledError:
        if run.journal.closed_by is not None or not run.cancels.absorb():
            raise
        await run.cancels.carry_through(partial(abort_now, run))
        return Cancelled(cause=run.cancel_cause)
    except StorageError:
        raise
    except AwakenError as error:
        text = remove_secrets(_describe_error(error))
        result = _build_failure(run, Failed(message=text, code=error.code), text)
        is_left = isinstance(error, RemoteError) and error.is_work_left
        result = msgspec.structs.replace(result, is_work_left=is_left)
    except BaseException as error:
        if is_interruption(error):
            raise
        shown = make_loggable(error)
        logger.error("The backend of run '%s' failed.", run.identity.run_id, exc_info=shown)
        text = describe_error(error)
        result = _build_failure(run, Failed(message=text, code="backend_error"), text)
    result = _align_termination(_result_of_gate_stop(run) or result)
    if result.is_work_left:
        order_abort(run)
    _write(run, result, started_ms)
    return result.termination


def _check_result(result: object) -> BackendRunResult:
    """Refuse a malformed result.

    Raises:
        BackendExecutionFailed: Names what is wrong with the result.
    """
    if not isinstance(result, BackendRunResult):
        problem = f"the backend returned a {type(result).__name__}, not a BackendRunResult"
        raise BackendExecutionFailed(problem=problem)
    for name, kind in _FIELDS.items():
        value = getattr(result, name)
        if not isinstance(value, kind):
            problem = f"the '{name}' of the backend's result is a {type(value).__name__}"
            raise BackendExecutionFailed(problem=problem)
    return result


_FIELDS: dict[str, Any] = {
    "status": BackendRunStatus,
    "termination": Termination,
    "response": str,
    "output": BackendRunOutput,
    "steps": int,
}
"""The fields whose types are checked before a result is used; records do not check them."""


def _describe_error(error: AwakenError) -> str:
    """The problem as the other side or the transport reported it, without our error text."""
    problem = getattr(error, "problem", None) if isinstance(error, ExecutionBackendError) else None
    return problem if isinstance(problem, str) and problem else str(error)


def _result_of_gate_stop(run: Run) -> BackendRunResult | None:
    """The result of a run that a gate ended by blocking a call of the other side, else None."""
    lifecycle = run.state.get(RUN_LIFECYCLE)
    if lifecycle.status is not RunStatus.DONE or lifecycle.termination is None:
        return None
    return _build_failure(run, lifecycle.termination, backend_status(lifecycle.termination)[1])


def _build_failure(run: Run, termination: Termination, message: str | None) -> BackendRunResult:
    return BackendRunResult(
        agent_id=run.agent.spec.id,
        status=BackendRunStatus.FAILED,
        termination=termination,
        message=message,
        steps=0,
    )


def _align_termination(result: BackendRunResult) -> BackendRunResult:
    """The result with a termination that does not contradict its status.

    A waiting status becomes `Suspended`, and a status other than completed never ends as a success.
    Otherwise the backend's own termination is kept, whatever its status is.
    """
    status, ended = result.status, result.termination
    if status.is_waiting:
        ended = Suspended()
    elif status is not BackendRunStatus.COMPLETED and isinstance(ended, _NOT_FAILED):
        ended = _end_of(status, result.message)
    return msgspec.structs.replace(result, termination=ended)


_NOT_FAILED = (NaturalEnd, BehaviorRequested, Suspended)


def _end_of(status: BackendRunStatus, message: str | None) -> Termination:
    match status:
        case BackendRunStatus.TIMEOUT:
            return Stopped(reason=StoppedReason(code="timeout", detail=message))
        case BackendRunStatus.CANCELLED:
            return Cancelled(cause=REMOTE)
        case _:
            return Failed(message=message or "it failed", code="backend_error")


def _write(run: Run, result: BackendRunResult, started_ms: int) -> None:
    """Write the result into the run: its text, its output, its end."""
    output = result.output
    if output.text is None and result.response:
        output = BackendRunOutput(text=result.response, artifacts=output.artifacts, raw=output.raw)
    text, output = _screen_output(run, result, output)
    _count_steps(run, result)
    run.response = text
    if text:
        run.show(TextDelta(delta=text))
        run.append(
            Message(
                role=Role.ASSISTANT,
                id=run.step.message_id,
                content=as_blocks(text),
                metadata=run.step.metadata,
            )
        )
    run.usage = run.usage.plus(result.usage)
    if isinstance(result.termination, NaturalEnd | BehaviorRequested):
        model = run.agent.spec.model_id
        run.journal.announce(
            InferenceComplete(
                model=model,
                duration_ms=run.services.clock.monotonic_ms() - started_ms,
                started_at=run.opened_at + started_ms - run.started_ms,
            )
        )
    if output != run.state.get(BACKEND_OUTPUT):
        run.state.update(BACKEND_OUTPUT, output)
    run.remote_end = _end(run, result)
    run.step.is_over, run.step.ending = True, result.termination
    end_step(run)


def _count_steps(run: Run, result: BackendRunResult) -> None:
    """Count the steps of the other side in place of the one step that was open here.

    A turn after which the run waits counts at least once: the next input belongs to another step.
    """
    least = 1 if isinstance(result.termination, Suspended) else 0
    run.step.number += max(result.steps, least) - 1
    index = run.step.number - 1 if run.step.number else None
    run.step.metadata = MessageMetadata(run_id=run.identity.run_id, step_index=index)


def _screen_output(
    run: Run, result: BackendRunResult, output: BackendRunOutput
) -> tuple[str, BackendRunOutput]:
    """The answer of a remote agent, screened by the run's plugins.

    Output for which a screen requires a review is withheld: no ticket can be opened here.
    """
    if not run.agent.env.answer_screens:
        return result.text, output
    text = _look_at(run, result.text)
    rest = msgspec.json.encode([output.artifacts, output.raw]).decode()
    kept = output if _look_at(run, rest) == rest else BackendRunOutput()
    return text, BackendRunOutput(text=text, artifacts=kept.artifacts, raw=kept.raw)


def _look_at(run: Run, text: str) -> str:
    screened = screen_answer(run, StreamResult(content=(Text(text=text),)))
    return WITHHELD if screened.tool_calls else screened.text


def _end(run: Run, result: BackendRunResult) -> RemoteEnd:
    termination = result.termination
    reason = result.status_reason or result.status.status_reason(termination)
    waiting = None
    if isinstance(termination, Suspended):
        kind = _WAITING.get(reason, WaitingReason.EXTERNAL_EVENT)
        question = (result.message or "")[:QUESTION_CHARS] or None
        waiting = Waiting(
            reason=kind,
            since_dispatch_id=run.identity.dispatch_id,
            message=reason,
            question=question,
        )
    return RemoteEnd(status=result.status, reason=reason, termination=termination, waiting=waiting)
