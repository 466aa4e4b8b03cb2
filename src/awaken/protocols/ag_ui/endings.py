"""The fields of a run's last event: what it waits for, and its token usage."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from awaken.contracts.events import RunFinish, extract_response, message_wait_reason
from awaken.contracts.models.inference import TokenUsage
from awaken.contracts.suspension.tickets import ResumeMode, SuspendTicket, Ticket

Fields = dict[str, Any]

_COUNTS = {
    "inputTokens": "prompt_tokens",
    "outputTokens": "completion_tokens",
    "totalTokens": "total_tokens",
    "reasoningTokens": "thinking_tokens",
    "cachedInputTokens": "cache_read_tokens",
    "cacheWriteInputTokens": "cache_creation_tokens",
}
_LAST_MS = 253_402_300_799_000
"""The end of the year 9999, the last date that can be formatted."""


def outcome(waiting: Mapping[str, SuspendTicket]) -> Fields:
    """The outcome of a waiting run, from its suspended calls by id; tickets name interrupts.

    Calls to a client's own tools are not interrupts: the client answers them by tool messages.
    """
    asked = {id_: it for id_, it in waiting.items() if not is_client_call(it, it.pending.name)}
    if not asked:
        return {"type": "success"} | ({"pendingToolCallIds": list(waiting)} if waiting else {})
    interrupts = [_interrupt(id_, it) for id_, it in asked.items()]
    return {"type": "interrupt", "interrupts": interrupts}


def strict_outcome(fields: Fields | None) -> Fields | None:
    """Convert an outcome for clients before 1.0, which know only success and interrupt."""
    match fields:
        case {"type": "interrupt", "interrupts": interrupts}:
            return {"type": "interrupt", "interrupts": interrupts}
        case {"type": "success"}:
            return {"type": "success"}
        case _:
            return None


def message_outcome(event: RunFinish) -> Fields | None:
    """The outcome of a run that waits for a message: one interrupt with the run's id."""
    wanted = message_wait_reason(event)
    if wanted is None:
        return None
    asked = {"id": event.run_id, "reason": wanted, "responseSchema": {"type": "string"}}
    question = _without_none({"message": extract_response(event.result) or None})
    return {"type": "interrupt", "interrupts": [asked | question]}


def is_client_call(ticket: SuspendTicket | Ticket, tool_name: str) -> bool:
    """Whether a call waits for a client to run it, and is not a question."""
    asked = ticket.suspension
    is_question = ticket.asked_by or asked.message or asked.action != f"tool:{tool_name}"
    return ticket.resume_mode is ResumeMode.USE_DECISION_AS_TOOL_RESULT and not is_question


def usage_entries(usage: Mapping[str, TokenUsage]) -> list[Fields] | None:
    """The token usage of each model, with AG-UI's field names; None when there is none."""
    counts = {
        model: {name: getattr(it, of) for name, of in _COUNTS.items()}
        for model, it in usage.items()
    }
    return [{"model": model} | _without_none(it) for model, it in counts.items()] or None


def _interrupt(call_id: str, ticket: SuspendTicket) -> Fields:
    asked, until = ticket.suspension, ticket.expires_at
    fields = {
        "id": asked.id or call_id,
        "reason": asked.action or "tool_approval",
        "message": asked.message or None,
        "toolCallId": call_id,
        "responseSchema": asked.response_schema,
        "expiresAt": None if until is None or until > _LAST_MS else _date(until),
        "metadata": {
            "toolName": ticket.pending.name,
            "parameters": asked.parameters,
            "asks": ticket.question_kind,
        },
    }
    return _without_none(fields)


def _without_none(fields: Fields) -> Fields:
    return {name: it for name, it in fields.items() if it is not None}


def _date(time_ms: int) -> str:
    return datetime.fromtimestamp(max(time_ms, 0) / 1000, UTC).isoformat()
