"""What tests of delegation share: two real stores, agents that ask each other, and doors."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from awaken import Agent, AgentRuntime, MailboxConfig, RunStatus, SuspendTicket, ToolContext, tool
from awaken.messages import Role
from awaken.models import TokenUsage
from awaken.stores import RunQuery, RunRecord
from awaken.testing import ScriptedModel, ToolCalls
from awaken.tools import Ticket

QUICK = MailboxConfig(
    lease_ms=20_000,
    renew_ms=50,
    sweep_ms=100,
    poll_ms=20,
    drain_ms=1,
    relay_ms=50,
    relay_base_ms=20,
)
WAIT_S = 20
WAIT_MS = WAIT_S * 1000
NO_RETRIES = {"retry": {"max_retries": 0, "max_stream_retries": 0}}


def file(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'store.db'}"


StoreOf = Callable[[Path], str | None]
STORES: list[StoreOf] = [lambda _: None, file]
on_both_stores = pytest.mark.parametrize("store_of", STORES, ids=["memory", "sqlite"])


def asks(agent_id: str, *prompts: str) -> ToolCalls:
    """A turn that asks an agent, once for each prompt."""
    calls = [(f"agent_run_{agent_id}", {"prompt": it}) for it in prompts or ("go",)]
    return ToolCalls(calls)


def agent(id_: str, *script: Any, **options: Any) -> Agent:
    return Agent(id_, model=ScriptedModel(script), **{"config": NO_RETRIES, **options})


def used(tokens: int) -> TokenUsage:
    return TokenUsage(prompt_tokens=10, completion_tokens=tokens - 10, total_tokens=tokens)


def boss(*script: Any, **options: Any) -> Agent:
    """An agent that may ask `worker`."""
    return agent("boss", *script, **{"delegates": ["worker"], **options})


def runtime(agents: list[Agent], store: Any, **options: Any) -> AgentRuntime:
    return AgentRuntime(agents, store=store, **{"mailbox": QUICK, **options})


class Door:
    """A model's answer, or a tool, that comes when it is let go."""

    def __init__(self, text: str = "done") -> None:
        self.entered, self.let_go = asyncio.Event(), asyncio.Event()
        self.visits = 0
        self.is_cancelled = False
        self._text = text

        @tool
        async def door() -> str:
            """Wait."""
            return await self.answer()

        self.tool = door

    async def answer(self, _request: Any = None) -> str:
        self.visits += 1
        self.entered.set()
        try:
            await self.let_go.wait()
        except asyncio.CancelledError:
            self.is_cancelled = True
            raise
        return self._text

    async def opened(self) -> None:
        """Wait until somebody stands before it."""
        await within(self.entered.wait())


@tool
async def ask(question: str, ctx: ToolContext) -> str | SuspendTicket:
    """Ask somebody."""
    return ctx.suspend(question) if ctx.resume is None else f"told {ctx.resume.result}"


def asking(id_: str = "worker", *more: Any, **options: Any) -> Agent:
    """An agent that asks a person in the middle, and answers with what it was told."""
    script = [ToolCalls([("ask", {"question": "may I?"})]), *(more or [heard])]
    return agent(id_, *script, tools=[ask], **options)


def heard(request: Any) -> str:
    """An answer that repeats what the model was told last."""
    return f"heard {request.messages[-1].text}"


async def within(waiting: Any) -> Any:
    """Wait, but not for ever."""
    async with asyncio.timeout(WAIT_S):
        return await waiting


async def children_of(rt: AgentRuntime, run_id: str) -> list[RunRecord]:
    """The runs below a run, by the agent that answers and by age."""
    page = await rt.store.list_runs(RunQuery(limit=200))
    found = [it for it in page.items if it.parent_run_id == run_id]
    return sorted(found, key=lambda it: (it.agent_id, it.created_at, it.run_id))


async def child_of(rt: AgentRuntime, run_id: str) -> RunRecord:
    (child,) = await children_of(rt, run_id)
    return child


async def answers(rt: AgentRuntime, thread_id: str) -> list[str]:
    """The results of a thread's calls, as the model reads them."""
    found = await rt.messages(thread_id)
    return [it.message.text for it in found if it.message.role is Role.TOOL]


async def until(rt: AgentRuntime, run_id: str, status: RunStatus) -> RunRecord:
    """Wait until a record has a status, whoever writes it."""
    async with asyncio.timeout(WAIT_S):
        while True:
            record = await rt.store.load_run(run_id)
            if record is not None and record.status is status:
                return record
            await asyncio.sleep(0.005)


async def ended(rt: AgentRuntime, run_id: str) -> RunRecord:
    return await until(rt, run_id, RunStatus.DONE)


async def ticket_on(rt: AgentRuntime, thread_id: str) -> Ticket:
    """The one open ticket of a thread, once its run waits."""
    async with asyncio.timeout(WAIT_S):
        while True:
            thread = await rt.store.load_thread(thread_id)
            run = thread and thread.open_run_id and await rt.store.load_run(thread.open_run_id)
            tickets = await rt.tickets(thread_id)
            if tickets and run and run.status is RunStatus.WAITING:
                (ticket,) = tickets
                return ticket
            await asyncio.sleep(0.005)


async def nothing_ordered(rt: AgentRuntime) -> None:
    """Wait until every order was carried out, and none was given up."""
    async with asyncio.timeout(WAIT_S):
        # With no pause, those that are tried again later are listed too.
        while await rt.store.list_outbox(pause_max_ms=0):
            await asyncio.sleep(0.005)
    assert await rt.store.list_dead_outbox(None) == ()
