"""Leases that are kept alive from a thread of their own. Real time, scaled down."""

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from awaken.contracts.errors import StoreUnavailable
from awaken.contracts.storage.dispatch import Claim, LeaseReport
from awaken.mailbox.config import MailboxConfig
from awaken.mailbox.heartbeat import Heartbeat
from awaken.runtime.journal.leases import Lease
from awaken.runtime.primitives.system import SystemClock
from awaken.testing import SequentialIds

WAIT_S = 10
LEASE_MS, RENEW_MS = 150, 50

Answer = Callable[[str], LeaseReport]


def held(token: str) -> LeaseReport:
    return LeaseReport(claim_token=token)


class Keeper:
    """Answers as it is told, and remembers who asked for what."""

    def __init__(self, lease_ms: int = LEASE_MS) -> None:
        self.lease_ms = lease_ms
        self.answer: Answer = held
        self.asked: list[tuple[str, ...]] = []
        self.threads: set[str] = set()
        self.opened = self.closed = 0
        self.beat = threading.Event()
        self.hold: threading.Event | None = None

    def lease_keeper(self) -> "Keeper":
        self.opened += 1
        self.threads.add(threading.current_thread().name)
        return self

    def extend(self, tokens: Any, lease_ms: int) -> tuple[LeaseReport, ...]:
        assert lease_ms == self.lease_ms
        self.asked.append(tuple(tokens))
        self.beat.set()
        if self.hold is not None:
            assert self.hold.wait(WAIT_S)
        return tuple(self.answer(token) for token in tokens)

    def close(self) -> None:
        self.closed += 1
        self.threads.add(threading.current_thread().name)


