"""A process that executes samples and drives evals of a store until it is killed.

`python -m tests.torture.eval_node STORE_URL LOG_FILE`. Every call of its model is a line of a log:
which process asked for which sample, written before the answer.
"""

import asyncio
import os
import random
import sys
from collections.abc import AsyncGenerator

from awaken import Agent, AgentRuntime
from awaken.bootstrap.evals import build_eval_runner
from awaken.evals.preparing import EvalLimits
from awaken.mailbox.config import MailboxConfig
from awaken.models import InferenceRequest, ModelEvent
from awaken.testing import ScriptedModel, Turn

TOKENS = 30
"""What a scripted answer uses."""


class LoggedModel:
    """Answers after a moment, and writes down that it was asked."""

    name = "logged"

    def __init__(self, path: str) -> None:
        self._log = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    async def stream(self, request: InferenceRequest) -> AsyncGenerator[ModelEvent, None]:
        """Answer."""
        os.write(self._log, f"{os.getpid()} {request.messages[-1].text}\n".encode())
        answer = ScriptedModel([Turn("yes", delay_ms=random.randint(50, 500))])
        async for event in answer.stream(request):
            yield event


def make_runtime(url: str, log: str) -> AgentRuntime:
    """Make the runtime of a node; its leases are short, so that others take over soon."""
    config = MailboxConfig(
        lease_ms=900, renew_ms=250, sweep_ms=300, poll_ms=50, drain_ms=100, max_attempts=200
    )
    agent = Agent(id="agent", model=LoggedModel(log), instructions="Answer.")
    runtime = AgentRuntime([agent], store=url, mailbox=config)
    limits = EvalLimits(lease_ms=900)
    parts = runtime._parts
    made = build_eval_runner(parts.control, parts.node.worker_id, None, limits)
    runtime.__dict__["evals"] = made
    return runtime


async def main(url: str, log: str) -> None:
    """Execute and drive whatever there is."""
    async with make_runtime(url, log) as runtime:
        print("ready", flush=True)
        while True:
            await runtime._sweep_evals()
            await asyncio.sleep(0.1)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
