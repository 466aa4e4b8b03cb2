"""Clients of the near server: they start a run, perhaps cancel it, and wait for its end.

They know nothing of the killing. What they cannot send they send again, as clients do.
"""

import asyncio
import random
from dataclasses import dataclass, field
from typing import Any

import aiohttp

KINDS = ("root", "talk", "question", "delegate", "task")
"""A run of the remote agent, two on one thread, one in which it asks back; a run that delegates to
it, and one that starts it as a task."""
REMOTE_KINDS = KINDS[:3]
REVIEWED = "reviewed"
"""How the answer to a prompt begins, which then repeats it."""
SLOWLY = "slowly"
"""How a prompt ends that takes longer than anybody waits for it."""
STUCK_S = 25
_LOOK_S = 0.05
_BROKEN = (aiohttp.ClientError, OSError)


@dataclass(slots=True)
class Errand:
    """One thread of a client: what it was asked, and what its client learned."""

    name: str
    kind: str
    is_keyed: bool
    """Whether it is started through the queue, under a key, or by the server that is asked."""
    begin_s: float
    cancel_s: float | None
    """After how long it is cancelled, if it is."""
    run_ids: list[str] = field(default_factory=list)
    is_cancelled: bool = False
    """Whether somebody has asked for that; the answer may be lost."""

    @property
    def prompts(self) -> list[str]:
        """What it says, turn by turn; no other errand says the same."""
        turns = 2 if self.kind == "talk" else 1
        found = [f"{self.kind} {self.name} {turn}" for turn in range(turns)]
        # Somebody who is not told of a cancellation is still at it when all others have ended.
        return found if self.cancel_s is None else [*found[:-1], f"{found[-1]} {SLOWLY}"]


def errands_of(round_name: str, count: int, cancelled: float, dice: random.Random) -> list[Errand]:
    """As many as wanted, of all kinds; some begin late, and some are cancelled."""
    return [
        Errand(
            name=f"{round_name}-{number}",
            kind=KINDS[number % len(KINDS)],
            is_keyed=dice.random() < 0.5,
            begin_s=dice.uniform(0, 0.25),
            cancel_s=dice.uniform(0, 0.6) if dice.random() < cancelled else None,
        )
        for number in range(count)
    ]


class Client:
    """Speaks with one server, also while it is away."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = url

    async def play(self, errand: Errand) -> str | None:
        """Bring an errand to its end; what is wrong if that takes too long."""
        try:
            async with asyncio.timeout(STUCK_S):
                await asyncio.sleep(errand.begin_s)
                await self._talk(errand)
        except TimeoutError:
            return f"{errand.kind} {errand.name} is stuck after {errand.run_ids}"
        return None

    async def _talk(self, errand: Errand) -> None:
        for prompt in errand.prompts:
            run_id = await self._started(errand, prompt)
            errand.run_ids.append(run_id)
            if errand.kind == "question" and (errand.is_keyed or errand.cancel_s is None):
                await self._answered(run_id)
            if errand.cancel_s is not None and prompt == errand.prompts[-1]:
                await asyncio.sleep(errand.cancel_s)
                errand.is_cancelled = True
                await self._ask("POST", f"/v1/runs/{run_id}/cancel")
            await self._seen(run_id, "done")

    async def _answered(self, run_id: str) -> None:
        """Answer what a run asks, as soon as it does."""
        if await self._seen(run_id, "done", "waiting") == "waiting":
            said = {"messages": [{"role": "user", "content": "yes"}]}
            await self._ask("POST", f"/v1/runs/{run_id}/inputs", said, f"{run_id} answer")

    async def _seen(self, run_id: str, *wanted: str) -> str:
        """Look at a run until it is in one of these states."""
        while True:
            status = str((await self._ask("GET", f"/v1/runs/{run_id}"))[1].get("status"))
            if status in wanted:
                return status
            await asyncio.sleep(_LOOK_S)

    async def _started(self, errand: Errand, prompt: str) -> str:
        """The run that a message has started, however often it had to be sent."""
        agent = "reviewer" if errand.kind in REMOTE_KINDS else "boss"
        message = {"role": "user", "content": prompt}
        body = {"agentId": agent, "threadId": errand.name, "messages": [message]}
        headers = {"Idempotency-Key": prompt} if errand.is_keyed else {}
        while True:
            try:
                async with self._session.post(
                    f"{self._url}/v1/runs", json=body, headers=headers
                ) as reply:
                    if run_id := reply.headers.get("x-run-id"):
                        return run_id
            except _BROKEN:
                pass
            await asyncio.sleep(_LOOK_S)
            if found := await self._begun(errand):
                return found

    async def _begun(self, errand: Errand) -> str | None:
        """The newest run of the thread, unless it is known: a start that was not answered."""
        _, told = await self._ask("GET", f"/v1/threads/{errand.name}/runs")
        runs = [run["run_id"] for run in told.get("items", ())]
        return next((it for it in reversed(runs) if it not in errand.run_ids), None)

    async def _ask(
        self, method: str, path: str, body: object = None, key: str = ""
    ) -> tuple[int, dict[str, Any]]:
        headers = {"Idempotency-Key": key} if key else {}
        while True:
            try:
                async with self._session.request(
                    method, self._url + path, json=body, headers=headers
                ) as reply:
                    if reply.status < 500:
                        return reply.status, await reply.json()
            except _BROKEN:
                pass
            await asyncio.sleep(_LOOK_S)
