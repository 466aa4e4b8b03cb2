"""The course of a workflow's run: enter the function, let it go on, park it, end it."""

import asyncio
import logging
from functools import partial
from typing import Any

import msgspec

from awaken.contracts.errors import AwakenError
from awaken.contracts.identity import derive_id
from awaken.contracts.lifecycle import (
    Cancelled,
    Failed,
    NaturalEnd,
    Suspended,
    Termination,
)
from awaken.contracts.messages.content import Text
from awaken.contracts.messages.deltas import TextDelta
from awaken.contracts.messages.message import Message, Role, user
from awaken.contracts.runs.records import Divergence, RunKind, RunRequest, Waiting, WaitingReason
from awaken.contracts.storage.dispatch import RunDispatch
from awaken.contracts.storage.store import ToolRecord
from awaken.contracts.suspension.tickets import Asks
from awaken.contracts.tenancy import namespace_in
from awaken.contracts.workflows.errors import InvalidWorkflowInput, WorkflowMisuse
from awaken.contracts.workflows.steps import iterate_continuations
from awaken.redaction import describe_error, make_loggable, remove_secrets
from awaken.runtime.loop.closing import end_step, tell_deadlines
from awaken.runtime.loop.queued_input import absorb_decisions, absorb_messages
from awaken.runtime.run import Run
from awaken.runtime.tools.execution import shorten_text
from awaken.runtime.tools.settle import run_hooks_after

from .event_queue import find_input, make_event_message
from .flow import ContinueAsNew, Flow
from .live_steps import LiveSteps
from .step_errors import WORKFLOW_FAILED, find_misuse
from .step_journal import INPUT, Diverged, find_arguments, find_first_identity
from .workflow_tools import check_size

logger = logging.getLogger(__name__)
_LOOK_S = 2.0
"""How often to check for queued input when no signal arrives."""
_SETTLE_S = 0.02
"""How long a ticket may wait for other branches, which nearly always wait as well: one commit."""
_OWN_CANCEL = (
    "The code of the workflow raised asyncio.CancelledError though nobody cancelled the run; catch "
    "it where something that the code awaits is cancelled."
)
_OVERDUE_S = 0.02
"""How soon to look again for the decision on a ticket whose deadline has passed."""


async def drive_workflow(run: Run) -> Termination:
    """Enter the function of a workflow and drive it until it ends or waits."""
    workflow = run.agent.workflow
    if workflow is None or not run.record.is_workflow:
        return _leave_to_other_code(run)
    if run.step.pending_after_hook is not None:
        await run_hooks_after(run, run.step.pending_after_hook)
        run.step.pending_after_hook = None
    records: tuple[ToolRecord, ...] = ()
    if run.is_continued or run.recovery is not None:
        # Once: what is recorded later, this entry records itself.
        records = await run.store.list_tool_records(run.identity.run_id)
    identity = find_first_identity(run.record, run.identity)
    flow = Flow(workflow, records, identity, run.inbox.signal)
    flow.journal.recall = partial(find_arguments, run.messages, run.tickets.values())
    steps = flow.port = LiveSteps(run, flow)
    return await WorkflowDriver(run, flow, steps).drive()


