"""Discovers agents of other servers: reads their cards at the start, and every few minutes.

The agent that was found last stays registered while its server is unreachable, or while its card
is malformed or describes an agent that the registry cannot accept.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

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
        self._make_watch = partial(_Watch, registry=registry, cards=cards, clock=clock)
        self._watches = tuple(map(self._make_watch, remotes))
        self._chance = chance
        self._is_open = False
        self._tasks: dict[_Watch, asyncio.Task[None]] = {}
        self._applying = asyncio.Lock()

    async def open(self) -> None:
        """Read every card once, then refresh them in the background; idempotent."""
        if self._is_open:
            return
        self._is_open = True
        await self.refresh()
        for watch in self._watches:
            self._start(watch, self._keep_fresh(watch))

    async def close(self) -> None:
        """Stop refreshing; what was found stays registered."""
        self._is_open = False
        tasks, self._tasks = self._tasks, {}
        await _cancel_all(tasks.values())

    async def apply(self, remotes: Iterable[RemoteRegistry]) -> None:
        """Watch these registries and no others; waits for no card.

        The cards of new and changed registries are read in the background. The agent of a registry
        that is gone can no longer be named; runs that have it keep it.
        """
        wanted = {remote.name: remote for remote in remotes}
        async with self._applying:
            kept = {it.remote.name: it for it in self._watches if it.remote in wanted.values()}
            gone = [it for it in self._watches if it.remote.name not in kept]
            watches = {
                name: kept.get(name) or self._make_watch(remote) for name, remote in wanted.items()
            }
            self._watches = tuple(watches.values())
            await _cancel_all([self._tasks.pop(it) for it in gone if it in self._tasks])
            for watch in gone:
                if watch.remote.name not in wanted:
                    await watch.forget()
            for name, watch in watches.items():
                if name not in kept and self._is_open:
                    self._start(watch, self._look_and_keep_fresh(watch))

    def _start(self, watch: "_Watch", work: Coroutine[Any, Any, None]) -> None:
        if self._is_open and watch not in self._tasks:
            name = f"discovery {watch.status.name}"
            self._tasks[watch] = asyncio.create_task(work, name=name)
        else:
            work.close()

    async def refresh(self) -> tuple[RemoteStatus, ...]:
        """Read all cards now, concurrently; takes no longer than the longest timeout."""
        async with asyncio.TaskGroup() as group:
            for watch in self._watches:
                group.create_task(watch.look())
        return self.status()

    def remotes(self) -> tuple[RemoteRegistry, ...]:
        """The registries that are watched now."""
        return tuple(watch.remote for watch in self._watches)

    def status(self) -> tuple[RemoteStatus, ...]:
        """The result of the last refresh of each registry, in configuration order."""
        return tuple(watch.status for watch in self._watches)

    async def _look_and_keep_fresh(self, watch: "_Watch") -> None:
        await watch.look()
        await self._keep_fresh(watch)

    async def _keep_fresh(self, watch: "_Watch") -> None:
        while True:
            off = 1 - JITTER + 2 * JITTER * self._chance()
            await asyncio.sleep(watch.pause_ms * off / 1000)
            await watch.look()


async def _cancel_all(tasks: Iterable[asyncio.Task[None]]) -> None:
    cancelled = [*tasks]
    for task in cancelled:
        task.cancel()
    if cancelled:
        await asyncio.wait(cancelled)


class _Watch:
    """One registry: its last card, and its last problem."""

    def __init__(
        self, remote: RemoteRegistry, registry: RegistryHandle, cards: CardSource, clock: Clock
    ) -> None:
        self.status = RemoteStatus(name=remote.name, origin=remote.origin)
        self.remote = remote
        self._registry = registry
        self._cards = cards
        self._clock = clock
        self._turn = asyncio.Lock()

    @property
    def pause_ms(self) -> int:
        """How long to wait before the next refresh."""
        usual, failures = self.remote.refresh_ms, self.status.failures
        # Beyond this many doublings every refresh interval is reached.
        return min(usual, RETRY_MS << min(failures - 1, 40)) if failures else usual

    async def look(self) -> None:
        """Read the card and register its agent; an older card never replaces a newer one."""
        # Only a runtime with remote registries reads cards.
        from .agent_cards import agent_of_card  # noqa: PLC0415

        async with self._turn:
            try:
                agent = agent_of_card(await self._card(), self.remote)
                await self._register(agent)
            except DiscoveryError as error:
                self._record_failure(str(error), None)
            except Exception as error:  # noqa: BLE001 - shown, logged with its trace, tried again
                name, kind = self.remote.name, type(error).__name__
                self._record_failure(
                    f"Remote registry '{name}': {kind} was raised, a defect.", error
                )
            else:
                self._record_success(agent)

    async def forget(self) -> None:
        """Take the agent out of the registry, because its registry is no longer configured."""
        name = self.remote.name
        try:
            await self._registry.update_discovered(lambda it: it.without_registry(name))
        except InvalidSpec as error:
            logger.warning("Remote registry '%s' stays registered: %s", name, error)

    async def _card(self) -> bytes:
        try:
            async with asyncio.timeout(self.remote.timeout_ms / 1000):
                return await self._cards.fetch_card(self.remote)
        except TimeoutError as error:
            problem = f"no answer within {self.remote.timeout_ms} ms"
            raise CardUnavailable.of(
                self.remote, problem, "check base_url and timeout_ms"
            ) from error
        except RemoteError as error:
            advice = "auth" if isinstance(error, RemoteRefused) else "base_url"
            raise CardUnavailable.of(
                self.remote, str(error).rstrip("."), f"check {advice}"
            ) from error

    async def _register(self, agent: AgentSpec) -> None:
        source, remote = AgentSource(spec=agent), self.remote
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
                self.remote, problem, "what was registered before stays"
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
