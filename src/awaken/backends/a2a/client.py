"""The operations of the protocol at one agent, over either binding."""

import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from awaken.contracts.backends.errors import RemoteError, RemoteMalformed, RemoteUnreachable
from awaken.contracts.clock import Clock
from awaken.contracts.specs.remote_registries import CARD_PATH
from awaken.wire.a2a import CARD_BYTES_MAX

from .bindings import Binding, RestBinding, choose_binding, find_configured_binding
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
    parse_json,
    read_as,
)

logger = logging.getLogger(__name__)

CARD_S = 5.0
CARD_TTL_MS = 300_000
CARD_AGAIN_MS = 30_000
"""How long to wait before a card that cannot be fetched is fetched again."""
CARD_PATIENCE_S = 10.0
"""How long to try for the first card before the agent is called without one."""
FOUND_HISTORY = 100
"""How many messages of a task are searched for this run's message."""
FOUND_TASKS = 20


class A2AClient:
    """One agent at another server."""

    def __init__(self, channel: Channel, clock: Clock) -> None:
        self._channel = channel
        self._clock = clock
        self._known = find_configured_binding(channel)
        self._binding: Binding | None = None
        self._bound_until_ms = 0
        self._missed_ms: int | None = None
        self.can_stream = True
        """False if the agent's card says that it does not stream."""

    async def send(self, message: Payload) -> Reply:
        """Send a message; the answer is a task or a message.

        Raises:
            RemoteError: The message was refused, or it is unknown whether it arrived.
        """
        options = self._channel.config.options
        configuration: Payload = {
            "acceptedOutputModes": list(OUTPUT_MODES),
            "returnImmediately": options.return_immediately,
        }
        if options.history_length is not None:
            configuration["historyLength"] = options.history_length
        params = {"message": message, "configuration": configuration}
        # The run's deadline bounds a call that waits for the end of the task.
        timeout_s = CALL_S if options.return_immediately else None
        binding = await self._get_binding()
        answer = read_as(await binding.ask("SendMessage", params, timeout_s), A2aAnswer)
        found = [it for it in (answer.task, answer.message) if it is not None]
        if len(found) != 1:
            raise RemoteMalformed(problem="the answer is not one task, nor one message")
        if isinstance(found[0], RemoteMessage) and not is_name(found[0].context_id or "-"):
            raise RemoteMalformed(problem="the context of the answer is not a valid id")
        return found[0]

    async def get(self, task_id: str, history_length: int | None = None) -> Task:
        """Fetch the current state of a task.

        Raises:
            RemoteError: The task cannot be fetched.
        """
        params: Payload = {"id": task_id}
        length = history_length or self._channel.config.options.history_length
        if length is not None:
            params["historyLength"] = length
        binding = await self._get_binding()
        return _read_same_task(task_id, await binding.ask("GetTask", params, CALL_S))

    async def find(self, context_id: str) -> tuple[Task, ...]:
        """List the newest tasks of a context, with their messages.

        Raises:
            RemoteError: The tasks cannot be listed.
        """
        params: Payload = {
            "contextId": context_id,
            "pageSize": FOUND_TASKS,
            "historyLength": FOUND_HISTORY,
        }
        binding = await self._get_binding()
        page = read_as(await binding.ask("ListTasks", params, CALL_S), TaskPage)
        return tuple(it for it in page.tasks if it.context_id in (context_id, None))

    async def cancel(self, task_id: str) -> None:
        """Cancel a task.

        Raises:
            RemoteError: It was refused, or it is unknown whether the request arrived.
        """
        binding = await self._get_binding()
        _read_same_task(task_id, await binding.ask("CancelTask", {"id": task_id}, CALL_S))

    async def subscribe(self, task_id: str) -> AsyncGenerator[A2aAnswer, None]:
        """Yield the events of a task until the stream ends.

        Raises:
            RemoteError: The stream cannot be opened, or breaks off.
        """
        binding = await self._get_binding()
        async with aclosing(binding.stream("SubscribeToTask", {"id": task_id})) as events:
            async for event in events:
                yield read_as(event, A2aAnswer)

    async def _get_binding(self) -> Binding:
        """The binding that the agent's card names; the card is fetched again after its TTL."""
        if self._known is not None:
            return self._known
        if self._binding is not None and self._clock.monotonic_ms() < self._bound_until_ms:
            return self._binding
        try:
            card = await self._fetch_card()
        except RemoteUnreachable as error:
            return self._fall_back(error)
        self._binding = choose_binding(card, self._channel)
        self._bound_until_ms = self._clock.monotonic_ms() + CARD_TTL_MS
        self.can_stream = card is None or card.capabilities.streaming is not False
        return self._binding

    def _fall_back(self, error: RemoteUnreachable) -> Binding:
        """The binding without a card: the previous one, or after a while HTTP+JSON."""
        now = self._clock.monotonic_ms()
        self._missed_ms = now if self._missed_ms is None else self._missed_ms
        if self._binding is None and now - self._missed_ms < 1000 * CARD_PATIENCE_S:
            raise RemoteNotReached(problem=f"the agent's card: {error.problem}") from error
        self._binding = self._binding or RestBinding(self._channel)
        self._bound_until_ms = now + CARD_AGAIN_MS
        return self._binding

    async def _fetch_card(self) -> AgentCard | None:
        """Fetch the agent's card. It is optional: another document in its place counts as none."""
        url = self._channel.config.origin + CARD_PATH
        try:
            return read_as(
                parse_json(await self._channel.call_public(url, CARD_BYTES_MAX, CARD_S)), AgentCard
            )
        except RemoteUnreachable:
            raise
        except RemoteError as error:
            logger.debug("There is no agent card at %s: %s", url, error)
            return None


def _read_same_task(task_id: str, document: Any) -> Task:
    """The requested task; another one is malformed."""
    task = read_as(document, Task)
    if task.id != task_id:
        raise RemoteMalformed(problem="the answer is another task than the requested one")
    return task