class WorkflowDriver:
    """One activation of a workflow's run."""

    def __init__(self, run: Run, flow: Flow, steps: LiveSteps) -> None:
        self._run = run
        self._flow = flow
        self._steps = steps
        self._grace_s = run.services.limits.cancel_grace_ms / 1000
        self._has_cancel = run.token.cause is not None
        self._looks = 0
        """How often a decision was looked for that is due."""

    async def drive(self) -> Termination:
        """Drive the function until it ends or waits."""
        run, flow = self._run, self._flow
        run.drain_inbox()
        workflow = run.agent.workflow
        assert workflow is not None
        try:
            arguments = workflow.read_arguments(find_input(run.record, run.messages))
        except InvalidWorkflowInput as error:
            if not (run.is_continued or run.recovery is not None):
                raise
            # Other code has taken it: that this code does not is no reason to end the run.
            found = Divergence(step=INPUT, recorded="input that was taken", found=str(error))
            return self._diverge(found)
        flow.enter(arguments)
        try:
            while True:
                try:
                    if (end := await self._advance()) is not None:
                        return end
                except asyncio.CancelledError:
                    if run.journal.closed_by is not None or self._has_cancel:
                        raise
                    if not run.cancels.absorb():
                        raise
                    self._has_cancel = True
        finally:
            await self._leave()

    async def _advance(self) -> Termination | None:
        """Wait until something has changed, and act on it; returns how the run ends or waits."""
        run, flow = self._run, self._flow
        await self._wait()
        assert flow.root is not None
        if flow.broken is not None:
            raise flow.broken
        if flow.divergence is not None or flow.fatal is not None or flow.root.done():
            return await self._end(flow.root)
        if run.has_input or run.inbox.messages:
            # Meanwhile the function may have gone on, or ended: then this looks again.
            await self._take_input()
        elif self._has_cancel and (flow.is_live or flow.branches.is_idle):
            # A run that was waiting has come back to where it was.
            return await self._cancel(flow.root)
        elif not flow.is_live and flow.branches.is_stalled:
            # A branch waits for what another one does: nothing more will be answered.
            flow.go_live(run.tickets)
        elif not flow.branches.is_idle:
            if run.journal.tickets and not await run.inbox.signal.wait(_SETTLE_S):
                # A branch waits while others go on: its ticket must not depend on them.
                await run.flush()
            if run.tickets and not run.journal.tickets:
                tell_deadlines(run)
        elif not flow.is_live:
            flow.check_replayed()
            if flow.divergence is None:
                flow.go_live(run.tickets)
        elif not self._steps.release_answered():
            return self._park()
        return None

    async def _end(self, root: "asyncio.Task[Any]") -> Termination:
        """End the run as its function does; or let it wait, if the function is not what it was."""
        flow = self._flow
        if flow.divergence is not None:
            return self._diverge(flow.divergence)
        if flow.fatal is not None:
            return self._finish(flow.fatal, None)
        if self._has_cancel:
            return Cancelled(cause=self._run.cancel_cause)
        if root.cancelled():
            return self._finish(WorkflowMisuse(problem=_OWN_CANCEL), None)
        error = root.exception()
        if isinstance(error, ContinueAsNew):
            # Events that were accepted meanwhile go to the fresh run.
            await self._take_input()
        if error is None or isinstance(error, ContinueAsNew):
            error = flow.find_unawaited() or error
        return self._finish(error, None if error is not None else root.result())

    async def _wait(self) -> None:
        """Wait until a branch is over, all of them wait, or input has arrived."""
        run, branches = self._run, self._flow.branches
        if branches.is_idle or (self._has_cancel and self._flow.is_live):
            await asyncio.sleep(0)
            return
        left_s = self._find_time_left()
        if await run.inbox.signal.wait(min(left_s, _LOOK_S)):
            return
        is_due = left_s < _LOOK_S
        self._looks = self._looks + 1 if is_due else 0
        if is_due or run.store.is_shared:
            run.has_input = True

    def _find_time_left(self) -> float:
        """Return for how long no timer of a waiting branch is due, in seconds.

        The sweeper decides those that are: a branch must not wait for it until others are done.
        """
        due = [it.expires_at for it in self._run.tickets.values() if it.decision is None]
        left_ms = min((it for it in due if it is not None), default=None)
        if left_ms is None:
            return _LOOK_S
        left_s = (left_ms + 1 - self._run.services.clock.now_ms()) / 1000
        pause_s: float = _OVERDUE_S * 2 ** min(self._looks, 10)
        return max(left_s, min(_LOOK_S, pause_s))

    async def _take_input(self) -> None:
        """Take in queued messages, events and decisions; durable before a step sees them."""
        run = self._run
        await absorb_decisions(run)
        run.has_input = True
        await absorb_messages(run)
        run.drain_inbox()
        if run.journal.absorbed or run.journal.messages:
            await run.flush()
        self._steps.release_answered()

    # --- how it ends or waits ---

    def _park(self) -> Termination:
        """Let the run wait: one commit writes it, and nothing of it stays in memory."""
        run = self._run
        tickets = run.tickets.values()
        asks = [it for it in tickets if it.question_kind is not Asks.EVENT]
        reason = WaitingReason.TOOL_PERMISSION if asks else WaitingReason.EXTERNAL_EVENT
        run.waiting = Waiting(
            reason=reason,
            ticket_ids=tuple(it.ticket_id for it in tickets),
            since_dispatch_id=run.identity.dispatch_id,
        )
        return Suspended()

    def _diverge(self, found: Divergence) -> Termination:
        return diverge(self._run, found, is_cancelled=self._has_cancel)

    def _finish(self, error: BaseException | None, result: Any) -> Termination:
        run, flow = self._run, self._flow
        if self._has_cancel:
            return Cancelled(cause=run.cancel_cause)
        try:
            # First: other code must not end a run that is beyond that point, however it ends.
            flow.journal.check_all_seen(_describe_end(error))
        except Diverged as found:
            return self._diverge(found.divergence)
        if isinstance(error, ContinueAsNew):
            return self._continue_as_new(error.text)
        if error is not None:
            return self._fail(error)
        workflow = run.agent.workflow
        assert workflow is not None
        try:
            text = workflow.encode_result(result)
            limit = run.services.limits.step_result_bytes
            check_size(f"The result of workflow '{run.agent.spec.id}'", text, limit)
        except AwakenError as refusal:
            return Failed(message=str(refusal), code=refusal.code)
        self._answer(text)
        run.output = result
        return NaturalEnd()

    def _answer(self, text: str) -> None:
        """Write the result as the answer of the run."""
        run = self._run
        if not text:
            run.response = ""
            return
        run.begin_step()
        run.show(TextDelta(delta=text))
        run.append(
            Message(
                role=Role.ASSISTANT,
                id=run.step.message_id,
                content=(Text(text=text),),
                metadata=run.step.metadata,
            )
        )
        end_step(run)

    def _fail(self, error: BaseException) -> Termination:
        # Of a TaskGroup, what it was refused for has the way out.
        error = find_misuse(error) or error
        if isinstance(error, AwakenError):
            return Failed(message=remove_secrets(str(error)), code=error.code)
        known = self._flow.last_failure
        where = "" if known is None else f" (after step {known.step}, {known.name})"
        logger.warning("A workflow raised.", exc_info=make_loggable(error))
        text = shorten_text(describe_error(error), self._run.services.limits.tool_output_chars)
        return Failed(message=f"{text}{where}", code=WORKFLOW_FAILED)

    def _continue_as_new(self, text: str) -> Termination:
        """End the run; the same commit queues a fresh one on the thread.

        The fresh one begins with the events that no step has taken.
        """
        run = self._run
        record, identity = run.record, run.identity
        if identity.parent_run_id is not None:
            problem = "a workflow that another run asked cannot continue as a new run"
            return Failed(message=problem, code=WorkflowMisuse.code)
        run_id = next(iterate_continuations(identity.run_id))
        message = user(text)
        dispatch_id = derive_id(identity.run_id, "continue")
        request = RunRequest(
            thread_id=identity.thread_id,
            agent_id=run.agent.spec.id,
            messages=(
                msgspec.structs.replace(message, id=derive_id(run_id, "input")),
                *(
                    make_event_message(derive_id(run_id, it.message_id), it.name, it.payload)
                    for it in self._steps.events.list_waiting()
                ),
            ),
            run_id_hint=run_id,
            tenant_id=identity.tenant_id,
            user_id=identity.user_id,
            origin=identity.origin,
            run_mode=identity.run_mode,
            adapter=identity.adapter,
            context=record.context,
            dispatch_id=dispatch_id,
            **_keep_trial(run),
        )
        successor = RunDispatch(
            dispatch_id=dispatch_id,
            thread_id=identity.thread_id,
            run_id=run_id,
            request=request,
            priority=0,
        )
        run.successors = (successor,)
        run.record = msgspec.structs.replace(record, continued_as=run_id)
        named = run_id.removeprefix(namespace_in(run_id))
        shown = msgspec.json.encode({"continued_as": named}).decode()
        self._answer(shown)
        return NaturalEnd()

    async def _cancel(self, root: "asyncio.Task[Any]") -> Termination:
        """Let the function clean up: it receives the cancellation where it is."""
        flow = self._flow
        flow.is_cancelled = True
        flow.go_live(self._run.tickets, is_released=False)
        root.cancel()
        await asyncio.wait((root,), timeout=self._grace_s)
        return Cancelled(cause=self._run.cancel_cause)

    async def _leave(self) -> None:
        await self._flow.leave(self._grace_s)


