"""Finding the agents of others: their cards are read on entering, and again every few minutes.

What was found last stays registered while a server cannot be reached, shows nonsense, or shows an
agent that the registry cannot have.
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

from .agent_cards import agent_of_card

logger = logging.getLogger(__name__)

RETRY_MS = 5_000
"""The pause after the first failure; it doubles with each one, up to the usual pause."""
JITTER = 0.1
"""How far a pause may be off, so that many processes do not ask at one moment."""


def with_remotes(
    registries: RegistrySet, remotes: Iterable[RemoteRegistry], local_name: str = LOCAL_NAME
) -> RegistrySet:
    """Return the set with remote registries that its agents may name, before anything is found.

    Raises:
        DuplicateRegistration: Two registries have one name.
        InvalidSpec: A name cannot be used, or an agent's id says that it is of such a registry.
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
    """Keeps the agents of remote registries registered, and says how that goes.

    Nothing that a remote registry does makes this fail: it is logged when it changes, shown by
    `status`, and tried again.
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
        """Look at every registry once, then keep looking; calling it twice is harmless."""
        if self._tasks:
            return
        await self.refresh()
        self._tasks = tuple(
            asyncio.create_task(self._keep_fresh(watch), name=f"discovery {watch.status.name}")
            for watch in self._watches
        )

    async def close(self) -> None:
        """Stop looking; what was found stays registered."""
        tasks, self._tasks = self._tasks, ()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def refresh(self) -> tuple[RemoteStatus, ...]:
        """Look at every registry now, at the same time; takes no longer than the slowest may."""
        async with asyncio.TaskGroup() as group:
            for watch in self._watches:
                group.create_task(watch.look())
        return self.status()

    def status(self) -> tuple[RemoteStatus, ...]:
        """How the last look at each registry went, in the order they were configured."""
        return tuple(watch.status for watch in self._watches)

    async def _keep_fresh(self, watch: "_Watch") -> None:
        while True:
            off = 1 - JITTER + 2 * JITTER * self._chance()
            await asyncio.sleep(watch.pause_ms * off / 1000)
            await watch.look()


class _Watch:
    """One registry: what it showed last, and what is wrong with it."""

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
        """How long to wait before the next look."""
        usual, failures = self._remote.refresh_ms, self.status.failures
        # Beyond this many doublings every usual pause is reached.
        return min(usual, RETRY_MS << min(failures - 1, 40)) if failures else usual

    async def look(self) -> None:
        """Read the card and register its agent; never an older card after a newer one."""
        async with self._turn:
            try:
                agent = agent_of_card(await self._card(), self._remote)
                self._register(agent)
            except DiscoveryError as error:
                self._failed(str(error), None)
            except Exception as error:  # noqa: BLE001 - shown, logged with its trace, tried again
                name, kind = self._remote.name, type(error).__name__
                self._failed(f"Remote registry '{name}': {kind} was raised, a defect.", error)
            else:
                self._succeeded(agent)

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

    def _register(self, agent: AgentSpec) -> None:
        source, remote = AgentSource(spec=agent), self._remote
        known = self._registry.snapshot().registries.agents.get(agent.id)
        if known is not None and known.spec == agent:
            # A new version would have every agent resolved again.
            return
        try:
            self._registry.update(
                lambda it: it.with_remote_agent(source, remote.name, remote.origin)
            )
        except InvalidSpec as error:
            problem = f"agent '{agent.id}' cannot be registered: {error.problem}"
            raise AgentRefused.of(
                self._remote, problem, "what was registered before stays"
            ) from error

    def _succeeded(self, agent: AgentSpec) -> None:
        before, now = self.status, self._clock.now_ms()
        if before.problem is not None or before.agent_id != agent.id:
            logger.info("Remote registry '%s' shows agent '%s'.", before.name, agent.id)
        self.status = msgspec.structs.replace(
            before, agent_id=agent.id, checked_at_ms=now, fresh_at_ms=now, failures=0, problem=None
        )

    def _failed(self, problem: str, error: Exception | None) -> None:
        before = self.status
        if problem != before.problem:
            logger.warning("%s", problem, exc_info=error)
        self.status = msgspec.structs.replace(
            before,
            checked_at_ms=self._clock.now_ms(),
            failures=before.failures + 1,
            problem=problem,
        )
