"""Delivers a message once: retries keep its id, and first check whether it has arrived."""

import asyncio
from itertools import count

from awaken.contracts.backends.errors import (
    AgentNotFound,
    RemoteMalformed,
    RemoteUnreachable,
    RemoteUnsupported,
)

from .client import FOUND_HISTORY, A2AClient
from .failures import RemoteNotFound, RemoteNotReached, RemoteOutcomeUnknown
from .remote_turns import RemoteTurn
from .turn import A2aTurn
from .wire import Reply, Task

FIRST_PAUSE_S = 0.1
PAUSE_MAX_S = 2.0


async def deliver_message(client: A2AClient, turn: A2aTurn, remote_turn: RemoteTurn) -> Reply:
    """Deliver the message; return the answer, or the task in which it has arrived before.

    Unreachable servers are retried until the run's deadline, which the caller enforces.

    Raises:
        AgentNotFound: There is no agent at the address.
        RemoteError: The message was refused, or it cannot be found out whether it arrived.
    """
    remote_turn.is_maybe_sent = turn.is_maybe_sent or turn.accepted_id is not None
    for attempt in count():
        try:
            return await _try_once(client, turn, remote_turn)
        except RemoteUnreachable as error:
            remote_turn.problem = error
            # The message may have arrived although its answer did not.
            remote_turn.is_maybe_sent |= not isinstance(error, RemoteNotReached)
        except RemoteNotFound as error:
            raise AgentNotFound(problem=error.problem) from error
        await asyncio.sleep(min(PAUSE_MAX_S, FIRST_PAUSE_S * 2 ** min(attempt, 16)))
    raise AssertionError


async def _try_once(client: A2AClient, turn: A2aTurn, remote_turn: RemoteTurn) -> Reply:
    if turn.accepted_id is not None:
        return await client.get(turn.accepted_id)
    if remote_turn.is_maybe_sent and (task := await _find_arrived_task(client, turn)):
        return task
    return _check_reply(await remote_turn.send_shielded(client.send(turn.message())), turn)


async def _find_arrived_task(client: A2AClient, turn: A2aTurn) -> Task | None:
    """Find the task in which the message has arrived, as far as the server can tell.

    An answer to a question counts as arrived unless it certainly has not: the agent asks again for
    a lost answer, but an answer that arrives twice would answer a question that no user has seen.
    """
    if turn.continued_id is not None:
        task = await client.get(turn.continued_id, FOUND_HISTORY)
        return None if turn.is_unanswered(task) else task
    try:
        return turn.find_own_task(await client.find(turn.context_id))
    except RemoteUnsupported as error:
        problem = "outcome unknown; the server cannot list its tasks, so it is unknown "
        problem += "whether the message has arrived; send it again if it may arrive twice"
        raise RemoteOutcomeUnknown(problem=problem) from error


def _check_reply(reply: Reply, turn: A2aTurn) -> Reply:
    is_other = isinstance(reply, Task) and reply.id != turn.continued_id
    if turn.continued_id is not None and is_other:
        raise RemoteMalformed(problem="a message to one task was answered with another")
    return reply
