"""Two ways to wait for a person.

`send_money` asks by itself: it returns a ticket, and runs again with the decision. The plugin
asks for every tool whose name begins with `delete_`; those tools know nothing about it.
While a run waits it holds no task: it is a record in the store.
"""

import asyncio

from awaken import Agent, AgentRuntime, Plugin, PluginRegistrar, SuspendTicket, ToolContext, tool
from awaken.plugins import GateDecision, Suspend, ToolGateContext
from awaken.testing import ScriptedModel, ToolCalls
from awaken.tools import Asks, Suspension

files = {"draft.txt", "notes.txt"}


@tool
async def send_money(amount: int, to: str, ctx: ToolContext) -> str | SuspendTicket:
    """Send money to somebody; a person has to agree."""
    if ctx.resume is None:
        question, shown = f"Send {amount} to {to}?", {"amount": amount, "to": to}
        return ctx.suspend(question, parameters=shown, asks=Asks.PERMISSION)
    return f"sent {amount} to {to}, approved by {ctx.resume.decided_by}"


@tool
async def delete_file(name: str) -> str:
    """Delete a file."""
    files.remove(name)
    return f"deleted {name}"


class AskBeforeDelete(Plugin):
    """Asks before any tool whose name begins with `delete_`."""

    name = "ask_before_delete"

    def register(self, registrar: PluginRegistrar) -> None:
        """Add the gate."""
        registrar.gate(self.gate)

    async def gate(self, context: ToolGateContext) -> GateDecision | None:
        """Hold the call; once it was decided on, the runtime does not ask the same again."""
        call = context.call
        if not call.name.startswith("delete_"):
            return None
        question = Suspension(action="confirm_delete", message=f"{call.name} {call.arguments}?")
        return Suspend(ticket=SuspendTicket(suspension=question))


async def pay(runtime: AgentRuntime) -> None:
    """A tool that asks by itself."""
    waiting = await runtime.run("assistant", "Pay Ann.", thread_id="payments")
    assert waiting.is_waiting

    (ticket,) = await runtime.tickets("payments")
    print(f"waiting: {ticket.suspension.message}")
    await runtime.decide(ticket.ticket_id, "resume", decided_by="Eve")

    done = await runtime.wait(waiting.run_id)
    messages = await runtime.messages("payments")
    print(f"{messages[-2].message.text} / {done.text}")
    assert done.run_id == waiting.run_id
    assert messages[-2].message.text == "sent 50 to Ann, approved by Eve"
    assert done.text == "Paid."


async def clean_up(runtime: AgentRuntime) -> None:
    """A gate that asks; one call is agreed to, the other one is not."""
    waiting = await runtime.run("assistant", "Delete both files.", thread_id="files")
    assert files == {"draft.txt", "notes.txt"}

    for ticket in await runtime.tickets("files"):
        print(f"waiting: {ticket.suspension.message}")
        action = "resume" if ticket.arguments == {"name": "draft.txt"} else "cancel"
        await runtime.decide(ticket.ticket_id, action, reason="Keep this one.")

    done = await runtime.wait(waiting.run_id)
    print(f"left: {files} / {done.text}")
    assert files == {"notes.txt"}
    assert done.text == "One is left."


async def main() -> None:
    deletions = [("delete_file", {"name": name}) for name in ("draft.txt", "notes.txt")]
    model = ScriptedModel(
        [
            ToolCalls([("send_money", {"amount": 50, "to": "Ann"})]),
            "Paid.",
            ToolCalls(deletions),
            "One is left.",
        ]
    )
    agent = Agent(
        "assistant",
        model=model,
        tools=[send_money, delete_file],
        plugins=[AskBeforeDelete()],
    )
    async with AgentRuntime([agent]) as runtime:
        await pay(runtime)
        await clean_up(runtime)
        assert await runtime.tickets() == ()


if __name__ == "__main__":
    asyncio.run(main())
