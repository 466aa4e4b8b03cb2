"""What is removed of evals with time, and what stays: on each store."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from awaken import Agent, AgentRuntime
from awaken.contracts.evals.eval_runs import EvalStatus
from awaken.contracts.evals.replays import ReplaySpec
from awaken.contracts.evals.store import EvalQuery, encode_eval_object
from awaken.evals import Case, Dataset, EvalSpec, Variant, scorers
from awaken.evals.evaluating import keep_dataset
from awaken.evals.retention import DAY_MS, PAUSE_MS, EvalRetention
from awaken.testing import ScriptedModel

RUN = "eval:e:0:run"


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/a.db"


@asynccontextmanager
async def evaluated(store: str) -> AsyncIterator[AgentRuntime]:
    """A runtime whose eval `e` has ended; its one case came from a recorded run."""
    agent = Agent("a", model=ScriptedModel(["yes"], cycle=True))
    runtime = AgentRuntime([agent], store=store, history="full")
    async with asyncio.timeout(60), runtime:
        run = await runtime.run("a", "hi", thread_id="original")
        recording = await runtime.replays.record(run.run_id)
        asked = Dataset(cases=(), id="d", scorers=(scorers.contains("yes"),))
        dataset = asked.with_recorded(Case(id="c", user_input="hi"), recording)
        await keep_dataset(runtime.evals.parts.evals, dataset)
        variants = (Variant(name="v", agent_id="a"),)
        await runtime.evals.create(EvalSpec(id="e", dataset_id="d", variants=variants, repeats=2))
        runtime.evals.start("e")
        ended = await runtime.evals.wait("e", 30_000)
        assert ended.status is EvalStatus.DONE
        yield runtime


class LaterStore:
    """A store whose clock is ahead; everything else is the store's."""

    def __init__(self, store: Any, ahead_ms: int) -> None:
        self._store = store
        self._ahead_ms = ahead_ms

    async def now_ms(self) -> int:
        return int(await self._store.now_ms()) + self._ahead_ms

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


async def sweep(runtime: AgentRuntime, ahead_ms: int) -> None:
    """Look for what is not kept, as if so much time had passed."""
    retention = EvalRetention(runtime.evals.parts)
    retention._store = LaterStore(runtime.store, ahead_ms)  # type: ignore[assignment]
    await retention.sweep()


def test_threads_of_samples_go_after_a_month_and_items_stay(store: str) -> None:
    async def main() -> None:
        async with evaluated(store) as runtime:
            evals = runtime.evals.parts.evals
            items = await evals.list_eval_items("e")
            await sweep(runtime, 29 * DAY_MS)
            assert await runtime.store.load_run(RUN) is not None
            await sweep(runtime, 31 * DAY_MS)
            for number in range(2):
                assert await runtime.store.load_thread(f"eval:e:{number}") is None
            assert await runtime.store.load_run(RUN) is None
            assert await runtime.store.load_thread("original") is not None
            assert await evals.list_eval_items("e") == items
            assert {it.text for it in items} == {"yes"}
            kept = await runtime.evals.load("e")
            assert kept.summary["variants"]

    asyncio.run(main())


def test_an_eval_that_is_not_over_keeps_everything(store: str) -> None:
    async def main() -> None:
        async with evaluated(store) as runtime:
            evals = runtime.evals.parts.evals
            stray, body = encode_eval_object({"nobody": "names it"})
            await evals.put_eval_objects({stray: body})
            record = msgspec.structs.replace(
                await runtime.evals.load("e"), eval_id="open", status=EvalStatus.RUNNING
            )
            await evals.create_eval(record)
            for months in range(1, 4):
                await sweep(runtime, months * 31 * DAY_MS)
            assert await evals.load_eval_objects([stray])
            ended = msgspec.structs.replace(record, status=EvalStatus.CANCELLED)
            await evals.update_eval(ended, was=EvalStatus.RUNNING)

    asyncio.run(main())


def test_objects_go_a_day_after_nothing_names_them_and_no_other(store: str) -> None:
    async def main() -> None:
        async with evaluated(store) as runtime:
            evals = runtime.evals.parts.evals
            run = await runtime.run("a", "again")
            begun = await runtime.replays.begin(run.run_id, ReplaySpec())
            await runtime.replays.jobs.load(run.run_id, begun.replay.replay_id, 30_000)
            before = await evals.list_eval_objects()
            stray, body = encode_eval_object({"nobody": "names it"})
            await evals.put_eval_objects({stray: body})
            await sweep(runtime, 0)
            assert set(await evals.list_eval_objects()) == {*before, stray}
            await sweep(runtime, DAY_MS // 2)
            assert stray in await evals.list_eval_objects()
            await sweep(runtime, DAY_MS + PAUSE_MS)
            # The case, its recording, the world of its samples and the replay have names.
            assert await evals.list_eval_objects() == before
            # The world has none when its runs are gone.
            await sweep(runtime, 31 * DAY_MS)
            await sweep(runtime, 33 * DAY_MS)
            left = await evals.list_eval_objects()
            assert len(left) == len(before) - 1
            assert (await runtime.evals.load("e")).status is EvalStatus.DONE
            tried = await runtime.replays.jobs.load(run.run_id, begun.replay.replay_id)
            assert tried.result is not None
            loaded = await evals.load_dataset("d")
            assert loaded is not None
            assert {it.hash for it in loaded.cases} <= set(left)

    asyncio.run(main())


def test_one_look_in_an_hour_is_enough_for_all_processes(store: str) -> None:
    async def main() -> None:
        async with evaluated(store) as runtime:
            await sweep(runtime, 31 * DAY_MS)
            again = msgspec.structs.replace(await runtime.evals.load("e"), eval_id="later")
            await runtime.evals.parts.evals.create_eval(again)
            looked: list[EvalQuery] = []
            list_evals = runtime.evals.parts.evals.list_evals

            async def look(query: EvalQuery) -> Any:
                looked.append(query)
                return await list_evals(query)

            runtime.evals.parts.evals.list_evals = look  # type: ignore[method-assign]
            await sweep(runtime, 31 * DAY_MS + PAUSE_MS // 2)
            assert looked == []
            await sweep(runtime, 31 * DAY_MS + 2 * PAUSE_MS)
            assert looked

    asyncio.run(main())
