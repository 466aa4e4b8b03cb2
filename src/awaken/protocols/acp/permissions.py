"""Tickets as permission requests; what was chosen for always is remembered."""

from typing import Any

import msgspec

from awaken.contracts.errors import RunError
from awaken.contracts.permissions import PermissionScope, Remember
from awaken.contracts.profile import ProfileEntry, thread_scope
from awaken.contracts.record import Record
from awaken.contracts.suspension import Asks, DecisionAction, Ticket, ToolCallResume
from awaken.services.view import TenantView

from .updates import shown_text, tool_call

_KINDS = ("allow_once", "allow_always", "reject_once", "reject_always")
_OPTIONS = {f"opt_{it}": {"name": it.replace("_", " ").capitalize(), "kind": it} for it in _KINDS}
_ALWAYS = ("opt_allow_always", "opt_reject_always")


class Outcome(Record, frozen=True, kw_only=True):
    """What somebody chose, if they did."""

    option_id: str = msgspec.field(name="optionId", default="")


class Permission(Record, frozen=True, kw_only=True):
    """The answer to `session/request_permission`."""

    outcome: Outcome


async def permission(view: TenantView, ticket: Ticket, client: Any) -> ToolCallResume | None:
    """What was decided for always, else what the client decides now; None when it gives up.

    Raises:
        RunError: It is asked for more than yes or no; the run is cancelled.
    """
    if ticket.asked is Asks.ANSWER:
        await view.cancel_run(ticket.run_id)
        raise RunError(f"Tool '{ticket.tool_name}' asks for an answer that ACP cannot give.")
    scope, key = thread_scope(ticket.thread_id), f"acp.permission.{ticket.tool_name}"
    is_kept_there = _is_kept_by_asker(ticket)
    known = None if is_kept_there else await view.profile.find_entry(scope, key)
    if known is not None and known.value in _ALWAYS:
        return _decision(known.value)
    shown = tool_call(ticket.call_id, ticket.tool_name, ticket.arguments)
    if ticket.suspension.message:
        shown["content"] = shown_text(ticket.suspension.message)
    options = [{"optionId": option_id, **option} for option_id, option in _OPTIONS.items()]
    asked = {"sessionId": ticket.thread_id, "toolCall": shown, "options": options}
    answer = await client.send_request("session/request_permission", asked)
    chosen = msgspec.convert(answer, Permission).outcome.option_id
    if chosen not in _OPTIONS:
        return None
    if chosen in _ALWAYS and not is_kept_there:
        entry = ProfileEntry(owner=scope, key=key, value=chosen, updated_at=view.now_ms())
        await view.profile.save_entry(entry)
    return _decision(chosen)


def _is_kept_by_asker(ticket: Ticket) -> bool:
    """Whether the asker says how far an answer reaches: it remembers it, and can forget it."""
    asked = ticket.suspension.parameters
    return bool(ticket.asked_by) and isinstance(asked, dict) and "remember" in asked


def _decision(option: str) -> ToolCallResume:
    is_allowed = "allow" in option
    action = DecisionAction.RESUME if is_allowed else DecisionAction.CANCEL
    policy = "always" if option in _ALWAYS else "once"
    result = {"kind": "permission_decision", "approved": is_allowed, "policy": policy}
    remember = Remember(scope=PermissionScope.THREAD) if option in _ALWAYS else None
    return ToolCallResume(decision_id="", action=action, result=result, remember=remember)
