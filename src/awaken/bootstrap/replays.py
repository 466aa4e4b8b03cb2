"""Builds what records and replays the runs of a runtime; few programs need it."""

from typing import TYPE_CHECKING, cast

from awaken.contracts.clock import Clock
from awaken.contracts.evals.errors import CannotReplay
from awaken.contracts.storage.store import Store
from awaken.evals.recording import Recorder
from awaken.evals.redacting import Recordings
from awaken.evals.replaying import ReplayHost, Replays
from awaken.evals.run_replays import RunReplays
from awaken.evals.worlds import StoredWorlds
from awaken.runtime.engine import RunEngine
from awaken.stores.memory.profiles import MemoryProfileStore
from awaken.stores.memory.store import MemoryStore

if TYPE_CHECKING:
    from awaken.contracts.evals.store import EvalStore


def build_recorder(engine: RunEngine) -> Recorder:
    """Return the recorder of an engine's runs; it redacts nothing."""
    return Recorder(engine.store, engine.registry, _read_version())


def build_recordings(engine: RunEngine) -> Recordings:
    """Return what makes redacted recordings of an engine's runs."""
    return Recordings(build_recorder(engine), build_replays(engine))


def build_replays(engine: RunEngine) -> Replays:
    """Return what replays recordings with the agents of an engine."""
    host = ReplayHost(
        registry=engine.registry,
        services=engine.services,
        make_store=_make_store,
        make_profile=MemoryProfileStore,
        version=_read_version(),
    )
    return Replays(host)


def build_recordings_of(store: Store, engine: RunEngine) -> Recordings:
    """Return what makes redacted recordings of the runs of a store, with an engine's agents."""
    recorder = Recorder(store, engine.registry, _read_version())
    return Recordings(recorder, build_replays(engine))


def build_run_replays(engine: RunEngine) -> RunReplays:
    """Return what records, replays and compares the runs of an engine."""
    return RunReplays(engine, build_recordings(engine), build_replays(engine))


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
