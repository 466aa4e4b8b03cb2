"""Stops the task that a run has started at the remote server."""

import asyncio

from awaken.contracts.backends.errors import RemoteUnreachable, RemoteUnsupported
from awaken.contracts.backends.requests import RemoteTarget
from awaken.contracts.identity import RunIdentity
from awaken.wire.a2a import TaskState

from .client import A2AClient
from .failures import RemoteTaskEnded, RemoteTaskUnknown
from .remote_turns import CARRY_S, RemoteTurn
from .turn import context_of
from .wire import Task

STOP_S = CARRY_S + 2.0
STOP_ATTEMPTS = 3
FIRST_PAUSE_S = 0.1
_ENDS = frozenset(it for it in TaskState if not (it.is_active or it.is_waiting))


async def stop_task(
    client: A2AClient,
    identity: RunIdentity,
    remote_turn: RemoteTurn | None,
    known: RemoteTarget | None,
) -> None:
    """Stop the task of a run, also one whose id is still under way; no task is no error.

    Raises:
        RemoteError: The server did not accept it; a retryable error may be tried again.
        TimeoutError: The server takes too long.
    """
    async with asyncio.timeout(STOP_S):
        for attempt in range(STOP_ATTEMPTS):
            try:
                task_id = await _find_task_id(client, identity, remote_turn, known)
                if task_id is not None:
                    await client.cancel(task_id)
            except (RemoteTaskEnded, RemoteTaskUnknown):
                return
            except RemoteUnreachable:
                if attempt == STOP_ATTEMPTS - 1:
                    raise
                await asyncio.sleep(FIRST_PAUSE_S * 2**attempt)
            else:
                return


async def _find_task_id(
    client: A2AClient,
    identity: RunIdentity,
    remote_turn: RemoteTurn | None,
    known: RemoteTarget | None,
) -> str | None:
    """Find the task of a run: in memory, in the checkpoint, or in the list of its context."""
    if remote_turn is not None:
        task_id = await remote_turn.find_task_id()
        if task_id is not None or remote_turn.was_answered:
            return task_id
    if known is not None and known.run_id == identity.run_id and known.task_id is not None:
        return None if known.last_state in _ENDS else known.task_id
    context_id = (known.context_id if known is not None else None) or context_of(identity.thread_id)
    try:
        tasks = await client.find(context_id)
    except RemoteUnsupported:
        return None
    message_id = remote_turn.message_id if remote_turn is not None else None
    return next((task.id for task in tasks if _is_own(task, message_id)), None)


def _is_own(task: Task, message_id: str | None) -> bool:
    """Whether a task of the context is the run's and active: a thread has one run at a time."""
    is_over = task.status.state in _ENDS
    if message_id is not None and task.history:
        return task.has_message(message_id) and not is_over
    return not is_over
