"""A support desk of a bank, ported from Pydantic AI.

Original: `examples/pydantic_ai_examples/bank_support.py` of `pydantic/pydantic-ai` at commit
4fda38988f2939fa6ea9cdefcf120693e10ef491: 77 lines that are not blank. Nothing is copied.
`MODEL=openai:gpt-5-mini` runs it with a real model.
There, one object carries the customer and the database. Here, the customer is the context of the
run, which is stored with it; the database belongs to the process.
"""

import asyncio
import os
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass

from awaken import Agent, AgentRuntime, RunContext, ToolContext, tool
from awaken.testing import ScriptedModel, ToolCalls


@dataclass
class Client:
    """Who asks: the context of a run."""

    account: int


@dataclass
class Advice:
    """What the desk answers."""

    answer: str
    freeze_card: bool
    risk: int


@asynccontextmanager
async def open_bank() -> AsyncIterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as bank:
        bank.execute("CREATE TABLE accounts(number INTEGER, owner TEXT, cents INTEGER)")
        bank.execute("INSERT INTO accounts VALUES (7, 'Noor', 4250)")
        yield bank


def instruct(ctx: RunContext[sqlite3.Connection, Client]) -> str:
    return (
        f"Help the owner of account {ctx.context.account}. Rate the risk of the question, 0 to 10."
    )


@tool(effect="none")
async def read_account(ctx: ToolContext[sqlite3.Connection, Client]) -> str:
    """Read the owner and the balance of the client's account."""
    query = "SELECT owner, cents FROM accounts WHERE number = ?"
    row = ctx.deps.execute(query, (ctx.context.account,)).fetchone()
    if row is None:
        raise ValueError(f"there is no account {ctx.context.account}")
    return f"{row[0]} has {row[1] / 100:.2f} euros"


SCRIPT = ScriptedModel(
    [
        ToolCalls([("read_account", {})]),
        '{"answer": "Noor, you have 42.50 euros.", "freeze_card": false, "risk": 1}',
        '{"answer": "Your card is frozen, Noor.", "freeze_card": true, "risk": 8}',
    ]
)
desk = Agent(
    "desk",
    model=os.environ.get("MODEL") or SCRIPT,
    instructions=instruct,
    tools=[read_account],
    context_type=Client,
    output_type=Advice,
)


async def main() -> None:
    async with AgentRuntime([desk], deps=open_bank) as runtime:
        for question in ("How much money do I have?", "My card is gone!"):
            result = await runtime.run(desk, question, thread_id="noor", context=Client(7))
            assert result.output is not None
            print(f"risk {result.output.risk}: {result.output.answer}")


if __name__ == "__main__":
    asyncio.run(main())
