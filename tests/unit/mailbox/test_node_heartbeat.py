"""The lease of a node, kept alive from a thread of its own."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from awaken.contracts.errors import StoreUnavailable
from awaken.contracts.storage.dispatch import LeaseReport
from awaken.contracts.storage.nodes import LiveNode, NodeBeat, NodeReport
from awaken.mailbox import node_heartbeat
from awaken.mailbox.config import MailboxConfig, choose_times, limit_outage_pause
from awaken.mailbox.node_heartbeat import NodeHeartbeat, NodeIdentity, NodeLoad
from awaken.mailbox.nodes import NodeDirectory
from awaken.runtime.primitives.system import SystemClock
from awaken.testing import FakeClock, SequentialIds

WAIT_S = 20
HOUR_MS = 3_600_000


class Nodes:
    """A store of nodes that answers as it is told."""

    def __init__(self) -> None:
        self.begun: list[NodeReport] = []
        self.ended: list[str] = []
        self.beats: list[tuple[NodeReport, tuple[str, ...] | None]] = []
        self.looks: list[tuple[str, ...]] = []
        self.freed: list[tuple[str, tuple[str, ...]]] = []
        self.limits: list[int | None] = []
        self.over: set[str] = set()
        self.claims: dict[str, LeaseReport] = {}
        self.is_away = False
        self.live = (LiveNode(node_id="h:1:bbbbbbbbbbbb", room=1),)

    async def begin_node(self, node: NodeReport, _lease_ms: int) -> None:
        self.begun.append(node)

    async def end_node(self, node_id: str) -> None:
        self.ended.append(node_id)

    def node_keeper(self) -> "Nodes":
        return self

    def begin_anew(self, node: NodeReport, _lease_ms: int, before: str) -> None:
        if self.is_away:
            raise StoreUnavailable(store="s", problem="away")
        self.over.add(before)
        self.begun.append(node)

    def beat(
        self,
        node: NodeReport,
        _lease_ms: int,
        confirmed: Sequence[str] | None = None,
        *,
        limit_ms: int | None = None,
    ) -> NodeBeat:
        self.limits.append(limit_ms)
        self.beats.append((node, None if confirmed is None else tuple(confirmed)))
        if self.is_away:
            raise StoreUnavailable(store="s", problem="away")
        if node.node_id in self.over:
            return NodeBeat(is_over=True)
        return NodeBeat(leases=tuple(self.claims.values()), live=self.live)

    def free(self, node_id: str, claim_tokens: Sequence[str]) -> None:
        self.freed.append((node_id, tuple(claim_tokens)))
        for token in claim_tokens:
            self.claims.pop(token, None)

    def look(self, claim_tokens: Sequence[str]) -> tuple[LeaseReport, ...]:
        self.looks.append(tuple(claim_tokens))
        return tuple(self.claims[it] for it in claim_tokens)

    def close(self) -> None:
        pass


class Holder:
    """A run that notes what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.heard = asyncio.Event()

    def lease_lost(self) -> None:
        self._note("lost")

    def cancel(self, cause: str) -> None:
        self._note(f"cancel {cause}")

    def notify_input(self) -> None:
        self._note("input")

    def _note(self, what: str) -> None:
        self.told.append(what)
        self.heard.set()


def make_heartbeat(nodes: Nodes, clock: Any = None, **times: int) -> NodeHeartbeat:
    config = MailboxConfig(**{"lease_ms": 2 * HOUR_MS, "renew_ms": HOUR_MS, **times})
    identity = NodeIdentity(
        make_id=lambda life: f"h:{life}:aaaaaaaaaaaa",
        find_kind=lambda: "worker",
        version="1",
        host="h",
        pid=1,
    )
    ids = SequentialIds("token")
    store: Any = nodes
    clock = clock or SystemClock()
    return NodeHeartbeat(
        store, store, clock, ids, config, identity, lambda: NodeLoad(slots=4, busy=1)
    )


def play(scenario: Callable[[Nodes], Awaitable[None]]) -> Nodes:
    async def bounded() -> Nodes:
        nodes = Nodes()
        async with asyncio.timeout(WAIT_S):
            await scenario(nodes)
        return nodes

    return asyncio.run(bounded())


async def until(condition: Callable[[], object]) -> None:
    while not condition():
        await asyncio.sleep(0.005)


