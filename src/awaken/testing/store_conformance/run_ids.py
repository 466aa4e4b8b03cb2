"""A run id that a sender chose is given once, whichever thread it is asked for."""

from awaken.contracts.errors import InvalidResume
from awaken.contracts.runs.records import RunRequest
from awaken.contracts.storage.dispatch import DispatchStatus, Release, RunDispatch
from awaken.contracts.storage.store import Store

from .writing import (
    DONE,
    THREAD,
    Writer,
    build_user_message,
    claim,
    dispatch,
    find,
    read_everything,
    refusal,
    run,
)

OTHER, CHOSEN = "thread-2", "chosen"


def _build_dispatch(dispatch_id: str, thread_id: str = THREAD, **fields: object) -> RunDispatch:
    """A dispatch whose sender chose the id of its run."""
    request = RunRequest(
        agent_id="agent", messages=(build_user_message("m-1"),), run_id_hint=CHOSEN
    )
    return dispatch(dispatch_id, thread_id, run_id=CHOSEN, request=request, **fields)


async def _assert_used(store: Store) -> None:
    before = await read_everything(store)
    for thread_id in (THREAD, OTHER):
        late = _build_dispatch("late", thread_id)
        error = await refusal(InvalidResume, store.enqueue(late))
        assert error.run_id == CHOSEN
        keyed = _build_dispatch("late", thread_id, dedupe_key="key")
        await refusal(InvalidResume, store.enqueue(keyed))
        await refusal(InvalidResume, store.interrupt(thread_id, "user", then=late))
    assert await read_everything(store) == before, "refused after a change"


async def a_run_id_that_is_queued_is_not_queued_again(store: Store) -> None:
    """Except for the same dispatch, which is there already; also when it is over."""
    first = _build_dispatch("d-1", dedupe_key="first")
    await store.enqueue(first)
    await store.enqueue(dispatch("d-2"))
    await _assert_used(store)
    assert await store.enqueue(first) == await find(store, "d-1")
    await store.interrupt(THREAD, "user", then=first)
    await store.cancel_dispatch("d-1")
    await _assert_used(store)


async def the_id_of_a_run_is_not_queued(store: Store) -> None:
    """Neither while it goes on nor afterwards."""
    writer = Writer(store)
    await writer.commit(run=run(CHOSEN))
    await _assert_used(store)
    await writer.commit(run=run(CHOSEN, status=DONE))
    await _assert_used(store)


async def a_run_cannot_begin_under_an_id_that_was_sent_elsewhere(store: Store) -> None:
    """What was sent begins under it, and would be lost otherwise."""
    await store.enqueue(_build_dispatch("d-1", OTHER))
    squatter = Writer(store)
    await squatter.expect_refusal(
        InvalidResume, run=run(CHOSEN), messages=(build_user_message("m-2"),)
    )
    await squatter.commit(run=run("another"))
    taken = await claim(store)
    assert taken.dispatch_id == "d-1"
    await Writer(store, OTHER).commit(
        run=run(CHOSEN, status=DONE, thread_id=OTHER),
        fencing_token="token-1",
        release=Release(),
    )


async def a_dead_letter_is_revived_under_its_run_id(store: Store) -> None:
    """It is the same input, which has its id already."""
    await store.enqueue(_build_dispatch("d-1"))
    await claim(store)
    await store.release("d-1", "token-1", Release(status=DispatchStatus.DEAD_LETTER))
    assert (await store.revive("d-1", "d-2")).run_id == CHOSEN
    assert (await claim(store, token="token-2")).dispatch_id == "d-2"
    await Writer(store).commit(run=run(CHOSEN), fencing_token="token-2")


CHECKS = (
    a_run_id_that_is_queued_is_not_queued_again,
    the_id_of_a_run_is_not_queued,
    a_run_cannot_begin_under_an_id_that_was_sent_elsewhere,
    a_dead_letter_is_revived_under_its_run_id,
)
