"""What drivers of evals promise when several of them work, and with what a sample begins."""

import asyncio
from collections import Counter
from typing import Any

import msgspec
import pytest

from awaken import Agent, AgentRuntime
from awaken.contracts.evals.cases import Case
from awaken.contracts.evals.eval_runs import EvalMode, EvalSpec, EvalStatus, ItemStatus
from awaken.contracts.evals.scores import ScorerSpec, ScoreSource
from awaken.contracts.evals.store import ScoreQuery
from awaken.contracts.evals.worlds import ScriptedTurn, Variant
from awaken.contracts.models.budgets import Budget, BudgetScope
from awaken.contracts.runs.records import RunRequest
from awaken.contracts.tools.tool import ToolDescriptor
from awaken.evals import evaluate, scorers
from awaken.evals.driving import EvalDriver, list_items
from awaken.evals.evaluating import Dataset, keep_dataset
from awaken.evals.preparing import prepare_eval
from awaken.messages import assistant, user
from awaken.models import InferenceRequest
from awaken.testing import ScriptedModel, Turn

SAYS = ScorerSpec(scorer="contains", options={"phrases": ["yes"]})


def make_runtime(asked: list[InferenceRequest]) -> AgentRuntime:
    def answer(request: InferenceRequest) -> Turn:
        asked.append(request)
        return Turn("yes", delay_ms=1)

    return AgentRuntime(
        [Agent(id="agent", model=ScriptedModel([answer] * 99), instructions="Answer.")],
        history="full",
    )


async def create(runtime: AgentRuntime, *cases: Case, **fields: Any) -> Any:
    dataset = Dataset(cases=cases, id="d", scorers=(SAYS,))
    await keep_dataset(runtime.evals.parts.evals, dataset)
    variants = (Variant(name="v", agent_id="agent"),)
    return await runtime.evals.create(EvalSpec(dataset_id="d", variants=variants, **fields))


def test_evals_beyond_those_at_once_begin_when_others_end() -> None:
    async def main() -> None:
        asked: list[InferenceRequest] = []
        async with asyncio.timeout(120), make_runtime(asked) as runtime:
            evals, seen = runtime.evals, Counter[str]()
            evals.on_change.append(lambda it: seen.update([it.status.value]))
            made = [await create(runtime, Case(id="c", user_input="hi"), repeats=1)]
            made += [
                await evals.create(msgspec.structs.replace(made[0].spec, id=None)) for _ in range(6)
            ]
            at_once = evals.parts.limits.evals_at_once
            assert [evals.start(it.eval_id) for it in made] == [True] * at_once + [False] * 5
            # No sweep of the runtime, and nobody who waits for one of them.
            while seen["done"] < len(made):
                await asyncio.sleep(0.01)
            assert seen == {"planned": 7, "running": 7, "done": 7}
            assert len(asked) == 7

    asyncio.run(main())


def test_two_drivers_at_once_submit_write_and_score_every_sample_once() -> None:
    async def main() -> None:
        asked: list[InferenceRequest] = []
        async with asyncio.timeout(120), make_runtime(asked) as runtime:
            cases = [Case(id=f"c{no}", user_input="hi") for no in range(4)]
            record = await create(runtime, *cases, repeats=3)
            parts = runtime.evals.parts
            running = msgspec.structs.replace(record, status=EvalStatus.RUNNING)
            assert await parts.evals.update_eval(running, was=EvalStatus.PLANNED)
            prepared = await prepare_eval(parts, record.spec, record.publications)
            told: list[int] = []
            drivers = [
                EvalDriver(parts, running, prepared, lambda _, item: told.append(item.number))
                for _ in range(2)
            ]
            await asyncio.gather(*(it.drive() for it in drivers))
            items = await list_items(parts.evals, record.eval_id)
            assert [it.number for it in items] == list(range(12))
            assert len(asked) == 12, "a sample was submitted twice"
            assert sorted(told) == list(range(12)), "an item was told twice"
            query = ScoreQuery(source=ScoreSource.EVAL, limit=1_000)
            stored = Counter(it.run_id for it in await parts.evals.list_scores(query))
            assert set(stored.values()) == {1}, "the scores of an item were written twice"
            assert len(stored) == 12

    asyncio.run(main())


