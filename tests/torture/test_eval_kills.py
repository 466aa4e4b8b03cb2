"""An eval survives the kill of its driver and of the workers that execute its samples."""

import asyncio
from pathlib import Path

import pytest
from tests.sampling import choose_size

from .eval_kills import EvalKills


@pytest.mark.sampled
@pytest.mark.timeout(600)
def test_every_sample_is_there_once_and_paid_once_over_kills(tmp_path: Path) -> None:
    samples, kills = choose_size(30, 120), choose_size(3, 20)
    counts = asyncio.run(EvalKills(tmp_path, samples=samples, kills=kills, seed=3).play())
    print(counts)
    assert counts["samples"] == samples
