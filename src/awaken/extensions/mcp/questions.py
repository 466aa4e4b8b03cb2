"""Questions of servers during a call: to people by tickets, and to the model by sampling."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from awaken.authoring.json_schemas import JsonSchema
from awaken.contracts.errors import AwakenError, InvalidSpec
from awaken.contracts.messages import message as messages
from awaken.contracts.models.inference import InferenceOverride, StopReason
from awaken.contracts.record import Record
from awaken.contracts.state.keys import MergeStrategy, StateKey
from awaken.contracts.suspension.tickets import (
    DEADLINE,
    Asks,
    DecisionAction,
    SuspendTicket,
    ToolCallResume,
)
from awaken.contracts.tools.context import ToolContext

from .config import McpLimits, McpServer
from .errors import QuestionRefused
from .exchange import Json

ACTION = "mcp:elicitation"
DECLINED = {"action": "decline"}
DISMISSED = {"action": "cancel"}
"""The deadline passed without an answer."""
_MESSAGES_MAX = 100
_MESSAGE_CHARS = 4000
_QUESTIONS_MAX = 16


class OpenQuestion(Record, frozen=True, kw_only=True):
    """What a suspended call needs to continue, in this process or another."""

    is_held: bool = False
    """Whether the call is held in this process; otherwise a new request sends the answers."""
    number: int = 0
    asked: dict[str, Json]
    """The questions, by the server's keys."""
    answers: Json = {}  # noqa: RUF012 - msgspec copies it
    """The answers that did not need people."""
    state: str | None = None


_Open = Mapping[str, OpenQuestion]


def _questions_after(value: _Open, update: tuple[str, OpenQuestion | None]) -> _Open:
    key, question = update
    others = {name: it for name, it in value.items() if name != key}
    # An update that is read from the journal is plain JSON.
    return others if question is None else {**others, key: msgspec.convert(question, OpenQuestion)}


QUESTIONS: StateKey[_Open, tuple[str, OpenQuestion | None]] = StateKey(
    "mcp.questions",
    default={},
    type=dict[str, OpenQuestion],
    apply=_questions_after,
    merge=MergeStrategy.COMMUTATIVE,
)
"""Open questions of servers, by the idempotency keys of their calls."""


def ticket_of(question: OpenQuestion, context: ToolContext, server: McpServer) -> SuspendTicket:
    """Make the ticket that asks people; a link is shown to them, and never opened.

    Raises:
        QuestionRefused: The question is too large, or has no usable form.
    """
    limits, size = server.limits, len(msgspec.json.encode(question.asked))
    is_large = size > limits.schema_bytes or len(question.state or "") > limits.state_chars
    if is_large or not 0 < len(question.asked) <= _QUESTIONS_MAX:
        raise QuestionRefused(f"MCP server '{server.name}' asks too much at once")
    links = (it["url"] for it in question.asked.values() if "url" in it)
    if any(not str(link).lower().startswith(("https://", "http://")) for link in links):
        raise QuestionRefused(
            f"MCP server '{server.name}' sends people to an address that is not a web page"
        )
    schema = _form(question.asked)
    shown = [
        {"key": key, **{name: it[name] for name in ("mode", "message", "url") if name in it}}
        for key, it in question.asked.items()
    ]
    texts = (f"{it.get('message', '')} {it.get('url', '')}".strip() for it in shown)
    message = f"MCP server '{server.name}' asks: " + " / ".join(texts)
    context.state.update(QUESTIONS, (context.idempotency_key, question))
    ticket = context.suspend(
        message[:_MESSAGE_CHARS],
        action=ACTION,
        parameters={"server": server.name, "questions": shown},
        response_schema=schema,
        suspension_id=str(question.number),
        # A link has no form: the user approves or declines.
        asks=Asks.ANSWER if schema is not None else Asks.PERMISSION,
    )
    # A waiting server also gets a refusal; one that only sent a link is not called again.
    is_waiting = question.is_held or schema is not None or question.state is not None
    return replace(ticket, hears_refusal=is_waiting)


def answers_of(question: OpenQuestion, resume: ToolCallResume) -> Json:
    """The answers for the server, by its keys, after people have answered or declined.

    Raises:
        QuestionRefused: The answer does not fit the form of the question.
    """
    if resume.action is DecisionAction.CANCEL:
        answer = DISMISSED if resume.decided_by == DEADLINE else DECLINED
        return dict.fromkeys(question.asked, answer)
    decided, schema = resume.result, _form(question.asked)
    if schema is not None and JsonSchema(schema, what="the form").violations(decided):
        raise QuestionRefused("the answer does not fit the form of the question")
    answers: Json = {}
    for key, asked in question.asked.items():
        answers[key] = {"action": "accept"}
        if asked.get("mode") != "url":
            given = decided if len(question.asked) == 1 else decided[key]
            answers[key]["content"] = {**_default_values(asked), **given}
    return answers


def _default_values(asked: Json) -> Json:
    """The default values of a form's fields."""
    fields = asked.get("requestedSchema", {}).get("properties", {})
    return {name: it["default"] for name, it in fields.items() if "default" in it}


async def sample_model(params: Json, context: ToolContext, limits: McpLimits) -> Json:
    """Have the model answer a server's messages, and nothing else; the run pays for it.

    Raises:
        QuestionRefused: They are not plain text, too large, or the model did not answer.
    """
    asked, system = params.get("messages") or [], params.get("systemPrompt") or ""
    said = [_message(it) for it in asked[:_MESSAGES_MAX]]
    chars = sum(len(it.text) for it in said) + len(system)
    if params.get("tools") or not said or len(asked) > len(said) or chars > limits.result_chars:
        raise QuestionRefused(f"sampling takes 1 to {_MESSAGES_MAX} messages, and no tools")
    tokens = max(1, min(int(params.get("maxTokens") or 1), limits.sampling_tokens))
    overrides = InferenceOverride(temperature=params.get("temperature"), max_tokens=tokens)
    prompts = (system,) if system else ()
    try:
        answer = await context.sub_runs.ask_model(said, system=prompts, overrides=overrides)
    except AwakenError as error:
        raise QuestionRefused(f"the model did not answer ({error.code})") from error
    return {
        "role": "assistant",
        "content": {"type": "text", "text": answer.text},
        "model": context.agent.model_id or "unknown",
        "stopReason": "maxTokens" if answer.stop_reason is StopReason.MAX_TOKENS else "endTurn",
    }


def _message(message: Json) -> messages.Message:
    content = message.get("content")
    blocks = content if isinstance(content, list) else [content]
    texts = [it["text"] for it in blocks if isinstance(it, dict) and it.get("type") == "text"]
    if len(texts) < len(blocks):
        raise QuestionRefused("sampling takes text only")
    is_model = message.get("role") == "assistant"
    return (messages.assistant if is_model else messages.user)("\n".join(texts))


def _form(asked: Mapping[str, Json]) -> Json | None:
    forms = {key: it.get("requestedSchema") for key, it in asked.items() if it.get("mode") != "url"}
    if not forms:
        return None
    schema: Any = next(iter(forms.values()))
    if len(asked) > 1:
        schema = {"type": "object", "properties": forms, "required": list(forms)}
    try:
        JsonSchema(schema, what="the form")
    except InvalidSpec as error:
        raise QuestionRefused(f"the question has no usable form: {error}") from error
    if schema.get("type") != "object":
        raise QuestionRefused("the question's form is not an object")
    return dict(schema)
