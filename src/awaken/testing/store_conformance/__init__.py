"""What every store must do: checks that take an opened, empty store and raise if it fails.

Belongs here: behaviour that the ports promise. Does not: how a store does it.
A new store is done when each of `STORE_CHECKS` (and `PROFILE_CHECKS`) passes on a fresh one::

    store = MyStore()
    await store.open()
    await check(store)
"""

from . import (
    commits,
    concurrency,
    events,
    listings,
    profiles,
    runs,
    state,
    threads,
    tickets,
    transcripts,
)
from .writing import ProfileCheck, StoreCheck

STORE_CHECKS: tuple[StoreCheck, ...] = (
    *commits.CHECKS,
    *state.CHECKS,
    *transcripts.CHECKS,
    *runs.CHECKS,
    *tickets.CHECKS,
    *threads.CHECKS,
    *listings.CHECKS,
    *events.CHECKS,
    *concurrency.CHECKS,
)
PROFILE_CHECKS: tuple[ProfileCheck, ...] = profiles.CHECKS

__all__ = ["PROFILE_CHECKS", "STORE_CHECKS", "ProfileCheck", "StoreCheck"]
