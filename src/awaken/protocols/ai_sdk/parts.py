"""Parts of UI messages that streams and history share, and data parts of other events.

A part that is replaced later has an id and stays in the message. A transient part is only a
notification: no message contains it.
"""

from typing import Any

from awaken.contracts import events as ev
from awaken.contracts.messages.message import Visibility
from awaken.contracts.suspension.tickets import Asks, Suspension, ToolCallOutcome
from awaken.transport.asgi import encode_json

Fields = dict[str, Any]

_OWN = {
    "source-url": ("sourceId", "url"),
    "source-document": ("sourceId", "mediaType", "title"),
    "file": ("url", "mediaType"),
}
"""Activities that are chunks of their own, with the text fields that such a chunk must have."""


def outcome_of(event: ev.ToolCallDone | ev.ToolCallResumed) -> Fields | None:
    """The fields of a call that has an outcome or asks for approval; None if the client runs it."""
    if isinstance(event, ev.ToolCallResumed):
        return _outcome_of_resume(event)
    result, wanted = event.result, event.result.suspension
    data = result.message if result.data is None else result.data
    match event.outcome:
        case ToolCallOutcome.SUCCEEDED:
            return output_fields(
                {"data": data, "metadata": result.metadata} if result.metadata else data
            )
        case ToolCallOutcome.FAILED:
            return _error_fields(result.message or encode_json(data or "tool error").decode())
        case ToolCallOutcome.SUSPENDED:
            if wanted is None or wanted.question_kind is not Asks.PERMISSION:
                return None
            return approval_fields(event.ticket_id or wanted.suspension.id or event.id)


def output_fields(output: Any) -> Fields:
    """The fields of a call that succeeded."""
    return {"state": "output-available", "output": output, "providerExecuted": True}


def approval_fields(approval_id: str) -> Fields:
    """The fields of a call that asks whether it may run."""
    return {"state": "approval-requested", "approval": {"id": approval_id}}


def question_part(call_id: str, ticket_id: str, asked: Suspension) -> list[Fields]:
    """The question part of a call that asks by a form; its output is the filled-in form."""
    if asked.response_schema is None:
        return []
    form = {"message": asked.message, "responseSchema": asked.response_schema}
    data = {"toolCallId": call_id, "ticketId": ticket_id, **form}
    return [{"type": "data-question", "id": call_id, "data": data}]


def data_chunks(event: ev.AgentEvent) -> list[Fields]:
    """Encode an event as a data part; some activities also have a chunk of their own."""
    data: Any = event
    match event:
        case ev.ActivitySnapshot():
            return _activity(event)
        case ev.StateSnapshot():
            name, data = "state-snapshot", event.snapshot
        case ev.StateDelta():
            name, data = "state-delta", event.delta
        case ev.MessagesSnapshot():
            shown = [it for it in event.messages if it.visibility is not Visibility.INTERNAL]
            name, data = "messages-snapshot", shown
        case ev.ReasoningEncryptedValue():
            name = "reasoning-encrypted"
        case ev.ActivityDelta():
            name = "activity-delta"
        case ev.InferenceComplete():
            name = "inference-complete"
        case _:
            return []
    return [{"type": f"data-{name}", "id": name, "data": data, "transient": True}]


def _outcome_of_resume(event: ev.ToolCallResumed) -> Fields:
    result = event.result if isinstance(event.result, dict) else {}
    if isinstance(text := result.get("error"), str):
        return _error_fields(text)
    if event.is_declined or result.get("approved") is False:
        reason = {"reason": event.result} if isinstance(event.result, str) else {}
        approval = {"id": event.ticket_id or event.target_id, **result, "approved": False, **reason}
        return {"state": "output-denied", "approval": approval}
    return output_fields(event.result)


def _error_fields(text: str) -> Fields:
    return {"state": "output-error", "errorText": text, "providerExecuted": True}


def _activity(event: ev.ActivitySnapshot) -> list[Fields]:
    kind, id_ = event.activity_type, f"{event.message_id}:{event.activity_type}"
    chunks: list[Fields] = [{"type": "data-activity-snapshot", "id": id_, "data": event}]
    if kind in _OWN and isinstance(event.content, dict):
        given = {"sourceId": event.message_id, **event.content}
        names = {*_OWN[kind], "title", "filename"}
        own = {name: it for name, it in given.items() if name in names and isinstance(it, str)}
        if own.keys() >= set(_OWN[kind]):
            chunks.append({"type": kind, **own})
    return chunks
