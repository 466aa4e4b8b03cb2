"""What a run has under way at the other side, as far as this process knows.

A send is carried through even when its run is cancelled in the middle: only its answer tells what
has to be stopped.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any

from awaken.contracts.backends.errors import RemoteError

from .task_view import TaskView
from .wire import Reply, Task

CARRY_S = 10.0
"""How long a send goes on, and its answer is kept, after its run was cancelled."""


class RemoteTurn:
    """One run's turn at the other side."""

    def __init__(self, run_id: str, message_id: str) -> None:
        self.run_id = run_id
        self.message_id = message_id
        self.view: TaskView | None = None
        """The task, once it is known."""
        self.is_maybe_sent = False
        """Whether the message may have arrived without an answer to it."""
        self.problem: RemoteError | None = None
        """What went wrong last on the way there."""
        self._sending: asyncio.Task[Reply] | None = None

    async def carry(self, send: Coroutine[Any, Any, Reply]) -> Reply:
        """Send, in a task of its own that a cancellation of the caller does not reach."""
        self._sending = asyncio.create_task(send, name=f"a2a-send:{self.run_id}")
        reply = await asyncio.shield(self._sending)
        self._sending = None
        return reply

    async def task_id(self) -> str | None:
        """The task to stop; waits for the answer of a send that is under way."""
        if self._sending is not None:
            await asyncio.wait({self._sending}, timeout=CARRY_S)
            if reply := _reply(self._sending):
                return reply.id if isinstance(reply, Task) else None
        return self.view.task_id if self.view is not None else None

    @property
    def was_answered(self) -> bool:
        """Whether the other side answered, so that nothing else can be under way there."""
        is_told = self._sending is not None and _reply(self._sending) is not None
        return is_told or self.view is not None

    @property
    def is_maybe_there(self) -> bool:
        """Whether there may be a task at the other side."""
        is_under_way = self._sending is not None and not self._sending.done()
        return self.view is not None or self.is_maybe_sent or is_under_way

    def drop(self) -> asyncio.Task[Reply] | None:
        """Give up; the task that has to be waited for, if there is one."""
        if self._sending is not None and not self._sending.done():
            self._sending.cancel()
        return self._sending


class Errands:
    """All errands of one backend, by run."""

    def __init__(self) -> None:
        self._open: dict[str, RemoteTurn] = {}

    @property
    def are_none(self) -> bool:
        """Whether no turn is under way."""
        return not self._open

    def begin(self, run_id: str, message_id: str) -> RemoteTurn:
        """A run begins its turn."""
        self._open[run_id] = RemoteTurn(run_id, message_id)
        return self._open[run_id]

    def find(self, run_id: str) -> RemoteTurn | None:
        """What is known of a run's turn."""
        return self._open.get(run_id)

    def leave(self, errand: RemoteTurn) -> None:
        """A turn was cancelled: what it learns is kept for a moment, for who stops its task."""
        asyncio.get_running_loop().call_later(CARRY_S, self.end, errand)

    def end(self, errand: RemoteTurn) -> None:
        """A turn is over."""
        errand.drop()
        if self._open.get(errand.run_id) is errand:
            del self._open[errand.run_id]

    async def close(self) -> None:
        """Give up every turn."""
        dropped = [errand.drop() for errand in self._open.values()]
        self._open.clear()
        if tasks := [task for task in dropped if task is not None]:
            await asyncio.wait(tasks)


def _reply(sending: asyncio.Task[Reply]) -> Reply | None:
    if not sending.done() or sending.cancelled() or sending.exception() is not None:
        return None
    return sending.result()
