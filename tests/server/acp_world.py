"""What tests of ACP share: an editor made of the official client, on the other end of a pipe."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from acp.client.connection import ClientSideConnection
from acp.schema import AllowedOutcome, DeniedOutcome, RequestPermissionResponse

from awaken import AgentRuntime
from awaken.bootstrap.session_servers import session_servers_of
from awaken.protocols.acp.sessions import Sessions
from awaken.protocols.acp.stdio import serve

Choose = Callable[[Any], Any]


class Editor:
    """Notes every update, and answers permission requests with the next choice."""

    def __init__(self, *choices: str | None) -> None:
        self.updates: list[Any] = []
        self.asked: list[Any] = []
        self.choices = list(choices)
        self.seen = asyncio.Event()
        """Set with every update and request."""

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.updates.append(update)
        self.seen.set()

    async def request_permission(
        self, session_id: str, tool_call: Any, options: Any, **_: Any
    ) -> Any:
        self.asked.append((tool_call, [option.kind for option in options]))
        self.seen.set()
        if not self.choices:
            await asyncio.Event().wait()
        choice = self.choices.pop(0)
        if choice is None:
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        (option,) = [option for option in options if option.kind == choice]
        return RequestPermissionResponse(
            outcome=AllowedOutcome(outcome="selected", option_id=option.option_id)
        )

    def on_connect(self, _: Any) -> None:
        """Nothing to do."""

    def kinds(self) -> list[str]:
        return [update.session_update for update in self.updates]

    def text(self, kind: str = "agent_message_chunk") -> str:
        found = [it.content.text for it in self.updates if it.session_update == kind]
        return "".join(found)

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self.seen.clear()
            await asyncio.wait_for(self.seen.wait(), 10)


@asynccontextmanager
async def editing(
    runtime: AgentRuntime, editor: Editor, on_drain: Callable[[], None] | None = None
) -> AsyncIterator[ClientSideConnection]:
    """A connected client; the runtime is drained when it goes."""
    left, right = socket.socketpair()
    async with runtime:
        streams = await asyncio.open_connection(sock=left)

        async def drain() -> None:
            if on_drain is not None:
                on_drain()
            await runtime.drain(5000)

        sessions = Sessions(runtime.view("local"), None, "0", session_servers_of(runtime).open)
        serving = asyncio.create_task(serve(sessions, streams, drain))
        reader, writer = await asyncio.open_connection(sock=right)
        client = ClientSideConnection(editor, writer, reader)
        try:
            yield client
        finally:
            await client.close()
            writer.close()
            await writer.wait_closed()
            await asyncio.wait_for(serving, 10)