@pytest.mark.parametrize("is_scripted", [False, True])
def test_a_sample_begins_with_the_state_and_the_history_of_its_case(is_scripted: bool) -> None:
    async def main() -> None:
        asked: list[InferenceRequest] = []
        async with asyncio.timeout(120), make_runtime(asked) as runtime:
            case = Case(
                id="c",
                user_input="hi",
                history=(user("before"), assistant("then")),
                state={"cart": [1, 2], "old": {"version": 3, "data": "x"}},
                provider_script=(ScriptedTurn(text="yes"),) if is_scripted else (),
            )
            mode = EvalMode.SCRIPTED if is_scripted else EvalMode.LIVE
            record = await create(runtime, case, repeats=1, mode=mode)
            runtime.evals.start(record.eval_id)
            ended = await runtime.evals.wait(record.eval_id, 60_000)
            assert ended.status is EvalStatus.DONE, ended.problem
            (item,) = await list_items(runtime.evals.parts.evals, record.eval_id)
            assert item.status is ItemStatus.SCORED, item.error
            assert item.run_id is not None
            recording = await runtime.replays.record(item.run_id)
            kept = recording.state.thread
            assert (bytes(kept["cart"].data), kept["cart"].version) == (b"[1,2]", 1)
            assert (bytes(kept["old"].data), kept["old"].version) == (b'"x"', 3)
            assert [it.text for it in recording.history] == ["before", "then"]
            if not is_scripted:
                texts = [it.text for it in asked[0].messages[:3]]
                assert texts == ["before", "then", "hi"]

    asyncio.run(main())


def test_a_case_of_a_run_on_a_thread_with_state_is_verified() -> None:
    async def main() -> None:
        asked: list[InferenceRequest] = []
        async with asyncio.timeout(120), make_runtime(asked) as runtime:
            case = Case(id="c", user_input="hi", state={"cart": [1]})
            first = await create(runtime, case, repeats=1)
            runtime.evals.start(first.eval_id)
            await runtime.evals.wait(first.eval_id, 60_000)
            (item,) = await list_items(runtime.evals.parts.evals, first.eval_id)
            recording = await runtime.replays.record(item.run_id or "")
            dataset = Dataset(cases=(), id="e", scorers=(SAYS,)).with_recorded(
                Case(id="r", recording="0" * 32), recording
            )
            await keep_dataset(runtime.evals.parts.evals, dataset)
            variants = (Variant(name="v", agent_id="agent"),)
            spec = EvalSpec(dataset_id="e", variants=variants, mode=EvalMode.VERIFY)
            made = await runtime.evals.create(spec)
            runtime.evals.start(made.eval_id)
            ended = await runtime.evals.wait(made.eval_id, 60_000)
            (again,) = await list_items(runtime.evals.parts.evals, made.eval_id)
            assert (ended.status, again.status) == (EvalStatus.DONE, ItemStatus.SCORED), again
            kept = (await runtime.replays.record(again.run_id or "")).state.thread
            assert bytes(kept["cart"].data) == b"[1]"
            assert len(asked) == 1

    asyncio.run(main())


@pytest.mark.parametrize("mode", [EvalMode.VERIFY, EvalMode.RECORDED, EvalMode.LIVE])
def test_a_sample_is_asked_with_what_the_client_of_the_recorded_run_brought(mode: EvalMode) -> None:
    schema = {"type": "object", "properties": {"colour": {"type": "string"}}}
    picked = ToolDescriptor(id="pick", name="pick", description="Pick.", parameters={})
    asked: list[InferenceRequest] = []

    def answer(request: InferenceRequest) -> Turn:
        asked.append(request)
        is_picked = request.messages[-1].role == "tool"
        return Turn('{"colour": "red"}') if is_picked else Turn(calls=[("pick", {})])

    def make_agent() -> Agent:
        return Agent(id="agent", model=ScriptedModel([answer] * 9), instructions="Answer.")

    async def main() -> None:
        async with AgentRuntime([make_agent()], history="full") as runtime:
            request = RunRequest(
                agent_id="agent",
                messages=(user("hi"),),
                frontend_tools=(picked,),
                output_schema=schema,
                budgets=(Budget(scope=BudgetScope.RUN, tokens=9_000),),
            )
            waiting = await runtime._engine.run(request)
            await runtime.decide(waiting.tickets[0].ticket_id, result="red")
            done = await runtime.wait(waiting.run_id)
            assert done.text == '{"colour": "red"}'
            recording = await runtime.replays.record(done.run_id)
        case = Case(id="c", user_input="hi")
        dataset = Dataset(cases=(), scorers=(scorers.json_schema(schema),))
        before = len(asked)
        tried = await evaluate(
            dataset.with_recorded(case, recording), [make_agent()], mode=mode, repeats=1
        )
        (item,) = tried.items
        assert (item.status, item.calls, item.failed_calls) == ("scored", ("pick",), ()), item
        assert tried.is_passed
        live = asked[before:]
        assert len(live) == (2 if mode is EvalMode.LIVE else 0)
        assert all([it.id for it in request.tools] == ["pick"] for request in live)

    asyncio.run(main())
