"""Clients of workers that are killed all the time: they submit, wait, decide, cancel and steer.

Each writes down what it was promised. Nothing of the killing is their business: whatever they
were promised must come true, and nothing that they wait for may take for ever.
"""

import asyncio
import random
from dataclasses import dataclass, field

from awaken import AgentRuntime
from awaken.contracts.errors import AlreadyDecided
from awaken.contracts.lifecycle import RunStatus
from awaken.contracts.runs.records import RunResult
from awaken.mailbox.receipts import SubmitReceipt

from .agents import NOTE

STUCK_MS = 25_000


@dataclass(slots=True)
class Promises:
    """What clients were told, and what they found wrong themselves."""

    receipts: list[SubmitReceipt] = field(default_factory=list)
    notes: list[tuple[str, str]] = field(default_factory=list)
    """Thread and text of every message that a run has accepted."""
    decided: list[str] = field(default_factory=list)
    cancels: int = 0
    failures: list[str] = field(default_factory=list)


class Client:
    """One client with threads of its own; every thread is used several times."""

    def __init__(self, runtime: AgentRuntime, promises: Promises, name: str, seed: str) -> None:
        self._runtime = runtime
        self._promises = promises
        self._name = name
        self._dice = random.Random(seed)
        self._sent = 0

    async def work_until(self, stopped: asyncio.Event) -> None:
        """Do one thing after the other; a thing that was begun is brought to its end."""
        acts = (self._errand, self._question, self._steered, self._cancelled, self._interrupted)
        while not stopped.is_set():
            act = self._dice.choice(acts)
            try:
                await act(f"{self._name}-{self._sent // 4}")
            except TimeoutError:
                self._promises.failures.append(f"{act.__name__} of {self._name} is stuck")
                return

    async def _errand(self, thread_id: str) -> None:
        receipt = await self._submit(thread_id, "errand")
        if self._dice.random() < 0.3:
            await self._submit(thread_id, "words")
        await self._rest(receipt.run_id)

    async def _question(self, thread_id: str) -> None:
        receipt = await self._submit(thread_id, "question")
        result = await self._rest(receipt.run_id)
        while result.status is RunStatus.WAITING:
            for ticket in result.tickets:
                try:
                    await self._runtime.decide(ticket.ticket_id, result="yes")
                except AlreadyDecided:
                    continue
                self._promises.decided.append(ticket.ticket_id)
            result = await self._going_on(receipt.run_id)

    async def _steered(self, thread_id: str) -> None:
        receipt = await self._submit(thread_id, "naps")
        await self._pause()
        note = f"{NOTE}{self._sent} of {self._name}"
        if (await self._runtime.steer(receipt.run_id, note)).is_accepted:
            self._promises.notes.append((thread_id, note))
        await self._rest(receipt.run_id)

    async def _cancelled(self, thread_id: str) -> None:
        receipt = await self._submit(thread_id, self._dice.choice(("naps", "question")))
        await self._pause()
        self._promises.cancels += await self._runtime.cancel(receipt.run_id)
        result = await self._rest(receipt.run_id)
        if result.status is RunStatus.WAITING:
            await self._runtime.cancel(receipt.run_id)

    async def _interrupted(self, thread_id: str) -> None:
        receipt = await self._submit(thread_id, "naps")
        await self._pause()
        last = await self._submit(thread_id, "words", mode="interrupt")
        await self._rest(receipt.run_id)
        await self._rest(last.run_id)

    async def _submit(self, thread_id: str, order: str, mode: str = "queue") -> SubmitReceipt:
        self._sent += 1
        text = f"{order}: {self._sent} of {self._name}"
        receipt = await self._runtime.submit("clerk", text, thread_id=thread_id, mode=mode)
        self._promises.receipts.append(receipt)
        return receipt

    async def _rest(self, run_id: str) -> RunResult:
        return await self._runtime.wait(run_id, timeout_ms=STUCK_MS)

    async def _going_on(self, run_id: str) -> RunResult:
        """Wait for a run that has just been decided on: it may still look as if it waited."""
        async with asyncio.timeout(STUCK_MS / 1000):
            while True:
                result = await self._rest(run_id)
                if result.status is RunStatus.DONE or result.tickets:
                    return result
                await asyncio.sleep(0.05)

    async def _pause(self) -> None:
        await asyncio.sleep(self._dice.uniform(0, 0.4))
