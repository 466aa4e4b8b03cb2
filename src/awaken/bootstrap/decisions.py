"""Builds decisions on tickets from a caller's arguments.

Fails closed: a decision resumes its call unless it says otherwise, so no argument may be ignored.
"""

from collections.abc import Mapping
from typing import Any, TypedDict

import msgspec

from awaken.contracts.errors import InvalidInput
from awaken.contracts.suspension.permissions import Remember, remember_of
from awaken.contracts.suspension.tickets import DecisionAction, ResumeMode, ToolCallResume

from .arguments import check_names, check_optional_text, check_text, convert_argument


class DecisionOptions(TypedDict, total=False):
    """The options of a decision; see `ToolCallResume`."""

    result: Any
    reason: str
    arguments: Any
    decision_id: str
    decided_by: str
    remember: Remember | Mapping[str, Any] | str
    arguments_hash: str
    resume_mode: ResumeMode | str


class NamedDecision(DecisionOptions, total=False):
    """One of several decisions, with its action."""

    action: DecisionAction | str


_OPTIONS = ("action", *DecisionOptions.__annotations__)
_TEXTS = ("reason", "decision_id", "decided_by", "arguments_hash")


def build_decisions(
    decisions: Mapping[str, ToolCallResume | NamedDecision], now_ms: int
) -> list[tuple[str, ToolCallResume]]:
    """Build several decisions; a `ToolCallResume` is only checked.

    Raises:
        InvalidInput: There are none, or one of them is malformed.
    """
    if not isinstance(decisions, Mapping):
        problem = "pass a mapping of ticket ids: {ticket_id: {'result': …}}"
        raise InvalidInput(what="decisions", problem=problem)
    if not decisions:
        raise InvalidInput(what="decisions", problem="there are none")
    return [(name, _read_decision(name, given, now_ms)) for name, given in decisions.items()]


def build_decision(
    ticket_id: str,
    action: DecisionAction | str,
    decision: DecisionOptions | Mapping[str, Any],
    now_ms: int,
) -> ToolCallResume:
    """Build a decision; equal ones get equal ids, so that the same one twice counts once.

    Raises:
        InvalidInput: The action or an option is unknown, or the decision has no JSON form.
    """
    # Not by a process that only declares agents: it loads OpenSSL.
    import hashlib  # noqa: PLC0415

    check_text("ticket_id", ticket_id)
    check_names("decision option", decision, _OPTIONS)
    for name in _TEXTS:
        check_optional_text(name, decision.get(name))
    wanted = _action(action)
    remember = remember_of(decision.get("remember"))
    content = [ticket_id, wanted, decision.get("result"), decision.get("arguments")]
    if remember is not None:
        content.append(remember)
    mode = _mode(decision.get("resume_mode"))
    if mode is not None:
        content.append(mode)
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
        remember=remember,
        arguments_hash=decision.get("arguments_hash"),
        resume_mode=mode,
        updated_at=now_ms,
    )


def check_decision(decision: object) -> ToolCallResume:
    """Check the type, id, action and mode of a decision that a caller built.

    Raises:
        InvalidInput: It is not a decision, has no id, or its action or its mode is unknown.
    """
    if not isinstance(decision, ToolCallResume):
        problem = f"pass a ToolCallResume, not {type(decision).__name__}"
        raise InvalidInput(what="The decision", problem=problem)
    check_text("decision_id", decision.decision_id)
    return msgspec.structs.replace(
        decision, action=_action(decision.action), resume_mode=_mode(decision.resume_mode)
    )


def _read_decision(ticket_id: str, decision: object, now_ms: int) -> ToolCallResume:
    check_text("ticket_id", ticket_id)
    if not isinstance(decision, Mapping):
        if isinstance(decision, ToolCallResume):
            return check_decision(decision)
        problem = f"pass {{'action': 'resume' or 'cancel', …}}, not {type(decision).__name__}"
        raise InvalidInput(what=f"The decision on '{ticket_id}'", problem=problem)
    rest = {name: value for name, value in decision.items() if name != "action"}
    return build_decision(ticket_id, decision.get("action", DecisionAction.RESUME), rest, now_ms)


def _mode(mode: object) -> ResumeMode | None:
    if mode is None:
        return None
    wanted: ResumeMode = convert_argument("resume_mode", mode, ResumeMode)
    return wanted


def _action(action: object) -> DecisionAction:
    wanted: DecisionAction = convert_argument("decision", action, DecisionAction)
    return wanted
