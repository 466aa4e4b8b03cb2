"""What every store must do, as functions that take an opened, empty store and raise if it fails.

A new store is done when all of `STORE_CHECKS` (and `PROFILE_CHECKS`) pass on it::

    @pytest.mark.parametrize("check", STORE_CHECKS, ids=lambda check: check.__name__)
    def test_store(check): asyncio.run(check(MyStore()))

Belongs here: behaviour that the ports promise. Does not: how a store does it.
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
