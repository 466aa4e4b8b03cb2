"""The port of worlds: what a run is given in place of its models and its tools.

A run that names a world is admitted with a snapshot whose agents have other clients and other
tools. Everything else is the same: the loop, hooks, gates, screens and plugins.
"""

from typing import Protocol

from awaken.runtime.resolution.snapshots import RegistrySnapshot
from awaken.runtime.run import Run


class EnteredWorld(Protocol):
    """A world for one activation of one run."""

    @property
    def snapshot(self) -> RegistrySnapshot:
        """The snapshot of the run, whose agents have the clients and tools of the world."""
        ...

    def attach(self, run: Run) -> None:
        """Bind the world to the run before it begins: its position follows from the run."""
        ...


class WorldSource(Protocol):
    """Opens worlds by their hashes."""

    async def open(self, world: str, pinned: RegistrySnapshot) -> EnteredWorld:
        """Return a world for one activation of a run that is pinned to a snapshot.

        Raises:
            CannotReplay: There is no such world, or its recording is gone or damaged.
        """
        ...
