"""Builds what records and replays the runs of a runtime; few programs need it."""

from typing import TYPE_CHECKING, cast

from awaken.contracts.clock import Clock
from awaken.contracts.evals.errors import CannotReplay
from awaken.contracts.evals.store import open_eval_store
from awaken.contracts.storage.store import Store
from awaken.evals.pins import PinnedConfig
from awaken.evals.recording import Recorder
from awaken.evals.redacting import Recordings
from awaken.evals.replay_jobs import ReplayJobs, ReplayLimits
from awaken.evals.replaying import ReplayHost, Replays
from awaken.evals.run_replays import RunReplays
from awaken.evals.worlds import StoredWorlds
from awaken.managed.parts import Author
from awaken.runtime.engine import RunEngine
from awaken.stores.memory.profiles import MemoryProfileStore
from awaken.stores.memory.store import MemoryStore

if TYPE_CHECKING:
    from awaken.contracts.evals.store import EvalStore
    from awaken.managed.configuration import ManagedConfig


def build_recorder(engine: RunEngine) -> Recorder:
    """Return the recorder of an engine's runs; it redacts nothing."""
    return _build_recorder(engine.store, engine)


def _build_recorder(store: Store, engine: RunEngine) -> Recorder:
    has_worlds = hasattr(store, "open_evals")
    worlds = build_worlds(store) if has_worlds else None
    return Recorder(store, engine.registry, _read_version(), worlds)


def build_recordings(engine: RunEngine) -> Recordings:
    """Return what makes redacted recordings of an engine's runs."""
    return Recordings(build_recorder(engine), build_replays(engine))


def build_replays(engine: RunEngine, time_ms: int = ReplayLimits().time_ms) -> Replays:
    """Return what replays recordings with the agents of an engine."""
    host = ReplayHost(
        registry=engine.registry,
        services=engine.services,
        make_store=_make_store,
        make_profile=MemoryProfileStore,
        version=_read_version(),
        time_ms=time_ms,
    )
    return Replays(host)


def build_recordings_of(store: Store, engine: RunEngine) -> Recordings:
    """Return what makes redacted recordings of the runs of a store, with an engine's agents."""
    return Recordings(_build_recorder(store, engine), build_replays(engine))


def build_run_replays(
    engine: RunEngine, managed: "ManagedConfig | None" = None, limits: ReplayLimits | None = None
) -> RunReplays:
    """Return what records, replays and compares the runs of an engine."""
    limits = limits or ReplayLimits()
    replays = build_replays(engine, limits.time_ms)

    def make_jobs() -> ReplayJobs:
        return ReplayJobs(engine, open_eval_store(engine.store), replays, limits)

    snapshots = None if managed is None else ManagedSnapshots(managed)
    return RunReplays(engine, build_recordings(engine), replays, make_jobs, snapshots)


class ManagedSnapshots:
    """Pins variants to publications of managed configuration."""

    def __init__(self, managed: "ManagedConfig") -> None:
        self._managed = managed

    async def pin_live(self) -> PinnedConfig | None:
        """Return the live publication; None if nothing was published."""
        head = await self._managed.parts.read_head()
        if head.publication is None:
            return None
        return await self.pin_publication(head.publication)

    async def pin_publication(self, publication: int) -> PinnedConfig:
        """Return a publication."""
        found = await self._managed.parts.reader.load_publication(publication)
        return PinnedConfig(publication=found.no, manifest_hash=found.manifest_hash)

    async def pin_draft(self, draft_id: str, actor: str) -> PinnedConfig:
        """Write an ephemeral publication of a draft, and return it."""
        found = await self._managed.drafts.preview(draft_id, Author(id=actor))
        return PinnedConfig(publication=found.no, manifest_hash=found.manifest_hash)


def build_worlds(store: Store) -> StoredWorlds:
    """Return what opens the worlds that a store keeps.

    Raises:
        CannotReplay: The store keeps none.
    """
    open_evals = getattr(store, "open_evals", None)
    if open_evals is None:
        raise CannotReplay(run_id="?", problem=f"store '{store.name}' keeps no worlds")
    return StoredWorlds(cast("EvalStore", open_evals()))


def _make_store(clock: Clock) -> Store:
    return MemoryStore("replay", clock=clock)


def _read_version() -> str:
    import awaken  # noqa: PLC0415

    return awaken.__version__
