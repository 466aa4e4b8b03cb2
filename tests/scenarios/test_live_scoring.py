"""Live scoring: sampled runs are scored once after their end, within the money of a day."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from awaken import Agent, AgentRuntime, tool
from awaken.contracts.config.errors import InvalidConfig
from awaken.contracts.config.specs import LiveScorer, LiveScoringSpec
from awaken.contracts.evals.scores import ScoreSource, StoredScore
from awaken.contracts.evals.store import ScoreQuery
from awaken.contracts.models.model_specs import ModelPrices, ModelSpec
from awaken.errors import InvalidSpec, StoreUnavailable
from awaken.evals.capture import CaptureFilter, Captures
from awaken.evals.live_scoring import LiveScoring, draw_sample
from awaken.managed import effective
from awaken.managed.parts import Author
from awaken.managed.records import RecordWrite
from awaken.models import InferenceRequest, TokenUsage
from awaken.testing import ScriptedModel, ToolCalls, Turn

CONTAINS = LiveScorer(scorer="contains", options={"phrases": ["yes"]})
JUDGE = LiveScorer(
    scorer="judge", options={"rubric": "Is it kind?", "scale": "binary", "model_id": "m"}
)
PASS = '{"reason": "fine", "verdict": "pass"}'


def answer(request: InferenceRequest) -> Turn:
    if "Is it kind?" in str(request.system):
        return Turn(PASS, usage=TokenUsage(prompt_tokens=950, completion_tokens=50))
    return Turn("no" if "bad" in request.messages[-1].text else "yes")


def make_runtime(store: str, **more: Any) -> AgentRuntime:
    prices = ModelPrices(input=1.0, output=1.0)
    model = ModelSpec(
        id="m", provider_id="own", upstream_model="m", max_output_tokens=100, prices=prices
    )
    agents = [Agent(id=name, model="m", instructions="Answer.") for name in ("a", "b")]
    return AgentRuntime(
        agents,
        providers={"own": ScriptedModel([answer] * 200)},
        models=[model],
        store=store,
        history="full",
        has_worker=False,
        **more,
    )


@asynccontextmanager
async def opened(store: str) -> AsyncIterator[AgentRuntime]:
    async with asyncio.timeout(120), make_runtime(store) as runtime:
        yield runtime


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/s.db"


def spec_of(*scorers: LiveScorer, **fields: Any) -> LiveScoringSpec:
    return LiveScoringSpec(**{"id": "s", "scorers": scorers, "sample": 1.0, **fields})


def build(runtime: AgentRuntime, *specs: LiveScoringSpec, worker: str = "w1") -> LiveScoring:
    parts = msgspec.structs.replace(runtime.evals.parts, worker_id=worker)
    # Nothing else writes runs: what began a moment ago is in the list.
    return LiveScoring(parts, lambda: specs, settle_ms=-1_000)


async def list_scores(runtime: AgentRuntime) -> list[StoredScore]:
    query = ScoreQuery(source=ScoreSource.ONLINE, limit=1_000)
    return list(await runtime.evals.parts.evals.list_scores(query))


def test_runs_are_scored_once_over_many_processes(store: str) -> None:
    async def main() -> None:
        async with opened(store) as runtime:
            spec = spec_of(CONTAINS)
            await runtime.run("a", "before it was switched on")
            scorings = [build(runtime, spec, worker=f"w{no}") for no in range(4)]
            await scorings[0].score_due()
            runs = [await runtime.run("a", text) for text in ("hi", "bad", "hi", "hi")]
            for _ in range(3):
                await asyncio.gather(*(it.score_due() for it in scorings))
            found = await list_scores(runtime)
            assert sorted(it.run_id for it in found) == sorted(it.run_id for it in runs)
            assert sorted(it.score.value or 0.0 for it in found) == [0.0, 1.0, 1.0, 1.0]
            assert {it.by for it in found} == {"s"}
            progress = await scorings[1].load_progress()
            assert (progress.due, progress.scored, progress.lost) == ((), 4, 0)
            # "Capture where score < x".
            engine = runtime.view("t").engine
            captures = Captures(engine.store, runtime.evals.parts.evals, None)  # type: ignore[arg-type]
            low = await captures.find_runs(CaptureFilter(score_below=0.5))
            assert low == (runs[1].run_id,)

    asyncio.run(main())


def test_what_is_not_sampled_is_not_scored(store: str) -> None:
    async def main() -> None:
        async with opened(store) as runtime:
            specs = (
                spec_of(CONTAINS, id="none", sample=0.0),
                spec_of(CONTAINS, id="off", enabled=False),
                spec_of(CONTAINS, id="only", agents=("b",)),
            )
            scoring = build(runtime, *specs)
            await scoring.score_due()
            await runtime.run("a", "hi")
            other = await runtime.run("b", "hi")
            await scoring.score_due()
            found = await list_scores(runtime)
            assert [(it.run_id, it.by) for it in found] == [(other.run_id, "only")]

    asyncio.run(main())


def test_a_share_of_runs_is_sampled_alike_everywhere() -> None:
    drawn = [draw_sample("s", f"run-{no}") for no in range(4_000)]
    assert drawn == [draw_sample("s", f"run-{no}") for no in range(4_000)]
    share = sum(it < 0.05 for it in drawn) / len(drawn)
    assert 0.03 < share < 0.07
    assert drawn[:50] != [draw_sample("t", f"run-{no}") for no in range(50)]


def test_a_process_that_dies_between_two_scores_loses_and_doubles_nothing(store: str) -> None:
    async def main() -> None:
        async with opened(store) as runtime:
            second = LiveScorer(scorer="contains", name="again", options={"phrases": ["y"]})
            spec = spec_of(CONTAINS, second)
            scoring = build(runtime, spec)
            await scoring.score_due()
            for _ in range(3):
                await runtime.run("a", "hi")
            evals = runtime.evals.parts.evals
            add, count = evals.add_scores, 0

            async def add_some(scores: Sequence[StoredScore]) -> Any:
                nonlocal count
                count += 1
                if count == 4:
                    # It was written, and the process died before it knew.
                    await add(scores)
                    raise StoreUnavailable(store="s", problem="killed")
                return await add(scores)

            evals.add_scores = add_some  # type: ignore[method-assign]
            with pytest.raises(StoreUnavailable):
                await scoring.score_due()
            evals.add_scores = add  # type: ignore[method-assign]
            await build(runtime, spec, worker="w2").score_due()
            found = await list_scores(runtime)
            assert len(found) == len({(it.run_id, it.scorer) for it in found}) == 6

    asyncio.run(main())


def test_a_run_that_waits_is_scored_after_its_end(store: str) -> None:
    @tool(approval=True)
    async def pay(amount: int) -> str:
        """Pay."""
        return "paid"

    async def main() -> None:
        model = ScriptedModel([ToolCalls([("pay", {"amount": 1})]), "yes"])
        agent = Agent("c", model=model, tools=[pay])
        async with asyncio.timeout(120), AgentRuntime([agent], store=store) as runtime:
            scoring = build(runtime, spec_of(CONTAINS))
            await scoring.score_due()
            run = await runtime.run("c", "hi")
            assert run.is_waiting
            await scoring.score_due()
            assert await list_scores(runtime) == []
            await runtime.decide(run.tickets[0].ticket_id)
            await runtime.wait(run.run_id)
            await scoring.score_due()
            assert [it.run_id for it in await list_scores(runtime)] == [run.run_id]

    asyncio.run(main())


def test_judges_stop_when_the_money_of_the_day_is_used_up(store: str) -> None:
    async def main() -> None:
        async with opened(store) as runtime:
            # A judge's answer costs a thousandth of a dollar, and may cost up to four.
            scoring = build(runtime, spec_of(CONTAINS, JUDGE, max_usd_per_day=0.006))
            await scoring.score_due()
            for _ in range(8):
                await runtime.run("a", "hi")
            await scoring.score_due()
            found = await list_scores(runtime)
            names = [it.scorer for it in found]
            progress = await scoring.load_progress()
            assert names.count("contains") == 8
            assert 0 < progress.cut < 8
            assert names.count("judge") + progress.cut == 8
            # What was not paid for is missing, and no zero.
            judged = [it.score for it in found if it.scorer == "judge"]
            assert all(it.value == 1.0 and it.error is None for it in judged)
            assert all(it.judge is not None and it.judge.run_ids for it in judged)

    asyncio.run(main())


def test_records_are_checked_and_found_by_the_sweep(tmp_path: Path) -> None:
    async def main() -> None:
        runtime = make_runtime(f"sqlite:///{tmp_path}/s.db", managed=True)
        async with asyncio.timeout(120), runtime:
            assert runtime.managed is not None
            await runtime._sweep_scoring()
            assert "_live_scoring" not in runtime.__dict__
            write = RecordWrite(namespace="scorers", id="s", author=Author(id="ann"))
            for body in (
                {"scorers": []},
                {"scorers": [{"scorer": "nothing"}]},
                {"scorers": [msgspec.to_builtins(JUDGE)]},
                {"scorers": [{"scorer": "judge", "options": {"rubric": "x"}}]},
                {"scorers": [msgspec.to_builtins(CONTAINS)], "sample": 2},
                {"scorers": [msgspec.to_builtins(CONTAINS)] * 2},
            ):
                with pytest.raises(InvalidConfig):
                    await runtime.managed.records.create(write, {"id": "s", **body})
            body = {"id": "s", "scorers": [msgspec.to_builtins(CONTAINS)], "sample": 1}
            await runtime.managed.records.create(write, body)
            await runtime._sweep_scoring()
            assert runtime._live_scoring._task is not None
            await runtime._live_scoring._task
            assert (await runtime._live_scoring.load_progress()).since > 0

    asyncio.run(main())


def test_a_scorer_that_cannot_be_made_costs_only_its_own_scores(store: str) -> None:
    async def main() -> None:
        async with opened(store) as runtime:
            misspelled = LiveScorer(scorer="contians", name="typo")
            bad = spec_of(misspelled, CONTAINS, id="bad")
            scoring = build(runtime, bad, spec_of(CONTAINS, id="good"))
            await scoring.score_due()
            runs = {(await runtime.run("a", "hi")).run_id for _ in range(3)}
            await scoring.score_due()
            found = await list_scores(runtime)
            for by, scorer in (("bad", "typo"), ("bad", "contains"), ("good", "contains")):
                own = [it for it in found if (it.by, it.scorer) == (by, scorer)]
                assert {it.run_id for it in own} == runs
            missing = [it.score for it in found if it.scorer == "typo"]
            assert all(it.value is None for it in missing)
            assert all("there is no such scorer" in (it.error or "") for it in missing)
            assert (await scoring.load_progress()).due == ()

    asyncio.run(main())


def test_a_run_stays_due_while_its_recording_cannot_be_read(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with opened(store) as runtime:
            scoring = build(runtime, spec_of(CONTAINS))
            await scoring.score_due()
            run = await runtime.run("a", "hi")
            recorder = runtime.evals.parts.recorder

            async def fail(*_: object) -> Any:
                raise StoreUnavailable(store="s", problem="away")

            with monkeypatch.context() as patch:
                patch.setattr(type(recorder), "record", fail)
                with pytest.raises(StoreUnavailable):
                    await scoring.score_due()
            await scoring.score_due()
            assert [it.run_id for it in await list_scores(runtime)] == [run.run_id]
            assert (await scoring.load_progress()).lost == 0

    asyncio.run(main())


def test_a_broken_record_is_told_and_stops_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def write(runtime: AgentRuntime, name: str, scorer: dict[str, Any], **more: Any) -> None:
        assert runtime.managed is not None
        made = RecordWrite(namespace="scorers", id=name, author=Author(id="ann"))
        body = {"id": name, "scorers": [scorer], "sample": 1.0, **more}
        await runtime.managed.records.create(made, body)

    async def main() -> None:
        store = f"sqlite:///{tmp_path}/s.db"
        monkeypatch.setenv("AWAKEN_EVAL_MODULES", "json")
        async with asyncio.timeout(120), make_runtime(store, managed=True) as runtime:
            await write(runtime, "good", msgspec.to_builtins(CONTAINS))
            await write(runtime, "unread", msgspec.to_builtins(CONTAINS))
            loads = {"scorer": "python", "options": {"function": "json:loads"}}
            await write(runtime, "unmade", loads)
        monkeypatch.delenv("AWAKEN_EVAL_MODULES")
        decode = effective.decode_stored_spec

        def decode_strictly(body: Any, *more: Any) -> Any:
            if body["id"] == "unread":
                raise InvalidSpec(what="scorers", problem="another version wrote it")
            return decode(body, *more)

        monkeypatch.setattr(effective, "decode_stored_spec", decode_strictly)
        async with asyncio.timeout(120), make_runtime(store, managed=True) as runtime:
            assert runtime.managed is not None
            told = {it.path: it.code for it in runtime.managed.live.diagnostics}
            assert told == {
                "scorers/unread": "invalid_record",
                "scorers/unmade/scorers/0": "invalid",
            }
            assert [it.id for it in runtime._list_scoring_specs()] == ["good", "unmade"]
            scoring = build(runtime, *runtime._list_scoring_specs())
            await scoring.score_due()
            run = await runtime.run("a", "hi")
            await runtime._sweep_scoring()
            # While the sweep is at it, which leaves a run so new to its next look, it looks alone.
            while len(found := {it.by: it for it in await list_scores(runtime)}) < 2:
                await scoring.score_due()
                await asyncio.sleep(0.01)
            assert {it.run_id for it in found.values()} == {run.run_id}
            assert found["good"].score.value == 1.0
            assert "AWAKEN_EVAL_MODULES" in (found["unmade"].score.error or "")

    asyncio.run(main())
