"""The dependencies of a runtime: opened and closed with it, and never stored."""

import asyncio
import functools
import inspect
import logging
from collections.abc import Awaitable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any

from awaken.authoring.functions import is_interruption
from awaken.contracts.errors import DependenciesFailed, Misuse
from awaken.redaction import describe_error

OPEN_S = 30
CLOSE_S = 10
_CLOSED: Any = object()
logger = logging.getLogger(__name__)


class Dependencies:
    """What the tools of a runtime share, such as a pool of database connections.

    A function or a class is called when the runtime opens. An async context manager, given or made
    by that call, is entered then and exited when the runtime closes. Any other object is used as
    it is.
    """

    __slots__ = ("_entered", "_given", "_value", "_was_closed")

    def __init__(self, given: Any = None) -> None:
        self._given = given
        self._entered: AbstractAsyncContextManager[Any] | None = None
        self._was_closed = False
        is_opened = _is_made(given) or _is_entered(given) or _is_generator(given)
        self._value = _CLOSED if is_opened else given

    def get(self) -> Any:
        """Return the dependencies.

        Raises:
            Misuse: They have to be opened, and the runtime is not open.
        """
        if self._value is _CLOSED:
            message = "The dependencies are open while the runtime is: use `async with runtime`."
            raise Misuse(message)
        return self._value

    async def open(self) -> None:
        """Make and enter them, if they have to be.

        Raises:
            DependenciesFailed: It failed, or took too long.
        """
        if self._value is not _CLOSED:
            return
        try:
            async with asyncio.timeout(OPEN_S):
                self._value = await self._make()
        except BaseException as error:
            if is_interruption(error):
                raise
            problem = describe_error(error).rstrip(".")
            if self._was_closed and not _is_made(self._given):
                name = type(self._given).__name__
                problem += f"; it was closed before: pass what makes it, such as deps={name}"
            raise DependenciesFailed(problem=problem) from error

    async def _make(self) -> Any:
        made = self._given
        if _is_made(made):
            made = made()
            made = await made if isinstance(made, Awaitable) else made
        if _is_generator(made):
            message = "a generator is not opened: decorate its function with @asynccontextmanager"
            raise TypeError(message)
        if not _is_entered(made):
            return made
        value = await made.__aenter__()
        self._entered = made
        return value

    async def close(self) -> None:
        """Exit what was entered; what it raises is logged."""
        entered, self._entered = self._entered, None
        if _is_made(self._given) or entered is not None:
            self._value = _CLOSED
        if entered is None:
            return
        self._was_closed = True
        try:
            async with asyncio.timeout(CLOSE_S):
                await entered.__aexit__(None, None, None)
        except BaseException as error:
            if is_interruption(error):
                raise
            logger.exception("The dependencies of the runtime could not be closed.")


def _is_made(given: Any) -> bool:
    return isinstance(given, type | functools.partial) or inspect.isroutine(given)


def _is_entered(given: Any) -> bool:
    return isinstance(given, AbstractAsyncContextManager)


def _is_generator(given: Any) -> bool:
    """Whether it is what a generator function returns without `asynccontextmanager`."""
    if isinstance(given, AbstractContextManager):
        given = getattr(given, "gen", None)  # That of `contextmanager`.
    return inspect.isasyncgen(given) or inspect.isgenerator(given)
