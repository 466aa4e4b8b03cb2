"""Decisions, cancels, messages and steering through two processes, one of which may freeze or die.

The clients and the judge are those of the control stages; here they meet in virtual time, under
schedules that can be played again.
"""

import asyncio
import itertools
from typing import Any

from awaken.bootstrap.registries import registry_set
from awaken.contracts.errors import StorageError, UsageError
from awaken.contracts.messages.message import user
from awaken.contracts.runs.records import RunRequest
from awaken.contracts.storage.dispatch import InputMode
from awaken.contracts.storage.store import Store
from awaken.contracts.suspension.tickets import DecisionAction, ToolCallResume
from awaken.contracts.tools.context import ToolContext
from awaken.runtime.resolution.registry import RegistryHandle
from awaken.services.control import RunControl

from .control_app import AGENT, build_agent
from .control_driver import Client
from .control_model import Record, find_broken_promises, read_threads
from .control_node import FAILED, OK, REFUSED, STATUS_MS, Reply, Request
from .history import Effect
from .schedule_world import LEASE_MS, SWEEP_MS, Process, World
from .views import Rows

CLIENTS = 2
ASK_S = 2.0
"""After so long a client asks another process."""


class WireNode:
    """A process of the schedule, asked through its control; a frozen one does not answer."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._control = RunControl(process.engine, process.mailbox, lambda: None)
        self._asked: set[asyncio.Task[Reply]] = set()

    async def ask(self, request: Request) -> Reply | None:
        """Ask it; an answer that takes too long is never heard, whatever it did."""
        asking = asyncio.create_task(self._answer(request))
        self._asked.add(asking)
        done, _ = await asyncio.wait({asking}, timeout=ASK_S)
        return asking.result() if done else None

    async def close(self) -> None:
        """Wait for what was asked and never heard."""
        await asyncio.gather(*self._asked)

    async def _answer(self, request: Request) -> Reply:
        await self._process.awake()
        try:
            value = await getattr(self, f"_{request.kind}")(request)
        except StorageError as error:
            return Reply(number=request.number, outcome=FAILED, value=repr(error))
        except UsageError as error:
            return Reply(number=request.number, outcome=REFUSED, value=error.code)
        await self._process.awake()
        return Reply(number=request.number, outcome=OK, value=value)

    async def _submit(self, asked: Request) -> Any:
        request = RunRequest(
            thread_id=asked.thread_id, agent_id=AGENT, messages=(user(asked.text),)
        )
        delivery: Any = {"dedupe_key": asked.key}
        return (await self._control.submit(request, InputMode.QUEUE, delivery)).run_id

    async def _decide(self, asked: Request) -> Any:
        action = DecisionAction(asked.action)
        given = ToolCallResume(decision_id=asked.decision_id, action=action)
        await self._control.decide([(asked.ticket_id, given)])

    async def _cancel(self, asked: Request) -> Any:
        return await self._control.cancel_run(asked.run_id)

    async def _steer(self, asked: Request) -> Any:
        return (await self._control.steer(asked.run_id, (user(asked.text),))).is_accepted

    async def _tickets(self, asked: Request) -> Any:
        found = await self._process.wire.list_tickets(asked.thread_id)
        return [(it.ticket_id, it.run_id, it.tool_name) for it in found]

    async def _status(self, asked: Request) -> Any:
        try:
            return (await self._control.wait(asked.run_id, STATUS_MS)).status
        except TimeoutError:
            return "busy"


class MemoryEvidence:
    """The world's store; it has no rows below its ports."""

    def __init__(self, store: Store) -> None:
        self.store = store

    async def rows(self, _thread_id: str) -> Rows:
        """None that the ports do not show."""
        return Rows()


async def control_acts(world: World) -> None:
    """Clients race through two processes; one of them may freeze for a while, or for good."""
    record, numbers = Record(), itertools.count(1)
    world.work_s = 0.0
    ledger: list[Effect] = []

    def note(context: ToolContext, at: str) -> None:
        name = f"{context.tool_name} {context.call_id}"
        ledger.append(Effect(run_id=context.run.run_id, call_id=name, attempt=0, pid=0, at=at))

    world.registry = RegistryHandle(registry_set([build_agent(note)], [], [], {}, {}))
    async with world.living("a", "b") as processes:
        nodes = [WireNode(it) for it in processes]
        clients = [
            Client(f"c{n}", nodes, record, f"{world.chance.random()}", numbers)
            for n in range(CLIENTS)
        ]
        for client in clients:
            client.asking_tool = "ask"
        victim = world.chance.choice(processes)
        fate = world.chance.choice(("none", "freeze", "die"))
        working = asyncio.gather(*(_act_twice(client, world) for client in clients))
        await asyncio.sleep(world.chance.uniform(0, 0.4))
        if fate != "none":
            victim.freeze()
        if fate == "freeze":
            await asyncio.sleep((2 * LEASE_MS + SWEEP_MS) / 1000)
            victim.thaw()
        await working
        assert [it for client in clients for it in client.failures] == []
        for process in processes:
            process.thaw()
        for node in nodes:
            await node.close()
    views = await read_threads(MemoryEvidence(world.truth), record)
    broken = await find_broken_promises(world.truth, views, record, ledger)
    assert broken == [], broken


async def _act_twice(client: Client, world: World) -> None:
    acts = (
        client.decide_twice,
        client.decide_and_cancel,
        client.decide_and_say,
        client.cancel_anywhere,
        client.steer,
    )
    for _ in range(2):
        await client.act(world.chance.choice(acts))
