"""Sending a message once: with the same id however often, and never again without looking."""

import asyncio
from itertools import count

from awaken.contracts.backends.errors import (
    AgentNotFound,
    RemoteMalformed,
    RemoteUnreachable,
    RemoteUnsupported,
)

from .client import FOUND_HISTORY, A2AClient
from .errand import RemoteTurn
from .failures import RemoteNotFound, RemoteNotReached, RemoteOutcomeUnknown
from .turn import A2aTurn
from .wire import Reply, Task

FIRST_PAUSE_S = 0.1
PAUSE_MAX_S = 2.0


async def delivered(client: A2AClient, turn: A2aTurn, errand: RemoteTurn) -> Reply:
    """What the message is answered with, or the task in which it has arrived before.

    What fails on the way is tried again until the run's deadline, by which the caller bounds it.

    Raises:
        AgentNotFound: There is no agent at the address.
        RemoteError: It was refused, or nobody can tell whether it has arrived.
    """
    errand.is_maybe_sent = turn.is_maybe_sent or turn.accepted_id is not None
    for attempt in count():
        try:
            return await _attempted(client, turn, errand)
        except RemoteUnreachable as error:
            errand.problem = error
            # The message may have arrived although its answer did not.
            errand.is_maybe_sent |= not isinstance(error, RemoteNotReached)
        except RemoteNotFound as error:
            raise AgentNotFound(problem=error.problem) from error
        await asyncio.sleep(min(PAUSE_MAX_S, FIRST_PAUSE_S * 2 ** min(attempt, 16)))
    raise AssertionError


async def _attempted(client: A2AClient, turn: A2aTurn, errand: RemoteTurn) -> Reply:
    if turn.accepted_id is not None:
        return await client.get(turn.accepted_id)
    if errand.is_maybe_sent and (task := await _arrived(client, turn)):
        return task
    return _checked(await errand.carry(client.send(turn.message())), turn)


async def _arrived(client: A2AClient, turn: A2aTurn) -> Task | None:
    """The task in which the message has arrived, as far as the other side can tell.

    An answer counts as arrived unless it certainly has not: one that is lost is asked for again,
    one that comes twice answers a question that nobody has seen.
    """
    if turn.continued_id is not None:
        task = await client.get(turn.continued_id, FOUND_HISTORY)
        return None if turn.is_unanswered(task) else task
    try:
        return turn.own_among(await client.find(turn.context_id))
    except RemoteUnsupported as error:
        problem = "outcome unknown; the server cannot list its tasks, so that it cannot be told "
        problem += "whether the message has arrived; ask again if it may arrive twice"
        raise RemoteOutcomeUnknown(problem=problem) from error


def _checked(reply: Reply, turn: A2aTurn) -> Reply:
    is_other = isinstance(reply, Task) and reply.id != turn.continued_id
    if turn.continued_id is not None and is_other:
        raise RemoteMalformed(problem="a message to one task was answered with another")
    return reply
