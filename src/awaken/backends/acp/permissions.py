"""Turns requests for permission into tickets, and decisions into the option they pick."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from awaken.contracts.backends.requests import DecisionChannel
from awaken.contracts.errors import AwakenError
from awaken.contracts.messages.message import ToolCall
from awaken.contracts.record import Record
from awaken.contracts.suspension import tickets as tickets

ACTION = "acp_permission"
_KINDS = ("read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode")
_CANCELLED = {"outcome": {"outcome": "cancelled"}}


class Option(Record, frozen=True, kw_only=True, rename="camel"):
    """One of the answers that the agent offers."""

    option_id: str
    name: str
    kind: str


class AskedCall(Record, frozen=True, kw_only=True, rename="camel"):
    """What the agent wants to do."""

    tool_call_id: str
    title: str | None = None
    kind: str | None = None
    content: Any = None
    locations: Any = None
    raw_input: Any = None


class PermissionRequest(Record, frozen=True, kw_only=True, rename="camel"):
    """The parameters of `session/request_permission`."""

    session_id: str
    tool_call: AskedCall
    options: tuple[Option, ...]


class PermissionQuestions:
    """Asks the run's decision channel; without one, or without a clear approval, it refuses."""

    def __init__(
        self,
        decisions: DecisionChannel | None,
        expires_at: int,
        fail: Callable[[AwakenError], None],
    ) -> None:
        self._decisions = decisions
        self._expires_at = expires_at
        self._fail = fail
        self._count = 0
        self._waits: set[asyncio.Timeout] = set()
        self._is_closed = False

    async def answer(self, asked: PermissionRequest) -> dict[str, Any]:
        """Wait for the decision on a request and return its outcome."""
        if self._is_closed:
            return _CANCELLED
        if self._decisions is None:
            return outcome(asked, None)
        self._count += 1
        call, ticket = _make_ticket(asked, self._count, self._expires_at)
        try:
            async with asyncio.timeout(None) as wait:
                self._waits.add(wait)
                return outcome(asked, await self._decisions.ask(call, ticket))
        except TimeoutError:
            return _CANCELLED
        except AwakenError as error:
            self._fail(error)
            return _CANCELLED
        finally:
            self._waits.discard(wait)

    def close(self) -> None:
        """Answer every open and every later request as cancelled."""
        if self._is_closed:
            return
        self._is_closed = True
        now = asyncio.get_running_loop().time()
        for wait in self._waits:
            wait.reschedule(now)


def outcome(asked: PermissionRequest, decision: tickets.ToolCallResume | None) -> dict[str, Any]:
    """The answer to the agent: the option that the decision picks, or that it was cancelled."""
    option = _pick_option(asked, decision) or _first(asked, "reject_once")
    if option is None:
        return _CANCELLED
    return {"outcome": {"outcome": "selected", "optionId": option.option_id}}


def _pick_option(
    asked: PermissionRequest, decision: tickets.ToolCallResume | None
) -> Option | None:
    if decision is None:
        return None
    given = decision.result if isinstance(decision.result, dict) else {}
    name = decision.result if isinstance(decision.result, str) else given.get("option_id")
    named = next((it for it in asked.options if it.option_id == name), None)
    # The agent executes what it asked for: edited arguments would not reach it.
    is_edited = decision.arguments not in (None, asked.tool_call.raw_input)
    is_refused = is_edited or given.get("approved") is False
    if decision.action is not tickets.DecisionAction.RESUME or is_refused:
        return named if named is not None and named.kind.startswith("reject") else None
    return _first(asked, "allow_once") if name is None else named


def _first(asked: PermissionRequest, kind: str) -> Option | None:
    return next((option for option in asked.options if option.kind == kind), None)


def _make_ticket(
    asked: PermissionRequest, number: int, expires_at: int
) -> tuple[ToolCall, tickets.SuspendTicket]:
    wanted = asked.tool_call
    kind = wanted.kind if wanted.kind in _KINDS else "other"
    # The agent may ask twice about one call; each decision answers one question only.
    call_id, name = f"{wanted.tool_call_id}:{number}", f"{ACTION}_{kind}"
    call = ToolCall(id=call_id, name=name, arguments=wanted.raw_input)
    ids = [option.option_id for option in asked.options]
    suspension = tickets.Suspension(
        action=ACTION,
        message=wanted.title or f"The coding agent wants to {kind}.",
        parameters=msgspec.to_builtins(asked),
        # Only `option_id` is constrained: a plain approval has no result.
        response_schema={"properties": {"option_id": {"type": "string", "enum": ids}}},
        choices={it.option_id: it.kind.startswith("allow") for it in asked.options},
    )
    pending = tickets.PendingToolCall(id=call_id, name=name, arguments=wanted.raw_input)
    mode = tickets.ResumeMode.PASS_DECISION_TO_TOOL
    return call, tickets.SuspendTicket(
        suspension=suspension,
        pending=pending,
        resume_mode=mode,
        expires_at=expires_at,
        asks=tickets.Asks.PERMISSION,
    )
