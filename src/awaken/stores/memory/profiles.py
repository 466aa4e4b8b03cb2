"""Profile entries in this process's memory."""

from collections.abc import Callable
from typing import Any

from awaken.contracts.errors import InvalidRecord
from awaken.contracts.state.profile import ProfileEntry


class MemoryProfileStore:
    """Profile entries isolated per owner; they live as long as this object.

    Use it from one event loop. No method suspends.
    """

    def __init__(self) -> None:
        self._owners: dict[str, dict[str, ProfileEntry]] = {}

    async def find_entry(self, owner: str, key: str) -> ProfileEntry | None:
        """Return an entry, or None."""
        return self._owners.get(owner, {}).get(key)

    async def save_entry(self, entry: ProfileEntry) -> None:
        """Write an entry over the one of the same owner and key.

        Raises:
            InvalidRecord: Its owner or its key is blank.
        """
        if not (entry.owner.strip() and entry.key.strip()):
            raise InvalidRecord(what="Profile entry", problem="its owner or its key is blank")
        self._owners.setdefault(entry.owner, {})[entry.key] = entry

    async def change_entry(
        self, owner: str, key: str, change: Callable[[Any], Any], *, now: int
    ) -> Any:
        """Replace a value by the result of `change`, and return the new value.

        Raises:
            InvalidRecord: The owner or the key is blank.
        """
        entry = self._owners.get(owner, {}).get(key)
        value = change(None if entry is None else entry.value)
        await self.save_entry(ProfileEntry(owner=owner, key=key, value=value, updated_at=now))
        return value

    async def delete_entry(self, owner: str, key: str) -> None:
        """Remove an entry; removing an absent one is harmless."""
        self._owners.get(owner, {}).pop(key, None)

    async def list_entries(self, owner: str) -> tuple[ProfileEntry, ...]:
        """Return an owner's entries sorted by key."""
        entries = self._owners.get(owner, {})
        return tuple(entries[key] for key in sorted(entries))

    async def clear_owner(self, owner: str) -> None:
        """Remove all entries of an owner."""
        self._owners.pop(owner, None)
