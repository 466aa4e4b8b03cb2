"""Profile entries: small values, isolated per owner."""

import asyncio

from awaken.contracts.errors import InvalidRecord
from awaken.contracts.state.profile import (
    GLOBAL_SCOPE,
    ProfileEntry,
    ProfileStore,
    agent_type_scope,
    parent_thread_scope,
    thread_scope,
)

from .writing import refusal

OWNER = agent_type_scope("writer")


def _entry(key: str, value: object = 1, owner: str = OWNER, updated_at: int = 5) -> ProfileEntry:
    return ProfileEntry(owner=owner, key=key, value=value, updated_at=updated_at)


async def an_entry_comes_back_as_it_was(store: ProfileStore) -> None:
    """Any JSON value, with its time."""
    values: tuple[object, ...] = (
        None,
        True,
        0,
        1.5,
        "ünï 🦜",
        [1, [2]],
        {"a": {"b": None}},
        [],
        {},
    )
    for number, value in enumerate(values):
        entry = _entry(f"key-{number}", value, updated_at=number)
        await store.save_entry(entry)
        assert await store.find_entry(OWNER, f"key-{number}") == entry


async def a_missing_entry_is_none(store: ProfileStore) -> None:
    """A missing key and a missing owner are no error."""
    await store.save_entry(_entry("key"))
    assert await store.find_entry(OWNER, "other") is None
    assert await store.find_entry("missing", "key") is None
    assert await store.list_entries("missing") == ()


async def a_save_replaces_the_entry(store: ProfileStore) -> None:
    """One entry per owner and key: the last one."""
    await store.save_entry(_entry("key", 1, updated_at=9))
    await store.save_entry(_entry("key", 2, updated_at=7))
    assert await store.find_entry(OWNER, "key") == _entry("key", 2, updated_at=7)
    assert await store.list_entries(OWNER) == (_entry("key", 2, updated_at=7),)


async def an_entry_is_deleted_idempotently(store: ProfileStore) -> None:
    """It is gone after the first time, and the second is harmless."""
    await store.save_entry(_entry("a"))
    await store.save_entry(_entry("b"))
    for _ in range(2):
        await store.delete_entry(OWNER, "a")
        assert await store.list_entries(OWNER) == (_entry("b"),)
    await store.delete_entry("missing", "a")


async def entries_are_listed_by_key(store: ProfileStore) -> None:
    """Sorted by key, whatever the order of writing."""
    for key in ("b", "c", "a", "B", "ä"):
        await store.save_entry(_entry(key))
    assert [entry.key for entry in await store.list_entries(OWNER)] == ["B", "a", "b", "c", "ä"]


async def owners_are_apart(store: ProfileStore) -> None:
    """The same key of two owners is two entries."""
    owners = (GLOBAL_SCOPE, OWNER, thread_scope("x"), parent_thread_scope("x"), "my own")
    for owner in owners:
        await store.save_entry(_entry("key", owner, owner))
    await store.delete_entry(OWNER, "key")
    for owner in owners:
        entry = await store.find_entry(owner, "key")
        assert (entry is None) if owner == OWNER else entry == _entry("key", owner, owner)


async def a_clear_removes_one_owner(store: ProfileStore) -> None:
    """All of that owner, nothing of another, and again without harm."""
    for owner in (OWNER, OWNER + "s", GLOBAL_SCOPE):
        await store.save_entry(_entry("a", owner=owner))
        await store.save_entry(_entry("b", owner=owner))
    for _ in range(2):
        await store.clear_owner(OWNER)
        assert await store.list_entries(OWNER) == ()
        assert len(await store.list_entries(OWNER + "s")) == 2
        assert len(await store.list_entries(GLOBAL_SCOPE)) == 2
    await store.save_entry(_entry("a"))
    assert await store.list_entries(OWNER) == (_entry("a"),)


