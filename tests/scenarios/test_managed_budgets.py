"""A budget that an operator publishes holds for the runs that begin after it."""

import asyncio

from awaken import Agent, AgentRuntime, NaturalEnd
from awaken.managed.parts import Author
from awaken.managed.records import RecordWrite
from awaken.testing import ScriptedModel

WRITE = RecordWrite(namespace="budgets", id="cap", author=Author(id="ann"))


def test_a_published_budget_holds_for_new_runs_until_it_is_removed() -> None:
    async def scenario() -> None:
        agent = Agent("a", model=ScriptedModel(["one", "two", "three"]))
        async with AgentRuntime([agent], managed=True) as runtime:
            assert runtime.managed is not None
            records = runtime.managed.records
            assert isinstance((await runtime.run("a", "hello")).termination, NaturalEnd)
            await records.put(WRITE, {"scope": "runtime", "tokens": 1})
            stopped = await runtime.run("a", "hello")
            assert not isinstance(stopped.termination, NaturalEnd)
            await records.delete(WRITE)
            assert isinstance((await runtime.run("a", "hello")).termination, NaturalEnd)

    asyncio.run(scenario())