def test_an_idle_node_beats_and_learns_who_is_there() -> None:
    async def scenario(nodes: Nodes) -> None:
        heartbeat = make_heartbeat(nodes, renew_ms=20, lease_ms=HOUR_MS)
        await heartbeat.begin()
        await until(lambda: len(nodes.beats) > 6)
        assert heartbeat.directory.live == nodes.live
        await heartbeat.close()

    nodes = play(scenario)
    assert [it.node_id for it in nodes.begun] == ["h:1:aaaaaaaaaaaa"]
    assert nodes.ended == ["h:1:aaaaaaaaaaaa"]
    about, confirmed = nodes.beats[0]
    assert (about.slots, about.busy, confirmed) == (4, 1, None)
    # Every fifth beat confirms the claims instead.
    assert nodes.beats[4][1] == ()


def test_a_node_that_was_declared_over_loses_all_leases_and_begins_anew_under_a_new_id() -> None:
    async def scenario(nodes: Nodes) -> None:
        heartbeat = make_heartbeat(nodes)
        await heartbeat.begin()
        await until(lambda: nodes.beats)
        leases, holders = [heartbeat.open("t") for _ in range(3)], [Holder() for _ in range(3)]
        for lease, holder in zip(leases, holders, strict=True):
            assert lease.claim is not None
            assert lease.claim.worker_id == "h:1:aaaaaaaaaaaa"
            nodes.claims[lease.token] = LeaseReport(claim_token=lease.token)
            heartbeat.watch(lease, holder)
        nodes.over.add("h:1:aaaaaaaaaaaa")
        heartbeat.beat_soon()
        for holder in holders:
            await holder.heard.wait()
            assert holder.told == ["lost"]
        assert heartbeat.directory.over_count == 1
        claim = heartbeat.open("t").claim
        assert claim is not None
        assert claim.worker_id == "h:2:aaaaaaaaaaaa"
        await heartbeat.close()

    nodes = play(scenario)
    assert [it.node_id for it in nodes.begun] == ["h:1:aaaaaaaaaaaa", "h:2:aaaaaaaaaaaa"]
    assert nodes.ended == ["h:2:aaaaaaaaaaaa"]


def test_a_claim_that_the_store_does_not_list_is_lost_and_the_others_are_not() -> None:
    async def scenario(nodes: Nodes) -> None:
        heartbeat = make_heartbeat(nodes)
        await heartbeat.begin()
        await until(lambda: nodes.beats)
        kept, lost = heartbeat.open("t"), heartbeat.open("u")
        nodes.claims[kept.token] = LeaseReport(claim_token=kept.token, cancel_cause="user")
        still, gone = Holder(), Holder()
        heartbeat.watch(kept, still)
        heartbeat.watch(lost, gone)
        heartbeat.beat_soon()
        await gone.heard.wait()
        await still.heard.wait()
        assert (gone.told, still.told) == (["lost"], ["cancel user"])
        await heartbeat.close()

    play(scenario)


def test_a_signal_looks_at_one_claim_and_does_not_beat() -> None:
    async def scenario(nodes: Nodes) -> None:
        heartbeat = make_heartbeat(nodes)
        await heartbeat.begin()
        await until(lambda: nodes.beats)
        lease, holder = heartbeat.open("t"), Holder()
        heartbeat.watch(lease, holder)
        nodes.claims[lease.token] = LeaseReport(claim_token=lease.token, has_input=True)
        heartbeat.look_at(lease)
        await holder.heard.wait()
        assert holder.told == ["input"]
        assert (len(nodes.beats), nodes.looks) == (1, [(lease.token,)])
        await heartbeat.close()

    play(scenario)


def test_a_claim_that_was_taken_late_is_trusted_no_longer_than_the_lease_of_its_node() -> None:
    """The node last beat at 0; a claim of 9,000 must not be trusted beyond 9,000."""

    async def scenario(nodes: Nodes) -> None:
        clock = FakeClock()
        heartbeat = make_heartbeat(nodes, clock, lease_ms=10_000, renew_ms=4_000)
        await heartbeat.begin()
        await until(lambda: heartbeat.directory.live)
        nodes.is_away = True
        clock.advance(8_999)
        lease, holder = heartbeat.open("t"), Holder()
        heartbeat.watch(lease, holder)
        assert not holder.told
        clock.advance(1)
        heartbeat.beat_soon()
        await holder.heard.wait()
        assert holder.told == ["lost"]
        await heartbeat.close()

    play(scenario)


