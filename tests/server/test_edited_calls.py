"""Edited arguments are checked when the decision is sent: a refused edit decides nothing."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from awaken import Agent, AgentRuntime, tool
from awaken.extensions.permission import PermissionPlugin
from awaken.testing import ScriptedModel, ToolCalls
from awaken.tools import Ticket

from .deciding_world import server_config
from .in_process import Answer, ask, bearer

RULES = [
    {"tool": "pay", "behavior": "ask"},
    {"tool": 'pay(to = "mallory")', "behavior": "deny"},
]


@asynccontextmanager
async def waiting() -> AsyncIterator[tuple[Any, AgentRuntime, Ticket, list[Any]]]:
    """A server with a run that asks before it pays."""
    paid: list[Any] = []

    @tool(effect="none")
    async def pay(to: str, amount: int) -> str:
        """Pay."""
        paid.append((to, amount))
        return "paid"

    agent = Agent(
        "payer",
        model=ScriptedModel([ToolCalls([("pay", {"to": "ann", "amount": 1}, "c")]), "done"]),
        tools=[pay],
        plugins=[PermissionPlugin()],
        config={"permission": {"rules": RULES}},
    )
    async with asyncio.timeout(60), AgentRuntime([agent]) as runtime:
        app = runtime.asgi(server_config())
        await app.open()
        result = await runtime.run("payer", "go", thread_id="t")
        yield app, runtime, result.tickets[0], paid


async def decide(app: Any, ticket: Ticket, **fields: Any) -> Answer:
    body = {"ticketId": ticket.ticket_id, "action": "resume", **fields}
    return await ask(
        app, "POST", f"/v1/runs/{ticket.run_id}/decision", body=body, headers=bearer("all")
    )


def test_an_edit_that_does_not_fit_the_tool_names_the_field_and_decides_nothing() -> None:
    async def scenario() -> None:
        async with waiting() as (app, runtime, ticket, paid):
            answer = await decide(app, ticket, arguments={"to": "ann", "amount": "much"})
            assert (answer.status, answer.json["code"]) == (422, "invalid_edit")
            assert "amount" in answer.error
            (still,) = await runtime.store.list_run_tickets("t", ticket.run_id)
            assert (still.status, still.decision, paid) == ("open", None, [])

    asyncio.run(scenario())


def test_an_edit_that_the_rules_deny_names_the_rule_and_decides_nothing() -> None:
    async def scenario() -> None:
        async with waiting() as (app, runtime, ticket, paid):
            answer = await decide(app, ticket, arguments={"to": "mallory", "amount": 1})
            assert (answer.status, answer.json["code"]) == (403, "edit_denied")
            assert answer.json["rule"] == RULES[1]["tool"]
            (still,) = await runtime.store.list_run_tickets("t", ticket.run_id)
            assert (still.status, still.decision, paid) == ("open", None, [])

    asyncio.run(scenario())


def test_a_good_edit_is_what_the_tool_gets_and_may_be_sent_again() -> None:
    async def scenario() -> None:
        async with waiting() as (app, runtime, ticket, paid):
            edit = {"to": "bob", "amount": 2}
            assert (await decide(app, ticket, arguments=edit)).status == 202
            await runtime.wait(ticket.run_id)
            assert paid == [("bob", 2)]
            assert (await decide(app, ticket, arguments=edit)).status == 202

    asyncio.run(scenario())


def test_a_refusal_with_an_edit_is_a_refusal() -> None:
    async def scenario() -> None:
        async with waiting() as (app, runtime, ticket, paid):
            wrong = {"to": "mallory", "amount": "much"}
            assert (await decide(app, ticket, action="cancel", arguments=wrong)).status == 202
            await runtime.wait(ticket.run_id)
            assert paid == []

    asyncio.run(scenario())
