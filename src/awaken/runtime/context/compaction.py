"""Compaction as pure functions: what to summarise, what stays open, and the resulting mark."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, islice

import msgspec

from awaken.contracts.lifecycle import TicketStatus
from awaken.contracts.messages.content import Text
from awaken.contracts.messages.message import Message, Role, Visibility
from awaken.contracts.models.inference import CompactionMode, ContextWindowPolicy
from awaken.contracts.state.context_state import CompactionMark, Obligation, ObligationKind
from awaken.contracts.suspension.tickets import Ticket

from .estimate import estimate_message_tokens
from .truncation import truncate_output

MIN_TOKENS = 1024
"""A shorter history is not worth a summary."""
MIN_MESSAGES = 2
OBLIGATIONS_KEPT = 64
UNSETTLED = "[outcome_unknown]"
"""Prefix of the result of a call that may or may not have taken effect."""
_ARGUMENTS_SHOWN = 400
_TAGS = ("<conversation-summary>", "</conversation-summary>")


class CompactionPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a history that a summary will replace."""

    message_id: str
    place: int
    tokens: int
    """The tokens of everything that the summary replaces, including an earlier summary."""
    transcript: str
    previous: CompactionMark | None
    effects: tuple[Obligation, ...]


def plan_compaction(
    messages: Sequence[Message],
    first: int,
    policy: ContextWindowPolicy,
    limit: int,
    previous: CompactionMark | None = None,
) -> CompactionPlan | None:
    """Plan the summary of the history from place `first` on, of at most `limit` tokens.

    None when no boundary keeps every call with its results, or too little precedes it.
    """
    body = [truncate_output(message) for message in islice(messages, first, None)]
    tokens = list(accumulate(map(estimate_message_tokens, body)))
    fitting = sum(1 for total in tokens if total <= limit)
    boundary = find_boundary(body, min(len(body) - raw_suffix(policy), fitting))
    if boundary is None or tokens[boundary] < MIN_TOKENS:
        return None
    covered = body[: boundary + 1]
    message_id, transcript = covered[-1].id, render_messages(covered)
    if message_id is None or not transcript:
        return None
    replaced = 0 if previous is None else estimate_message_tokens(summary_message(previous))
    return CompactionPlan(
        message_id=message_id,
        place=first + boundary,
        tokens=tokens[boundary] + replaced,
        transcript=transcript,
        previous=previous,
        effects=tuple(_find_open_calls(covered)),
    )


def raw_suffix(policy: ContextWindowPolicy) -> int:
    """How many of the newest messages stay as they are."""
    if policy.compaction_mode is CompactionMode.COMPACT_TO_SAFE_FRONTIER:
        return 0
    return max(0, policy.compaction_raw_suffix_messages)


def find_boundary(messages: Sequence[Message], end: int) -> int | None:
    """Return the last place before `end` with no open call; None if fewer than two precede."""
    open_calls: set[str] = set()
    found = None
    for place in range(max(0, end)):
        message = messages[place]
        open_calls.discard(message.tool_call_id or "")
        open_calls.update(call.id for call in message.tool_calls or ())
        is_last = place + 1 == len(messages)
        if not open_calls and (is_last or messages[place + 1].role is not Role.TOOL):
            found = place
    return found if found is not None and found + 1 >= MIN_MESSAGES else None


def render_messages(messages: Iterable[Message]) -> str:
    """Render the conversation as paragraphs; hidden and empty messages are left out."""
    return "\n\n".join(filter(None, map(_paragraph, messages)))


def _paragraph(message: Message) -> str:
    if message.visibility is Visibility.INTERNAL:
        return ""
    calls = (
        f"(calls {call.name} with {_format_arguments(call.arguments)})"
        for call in message.tool_calls or ()
    )
    text = "\n".join(filter(None, (message.text.strip(), *calls)))
    return f"[{message.role.value.capitalize()}]: {text}" if text else ""


def _format_arguments(arguments: object) -> str:
    text = msgspec.json.encode(arguments).decode()
    return text if len(text) <= _ARGUMENTS_SHOWN else f"{text[:_ARGUMENTS_SHOWN]}…"


def _find_open_calls(messages: Sequence[Message]) -> Iterator[Obligation]:
    names = {call.id: call.name for message in messages for call in message.tool_calls or ()}
    for message in messages:
        if message.role is Role.TOOL and message.text.startswith(UNSETTLED):
            call_id = message.tool_call_id or ""
            text = (
                f"Call '{call_id}' of '{names.get(call_id, 'a tool')}' may or may not have taken "
                "effect; find out before it is repeated."
            )
            yield Obligation(kind=ObligationKind.EFFECT, id=call_id, text=text)


def build_mark(
    plan: CompactionPlan, summary: str, tickets: Iterable[Ticket], at: int
) -> CompactionMark:
    """Build the mark of a finished summary, with the obligations that are open now."""
    before = plan.previous.obligations if plan.previous is not None else ()
    effects = (it for it in before if it.kind is ObligationKind.EFFECT)
    waiting = (_to_obligation(ticket) for ticket in tickets if ticket.status is TicketStatus.OPEN)
    mark = CompactionMark(
        message_id=plan.message_id,
        place=plan.place,
        summary=_without_tags(summary),
        pre_tokens=plan.tokens,
        post_tokens=0,
        at=at,
        obligations=(*effects, *plan.effects, *waiting)[-OBLIGATIONS_KEPT:],
    )
    return msgspec.structs.replace(mark, post_tokens=estimate_message_tokens(summary_message(mark)))


def _to_obligation(ticket: Ticket) -> Obligation:
    asked = ticket.suspension.message or ticket.suspension.action or "a decision"
    text = f"Ticket '{ticket.ticket_id}' on '{ticket.tool_name}' waits for: {asked}."
    return Obligation(kind=ObligationKind.TICKET, id=ticket.ticket_id, text=text)


def _without_tags(summary: str) -> str:
    for tag in _TAGS:
        summary = summary.replace(tag, "")
    return summary.strip()


def saves_enough(mark: CompactionMark, min_ratio: float) -> bool:
    """Whether the summary saves at least `min_ratio` of the tokens that it replaces."""
    return mark.pre_tokens - mark.post_tokens >= mark.pre_tokens * min_ratio


def summary_message(mark: CompactionMark) -> Message:
    """Return the message that replaces the summarised part; always the same for one mark."""
    opening, closing = _TAGS
    text = f"{opening}\n{mark.summary}\n{closing}"
    if mark.obligations:
        lines = "\n".join(f"- {obligation.text}" for obligation in mark.obligations)
        text += f"\n<open-obligations>\n{lines}\n</open-obligations>"
    return Message(role=Role.SYSTEM, content=(Text(text=text),), visibility=Visibility.INTERNAL)
