"""Clients of the control stages, and the processes that they ask.

A client never trusts one process: what one of them did not answer, it asks another for again, with
the same key or the same decision id. Everything that it asks for and is told is recorded.
"""

import asyncio
import itertools
import multiprocessing
import os
import random
import signal
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import msgspec

from awaken import AgentRuntime

from .control_app import order
from .control_model import Record, Told
from .control_node import BROKEN, FAILED, OK, Place, Reply, Request, perform, run_node

READY_S, REPLY_S, DRAIN_S = 60, 40, 10
STUCK_S = 60
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["tests.torture.control_node"])


class Node(Protocol):
    """Something that can be asked, and may not answer."""

    async def ask(self, request: Request) -> Reply | None:
        """Ask; None when no answer came."""
        ...


class InProcessNode:
    """A runtime of this process."""

    def __init__(self, runtime: AgentRuntime) -> None:
        self._runtime = runtime

    async def ask(self, request: Request) -> Reply | None:
        """Ask it directly."""
        return await perform(self._runtime, request)


class ProcessNode:
    """A process that can be killed, frozen and started again."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self._process: Any = None
        self._waiting: dict[int, asyncio.Future[Reply]] = {}
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start it and wait until it answers."""
        with suppress(FileNotFoundError):
            Path(self.place.socket).unlink()
        self._process = _FORKS.Process(target=run_node, args=(self.place,), daemon=True)
        self._process.start()
        async with asyncio.timeout(READY_S):
            while True:
                try:
                    reader, self._writer = await asyncio.open_unix_connection(self.place.socket)
                    break
                except OSError:
                    if not self._process.is_alive():
                        # Its server was away at that moment: it is started again.
                        self._process = _FORKS.Process(
                            target=run_node, args=(self.place,), daemon=True
                        )
                        self._process.start()
                    await asyncio.sleep(0.01)
        self._reading = asyncio.create_task(self._read(reader))

    async def ask(self, request: Request) -> Reply | None:
        """Send a request; None when the process died, or takes too long, before it answered."""
        writer = self._writer
        if writer is None or writer.is_closing():
            await asyncio.sleep(0.02)
            return None
        told: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._waiting[request.number] = told
        try:
            writer.write(msgspec.json.encode(request) + b"\n")
            async with asyncio.timeout(REPLY_S):
                return await told
        except (OSError, TimeoutError, asyncio.CancelledError):
            if (task := asyncio.current_task()) is not None and task.cancelling():
                raise
            return None
        finally:
            self._waiting.pop(request.number, None)

    async def kill(self) -> None:
        """Kill it; what it had not answered stays open."""
        if self._process is None:
            return
        writer, self._writer = self._writer, None
        self._process.kill()
        await asyncio.to_thread(self._process.join)
        if self._reading is not None:
            await asyncio.wait({self._reading})
        if writer is not None:
            writer.close()

    async def stop(self) -> None:
        """Ask it to drain, and wait until it is gone."""
        os.kill(self._process.pid, signal.SIGTERM)
        await asyncio.to_thread(self._process.join, DRAIN_S)
        await self.kill()

    async def freeze(self, seconds: float) -> None:
        """Stop it for a while; it goes on without knowing."""
        pid = self._process.pid
        os.kill(pid, signal.SIGSTOP)
        try:
            await asyncio.sleep(seconds)
        finally:
            os.kill(pid, signal.SIGCONT)

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            while line := await reader.readline():
                told = msgspec.json.decode(line, type=Reply)
                future = self._waiting.pop(told.number, None)
                if future is not None and not future.done():
                    future.set_result(told)
        except OSError:
            pass
        finally:
            # What is asked from now on reaches nobody, so it is not even sent.
            self._writer = None
            for future in self._waiting.values():
                future.cancel()


