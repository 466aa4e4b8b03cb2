"""An eval survives the kill of its driver and of the workers that execute its samples."""

import asyncio
from pathlib import Path

import pytest
from tests.sampling import choose_size

from .eval_kills import EvalKills, EvalStuck, use_store
from .eval_node import make_runtime


@pytest.mark.sampled
@pytest.mark.timeout(600)
@pytest.mark.parametrize("on_postgres", [False, True], ids=["sqlite", "postgres"])
def test_every_sample_is_there_once_and_paid_once_over_kills(
    tmp_path: Path, on_postgres: bool
) -> None:
    samples, kills = choose_size(30, 120), choose_size(3, 20)
    with use_store(on_postgres=on_postgres) as url:
        trial = EvalKills(tmp_path, samples=samples, kills=kills, seed=3, url=url)
        counts = asyncio.run(trial.play())
    print(counts)
    assert counts["samples"] == samples


@pytest.mark.timeout(300)
@pytest.mark.parametrize("on_postgres", [False, True], ids=["sqlite", "postgres"])
def test_the_scores_of_an_item_survive_the_death_of_its_driver(
    tmp_path: Path, on_postgres: bool
) -> None:
    with use_store(on_postgres=on_postgres) as url:
        trial = EvalKills(tmp_path, samples=6, kills=0, seed=5, url=url)
        counts = asyncio.run(trial.play_deaths_after_items())
    assert (counts["samples"], counts["kills"]) == (6, 1)


def test_after_the_last_call_an_eval_is_not_waited_for_to_make_another(tmp_path: Path) -> None:
    trial = EvalKills(tmp_path, samples=2, kills=0, seed=1)

    async def scenario() -> None:
        eval_id = await trial.create()
        begin = await trial.measure(eval_id)
        url, log = f"sqlite:///{tmp_path / 'store.db'}", str(tmp_path / "asked.log")
        async with make_runtime(url, log) as runtime:
            runtime.evals.start(eval_id)
            await runtime.evals.wait(eval_id, 60_000)
        await trial.await_move(eval_id, begin)
        end = await trial.measure(eval_id)
        assert (end.items, end.calls) == (2, 2)
        await trial.await_move(eval_id, end)

    asyncio.run(scenario())


def test_an_eval_that_does_not_go_on_is_described(tmp_path: Path) -> None:
    trial = EvalKills(tmp_path, samples=2, kills=0, seed=1, patience_s=0.5)

    async def scenario() -> None:
        eval_id = await trial.create()
        said = (
            "it is planned, 0 of 2 items are written; who asked .* {0: \\[\\], 1: \\[\\]}; 0 calls"
        )
        with pytest.raises(EvalStuck, match=said):
            await trial.await_move(eval_id, await trial.measure(eval_id))

    asyncio.run(scenario())