class Holder:
    """A run that notes what it is told, and checks that it is told in its loop."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.heard = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def lease_lost(self) -> None:
        self._note("lost")

    def cancel(self, cause: str) -> None:
        self._note(f"cancel {cause}")

    def notify_input(self) -> None:
        self._note("input")

    def _note(self, what: str) -> None:
        assert asyncio.get_running_loop() is self._loop
        self.told.append(what)
        self.heard.set()


class Beats:
    """A heartbeat over a keeper that a test owns."""

    def __init__(self, keeper: Keeper, **config: int) -> None:
        options = {"lease_ms": LEASE_MS, "renew_ms": RENEW_MS, **config}
        self.lease_ms, self.renew_ms = options["lease_ms"], options["renew_ms"]
        self.heartbeat = Heartbeat(
            keeper,  # type: ignore[arg-type]
            SystemClock(),
            SequentialIds("token"),
            MailboxConfig(**options),
            "worker",
        )

    def watch(self, holder: Holder | None = None) -> tuple[Lease, Holder]:
        lease, holder = self.heartbeat.open("t"), holder or Holder()
        self.heartbeat.watch(lease, holder)
        return lease, holder


def played(
    scenario: Callable[[Keeper, Beats], Awaitable[Any]],
    lease_ms: int = LEASE_MS,
    renew_ms: int = RENEW_MS,
) -> Keeper:
    """Play a scenario; again and slower if it fails, as it does where the machine stops a while."""
    keeper = Keeper(lease_ms)
    try:
        return _played(scenario, keeper, Beats(keeper, lease_ms=lease_ms, renew_ms=renew_ms))
    except (AssertionError, TimeoutError):
        if lease_ms >= 8000:
            raise
    return played(scenario, 4 * lease_ms, 4 * renew_ms)


def _played(
    scenario: Callable[[Keeper, Beats], Awaitable[Any]], keeper: Keeper, beats: Beats
) -> Keeper:
    async def playing() -> Keeper:
        try:
            async with asyncio.timeout(WAIT_S):
                await scenario(keeper, beats)
        finally:
            if keeper.hold is not None:
                keeper.hold.set()
            await beats.heartbeat.close()
        return keeper

    return asyncio.run(playing())


async def until(condition: Callable[[], object]) -> None:
    while not condition():
        await asyncio.sleep(0.005)


def heartbeat_threads() -> Iterator[threading.Thread]:
    return (it for it in threading.enumerate() if it.name == "awaken-heartbeat")


def test_a_new_lease_has_a_token_of_its_own_and_takes_the_thread_for_the_lease() -> None:
    async def scenario(_: Keeper, beats: Beats) -> None:
        first, second = beats.heartbeat.open("t"), beats.heartbeat.open("t")
        assert first.token != second.token
        assert first.claim == Claim(worker_id="worker", lease_ms=beats.lease_ms)

    keeper = played(scenario)
    assert keeper.opened == 0


def test_nobody_pays_for_a_thread_before_the_first_lease() -> None:
    # Processes that tests before this one let die in the middle have left theirs.
    others = set(heartbeat_threads())

    async def scenario(_: Keeper, beats: Beats) -> None:
        assert not set(heartbeat_threads()) - others
        beats.watch()
        (thread,) = set(heartbeat_threads()) - others
        assert thread.daemon
        beats.watch()
        assert len(set(heartbeat_threads()) - others) == 1

    played(scenario)
    assert not set(heartbeat_threads()) - others


def test_all_leases_are_extended_in_one_call_and_a_forgotten_one_no_more() -> None:
    async def scenario(keeper: Keeper, beats: Beats) -> None:
        first, _ = beats.watch()
        second, _ = beats.watch()
        await until(lambda: keeper.asked[-1:] == [(first.token, second.token)])
        beats.heartbeat.forget(first)
        beats.heartbeat.forget(first)
        await until(lambda: keeper.asked[-1] == (second.token,))
        beats.heartbeat.forget(second)
        count = len(keeper.asked)
        # With nothing to keep it sleeps; the next lease wakes it.
        third, _ = beats.watch()
        await until(lambda: keeper.asked[-1] == (third.token,))
        assert len(keeper.asked) <= count + 2

    keeper = played(scenario)
    assert keeper.threads == {"awaken-heartbeat"}
    assert keeper.opened == keeper.closed == 1


def test_it_beats_while_the_event_loop_is_blocked_for_three_leases() -> None:
    async def scenario(keeper: Keeper, beats: Beats) -> None:
        _, holder = beats.watch()
        time.sleep(3 * beats.lease_ms / 1000)
        beaten = len(keeper.asked)
        await asyncio.sleep(0)
        assert 3 <= beaten <= 3 * beats.lease_ms / beats.renew_ms, "once in every renew_ms"
        assert holder.told == []

    played(scenario)


def test_a_lease_that_somebody_else_has_is_lost_once() -> None:
    async def scenario(keeper: Keeper, beats: Beats) -> None:
        lease, holder = beats.watch()
        other, kept = beats.watch()
        keeper.answer = lambda token: LeaseReport(
            claim_token=token, is_held=token != lease.token, cancel_cause="late"
        )
        await holder.heard.wait()
        count = len(keeper.asked)
        await until(lambda: len(keeper.asked) > count + 1)
        assert holder.told == ["lost"]
        assert set(kept.told) == {"cancel late"}
        # A lost lease is not asked for again.
        assert keeper.asked[-1] == (other.token,)

    played(scenario)


def test_the_holder_learns_of_a_cancellation_and_of_input() -> None:
    async def scenario(keeper: Keeper, beats: Beats) -> None:
        keeper.answer = lambda token: LeaseReport(
            claim_token=token, cancel_cause="user", has_input=True
        )
        _, holder = beats.watch()
        await until(lambda: len(holder.told) >= 2)
        assert holder.told[:2] == ["cancel user", "input"]

    played(scenario)


def test_what_is_learned_of_a_lease_that_ended_meanwhile_is_told_to_nobody() -> None:
    async def scenario(keeper: Keeper, beats: Beats) -> None:
        keeper.hold = threading.Event()
        keeper.answer = lambda token: LeaseReport(claim_token=token, is_held=False)
        lease, holder = beats.watch()
        await until(keeper.beat.is_set)
        keeper.hold.set()
        # The loop is busy until the news are waiting for it, and the run ends first.
        time.sleep(0.05)
        beats.heartbeat.forget(lease)
        await asyncio.sleep(0.01)
        assert holder.told == []

    played(scenario)


def test_a_signal_is_followed_at_once_even_while_the_store_is_being_asked() -> None:
    async def scenario(keeper: Keeper, beats: Beats) -> None:
        beats.heartbeat.look_at(Lease("unknown"))
        lease, holder = beats.watch()
        beats.watch()
        keeper.hold = threading.Event()
        beats.heartbeat.look_at(lease)
        await until(keeper.beat.is_set)
        beats.heartbeat.look_at(lease)
        keeper.answer = lambda token: LeaseReport(claim_token=token, has_input=True)
        keeper.hold.set()
        await until(lambda: len(holder.told) == 2)

    # Without the signals nobody would look within the time that the test has. Only the lease that
    # a signal is about is extended.
    asked = played(scenario, lease_ms=60_000, renew_ms=30_000).asked
    assert [len(tokens) for tokens in asked] == [1, 1]


def test_a_store_that_fails_is_asked_again_soon_over_a_new_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(keeper: Keeper, beats: Beats) -> None:
        failures = 0
        caplog.clear()

        def answer(token: str) -> LeaseReport:
            nonlocal failures
            failures += 1
            if failures <= 3:
                raise StoreUnavailable(store="s", problem="gone")
            return held(token)

        keeper.answer = answer
        _, holder = beats.watch()
        await until(lambda: len(keeper.asked) >= 6)
        assert holder.told == []

    keeper = played(scenario)
    assert keeper.opened == keeper.closed == 4
    assert sum("cannot be extended" in record.message for record in caplog.records) == 1


def test_a_lease_that_cannot_be_confirmed_is_given_up_before_it_ends() -> None:
    async def scenario(keeper: Keeper, beats: Beats) -> None:
        def fails(_: str) -> LeaseReport:
            raise OSError("no route")

        keeper.answer = fails
        clock = SystemClock()
        begun = clock.monotonic_ms()
        _, holder = beats.watch()
        await holder.heard.wait()
        lasted = clock.monotonic_ms() - begun
        assert holder.told == ["lost"]
        assert 0.9 * beats.lease_ms <= lasted, "too early"
        assert lasted < beats.lease_ms, "the lease was over before its holder knew"

    # Long enough that a busy machine does not decide the test.
    played(scenario, lease_ms=2000, renew_ms=200)


def test_another_holder_of_a_lease_does_not_make_it_last_longer() -> None:
    async def scenario(keeper: Keeper, beats: Beats) -> None:
        def fails(_: str) -> LeaseReport:
            raise OSError("no route")

        keeper.answer = fails
        lease, first = beats.watch()
        second = Holder()
        for _ in range(200):
            beats.heartbeat.watch(lease, second)
            await asyncio.sleep(0.005)
            if second.told:
                break
        assert (first.told, second.told[:1]) == ([], ["lost"])

    played(scenario)


def test_it_can_be_closed_twice_and_begins_again_with_the_next_lease() -> None:
    async def scenario(keeper: Keeper, beats: Beats) -> None:
        await beats.heartbeat.close()
        beats.watch()
        await until(keeper.beat.is_set)
        await beats.heartbeat.close()
        await beats.heartbeat.close()
        assert keeper.closed == 1
        keeper.beat.clear()
        lease, _ = beats.watch()
        await until(keeper.beat.is_set)
        assert keeper.asked[-1] == (lease.token,)

    keeper = played(scenario)
    assert keeper.closed == 2


def test_a_loop_that_is_closed_keeps_no_lease_from_others() -> None:
    keeper = Keeper(20_000)
    beats = Beats(keeper, lease_ms=20_000)

    async def leaves() -> None:
        beats.watch()

    asyncio.run(leaves())
    keeper.answer = lambda token: LeaseReport(claim_token=token, has_input=True)
    keeper.beat.clear()
    assert keeper.beat.wait(WAIT_S)

    async def stays() -> None:
        lease, holder = beats.watch()
        await holder.heard.wait()
        await until(lambda: keeper.asked[-1] == (lease.token,))
        await beats.heartbeat.close()

    asyncio.run(stays())


def test_a_process_ends_although_its_heartbeat_was_never_closed() -> None:
    program = """
import asyncio
from awaken.mailbox.config import MailboxConfig
from awaken.mailbox.heartbeat import Heartbeat
from awaken.runtime.primitives.system import SystemClock, Uuid7Source

async def main():
    beats = Heartbeat(None, SystemClock(), Uuid7Source(), MailboxConfig(), "w")
    beats.watch(beats.open("t"), None)
    print("over")

asyncio.run(main())
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], timeout=50, capture_output=True, text=True, check=True
    )
    assert ended.stdout == "over\n"