def test_a_node_that_could_not_renew_its_lease_in_time_begins_anew_when_the_store_is_back() -> None:
    """Nobody else would know that its runs have stopped until their claims run out."""

    async def scenario(nodes: Nodes) -> None:
        clock = FakeClock()
        heartbeat = make_heartbeat(nodes, clock, lease_ms=10_000, renew_ms=4_000)
        await heartbeat.begin()
        await until(lambda: heartbeat.directory.live)
        lease, holder = heartbeat.open("t"), Holder()
        nodes.claims[lease.token] = LeaseReport(claim_token=lease.token)
        heartbeat.watch(lease, holder)
        nodes.is_away = True
        clock.advance(9_000)
        heartbeat.beat_soon()
        await holder.heard.wait()
        assert heartbeat.worker_id == "h:1:aaaaaaaaaaaa"
        nodes.is_away = False
        clock.advance(400)
        heartbeat.beat_soon()
        await until(lambda: heartbeat.worker_id == "h:2:aaaaaaaaaaaa")
        assert nodes.over == {"h:1:aaaaaaaaaaaa"}
        assert holder.told == ["lost"]
        assert heartbeat.directory.over_count == 1
        # What it takes from now on is trusted.
        nodes.claims.clear()
        fresh, run = heartbeat.open("u"), Holder()
        nodes.claims[fresh.token] = LeaseReport(claim_token=fresh.token, has_input=True)
        heartbeat.watch(fresh, run)
        heartbeat.beat_soon()
        await run.heard.wait()
        assert run.told == ["input"]
        await heartbeat.close()

    assert play(scenario).ended == ["h:2:aaaaaaaaaaaa"]


def test_a_node_that_renews_its_lease_late_but_before_others_judge_it_stays_who_it_is() -> None:
    """A process that stood still, in a store where no other has declared it over."""

    async def scenario(nodes: Nodes) -> None:
        clock = FakeClock()
        heartbeat = make_heartbeat(nodes, clock, lease_ms=10_000, renew_ms=4_000)
        await heartbeat.begin()
        await until(lambda: heartbeat.directory.live)
        lease, holder = heartbeat.open("t"), Holder()
        nodes.claims[lease.token] = LeaseReport(claim_token=lease.token, has_input=True)
        heartbeat.watch(lease, holder)
        clock.advance(30_000)
        heartbeat.beat_soon()
        await holder.heard.wait()
        assert holder.told == ["input"]
        assert heartbeat.worker_id == "h:1:aaaaaaaaaaaa"
        await heartbeat.close()

    play(scenario)


def test_a_store_that_hangs_is_waited_for_no_longer_than_leases_are_trusted() -> None:
    async def scenario(nodes: Nodes) -> None:
        clock = FakeClock()
        heartbeat = make_heartbeat(nodes, clock, lease_ms=10_000, renew_ms=4_000)
        await heartbeat.begin()
        await until(lambda: heartbeat.directory.live)
        nodes.limits.clear()
        for age_ms, left_ms in ((4_000, 5_000), (7_500, 1_500), (8_900, 1_000)):
            nodes.is_away = age_ms != 8_900
            now = heartbeat.directory.measure_beat_age()
            clock.advance(age_ms - now)
            heartbeat.beat_soon()
            await until(lambda: nodes.limits)
            assert nodes.limits[0] == left_ms
            nodes.limits.clear()
        await heartbeat.close()

    play(scenario)


