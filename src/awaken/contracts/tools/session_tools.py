"""Tools that one session of a client brings along: which servers, and what holds them open."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from awaken.contracts.record import Record
from awaken.contracts.secrets import RedactedString

from .tool import ToolDescriptor


class SessionServer(Record, frozen=True, kw_only=True):
    """An MCP server that a client names: a program to start, or an address to call."""

    name: str
    command: str | None = None
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, RedactedString], ...] = ()
    cwd: str | None = None
    url: str | None = None
    headers: tuple[tuple[str, RedactedString], ...] = ()


class SessionTools(Protocol):
    """The tools of one session, for as long as it is open in this process."""

    @property
    def session_id(self) -> str:
        """What a run's request names to have them."""
        ...

    def descriptors(self) -> tuple[ToolDescriptor, ...]:
        """What the servers offer now."""
        ...

    async def close(self) -> None:
        """End the servers; runs that go on get a typed error from each call."""
        ...


OpenSessionTools = Callable[[Sequence[SessionServer]], Awaitable[SessionTools]]
