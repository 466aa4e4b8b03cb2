"""A claim lasts as long as its holder shows signs of life, by the store's clock."""

from awaken.contracts.storage.dispatch import InputMode
from awaken.contracts.storage.store import Store

from .writing import (
    SHORT_MS,
    Writer,
    claim,
    claim_fields,
    elapse,
    extend,
    find,
    queue,
    run,
)


async def an_extended_lease_lasts_longer(store: Store) -> None:
    """From the moment of the extension."""
    await queue(store, "d-1")
    await claim(store, SHORT_MS)
    (report,) = await extend(store, "token-1")
    assert (report.claim_token, report.is_held, report.cancel_cause) == ("token-1", True, None)
    assert not report.has_input
    await elapse(store, SHORT_MS)
    assert await store.reclaim() == ()
    assert (await find(store, "d-1")).claim_token == "token-1"


async def a_lease_of_a_commit_can_be_extended(store: Store) -> None:
    """A run that took its thread by itself keeps it the same way."""
    await Writer(store).commit(run=run(), **claim_fields(lease_ms=SHORT_MS))
    (report,) = await extend(store, "token-f")
    assert report.is_held
    await elapse(store, SHORT_MS)
    assert await store.reclaim() == ()


async def only_held_leases_are_extended(store: Store) -> None:
    """One answer per token, in their order; unknown and ended claims are not held."""
    await queue(store, "d-1")
    await queue(store, "e-1", thread_id="thread-2")
    await claim(store, token="a")
    await claim(store, token="b")
    await store.release("d-1", "a")
    report = await extend(store, "a", "b", "missing")
    assert [(entry.claim_token, entry.is_held) for entry in report] == [
        ("a", False),
        ("b", True),
        ("missing", False),
    ]
    assert await extend(store) == ()


async def a_lease_that_ran_out_but_was_not_taken_is_extended(store: Store) -> None:
    """Its holder was only slow."""
    await queue(store, "d-1")
    await claim(store, SHORT_MS)
    await elapse(store, SHORT_MS)
    (report,) = await extend(store, "token-1")
    assert report.is_held
    assert await store.reclaim() == ()


async def a_lease_that_was_taken_back_is_lost(store: Store) -> None:
    """Its holder learns it from the extension, which changes nothing for the next one."""
    await queue(store, "d-1")
    await claim(store, SHORT_MS)
    await elapse(store, SHORT_MS)
    await store.reclaim()
    await claim(store, SHORT_MS, token="token-2")
    (report,) = await extend(store, "token-1")
    assert not report.is_held
    await elapse(store, SHORT_MS)
    assert len(await store.reclaim()) == 1


async def a_holder_learns_that_input_waits(store: Store) -> None:
    """Only of input that its run could take in."""
    await queue(store, "d-1", "d-2")
    await claim(store)
    await queue(store, "e-1", thread_id="thread-2", mode=InputMode.STEER)
    assert not (await extend(store, "token-1"))[0].has_input
    await queue(store, "s-1", mode=InputMode.STEER)
    assert (await extend(store, "token-1"))[0].has_input
    await store.cancel_dispatch("s-1")
    await queue(store, "r-1", mode=InputMode.RESUME)
    assert (await extend(store, "token-1"))[0].has_input


CHECKS = (
    an_extended_lease_lasts_longer,
    a_lease_of_a_commit_can_be_extended,
    only_held_leases_are_extended,
    a_lease_that_ran_out_but_was_not_taken_is_extended,
    a_lease_that_was_taken_back_is_lost,
    a_holder_learns_that_input_waits,
)
