"""The heartbeat of a node: it renews one lease, which all claims of this process depend on."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence

import msgspec

from awaken.contracts.clock import Clock, IdSource
from awaken.contracts.storage.dispatch import Claim, LeaseReport
from awaken.contracts.storage.mailbox import LeaseKeeper, MailboxStore
from awaken.contracts.storage.nodes import CLAIM_LEASES, NodeKeeper, NodeReport, NodeStore
from awaken.runtime.journal.leases import Lease

from .config import MailboxConfig
from .heartbeat import Heartbeat
from .nodes import NodeDirectory

logger = logging.getLogger(__name__)

CONFIRM_BEATS = 5
"""Each such beat confirms the claims that are held."""
LEAST_WAIT_MS = 1_000
"""How long the answer to a beat is waited for at least."""
LAST_S = 2.0
"""How long a process that stops tries to say so."""


class NodeIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """What a process is, whatever it does."""

    make_id: Callable[[int], str]
    """Returns the worker id of the n-th life; it keeps its address."""
    find_kind: Callable[[], str]
    version: str
    host: str
    pid: int


class NodeLoad(msgspec.Struct, frozen=True, kw_only=True):
    """What a process does at the moment."""

    slots: int = 0
    busy: int = 0
    agents: tuple[str, ...] | None = None
    is_draining: bool = False


class NodeHeartbeat(Heartbeat):
    """A `LeaseBook` whose leases are those of one node.

    A beat is one statement, however many runs execute. Once the node was declared over,
    all its leases are lost at once, and it begins anew under a new id. So it does by itself if it
    could not renew its lease in time: its runs have stopped, and nobody else would know of them
    until their claims run out. Leases are trusted as long as the latest beat that was answered
    allows, also those that were taken since.
    """

    looks_confirm = False

    def __init__(  # noqa: PLR0913 - those of a heartbeat, and what a node is and does
        self,
        store: MailboxStore,
        nodes: NodeStore,
        clock: Clock,
        ids: IdSource,
        config: MailboxConfig,
        identity: NodeIdentity,
        measure_load: Callable[[], NodeLoad],
    ) -> None:
        super().__init__(store, clock, ids, config, identity.make_id(1))
        self._nodes = nodes
        self.patience_ms = self._lease_ms
        self._identity = identity
        self._measure_load = measure_load
        """Called in the thread of the heartbeat."""
        self.directory = NodeDirectory(nodes, lambda: self.worker_id)
        self._lives = 1
        self._beats = 0
        self._is_lapsed = False
        """Whether the lease was not renewed in time, so that its runs have stopped."""
        self._unknown: dict[str, int] = {}
        """Claims of this node that no run here holds, and since when they are known."""
        self.is_begun = False
        # A new claim lives no longer than the lease of its node.
        self._confirmed_at: int = clock.monotonic_ms()
        self.directory.measure_beat_age = self._measure_beat_age

    async def begin(self) -> None:
        """Write the row of this node and begin to beat; calling it twice is harmless.

        Raises:
            StorageError: The store could not take it.
        """
        if self.is_begun:
            return
        asked_at = self._clock.monotonic_ms()
        await self._nodes.begin_node(self.make_report(), self._lease_ms)
        with self._changed:
            self.is_begun = True
            self._confirmed_at = asked_at
            # At once: the first beat brings the live nodes.
            self._wake_at(asked_at)
            if self._thread is None or not self._thread.is_alive():
                self._start_thread()

    async def close(self) -> None:
        """Stop the thread, and declare this node over, so that no process waits for its lease."""
        await super().close()
        if self.is_begun:
            self.is_begun = False
            try:
                async with asyncio.timeout(LAST_S):
                    await self._nodes.end_node(self.worker_id)
            except Exception as error:  # noqa: BLE001 - its lease ends by itself
                logger.warning("This node could not say that it is over: %r", error)

    def open(self, thread_id: str) -> Lease:
        """Return a lease for a run that claims its thread with its first commit.

        The claim itself lasts longer than the node's lease: see `CLAIM_LEASES`.
        """
        claim = Claim(worker_id=self.worker_id, lease_ms=CLAIM_LEASES * self._lease_ms)
        return Lease(token=self._ids.new_id(), claim=claim)

    def make_report(self) -> NodeReport:
        """Make what the node tells of itself."""
        load, identity = self._measure_load(), self._identity
        return NodeReport(
            node_id=self.worker_id,
            kind=identity.find_kind(),
            version=identity.version,
            host=identity.host,
            pid=identity.pid,
            slots=load.slots,
            # Runs that were asked for here hold leases as well as those of the worker.
            busy=max(load.busy, len(self._held)),
            agents=load.agents,
            is_draining=load.is_draining,
        )

    def beat_soon(self) -> None:
        """Tell the others at once what has changed here."""
        with self._changed:
            if self.is_begun:
                self._wake_at(self._clock.monotonic_ms())

    def _measure_beat_age(self) -> int:
        assert self._confirmed_at is not None
        return self._clock.monotonic_ms() - self._confirmed_at

    def _list_due(self) -> tuple[str, ...] | None:
        # An idle node beats too: others see it, and may wake it.
        return tuple(token for token, held in self._held.items() if not held.is_lost)

    def _open_keeper(self) -> LeaseKeeper:
        return _NodeLeases(self._nodes.node_keeper(), self)

    def _ask(
        self, keeper: LeaseKeeper, tokens: tuple[str, ...], *, is_look: bool
    ) -> Iterable[LeaseReport]:
        assert isinstance(keeper, _NodeLeases)
        return keeper.look(tokens) if is_look else keeper.extend(tokens, self._lease_ms)

    def beat_with(self, keeper: NodeKeeper, tokens: Sequence[str]) -> dict[str, LeaseReport]:
        """Renew the lease of the node; returns its claims by their tokens."""
        asked_at = self._clock.monotonic_ms()
        if self._is_lapsed:
            self._begin_anew(keeper, asked_at, "could not renew its lease in time")
            return {}
        self._beats += 1
        confirms = self._beats % CONFIRM_BEATS == 0
        answer = keeper.beat(
            self.make_report(),
            self._lease_ms,
            tokens if confirms else None,
            limit_ms=self._limit_wait(),
        )
        if answer.is_over:
            self._begin_anew(keeper, asked_at, "was declared over")
            return {}
        self.directory.live = answer.live
        with self._changed:
            self._confirmed_at = asked_at
            for held in self._held.values():
                held.confirmed_at = asked_at
        self._free_forgotten(keeper, [it.claim_token for it in answer.leases], asked_at)
        return {it.claim_token: it for it in answer.leases}

    def _limit_wait(self) -> int:
        """Return how long an answer is waited for: no longer than the leases are trusted.

        A store that hangs must not keep runs from hearing that their leases are lost.
        """
        left_ms = self._trust_ms - self._measure_beat_age()
        return self._lease_ms if left_ms <= 0 else max(left_ms, LEAST_WAIT_MS)

    def _begin_anew(self, keeper: NodeKeeper, asked_at: int, why: str) -> None:
        """Go on under a new id; what the earlier one holds is lost, and taken back by a sweep."""
        before, life = self.worker_id, self._lives + 1
        report = msgspec.structs.replace(self.make_report(), node_id=self._identity.make_id(life))
        keeper.begin_anew(report, self._lease_ms, before)
        logger.warning("This node %s; it begins anew, and its runs stop here.", why)
        self.directory.over_count += 1
        with self._changed:
            self._lives, self.worker_id = life, report.node_id
            self._confirmed_at, self._is_lapsed = asked_at, False
            self._unknown.clear()
            for token, held in self._held.items():
                if not held.is_lost:
                    self._lose(token, held)

    def _free_forgotten(self, keeper: NodeKeeper, tokens: Sequence[str], asked_at: int) -> None:
        """Give back claims that no run here has held for as long as a lease is trusted.

        The reply to a claim was lost, or a run that stopped could not give its thread back.
        """
        with self._changed:
            unknown = [it for it in tokens if (held := self._held.get(it)) is None or held.is_lost]
        if not unknown and not self._unknown:
            return
        self._unknown = {it: self._unknown.get(it, asked_at) for it in unknown}
        since = asked_at - self._trust_ms
        if forgotten := [token for token, known_at in self._unknown.items() if known_at <= since]:
            logger.warning("%d claims that no run here holds are given back.", len(forgotten))
            keeper.free(self.worker_id, forgotten)

    def _drop_untrusted(self) -> None:
        super()._drop_untrusted()
        self._is_lapsed = self._is_lapsed or self._measure_beat_age() >= self._trust_ms


class _NodeLeases:
    """A `LeaseKeeper` that renews the lease of the node instead of those of its threads."""

    def __init__(self, keeper: NodeKeeper, heartbeat: NodeHeartbeat) -> None:
        self._keeper = keeper
        self._heartbeat = heartbeat

    def extend(self, claim_tokens: Sequence[str], lease_ms: int) -> tuple[LeaseReport, ...]:
        """Renew the lease of the node; a claim that the node does not have is lost."""
        found = self._heartbeat.beat_with(self._keeper, claim_tokens)
        return tuple(
            found.get(it) or LeaseReport(claim_token=it, is_held=False) for it in claim_tokens
        )

    def look(self, claim_tokens: Sequence[str]) -> tuple[LeaseReport, ...]:
        """Report on some claims; extends nothing."""
        return self._keeper.look(claim_tokens)

    def close(self) -> None:
        """Release the connection."""
        self._keeper.close()
