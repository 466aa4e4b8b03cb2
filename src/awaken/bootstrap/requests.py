"""From what a caller passes to requests and decisions; everything malformed is refused here."""

import hashlib
from collections.abc import Sequence
from typing import Any, TypedDict

import msgspec

from awaken.contracts.content import ContentBlock
from awaken.contracts.errors import InvalidInput
from awaken.contracts.identity import Adapter, RunMode, RunOrigin
from awaken.contracts.inference import InferenceOverride
from awaken.contracts.messages import Message, user
from awaken.contracts.runs import RunRequest
from awaken.contracts.suspension import DecisionAction, ToolCallResume
from awaken.contracts.tools import ToolDescriptor

Input = str | Message | ContentBlock | Sequence[Message | ContentBlock | str]


class RunOptions(TypedDict, total=False):
    """What a run may be given besides its input; see `RunRequest` for what each one means."""

    overrides: InferenceOverride
    frontend_tools: Sequence[ToolDescriptor]
    origin: RunOrigin
    run_mode: RunMode
    adapter: Adapter
    parent_run_id: str
    parent_thread_id: str
    continue_run_id: str
    run_id_hint: str
    dispatch_id: str
    session_id: str
    transport_request_id: str


class DecisionOptions(TypedDict, total=False):
    """What a decision may say besides yes or no; see `ToolCallResume`."""

    result: Any
    reason: str
    arguments: Any
    decision_id: str
    decided_by: str


class NamedDecision(DecisionOptions, total=False):
    """One of several decisions, with its action."""

    action: DecisionAction | str


def run_request(
    agent_id: str | None, input: Input, thread_id: str | None, options: RunOptions
) -> RunRequest:
    """Make a request.

    Raises:
        InvalidInput: The input or an option is malformed.
    """
    fields: dict[str, Any] = dict(options)
    if "frontend_tools" in fields:
        fields["frontend_tools"] = tuple(fields["frontend_tools"])
    try:
        return RunRequest(
            agent_id=agent_id, thread_id=thread_id, messages=messages_of(input), **fields
        )
    except TypeError as error:
        raise InvalidInput(what="The run's options", problem=str(error)) from error


def messages_of(input: Input) -> tuple[Message, ...]:
    """Turn what a caller passes as input into messages; blocks in a row make one message.

    Raises:
        InvalidInput: It is neither text, blocks nor messages.
    """
    if isinstance(input, Message):
        return (input,)
    if isinstance(input, str | ContentBlock):
        return (user(input),)
    if not isinstance(input, Sequence):
        raise InvalidInput(what="The input", problem="pass text, content blocks or messages")
    messages: list[Message] = []
    blocks: list[ContentBlock] = []
    for part in input:
        if isinstance(part, Message):
            messages.append(part)
        elif isinstance(part, str | ContentBlock):
            blocks.extend(user(part).content)
        else:
            raise InvalidInput(what="The input", problem="pass text, content blocks or messages")
    return (*messages, user(blocks)) if blocks else tuple(messages)


def named_decision(
    ticket_id: str, decision: ToolCallResume | NamedDecision, now_ms: int
) -> ToolCallResume:
    """Make one of several decisions; a finished one is taken as it is."""
    if isinstance(decision, ToolCallResume):
        return decision
    action = decision.get("action", DecisionAction.RESUME)
    return decision_on(ticket_id, action, decision, now_ms)


def decision_on(
    ticket_id: str, action: DecisionAction | str, decision: DecisionOptions, now_ms: int
) -> ToolCallResume:
    """Make a decision; equal ones get equal ids, so that the same one twice counts once.

    Raises:
        InvalidInput: The action is unknown, or the decision has no JSON form.
    """
    try:
        wanted = DecisionAction(action)
    except ValueError as error:
        choices = ", ".join(DecisionAction)
        raise InvalidInput(what=f"decision '{action}'", problem=f"use {choices}") from error
    content = [ticket_id, wanted, decision.get("result"), decision.get("arguments")]
    try:
        data = msgspec.json.encode(content, order="sorted")
    except (TypeError, ValueError) as error:
        raise InvalidInput(what="The decision", problem=str(error)) from error
    return ToolCallResume(
        decision_id=decision.get("decision_id")
        or hashlib.blake2b(data, digest_size=16).hexdigest(),
        action=wanted,
        result=decision.get("result"),
        reason=decision.get("reason"),
        arguments=decision.get("arguments"),
        decided_by=decision.get("decided_by"),
        updated_at=now_ms,
    )
