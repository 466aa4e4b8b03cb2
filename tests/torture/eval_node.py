"""A process that executes samples and drives evals of a store until it is killed.

`python -m tests.torture.eval_node STORE_URL LOG_FILE`; a URL of Postgres ends in `#schema`. With
the option `--dies-after-item` it kills itself as soon as it has written an item.
Every call of its model is a line of a log: which process asked for which sample, written before the
answer.
"""

import asyncio
import os
import random
import signal
import sys
from collections.abc import AsyncGenerator
from typing import Any

from awaken import Agent, AgentRuntime
from awaken.bootstrap.evals import build_eval_runner
from awaken.contracts.evals.store import EvalStore
from awaken.evals.preparing import EvalLimits
from awaken.mailbox.config import MailboxConfig
from awaken.models import InferenceRequest, ModelEvent
from awaken.stores.postgres import PostgresStore
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
    place, _, schema = url.partition("#")
    store = PostgresStore(place, schema=schema) if schema else url
    runtime = AgentRuntime([agent], store=store, mailbox=config)
    limits = EvalLimits(lease_ms=900)
    parts = runtime._parts
    made = build_eval_runner(parts.control, parts.node.worker_id, None, limits)
    runtime.__dict__["evals"] = made
    return runtime


def die_after_item(evals: EvalStore) -> None:
    """Kill this process when an item is written, before it can do anything else."""
    put = evals.put_eval_item

    async def put_and_die(*given: Any) -> bool:
        await put(*given)
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError

    evals.put_eval_item = put_and_die  # type: ignore[method-assign]


async def main(url: str, log: str, *options: str) -> None:
    """Execute and drive whatever there is."""
    async with make_runtime(url, log) as runtime:
        if "--dies-after-item" in options:
            die_after_item(runtime.evals.parts.evals)
        print("ready", flush=True)
        while True:
            await runtime._sweep_evals()
            await asyncio.sleep(0.1)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
