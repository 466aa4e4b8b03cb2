"""The stdio transport: a server program in its own process group, and its pipes."""

import asyncio
import os
import signal
from asyncio.subprocess import PIPE, SubprocessStreamProtocol
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from awaken.contracts.secrets import SecretUnresolved

from .config import McpLimits, Stdio
from .errors import ServerUnavailable

_STEPS = ((signal.SIGINT, 0.1), (signal.SIGTERM, 0.4), (signal.SIGKILL, 2.0))
"""The signals that end a program, with the seconds to wait after each."""
_EXIT_CODE_S = 2.0
"""How long after the end of its output a program may take to end: its exit code says the most."""
_INHERITED = ("PATH", "HOME")
_TAIL_BYTES = 2000
_JUNK_LINES = 1000
_SECRET_CHARS = 6

Incoming = MemoryObjectReceiveStream[SessionMessage | Exception]
_ToSession = MemoryObjectSendStream[SessionMessage | Exception]
Outgoing = MemoryObjectSendStream[SessionMessage]


@asynccontextmanager
async def run_program(
    program: Stdio, limits: McpLimits, ended: Callable[[str], None]
) -> AsyncIterator[tuple[Incoming, Outgoing]]:
    """Run a program as a transport; its process group has ended when the context exits.

    `ended` is called with the reason as soon as the program's output ends.

    Raises:
        ServerUnavailable: There is no such command.
        OSError: The program cannot be started.
    """
    loop, env = asyncio.get_running_loop(), _environment(program)
    process = _Process(limits.message_bytes, loop)
    try:
        transport, _ = await loop.subprocess_exec(
            lambda: process, program.command, *program.args, stdin=PIPE, stdout=PIPE, stderr=PIPE,
            cwd=program.cwd, env=env, start_new_session=True,
        )  # fmt: skip
    except FileNotFoundError as error:
        if error.filename != program.command:
            raise  # The working directory is missing; the error names it.
        raise ServerUnavailable(f"command '{program.command}' was not found on PATH") from error
    process.transport, process.secrets = transport, [env[name] for name in program.env]
    to_session, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, from_session = anyio.create_memory_object_stream[SessionMessage](0)
    work = (process.read_stderr(), process.read(to_session, ended), process.write(from_session))
    tasks = [asyncio.create_task(it) for it in work]
    try:
        yield incoming, outgoing
    finally:
        try:
            await process.stop()
        finally:
            # A process that left the group may still hold the pipes; it is not waited for.
            transport.close()
            for task in tasks:
                task.cancel()
            for stream in (to_session, incoming, outgoing, from_session):
                stream.close()


class _Process(SubprocessStreamProtocol):
    """A running program, its pipes, and the end of its stderr."""

    transport: asyncio.SubprocessTransport
    secrets: list[str]

    def __init__(self, limit: int, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(limit, loop)
        self.exited = asyncio.Event()
        """Set when the program exits, even if other processes still hold its pipes."""
        self._tail = b""

    def process_exited(self) -> None:
        super().process_exited()
        self.exited.set()

    async def read(self, to_session: _ToSession, ended: Callable[[str], None]) -> None:
        """Pass every line to the session until the output ends, or a line is too long."""
        stdout, why, junk = self.stdout, "", 0
        assert stdout is not None
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            while not why:
                try:
                    message = _parse_line(await stdout.readuntil(b"\n"))
                    junk += isinstance(message, Exception)
                    why = "it sends lines that are not messages" if junk > _JUNK_LINES else ""
                    await to_session.send(message)
                except asyncio.LimitOverrunError:
                    why = "it sent a message that is too long"
                except (asyncio.IncompleteReadError, ConnectionError):
                    why = await self._describe_end()
        ended(why or "the connection was closed")
        to_session.close()

    async def write(self, from_session: MemoryObjectReceiveStream[SessionMessage]) -> None:
        """Write the session's messages; if the program does not read them, its calls time out."""
        stdin = self.stdin
        assert stdin is not None
        with suppress(ConnectionError, anyio.ClosedResourceError):
            async for message in from_session:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                stdin.write(text.encode() + b"\n")
                await stdin.drain()

    async def read_stderr(self) -> None:
        """Keep the end of the program's stderr."""
        stderr = self.stderr
        while stderr is not None and (said := await stderr.read(1 << 16)):
            self._tail = (self._tail + said)[-2 * _TAIL_BYTES :]

    async def stop(self) -> None:
        """End the program, and then kill the rest of its group."""
        for number, patience_s in _STEPS:
            self._signal_group(number)
            if await self._exits_within(patience_s):
                break
        self._signal_group(signal.SIGKILL)

    def _signal_group(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.transport.get_pid() or 0, number)

    async def _exits_within(self, patience_s: float) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                await self.exited.wait()
        return self.exited.is_set()

    async def _describe_end(self) -> str:
        has_exited, how = await self._exits_within(_EXIT_CODE_S), "it closed its output"
        how = f"it ended with code {self.transport.get_returncode()}" if has_exited else how
        # More is kept than is shown: a secret must not be cut before it is found.
        tail = self._tail.decode(errors="replace").strip()
        for secret in sorted(self.secrets, key=len, reverse=True):
            if len(secret) >= _SECRET_CHARS:
                tail = tail.replace(secret, "***")
        return f"{how}: {tail[-_TAIL_BYTES:]}" if tail else how


def _parse_line(line: bytes) -> SessionMessage | Exception:
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except (ValueError, RecursionError) as error:
        return error


def _environment(program: Stdio) -> dict[str, str]:
    seen = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    for name, value in program.env.items():
        if value is None and name not in os.environ:
            raise ServerUnavailable(f"the variable {name} of '{program.command}' is not set")
        try:
            seen[name] = os.environ[name] if value is None else value.reveal()
        except SecretUnresolved as error:
            raise ServerUnavailable(str(error)) from None
    return seen
