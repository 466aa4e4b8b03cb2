"""How the generations of Claude reason, for the formats that call them."""

import re
from collections.abc import Callable, Sequence
from typing import Any

from awaken.contracts.messages.content import Thinking
from awaken.contracts.messages.message import Message, Role
from awaken.contracts.models.inference import Effort, EffortBudget, ReasoningEffort

from .efforts import level_of

_LEAST_BUDGET = 1024
_BUDGETS = {Effort.LOW: 2_048, Effort.MEDIUM: 8_192, Effort.HIGH: 16_384, Effort.MAX: 32_000}
_END = r"(?:[-@]\d{8}|-v\d|$)"
# Models up to 4.5 reason within a budget of tokens; from 4.7 on they take none.
_BUDGETED = re.compile(rf"claude-(?:[123]|(?:haiku|sonnet|opus)-4(?:-[0-5])?{_END})")
_TAKES_BUDGET = re.compile(rf"^(?!.*claude-)|claude-(?:sonnet|opus)-4-6{_END}")
_ALWAYS_REASONS = re.compile(r"claude-(?:fable|mythos|opus-5-5)")


def claude_thinking(
    effort: ReasoningEffort, model: str, max_tokens: int | None
) -> tuple[dict[str, Any] | None, Effort | None]:
    """Return the field `thinking`, if it is needed, and the level of effort beside it.

    Nothing is refused: a budget that does not fit into `max_tokens` is reduced, or the model does
    not reason.
    """
    level = level_of(effort)
    if level is Effort.NONE:
        return _disable_thinking(model)
    is_budget = isinstance(effort, EffortBudget)
    if not (_BUDGETED.search(model) or (is_budget and _TAKES_BUDGET.search(model))):
        return {"type": "adaptive"}, level
    wanted = effort.budget if isinstance(effort, EffortBudget) else _BUDGETS[effort]
    budget = _fit_budget(wanted, max_tokens)
    return ({"type": "enabled", "budget_tokens": budget} if budget else None), None


def _disable_thinking(model: str) -> tuple[dict[str, Any], Effort | None]:
    if _ALWAYS_REASONS.search(model):
        return {"type": "adaptive"}, Effort.LOW
    return {"type": "between_tools" if "claude-sonnet-5-5" in model else "disabled"}, None


def _fit_budget(wanted: int, max_tokens: int | None) -> int:
    budget = max(_LEAST_BUDGET, wanted)
    if max_tokens is None or budget < max_tokens:
        return budget
    return max(_LEAST_BUDGET, max_tokens // 2) if max_tokens > _LEAST_BUDGET else 0


def is_loop_unreasoned(messages: Sequence[Message], is_ours: Callable[[Thinking], bool]) -> bool:
    """Whether the latest turn has calls but none of our reasoning.

    The vendor then refuses a budget: it wants the reasoning that led to the calls.
    """
    is_answered = False
    for message in reversed(messages):
        if message.role is Role.ASSISTANT:
            if not is_answered and not message.tool_calls:
                return False
            is_answered = True
            if any(isinstance(it, Thinking) and is_ours(it) for it in message.content):
                return False
        elif message.role is Role.USER and is_answered:
            break
    return is_answered
