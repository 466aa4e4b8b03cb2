"""Cancellation: one way, first cause wins, and everybody who waits is told."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from awaken.runtime.primitives.cancellation import CancellationToken


def test_a_token_is_cancelled_once_and_keeps_its_first_cause() -> None:
    token = CancellationToken()
    assert (token.is_cancelled, token.cause) == (False, None)
    assert token.cancel("user") is True
    assert token.cancel("shutdown") is False
    assert (token.is_cancelled, token.cause) == (True, "user")


def test_everybody_who_waits_wakes_up_and_whoever_comes_late_does_not_wait() -> None:
    async def main() -> None:
        token = CancellationToken()
        waiting = [asyncio.ensure_future(token.wait()) for _ in range(3)]
        await asyncio.sleep(0)
        assert not any(task.done() for task in waiting)
        token.cancel()
        await asyncio.gather(*waiting)
        await token.wait()

    asyncio.run(main())


def test_waiting_can_race_with_other_work_and_leaves_nothing_behind() -> None:
    async def main() -> None:
        token, work = CancellationToken(), asyncio.Event()
        waiting = asyncio.ensure_future(token.wait())
        working = asyncio.ensure_future(work.wait())
        await asyncio.sleep(0)
        token.cancel()
        done, pending = await asyncio.wait([waiting, working], return_when=asyncio.FIRST_COMPLETED)
        assert (done, pending) == ({waiting}, {working})
        working.cancel()
        other = CancellationToken()
        loser = asyncio.ensure_future(other.wait())
        await asyncio.sleep(0)
        loser.cancel()
        with pytest.raises(asyncio.CancelledError):
            await loser
        assert other.callbacks == ()

    asyncio.run(main())


@given(st.lists(st.sampled_from(["add", "forget", "cancel", "seal"]), max_size=12))
def test_callbacks_run_once_in_order_when_it_happens_and_at_once_afterwards(
    steps: list[str],
) -> None:
    token = CancellationToken()
    called: list[int] = []
    waiting: list[int] = []
    expected: list[int] = []
    undo = {}
    is_cancelled = is_sealed = False
    for number, step in enumerate(steps):
        if step == "add":
            undo[number] = token.on_cancel(lambda number=number: called.append(number))
            (expected if is_cancelled else waiting).append(number)
        elif step == "forget" and undo:
            last = max(undo)
            undo.pop(last)()
            waiting = [each for each in waiting if each != last]
        elif step == "cancel":
            is_new = not is_cancelled and not is_sealed
            assert token.cancel() is is_new
            if is_new:
                is_cancelled = True
                expected += waiting
                waiting = []
        elif step == "seal":
            token.seal()
            is_sealed = True
            waiting = []
        assert called == expected
        assert token.is_cancelled is is_cancelled


def test_a_sealed_token_can_no_longer_be_cancelled() -> None:
    token = CancellationToken()
    token.seal()
    assert token.cancel() is False
    assert token.is_cancelled is False


def test_children_are_cancelled_with_their_parent_but_not_the_other_way_round() -> None:
    parent = CancellationToken()
    child, sibling = parent.child(), parent.child()
    grandchild = child.child()
    child.cancel("user")
    assert [each.is_cancelled for each in (parent, sibling, grandchild)] == [False, False, True]
    parent.cancel("shutdown")
    assert (child.cause, sibling.cause, grandchild.cause) == ("user", "shutdown", "user")
    assert parent.child().cause == "shutdown"


def test_a_token_that_nobody_cancels_stays_as_it_is() -> None:
    token = CancellationToken()
    child = token.child()
    del child
    assert not token.is_cancelled
