"""What a run in a trial begins, or what is begun by its end, is in the trial as well."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from awaken import Agent, AgentRuntime, ToolContext, WorkflowContext, tool, workflow
from awaken.contracts.evals.eval_runs import EvalSpec
from awaken.contracts.runs.records import RunKind, RunRequest
from awaken.evals import Case, Dataset, EvalResult, Variant, evaluate, scorers
from awaken.evals.driving import list_items
from awaken.evals.evaluating import keep_dataset
from awaken.messages import user
from awaken.models import InferenceRequest
from awaken.testing import ScriptedModel, Turn
from awaken.tools import TaskContext

EXECUTED: list[str] = []


@tool(effect="once")
async def send(to: str) -> str:
    """Send a letter."""
    EXECUTED.append(to)
    return "sent"


def call_once(request: InferenceRequest) -> Turn:
    """Call `send` for each input, and then answer."""
    if request.messages[-1].role == "tool":
        return Turn("done")
    return Turn(calls=[("send", {"to": "ann"})])


def make_sender() -> Agent:
    model = ScriptedModel([call_once], cycle=True)
    return Agent("sender", model=model, tools=[send], description="Sends.")


def evaluate_workflow(flow: Any, value: dict[str, Any]) -> EvalResult:
    text = msgspec.json.encode(value).decode()
    dataset = Dataset(
        cases=(Case(id="one", user_input=text),), scorers=(scorers.excludes("nothing"),)
    )
    EXECUTED.clear()
    variants = [Variant(name="v", agent_id=flow.id)]
    agents = [make_sender(), flow]
    return asyncio.run(evaluate(dataset, agents, variants=variants, mode="live", repeats=1))


@workflow(tools=[send])
async def relay(ctx: WorkflowContext, round: int) -> str:
    """Send in the second round, which is a run of its own."""
    if round == 1:
        ctx.continue_as_new({"round": 2})
    return await ctx.call(send, "ann")


@workflow
async def launch(ctx: WorkflowContext, prompt: str) -> str:
    """Start an agent that outlives the run."""
    return await ctx.start("sender", prompt)


def test_a_workflow_of_a_sample_that_continues_as_new_stays_in_its_world() -> None:
    evaluate_workflow(relay, {"round": 1})
    assert EXECUTED == []


def test_a_sample_is_scored_by_the_run_as_which_its_workflow_continued() -> None:
    async def count(ctx: WorkflowContext, left: int) -> str:
        """Count down, each number in a run of its own."""
        if left:
            ctx.continue_as_new({"left": left - 1})
        return "nothing is left"

    result = evaluate_workflow(workflow(count), {"left": 2})
    (item,) = result.items
    # Its scorer excludes "nothing", which only the last run says.
    assert [it.passed for it in item.scores] == [False]


def test_the_end_of_an_agent_that_a_sample_started_begins_no_run_in_reality() -> None:
    # The workflow takes any text, so it would begin again with the news of the agent's end.
    evaluate_workflow(launch, {"prompt": "Write to Ann."})
    assert EXECUTED == []


def test_a_run_that_the_news_of_a_task_begins_on_a_preview_asks_before_effects() -> None:
    go_on = asyncio.Event()

    async def work(task: TaskContext) -> str:
        await go_on.wait()
        return "over"

    @tool(effect="none")
    async def begin(ctx: ToolContext) -> str:
        """Begin the work."""
        await ctx.spawn(work, name="work", fate="detach")
        return "begun"

    def answer(request: InferenceRequest) -> Turn:
        last = request.messages[-1]
        if last.role == "tool":
            return Turn("done")
        return Turn(
            calls=[("send", {"to": "ann"})] if "completed" in last.text else [("begin", {})]
        )

    async def main() -> list[str]:
        agent = Agent("a", model=ScriptedModel([answer], cycle=True), tools=[begin, send])
        async with AgentRuntime([agent]) as runtime:
            request = RunRequest(
                agent_id="a", thread_id="t", messages=(user("Go."),), purpose=RunKind.PREVIEW
            )
            await (await runtime.start(request)).result()
            go_on.set()
            return await wait_for_ticket(runtime)

    EXECUTED.clear()
    assert asyncio.run(main()) == ["send"]
    assert EXECUTED == []


@pytest.mark.parametrize("is_branched", [False, True], ids=["thread", "branch"])
def test_a_person_who_goes_on_with_a_fork_is_asked_before_effects(
    is_branched: bool, tmp_path: Path
) -> None:
    async def main() -> None:
        model = ScriptedModel([call_once], cycle=True)
        store = f"sqlite:///{tmp_path}/s.db"
        async with (
            asyncio.timeout(60),
            AgentRuntime([Agent("a", model=model, tools=[send])], store=store) as runtime,
        ):
            original = await runtime.run("a", "Go.", thread_id="t")
            assert EXECUTED == ["ann"]
            fork = await runtime.replays.fork(original.run_id, step=2)
            await runtime.wait(fork.run.run_id)
            thread_id = fork.thread.id
            for _ in range(2 if is_branched else 0):
                # A branch of a branch, as a person who edits a message twice makes it.
                thread_id = (await runtime.fork(thread_id)).id
            asked = await runtime.run("a", "Again.", thread_id=thread_id)
            assert [it.tool_name for it in asked.tickets] == ["send"]
            assert EXECUTED == ["ann"]
            await runtime.decide(asked.tickets[0].ticket_id)
            await runtime.wait(asked.run_id)
            assert EXECUTED == ["ann", "ann"]
            # The turns after it are asked about as well.
            more = await runtime.run("a", "Once more.", thread_id=thread_id)
            assert [it.tool_name for it in more.tickets] == ["send"]
            # The original goes on as it was, and so does a branch of it.
            await runtime.run("a", "Go.", thread_id="t")
            branch = await runtime.fork("t")
            await runtime.run("a", "Go.", thread_id=branch.id)
            assert len(EXECUTED) == 4
            # Whoever allowed the effects of a fork has allowed those of its thread.
            allowed = await runtime.replays.fork(original.run_id, step=2, allow_effects=True)
            await runtime.wait(allowed.run.run_id)
            await runtime.run("a", "Go.", thread_id=allowed.thread.id)
            assert len(EXECUTED) == 5

    EXECUTED.clear()
    asyncio.run(main())


def test_a_person_who_goes_on_with_a_sample_is_asked_before_effects() -> None:
    async def main() -> None:
        async with asyncio.timeout(60), AgentRuntime([make_sender()]) as runtime:
            evals = runtime.evals
            dataset = Dataset(
                id="d", cases=(Case(id="c", user_input="Go."),), scorers=(scorers.excludes("x"),)
            )
            await keep_dataset(evals.parts.evals, dataset)
            spec = EvalSpec(
                dataset_id="d", variants=(Variant(name="v", agent_id="sender"),), repeats=1
            )
            record = await evals.create(spec)
            evals.start(record.eval_id)
            await evals.wait(record.eval_id)
            (item,) = await list_items(evals.parts.evals, record.eval_id)
            sample = await runtime.get_run(item.run_id or "")
            asked = await runtime.run("sender", "Again.", thread_id=sample.thread_id)
            assert [it.tool_name for it in asked.tickets] == ["send"]

    EXECUTED.clear()
    asyncio.run(main())
    assert EXECUTED == []


async def wait_for_ticket(runtime: AgentRuntime) -> list[str]:
    """Wait until the thread has a ticket or the letter was sent."""
    async with asyncio.timeout(20):
        while True:
            tickets = await runtime.tickets("t")
            if tickets or EXECUTED:
                return [it.tool_name for it in tickets]
            await asyncio.sleep(0.01)
