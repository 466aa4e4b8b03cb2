"""Runs one process and its descendants, bounded in time and output, and kills what is left."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

from awaken.contracts.record import Record

CHUNK = 65_536
GRACE_SECONDS = 5
"""How long to wait for a killed process, and for the end of its output."""


class ProcessOutcome(Record, frozen=True, kw_only=True):
    """How a process ended."""

    exit_code: int
    stdout: "Output"
    stderr: "Output"


async def run_process(
    command: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    timeout_s: float,
    output_bytes: int,
) -> ProcessOutcome:
    """Run a command without input, in its own process group, which does not outlive the call.

    Raises:
        TimeoutError: It did not finish in time and was killed.
        OSError: It could not be started.
    """
    async with Output(output_bytes) as out, Output(output_bytes) as err:
        process = await asyncio.create_subprocess_exec(
            *command,
            cwd=cwd,
            env=dict(env),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=out.writing_end,
            stderr=err.writing_end,
            start_new_session=True,
        )
        out.close_writing_end()
        err.close_writing_end()
        try:
            async with asyncio.timeout(timeout_s):
                exit_code = await process.wait()
        finally:
            await _kill_group(process)
            # Other processes of a sandbox end after the process that is known here. A process that
            # left the group may hold a pipe forever; its output is discarded.
            await asyncio.wait({out.reading, err.reading}, timeout=GRACE_SECONDS)
        return ProcessOutcome(exit_code=exit_code, stdout=out, stderr=err)


async def _kill_group(process: asyncio.subprocess.Process) -> None:
    """Kill what is left of the group, and wait for the process itself."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(GRACE_SECONDS):
            await process.wait()


class Output:
    """One output stream of a process: keeps its beginning, and whether there was more.

    It has its own pipe, so that the end of the process is noticed at once, even when a process
    that left the group still holds the other end.
    """

    reading: asyncio.Task[None]

    def __init__(self, cap: int) -> None:
        self.kept = bytearray()
        self.is_cut = False
        self.writing_end = -1
        self._cap = cap
        self._stream = asyncio.StreamReader(limit=CHUNK)

    async def __aenter__(self) -> "Output":
        reading_end, self.writing_end = os.pipe()
        self._transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(self._stream), os.fdopen(reading_end, "rb")
        )
        self.reading = asyncio.create_task(self._read(), name="skill-output")
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close_writing_end()
        self.reading.cancel()
        await asyncio.wait({self.reading})
        self._transport.close()

    def close_writing_end(self) -> None:
        """Leave the writing end to the process."""
        if self.writing_end >= 0:
            os.close(self.writing_end)
            self.writing_end = -1

    async def _read(self) -> None:
        """Read to the end; never holds more than the cap and one chunk."""
        while data := await self._stream.read(CHUNK):
            room = self._cap - len(self.kept)
            self.kept += data[:room]
            self.is_cut = self.is_cut or len(data) > room
