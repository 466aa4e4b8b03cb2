"""Calls a user's function: a coroutine function on the loop, a plain function in a thread."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from awaken.contracts.tools.context import ToolContext

from .signatures import Source


class BoundCall:
    """One function that is called with keyword arguments and, if it takes one, its context.

    Raises:
        InvalidSpec: The function is a generator.
    """

    __slots__ = ("_context_name", "_function", "_is_async")

    def __init__(self, source: Source, context_name: str | None) -> None:
        function = source.function
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            source.refuse("it is a generator; return the result and stream with emit_output()")
        self._function = source.callable
        self._context_name = context_name
        self._is_async = inspect.iscoroutinefunction(function)

    async def __call__(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        """Call the function; a worker thread has the context variables of the caller."""
        if self._context_name is not None:
            arguments = {**arguments, self._context_name: context}
        if self._is_async:
            return await self._function(**arguments)
        value = await asyncio.to_thread(_call_in_thread, self._function, arguments)
        return await value if isinstance(value, Awaitable) else value


def _call_in_thread(function: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    try:
        return function(**arguments)
    except StopIteration as error:
        # A future cannot hold a StopIteration: in Python 3.11 the awaiting task would hang.
        message = "the function raised StopIteration"
        raise RuntimeError(message) from error
