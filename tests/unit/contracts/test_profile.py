"""Profile entries: typed values shared between threads and agents, scope by scope."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from awaken.contracts.errors import KeyCodecError, UnknownKey
from awaken.contracts.state.profile import (
    GLOBAL_SCOPE,
    ProfileAccess,
    ProfileEntry,
    ProfileKey,
    agent_type_scope,
    parent_thread_scope,
    thread_scope,
)
from awaken.stores.memory import MemoryProfileStore
from awaken.testing.fakes import FakeClock


class Taste(msgspec.Struct, frozen=True):
    likes: tuple[str, ...] = ()


TASTE = ProfileKey("taste", default=Taste(), type=Taste)
LOCALE = ProfileKey("locale", default="en", type=str)
SECRET = ProfileKey("secret", default="")
SCOPES = [
    GLOBAL_SCOPE,
    parent_thread_scope("t"),
    agent_type_scope("t"),
    thread_scope("t"),
    "my own",
]


def with_access(use: Callable[[ProfileAccess], Awaitable[Any]]) -> FakeClock:
    clock = FakeClock()
    keys = {"taste": TASTE, "locale": LOCALE}

    async def main() -> None:
        await use(ProfileAccess(MemoryProfileStore(), keys, clock))

    asyncio.run(main())
    return clock


def test_scopes_have_the_documented_names() -> None:
    assert SCOPES[:4] == ["global", "parent_thread::t", "agent_type::t", "thread::t"]


def test_a_value_is_the_default_until_written_and_again_once_deleted() -> None:
    async def use(profile: ProfileAccess) -> None:
        assert await profile.read(LOCALE, GLOBAL_SCOPE) == "en"
        for text in ("de", "fr"):
            await profile.write(LOCALE, GLOBAL_SCOPE, text)
            assert await profile.read(LOCALE, GLOBAL_SCOPE) == text
        for _ in range(2):
            await profile.delete(LOCALE, GLOBAL_SCOPE)
            assert await profile.read(LOCALE, GLOBAL_SCOPE) == "en"

    with_access(use)


def test_scopes_and_keys_are_isolated_and_clearing_one_leaves_the_others() -> None:
    async def use(profile: ProfileAccess) -> None:
        for scope in SCOPES:
            await profile.write(TASTE, scope, Taste(likes=(scope,)))
            await profile.write(LOCALE, scope, scope)
        await profile.clear(SCOPES[1])
        await profile.delete(LOCALE, SCOPES[2])
        for scope in SCOPES:
            is_cleared = scope == SCOPES[1]
            assert await profile.read(TASTE, scope) == Taste(() if is_cleared else (scope,))
            has_locale = scope not in SCOPES[1:3]
            assert await profile.read(LOCALE, scope) == (scope if has_locale else "en")

    with_access(use)


def test_entries_are_listed_by_key_with_the_time_of_their_writing() -> None:
    listed: list[ProfileEntry] = []

    async def use(profile: ProfileAccess) -> None:
        await profile.write(TASTE, "s", Taste(likes=("tea",)))
        await profile.write(LOCALE, "s", "de")
        listed.extend(await profile.list("s"))
        assert await profile.list("nobody") == ()

    now = with_access(use).now_ms()
    assert listed == [
        ProfileEntry(owner="s", key="locale", value="de", updated_at=now),
        ProfileEntry(owner="s", key="taste", value={"likes": ("tea",)}, updated_at=now),
    ]
    data = msgspec.json.encode(listed[0])
    assert msgspec.json.decode(data, type=ProfileEntry) == listed[0]


@pytest.mark.parametrize("impostor", [SECRET, ProfileKey("taste", default=Taste(), type=Taste)])
def test_only_keys_that_a_plugin_declared_can_be_used(impostor: ProfileKey[Any]) -> None:
    async def use(profile: ProfileAccess) -> None:
        for attempt in (
            profile.read(impostor, "s"),
            profile.write(impostor, "s", ""),
            profile.delete(impostor, "s"),
        ):
            with pytest.raises(UnknownKey, match=impostor.name):
                await attempt
        assert await profile.list("s") == ()

    with_access(use)


def test_a_stored_value_of_another_type_is_an_error_and_no_default() -> None:
    async def main() -> None:
        store = MemoryProfileStore()
        await store.save_entry(ProfileEntry(owner="s", key="taste", value={"likes": 3}))
        profile = ProfileAccess(store, {"taste": TASTE}, FakeClock())
        with pytest.raises(KeyCodecError, match="taste"):
            await profile.read(TASTE, "s")

    asyncio.run(main())
