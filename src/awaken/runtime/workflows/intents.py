"""Intents of calls with an effect: durable before their calls begin, many in one commit."""

import asyncio

from awaken.contracts.storage.store import ToolRecord
from awaken.runtime.run import Run


class IntentWriter:
    """Writes the intents of one run; branches that begin together wait for one commit."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._lock = asyncio.Lock()

    async def write(self, intent: ToolRecord) -> None:
        """Return when an intent is durable.

        While one commit is on its way, the intents of all others are collected: the next one
        writes them all.
        """
        journal = self._run.journal
        async with self._lock:
            if any(it is intent for it in journal.tool_records):
                await self._run.flush()
