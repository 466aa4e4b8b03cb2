"""One process and everything below it: bounded in time and output, and gone afterwards."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

from awaken.contracts.record import Record

CHUNK = 65_536
GRACE_SECONDS = 5
"""How long the end of a killed process, and of its output, is waited for."""


class Finished(Record, frozen=True, kw_only=True):
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
) -> Finished:
    """Run a command without input, in a process group of its own that does not outlive the call.

    Raises:
        TimeoutError: It was not done in time; it has been killed.
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
            await _killed(process)
            # The rest of a sandbox ends after the process that is known here. What left the group
            # may hold a pipe for ever; what it writes is nobody's output.
            await asyncio.wait({out.reading, err.reading}, timeout=GRACE_SECONDS)
        return Finished(exit_code=exit_code, stdout=out, stderr=err)


async def _killed(process: asyncio.subprocess.Process) -> None:
    """Kill what is left of the group; the process itself is waited for."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(GRACE_SECONDS):
            await process.wait()


class Output:
    """One stream of a process: its beginning is kept, and whether there was more.

    A pipe of its own: the end of the process is told at once, even when something that left its
    group still holds the other end.
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
