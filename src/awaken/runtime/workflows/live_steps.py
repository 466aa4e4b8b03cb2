"""Executing the steps of a workflow that are not recorded: the same gates and tools as a model's.

A step's call and its result enter the transcript together, when the step is over, so that branches
may suspend independently. Its record is in the same commit, which is durable before the function
sees the result.
"""

import asyncio
import hashlib
from functools import partial
from typing import Any

import msgspec

from awaken.contracts.events import StateSnapshot, StepEnd, ToolCallReady
from awaken.contracts.lifecycle import TicketStatus
from awaken.contracts.messages.deltas import ToolCallStart
from awaken.contracts.messages.message import Message, Role, ToolCall
from awaken.contracts.phases import Phase
from awaken.contracts.plugins.loop_state import RUN_LIFECYCLE
from awaken.contracts.plugins.plugin import BeforeToolExecuteContext, Block, SetResult, Suspend
from awaken.contracts.runs.records import RunKind
from awaken.contracts.state.keys import EMPTY_COMMAND
from awaken.contracts.storage.store import ToolRecord, ToolRecordStatus
from awaken.contracts.suspension.tickets import SuspendTicket, Ticket, ToolCallResume
from awaken.contracts.tool_results import ToolResult, ToolStatus
from awaken.contracts.tools.tool import Tool, ToolEffect, ToolOutput
from awaken.contracts.workflows.steps import StepKind, make_call_id, make_call_prefix, read_path
from awaken.runtime.journal.bookmark import PendingAfterHook
from awaken.runtime.loop.closing import count_completed
from awaken.runtime.phases.commands import dispatch_effects
from awaken.runtime.phases.contexts import tool_phase_context
from awaken.runtime.phases.runner import run_phase
from awaken.runtime.plugins.input_screens import look_at_decision
from awaken.runtime.progress import Recovery
from awaken.runtime.run import Run
from awaken.runtime.spending.questions import question
from awaken.runtime.switches import NO_SWITCHES
from awaken.runtime.tools.batch import execute_alone, is_stale
from awaken.runtime.tools.execution import (
    ToolExecution,
    check_attempt,
    keep_output,
    prepare_attempt,
)
from awaken.runtime.tools.gate import ask_gates, refuse_disabled
from awaken.runtime.tools.recall import reconcile_lost
from awaken.runtime.tools.settle import (
    CANCELLED,
    apply_updates,
    let_delegate_go,
    run_hooks_after,
    write_result,
)

from .event_queue import EventQueue, WaitingEvent
from .flow import Flow
from .intents import IntentWriter
from .step_errors import explain_timeout
from .step_journal import WorkflowStep
from .wait_answers import build_answer, edit_call, limit_wait, read_refusal, sort_answers
from .workflow_tools import AskTool, NamedTool, WantedTool

_NO_EFFECT = ToolEffect.NONE


