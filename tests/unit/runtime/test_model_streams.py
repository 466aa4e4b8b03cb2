"""A model's stream is closed before its answer counts, however the reading of it ended."""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from typing import Any

import pytest

from awaken import Agent, AgentRuntime
from awaken.contracts.messages.deltas import TextDelta
from awaken.errors import RunFailed
from awaken.models import InferenceRequest, ModelEvent, Stop, StopReason
from awaken.testing.simulation import Fifo, SimulatedLoop, run

PIECES: tuple[ModelEvent, ...] = (TextDelta(delta="Hello."), Stop(reason=StopReason.END_TURN))


def test_a_stream_that_yields_what_is_no_event_is_closed_before_the_run_fails() -> None:
    seen: list[str] = []

    class Confused:
        name = "confused"

        async def stream(self, request: InferenceRequest) -> AsyncGenerator[ModelEvent, None]:
            wrong: Any = "text"
            try:
                yield wrong
            finally:
                await asyncio.sleep(1)
                seen.append("closed")

    async def main() -> None:
        runtime = AgentRuntime([Agent("a", model=Confused())])
        with pytest.raises(RunFailed, match="yielded a str"):
            await runtime.run("a", "hello")
        seen.append("failed")

    run(SimulatedLoop(Fifo()), main)
    assert seen == ["closed", "failed"]


@pytest.mark.parametrize("is_cut", [False, True], ids=["read to its end", "broken off"])
def test_a_stream_that_is_no_generator_is_closed_once(is_cut: bool) -> None:
    closed: list[str] = []

    class Pieces:
        def __init__(self) -> None:
            wrong: Any = object()
            self._left: Iterator[ModelEvent] = iter((wrong, *PIECES) if is_cut else PIECES)

        def __aiter__(self) -> "Pieces":
            return self

        async def __anext__(self) -> ModelEvent:
            for event in self._left:
                return event
            raise StopAsyncIteration

        async def aclose(self) -> None:
            closed.append("closed")

    class Model:
        name = "own"

        def stream(self, request: InferenceRequest) -> Any:
            return Pieces()

    async def main() -> None:
        runtime = AgentRuntime([Agent("a", model=Model())])
        if is_cut:
            with pytest.raises(RunFailed):
                await runtime.run("a", "hello")
        else:
            assert (await runtime.run("a", "hello")).text == "Hello."

    run(SimulatedLoop(Fifo()), main)
    assert closed == ["closed"]
