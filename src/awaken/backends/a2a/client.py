"""The operations of the protocol at one agent, whatever its binding."""

import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from awaken.contracts.backends.errors import RemoteError, RemoteMalformed, RemoteUnreachable
from awaken.contracts.clock import Clock
from awaken.contracts.specs.remote_registries import CARD_PATH
from awaken.wire.a2a import CARD_BYTES_MAX

from .bindings import Binding, RestBinding, binding_of, known_binding
from .channel import CALL_S, Channel
from .failures import RemoteNotReached
from .outgoing import OUTPUT_MODES, Payload
from .wire import (
    A2aAnswer,
    AgentCard,
    RemoteMessage,
    Reply,
    Task,
    TaskPage,
    is_name,
    parsed,
    read_as,
)

logger = logging.getLogger(__name__)

CARD_S = 5.0
CARD_TTL_MS = 300_000
CARD_AGAIN_MS = 30_000
"""How long a card that cannot be had is left alone."""
CARD_PATIENCE_S = 10.0
"""How long is waited for the first card before the agent is asked without one."""
FOUND_HISTORY = 100
"""How many messages of a task are looked at to tell whether ours is among them."""
FOUND_TASKS = 20


class A2AClient:
    """One agent at another server."""

    def __init__(self, channel: Channel, clock: Clock) -> None:
        self._channel = channel
        self._clock = clock
        self._known = known_binding(channel)
        self._binding: Binding | None = None
        self._bound_until_ms = 0
        self._missed_ms: int | None = None
        self.can_stream = True
        """Whether the agent's card does not deny it."""

    async def send(self, message: Payload) -> Reply:
        """Send a message; answered with a task, or with a message.

        Raises:
            RemoteError: It was refused, or it is not known whether it has arrived.
        """
        options = self._channel.config.options
        configuration: Payload = {
            "acceptedOutputModes": list(OUTPUT_MODES),
            "returnImmediately": options.return_immediately,
        }
        if options.history_length is not None:
            configuration["historyLength"] = options.history_length
        params = {"message": message, "configuration": configuration}
        # One that waits for the task's end is bounded by the run's deadline.
        timeout_s = CALL_S if options.return_immediately else None
        binding = await self._bound()
        answer = read_as(await binding.ask("SendMessage", params, timeout_s), A2aAnswer)
        found = [it for it in (answer.task, answer.message) if it is not None]
        if len(found) != 1:
            raise RemoteMalformed(problem="the answer is not one task, nor one message")
        if isinstance(found[0], RemoteMessage) and not is_name(found[0].context_id or "-"):
            raise RemoteMalformed(problem="the context of the answer cannot be one")
        return found[0]

    async def get(self, task_id: str, history_length: int | None = None) -> Task:
        """A task as it stands.

        Raises:
            RemoteError: It cannot be had.
        """
        params: Payload = {"id": task_id}
        length = history_length or self._channel.config.options.history_length
        if length is not None:
            params["historyLength"] = length
        binding = await self._bound()
        return _same(task_id, await binding.ask("GetTask", params, CALL_S))

    async def find(self, context_id: str) -> tuple[Task, ...]:
        """The newest tasks of a context, with their messages.

        Raises:
            RemoteError: They cannot be had.
        """
        params: Payload = {
            "contextId": context_id,
            "pageSize": FOUND_TASKS,
            "historyLength": FOUND_HISTORY,
        }
        binding = await self._bound()
        page = read_as(await binding.ask("ListTasks", params, CALL_S), TaskPage)
        return tuple(it for it in page.tasks if it.context_id in (context_id, None))

    async def cancel(self, task_id: str) -> None:
        """Ask for the end of a task.

        Raises:
            RemoteError: It was refused, or it is not known whether it was heard.
        """
        binding = await self._bound()
        _same(task_id, await binding.ask("CancelTask", {"id": task_id}, CALL_S))

    async def subscribe(self, task_id: str) -> AsyncGenerator[A2aAnswer, None]:
        """What becomes of a task, until the stream ends.

        Raises:
            RemoteError: It cannot be had, or breaks off.
        """
        binding = await self._bound()
        async with aclosing(binding.stream("SubscribeToTask", {"id": task_id})) as events:
            async for event in events:
                yield read_as(event, A2aAnswer)

    async def _bound(self) -> Binding:
        """The binding by the agent's card, which is asked for now and then."""
        if self._known is not None:
            return self._known
        if self._binding is not None and self._clock.monotonic_ms() < self._bound_until_ms:
            return self._binding
        try:
            card = await self._card()
        except RemoteUnreachable as error:
            return self._unlearned(error)
        self._binding = binding_of(card, self._channel)
        self._bound_until_ms = self._clock.monotonic_ms() + CARD_TTL_MS
        self.can_stream = card is None or card.capabilities.streaming is not False
        return self._binding

    def _unlearned(self, error: RemoteUnreachable) -> Binding:
        """The binding when the card cannot be had: as it was, after a while the usual one."""
        now = self._clock.monotonic_ms()
        self._missed_ms = now if self._missed_ms is None else self._missed_ms
        if self._binding is None and now - self._missed_ms < 1000 * CARD_PATIENCE_S:
            raise RemoteNotReached(problem=f"the agent's card: {error.problem}") from error
        self._binding = self._binding or RestBinding(self._channel)
        self._bound_until_ms = now + CARD_AGAIN_MS
        return self._binding

    async def _card(self) -> AgentCard | None:
        """The agent's card; it is optional, and something else may be in its place."""
        url = self._channel.config.origin + CARD_PATH
        try:
            return read_as(
                parsed(await self._channel.public(url, CARD_BYTES_MAX, CARD_S)), AgentCard
            )
        except RemoteUnreachable:
            raise
        except RemoteError as error:
            logger.debug("There is no agent card at %s: %s", url, error)
            return None


def _same(task_id: str, document: Any) -> Task:
    """The task that was asked for, and no other."""
    task = read_as(document, Task)
    if task.id != task_id:
        raise RemoteMalformed(problem="asked for one task, it answered with another")
    return task
