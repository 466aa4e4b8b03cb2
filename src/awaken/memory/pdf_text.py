"""The text layer of a PDF, read by a process of its own, one at a time and within bounds."""

import asyncio
import contextlib
import importlib.util
import os
import sys
from math import ceil
from typing import Any

import msgspec

from awaken.contracts.memory.errors import UnreadableDocument
from awaken.contracts.memory.records import MemoryLimits

KILL_S = 5.0
"""How long a killed process may take to end."""


class PdfReader:
    """Reads PDFs one after the other: each takes a processor, and up to the memory of its bound."""

    def __init__(self, limits: MemoryLimits) -> None:
        self._limits = limits
        self._turn = asyncio.Lock()

    async def read(self, data: bytes) -> list[str]:
        """Return the text of each page.

        Raises:
            UnreadableDocument: It is no PDF, is encrypted, has no text, is too large, or takes too
                long; others are being read for too long; or the extra `pdf` is not installed.
        """
        if importlib.util.find_spec("pypdf") is None:
            problem = "PDF needs the extra 'pdf': pip install 'awaken[pdf]'"
            raise UnreadableDocument(problem=problem)
        pause_s = self._limits.pdf_ms / 1000
        try:
            async with asyncio.timeout(2 * pause_s):
                await self._turn.acquire()
        except TimeoutError as error:
            problem = "other PDFs are being read; send it again later"
            raise UnreadableDocument(problem=problem) from error
        try:
            answer = await self._ask_process(data, pause_s)
        finally:
            self._turn.release()
        if "problem" in answer:
            raise UnreadableDocument(problem=answer["problem"])
        pages: list[str] = answer["pages"]
        if not any(page.strip() for page in pages):
            raise UnreadableDocument(problem="it has no text layer; run OCR over it first")
        return pages

    async def _ask_process(self, data: bytes, pause_s: float) -> dict[str, Any]:
        limits = self._limits
        bounds = (limits.pdf_pages, limits.document_chars, limits.pdf_memory_bytes, ceil(pause_s))
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",
            "-m",
            "awaken.memory.pdf_process",
            *map(str, bounds),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            # The parser gets none of the server's secrets.
            env={"PYTHONPATH": os.pathsep.join(it for it in sys.path if it)},
        )
        try:
            async with asyncio.timeout(pause_s):
                written, _ = await process.communicate(data)
        except TimeoutError as error:
            problem = f"its text was not read within {limits.pdf_ms} ms"
            raise UnreadableDocument(problem=problem) from error
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(KILL_S):
                        await process.wait()
        try:
            return msgspec.json.decode(written, type=dict[str, Any])
        except msgspec.DecodeError as error:
            # It was ended by a bound of the system.
            problem = "it takes too much time or memory to read"
            raise UnreadableDocument(problem=problem) from error
