"""An eval whose samples execute a tool with an effect in reality, and a process that dies in it.

`python -m tests.torture.eval_effects STORE_URL FOLDER` executes samples and drives evals until it
is killed: by the tool, when it has written down that it was executed and nothing else.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path

from awaken import Agent, AgentRuntime, tool
from awaken.bootstrap.evals import build_eval_runner
from awaken.contracts.evals.cases import Case
from awaken.contracts.evals.eval_runs import EvalItem, EvalSpec
from awaken.contracts.evals.scores import ScorerSpec
from awaken.contracts.evals.worlds import ToolPolicy, ToolSource, Variant
from awaken.evals.driving import list_items
from awaken.evals.evaluating import Dataset, keep_dataset
from awaken.evals.preparing import EvalLimits
from awaken.mailbox.config import MailboxConfig
from awaken.models import InferenceRequest
from awaken.stores.postgres import PostgresStore
from awaken.testing import ScriptedModel, Turn

REAL = ToolPolicy(source=ToolSource.LIVE, allow_live=("*",), allow_effects=True)


def answer(request: InferenceRequest) -> Turn:
    """Call the tool for each input, and then answer."""
    if request.messages[-1].role == "tool":
        return Turn("done")
    return Turn(calls=[("send", {"to": request.messages[-1].text})])


def make_runtime(url: str, folder: Path, *, is_doomed: bool) -> AgentRuntime:
    """Make a runtime whose tool writes each execution down; a doomed one dies in the first."""

    @tool(effect="once")
    async def send(to: str) -> str:
        """Send a letter."""
        log = os.open(folder / "sent.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(log, f"{to}\n".encode())
        os.close(log)
        if is_doomed:
            os.kill(os.getpid(), signal.SIGKILL)
        return "sent"

    config = MailboxConfig(lease_ms=900, renew_ms=250, sweep_ms=300, poll_ms=50, drain_ms=100)
    agent = Agent("agent", model=ScriptedModel([answer], cycle=True), tools=[send])
    place, _, schema = url.partition("#")
    store = PostgresStore(place, schema=schema) if schema else url
    runtime = AgentRuntime([agent], store=store, mailbox=config)
    parts = runtime._parts
    limits = EvalLimits(lease_ms=900)
    made = build_eval_runner(parts.control, parts.node.worker_id, None, limits)
    runtime.__dict__["evals"] = made
    return runtime


async def create_eval(url: str, folder: Path, samples: int) -> str:
    """Plan the eval; no process drives it yet."""
    runtime = make_runtime(url, folder, is_doomed=False).with_options(has_worker=False)
    async with runtime:
        cases = tuple(
            Case(
                id=f"c{no}",
                user_input=f"to {no}",
                tools=REAL,
                scorers=(ScorerSpec(scorer="contains", options={"phrases": ["done"]}),),
            )
            for no in range(samples)
        )
        await keep_dataset(runtime.evals.parts.evals, Dataset(cases=cases))
        variants = (Variant(name="v", agent_id="agent"),)
        spec = EvalSpec(dataset_id="dataset", variants=variants, repeats=1, concurrency=1)
        return (await runtime.evals.create(spec)).eval_id


async def finish_eval(url: str, folder: Path, eval_id: str) -> list[EvalItem]:
    """Drive an eval to its end in this process, and return its items."""
    async with make_runtime(url, folder, is_doomed=False) as runtime:
        await runtime.evals.wait(eval_id, 120_000)
        return await list_items(runtime.evals.parts.evals, eval_id)


async def main(url: str, folder: str) -> None:
    """Execute and drive whatever there is, until the tool ends it."""
    async with make_runtime(url, Path(folder), is_doomed=True) as runtime:
        while True:
            await runtime._sweep_evals()
            await asyncio.sleep(0.1)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
