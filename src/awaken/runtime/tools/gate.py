"""Asking the gates about a tool call, before every execution, resumed calls included."""

import asyncio
import logging

import msgspec

from awaken.authoring.functions import is_interruption
from awaken.contracts.errors import StoreUnavailable
from awaken.contracts.messages.content import escape_unprintable
from awaken.contracts.messages.message import ToolCall
from awaken.contracts.plugins.plugin import (
    Allow,
    Block,
    GateDecision,
    SetResult,
    Suspend,
    ToolGateContext,
)
from awaken.contracts.runs.records import RunKind
from awaken.contracts.suspension.permissions import (
    APPROVAL,
    ASKING_TOOLS,
    PERMISSION_ACTION,
    PERMISSION_ASKERS,
)
from awaken.contracts.suspension.tickets import (
    DecisionAction,
    PendingToolCall,
    SuspendTicket,
    Suspension,
    ToolCallResume,
)
from awaken.contracts.tool_results import ToolResult
from awaken.contracts.tools.tool import ToolEffect, ToolOutput, approval_of
from awaken.redaction import make_loggable
from awaken.runtime.phases.contexts import tool_phase_context
from awaken.runtime.plugins.registrar import WrongAnswer
from awaken.runtime.run import Run

from .execution import ToolExecution, check_attempt, context_of, prepare_attempt

logger = logging.getLogger(__name__)

PREVIEW = "preview"
"""What asks about the calls of a preview, as tickets name it."""
PREVIEW_ACTION = "tool:PreviewConfirm"
_TRIALS = {RunKind.PREVIEW: "preview", RunKind.REPLAY: "fork"}
"""Kinds of runs whose effects a person sees before they happen, as the person reads them."""
_RANK: dict[type, int] = {Allow: 0, SetResult: 1, Suspend: 2, Block: 3}


async def ask_gates(
    run: Run,
    call: ToolCall,
    resume: ToolCallResume | None = None,
    *,
    has_passed: bool = False,
) -> GateDecision | None:
    """Return the strictest answer of all gates, or None when the call may pass.

    A call that its tool wants to be approved passes if a gate or a person approves it. With
    `has_passed` the tool is not asked again: the same call has passed before.
    """
    wanted: bool | SetResult = False
    if call.name in run.agent.approvals and not (has_passed or _has_approval(run, call, resume)):
        wanted = await _ask_tool(run, call, resume)
    decision = await answer_of_gates(run, call, resume, needs_approval=wanted is True)
    if decision is not None and not isinstance(decision, Allow):
        return decision
    if isinstance(wanted, SetResult):
        return wanted
    if wanted and not (decision is not None and decision.approves):
        return _ask_for_approval(call)
    if run.record.purpose in _TRIALS and resume is None and run.record.world is None:
        return _ask_in_trial(run, call)
    return None


def _has_approval(run: Run, call: ToolCall, resume: ToolCallResume | None) -> bool:
    """Whether the approval of the call, with these arguments, is settled and stored.

    Then its tool is not asked again: what it says now must not undo what a person has decided, nor
    stop a call that was started.
    """
    if resume is not None and resume.action is DecisionAction.CANCEL:
        return True
    ticket = run.tickets.get(call.id) if resume is not None else None
    if ticket is not None and resume is not None:
        # Arguments that were edited for another question are new ones.
        is_edited = resume.arguments is not None
        asked = (ticket.question,) if is_edited else (ticket.question, *ticket.answered)
        if any(it[0] in PERMISSION_ASKERS and it[1] == PERMISSION_ACTION for it in asked):
            return True
        if is_edited:
            return False
        if not ticket.asked_by:
            # The tool asks a question of its own, so the call has reached it.
            return True
    return run.recovery is not None and call.id in run.recovery.attempts


async def _ask_tool(run: Run, call: ToolCall, resume: ToolCallResume | None) -> bool | SetResult:
    """Ask the tool whether a person has to approve the call; a failure to answer is a yes.

    A call that cannot run gets its error result at once: no person is asked about it.
    """
    approval = approval_of(run.agent.tools.get(call.name))
    if approval is None:
        return False
    # Loaded by the first tool that wants approvals: most programs have none.
    from awaken.authoring.foreign_calls import call_within  # noqa: PLC0415

    attempt = prepare_attempt(run, call, resume)
    if call.name in run.agent.checks:
        await check_attempt(attempt)
    if attempt.output is not None:
        return SetResult(result=attempt.output.result)
    try:
        context = context_of(attempt, run.state.snapshot())
        seconds = run.services.limits.hook_ms / 1000
        answer = await call_within(seconds, approval, attempt.arguments, context)
    except BaseException as error:
        if is_interruption(error):
            raise
        shown = make_loggable(error)
        logger.warning("The approval of tool %r failed; it asks.", call.name, exc_info=shown)
        return True
    return answer is not False


def _ask_for_approval(call: ToolCall) -> Suspend:
    suspension = Suspension(
        action=PERMISSION_ACTION,
        message=f"Approval required for tool '{escape_unprintable(call.name)}'",
        parameters={"tool": call.name, "arguments": call.arguments, "rule": APPROVAL},
    )
    pending = PendingToolCall(id=call.id, name=call.name, arguments=call.arguments)
    return Suspend(ticket=SuspendTicket(suspension=suspension, pending=pending, asked_by=APPROVAL))


