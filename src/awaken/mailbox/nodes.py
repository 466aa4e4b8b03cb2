"""What this process knows of the nodes that share its store: whom to wake, and whose turn it is."""

import random
from collections.abc import Callable

from awaken.contracts.storage.nodes import LiveNode, NodeStore, Survey, find_address

WOKEN = 2
"""How many nodes one dispatch wakes: the first may have filled up since its latest beat."""
_TURN_SHARE = 0.8
"""A process that is alone takes every turn, however exact its pauses are."""


class NodeDirectory:
    """The live nodes, as the latest beat brought them.

    It may be some seconds old: a node that is not woken finds its work when it looks by itself.
    """

    def __init__(
        self,
        store: NodeStore,
        find_id: Callable[[], str],
        randomness: Callable[[], float] = random.random,
    ) -> None:
        self._store = store
        self._find_id = find_id
        """Returns the present id of this node."""
        self.randomness = randomness
        self.measure_beat_age: Callable[[], int] = lambda: 0
        """How long ago the lease of this node was renewed, in ms."""
        self.hears_others: Callable[[], bool] = lambda: False
        """Whether signals of other processes arrive at the moment."""
        self.told_rests: dict[str, bool] = {}
        """The threads whose dispatches execute here, and whether a commit told of their rest."""
        self.over_count = 0
        """How often this node was declared over, by others or by itself after an outage."""
        self.live: tuple[LiveNode, ...] = ()
        """Set by the thread of the heartbeat."""
        self.watchers: list[Callable[[Survey], None]] = []
        """They hear what each survey of this process has found."""

    async def take_turn(self, name: str, every_ms: int) -> bool:
        """Whether this process does now what one process at a time does.

        Raises:
            StorageError: The store could not answer.
        """
        return await self._store.take_turn(name, self._find_id(), int(every_ms * _TURN_SHARE))

    async def survey(self, every_ms: int, pause_max_ms: int) -> Survey:
        """Find what there is to do, and tell it in this process; see `NodeStore.survey`.

        Raises:
            StorageError: The store could not answer.
        """
        every_ms = int(every_ms * _TURN_SHARE)
        found = await self._store.survey(self._find_id(), every_ms, pause_max_ms)
        for watcher in self.watchers:
            watcher(found)
        return found

    def is_drained(self, thread_id: str) -> bool:
        """Whether nothing is left to claim of a thread that this process has just executed."""
        return self._store.is_drained(thread_id)

    def find_address(self, worker_id: str) -> str | None:
        """Find where the worker is reached that a claim names; None in another name."""
        return find_address(worker_id)

    def pick(self, agent_id: str | None) -> tuple[str, ...] | None:
        """Pick at most `WOKEN` addresses of nodes that serve an agent, those with room first.

        Without an agent every node that claims work serves. None if no such node is known: one
        may have started since the latest beat.
        """
        serving = [
            it for it in self.live if agent_id is None or it.agents is None or agent_id in it.agents
        ]
        with_room = [it for it in serving if it.room > 0] or serving
        picked: list[str] = []
        while with_room and len(picked) < WOKEN:
            node = with_room.pop(int(self.randomness() * len(with_room)))
            if (address := find_address(node.node_id)) is not None:
                picked.append(address)
        return tuple(picked) or None
