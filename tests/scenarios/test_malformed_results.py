"""What tools and gates write into records is checked before it is stored.

A field of another type can be written, and never be read again: then no list that has the record
can be read either.
"""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from awaken import Agent, AgentRuntime, Plugin, SuspendTicket, ToolContext, ToolResult, tool
from awaken.contracts.plugins.plugin import Suspend
from awaken.contracts.suspension.tickets import Suspension
from awaken.testing import ScriptedModel, ToolCalls

ASKED = SuspendTicket(suspension=Suspension(message="May I?"))
TICKETS: dict[str, Any] = {
    "message": SuspendTicket(suspension=Suspension(message=5)),  # type: ignore[arg-type]
    "no message": SuspendTicket(suspension=Suspension(message=None)),  # type: ignore[arg-type]
    "action": SuspendTicket(suspension=Suspension(action=7)),  # type: ignore[arg-type]
    "schema": SuspendTicket(suspension=Suspension(response_schema="x")),  # type: ignore[arg-type]
    "suspension": SuspendTicket(suspension="May I?"),  # type: ignore[arg-type]
    "deciders text": msgspec.structs.replace(ASKED, deciders="boss"),
    "deciders number": msgspec.structs.replace(ASKED, deciders=(1,)),
    "expires_at": msgspec.structs.replace(ASKED, expires_at="soon"),
    "on_expiry": msgspec.structs.replace(ASKED, on_expiry="maybe"),
    "asks": msgspec.structs.replace(ASKED, asks="please"),
    "resume_mode": msgspec.structs.replace(ASKED, resume_mode=0),
}
RESULTS: dict[str, Any] = {
    "message": ToolResult(tool_name="act", message=5),  # type: ignore[arg-type]
    "status": ToolResult(tool_name="act", status="fine"),  # type: ignore[arg-type]
    "metadata": ToolResult(tool_name="act", metadata=[1]),  # type: ignore[arg-type]
    "usage": ToolResult(tool_name="act", usage={"prompt_tokens": "x"}),  # type: ignore[arg-type]
    "tool_name": ToolResult(tool_name=None),  # type: ignore[arg-type]
    "suspension": ToolResult(tool_name="act", suspension={"deciders": 1}),  # type: ignore[arg-type]
}


class Gate(Plugin):
    """Answers every call with a ticket."""

    name = "gate"

    def __init__(self, ticket: SuspendTicket) -> None:
        self._ticket = ticket

    def register(self, registrar: Any) -> None:
        async def ask(*_: Any) -> Suspend:
            return Suspend(ticket=self._ticket)

        registrar.gate(ask)


def play(path: Path, returned: Any, *plugins: Plugin) -> str:
    """Let a tool return something; returns the stored result, after all lists were read."""

    @tool
    async def act(ctx: ToolContext) -> Any:
        return returned

    async def story() -> str:
        model = ScriptedModel([ToolCalls([("act", {})]), "Done."])
        agent = Agent("a", model=model, tools=[act], plugins=list(plugins))
        store = f"sqlite:///{path}/s.db"
        async with AgentRuntime([agent], store=store) as runtime:
            done = await runtime.run("a", "go", thread_id="t")
            assert not done.is_waiting
        async with AgentRuntime([agent], store=store) as runtime:
            assert await runtime.tickets() == ()
            assert len(await runtime.list_runs()) == 1
            return (await runtime.messages("t"))[2].message.text

    return asyncio.run(story())


@pytest.mark.parametrize("field", TICKETS)
def test_a_malformed_ticket_of_a_tool_is_an_error_of_the_tool(field: str, tmp_path: Path) -> None:
    # A suspension that is no record fails before it is checked.
    assert ("failed" if field == "suspension" else "malformed") in play(tmp_path, TICKETS[field])


@pytest.mark.parametrize("field", RESULTS)
def test_a_malformed_result_is_an_error_of_the_tool(field: str, tmp_path: Path) -> None:
    assert "malformed" in play(tmp_path, RESULTS[field])


@pytest.mark.parametrize("field", TICKETS)
def test_a_malformed_ticket_of_a_gate_blocks_the_call(field: str, tmp_path: Path) -> None:
    assert "gate of 'gate' failed" in play(tmp_path, "never", Gate(TICKETS[field]))
