"""A replay finds the remembered answers of its run as they were, and changes none of them."""

import asyncio

import msgspec
import pytest

from awaken.contracts.models.budgets import SHARED_LEDGER
from awaken.contracts.state.profile import ProfileEntry
from awaken.contracts.suspension.remembered_answers import FORGOTTEN
from awaken.evals.replay_parts import OverlaidProfiles
from awaken.stores.memory.profiles import MemoryProfileStore

BEGAN_AT = 1_000
PLACE = "thread::t"


def make_entry(key: str, updated_at: int) -> ProfileEntry:
    return ProfileEntry(owner=PLACE, key=key, value=["answer-1"], updated_at=updated_at)


@pytest.mark.parametrize(
    ("key", "updated_at", "is_live", "is_found"),
    [
        (FORGOTTEN.name, BEGAN_AT - 1, False, True),
        (FORGOTTEN.name, BEGAN_AT, False, False),
        (FORGOTTEN.name, BEGAN_AT, True, False),
        (SHARED_LEDGER, BEGAN_AT - 1, False, False),
        (SHARED_LEDGER, BEGAN_AT - 1, True, True),
        ("another", BEGAN_AT + 1, False, True),
    ],
)
def test_what_was_taken_back_since_the_run_began_is_not_taken_back_in_its_replay(
    key: str, updated_at: int, is_live: bool, is_found: bool
) -> None:
    async def scenario() -> None:
        below, own = MemoryProfileStore(), MemoryProfileStore()
        entry = make_entry(key, updated_at)
        await below.save_entry(entry)
        overlaid = OverlaidProfiles(below, own, BEGAN_AT, is_live=is_live)
        assert (await overlaid.find_entry(PLACE, key) is not None) is is_found
        assert [it.key for it in await overlaid.list_entries(PLACE)] == ([key] if is_found else [])
        changed = msgspec.structs.replace(entry, value=["answer-2"])
        await overlaid.save_entry(changed)
        assert await overlaid.find_entry(PLACE, key) == changed
        assert await below.find_entry(PLACE, key) == entry, "the store of the run is only read"

    asyncio.run(scenario())
