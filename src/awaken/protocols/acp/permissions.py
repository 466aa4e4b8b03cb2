"""Asks for tickets as ACP permission requests, and remembers "always" choices."""

from collections.abc import Mapping
from typing import Any

import msgspec

from awaken.contracts.errors import RunError, field
from awaken.contracts.record import Record
from awaken.contracts.state.profile import ProfileEntry, thread_scope
from awaken.contracts.suspension.permissions import PermissionScope, Remember
from awaken.contracts.suspension.tickets import Asks, DecisionAction, Ticket, ToolCallResume
from awaken.services.view import TenantView

from .updates import text_content, tool_call

_KINDS = ("allow_once", "allow_always", "reject_once", "reject_always")
_OPTIONS = {f"opt_{it}": {"name": it.replace("_", " ").capitalize(), "kind": it} for it in _KINDS}
_CHOICES_MAX = 10
_ALWAYS = ("opt_allow_always", "opt_reject_always")


class PromptFailed(RunError):
    """A prompt's run failed, or waits for what this client cannot give."""

    template = "{message}"
    message: str = field(kw_only=False)


class ChosenOption(Record, frozen=True, kw_only=True):
    """The option that the user chose, if any."""

    option_id: str = msgspec.field(name="optionId", default="")


class Permission(Record, frozen=True, kw_only=True):
    """The answer to `session/request_permission`."""

    outcome: ChosenOption


async def ask_permission(view: TenantView, ticket: Ticket, client: Any) -> ToolCallResume | None:
    """Return the remembered decision, else ask the client; None when the client cancels.

    Raises:
        PromptFailed: The ticket asks for a free-form answer; the run is cancelled.
    """
    if ticket.question_kind is Asks.ANSWER and ticket.suspension.response_schema is not None:
        return await _form(ticket, client)
    if ticket.question_kind is Asks.ANSWER:
        await view.cancel_run(ticket.run_id)
        raise PromptFailed(f"Tool '{ticket.tool_name}' asks for an answer that ACP cannot give.")
    scope = thread_scope(view.add_namespace(ticket.thread_id))
    key = f"acp.permission.{ticket.tool_name}"
    is_kept_there = _is_kept_by_asker(ticket)
    known = None if is_kept_there else await view.profile.find_entry(scope, key)
    if known is not None and known.value in _ALWAYS:
        return _decision(known.value)
    chosen = await _choose_option(ticket, client, _OPTIONS)
    if chosen not in _OPTIONS:
        return None
    if chosen in _ALWAYS and not is_kept_there:
        entry = ProfileEntry(owner=scope, key=key, value=chosen, updated_at=view.now_ms())
        await view.profile.save_entry(entry)
    return _decision(chosen)


async def _form(ticket: Ticket, client: Any) -> ToolCallResume | None:
    """Ask a form with a single choice; a form that ACP cannot show is declined.

    None when the client cancels.
    """
    fields: dict[str, Any] = (ticket.suspension.response_schema or {}).get("properties") or {}
    nothing: tuple[str, Any] = ("", {})
    name, field = next(iter(fields.items()), nothing)
    values = field.get("enum") or ([True, False] if field.get("type") == "boolean" else [])
    if len(fields) != 1 or not 0 < len(values) <= _CHOICES_MAX:
        return _decline(f"The client cannot show the form of '{ticket.tool_name}'.")
    shown: dict[Any, str] = {True: "Yes", False: "No"} if field.get("type") == "boolean" else {}
    options = {
        f"opt_{place}": {"name": shown.get(it, str(it)), "kind": "allow_once"}
        for place, it in enumerate(values)
    }
    decline = {"opt_decline": {"name": "Decline", "kind": "reject_once"}}
    chosen = await _choose_option(ticket, client, options | decline)
    if chosen in options:
        value = values[[*options].index(chosen)]
        return ToolCallResume(decision_id="", result={name: value})
    return _decline(None) if chosen in decline else None


async def _choose_option(ticket: Ticket, client: Any, options: Mapping[str, Any]) -> str:
    """Ask the client to choose an option; blank when it cancels."""
    shown = tool_call(ticket.call_id, ticket.tool_name, ticket.arguments)
    if ticket.suspension.message:
        shown["content"] = text_content(ticket.suspension.message)
    listed_options = [{"optionId": option_id, **option} for option_id, option in options.items()]
    asked = {"sessionId": ticket.thread_id, "toolCall": shown, "options": listed_options}
    answer = await client.send_request("session/request_permission", asked)
    return msgspec.convert(answer, Permission).outcome.option_id


def _decline(reason: str | None) -> ToolCallResume:
    return ToolCallResume(decision_id="", action=DecisionAction.CANCEL, reason=reason)


def _is_kept_by_asker(ticket: Ticket) -> bool:
    """Whether the plugin that asks remembers the answer itself, with a scope."""
    asked = ticket.suspension.parameters
    return bool(ticket.asked_by) and isinstance(asked, dict) and "remember" in asked


def _decision(option: str) -> ToolCallResume:
    is_allowed = "allow" in option
    action = DecisionAction.RESUME if is_allowed else DecisionAction.CANCEL
    policy = "always" if option in _ALWAYS else "once"
    result = {"kind": "permission_decision", "approved": is_allowed, "policy": policy}
    remember = Remember(scope=PermissionScope.THREAD) if option in _ALWAYS else None
    return ToolCallResume(decision_id="", action=action, result=result, remember=remember)
