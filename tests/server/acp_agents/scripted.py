"""A coding agent made with the official package; the prompt says what it does."""

import asyncio
import os
from pathlib import Path
from typing import Any

import acp
from acp import schema

CHOICES = ("allow_once", "allow_always", "reject_once", "reject_always")


class Scripted:
    def __init__(self) -> None:
        self.client: Any = None
        self.cancelled = asyncio.Event()

    def on_connect(self, client: Any) -> None:
        self.client = client

    async def initialize(self, protocol_version: int, **_: Any) -> Any:
        able = schema.PromptCapabilities(image=True, embedded_context=True)
        return acp.InitializeResponse(
            protocol_version=protocol_version,
            agent_capabilities=schema.AgentCapabilities(
                load_session=True, prompt_capabilities=able
            ),
        )

    async def new_session(self, cwd: str, **_: Any) -> Any:
        return acp.NewSessionResponse(session_id=f"new in {cwd}")

    async def load_session(self, session_id: str, **_: Any) -> Any:
        if session_id == "forgotten":
            raise acp.RequestError.resource_not_found(session_id)
        await self.say(session_id, "said long ago")
        return acp.LoadSessionResponse()

    async def prompt(self, prompt: list[Any], session_id: str, **_: Any) -> Any:
        told = prompt[0].text
        reason = await getattr(self, told.split()[0])(session_id, prompt)
        return acp.PromptResponse(stop_reason=reason or "end_turn")

    async def cancel(self, session_id: str, **_: Any) -> None:
        self.cancelled.set()

    async def say(self, session_id: str, text: str) -> None:
        await self.client.session_update(session_id, acp.update_agent_message_text(text))

    async def echo(self, session_id: str, prompt: list[Any]) -> None:
        kinds = ",".join(block.type for block in prompt)
        await self.say(session_id, f"{session_id}|{kinds}|{prompt[-1]}")

    async def work(self, session_id: str, _: Any) -> None:
        tell = self.client.session_update
        await self.say(session_id, "I look. ")
        await self.say("another session", "not mine")
        await tell(session_id, acp.start_tool_call("c1", "Read x", kind="read", status="pending"))
        await tell(session_id, acp.update_tool_call("c1", status="completed"))
        await tell(session_id, acp.update_plan([acp.plan_entry("write", status="in_progress")]))
        await tell(session_id, acp.update_agent_thought_text("hm"))
        await self.say(session_id, "It is fine.")

    async def erase(self, session_id: str, prompt: list[Any]) -> None:
        offered = prompt[0].text.split()[1:] or CHOICES
        options = [schema.PermissionOption(option_id=f"o-{it}", name=it, kind=it) for it in offered]
        call = schema.ToolCallUpdate(
            tool_call_id="c1", title="Erase /x", kind="delete", raw_input={"path": "/x"}
        )
        answer = await self.client.request_permission(
            session_id=session_id, tool_call=call, options=options
        )
        await self.say(session_id, getattr(answer.outcome, "option_id", answer.outcome.outcome))

    async def wait(self, session_id: str, prompt: list[Any]) -> str:
        await self.say(session_id, "I begin")
        await self.cancelled.wait()
        Path("heard").write_text("cancel")
        return "cancelled"


if __name__ == "__main__":
    Path("pid").write_text(str(os.getpid()))
    asyncio.run(acp.run_agent(Scripted()))
