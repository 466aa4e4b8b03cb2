"""A conversation in the terminal: prints events, and asks the person to decide on tickets."""

import sys
from typing import cast

import typer

from awaken.bootstrap.agent_runtime import AgentRuntime
from awaken.bootstrap.decisions import DecisionOptions
from awaken.contracts.errors import InvalidInput
from awaken.contracts.events import AgentEvent, RunFinish, ToolCallDone, ToolCallReady
from awaken.contracts.lifecycle import Failed, Stopped, reason_text
from awaken.contracts.messages.deltas import TextDelta
from awaken.contracts.suspension.tickets import Ticket, ToolCallOutcome

from .ticket_prompts import ask_ticket

WELCOME = "You talk to '{agent}'. An empty line or Ctrl-D ends the conversation."


async def converse(runtime: AgentRuntime, agent_id: str) -> None:
    """Answer lines from the terminal until there are no more."""
    typer.echo(WELCOME.format(agent=agent_id))
    handle = None
    while text := (_answer_line("you> ") or "").strip():
        thread_id = handle
        handle = await answer(runtime, agent_id, text, thread_id=thread_id)


async def answer(
    runtime: AgentRuntime, agent_id: str, text: str, *, thread_id: str | None
) -> str | None:
    """Run the agent once, print its events, and return the thread it ran on."""
    async for event in runtime.stream(agent_id, text, thread_id=thread_id):
        _show(event)
        if isinstance(event, RunFinish):
            thread_id = event.thread_id
    while thread_id and (tickets := await runtime.tickets(thread_id)):
        await _settle(runtime, tickets)
    return thread_id


async def _settle(runtime: AgentRuntime, tickets: tuple[Ticket, ...]) -> None:
    for ticket in tickets:
        # The decision is about the arguments, which the message need not contain.
        asked = f"[{ticket.tool_name} {ticket.arguments}] {ticket.suspension.message or ''}"
        typer.echo(f"\n{asked.rstrip()}")
        while not await _decide(runtime, ticket):
            pass
    result = await runtime.wait(tickets[0].run_id)
    if result.text:
        typer.echo(result.text)
    match result.termination:
        case Failed(message=message):
            typer.echo(f"[failed: {message}]")
        case Stopped() as stopped:
            typer.echo(f"[{reason_text(stopped)}]")


async def _decide(runtime: AgentRuntime, ticket: Ticket) -> bool:
    """Ask the person; False when the answer does not fit, and must be given again."""
    given = ask_ticket(ticket, _answer_line, typer.echo)
    # Absent options are left out: a present one counts as an answer.
    said = {"result": given.result, "remember": given.remember}
    options: DecisionOptions = {"arguments_hash": ticket.call_hash}
    options |= cast("DecisionOptions", {name: it for name, it in said.items() if it is not None})
    try:
        await runtime.decide(ticket.ticket_id, given.action, **options)
    except InvalidInput as error:
        typer.echo(str(error))
        return False
    return True


def _show(event: AgentEvent) -> None:
    match event:
        case TextDelta(delta=delta):
            typer.echo(delta, nl=False)
        case ToolCallReady(name=name, arguments=arguments):
            typer.echo(f"[{name} {arguments}]")
        case ToolCallDone(outcome=ToolCallOutcome.FAILED, result=result):
            typer.echo(f"[failed: {result.message}]")
        case RunFinish(awaits_tasks=True):
            typer.echo("\n[waits for its tasks]")
        case RunFinish(termination=Failed(message=message)):
            typer.echo(f"\n[failed: {message}]")
        case RunFinish(termination=Stopped() as stopped):
            typer.echo(f"\n[{reason_text(stopped)}]")
        case RunFinish():
            typer.echo()


def _answer_line(prompt: str) -> str | None:
    """Read a line from the terminal; None at the end of the input."""
    typer.echo(prompt, nl=False)
    return sys.stdin.readline() or None
