"""The registry: what the code declares, what is managed and what was discovered, as snapshots.

Each of these layers is replaced by its owner alone. A change is compiled first and becomes
current by one assignment; an invalid one changes nothing.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Protocol
from weakref import WeakSet

from awaken.contracts.errors import InvalidSpec
from awaken.contracts.plugins.plugin import Plugin

from .layers import DiscoveredLayer, ManagedLayer, compose
from .registries import RegistrySet
from .snapshots import AgentHost, CurrentSnapshot, RegistrySnapshot, describe_problems

if TYPE_CHECKING:
    from .canary import CanaryChoice

RESOLVED_AT_ONCE = 20
"""How many agents are resolved before the event loop gets a turn."""
HELD_S = 0.008
"""How long the event loop is held before it gets a turn, also if fewer agents were resolved."""

KEPT_MAX = 8
"""How many publications are kept although no run holds them."""

logger = logging.getLogger(__name__)


class PublicationSource(Protocol):
    """Reads publications that this process has not compiled, or has forgotten."""

    async def load_layer(self, no: int) -> ManagedLayer:
        """Return what a publication adds to the code; what its plugins need is open.

        Raises:
            UnknownPublication: There is none of that number.
        """
        ...


class KeptSnapshots:
    """Snapshots by the number of their publication.

    The ones used last are kept; others as long as a run holds them.
    """

    __slots__ = ("_alive", "_recent", "additions")

    def __init__(self) -> None:
        self.additions = 0
        """How many snapshots were added so far."""
        self._recent: dict[int, RegistrySnapshot] = {}
        self._alive: WeakSet[RegistrySnapshot] = WeakSet()

    def __iter__(self) -> Iterator[RegistrySnapshot]:
        """Every snapshot that a run may hold or take."""
        return iter(tuple(self._alive))

    def add(self, snapshot: RegistrySnapshot) -> None:
        """Keep a snapshot, in place of an earlier one of its publication."""
        if snapshot not in self._alive:
            self.additions += 1
            self._alive.add(snapshot)
        if snapshot.publication is not None:
            self._recent.pop(snapshot.publication, None)
            self._recent[snapshot.publication] = snapshot
            if len(self._recent) > KEPT_MAX:
                del self._recent[next(iter(self._recent))]

    def find(self, publication: int | None) -> RegistrySnapshot | None:
        """Return the latest snapshot of a publication, if it is kept."""
        if publication is None:
            return None
        found = self._recent.get(publication)
        if found is None:
            alive = (it for it in tuple(self._alive) if it.publication == publication)
            found = max(alive, key=lambda it: it.revision, default=None)
        if found is not None:
            self.add(found)
        return found


class RegistryHandle(CurrentSnapshot):
    """The current snapshot, those that pinned runs need, and the only way to replace them.

    Updates that await take their turns, so that none is lost; `replace` and `update` do not wait.
    """

    def __init__(self, registries: RegistrySet, host: AgentHost | None = None) -> None:
        super().__init__(RegistrySnapshot(0, RegistrySet(), host), host)
        self.publications: PublicationSource | None = None
        """Reads publications that are not compiled here; None without managed configuration."""
        self.canary: CanaryChoice | None = None
        """The publication that a share of new runs takes."""
        self._code = registries
        self._discovered = DiscoveredLayer()
        self._revision = 0
        """Raised whenever the code, the discovered agents or a plugin changes."""
        self._renewed_at: dict[int, int] = {}
        """The revision at which a plugin last changed, by its `id()`."""
        self._kept = KeptSnapshots()
        self._served: tuple[int, tuple[str, ...]] | None = None
        """The agents of the kept snapshots, and how many were added when they were listed."""
        self._loads: dict[int, asyncio.Task[RegistrySnapshot]] = {}
        self._updating = asyncio.Lock()
        self.replace(registries)

    def snapshots(self) -> Iterator[RegistrySnapshot]:
        """Every snapshot that runs hold, or may take without compiling it."""
        return iter(self._kept)

    def served_agents(self) -> tuple[str, ...]:
        """The agents that runs can take or continue here, with those of kept publications."""
        known = self._served
        if known is None or known[0] != self._kept.additions:
            agents = (name for snapshot in self._kept for name in snapshot.usable_agents())
            self._served = known = self._kept.additions, tuple(sorted({*agents}))
        return known[1]

    def replace(self, registries: RegistrySet) -> int:
        """Install a new code layer; returns the new version.

        Raises:
            InvalidSpec: An agent in it cannot be resolved; the registry is unchanged.
        """
        before = self._snapshot
        made = self._draft(registries, before.layer, self._discovered)
        # Without turns for the event loop: the caller does not await.
        deque(made.resolve_all(before, self._renewed_since(before)), maxlen=0)
        _refuse_new_problems(made, before)
        self._code = registries
        self._revision += 1
        return self._swap(made)

    def update(self, change: Callable[[RegistrySet], RegistrySet]) -> int:
        """Install a changed copy of the code layer; returns the new version."""
        return self.replace(change(self._code))

    async def update_discovered(self, change: Callable[[DiscoveredLayer], DiscoveredLayer]) -> int:
        """Install a changed copy of the discovered layer; returns the new version.

        Raises:
            InvalidSpec: An agent that could be used cannot be resolved; the registry is unchanged.
        """
        async with self._updating:
            while True:
                discovered, before = change(self._discovered), self._snapshot
                made = await self._compile(before.layer, before, discovered)
                if made.revision == self._revision:
                    break
            _refuse_new_problems(made, before)
            self._discovered = discovered
            self._revision += 1
            return self._swap(made)

    async def renew(self, plugin: Plugin) -> int:
        """Resolve the agents that use a plugin again; returns the new version.

        Raises:
            InvalidSpec: An agent that could be used cannot be resolved; the registry is unchanged.
        """
        self._mark_renewed(plugin)
        async with self._updating:
            before = self._snapshot
            try:
                made = await self._compile_current(before.layer)
                _refuse_new_problems(made, before)
            except InvalidSpec:
                # The plugin takes its change back: what was resolved with it is resolved again.
                self._mark_renewed(plugin)
                raise
            return self._swap(made)

    async def prepare(self, layer: ManagedLayer) -> RegistrySnapshot:
        """Compile managed configuration without installing it; no problem of an agent is raised.

        Agents that cannot be used are in `unusable` of the snapshot, diagnostics in `warnings`.
        """
        return await self._compile(layer, self._kept.find(layer.publication) or self._snapshot)

    async def install(self, snapshot: RegistrySnapshot, publication: int | None = None) -> int:
        """Make a prepared snapshot the current one; returns the new version.

        If the code, the discovered agents or a plugin changed since, it is compiled again first.

        Args:
            snapshot: The snapshot.
            publication: The number that its configuration was given, if it had none.
        """
        async with self._updating:
            return self._swap(await self._refresh(snapshot, publication))

    async def keep(self, snapshot: RegistrySnapshot, publication: int | None = None) -> None:
        """Keep a prepared snapshot for runs that are pinned to its publication."""
        self._kept.add(await self._refresh(snapshot, publication))

    async def _find_publication(self, no: int) -> RegistrySnapshot:
        kept = self._kept.find(no)
        if kept is not None and kept.revision == self._revision:
            return kept
        loading = self._loads.get(no)
        if loading is None:
            loading = asyncio.create_task(self._load(no, kept), name=f"publication {no}")
            self._loads[no] = loading
            loading.add_done_callback(partial(self._end_load, no))
        # One of several callers may be cancelled; the others still need it.
        return await asyncio.shield(loading)

    async def _load(self, no: int, kept: RegistrySnapshot | None) -> RegistrySnapshot:
        if kept is None:
            if self.publications is None:
                # Only a process with managed configuration needs these errors.
                from awaken.contracts.config.errors import UnknownPublication  # noqa: PLC0415

                raise UnknownPublication(no=no)
            layer = await self.publications.load_layer(no)
            kept = (await self._compile(layer, self._snapshot)).with_publication(no)
        found = await self._refresh(kept, no)
        self._kept.add(found)
        return found

    def _end_load(self, no: int, loading: asyncio.Task[RegistrySnapshot]) -> None:
        del self._loads[no]
        if not loading.cancelled():
            # Every caller may have been cancelled; then nothing else reads the exception.
            loading.exception()

    async def _refresh(
        self, snapshot: RegistrySnapshot, publication: int | None
    ) -> RegistrySnapshot:
        """Return a snapshot with the code, discovered agents and plugins that are there now."""
        if publication is not None:
            snapshot = snapshot.with_publication(publication)
        while snapshot.revision != self._revision:
            snapshot = await self._compile(snapshot.layer, snapshot)
        return snapshot

    async def _compile_current(self, layer: ManagedLayer | None) -> RegistrySnapshot:
        while True:
            made = await self._compile(layer, self._snapshot)
            if made.revision == self._revision:
                return made

    async def _compile(
        self,
        layer: ManagedLayer | None,
        before: RegistrySnapshot,
        discovered: DiscoveredLayer | None = None,
    ) -> RegistrySnapshot:
        made = self._draft(self._code, layer, discovered or self._discovered)
        loop, resolved = asyncio.get_running_loop(), 0
        began = loop.time()
        for is_resolved in made.resolve_all(before, self._renewed_since(before)):
            resolved += is_resolved
            if resolved == RESOLVED_AT_ONCE or loop.time() - began > HELD_S:
                await asyncio.sleep(0)
                began, resolved = loop.time(), 0
        if resolved:
            # The caller may go on with agents of another snapshot.
            await asyncio.sleep(0)
        return made

    def _draft(
        self, code: RegistrySet, layer: ManagedLayer | None, discovered: DiscoveredLayer
    ) -> RegistrySnapshot:
        registries = compose(code, layer, discovered)
        return RegistrySnapshot(0, registries, self.host, layer, self._revision)

    def _swap(self, made: RegistrySnapshot) -> int:
        """Make a snapshot current; from now on its revision is that of the handle."""
        before = self._snapshot
        made.version, made.revision = before.version + 1, self._revision
        known = frozenset(before.warnings)
        for oddity in made.warnings:
            if oddity not in known:
                logger.warning("%s", oddity)
        self._kept.add(made)
        self._snapshot = made
        return made.version

    def _mark_renewed(self, plugin: Plugin) -> None:
        self._revision += 1
        self._renewed_at[id(plugin)] = self._revision

    def _renewed_since(self, before: RegistrySnapshot) -> frozenset[int]:
        renewed = self._renewed_at.items()
        return frozenset(plugin for plugin, at in renewed if at > before.revision)


def _refuse_new_problems(made: RegistrySnapshot, before: RegistrySnapshot) -> None:
    """Refuse a change that breaks an agent or a pool; what was broken before may stay so.

    Raises:
        InvalidSpec: With every such problem.
    """
    known = frozenset(before.pool_problems())
    found = [problem for problem in made.pool_problems() if problem not in known]
    new = {name: it for name, it in made.problems.items() if name not in before.unusable}
    found += describe_problems(new)
    if found:
        raise InvalidSpec(what="The registry", problem="; ".join(found))
