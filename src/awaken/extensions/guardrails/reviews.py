"""Reviews of a text: a tool call that asks an agent or waits for a person's decision.

The plugin makes the call in place of the model, so that every client that can show a call that
needs an approval can show this one.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from awaken.authoring.functions import tool
from awaken.contracts.identity import derive_id
from awaken.contracts.messages.message import ToolCall
from awaken.contracts.models.inference import TokenUsage
from awaken.contracts.record import Record
from awaken.contracts.state.keys import MergeStrategy, StateKey, StateScope
from awaken.contracts.tool_results import ToolResult
from awaken.contracts.tools.context import ToolContext
from awaken.contracts.tools.tool import ToolDenied

from .checks import CheckFinding
from .config import Action, CheckPlace
from .judges import Objection, judge_text

REVIEW = "guardrail_review"
REVIEW_SECONDS = 3_600
"""Longer than the agents that judge may take together; each has its own limit."""


class Withheld(Record, frozen=True, kw_only=True):
    """An answer of the model that no user has seen yet."""

    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    is_released: bool = False


WITHHELD: StateKey[Mapping[str, Withheld], tuple[str, Withheld | None]] = StateKey(
    "guardrails.withheld",
    default={},
    type=dict[str, Withheld],
    apply=lambda value, update: {
        **{key: it for key, it in value.items() if key != update[0]},
        **({} if update[1] is None else {update[0]: update[1]}),
    },
    update_type=tuple[str, Withheld | None],
    private=True,
    merge=MergeStrategy.COMMUTATIVE,
)
"""By the id of the call that asks about it."""

CLEARED: StateKey[int, int] = StateKey(
    "guardrails.cleared",
    default=0,
    apply=max,
    merge=MergeStrategy.COMMUTATIVE,
    scope=StateScope.THREAD,
)
"""How many messages of the thread passed the rules that ask."""

CONTEXT_CLEARED: StateKey[bool, bool] = StateKey(
    "guardrails.context_cleared",
    default=False,
    apply=lambda _, update: update,
    merge=MergeStrategy.COMMUTATIVE,
)
"""Whether the context of the run passed the rules that ask."""

ANSWERED: StateKey[tuple[str, ...], str | None] = StateKey(
    "guardrails.answered",
    default=(),
    type=tuple[str, ...],
    apply=lambda value, update: () if update is None else (*value, update),
    update_type=str | None,
    merge=MergeStrategy.COMMUTATIVE,
    scope=StateScope.THREAD,
)
"""The calls whose results people or clients gave, as far as no rule that asks let them pass."""


def review_call(
    run_id: str, step: int, place: CheckPlace, found: CheckFinding, upto: int = 0
) -> ToolCall:
    """The call that requests a review; its id is the same if the step is repeated."""
    arguments: dict[str, Any] = {"check": found.rule, "place": place, "found": list(found.kinds)}
    if upto:
        arguments["messages"] = upto
    call_id = f"review_{derive_id(run_id, str(step), place)}"
    return ToolCall(id=call_id, name=REVIEW, arguments=arguments)


@tool(effect="idempotent", kind="other", id=REVIEW, timeout=REVIEW_SECONDS)
async def guardrail_review(
    check: str, place: str, found: list[str], ctx: ToolContext, messages: int = 0
) -> Any:
    """Ask the agents that judge a text, and if necessary a person, whether it may pass.

    Args:
        check: Which check objects.
        place: Whether it is about input or output.
        found: What kinds of things were found.
        ctx: The call.
        messages: Up to which message of the conversation it is about.
    """
    if not ctx.call_id.startswith("review_"):
        raise ToolDenied("this tool is not for the model")
    held = ctx.state.get(WITHHELD).get(ctx.call_id)
    where, guards = CheckPlace(place), ctx.prepared
    objections, usage = await judge_text(
        guards.list_judges(where),
        "" if held is None else held.text,
        ctx,
        lambda reason: guards.redact_value(where, reason),
    )
    blocking = [it for it in objections if it.rule.action is Action.BLOCK]
    if blocking:
        text = " ".join(f"Check '{it.rule.name}' objects: {it.reason}" for it in blocking)
        error = ToolResult.error(REVIEW, text, code="guardrail")
        return msgspec.structs.replace(error, usage=usage)
    if (found or objections) and ctx.resume is None:
        return ctx.suspend(_write_question(check, place, found, objections))
    if place == CheckPlace.INPUT:
        ctx.state.update(CLEARED, messages)
        ctx.state.update(CONTEXT_CLEARED, True)  # noqa: FBT003 - the value of a key
        if ctx.state.get(ANSWERED):
            ctx.state.update(ANSWERED, None)
        ctx.state.update(WITHHELD, (ctx.call_id, None))
        return _pass("It may be sent.", usage)
    if held is not None:
        released = Withheld(text=held.text, tool_calls=held.tool_calls, is_released=True)
        ctx.state.update(WITHHELD, (ctx.call_id, released))
    return _pass("It may be shown.", usage)


def _pass(text: str, usage: TokenUsage | None) -> ToolResult:
    return ToolResult(tool_name=REVIEW, data=text, message=text, usage=usage)


def _write_question(
    check: str, place: str, found: list[str], objections: Sequence[Objection]
) -> str:
    said = [f"Check '{it.rule.name}' objects to the {place}: {it.reason}" for it in objections]
    if found:
        said.append(f"Check '{check}' found {', '.join(found)} in the {place}.")
    return f"{' '.join(said)} May it pass?"