def _keep_trial(run: Run) -> dict[str, Any]:
    """Return what keeps the fresh run of a trial a trial; in reality it takes what is live."""
    record = run.record
    if record.world is None and record.purpose is RunKind.CHAT:
        return {}
    return {
        "world": record.world,
        "purpose": record.purpose,
        "publication": record.publication,
        "budgets": run.request.budgets,
        "budget_group": run.request.budget_group,
    }


def _leave_to_other_code(run: Run) -> Termination:
    """Let a run wait whose agent has become a workflow, or the reverse."""
    one, two = "a workflow", "an agent with a model"
    if not run.record.is_workflow:
        one, two = two, one
    found = Divergence(step=INPUT, recorded=f"'{run.record.agent_id}' as {one}", found=two)
    return diverge(run, found, is_cancelled=run.token.cause is not None)


def diverge(run: Run, found: Divergence, *, is_cancelled: bool) -> Termination:
    """Let a run wait for other code; nothing of this entry is kept."""
    if is_cancelled:
        return Cancelled(cause=run.cancel_cause)
    run.journal.tool_records = ()
    run.journal.tickets.clear()
    problem = f"step {found.step}: recorded {found.recorded}, found {found.found}"
    logger.error("Run '%s' waits: its workflow diverged: %s", run.identity.run_id, problem)
    run.waiting = Waiting(
        reason=WaitingReason.WORKFLOW_DIVERGED,
        message=WaitingReason.WORKFLOW_DIVERGED.value,
        ticket_ids=tuple(it.ticket_id for it in run.tickets.values()),
        since_dispatch_id=run.identity.dispatch_id,
        problem=problem,
        diverged=found,
    )
    return Suspended()


def _describe_end(error: BaseException | None) -> str:
    if error is None:
        return "the end"
    if isinstance(error, ContinueAsNew):
        return "continue_as_new"
    return f"the end, raising {type(error).__name__}"
