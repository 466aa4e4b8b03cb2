"""The way of one run with one tool call through the code is short; `bench/walk.py` counts it."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from bench.walk import GOALS, Walk, walk_request, walk_run


@pytest.mark.parametrize(
    ("name", "play"), [("runtime.run", walk_run), ("POST /v1/runs", walk_request)]
)
def test_a_run_passes_few_functions_and_files(
    name: str, play: Callable[[], Awaitable[Walk]]
) -> None:
    async def scenario() -> Walk:
        return await play()

    figures = asyncio.run(scenario()).figures()
    assert all(found <= goal for found, goal in zip(figures, GOALS[name], strict=True)), figures
