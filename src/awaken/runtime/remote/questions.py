"""Questions of a remote agent, decided on this side while its run executes.

A call for which the remote agent asks permission goes through the gates of the run like one of the
run's own calls: a gate may allow it, refuse it, or open a ticket. If no gate answers, a ticket is
opened as well.
"""

import msgspec

from awaken.contracts.events import ToolCallDone, ToolCallReady, ToolCallResumed
from awaken.contracts.lifecycle import Blocked
from awaken.contracts.messages.deltas import ToolCallStart
from awaken.contracts.messages.message import ToolCall
from awaken.contracts.phases import Phase
from awaken.contracts.plugins.plugin import (
    AfterToolExecuteContext,
    Allow,
    BeforeToolExecuteContext,
    Block,
    SetResult,
    Suspend,
)
from awaken.contracts.suspension.tickets import (
    DecisionAction,
    SuspendTicket,
    ToolCallOutcome,
    ToolCallResume,
)
from awaken.contracts.tool_results import ToolResult
from awaken.contracts.tools.tool import ToolDenied
from awaken.runtime.loop.queued_input import absorb_decisions
from awaken.runtime.loop.task_waits import LOOK_S
from awaken.runtime.phases.contexts import tool_phase_context
from awaken.runtime.phases.runner import run_hooks_of
from awaken.runtime.plugins.input_screens import look_at_decision
from awaken.runtime.run import Run
from awaken.runtime.tools.gate import answer_of_gates
from awaken.runtime.tools.settle import build_ticket_event, open_ticket


class RemoteQuestions:
    """Opens tickets for the questions of the other side, while the run executes."""

    __slots__ = ("_run",)

    def __init__(self, run: Run) -> None:
        self._run = run

    async def ask(self, call: ToolCall, ticket: SuspendTicket) -> ToolCallResume:
        """The answer of the gates to a call, else the decision on a durable ticket.

        Any process may take the decision. A question is asked once: if its ticket exists, this
        waits for it or returns its decision. An approval counts only while the gates let the call
        pass.

        Raises:
            ToolDenied: A gate ends the run.
        """
        run = self._run
        decision = await self._decide_call(call) if call.id in run.tickets else None
        while True:
            match await answer_of_gates(run, call, decision):
                case Block(reason=reason):
                    run.end(Blocked(reason=reason))
                    raise ToolDenied(reason)
                case SetResult(result=result):
                    return await self._refuse_call(call, result)
                case Suspend(ticket=asked):
                    wanted = _join_tickets(ticket, asked)
                case Allow() if decision is None:
                    return ToolCallResume(decision_id="")
                case _ if decision is not None:
                    return await self._close_ticket(call, decision)
                case _:
                    wanted = ticket
            await self._open(call, wanted)
            decision = await self._decide_call(call)

    async def _decide_call(self, call: ToolCall) -> ToolCallResume:
        run = self._run
        while (decision := run.tickets[call.id].decision) is None:
            if run.has_input:
                await absorb_decisions(run)
            elif not await run.inbox.signal.wait(LOOK_S):
                run.has_input = True
        shown, blocked = look_at_decision(run.agent.env, decision)
        if blocked is not None:
            run.end(Blocked(reason=blocked))
            raise ToolDenied(blocked)
        return shown

    async def _close_ticket(self, call: ToolCall, decision: ToolCallResume) -> ToolCallResume:
        """Close the ticket, after the plugin that asked could remember the answer."""
        run = self._run
        if decision.remember is not None:
            await self._remember_answer(call, decision)
        del run.tickets[call.id]
        is_declined = decision.action is DecisionAction.CANCEL
        run.journal.announce(
            ToolCallResumed(target_id=call.id, result=decision.result, is_declined=is_declined)
        )
        await run.flush()
        return decision

    async def _remember_answer(self, call: ToolCall, decision: ToolCallResume) -> None:
        """Run the hooks of the plugin that asked, as for one of the run's own calls."""
        run, asked_by = self._run, self._run.tickets[call.id].asked_by
        if decision.action is DecisionAction.RESUME:
            before = tool_phase_context(run, BeforeToolExecuteContext, call, decision)
            await run_hooks_of(run, asked_by, Phase.BEFORE_TOOL_EXECUTE, before)
        else:
            declined = ToolResult.success(call.name, decision.result, decision.reason)
            after = tool_phase_context(
                run, AfterToolExecuteContext, call, decision, result=declined
            )
            await run_hooks_of(run, asked_by, Phase.AFTER_TOOL_EXECUTE, after)

    async def _refuse_call(self, call: ToolCall, result: ToolResult) -> ToolCallResume:
        """Announce that the call is refused, and return a declining decision."""
        run, failed = self._run, ToolCallOutcome.FAILED
        if run.tickets.pop(call.id, None) is not None:
            shown = {"error": result.message}
            run.journal.announce(ToolCallResumed(target_id=call.id, result=shown))
        else:
            self._show(call)
            run.journal.announce(ToolCallDone(id=call.id, result=result, outcome=failed))
        await run.flush()
        return ToolCallResume(decision_id="", action=DecisionAction.CANCEL, reason=result.message)

    async def _open(self, call: ToolCall, ticket: SuspendTicket) -> None:
        run = self._run
        if call.id not in run.tickets:
            self._show(call)
        result = ToolResult.from_ticket(call.name, ticket)
        run.journal.announce(build_ticket_event(result, open_ticket(run, call, ticket)))
        await run.flush()

    def _show(self, call: ToolCall) -> None:
        journal = self._run.journal
        journal.announce(ToolCallStart(id=call.id, name=call.name))
        journal.announce(ToolCallReady(id=call.id, name=call.name, arguments=call.arguments))


def _join_tickets(ticket: SuspendTicket, asked: SuspendTicket) -> SuspendTicket:
    """The ticket of a gate, with the other side's parameters and choices for its call."""
    theirs, ours = ticket.suspension.parameters or {}, asked.suspension.parameters or {}
    both = {**theirs, **ours} if isinstance(theirs, dict) and isinstance(ours, dict) else theirs
    suspension = msgspec.structs.replace(
        ticket.suspension,
        id=asked.suspension.id,
        action=asked.suspension.action,
        parameters=both,
    )
    return msgspec.structs.replace(
        ticket, suspension=suspension, deciders=asked.deciders, asked_by=asked.asked_by
    )
