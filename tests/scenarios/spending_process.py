"""A process that runs samples of a group at once, and says what their models used.

    python -m tests.scenarios.spending_process STORE SCHEMA SAMPLES

For each line `GROUP CAP SEED` of its standard input it runs so many samples, and prints how many
tokens they used. A schema is for Postgres; `-` stands for none.
"""

import asyncio
import sys

from tests.scenarios.test_group_budgets import GROUP, Greedy, sample

from awaken import Agent, AgentRuntime, Budget
from awaken.models import InferenceRequest
from awaken.stores import PostgresStore
from awaken.testing import ScriptedModel, Turn


async def main(url: str, schema: str, samples: int) -> None:
    """Spend until the input ends."""
    greedy = Greedy(0)

    def answer(request: InferenceRequest) -> Turn:
        return greedy(request)

    agent = Agent(id="agent", model=ScriptedModel([answer], cycle=True), instructions="x")
    store = url if schema == "-" else PostgresStore(url, schema=schema)
    async with AgentRuntime([agent], store=store, has_worker=False) as runtime:
        print("ready", flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            group, cap, seed = line.split()
            greedy = Greedy(int(seed))
            budget = Budget(scope=GROUP, tokens=int(cap))
            runs = [runtime._engine.run(sample(group, budget)) for _ in range(samples)]
            await asyncio.gather(*runs)
            print(greedy.spent, flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
