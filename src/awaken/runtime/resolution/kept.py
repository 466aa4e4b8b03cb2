"""Compiled snapshots of publications: the latest ones, and those that runs still hold."""

from collections.abc import Iterator
from typing import Protocol
from weakref import WeakSet

from .layers import ManagedLayer
from .snapshots import RegistrySnapshot

KEPT_MAX = 8
"""How many publications are kept although no run holds them."""


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
