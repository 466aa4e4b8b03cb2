"""Questions of a remote agent, asked here of whoever may decide, while its run executes."""

from awaken.contracts.deltas import ToolCallStart
from awaken.contracts.events import ToolCallDone, ToolCallReady, ToolCallResumed
from awaken.contracts.messages import ToolCall
from awaken.contracts.suspension import SuspendTicket, ToolCallOutcome, ToolCallResume
from awaken.contracts.tool_results import ToolResult

from .absorbing import absorb_decisions
from .awaiting import LOOK_S
from .run import Run
from .tool_calls.settle import open_ticket


class Questions:
    """Asks whoever may decide on behalf of the other side, while the run executes."""

    __slots__ = ("_run",)

    def __init__(self, run: Run) -> None:
        self._run = run

    async def ask(self, call: ToolCall, ticket: SuspendTicket) -> ToolCallResume:
        """Open a durable ticket and wait until it is decided, from whichever process.

        A question that was asked before is not asked again: its ticket is waited for, or its
        decision returned.
        """
        run = self._run
        if call.id not in run.tickets:
            await self._open(call, ticket)
        while (decision := run.tickets[call.id].decision) is None:
            if run.has_input:
                await absorb_decisions(run)
            elif not await run.inbox.bell.wait(LOOK_S):
                run.has_input = True
        del run.tickets[call.id]
        run.journal.announce(ToolCallResumed(target_id=call.id, result=decision.result))
        await run.flush()
        return decision

    async def _open(self, call: ToolCall, ticket: SuspendTicket) -> None:
        run = self._run
        ticket_id = open_ticket(run, call, ticket)
        run.journal.announce(ToolCallStart(id=call.id, name=call.name))
        run.journal.announce(ToolCallReady(id=call.id, name=call.name, arguments=call.arguments))
        asked = ToolResult.suspended(call.name, ticket)
        outcome = ToolCallOutcome.SUSPENDED
        run.journal.announce(
            ToolCallDone(id=call.id, result=asked, outcome=outcome, ticket_id=ticket_id)
        )
        await run.flush()
