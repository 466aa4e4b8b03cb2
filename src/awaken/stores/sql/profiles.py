"""Profile entries in the database of the store."""

from collections.abc import Callable
from typing import Any

from awaken.contracts.errors import CorruptRecord, InvalidRecord
from awaken.contracts.state.profile import ProfileEntry

from . import rows
from .session import Database, SqlSession


class SqlProfiles:
    """A `ProfileStore` in a SQL database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find_entry(self, owner: str, key: str) -> ProfileEntry | None:
        """Return an entry, or None."""

        async def work(session: SqlSession) -> ProfileEntry | None:
            row = await session.one("find_profile", owner, key)
            return None if row is None else _entry(owner, key, row[0], row[1])

        return await self._database.read_row(work)

    async def save_entry(self, entry: ProfileEntry) -> None:
        """Write an entry over the one of the same owner and key.

        Raises:
            InvalidRecord: Its owner or its key is blank.
        """
        _check_name(entry.owner, entry.key)
        value = rows.pack(entry.value)

        async def work(session: SqlSession) -> None:
            await session.run("save_profile", entry.owner, entry.key, value, entry.updated_at)

        await self._database.write_row(work)

    async def change_entry(
        self, owner: str, key: str, change: Callable[[Any], Any], *, now: int
    ) -> Any:
        """Replace a value by the result of `change`, in one transaction.

        Raises:
            InvalidRecord: The owner or the key is blank.
        """
        _check_name(owner, key)

        async def work(session: SqlSession) -> Any:
            # An absent row cannot be locked: two processes would both begin from nothing.
            row = None
            while row is None:
                await session.run("add_profile", owner, key, rows.pack(None), now)
                row = await session.one("lock_profile", owner, key)
            value = change(_entry(owner, key, row[0], now).value)
            await session.run("save_profile", owner, key, rows.pack(value), now)
            return value

        return await self._database.write(work)

    async def delete_entry(self, owner: str, key: str) -> None:
        """Remove an entry; removing an absent one is harmless."""

        async def work(session: SqlSession) -> None:
            await session.run("delete_profile", owner, key)

        await self._database.write(work)

    async def list_entries(self, owner: str) -> tuple[ProfileEntry, ...]:
        """Return an owner's entries sorted by key."""

        async def work(session: SqlSession) -> tuple[ProfileEntry, ...]:
            found = await session.all("list_profiles", owner)
            return tuple(_entry(owner, row[0], row[1], row[2]) for row in found)

        return await self._database.read_row(work)

    async def list_readable_entries(self, owner: str) -> tuple[ProfileEntry, ...]:
        """Return an owner's entries sorted by key; the value of a damaged one is None."""

        async def work(session: SqlSession) -> tuple[ProfileEntry, ...]:
            found = []
            for key, value, updated_at in map(tuple, await session.all("list_profiles", owner)):
                try:
                    found.append(_entry(owner, key, value, updated_at))
                except CorruptRecord:
                    found.append(ProfileEntry(owner=owner, key=key, updated_at=updated_at))
            return tuple(found)

        return await self._database.read_row(work)

    async def clear_owner(self, owner: str) -> None:
        """Remove all entries of an owner."""

        async def work(session: SqlSession) -> None:
            await session.run("clear_profiles", owner)

        await self._database.write(work)


def _check_name(owner: str, key: str) -> None:
    if not (owner.strip() and key.strip()):
        raise InvalidRecord(what="Profile entry", problem="its owner or its key is blank")


def _entry(owner: str, key: str, value: bytes, updated_at: int) -> ProfileEntry:
    data = rows.unpack(value, rows.ANY, f"Profile entry '{key}' of '{owner}'")
    return ProfileEntry(owner=owner, key=key, value=data, updated_at=updated_at)
