"""Messages over the pipes of a process: one per line, bounded in size and number."""

import asyncio
import importlib
from typing import Any

import msgspec

from awaken.contracts.backends import errors as errors
from awaken.contracts.errors import AwakenError
from awaken.contracts.record import Record

from .config import NAME, AcpLimits
from .process import AgentProcess

_SHOWN_CHARS = 200


class _Error(Record, frozen=True, kw_only=True):
    code: int
    message: str


class _Frame(Record, frozen=True, kw_only=True):
    """The fields of a message that the library relies on."""

    id: int | str | None = None
    method: str | None = None
    error: _Error | None = None


class AcpWire:
    """The transport below the library's connection.

    `broken` is set as soon as the agent breaks the protocol or a limit; nothing is read after that.
    The end of the agent's output does not set it: the connection fails the pending requests.
    """

    def __init__(self, process: AgentProcess, limits: AcpLimits) -> None:
        self.broken: asyncio.Future[AwakenError] = asyncio.get_running_loop().create_future()
        self._process = process
        self._limits = limits
        self._left = limits.total_bytes
        self._open = 0
        self._turn = asyncio.Lock()

    def fail(self, error: AwakenError) -> None:
        """End the session with an error; only the first error counts."""
        if not self.broken.done():
            self.broken.set_result(error)

    async def receive(self) -> dict[str, Any] | None:
        """Return the next message, or None at the end of the output."""
        # Tasks handle the messages that were read before; let them run first, so none pile up.
        await asyncio.sleep(0)
        if self.broken.done():
            return None
        try:
            return self._message(await self._line())
        except asyncio.IncompleteReadError:
            return None
        except errors.RemoteError as error:
            self.fail(error)
            return None

    async def send(self, message: dict[str, Any]) -> None:
        """Write a message.

        Raises:
            ConnectionError: The agent has closed its input.
        """
        is_answer = "method" not in message
        try:
            async with self._turn:
                self._process.stdin.write(msgspec.json.encode(message) + b"\n")
                await self._process.stdin.drain()
        except ConnectionError:
            # The agent no longer waits for an answer; the reading side notices that it is gone.
            if not is_answer:
                raise
        finally:
            self._open -= is_answer

    async def close(self) -> None:
        """Do nothing: the process owns the pipes."""

    async def _line(self) -> bytes:
        try:
            line = await self._process.stdout.readuntil(b"\n")
        except asyncio.LimitOverrunError as error:
            problem = f"a line is longer than {self._limits.line_bytes} bytes"
            raise errors.RemoteTooLarge(problem=problem) from error
        self._left -= len(line)
        if self._left < 0:
            problem = f"the agent wrote more than {self._limits.total_bytes} bytes"
            raise errors.RemoteTooLarge(problem=problem)
        return line

    def _message(self, line: bytes) -> dict[str, Any]:
        try:
            message = msgspec.json.decode(line, type=dict[str, Any])
            frame = msgspec.convert(message, _Frame)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            shown = self._process.redact_text(line.decode(errors="replace").strip())[:_SHOWN_CHARS]
            why = str(error)[:_SHOWN_CHARS]
            problem = f"the agent wrote a line that is not a message ({why}): {shown}"
            raise errors.RemoteMalformed(problem=problem) from error
        self._open += frame.method is not None and "id" in message
        if self._open > self._limits.open_requests:
            problem = f"more than {self._limits.open_requests} requests wait for an answer"
            raise errors.RemoteTooLarge(problem=problem)
        return message


def load_library() -> Any:
    """Import the official package when it is first needed.

    Raises:
        InvalidBackendConfig: The extra `acp` is not installed.
    """
    try:
        return importlib.import_module("acp")
    except ImportError as error:
        problem = "it needs the package agent-client-protocol: pip install 'awaken[acp]'"
        raise errors.InvalidBackendConfig(backend=NAME, problem=problem) from error
