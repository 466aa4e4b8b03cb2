"""Replays of runs in which people decide, and of runs that start tasks."""

import asyncio
from pathlib import Path

import pytest

from awaken import Agent, AgentRuntime, ToolContext, tool
from awaken.contracts.evals.replays import ReplayMode, ReplaySpec
from awaken.contracts.evals.worlds import CallMatch
from awaken.evals import ToolPolicy, Variant
from awaken.models import InferenceRequest
from awaken.testing import ScriptedModel, Turn
from awaken.tools import TaskContext

NUMBERS = iter(range(1_000_000))
PAID: list[int] = []


@tool(effect="once", approval=True)
async def pay(amount: int) -> str:
    """Pay."""
    PAID.append(amount)
    return f"paid {amount}"


def answer(request: InferenceRequest) -> Turn:
    """Call with an id of its own each time, as a real model does."""
    results = [it.text for it in request.messages if it.role == "tool"]
    if results:
        return Turn(f"So: {results[-1]}")
    amount = 5_000 if "generous" in " ".join(request.system) else 5
    return Turn(calls=[("pay", {"amount": amount}, f"live_{next(NUMBERS)}")])


def make_agent() -> Agent:
    model = ScriptedModel([answer], cycle=True)
    return Agent("payer", model=model, instructions="Pay bills.", tools=[pay])


def test_a_what_if_takes_the_decision_on_an_equal_call_whatever_id_the_call_has() -> None:
    async def main() -> None:
        async with AgentRuntime([make_agent()], history="full") as runtime:
            for action, text in (("resume", "So: paid 5"), ("cancel", None)):
                waiting = await runtime.run("payer", "Pay my bill.")
                (ticket,) = waiting.tickets
                await runtime.decide(ticket.ticket_id, action)
                done = await runtime.wait(waiting.run_id)
                paid = list(PAID)
                assert (await runtime.replays.verify(waiting.run_id)).is_same
                for mode in (ReplayMode.WHAT_IF, ReplayMode.SIMULATE):
                    spec = ReplaySpec(mode=mode, keep_going=True)
                    found = await runtime.replays.replay(waiting.run_id, spec)
                    assert found.ended == "natural_end", (mode, found.divergences)
                    if mode is ReplayMode.WHAT_IF:
                        assert found.is_same, found.divergences
                        assert found.replayed.run.final_output == done.text
                        assert text in (None, done.text)
                assert paid == PAID

    PAID.clear()
    asyncio.run(main())
    assert PAID == [5]


@pytest.mark.parametrize("action", ["resume", "cancel"])
def test_decisions_outlive_the_log_of_their_run(action: str, tmp_path: Path) -> None:
    """Tickets stay when the log is purged: what was decided is decided again."""

    async def main() -> None:
        url = f"sqlite:///{tmp_path}/a.db"
        async with AgentRuntime([make_agent()], store=url) as runtime:
            waiting = await runtime.run("payer", "Pay my bill.")
            (ticket,) = waiting.tickets
            await runtime.decide(ticket.ticket_id, action)
            done = await runtime.wait(waiting.run_id)
            await runtime.store.purge(1 << 50)
            paid = list(PAID)
            found = await runtime.replays.verify(waiting.run_id)
            assert "the log was purged" in found.incomplete[0]
            assert found.is_same, found.divergences
            assert found.replayed.run.final_output == done.text
            assert paid == PAID

    asyncio.run(main())


def test_a_decision_on_other_arguments_is_not_taken() -> None:
    async def main() -> None:
        async with AgentRuntime([make_agent()], history="full") as runtime:
            waiting = await runtime.run("payer", "Pay my bill.")
            await runtime.decide(waiting.tickets[0].ticket_id)
            await runtime.wait(waiting.run_id)
            for match in CallMatch:
                spec = ReplaySpec(
                    mode=ReplayMode.WHAT_IF,
                    variant=Variant(name="v", instructions="Be generous."),
                    tools=ToolPolicy(match=match),
                )
                found = await runtime.replays.replay(waiting.run_id, spec)
                assert found.ended is None, match
                assert found.replayed.run.waits_for is not None

    asyncio.run(main())


def test_a_run_whose_tool_started_a_task_verifies() -> None:
    started: list[str] = []

    async def index(task: TaskContext) -> dict[str, int]:
        started.append(task.task_id)
        return {"pages": 20}

    @tool(effect="idempotent")
    async def start_indexing(ctx: ToolContext) -> str:
        """Index the documents in the background."""
        task = await ctx.spawn(index, name="index")
        return f"started {task.name}"

    def tell(request: InferenceRequest) -> Turn:
        text = request.messages[-1].text
        if '"pages":20' in text:
            return Turn("20 pages.")
        is_begun = request.messages[-1].role == "tool"
        return Turn("I have begun.") if is_begun else Turn(calls=[("start_indexing", {})])

    async def main() -> None:
        agent = Agent("a", model=ScriptedModel([tell], cycle=True), tools=[start_indexing])
        async with AgentRuntime([agent], history="full") as runtime:
            done = await runtime.run("a", "Index everything.", thread_id="t")
            assert done.text == "20 pages."
            found = await runtime.replays.verify(done.run_id)
            assert found.is_same, found.divergences
            assert len(started) == 1

    asyncio.run(main())