class LiveSteps:
    """Executes the steps of one run in this process."""

    def __init__(self, run: Run, flow: Flow) -> None:
        self._run = run
        self._flow = flow
        self._branches = flow.branches
        self._lock = asyncio.Lock()
        """Gates, hooks and settling: one step after the other, as in a model's run.

        So a result is durable before a later one is recorded.
        """
        self._intents = IntentWriter(run)
        self._place = flow.journal.last_place
        self._call_prefix = make_call_prefix(run.identity.run_id)
        self.events = EventQueue(run, flow.journal.steps)
        self._checks: dict[str, Any] = {}

    @property
    def deps(self) -> Any:
        """The open dependencies of the runtime."""
        found = self._run.services.dependencies
        return None if found is None else found.get()

    # --- markers and values ---

    def note(self, step: WorkflowStep, data: Any = None) -> None:
        """Write a marker with the next commit; a race is open until its winner is recorded."""
        is_open = step.kind is StepKind.RACE
        self._record(step, None if is_open else ToolResult(tool_name=step.name, data=data))

    async def read_value(self, step: WorkflowStep) -> ToolResult:
        """Read the clock, a random number or a new id; durable when it is returned."""
        services = self._run.services
        data: int | float | str
        match step.kind:
            case StepKind.NOW:
                data = services.clock.now_ms()
            case StepKind.UUID:
                data = services.ids.new_id()
            case _:
                seed = hashlib.blake2b(services.ids.new_id().encode(), digest_size=7).digest()
                data = (int.from_bytes(seed) >> 3) / (1 << 53)
        result = ToolResult(tool_name=step.name, data=data)
        async with self._lock:
            self._record(step, result)
            await self._run.flush()
        return result

    async def end_race(self, step: WorkflowStep, winner: int, losers: tuple[str, ...]) -> None:
        """Record the winner of a race, and close what the losers wait for."""
        run = self._run
        async with self._lock:
            self._close_tickets(losers)
            self._record(step, ToolResult(tool_name=step.name, data={"winner": winner}))
            await run.flush()

    def release_losers(self, losers: tuple[str, ...]) -> None:
        """Close what losers still wait for, and keep the events that they did nothing with."""
        self._close_tickets(losers)
        is_last = partial(self._flow.journal.is_last, losers=losers)
        if self.events.give_back(losers, is_last):
            self.release_answered()

    def _close_tickets(self, losers: tuple[str, ...]) -> None:
        run = self._run
        for call_id, ticket in tuple(run.tickets.items()):
            if read_path(call_id).startswith(losers):
                self._close_ticket(ticket, "race")
                run.tickets.pop(call_id)
                let_delegate_go(run, ticket)

    # --- calls ---

    async def call(
        self, step: WorkflowStep, tool: WantedTool, timeout_ms: int | None
    ) -> ToolResult:
        """Call a tool, through gates, budgets and tickets."""
        call = self._make_call(step)
        own = tool if isinstance(tool, AskTool) else None
        self._offer(tool)
        self._forget_lost_wait(step)
        resume, lost = None, None
        number = 0 if step.record is None else step.record.attempt
        message_id = ""
        try:
            if step.is_waiting:
                resume = await self._await_decision(step)
            elif step.record is not None:
                resume = self._find_decision(step)
                lost = await self._recover_lost(step, edit_call(call, resume), own, step.record)
            while True:
                number += 1
                call = edit_call(call, resume)
                message_id = self._announce(call) if resume is None else ""
                if lost is None:
                    attempt, output, is_gated = await self._attempt(
                        step, call, resume, own, number=number, timeout_ms=timeout_ms
                    )
                else:
                    attempt, is_gated, number = lost, False, lost.number
                    assert lost.output is not None
                    output, lost = lost.output, None
                if timeout_ms is not None and output.result.status is ToolStatus.PENDING:
                    due_ms = self._run.services.clock.now_ms() + timeout_ms
                    output = limit_wait(output, due_ms)
                result = await self._settle(
                    step, call, output, resume, attempt, message_id=message_id, is_gated=is_gated
                )
                if result.status is not ToolStatus.PENDING:
                    return result
                resume = await self._await_decision(step)
        except asyncio.CancelledError:
            self._interrupt(step, call, message_id)
            raise

    def _make_call(self, step: WorkflowStep) -> ToolCall:
        return ToolCall(id=self._name_call(step), name=step.name, arguments=step.arguments)

    def _name_call(self, step: WorkflowStep) -> str:
        return make_call_id(self._call_prefix, step.generation, step.path)

    def _make_keys(self, step: WorkflowStep) -> tuple[str, str]:
        """Return the key of an attempt, and that which its tool sees: it is one for all attempts.

        An effect that was not heard of must be recognized when it is asked for again.
        """
        run_id, own = self._run.identity.run_id, f"{step.generation}:{step.path}"
        return f"{run_id}:{own}", f"{run_id}:{self._branches.find_current().attempts_of or own}"

    def _forget_lost_wait(self, step: WorkflowStep) -> None:
        """Take a step again that is recorded as waiting, and whose ticket is not there."""
        if step.is_waiting and self._name_call(step) not in self._run.tickets:
            step.record = None

    def _offer(self, tool: WantedTool) -> None:
        """Let gates, switches and the pipeline know a tool that the workflow does not declare."""
        if isinstance(tool, AskTool | NamedTool):
            return
        run, name = self._run, tool.descriptor.id
        if name not in run.agent.tools and name not in run.pinned.registries.disabled_tools:
            run.agent = run.agent.with_tools((run.pinned.equip_tool(tool),))

    async def _attempt(
        self,
        step: WorkflowStep,
        call: ToolCall,
        resume: ToolCallResume | None,
        own: Tool | None,
        *,
        number: int,
        timeout_ms: int | None,
    ) -> tuple[ToolExecution | None, ToolOutput, bool]:
        """Gate a call and execute it; returns the execution, its output, and if a gate answered."""
        run = self._run
        async with self._lock:
            output = await self._ask_gates(call, resume)
            if output is not None:
                return None, output, True
            attempt = prepare_attempt(run, call, resume, own)
            await check_attempt(attempt)
            attempt.idempotency_key, attempt.shown_key = self._make_keys(step)
            attempt.number, attempt.is_journalled, attempt.is_step = number, False, True
            if attempt.output is not None:
                return attempt, read_refusal(step.name, attempt.output, resume), False
            if run.has_phases and run.has_work(Phase.BEFORE_TOOL_EXECUTE):
                context = tool_phase_context(run, BeforeToolExecuteContext, call, resume)
                await run_phase(run, Phase.BEFORE_TOOL_EXECUTE, context)
        assert attempt.tool is not None
        effect = attempt.tool.descriptor.effect
        if effect is not _NO_EFFECT:
            # Durable before it runs, so that a process that takes over knows that it may have run.
            await self._intents.write(self._record(step, None, attempt=number, effect=effect))
        output = await execute_alone(run, attempt, timeout_ms)
        while attempt.state is not None and is_stale(run, attempt.state):
            if effect is ToolEffect.ONCE:
                result = ToolResult.error_with_code(
                    call.name, "state_conflict", "another branch changed the same state"
                )
                return attempt, ToolOutput(result=result), False
            attempt.output, attempt.is_again = None, True
            output = await execute_alone(run, attempt, timeout_ms)
        if output.result.error_class == "tool_timeout":
            output = explain_timeout(output.result, effect, timeout_ms)
        return attempt, output, False

    async def _ask_gates(self, call: ToolCall, resume: ToolCallResume | None) -> ToolOutput | None:
        """Return the answer of the gates or of a budget, if it takes the place of the call."""
        run, decision = self._run, None
        if run.services.switches.current is not NO_SWITCHES and (
            refused := refuse_disabled(run, call, resume, None)
        ):
            return refused
        agent = run.agent
        if agent.env.gates or agent.approvals or run.record.purpose is not RunKind.CHAT:
            decision = await ask_gates(run, call, resume)
        if isinstance(decision, Block):
            result = ToolResult.error(call.name, decision.reason, code="blocked")
            return ToolOutput(result=result)
        if run.has_budgets and not isinstance(decision, Suspend):
            decision = await question(run, call, resume) or decision
        if decision is None:
            return None
        if isinstance(decision, SetResult):
            return keep_output(run, call.name, ToolOutput(result=decision.result))
        assert not isinstance(decision, Block)
        return ToolOutput(result=ToolResult.from_ticket(call.name, decision.ticket))

    async def _recover_lost(
        self, step: WorkflowStep, call: ToolCall, own: Tool | None, record: ToolRecord
    ) -> ToolExecution | None:
        """Return the outcome of a call that another process left running; None: run it again."""
        if record.effect is not ToolEffect.ONCE:
            return None
        run = self._run
        attempt = prepare_attempt(run, call, None, own)
        attempt.is_journalled, attempt.is_step = False, True
        attempt.idempotency_key, attempt.shown_key = self._make_keys(step)
        return await reconcile_lost(run, run.recovery or Recovery(), attempt, record)

    def _interrupt(self, step: WorkflowStep, call: ToolCall, message_id: str) -> None:
        """Answer a call whose run or branch was cancelled, unless it is answered or left for later.

        The commit of an answer may still be under way.
        """
        run = self._run
        is_left = self._flow.is_parked or run.journal.closed_by is not None
        if is_left or step.is_done or not message_id or call.id in run.tickets:
            return
        result = ToolResult.error(call.name, CANCELLED, code="interrupted")
        self._append_call(call, message_id)
        write_result(run, call, result)
        self._record(step, result)

    # --- waiting ---

    async def suspend(
        self, step: WorkflowStep, ticket: SuspendTicket, duration_ms: int | None, wanted: Any
    ) -> ToolResult:
        """Wait for a time, an event or a person."""
        run = self._run
        if self._flow.is_cancelled:
            # The run ends: it waits for nothing any more. The turn lets others go on meanwhile.
            await asyncio.sleep(0)
            raise asyncio.CancelledError
        self._forget_lost_wait(step)
        call = self._make_call(step)
        message_id, event = "", None
        if step.kind is StepKind.WAIT_FOR:
            self._checks[step.path] = wanted
        if step.record is None:
            message_id = self._announce(call)
            if step.kind is StepKind.WAIT_FOR:
                if self.events.has(step.name):
                    # Branches that wait for it already come first.
                    self.release_answered()
                event = self.events.take(step.path, step.name, wanted)
            is_over = step.kind is StepKind.SLEEP and not duration_ms
            if event is None and not is_over:
                message_id = ""
                now = run.services.clock.now_ms()
                expires_at = None if duration_ms is None else now + duration_ms
                asked = msgspec.structs.replace(ticket, expires_at=expires_at)
                result = ToolResult.from_ticket(step.name, asked)
                write_result(run, call, result)
                self._record(step, result)
                # Its deadline counts from now on, also while other branches execute.
                self._branches.changed.ring()
        resume = None
        if call.id in run.tickets:
            found = await self._await_answer(step)
            event, resume = (found, None) if isinstance(found, WaitingEvent) else (None, found)
        result = build_answer(step, event, resume)
        if event is not None and call.id in run.tickets:
            self._close_ticket(run.tickets[call.id], "event")
            resume = ToolCallResume(decision_id=event.message_id, result=event.payload)
        output = keep_output(run, call.name, ToolOutput(result=result))
        return await self._settle(step, call, output, resume, None, message_id=message_id)

    async def _await_decision(self, step: WorkflowStep) -> ToolCallResume:
        found = await self._await_answer(step)
        assert isinstance(found, ToolCallResume)
        return found

    async def _await_answer(self, step: WorkflowStep) -> "ToolCallResume | WaitingEvent":
        """Wait for the decision on a step's ticket, or for its event."""
        run = self._run
        if self._flow.is_cancelled:
            # The run ends: it waits for nothing any more.
            raise asyncio.CancelledError
        call_id = self._name_call(step)
        if run.tickets[call_id].decision is None:
            event = await self._branches.wait(call_id)
            if isinstance(event, WaitingEvent):
                return event
        decision = self._find_decision(step)
        assert decision is not None
        return decision

    def _find_decision(self, step: WorkflowStep) -> ToolCallResume | None:
        """Return the decision on the ticket of a step, if it has one."""
        ticket = self._run.tickets.get(self._name_call(step))
        if ticket is None or ticket.decision is None:
            return None
        shown, _ = look_at_decision(self._run.agent.env, ticket.decision)
        return shown

    def release_answered(self) -> bool:
        """Let the branches go on whose ticket is decided or whose event has come."""
        waits, has_released = self._branches.waits, False
        asked = {read_path(it): it for it in waits if it in self._run.tickets}
        for path in sort_answers(asked, self._run.tickets):
            key = asked[path]
            ticket = self._run.tickets[key]
            answer: Any = None
            if ticket.decision is None:
                is_event = ticket.suspension.action == "workflow:wait_for"
                wanted = self._checks.get(path)
                answer = self.events.take(path, ticket.tool_name, wanted) if is_event else None
                if answer is None:
                    continue
            has_released = True
            self._branches.release(key, answer)
        return has_released

    # --- writing ---

    def _announce(self, call: ToolCall) -> str:
        """Show that a call begins; returns the id of the message that will ask for it."""
        run = self._run
        run.begin_step()
        run.show(ToolCallStart(id=call.id, name=call.name))
        run.show(ToolCallReady(id=call.id, name=call.name, arguments=call.arguments))
        count_completed(run)
        run.step.is_open = False
        if run.feed.readers:
            run.emit(StateSnapshot(snapshot=run.state.export_values(RUN_LIFECYCLE)))
        run.show(StepEnd())
        return run.step.message_id

    async def _settle(  # noqa: PLR0913 - what a settled call has
        self,
        step: WorkflowStep,
        call: ToolCall,
        output: ToolOutput,
        resume: ToolCallResume | None,
        attempt: ToolExecution | None,
        *,
        message_id: str,
        is_gated: bool = False,
    ) -> ToolResult:
        """Write a result, its record and its state; all is durable when this returns.

        Not so the ticket of a suspended call: it is written before the run waits for it.
        """
        run = self._run
        async with self._lock:
            ticket = run.tickets.get(call.id)
            is_plain = output.command is EMPTY_COMMAND
            result = output.result if is_plain else apply_updates(run, call, output)
            if result.status is not ToolStatus.PENDING:
                self._append_call(call, message_id or run.services.ids.new_id())
            write_result(run, call, result, resume, attempt, is_gated=is_gated)
            tool, number = (None, 1) if attempt is None else (attempt.tool, attempt.number)
            effect = _NO_EFFECT if tool is None else tool.descriptor.effect
            updates = () if attempt is None or result is not output.result else attempt.updates
            self._record(step, result, attempt=number, effect=effect, updates=updates)
            if result.status is ToolStatus.PENDING:
                return result
            if output.command.effects and result is output.result:
                await run.flush()
                await dispatch_effects(run, output.command)
            if attempt is not None and run.has_work(Phase.AFTER_TOOL_EXECUTE):
                run.step.pending_after_hook = PendingAfterHook(
                    call=call,
                    result=result,
                    resume=resume,
                    question=None if ticket is None else ticket.question,
                )
                await run.flush()
                await run_hooks_after(run, run.step.pending_after_hook)
                run.step.pending_after_hook = None
            await run.flush()
        return result

    def _append_call(self, call: ToolCall, message_id: str) -> None:
        run = self._run
        run.append(
            Message(
                role=Role.ASSISTANT,
                id=message_id,
                tool_calls=(call,),
                metadata=run.step.metadata,
            )
        )

    def _record(
        self,
        step: WorkflowStep,
        result: ToolResult | None,
        *,
        attempt: int = 1,
        effect: ToolEffect = ToolEffect.NONE,
        updates: tuple[tuple[str, str, object], ...] = (),
    ) -> ToolRecord:
        """Write the newest state of a step with the next commit; without a result, its intent."""
        is_over = result is not None
        self._place += 1
        record = step.record = ToolRecord(
            run_id=self._run.identity.run_id,
            call_id=self._name_call(step),
            step=step.generation,
            tool_name=step.name,
            attempt=attempt,
            arguments_hash=step.arguments_hash,
            effect=effect,
            status=ToolRecordStatus.FINISHED if is_over else ToolRecordStatus.STARTED,
            result=result,
            updates=updates,
            kind=step.kind,
            place=self._place,
        )
        self._run.journal.tool_records += (record,)
        return record

    def _close_ticket(self, ticket: Ticket, because: str) -> None:
        run = self._run
        if ticket.status is TicketStatus.OPEN:
            run.journal.tickets[ticket.ticket_id] = msgspec.structs.replace(
                ticket,
                status=TicketStatus.CLOSED,
                closed_because=because,
                updated_at=run.services.clock.now_ms(),
            )
