"""Discovers agents of other servers: reads their cards at the start, and every few minutes.

The agent that was found last stays registered while its server is unreachable, or while its card
is malformed or describes an agent that the registry cannot accept.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Iterable
from dataclasses import replace

import msgspec

from awaken.contracts.backends.errors import RemoteError, RemoteRefused
from awaken.contracts.clock import Clock
from awaken.contracts.errors import DuplicateRegistration, InvalidSpec
from awaken.contracts.specs.agents import AgentSpec
from awaken.contracts.specs.remote_registries import (
    LOCAL_NAME,
    AgentRefused,
    CardSource,
    CardUnavailable,
    DiscoveryError,
    RemoteRegistry,
    RemoteStatus,
    is_registry_name,
)
from awaken.runtime.resolution.registries import AgentSource, RegistrySet
from awaken.runtime.resolution.registry import RegistryHandle

logger = logging.getLogger(__name__)

RETRY_MS = 5_000
"""The pause after the first failure; it doubles with each one, up to the refresh interval."""
JITTER = 0.1
"""The random share of a pause, so that many processes do not ask at the same moment."""


def with_remotes(
    registries: RegistrySet, remotes: Iterable[RemoteRegistry], local_name: str = LOCAL_NAME
) -> RegistrySet:
    """Add remote registries that agents may name, before any of their agents is discovered.

    Raises:
        DuplicateRegistration: Two registries have one name.
        InvalidSpec: A name cannot be used, or a local agent's id begins with a registry's name.
    """
    if not is_registry_name(local_name):
        problem = "it has lower-case letters, digits, '-' and '_' only"
        raise InvalidSpec(what=f"The name '{local_name}' of the local registry", problem=problem)
    origins: dict[str, str] = {}
    for remote in remotes:
        if remote.name in origins or remote.name == local_name:
            raise DuplicateRegistration(kind="Registry", name=remote.name)
        origins[remote.name] = remote.origin
    for agent_id in registries.agents:
        if (source := agent_id.partition("/")[0]) != agent_id and source in {*origins, local_name}:
            problem = f"'{source}/…' is for the agents of registry '{source}'; choose another id"
            raise InvalidSpec(what=f"Agent id '{agent_id}'", problem=problem)
    return replace(registries, remotes=origins, local_name=local_name)


class Discovery:
    """Keeps the agents of remote registries registered, and reports the status of each.

    No failure of a remote registry raises: it is logged when it changes, reported by `status`, and
    retried.
    """

    def __init__(
        self,
        registry: RegistryHandle,
        remotes: Iterable[RemoteRegistry],
        cards: CardSource,
        clock: Clock,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._watches = tuple(_Watch(remote, registry, cards, clock) for remote in remotes)
        self._chance = chance
        self._tasks: tuple[asyncio.Task[None], ...] = ()

    async def open(self) -> None:
        """Read every card once, then refresh them in the background; idempotent."""
        if self._tasks:
            return
        await self.refresh()
        self._tasks = tuple(
            asyncio.create_task(self._keep_fresh(watch), name=f"discovery {watch.status.name}")
            for watch in self._watches
        )

    async def close(self) -> None:
        """Stop refreshing; what was found stays registered."""
        tasks, self._tasks = self._tasks, ()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def refresh(self) -> tuple[RemoteStatus, ...]:
        """Read all cards now, concurrently; takes no longer than the longest timeout."""
        async with asyncio.TaskGroup() as group:
            for watch in self._watches:
                group.create_task(watch.look())
        return self.status()

    def status(self) -> tuple[RemoteStatus, ...]:
        """The result of the last refresh of each registry, in configuration order."""
        return tuple(watch.status for watch in self._watches)

    async def _keep_fresh(self, watch: "_Watch") -> None:
        while True:
            off = 1 - JITTER + 2 * JITTER * self._chance()
            await asyncio.sleep(watch.pause_ms * off / 1000)
            await watch.look()


class _Watch:
    """One registry: its last card, and its last problem."""

    def __init__(
        self, remote: RemoteRegistry, registry: RegistryHandle, cards: CardSource, clock: Clock
    ) -> None:
        self.status = RemoteStatus(name=remote.name, origin=remote.origin)
        self._remote = remote
        self._registry = registry
        self._cards = cards
        self._clock = clock
        self._turn = asyncio.Lock()

    @property
    def pause_ms(self) -> int:
        """How long to wait before the next refresh."""
        usual, failures = self._remote.refresh_ms, self.status.failures
        # Beyond this many doublings every refresh interval is reached.
        return min(usual, RETRY_MS << min(failures - 1, 40)) if failures else usual

    async def look(self) -> None:
        """Read the card and register its agent; an older card never replaces a newer one."""
        # Only a runtime with remote registries reads cards.
        from .agent_cards import agent_of_card  # noqa: PLC0415

        async with self._turn:
            try:
                agent = agent_of_card(await self._card(), self._remote)
                await self._register(agent)
            except DiscoveryError as error:
                self._record_failure(str(error), None)
            except Exception as error:  # noqa: BLE001 - shown, logged with its trace, tried again
                name, kind = self._remote.name, type(error).__name__
                self._record_failure(
                    f"Remote registry '{name}': {kind} was raised, a defect.", error
                )
            else:
                self._record_success(agent)

    async def _card(self) -> bytes:
        try:
            async with asyncio.timeout(self._remote.timeout_ms / 1000):
                return await self._cards.fetch_card(self._remote)
        except TimeoutError as error:
            problem = f"no answer within {self._remote.timeout_ms} ms"
            raise CardUnavailable.of(
                self._remote, problem, "check base_url and timeout_ms"
            ) from error
        except RemoteError as error:
            advice = "auth" if isinstance(error, RemoteRefused) else "base_url"
            raise CardUnavailable.of(
                self._remote, str(error).rstrip("."), f"check {advice}"
            ) from error

    async def _register(self, agent: AgentSpec) -> None:
        source, remote = AgentSource(spec=agent), self._remote
        known = self._registry.snapshot().registries.agents.get(agent.id)
        if known is not None and known.spec == agent:
            # What has not changed is no new version.
            return
        try:
            await self._registry.update_discovered(
                lambda it: it.with_agent(source, remote.name, remote.origin)
            )
        except InvalidSpec as error:
            problem = f"agent '{agent.id}' cannot be registered: {error.problem}"
            raise AgentRefused.of(
                self._remote, problem, "what was registered before stays"
            ) from error

    def _record_success(self, agent: AgentSpec) -> None:
        before, now = self.status, self._clock.now_ms()
        if before.problem is not None or before.agent_id != agent.id:
            logger.info("Remote registry '%s' shows agent '%s'.", before.name, agent.id)
        self.status = msgspec.structs.replace(
            before, agent_id=agent.id, checked_at_ms=now, fresh_at_ms=now, failures=0, problem=None
        )

    def _record_failure(self, problem: str, error: Exception | None) -> None:
        before = self.status
        if problem != before.problem:
            logger.warning("%s", problem, exc_info=error)
        self.status = msgspec.structs.replace(
            before,
            checked_at_ms=self._clock.now_ms(),
            failures=before.failures + 1,
            problem=problem,
        )
