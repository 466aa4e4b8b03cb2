"""The agent's process, in its own process group, which is stopped as a whole."""

import asyncio
import os
import signal
from asyncio.subprocess import PIPE, SubprocessStreamProtocol
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from awaken.contracts.backends import errors as errors

from .config import AcpLimits, Program

_REAP_MS = 5000
_EXIT_CODE_MS = 2000
"""How long after the end of its output a process may take to end: its exit code says the most."""
_SECRET_CHARS = 6
_CHUNK = 64 * 1024


@asynccontextmanager
async def run_program(program: Program, limits: AcpLimits) -> AsyncIterator["AgentProcess"]:
    """Run the program; its process group has ended when the context exits, also on an error.

    Raises:
        BackendExecutionFailed: The program cannot be started.
    """
    environment = program.environment(os.environ)
    try:
        transport, pipes = await asyncio.get_running_loop().subprocess_exec(
            lambda: _Pipes(limits.line_bytes),
            *program.command,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            cwd=program.cwd,
            env=environment,
            start_new_session=True,
        )
    except OSError as error:
        problem = f"'{program.name}' cannot be started: {error.strerror} ({error.filename})"
        raise errors.BackendExecutionFailed(problem=problem) from error
    process = AgentProcess(transport, pipes, limits)
    process.secrets = [environment[name] for name in program.env]
    try:
        yield process
    finally:
        await process.stop()


class _Pipes(SubprocessStreamProtocol):
    """Notices when the leader of the group exits, and kills the rest of the group with it.

    This must happen immediately: later the system may reuse the group's id.
    """

    def __init__(self, limit: int) -> None:
        super().__init__(limit=limit, loop=asyncio.get_running_loop())
        self.exited = asyncio.Event()
        self.pid = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        assert isinstance(transport, asyncio.SubprocessTransport)
        self.pid = transport.get_pid() or 0

    def process_exited(self) -> None:
        super().process_exited()
        self.signal_group(signal.SIGKILL)
        self.exited.set()

    def signal_group(self, number: signal.Signals) -> None:
        """Signal every process of the group, unless its leader has exited already."""
        if self.pid and not self.exited.is_set():
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)


class AgentProcess:
    """A running agent, its pipes, and the end of its stderr."""

    def __init__(
        self, transport: asyncio.SubprocessTransport, pipes: _Pipes, limits: AcpLimits
    ) -> None:
        assert pipes.stdin is not None
        assert pipes.stdout is not None
        self.stdin: asyncio.StreamWriter = pipes.stdin
        self.stdout: asyncio.StreamReader = pipes.stdout
        self.pid = pipes.pid
        self.secrets: list[str] = []
        """Values that no error or event may contain."""
        self._transport = transport
        self._pipes = pipes
        self._limits = limits
        self._tail = b""
        self._stderr_reader = asyncio.create_task(self._read_stderr())

    async def describe_end(self) -> str:
        """Describe how a process that closed its output ended, with the end of its stderr."""
        has_exited = await self._exits_within(_EXIT_CODE_MS)
        await asyncio.wait({self._stderr_reader}, timeout=self._limits.exit_ms / 1000)
        code = self._transport.get_returncode() if has_exited else None
        how = "closed its output" if code is None else f"ended with code {code}"
        # More is kept than is shown: a secret must not be cut before it is found.
        tail = self.redact_text(self._tail.decode(errors="replace").strip())
        tail = tail[-self._limits.stderr_bytes :]
        return f"{how}: {tail}" if tail else how

    def redact_text(self, said: str) -> str:
        """A text of the agent without the values that `env` gave it."""
        for secret in self.secrets:
            if len(secret) >= _SECRET_CHARS:
                said = said.replace(secret, "***")
        return said

    def redact_value(self, value: Any) -> Any:
        """A JSON value with every text in it redacted."""
        match value:
            case str():
                return self.redact_text(value)
            case list():
                return [self.redact_value(it) for it in value]
            case dict():
                return {self.redact_text(k): self.redact_value(it) for k, it in value.items()}
            case _:
                return value

    async def stop(self) -> None:
        """Stop the group: close stdin, then SIGTERM, then SIGKILL."""
        try:
            self.stdin.close()
            if not await self._exits_within(self._limits.exit_ms):
                self._pipes.signal_group(signal.SIGTERM)
                await self._exits_within(self._limits.term_ms)
        finally:
            self._pipes.signal_group(signal.SIGKILL)
            try:
                await self._exits_within(_REAP_MS)
            finally:
                # A process that left the group may still hold the pipes; it is not waited for.
                self._transport.close()
                self._stderr_reader.cancel()

    async def _exits_within(self, patience_ms: int) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(patience_ms / 1000):
                await self._pipes.exited.wait()
        return self._pipes.exited.is_set()

    async def _read_stderr(self) -> None:
        stderr = self._pipes.stderr
        while stderr is not None and (said := await stderr.read(_CHUNK)):
            self._tail = (self._tail + said)[-2 * self._limits.stderr_bytes :]
