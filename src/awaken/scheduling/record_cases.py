"""The use cases that schedules and triggers share, for those who offer both."""

from typing import Any, Protocol, TypeVar

from awaken.contracts.storage.schedules import Schedule, Trigger

RecordT_co = TypeVar("RecordT_co", bound=Schedule | Trigger, covariant=True)


class RecordCases(Protocol[RecordT_co]):
    """The use cases that schedules and triggers share."""

    async def check_control(self, record_id: str, /) -> None:
        """Refuse a caller that may not change a record."""
        ...

    async def get(self, record_id: str, /) -> RecordT_co:
        """Return a record."""
        ...

    async def update(
        self, record_id: str, spec: Any, /, *, revision: str | None = None
    ) -> RecordT_co:
        """Replace what a record says, if it still has the revision."""
        ...

    async def delete(self, record_id: str, /) -> None:
        """Remove a record."""
        ...

    async def pause(self, record_id: str, /) -> RecordT_co:
        """Pause a record."""
        ...

    async def resume(self, record_id: str, /) -> RecordT_co:
        """Resume a record."""
        ...
