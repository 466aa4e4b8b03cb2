"""Profile entries: small typed values shared between threads and agents."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

import msgspec

from awaken.contracts.clock import Clock
from awaken.contracts.errors import ProfileCodecError, UnknownProfileKey
from awaken.contracts.record import Record

V = TypeVar("V")

GLOBAL_SCOPE = "global"
OPEN_EVALS = "evals"
"""Owner and key of the entry that lists evals which have not ended."""


def parent_thread_scope(thread_id: str) -> str:
    """The scope shared by everything under one parent thread."""
    return f"parent_thread::{thread_id}"


def agent_type_scope(agent_id: str) -> str:
    """The scope shared by all runs of one agent."""
    return f"agent_type::{agent_id}"


def thread_scope(thread_id: str) -> str:
    """The scope of one thread."""
    return f"thread::{thread_id}"


@dataclass(frozen=True, slots=True, eq=False)
class ProfileKey(Generic[V]):
    """A typed namespace of profile entries."""

    name: str
    default: V = field(kw_only=True)
    type: Any = field(kw_only=True, default=Any)


class ProfileEntry(Record, frozen=True, kw_only=True):
    """One stored value; `owner` is a scope such as `global` or `agent_type::writer`."""

    owner: str
    key: str
    value: Any = None
    updated_at: int = 0


class ProfileStore(Protocol):
    """Durable profile entries, isolated per owner."""

    async def find_entry(self, owner: str, key: str) -> ProfileEntry | None:
        """Return an entry, or None."""
        ...

    async def save_entry(self, entry: ProfileEntry) -> None:
        """Write an entry."""
        ...

    async def change_entry(
        self, owner: str, key: str, change: Callable[[Any], Any], *, now: int
    ) -> Any:
        """Replace a value by what `change` makes of it, atomically, and return the new one.

        `change` gets None if there is no entry. Changes by other tasks or processes happen before
        or after this one. It must be pure and fast: it may run in another thread and more than
        once. An exception that it raises propagates, and nothing is changed.

        Raises:
            InvalidRecord: The owner or the key is blank.
        """
        ...

    async def delete_entry(self, owner: str, key: str) -> None:
        """Remove an entry; removing an absent one is harmless."""
        ...

    async def list_entries(self, owner: str) -> tuple[ProfileEntry, ...]:
        """Return an owner's entries sorted by key."""
        ...

    async def clear_owner(self, owner: str) -> None:
        """Remove all entries of an owner."""
        ...


@runtime_checkable
class DamageTolerantProfiles(Protocol):
    """A `ProfileStore` whose entries may be damaged, and which can list the others."""

    async def list_readable_entries(self, owner: str) -> tuple[ProfileEntry, ...]:
        """Return an owner's entries sorted by key; the value of a damaged one is None."""
        ...


class ProfileAccess:
    """Typed access to profile entries; only for keys that a plugin declared."""

    __slots__ = ("_clock", "_keys", "_store")

    def __init__(
        self, store: ProfileStore, keys: Mapping[str, ProfileKey[Any]], clock: Clock
    ) -> None:
        self._store = store
        self._keys = keys
        self._clock = clock

    async def read(self, key: ProfileKey[V], scope: str) -> V:
        """Return the value in a scope, or the key's default.

        Raises:
            UnknownKey: No plugin declared the key.
            KeyCodecError: The stored value does not fit the key.
        """
        self._check(key)
        entry = await self._store.find_entry(scope, key.name)
        return key.default if entry is None else _decode_value(key, entry.value)

    async def write(self, key: ProfileKey[V], scope: str, value: V) -> None:
        """Write the value in a scope."""
        self._check(key)
        entry = ProfileEntry(
            owner=scope,
            key=key.name,
            value=msgspec.to_builtins(value),
            updated_at=self._clock.now_ms(),
        )
        await self._store.save_entry(entry)

    async def change(self, key: ProfileKey[V], scope: str, change: Callable[[V], V]) -> None:
        """Replace the value in a scope by what `change` makes of it, atomically.

        `change` gets the key's default if there is no value. It must be pure and fast: it may run
        in another thread and more than once.

        Raises:
            UnknownKey: No plugin declared the key.
            KeyCodecError: The stored value does not fit the key; nothing was changed.
        """
        self._check(key)

        def apply_change(stored: Any) -> Any:
            value = key.default if stored is None else _decode_value(key, stored)
            return msgspec.to_builtins(change(value))

        await self._store.change_entry(scope, key.name, apply_change, now=self._clock.now_ms())

    async def delete(self, key: ProfileKey[V], scope: str) -> None:
        """Remove the value in a scope; removing an absent one is harmless."""
        self._check(key)
        await self._store.delete_entry(scope, key.name)

    async def list(self, scope: str) -> tuple[ProfileEntry, ...]:
        """Return all entries of a scope sorted by key."""
        return await self._store.list_entries(scope)

    async def clear(self, scope: str) -> None:
        """Remove all entries of a scope."""
        await self._store.clear_owner(scope)

    def _check(self, key: ProfileKey[Any]) -> None:
        if self._keys.get(key.name) is not key:
            raise UnknownProfileKey(key=key.name)


def _decode_value(key: ProfileKey[V], stored: Any) -> V:
    try:
        return msgspec.convert(stored, key.type)  # type: ignore[no-any-return]
    except msgspec.ValidationError as error:
        raise ProfileCodecError(key=key.name, problem=str(error)) from error
