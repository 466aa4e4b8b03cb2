"""A conversation on one thread, driven from the main thread: runs, questions, cancellation."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any

from awaken.bootstrap.agent_runtime import AgentRuntime
from awaken.contracts.events import AgentEvent, unwrap_event
from awaken.contracts.messages.message import user
from awaken.contracts.runs.records import RunRequest
from awaken.contracts.storage.queries import LIMIT_MAX, ThreadQuery
from awaken.contracts.suspension.tickets import Ticket, ToolCallResume
from awaken.services.event_streams import EventStream
from awaken.services.view import TenantView

from .loop_thread import ItemQueue, LoopThread

PRINCIPAL = "local"
FAMILY_MAX = 200
"""How many threads of delegates are searched for questions."""

Events = ItemQueue[AgentEvent]


class ChatThread:
    """Runs of one agent on one thread. Its methods are called from the main thread."""

    def __init__(
        self,
        loop: LoopThread,
        runtime: AgentRuntime,
        agent_id: str,
        thread_id: str | None,
        context: dict[str, Any] | None = None,
    ) -> None:
        self.agent_id = agent_id
        self.thread_id = thread_id
        self._context = context
        self._loop = loop
        self._runtime = runtime
        self._view: TenantView = runtime.view(PRINCIPAL)
        self._run_id: str | None = None
        self._is_stopping = False

    def begin_again(self) -> "ChatThread":
        """A new thread with the same agent and context."""
        return ChatThread(self._loop, self._runtime, self.agent_id, None, self._context)

    def continue_thread(self, thread_id: str) -> list[Ticket]:
        """Go on with a thread, and return its open questions; one that is not there begins."""
        self.thread_id = thread_id
        return self._loop.call(self._adopt(thread_id))

    def say(self, text: str) -> Events:
        """Start a run with a text; returns its events, up to its end or its questions."""
        self._is_stopping = False
        return self._loop.read(self._read(self._loop.call(self._start(text))))

    def list_questions(self) -> list[Ticket]:
        """The open tickets of the thread and of the threads of its delegates, oldest first."""
        return self._loop.call(self._list_questions())

    def list_waits(self) -> tuple[str, list[Ticket]]:
        """The run, and what it waits for that nobody decides: events and times of a workflow."""
        return self._run_id or "", self._loop.call(self._list_waits())

    def decide(self, decisions: Mapping[str, ToolCallResume], tickets: list[Ticket]) -> Events:
        """Decide on tickets; returns the events of the run from there.

        Raises:
            AwakenError: A decision was refused; nothing was decided.
        """
        return self._loop.read(self._read(self._loop.call(self._decide(decisions, tickets))))

    def cancel(self) -> None:
        """Ask the run to stop; its events say when it has. May be called by a signal handler."""
        self._is_stopping = True
        self._loop.spawn(self._cancel)

    async def _adopt(self, thread_id: str) -> list[Ticket]:
        thread = await self._view.find_thread(thread_id)
        if thread is None or thread.open_run_id is None:
            return []
        self._run_id = thread.open_run_id
        return await self._list_questions()

    async def _start(self, text: str) -> EventStream:
        request = RunRequest(
            agent_id=self.agent_id,
            thread_id=self.thread_id,
            messages=(user(text),),
            context=self._context,
        )
        started = await self._view.start(request)
        self.thread_id, self._run_id = started.thread_id, started.run_id
        if self._is_stopping:
            # The person stopped it before it had an id.
            await self._cancel()
        return started.stream

    async def _read(self, stream: EventStream) -> AsyncGenerator[list[AgentEvent], None]:
        async with aclosing(stream.batches()) as batches:
            async for batch in batches:
                yield [unwrap_event(item) for item in batch]

    async def _list_questions(self) -> list[Ticket]:
        found: list[Ticket] = []
        todo = [] if self.thread_id is None else [self.thread_id]
        for thread_id in todo:
            found += await self._view.tickets(thread_id)
            if len(todo) < FAMILY_MAX:
                query = ThreadQuery(parent_id=thread_id, limit=LIMIT_MAX)
                todo += [it.id for it in (await self._view.threads(query)).items]
        known = {it.ticket_id for it in found}
        return [it for it in found if known.isdisjoint(_list_causes(it))]

    async def _list_waits(self) -> list[Ticket]:
        if self._run_id is None:
            return []
        # Loaded by the first run that waits without a question.
        from awaken.services.workflows import list_waits  # noqa: PLC0415

        return await list_waits(self._view, await self._view.run(self._run_id))

    async def _decide(
        self, decisions: Mapping[str, ToolCallResume], tickets: list[Ticket]
    ) -> EventStream:
        assert self.thread_id is not None
        assert self._run_id is not None
        # Before the decisions: the run may go on before they return.
        after = (await self._view.thread(self.thread_id)).event_seq
        runs = dict.fromkeys(it.run_id for it in tickets)
        for run_id in runs:
            given = {it.ticket_id: decisions[it.ticket_id] for it in tickets if it.run_id == run_id}
            await self._view.decide(await self._view.run(run_id), given)
        return await self._view.follow_run(self._run_id, after)

    async def _cancel(self) -> None:
        if self._run_id is not None:
            await self._view.cancel_run(self._run_id)


def _list_causes(ticket: Ticket) -> list[str]:
    """The tickets of a delegate that a ticket stands for; deciding on them settles it."""
    asked = ticket.suspension.parameters
    causes = asked.get("ticket_ids") if isinstance(asked, dict) and not ticket.asked_by else None
    return [it for it in causes if isinstance(it, str)] if isinstance(causes, list) else []
