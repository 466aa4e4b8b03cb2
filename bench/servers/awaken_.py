"""awaken: `awaken serve servers/awaken_.py`, or as an ASGI app on the stack of the others.

DB=1 keeps everything in SQLite with full fsync. STREAMS is how many streams it serves at once;
otherwise its limits are the defaults, of which those per caller do not hold on this machine.
"""

import asyncio
import os
from collections.abc import AsyncGenerator
from pathlib import Path

from awaken import Agent, AgentRuntime
from awaken.contracts.messages.deltas import TextDelta
from awaken.contracts.models.inference import InferenceRequest, ModelEvent, Stop, StopReason
from awaken.server.config import ServerConfig, ServerLimits
from awaken_adapter import HarnessModel
from common import SYSTEM, TOOLS
from servers.listening import listen

FLOOD_PIECE = "x" * 16 * 1024
FLOOD_GAP_S = 0.004


class FloodModel:
    """Says 4 MB a second for minutes: more than any connection holds for who does not read."""

    name = "flood"

    async def stream(self, request: InferenceRequest) -> AsyncGenerator[ModelEvent, None]:
        """Play one turn."""
        for _ in range(100_000):
            await asyncio.sleep(FLOOD_GAP_S)
            yield TextDelta(delta=FLOOD_PIECE)
        yield Stop(reason=StopReason.END_TURN)


bench = Agent("bench", model=HarnessModel(), instructions=SYSTEM, tools=list(TOOLS))
flood = Agent("flood", model=FloodModel(), instructions=SYSTEM)
store = f"sqlite:///{Path.cwd() / 'bench.db'}" if os.environ.get("DB") else None
runtime = AgentRuntime([bench, flood], store=store)
streams = int(os.environ.get("STREAMS") or ServerLimits().streams)
config = ServerConfig(limits=ServerLimits(streams=streams))

if __name__ == "__main__":
    listen(runtime.asgi(config))
