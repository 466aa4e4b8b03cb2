"""Each due time fires once or is reported as skipped, over processes, kills and clock jumps."""

import asyncio
from pathlib import Path

import pytest
from tests.postgres.server import new_schema, server
from tests.postgres.stores import opened
from tests.sampling import choose_size

from .due_times import DueTimes


@pytest.mark.sampled
@pytest.mark.timeout(600)
def test_two_processes_decide_each_due_time_once_over_kills_and_clock_jumps(tmp_path: Path) -> None:
    trial = DueTimes(
        f"sqlite:///{tmp_path / 'store.db'}",
        tmp_path,
        schedules=choose_size(30, 1_000),
        kills=choose_size(4, 40),
        seed=7,
    )
    counts = asyncio.run(trial.play())
    print(counts)
    assert counts["fired"] > 0
    assert counts["skipped missed"] > 0


@pytest.mark.sampled
@pytest.mark.timeout(600)
def test_two_processes_on_postgres_decide_each_due_time_once_over_kills(tmp_path: Path) -> None:
    async def play() -> dict[str, int]:
        schema = new_schema()
        async with opened(schema=schema):
            # The server's clock cannot be moved: here only processes are killed.
            url = f"{server().url}#{schema}"
            sizes = {"schedules": choose_size(15, 300), "kills": choose_size(2, 20)}
            return await DueTimes(url, tmp_path, seed=11, **sizes).play()

    counts = asyncio.run(play())
    assert counts["fired"] > 0
    assert counts["skipped missed"] > 0
