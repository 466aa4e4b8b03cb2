"""The turns that runs of this process have under way at the remote server.

A send is completed even when its run is cancelled in the middle: only its answer names the task
that has to be stopped.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any

from awaken.contracts.backends.errors import RemoteError

from .task_view import TaskView
from .wire import Reply, Task

CARRY_S = 10.0
"""How long a send continues, and its answer is kept, after its run was cancelled."""


class RemoteTurn:
    """One run's turn at the remote server."""

    def __init__(self, run_id: str, message_id: str) -> None:
        self.run_id = run_id
        self.message_id = message_id
        self.view: TaskView | None = None
        """The task, once it is known."""
        self.is_maybe_sent = False
        """Whether the message may have arrived without an answer to it."""
        self.problem: RemoteError | None = None
        """The last failure to reach the server."""
        self._sending: asyncio.Task[Reply] | None = None

    async def send_shielded(self, send: Coroutine[Any, Any, Reply]) -> Reply:
        """Send in a separate task, which a cancellation of the caller does not cancel."""
        self._sending = asyncio.create_task(send, name=f"a2a-send:{self.run_id}")
        reply = await asyncio.shield(self._sending)
        self._sending = None
        return reply

    async def find_task_id(self) -> str | None:
        """The id of the task to stop; waits for the answer of a send that is under way."""
        if self._sending is not None:
            await asyncio.wait({self._sending}, timeout=CARRY_S)
            if reply := _reply(self._sending):
                return reply.id if isinstance(reply, Task) else None
        return self.view.task_id if self.view is not None else None

    @property
    def was_answered(self) -> bool:
        """Whether the server answered, so that nothing else can be under way there."""
        has_reply = self._sending is not None and _reply(self._sending) is not None
        return has_reply or self.view is not None

    @property
    def is_maybe_there(self) -> bool:
        """Whether there may be a task at the server."""
        is_under_way = self._sending is not None and not self._sending.done()
        return self.view is not None or self.is_maybe_sent or is_under_way

    def drop(self) -> asyncio.Task[Reply] | None:
        """Cancel the send; return the task to wait for, if there is one."""
        if self._sending is not None and not self._sending.done():
            self._sending.cancel()
        return self._sending


class RemoteTurns:
    """The turns under way of one backend, by run."""

    def __init__(self) -> None:
        self._open: dict[str, RemoteTurn] = {}

    @property
    def is_empty(self) -> bool:
        """Whether no turn is under way."""
        return not self._open

    def begin(self, run_id: str, message_id: str) -> RemoteTurn:
        """Track the turn of a run."""
        self._open[run_id] = RemoteTurn(run_id, message_id)
        return self._open[run_id]

    def find(self, run_id: str) -> RemoteTurn | None:
        """The turn of a run, if this process knows it."""
        return self._open.get(run_id)

    def end_later(self, remote_turn: RemoteTurn) -> None:
        """End a cancelled turn after a moment: the abort still needs the answer of its send."""
        asyncio.get_running_loop().call_later(CARRY_S, self.end, remote_turn)

    def end(self, remote_turn: RemoteTurn) -> None:
        """Stop tracking a turn."""
        remote_turn.drop()
        if self._open.get(remote_turn.run_id) is remote_turn:
            del self._open[remote_turn.run_id]

    async def close(self) -> None:
        """Cancel every turn."""
        dropped = [remote_turn.drop() for remote_turn in self._open.values()]
        self._open.clear()
        if tasks := [task for task in dropped if task is not None]:
            await asyncio.wait(tasks)


def _reply(sending: asyncio.Task[Reply]) -> Reply | None:
    if not sending.done() or sending.cancelled() or sending.exception() is not None:
        return None
    return sending.result()
