"""Counts what the driver sends to a server: round trips, and the statements in them."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import asyncpg

_CALLS = ("execute", "executemany", "fetch", "fetchrow", "fetchval")
_LISTENS = ("pg_notify", "LISTEN", "UNLISTEN")


class Sent:
    """The texts that were sent, in order; one text is one round trip once it is prepared."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    @property
    def round_trips(self) -> int:
        """How often the server was asked."""
        return len(self.texts)

    @property
    def statements(self) -> int:
        """How many statements the server was asked, among them those that only configure."""
        return sum(text.rstrip("; ").count(";") + 1 for text in self.texts)

    def clear(self) -> None:
        """Begin to count anew."""
        self.texts.clear()


@contextmanager
def counted(apart: Collection[str] | None = None) -> Iterator[Sent]:
    """Count what every connection of this process sends, but for signals of the bus.

    With the names of tasks that work apart, these and other threads are not counted.
    """
    sent, thread = Sent(), threading.get_ident()

    def is_counted(text: str) -> bool:
        if any(word in text for word in _LISTENS):
            return False
        if apart is None:
            return True
        task = asyncio.current_task()
        return threading.get_ident() == thread and task is not None and task.get_name() not in apart

    def counting(name: str) -> Callable[..., Awaitable[Any]]:
        method = getattr(asyncpg.Connection, name)

        async def call(self: Any, text: str, *args: Any, **options: Any) -> Any:
            if is_counted(text):
                sent.texts.append(text)
            return await method(self, text, *args, **options)

        return call

    with ExitStack() as stack:
        for name in _CALLS:
            stack.enter_context(patch.object(asyncpg.Connection, name, counting(name)))
        yield sent
