"""The gate: allows a call, denies it, or suspends it with a question."""

from typing import Any

from awaken.contracts.plugins.loop_state import TOOL_FILTER, ToolFilter
from awaken.contracts.plugins.plugin import (
    Allow,
    BeforeInferenceContext,
    Block,
    GateDecision,
    SetResult,
    Suspend,
    ToolGateContext,
)
from awaken.contracts.record import Record
from awaken.contracts.state.keys import StateCommand
from awaken.contracts.suspension.permissions import (
    APPROVAL,
    ASKING_TOOLS,
    PERMISSION_ACTION,
    PermissionScope,
    ToolBehavior,
)
from awaken.contracts.suspension.tickets import (
    PendingToolCall,
    ResumeMode,
    SuspendTicket,
    Suspension,
)
from awaken.contracts.tool_results import ToolResult
from awaken.contracts.tools.tool import ToolDenied
from awaken.patterns import call_of

from .config import OnDeny, PermissionConfig
from .rules import APPROVAL_NEEDED, RuleSet, Verdict, find_hidden_tools, is_within


class PreparedPolicy(Record, frozen=True, kw_only=True):
    """The compiled section of an agent."""

    rules: RuleSet
    own: PermissionConfig = PermissionConfig()
    """The rules of the plugin, to which those of the agent's section are added."""
    config: PermissionConfig = PermissionConfig()
    """Both together: what `rules` is compiled from."""
    on_deny: OnDeny = OnDeny.RESULT
    tool_ids: frozenset[str] = frozenset()
    """The tools that were known when the rules were compiled."""
    hidden: frozenset[str] = frozenset()
    """The tools among them that the model never sees."""


async def permission_gate(context: ToolGateContext) -> GateDecision | Allow | None:
    """Allow a call, ask about it or deny it, by the rules, the answers and the call alone."""
    if context.call.name in ASKING_TOOLS:
        return None
    prepared: PreparedPolicy = context.prepared
    call = call_of(context.call.name, context.call.arguments)
    verdict: Verdict = await context.own.verdict(context, prepared.rules, call)
    if context.needs_approval and verdict.behavior is ToolBehavior.ALLOW and not verdict.names_tool:
        # The tool wants a person to approve: neither the default nor a broad rule does.
        verdict = await context.own.approval_verdict(context, call)
    match verdict.behavior:
        case ToolBehavior.ALLOW:
            return Allow(approves=context.needs_approval)
        case ToolBehavior.ASK:
            return Suspend(ticket=_ticket(context, verdict))
        case ToolBehavior.DENY:
            return _refusal(context.call.name, verdict, prepared.on_deny)


async def hide_denied_tools(context: BeforeInferenceContext) -> StateCommand | None:
    """Hide tools whose calls would all be denied."""
    prepared: PreparedPolicy = context.prepared
    denials = await context.own.denials(context)
    new = [tool_id for tool_id in context.tool_ids if tool_id not in prepared.tool_ids]
    hidden = [tool_id for tool_id in context.tool_ids if tool_id in prepared.hidden]
    hidden += find_hidden_tools(prepared.rules, new)
    if denials:
        hidden += find_hidden_tools(_NO_RULES, context.tool_ids, denials)
    if not hidden:
        return None
    return StateCommand().update(TOOL_FILTER, ToolFilter(excluded=tuple(dict.fromkeys(hidden))))


def question_pattern(verdict: Verdict) -> str:
    """The pattern that an answer applies to, unless the answer has its own."""
    return "*" if verdict.rule is None else verdict.rule.pattern.text


_NO_RULES = RuleSet()


def _ticket(context: ToolGateContext, verdict: Verdict) -> SuspendTicket:
    call = context.call
    return SuspendTicket(
        suspension=Suspension(
            id=APPROVAL if verdict is APPROVAL_NEEDED else "",
            action=PERMISSION_ACTION,
            message=f"Permission required for tool '{escape_unprintable(call.name)}'",
            parameters=_parameters(context, verdict),
        ),
        pending=PendingToolCall(id=call.id, name=call.name, arguments=call.arguments),
        resume_mode=ResumeMode.REPLAY_TOOL_CALL,
    )


def _parameters(context: ToolGateContext, verdict: Verdict) -> dict[str, Any]:
    """What the person who decides needs to know: the call, the rule, the possible scopes."""
    is_known = context.run.user_id is not None
    scopes = [
        scope.value
        for scope in PermissionScope
        if is_within(scope, verdict.scope) and (is_known or scope is not PermissionScope.USER)
    ]
    return {
        "tool": context.call.name,
        "arguments": context.call.arguments,
        "rule": verdict.rule_text,
        "remember": {
            "scopes": scopes,
            "tool": context.call.name,
            "pattern": question_pattern(verdict),
        },
    }


def _refusal(tool_name: str, verdict: Verdict, on_deny: OnDeny) -> GateDecision:
    reason = f"tool '{escape_unprintable(tool_name)}' is denied by the permission rules"
    if on_deny is OnDeny.END:
        return Block(reason=reason)
    error = ToolDenied(f"{reason}; this call will not be made")
    result = ToolResult.error(tool_name, str(error), code=error.code, rule=verdict.rule_text)
    return SetResult(result=result)


def escape_unprintable(text: str) -> str:
    """Text on one line with invisible characters escaped: people read it before they decide."""
    return "".join(
        mark if mark.isprintable() else mark.encode("unicode_escape").decode() for mark in text
    )
