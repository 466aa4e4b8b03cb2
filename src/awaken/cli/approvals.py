"""Decisions on tool calls without a person: those of `--approve`, and the report of what waits."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated

import typer

from awaken.contracts.suspension.tickets import Asks, DecisionAction, Ticket, ToolCallResume
from awaken.contracts.workflows.waits import describe_wait

from .output import plain
from .ticket_text import call_text


class Approval(StrEnum):
    """How every question of a tool is decided without asking."""

    ALL = "all"
    NONE = "none"


Approve = Annotated[
    Approval | None,
    typer.Option(
        "--approve",
        help="Without asking, approve every call that needs it (all), or decline it (none). "
        "Rules that deny a call still do.",
    ),
]


def decide_without_asking(
    approval: Approval | None, tickets: Sequence[Ticket]
) -> Mapping[str, ToolCallResume] | None:
    """The decisions of `--approve`; None if a person must decide.

    A question that wants an answer, and not a permission, cannot be approved.
    """
    if approval is None:
        return None
    if approval is Approval.ALL and any(it.question_kind is not Asks.PERMISSION for it in tickets):
        return None
    action = DecisionAction.RESUME if approval is Approval.ALL else DecisionAction.CANCEL
    return {
        it.ticket_id: ToolCallResume(decision_id="", action=action, arguments_hash=it.call_hash)
        for it in tickets
    }


def describe_waiting(tickets: Sequence[Ticket], thread_id: str | None, *, is_kept: bool) -> str:
    """What waits for a decision where there is no terminal, and every way to decide."""
    calls = [f"  {call_text(it.tool_name, it.arguments)}" for it in tickets]
    if is_kept:
        calls = [f"{line}  ticket {it.ticket_id}" for line, it in zip(calls, tickets, strict=True)]
    ways = "Run it at a terminal, or decide in advance: --approve all, --approve none."
    if is_kept:
        ways += (
            f" It waits in the store: `awaken tickets show TICKET` shows all of it, `awaken decide "
            f"TICKET` decides, and `awaken chat … --thread {thread_id}` asks."
        )
    head = "awaken: the run waits for a decision, and there is no terminal to ask at; nothing was "
    return "\n".join([f"{head}approved:", *calls, ways])


def describe_outside_wait(run_id: str, waits: Sequence[Ticket], *, is_kept: bool) -> str:
    """What a workflow waits for that nobody decides, and what continues it."""
    lines = [f"awaken: run {run_id} waits.", *(f"  {plain(describe_wait(it))}" for it in waits)]
    way = "The run ends with this process: name a store with --store, where it goes on."
    if is_kept:
        way = (
            "It waits in the store. `awaken worker` or `awaken serve` with this app and this "
            f"store continues it, `awaken runs event {run_id} NAME` sends it an event."
        )
    return "\n".join([*lines, way])