def test_a_claim_that_no_run_holds_is_given_back_after_as_long_as_a_lease_is_trusted() -> None:
    """The reply to a claim was lost, or its run stopped and could not give it back."""

    async def scenario(nodes: Nodes) -> None:
        clock = FakeClock()
        heartbeat = make_heartbeat(nodes, clock, lease_ms=10_000, renew_ms=3_000)
        await heartbeat.begin()
        await until(lambda: heartbeat.directory.live)
        lease, late, holder = heartbeat.open("t"), heartbeat.open("u"), Holder()
        heartbeat.watch(lease, holder)
        nodes.claims["stray"] = LeaseReport(claim_token="stray")
        for held in (lease, late):
            nodes.claims[held.token] = LeaseReport(claim_token=held.token)
        for number in range(4):
            before = len(nodes.beats)
            clock.advance(3_000)
            heartbeat.beat_soon()
            await until(lambda before=before: len(nodes.beats) > before)  # type: ignore[misc]
            await until(lambda: heartbeat.directory.measure_beat_age() == 0)
            if number == 1:
                # Its reply took long.
                heartbeat.watch(late, holder)
            assert nodes.freed == [] or number == 3
        await until(lambda: nodes.freed)
        assert nodes.freed == [("h:1:aaaaaaaaaaaa", ("stray",))]
        assert holder.told == []
        await heartbeat.close()

    play(scenario)


def test_the_thread_of_a_closed_heartbeat_ends() -> None:
    async def scenario(nodes: Nodes) -> None:
        heartbeat = make_heartbeat(nodes)
        await heartbeat.begin()
        await heartbeat.begin()
        await heartbeat.close()
        await heartbeat.close()
        assert len(nodes.ended) == 1

    before = set(threading.enumerate())
    play(scenario)
    assert {it for it in set(threading.enumerate()) - before if "heartbeat" in it.name} == set()


def test_a_store_that_hangs_does_not_keep_a_node_from_ending(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(node_heartbeat, "LAST_S", 0.01)

    async def scenario(nodes: Nodes) -> None:
        async def hang(_node_id: str) -> None:
            await asyncio.Event().wait()

        nodes.end_node = hang  # type: ignore[method-assign]
        heartbeat = make_heartbeat(nodes)
        await heartbeat.begin()
        await heartbeat.close()
        assert "This node could not say that it is over: TimeoutError()" in caplog.messages

    play(scenario)


def test_two_nodes_with_room_and_the_agent_are_woken_and_full_ones_only_without_others() -> None:
    live = (
        LiveNode(node_id="h:1:aaaaaaaaaaaa", room=0, agents=("x",)),
        LiveNode(node_id="h:2:bbbbbbbbbbbb", room=2, agents=("x",)),
        LiveNode(node_id="h:3:cccccccccccc", room=2, agents=("y",)),
        LiveNode(node_id="h:4:dddddddddddd", room=2, agents=None),
        LiveNode(node_id="h:5:eeeeeeeeeeee", room=2, agents=("x",)),
    )
    store: Any = None
    draws = iter([0.99, 0.0])
    directory = NodeDirectory(store, lambda: "me", lambda: next(draws))
    directory.live = live
    assert directory.pick("x") == ("eeeeeeeeeeee", "bbbbbbbbbbbb")
    directory = NodeDirectory(store, lambda: "me", lambda: 0.0)
    directory.live = live[:1]
    assert directory.pick("x") == ("aaaaaaaaaaaa",)
    assert directory.pick("z") is None, "everyone is told: a node may have started just now"


def test_a_run_of_a_killed_node_goes_on_within_fifteen_seconds_by_default() -> None:
    times = choose_times(MailboxConfig(), has_nodes=True)
    assert times.lease_ms + times.sweep_ms + times.poll_ms * 3 // 2 <= 15_000
    assert 2 * times.renew_ms <= times.lease_ms


def test_a_node_looks_for_work_as_often_as_it_sweeps_while_its_store_is_away() -> None:
    """Else what was under way before the outage waits for half a minute after it."""
    times = choose_times(MailboxConfig(), has_nodes=True)
    assert limit_outage_pause(times, has_nodes=True) == times.sweep_ms == 3_000
    assert limit_outage_pause(MailboxConfig(), has_nodes=False) == 30_000
    assert limit_outage_pause(MailboxConfig(retry_cap_ms=500), has_nodes=True) == 500


def test_times_that_were_chosen_stay() -> None:
    assert choose_times(MailboxConfig(lease_ms=30_000), has_nodes=True).lease_ms == 30_000
    assert choose_times(MailboxConfig(poll_ms=250), has_nodes=True).poll_ms == 250
    alone = choose_times(MailboxConfig(), has_nodes=False)
    assert (alone.lease_ms, type(alone.lease_ms)) == (30_000, int)
    slow = choose_times(MailboxConfig(renew_ms=9_000), has_nodes=True)
    assert (slow.lease_ms, slow.renew_ms) == (18_000, 9_000)
