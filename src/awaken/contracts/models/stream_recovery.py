"""How to continue an answer whose stream broke off."""

from collections.abc import Sequence
from enum import StrEnum

from awaken.contracts.messages.message import Message, Role, ToolCall
from awaken.contracts.record import Record

TRUNCATED_PROMPT = (
    "Your previous answer was cut off because it reached the output limit. Continue exactly where "
    "it stopped, without repeating anything, and in smaller pieces if necessary."
)
INTERRUPTED_PROMPT = (
    "The connection broke in the middle of your previous answer. Continue exactly where it "
    "stopped, without repeating anything and without mentioning the interruption."
)


class InFlightTool(Record, frozen=True, kw_only=True):
    """A tool call whose arguments were still being streamed."""

    id: str
    name: str
    partial_args: str = ""


class InterruptSnapshot(Record, frozen=True, kw_only=True):
    """What had arrived when a stream broke off."""

    text: str | None = None
    completed_tool_calls: tuple[ToolCall, ...] = ()
    in_flight_tool: InFlightTool | None = None
    bytes_received: int = 0


class RecoveryPlan(StrEnum):
    """How to continue after a broken stream."""

    CONTINUE_TEXT = "continue_text"
    SYNTHESIZE_TOOL_USE = "synthesize_tool_use"
    TRUNCATE_BEFORE_TOOL = "truncate_before_tool"
    WHOLE_RESTART = "whole_restart"


def recovery_plan(snapshot: InterruptSnapshot) -> RecoveryPlan:
    """Choose the plan that loses the least of what the client has seen."""
    if snapshot.completed_tool_calls:
        return RecoveryPlan.SYNTHESIZE_TOOL_USE
    if snapshot.text:
        in_flight = snapshot.in_flight_tool
        return RecoveryPlan.TRUNCATE_BEFORE_TOOL if in_flight else RecoveryPlan.CONTINUE_TEXT
    return RecoveryPlan.WHOLE_RESTART


def text_to_continue(messages: Sequence[Message]) -> str | None:
    """The text that the model is asked to continue, or None if a new answer is requested."""
    if len(messages) < 2 or messages[-1].text not in (TRUNCATED_PROMPT, INTERRUPTED_PROMPT):
        return None
    return messages[-2].text if messages[-2].role is Role.ASSISTANT else None