class Client:
    """Does one thing after the other on threads of its own, through any process."""

    def __init__(
        self, name: str, nodes: Sequence[Node], record: Record, seed: str, numbers: "Numbers"
    ) -> None:
        self.name = name
        self.asking_tool = "pay"
        """The tool that needs a decision."""
        self.failures: list[str] = []
        self._nodes = nodes
        self._record = record
        self._dice = random.Random(seed)
        self._numbers = numbers
        self._made = 0
        self._cancelled: set[str] = set()
        """Runs whose cancel was acknowledged."""

    async def work_until(self, stopped: asyncio.Event) -> None:
        """Work until it is told to stop; what was begun is brought to its end."""
        while not stopped.is_set():
            await self.act(self._dice.choice(self.acts))

    @property
    def acts(self) -> tuple[Any, ...]:
        """What it does; the more often, the more likely."""
        return (
            self.approve,
            self.decide_twice,
            self.decide_twice,
            self.decide_and_cancel,
            self.decide_and_say,
            self.cancel_anywhere,
            self.steer,
            self.write_to_other,
            self.delete_after_writing,
        )

    async def act(self, act: Any) -> None:
        """Do one thing; one that takes for ever is a failure."""
        self._made += 1
        try:
            async with asyncio.timeout(STUCK_S):
                await act(f"{self.name}-{self._made // 3}")
        except TimeoutError:
            self.failures.append(f"{act.__name__} of {self.name} is stuck")

    async def decide_twice(self, thread_id: str) -> None:
        """Two processes are told the opposite, while a sibling call may still execute."""
        run_id = await self._order(
            thread_id, (self.asking_tool, {}), ("nap", {"ms": self._dice.choice((0, 30, 150))})
        )
        await self._decide(thread_id, run_id, ("resume", "cancel"))
        await self._rest(thread_id, run_id)

    async def approve(self, thread_id: str) -> None:
        """One decision that lets a call go on."""
        run_id = await self._order(thread_id, (self.asking_tool, {}))
        await self._decide(thread_id, run_id, ("resume",), polls=400)
        await self._rest(thread_id, run_id)

    async def decline(self, thread_id: str) -> None:
        """One decision that gives a call up."""
        run_id = await self._order(thread_id, (self.asking_tool, {}))
        await self._decide(thread_id, run_id, ("cancel",), polls=400)
        await self._rest(thread_id, run_id)

    async def decide_and_cancel(self, thread_id: str) -> None:
        """A decision and a cancel of the run, at the same moment."""
        run_id = await self._order(
            thread_id, (self.asking_tool, {}), ("nap", {"ms": self._dice.choice((0, 20))})
        )
        await asyncio.gather(
            self._decide(thread_id, run_id, (self._dice.choice(("resume", "cancel")),)),
            self._cancel_after(run_id, self._dice.uniform(0, 0.08)),
        )
        await self._rest(thread_id, run_id)

    async def decide_and_say(self, thread_id: str) -> None:
        """A decision and a message that supersedes the question, at the same moment."""
        run_id = await self._order(thread_id, ("ask", {}))
        said, _ = await asyncio.gather(
            self._submit(thread_id, f"never mind {next(self._numbers)}"),
            self._decide(thread_id, run_id, ("resume",)),
        )
        await self._rest(thread_id, run_id)
        await self._rest(thread_id, said)

    async def cancel_anywhere(self, thread_id: str) -> None:
        """A cancel at any moment of a run's life."""
        calls = self._dice.choice(
            ([("nap", {"ms": 60})], [(self.asking_tool, {})], [("nap", {"ms": 1}), ("ask", {})])
        )
        run_id = await self._order(thread_id, *calls)
        await self._cancel_after(run_id, self._dice.uniform(0, 0.25))
        await self._rest(thread_id, run_id)

    async def steer(self, thread_id: str) -> None:
        """A message into a run that executes."""
        run_id = await self._order(thread_id, ("nap", {"ms": 80}), ("nap", {"ms": 5}))
        await asyncio.sleep(self._dice.uniform(0, 0.15))
        text = f"by the way {next(self._numbers)}"
        await self._ask(
            Request(number=0, kind="steer", thread_id=thread_id, run_id=run_id, text=text)
        )
        await self._rest(thread_id, run_id)

    async def write_to_other(self, thread_id: str) -> None:
        """A message from one agent to another, on a thread of its own."""
        await self._write(thread_id)

    async def delete_after_writing(self, thread_id: str) -> None:
        """A thread is deleted once it has promised something to another."""
        thread_id = f"{thread_id}-gone-{self._made}"
        await self._write(thread_id)
        await self._ask(Request(number=0, kind="delete", thread_id=thread_id))

    async def _write(self, thread_id: str) -> None:
        target = f"{self.name}-inbox-{self._made}"
        await self._rest(target, await self._submit(target, f"hello {next(self._numbers)}"))
        text = f"letter {next(self._numbers)}"
        self._record.written[text] = target
        to = {"relation": "agent", "thread_id": target}
        run_id = await self._order(thread_id, ("send_message", {"to": to, "message": text}))
        await self._rest(thread_id, run_id)
        told = None
        while told is None or told.outcome != OK:
            asked = Request(number=0, kind="results", thread_id=thread_id, run_id=run_id)
            told = await self._ask(asked, False)
        if told.value and '"accepted"' in told.value[-1]:
            self._record.accepted.add(text)

    async def _order(self, thread_id: str, *calls: tuple[str, dict[str, Any]]) -> str:
        return await self._submit(thread_id, order(next(self._numbers), *calls))

    async def _submit(self, thread_id: str, text: str) -> str:
        """Submit until it is acknowledged, each time under the same key."""
        key = f"key-{next(self._numbers)}"
        request = Request(number=0, kind="submit", thread_id=thread_id, text=text, key=key)
        while True:
            told = await self._ask(request)
            if told is not None and told.outcome == OK:
                if self._dice.random() < 0.1:
                    await self._ask(request)
                return str(told.value)

    async def _decide(
        self, thread_id: str, run_id: str, actions: tuple[str, ...], polls: int | None = None
    ) -> None:
        """Decide on each ticket of a run as soon as it is there, once for each action."""
        for _ in range(polls or self._dice.choice((3, 40, 400))):
            told = await self._ask(Request(number=0, kind="tickets", thread_id=thread_id), False)
            tickets = [
                it for it in (told.value if told and told.outcome == OK else ()) if it[1] == run_id
            ]
            if tickets:
                await asyncio.gather(
                    *(self._decide_one(it[0], action) for it in tickets for action in actions)
                )
                return
            if await self._is_over(run_id):
                return
            await asyncio.sleep(0.005)

    async def _decide_one(self, ticket_id: str, action: str) -> None:
        decision_id = f"decision-{next(self._numbers)}"
        request = Request(
            number=0, kind="decide", ticket_id=ticket_id, decision_id=decision_id, action=action
        )
        for _ in range(50):
            told = await self._ask(request)
            if told is not None and told.outcome != FAILED:
                return

    async def _cancel_after(self, run_id: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await self._cancel(run_id)

    async def _cancel(self, run_id: str) -> None:
        """Cancel a run, unless that was acknowledged before: then it must end by that."""
        if run_id in self._cancelled:
            return
        told = await self._ask(Request(number=0, kind="cancel", run_id=run_id))
        if told is not None and told.outcome == OK and told.value:
            self._cancelled.add(run_id)

    async def _rest(self, thread_id: str, run_id: str) -> None:
        """Bring a run to its end: what waits is cancelled after a while."""
        patience = self._dice.choice((0.3, 1.0))
        while True:
            try:
                async with asyncio.timeout(patience):
                    while not await self._is_over(run_id):
                        await asyncio.sleep(0.02)
                    return
            except TimeoutError:
                await self._cancel(run_id)

    async def _is_over(self, run_id: str) -> bool:
        told = await self._ask(Request(number=0, kind="status", run_id=run_id), False)
        return told is not None and told.outcome == OK and told.value == "done"

    async def _ask(self, request: Request, is_recorded: bool = True) -> Reply | None:
        request = msgspec.structs.replace(request, number=next(self._numbers))
        told = Told(asked=request)
        if is_recorded:
            self._record.requests.append(told)
        told.reply = await self._dice.choice(self._nodes).ask(request)
        if told.reply is not None and told.reply.outcome == BROKEN:
            self._record.broken.append((request.kind, str(told.reply.value)))
        return told.reply


Numbers = itertools.count