async def answer_of_gates(
    run: Run,
    call: ToolCall,
    resume: ToolCallResume | None = None,
    *,
    needs_approval: bool = False,
) -> GateDecision | Allow | None:
    """Return the strictest answer of all gates, or None when no gate answers.

    Block beats Suspend beats SetResult; of equal answers the first counts. A gate that fails
    blocks, unless the store is away and the run can be delivered again. Allow counts if no gate
    objects. A question that was already decided for a resumed call is not asked again.
    """
    if resume is not None and resume.action is DecisionAction.CANCEL:
        # A call that will not run needs no permission.
        return None
    strictest: GateDecision | Allow | None = None
    for plugin, gate in run.agent.env.gates:
        context = tool_phase_context(run, ToolGateContext, call, resume)
        context.needs_approval = needs_approval
        context.own = run.own.get(plugin)
        context.prepared = run.agent.env.prepared.get(plugin)
        try:
            async with asyncio.timeout(run.services.limits.hook_ms / 1000):
                decision = _check_decision(plugin, await gate(context))
        except WrongAnswer as error:
            decision = Block(reason=f"gate of '{plugin}' failed: {error}")
        except BaseException as error:
            if is_interruption(error):
                raise
            if isinstance(error, StoreUnavailable) and run.is_recoverable:
                # The gate has not judged: the run goes on from its last commit when the store is
                # back, and an approved call is not lost.
                raise
            logger.exception("A gate of plugin '%s' failed; the call is blocked.", plugin)
            decision = Block(reason=f"gate of '{plugin}' failed: {type(error).__name__}")
        if decision is None or _is_answered(run, call, resume, decision):
            continue
        if (
            strictest is None
            or _RANK[type(decision)] > _RANK[type(strictest)]
            or (isinstance(decision, Allow) and decision.approves and isinstance(strictest, Allow))
        ):
            strictest = decision
        elif type(decision) is type(strictest) and not isinstance(decision, Allow):
            logger.error("Two gates answered call %r with %s.", call.id, type(decision).__name__)
    return strictest


def _check_decision(
    plugin: str, decision: GateDecision | Allow | None
) -> GateDecision | Allow | None:
    if decision is not None and type(decision) not in _RANK:
        answer = type(decision).__name__
        message = f"a gate answered {answer}; return Block, Suspend, SetResult, Allow or None"
        raise WrongAnswer(message)
    if isinstance(decision, Suspend):
        # A field of another type could be stored, and never be read again.
        asked = msgspec.convert(msgspec.to_builtins(decision.ticket), SuspendTicket)
        # The approval of one gate's question must not count for another gate.
        return Suspend(ticket=msgspec.structs.replace(asked, asked_by=plugin))
    return decision


def _is_answered(
    run: Run, call: ToolCall, resume: ToolCallResume | None, decision: GateDecision | Allow
) -> bool:
    if resume is None or not isinstance(decision, Suspend):
        return False
    ticket = run.tickets.get(call.id)
    if ticket is None:
        return False
    # A decision with edited arguments answers only its own question.
    earlier = ticket.answered if resume.arguments is None else ()
    return decision.ticket.question in (ticket.question, *earlier)


def _ask_in_trial(run: Run, call: ToolCall) -> Suspend | None:
    """Return the question about a call of a trial that has an effect; None: it may pass.

    A preview tries a configuration that is not live, and a fork does again what was done before:
    a person sees every effect before it happens.
    """
    tool = run.agent.tools.get(call.name)
    is_harmless = tool is None or tool.descriptor.effect is ToolEffect.NONE
    if is_harmless or call.name in ASKING_TOOLS:
        return None
    suspension = Suspension(
        action=PREVIEW_ACTION,
        message=f"This is a {_TRIALS[run.record.purpose]}: run tool "
        f"'{escape_unprintable(call.name)}'?",
        parameters={"tool": call.name, "arguments": call.arguments},
    )
    pending = PendingToolCall(id=call.id, name=call.name, arguments=call.arguments)
    return Suspend(ticket=SuspendTicket(suspension=suspension, pending=pending, asked_by=PREVIEW))


def refuse_disabled(
    run: Run,
    call: ToolCall,
    resume: ToolCallResume | None,
    attempt: ToolExecution | None = None,
) -> ToolOutput | None:
    """Return the answer to a call of a disabled tool; None if the call may pass.

    A call whose result is known, and one that is cancelled, is not executed, and passes.
    """
    is_known = attempt is not None and attempt.output is not None
    if is_known or (resume is not None and resume.action is DecisionAction.CANCEL):
        return None
    tool = run.agent.tools.get(call.name)
    reason = run.services.switches.current.why_tool_disabled(
        call.name, None if tool is None else tool.descriptor
    )
    if reason is None:
        return None
    return ToolOutput(result=ToolResult.error_with_code(call.name, "tool_disabled", reason))
