"""Remembers answers that apply to later calls: "always allow" and "always deny".

An approval is stored before the call runs, a refusal after it was declined. Both phases may be
repeated after a crash; an answer that is added twice counts once.
"""

import logging

from awaken.contracts.phases import Phase
from awaken.contracts.plugins.loop_state import TOOL_CALL_STATES
from awaken.contracts.plugins.plugin import (
    AfterToolExecuteContext,
    BeforeToolExecuteContext,
    PhaseContext,
    ToolPhaseContext,
)
from awaken.contracts.state.keys import ScheduledActionSpec, StateCommand
from awaken.contracts.suspension.permissions import (
    APPROVAL,
    PERMISSION_ACTION,
    PermissionScope,
    Remember,
    ToolBehavior,
)
from awaken.contracts.suspension.remembered_answers import (
    FORGOTTEN,
    RUN_ANSWERS,
    SHARED_ANSWERS,
    THREAD_ANSWERS,
    RememberedAnswer,
    answers_after,
    project_place,
    user_place,
)
from awaken.contracts.suspension.tickets import DecisionAction, ToolCallResume
from awaken.patterns import PatternCall, PatternError, call_of

from .config import NAME
from .gate import question_pattern
from .remembered_rules import parse_stored_pattern
from .rules import APPROVAL_NEEDED, Rule, Verdict, decide, is_within

logger = logging.getLogger(__name__)

SHARE_APPROVAL = ScheduledActionSpec[RememberedAnswer](
    "permission.share_approval", Phase.BEFORE_TOOL_EXECUTE, RememberedAnswer
)
SHARE_REFUSAL = ScheduledActionSpec[RememberedAnswer](
    "permission.share_refusal", Phase.AFTER_TOOL_EXECUTE, RememberedAnswer
)


async def remember_approval(context: BeforeToolExecuteContext) -> StateCommand | None:
    """Remember that calls like this one are allowed, if the decision says so."""
    resume, call = context.resume, context.call
    if resume is None or resume.remember is None:
        return None
    if not _is_ours(context):
        return None
    asked = context.state(TOOL_CALL_STATES).get(call.id)
    arguments = call.arguments if asked is None else asked.arguments
    return _remember(context, call_of(call.name, arguments), resume)


async def remember_refusal(context: AfterToolExecuteContext) -> StateCommand | None:
    """Remember that calls like this one are denied, if the decision says so."""
    resume, call = context.resume, context.call
    if resume is None or resume.remember is None or resume.action is not DecisionAction.CANCEL:
        return None
    if not _is_ours(context):
        return None
    return _remember(context, call_of(call.name, call.arguments), resume)


def _is_ours(context: ToolPhaseContext) -> bool:
    """Whether this plugin asked: an answer to another plugin's question is no permission."""
    return (context.asked_by, context.suspension_reason) == (NAME, PERMISSION_ACTION)


async def share_answer(context: PhaseContext, answer: RememberedAnswer) -> None:
    """Store an answer for all runs of its project or its user."""
    run, profile = context.run, context.profile
    is_personal = answer.scope is PermissionScope.USER
    place = user_place(run.tenant_id, run.user_id) if is_personal else project_place(run.tenant_id)
    assert profile is not None
    assert place is not None
    # After a crash this may run again, when a user has already revoked the answer.
    if answer.id not in await profile.read(FORGOTTEN, place):
        await profile.change(SHARED_ANSWERS, place, lambda it: answers_after(it, answer))
    context.own.read_again()


def _remember(
    context: ToolPhaseContext, call: PatternCall, resume: ToolCallResume
) -> StateCommand | None:
    # Earlier answers are not considered here: a rule asks, or the tool.
    is_approval = context.suspension_id == APPROVAL
    verdict = APPROVAL_NEEDED if is_approval else decide(context.prepared.rules, call)
    if verdict.behavior is not ToolBehavior.ASK:
        return None
    answer = _build_answer(context, call, resume, verdict)
    if answer is None:
        return None
    match answer.scope:
        case PermissionScope.ONCE:
            return None
        case PermissionScope.RUN:
            return StateCommand().update(RUN_ANSWERS, answer)
        case PermissionScope.THREAD:
            return StateCommand().update(THREAD_ANSWERS, answer)
        case PermissionScope.PROJECT | PermissionScope.USER:
            is_approval = isinstance(context, BeforeToolExecuteContext)
            return StateCommand().schedule(SHARE_APPROVAL if is_approval else SHARE_REFUSAL, answer)


def _build_answer(
    context: ToolPhaseContext, call: PatternCall, resume: ToolCallResume, verdict: Verdict
) -> RememberedAnswer | None:
    remember = resume.remember
    assert remember is not None
    is_refusal = resume.action is DecisionAction.CANCEL
    behavior = ToolBehavior.DENY if is_refusal else ToolBehavior.ALLOW
    if remember.pattern is not None and not _covers(remember.pattern, behavior, call):
        return None
    scope = _limit_scope(context, remember, verdict)
    if scope is not remember.scope:
        said = (remember.scope.value, context.call.id, scope.value)
        logger.info("An answer for the %s to call '%s' is remembered for the %s only.", *said)
    return RememberedAnswer(
        pattern=remember.pattern or question_pattern(verdict),
        behavior=behavior,
        scope=scope,
        # "Always" applies to the tool that was shown, even if the pattern matches others.
        tool=call.tool_id,
        narrowed_from=None if scope is remember.scope else remember.scope,
        call_id=context.call.id,
        run_id=context.run.run_id,
        decided_by=resume.decided_by,
        decided_at=resume.updated_at,
    )


def _covers(text: str, behavior: ToolBehavior, call: PatternCall) -> bool:
    """Whether the pattern of a decision matches the call that was asked about."""
    try:
        if Rule(parse_stored_pattern(text), behavior).fits(call):
            return True
        problem = "it does not match the call that was asked about"
    except PatternError as error:
        problem = str(error)
    logger.warning("Pattern %r is not remembered: %s", text[:200], problem)
    return False


def _limit_scope(
    context: ToolPhaseContext, remember: Remember, verdict: Verdict
) -> PermissionScope:
    """The scope of the answer: at most that of the rule, and the thread if the user is unknown."""
    scope = remember.scope if is_within(remember.scope, verdict.scope) else verdict.scope
    is_shared = scope in (PermissionScope.USER, PermissionScope.PROJECT)
    is_anonymous = scope is PermissionScope.USER and context.run.user_id is None
    return (
        PermissionScope.THREAD if is_anonymous or (is_shared and context.profile is None) else scope
    )
