"""The one way in which awaken calls a function of the application, async or plain.

Belongs here: threads, time limits and cancellation of such calls. Does not: what a failure means;
each place that calls a function has an error of its own for it.
"""

import asyncio
import contextvars
import functools
import inspect
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from typing import Any

from .functions import call_in_thread, is_interruption

GRACE_S = 1.0
"""How long a function that is cancelled may still take to clean up."""

# Calls that ignored their cancellation. They are kept here so that they are not collected before
# they end.
_abandoned: set[asyncio.Task[Any]] = set()


class CallTookTooLong(TimeoutError):
    """The function did not return in time; one that raises TimeoutError itself is another case."""


async def call_function(
    function: Callable[..., Any], *values: Any, threads: Executor | None = None
) -> Any:
    """Call a function: a coroutine function here, a plain one in a worker thread.

    Args:
        function: The function. What it returns is awaited, if it can be.
        *values: Its arguments.
        threads: The threads of plain functions. None: those of the event loop.

    Raises:
        BaseException: What the function raises; a StopIteration becomes a RuntimeError.
    """
    if inspect.iscoroutinefunction(function):
        return await function(*values)
    work = functools.partial(contextvars.copy_context().run, call_in_thread, function, *values)
    answer = await asyncio.get_running_loop().run_in_executor(threads, work)
    return await answer if isinstance(answer, Awaitable) else answer


async def call_within(
    seconds: float,
    function: Callable[..., Any],
    *values: Any,
    threads: Executor | None = None,
) -> Any:
    """Call a function as `call_function` does, and return or raise in time, whatever it does.

    A function that takes too long is cancelled, and one that ignores that is left behind.

    Raises:
        CallTookTooLong: It did not return in time.
        BaseException: What the function raises; see `is_interruption`.
    """
    calling = asyncio.get_running_loop().create_task(_settle(function, values, threads))
    is_late = True
    try:
        await asyncio.wait({calling}, timeout=seconds)
        is_late = not calling.done()
    finally:
        if not calling.done():
            await _stop(calling)
    if is_late:
        message = f"no answer within {seconds} s"
        raise CallTookTooLong(message)
    value, error = calling.result()
    if error is None:
        return value
    try:
        raise error
    finally:
        # The traceback of the error refers to this frame, which must not refer to the error.
        del error, calling


async def _settle(
    function: Callable[..., Any], values: tuple[Any, ...], threads: Executor | None
) -> tuple[Any, BaseException | None]:
    """Return what the function returns or raises: a SystemExit that leaves a task ends the loop."""
    try:
        return await call_function(function, *values, threads=threads), None
    except BaseException as error:
        if is_interruption(error):
            raise
        return None, error


async def _stop(calling: asyncio.Task[Any]) -> None:
    _abandoned.add(calling)
    calling.add_done_callback(_abandoned.discard)
    calling.cancel()
    await asyncio.wait({calling}, timeout=GRACE_S)
