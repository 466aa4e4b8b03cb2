"""Making the context of a phase from a run."""

from typing import Any, TypeVar

from awaken.contracts.messages.message import ToolCall
from awaken.contracts.plugins.plugin import PhaseContext, ToolPhaseContext
from awaken.contracts.record import EMPTY
from awaken.contracts.suspension.tickets import Question, ToolCallResume
from awaken.contracts.tools.tool import ToolKind, infer_kind
from awaken.runtime.run import Run

C = TypeVar("C", bound=PhaseContext)
T = TypeVar("T", bound=ToolPhaseContext)


def phase_context(run: Run, type_: type[C], **more: Any) -> C:
    """Make a context on the current snapshot."""
    return type_(
        snapshot=run.state.snapshot(),
        agent=run.agent.spec,
        run=run.identity,
        messages=run.messages,
        step=run.step.number,
        profile=run.profile,
        context=run.record.context or EMPTY,
        **more,
    )


def tool_phase_context(
    run: Run,
    type_: type[T],
    call: ToolCall,
    resume: ToolCallResume | None,
    question: Question | None = None,
    **more: Any,
) -> T:
    """Make a context about one tool call; pass `question` if the call's ticket is closed."""
    kind, is_declared = kind_of(run, call.name)
    ticket = run.tickets.get(call.id)
    if question is None and ticket is not None:
        question = ticket.question
    asked_by, action, suspension_id = question or (None, None, None)
    return phase_context(
        run,
        type_,
        call=call,
        tool_kind=kind,
        is_kind_declared=is_declared,
        resume=resume,
        suspension_id=suspension_id or None,
        suspension_reason=action or None,
        asked_by=asked_by,
        **more,
    )


def kind_of(run: Run, tool_name: str) -> tuple[ToolKind, bool]:
    """Return the tool's declared kind, or a guess from its name marked as such."""
    tool = run.agent.tools.get(tool_name)
    declared = tool.descriptor.kind if tool is not None else None
    return (declared, True) if declared is not None else (infer_kind(tool_name), False)
