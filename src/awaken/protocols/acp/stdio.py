"""Serves the protocol on the process's stdin and stdout, with the official SDK."""

import importlib
import os
import sys
from collections.abc import Awaitable, Callable
from contextlib import redirect_stdout, suppress
from typing import Any, TextIO

import msgspec

from awaken.contracts.errors import (
    AwakenError,
    InvalidContext,
    InvalidInput,
    LimitExceeded,
    RefusedInput,
    UnknownThread,
)
from awaken.transport.problems import HttpError

from .sessions import METHODS, Sessions

LINE_BYTES = 50 * 1024 * 1024
"""How long one message may be, including images."""
INVALID_PARAMS, INTERNAL_ERROR, NOT_FOUND = -32602, -32603, -32002

REFUSALS = (InvalidInput, InvalidContext, LimitExceeded, HttpError, msgspec.ValidationError)
"""Errors that the parameters of a request caused."""
MISSING_EXTRA = "ACP needs the extra `acp`: pip install 'awaken[acp]'"

Streams = tuple[Any, Any]


def claim_stdout() -> TextIO:
    """Reserve the process's stdout for the protocol; everything printed goes to stderr."""
    sys.stdout.flush()
    ours = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return ours


async def stdio_streams(output: TextIO) -> Any:
    """Open the pipes to the client that started the process.

    Raises:
        InvalidInput: The extra `acp` is not installed.
    """
    with redirect_stdout(output):
        return await load_sdk().stdio_streams(limit=LINE_BYTES)


async def serve(sessions: Sessions, streams: Streams, drain: Callable[[], Awaitable[None]]) -> None:
    """Serve one client until it closes its end; then drain, and answer pending requests."""
    acp = load_sdk()

    async def handle(method: str, params: Any, is_notification: bool) -> Any:  # noqa: FBT001
        if method not in METHODS and is_notification:
            return None
        if method not in METHODS:
            raise acp.RequestError.method_not_found(method)
        try:
            return await METHODS[method](sessions, params or {})
        except REFUSALS as error:
            raise acp.RequestError(INVALID_PARAMS, str(error)) from error
        except (AwakenError, ConnectionError) as error:
            code = NOT_FOUND if isinstance(error, UnknownThread) else INTERNAL_ERROR
            raise acp.RequestError(code, str(error)) from error

    reader, writer = streams
    connection = acp.connection.Connection(handle, writer, reader, listening=False)
    sessions.client = connection
    try:
        await connection.main_loop()
        await drain()
        await sessions.settle()
    finally:
        await sessions.close()
        # A client that has closed both ends cannot be answered.
        with suppress(ConnectionError):
            await connection.close()
        writer.close()


def load_sdk() -> Any:
    """Import the official SDK of the protocol.

    Raises:
        InvalidInput: The extra `acp` is not installed.
    """
    try:
        return importlib.import_module("acp")
    except ModuleNotFoundError as error:
        raise RefusedInput(what="acp", problem=MISSING_EXTRA) from error
