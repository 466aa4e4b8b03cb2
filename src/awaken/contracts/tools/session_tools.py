"""Tools that a client session provides: its servers, and the port that keeps them open."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from awaken.contracts.record import Record
from awaken.contracts.secrets import RedactedString

from .tool import ToolDescriptor


class SessionServer(Record, frozen=True, kw_only=True):
    """An MCP server that a client names: a program to start, or a URL to call."""

    name: str
    command: str | None = None
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, RedactedString], ...] = ()
    cwd: str | None = None
    url: str | None = None
    headers: tuple[tuple[str, RedactedString], ...] = ()


class SessionTools(Protocol):
    """The tools of one session, while it is open in this process."""

    @property
    def session_id(self) -> str:
        """The session id that a run's request names to use these tools."""
        ...

    def descriptors(self) -> tuple[ToolDescriptor, ...]:
        """The tools that the servers offer now."""
        ...

    async def close(self) -> None:
        """Stop the servers; later calls of running runs fail with a typed error."""
        ...


OpenSessionTools = Callable[[Sequence[SessionServer]], Awaitable[SessionTools]]