async def a_listing_never_changes_later(store: ProfileStore) -> None:
    """A listing is of one moment."""
    await store.save_entry(_entry("a"))
    listed = await store.list_entries(OWNER)
    await store.save_entry(_entry("a", 2))
    await store.save_entry(_entry("b"))
    assert listed == (_entry("a"),)


async def a_blank_owner_or_key_is_refused(store: ProfileStore) -> None:
    """An entry that no read could find again is not written."""
    for owner, key in (("", "key"), (" ", "key"), (OWNER, ""), (OWNER, " ")):
        await refusal(InvalidRecord, store.save_entry(_entry(key, owner=owner)))
        assert await store.list_entries(owner) == ()


async def concurrent_saves_are_all_kept(store: ProfileStore) -> None:
    """Writers of different keys do not overwrite each other."""
    entries = [_entry(f"key-{number:02}", number) for number in range(40)]
    await asyncio.gather(*map(store.save_entry, entries))
    assert await store.list_entries(OWNER) == tuple(entries)


async def a_change_sees_the_value_that_it_replaces(store: ProfileStore) -> None:
    """None at first, then what is there; what comes back is what was written."""
    seen: list[object] = []

    def grow(value: object) -> object:
        seen.append(value)
        return {"n": 1 if not isinstance(value, dict) else value["n"] + 1}

    assert await store.change_entry(OWNER, "key", grow, now=7) == {"n": 1}
    assert await store.find_entry(OWNER, "key") == _entry("key", {"n": 1}, updated_at=7)
    assert await store.change_entry(OWNER, "key", grow, now=9) == {"n": 2}
    assert await store.list_entries(OWNER) == (_entry("key", {"n": 2}, updated_at=9),)
    assert (seen[0], seen[-1]) == (None, {"n": 1})
    await store.save_entry(_entry("key", None))
    assert await store.change_entry(OWNER, "key", lambda value: [value], now=9) == [None]


async def a_change_that_fails_changes_nothing(store: ProfileStore) -> None:
    """Its error reaches the caller; an absent entry stays absent."""
    await store.save_entry(_entry("key", 1))

    def refuse(_: object) -> object:
        raise RefusedChange

    for key in ("key", "absent"):
        await refusal(RefusedChange, store.change_entry(OWNER, key, refuse, now=9))
    assert await store.list_entries(OWNER) == (_entry("key", 1),)
    assert await store.change_entry(OWNER, "absent", lambda value: value is None, now=9) is True


async def a_change_of_a_blank_name_is_refused(store: ProfileStore) -> None:
    """As for an entry that is saved."""
    for owner, key in (("", "key"), (" ", "key"), (OWNER, ""), (OWNER, " ")):
        await refusal(InvalidRecord, store.change_entry(owner, key, lambda _: 1, now=9))
        assert await store.list_entries(owner) == ()


async def changes_that_race_all_count(store: ProfileStore) -> None:
    """No update is lost, on an entry that exists and on one that does not."""

    def one_more(value: int | None) -> int:
        return (value or 0) + 1

    changes = [store.change_entry(OWNER, f"key-{n % 2}", one_more, now=9) for n in range(40)]
    counts = await asyncio.gather(*changes)
    assert sorted(counts) == sorted([*range(1, 21), *range(1, 21)])
    assert [entry.value for entry in await store.list_entries(OWNER)] == [20, 20]


class RefusedChange(Exception):
    """What a change raises that does not want to happen."""


CHECKS = (
    an_entry_comes_back_as_it_was,
    a_missing_entry_is_none,
    a_save_replaces_the_entry,
    an_entry_is_deleted_idempotently,
    entries_are_listed_by_key,
    owners_are_apart,
    a_clear_removes_one_owner,
    a_listing_never_changes_later,
    a_blank_owner_or_key_is_refused,
    concurrent_saves_are_all_kept,
    a_change_sees_the_value_that_it_replaces,
    a_change_that_fails_changes_nothing,
    a_change_of_a_blank_name_is_refused,
    changes_that_race_all_count,
)
