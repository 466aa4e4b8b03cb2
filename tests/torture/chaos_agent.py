"""An agent that does what the last message tells it, whichever process asks it.

`say hello` is answered with text, `use once` calls the tool of that name, and after the result of
a tool the answer is `done`. What it does follows from the transcript alone, so a run can be
continued anywhere.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import msgspec

from awaken import Agent
from awaken.contracts.messages.deltas import TextDelta, ToolCallDelta, ToolCallStart
from awaken.contracts.messages.message import Role
from awaken.contracts.models.inference import (
    InferenceRequest,
    ModelEvent,
    Stop,
    StopReason,
    TokenUsage,
    UsageReport,
)
from awaken.contracts.suspension.tickets import SuspendTicket, Suspension
from awaken.contracts.tool_results import ToolResult
from awaken.contracts.tools.context import ToolContext
from awaken.contracts.tools.tool import ToolDescriptor, ToolEffect, ToolOutput

AGENT = "agent"
Note = Callable[[ToolContext, str], object]
"""Told of a tool's call when it starts and when it ends."""
Pause = Callable[[], Awaitable[object]]

_USAGE = UsageReport(usage=TokenUsage(prompt_tokens=1, completion_tokens=1, total_tokens=2))


async def no_pause() -> None:
    """Let others run."""
    await asyncio.sleep(0)


class Obeying:
    """A model that obeys the last message."""

    name = "scripted"
    is_deterministic = True

    def __init__(self, pause: Pause = no_pause) -> None:
        self._pause = pause

    async def stream(self, request: InferenceRequest) -> AsyncGenerator[ModelEvent, None]:
        last = next(it for it in reversed(request.messages) if it.role in (Role.USER, Role.TOOL))
        verb, _, rest = last.text.partition(" ")
        await self._pause()
        if last.role is Role.USER and verb == "use":
            step = sum(it.role is Role.ASSISTANT for it in request.messages)
            for number, name in enumerate(rest.split()):
                call_id = f"c{step}_{number}"
                yield ToolCallStart(id=call_id, name=name)
                yield ToolCallDelta(id=call_id, args_delta="{}")
            yield _USAGE
            yield Stop(reason=StopReason.TOOL_USE)
            return
        text = "done" if last.role is Role.TOOL else f"heard {rest}"
        yield TextDelta(delta=text[:2])
        await self._pause()
        yield TextDelta(delta=text[2:])
        yield _USAGE
        yield Stop(reason=StopReason.END_TURN)


class Deed:
    """A tool that notes its start and its end, with work in between."""

    def __init__(self, name: str, effect: ToolEffect, note: Note, work: Pause = no_pause) -> None:
        self.descriptor = ToolDescriptor(id=name, effect=effect)
        self._note = note
        self._work = work

    def validate(self, arguments: Any) -> Any:
        return arguments

    async def execute(self, _arguments: Any, context: ToolContext) -> ToolOutput:
        self._note(context, "start")
        await self._work()
        self._note(context, "end")
        return ToolOutput(result=ToolResult.success(self.descriptor.id, "done"))


class Asking:
    """A tool that waits for a decision and notes what it was told; it may have a deadline."""

    descriptor = ToolDescriptor(id="ask", effect=ToolEffect.ONCE)

    def __init__(self, note: Note, deadline: Callable[[], int | None] = lambda: None) -> None:
        self._note = note
        self._deadline = deadline

    def validate(self, arguments: Any) -> Any:
        return arguments

    async def execute(self, _arguments: Any, context: ToolContext) -> ToolOutput:
        if context.resume is None:
            ticket = SuspendTicket(suspension=Suspension(action="ask"), expires_at=self._deadline())
            return ToolOutput(result=ToolResult.from_ticket("ask", ticket))
        told = msgspec.json.encode(context.resume.result).decode()
        self._note(context, f"told {told}")
        return ToolOutput(result=ToolResult.success("ask", context.resume.result))


def obeying_agent(
    note: Note, pause: Pause = no_pause, work: Pause = no_pause, **more: Any
) -> Agent:
    """An agent with a tool of every effect, and one that asks."""
    tools = [Deed(effect.value, effect, note, work) for effect in ToolEffect]
    return Agent(AGENT, model=Obeying(pause), tools=[*tools, Asking(note, **more)])
