"""The agent's side of the protocol: sessions, prompts and stop reasons."""

import asyncio
from collections.abc import Mapping
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any

import msgspec

from awaken.contracts import events, identity
from awaken.contracts import lifecycle as ends
from awaken.contracts.errors import AwakenError, InvalidInput, Misuse, UnknownAgent
from awaken.contracts.runs.records import RunRequest, context_in
from awaken.contracts.storage import queries
from awaken.contracts.suspension.tickets import Ticket, ToolCallResume
from awaken.contracts.tools.session_tools import OpenSessionTools, SessionTools
from awaken.contracts.tracing import trace_in
from awaken.services.event_streams import EventStream
from awaken.services.threads import ThreadEdit
from awaken.services.view import TenantView

from .decode import OpenSession, Prompt, message_of, session_server
from .permissions import PromptFailed, ask_permission
from .updates import event_updates, history_updates

SETTLE_S = 5
_ENDS: Mapping[type, str] = {ends.Cancelled: "cancelled", ends.Blocked: "refusal"}
_STOPS = {"token_budget": "max_tokens", "stop_on_tool": "end_turn", "content_match": "end_turn"}

Answer = Mapping[str, Any]
Cancel = asyncio.Future[None]
"""Done when a turn is cancelled."""


class Sessions:
    """Serves one client; nothing is sent to a client that has disconnected."""

    def __init__(
        self,
        view: TenantView,
        agent_id: str | None,
        version: str,
        open_tools: OpenSessionTools | None = None,
        *,
        context: dict[str, Any] | None = None,
    ) -> None:
        """`open_tools` starts the MCP servers of a session; without it sessions have none.

        `context` is the context of runs whose prompt brings none, as most editors' do.
        """
        self._context = context
        self._open_tools = open_tools
        self._tools: dict[str, SessionTools] = {}
        """The servers of each session that has any."""
        self.client: Any = None
        """The connection of the official SDK, once there is one."""
        self._view = view
        self._agent_id = agent_id
        self._version = version
        self._cancels: dict[str, Cancel] = {}
        self._turns: set[asyncio.Task[Any]] = set()

    async def initialize(self, _: Any) -> Answer:
        """Report the capabilities."""
        prompts = {"image": True, "audio": False, "embeddedContext": True}
        return {
            "protocolVersion": 1,
            "agentInfo": {"name": "awaken-acp", "version": self._version},
            "agentCapabilities": {
                "loadSession": True,
                "promptCapabilities": prompts,
                "mcpCapabilities": {"http": self._open_tools is not None, "sse": False},
            },
            "authMethods": [],
        }

    async def check_context(self) -> None:
        """Check the context that the sessions were given, before a client connects.

        Raises:
            InvalidContext: It does not fit the agent.
            Misuse: There is no such agent.
        """
        if self._context is None:
            return
        agent = await self._view.agent(await self._agent())
        if agent.context is not None:
            agent.context.decode(agent.spec.id, self._context)

    async def authenticate(self, _: Any) -> Answer:
        """Accept the client: it started this process."""
        return {}

    async def new_session(self, params: Any) -> Answer:
        """Create a thread."""
        asked = _read_open_session(params)
        await self._agent()
        tools = await self._start_tools(asked)
        try:
            thread = await self._view.create_thread(ThreadEdit(custom={"acp.cwd": asked.cwd}))
        except BaseException:
            if tools is not None:
                await tools.close()
            raise
        await self._replace_tools(thread.id, tools)
        return {"sessionId": thread.id}

    async def load_session(self, params: Any) -> Answer:
        """Send the history of a thread again."""
        asked = _read_open_session(params)
        session_id = asked.session_id
        await self._view.thread(session_id)
        await self._replace_tools(session_id, await self._start_tools(asked))
        seen = queries.VisibilityFilter.EXTERNAL
        query = queries.MessageQuery(limit=queries.LIMIT_MAX, visibility=seen)
        while True:
            page = await self._view.messages(session_id, query)
            for record in page.items:
                for update in history_updates(record.message):
                    await self._send_update(session_id, update)
            if page.next_cursor is None:
                return {}
            query = queries.at_cursor(query, page.next_cursor)

    async def cancel(self, params: Any) -> None:
        """Cancel the turn; its prompt answers when it has stopped."""
        session_id = msgspec.convert(params, Prompt).session_id
        cancelled = self._cancels.pop(session_id, None)
        if cancelled is not None:
            cancelled.set_result(None)
            await self._view.cancel_thread(session_id)

    async def prompt(self, params: Any) -> Answer:
        """Run the agent, send its updates, and ask the client for permissions."""
        asked = msgspec.convert(params, Prompt)
        # Before anything else: a cancel that follows at once means this turn.
        cancelled = self._cancels[asked.session_id] = Cancel()
        turn = asyncio.ensure_future(self._turn(asked, cancelled))
        self._turns.add(turn)
        try:
            return {"stopReason": await turn}
        except AwakenError:
            if not cancelled.done():
                raise
            return {"stopReason": "cancelled"}
        finally:
            self._turns.discard(turn)
            if self._cancels.get(asked.session_id) is cancelled:
                del self._cancels[asked.session_id]

    async def settle(self) -> None:
        """Wait a short time for turns that are about to end."""
        if self._turns:
            await asyncio.wait(self._turns, timeout=SETTLE_S)

    async def close(self) -> None:
        """Close the servers of all sessions."""
        tools, self._tools = list(self._tools.values()), {}
        await asyncio.gather(*(it.close() for it in tools))

    async def _start_tools(self, asked: OpenSession) -> SessionTools | None:
        servers = [session_server(it, asked.cwd) for it in asked.mcp_servers]
        if not servers:
            return None
        if self._open_tools is None:
            raise InvalidInput(what="mcpServers", problem="this agent starts no servers")
        return await self._open_tools(servers)

    async def _replace_tools(self, session_id: str, tools: SessionTools | None) -> None:
        """Set the servers of a session, and close its previous ones."""
        before = self._tools.pop(session_id, None)
        if tools is not None:
            self._tools[session_id] = tools
        if before is not None:
            await before.close()

    async def _turn(self, asked: Prompt, cancelled: Cancel) -> str:
        await self._view.thread(asked.session_id)
        said, adapter = message_of(asked.prompt), identity.Adapter.ACP
        tools = self._tools.get(asked.session_id)
        context = context_in(asked.meta)
        request = RunRequest(
            thread_id=asked.session_id,
            agent_id=await self._agent(),
            messages=(said,),
            adapter=adapter,
            trace=trace_in(asked.meta),
            context=self._context if context is None else context,
            session_id=None if tools is None else tools.session_id,
            session_tools=() if tools is None else tools.descriptors(),
        )
        started = await self._view.start(request)
        if cancelled.done():
            await self._view.cancel_run(started.run_id)
        end = await self._follow(started.stream)
        while isinstance(end, ends.Suspended) and not await self._is_up_to_user(started.run_id):
            end = await self._go_on(asked.session_id, started.run_id, cancelled)
        return _stop_reason(end)

    async def _follow(self, stream: EventStream) -> ends.Termination:
        """Send updates until the run ends or waits."""
        async with aclosing(stream.batches()) as batches:
            async for batch in batches:
                for event in map(events.unwrap_event, batch):
                    if isinstance(event, events.RunFinish) and events.ends_stream(event):
                        return event.termination
                    if isinstance(event, events.ErrorEvent):
                        raise PromptFailed(event.message)
                    for update in event_updates(event):
                        await self._send_update(stream.thread_id, update)
        raise PromptFailed("The run waits for a decision of another client.")

    async def _is_up_to_user(self, run_id: str) -> bool:
        """Whether the run waits for the next prompt, and nothing can be decided.

        A workflow that only sleeps or waits for an event asks nothing: the turn is over.
        """
        run = await self._view.run(run_id)
        if not run.is_workflow:
            return run.awaits_message
        return all(it.run_id != run_id for it in await self._view.tickets(run.thread_id))

    async def _go_on(self, session_id: str, run_id: str, cancelled: Cancel) -> ends.Termination:
        """Ask the client to decide on the tickets of a run, and follow the run further."""
        decisions: dict[str, ToolCallResume] = {}
        for ticket in await self._view.tickets(session_id):
            if ticket.run_id == run_id:
                decision = await self._ask_client(ticket, cancelled)
                if decision is None:
                    await self._view.cancel_run(run_id)
                    return ends.Cancelled()
                decisions[ticket.ticket_id] = decision
        run = await self._view.run(run_id)
        return await self._follow(await self._view.decide_and_follow(run, decisions))

    async def _ask_client(self, ticket: Ticket, cancelled: Cancel) -> ToolCallResume | None:
        """Ask the client to decide; None as soon as the turn is cancelled."""
        asking = asyncio.ensure_future(ask_permission(self._view, ticket, self.client))
        try:
            await asyncio.wait((asking, cancelled), return_when=asyncio.FIRST_COMPLETED)
            return None if cancelled.done() else await asking
        finally:
            asking.cancel()

    async def _send_update(self, session_id: str, update: Mapping[str, Any]) -> None:
        # The run continues without a client; its messages are on the thread.
        with suppress(ConnectionError):
            params = {"sessionId": session_id, "update": update}
            await self.client.send_notification("session/update", params)

    async def _agent(self) -> str:
        wanted = self._agent_id
        if wanted is None:
            agents = await self._view.agents()
            wanted = "default" if len(agents) != 1 else next(iter(agents))
        try:
            await self._view.agent(wanted)
        except UnknownAgent as error:
            raise Misuse(f"There is no agent '{wanted}'; name one of {error.known}.") from error
        return wanted


METHODS = {
    "initialize": Sessions.initialize, "authenticate": Sessions.authenticate,
    "session/new": Sessions.new_session, "session/load": Sessions.load_session,
    "session/prompt": Sessions.prompt, "session/cancel": Sessions.cancel,
}  # fmt: skip


def _read_open_session(params: Any) -> OpenSession:
    asked = msgspec.convert(params, OpenSession)
    if not Path(asked.cwd).is_absolute():
        raise InvalidInput(what="cwd", problem=f"'{asked.cwd}' is no absolute path")
    return asked


def _stop_reason(end: ends.Termination) -> str:
    if isinstance(end, ends.Failed):
        raise PromptFailed(end.message)
    if isinstance(end, ends.Stopped):
        return _STOPS.get(end.reason.code, "max_turn_requests")
    return _ENDS.get(type(end), "end_turn")
