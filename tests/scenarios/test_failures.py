"""Failures of the world around a run: one terminal event, a typed error, a record that is done."""

import asyncio
from typing import Any

import pytest

from awaken import Failed, NaturalEnd, RunFailed, RunFinish, RunStatus, TextDelta, tool
from awaken.errors import (
    AllModelsUnavailable,
    ContentFiltered,
    ContextOverflow,
    InvalidRequest,
    ModelNotFound,
    Overloaded,
    ProviderFailed,
    RateLimited,
    StoreUnavailable,
    StreamInterrupted,
    Unauthorized,
)
from awaken.events import InferenceComplete
from awaken.testing import Chunks, Entry, ScriptExhausted, ToolCalls, Turn

from .worlds import Story, World, play, simulated


@tool
async def echo(text: str) -> str:
    return text


CALL = ToolCalls([("echo", {"text": "a"})], text="hm")


class Odd(BaseException):
    """An exception that is no `Exception`."""


@pytest.mark.parametrize("before", [0, 1, 2])
@pytest.mark.parametrize("said", ["", "so far"])
def test_a_provider_error_at_any_inference_ends_the_run_once_and_raises_its_message(
    before: int, said: str
) -> None:
    script: list[Entry] = [CALL] * before + [Turn(said, error=RateLimited("slow down"))]

    story = play(script, tools=[echo])

    assert story.termination == Failed(message="slow down", code="rate_limited")
    assert story.types.count("run_finish") == 1
    assert len(story.of(InferenceComplete)) == before
    assert story.record is not None
    assert (story.record.status, story.record.steps) == (RunStatus.DONE, before + 1)
    assert len(story.answers) == before
    if said:
        assert story.lines[-1] == ("assistant", said)

    error = simulated(lambda: _raised(script))
    assert "slow down" in str(error)
    assert (error.cause, error.cause_code) == ("slow down", "rate_limited")
    assert error.result.status is RunStatus.DONE
    assert error.result.text == (said or ("hm" if before else ""))


async def _raised(script: list[Entry]) -> RunFailed:
    async with World(script, tools=[echo]) as world:
        with pytest.raises(RunFailed) as caught:
            await world.runtime.run("agent", "go", thread_id="t")
        return caught.value


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ProviderFailed("x"), "provider_failed"),
        (Overloaded("x"), "overloaded"),
        (StreamInterrupted("x"), "stream_interrupted"),
        (ContextOverflow("x"), "context_overflow"),
        (InvalidRequest("x"), "invalid_request"),
        (Unauthorized("x"), "unauthorized"),
        (ModelNotFound("x"), "model_not_found"),
        (ContentFiltered("x"), "content_filtered"),
        (AllModelsUnavailable("x"), "all_models_unavailable"),
        (ScriptExhausted.after(3), "script_exhausted"),
        (ValueError("x"), "provider_broken"),
        (TimeoutError("x"), "model_timeout"),
        (ConnectionResetError("x"), "transport_failed"),
        (KeyError("x"), "provider_broken"),
        (RecursionError("x"), "provider_broken"),
        (MemoryError("x"), "provider_broken"),
        (asyncio.CancelledError("x"), "provider_broken"),
        (Odd("x"), "provider_broken"),
        (StoreUnavailable(store="x", problem="y"), "provider_broken"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_every_failure_of_a_provider_has_a_stable_code(error: BaseException, code: str) -> None:
    story = play([Turn("so", error=error)])

    assert isinstance(story.termination, Failed)
    assert story.termination.code == code
    assert story.lines == [("user", "go"), ("assistant", "so")]


class Broken:
    """A provider whose `stream` misbehaves in one way."""

    name = "broken"

    def __init__(self, how: str) -> None:
        self._how = how

    def stream(self, request: object) -> Any:
        if self._how == "raises at once":
            raise ValueError("no stream")
        return self._events()

    async def _events(self) -> Any:
        try:
            yield TextDelta(delta="so")
            if self._how == "yields junk":
                yield {"not": "an event"}
            if self._how == "hangs":
                await asyncio.sleep(10_000)
        finally:
            if self._how == "fails to close":
                raise ValueError("cannot close")


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("raises at once", "provider_broken"),
        ("fails to close", "provider_broken"),
        ("hangs", "model_timeout"),
        ("yields junk", "provider_broken"),
        ("ends without a stop", None),
    ],
)
def test_a_provider_that_breaks_its_contract_harms_only_its_run(
    how: str, expected: str | None
) -> None:
    story = play(model=Broken(how))

    if expected is None:
        assert story.termination == NaturalEnd()
    else:
        assert isinstance(story.termination, Failed)
        assert story.termination.code == expected


def test_the_thread_of_a_failed_run_goes_on_with_the_next() -> None:
    async def scenario() -> list[Story]:
        script: list[Entry] = [CALL, Turn("half", error=ProviderFailed("boom")), "fine"]
        async with World(script, tools=[echo]) as world:
            return [await world.tell("1"), await world.tell("2")]

    first, second = simulated(scenario)
    assert isinstance(first.termination, Failed)
    assert second.termination == NaturalEnd()
    assert [text for _, text in second.lines] == ["1", "hm", "a", "half", "2", "fine"]


def test_a_slow_model_and_a_slow_tool_do_not_hold_up_other_runs() -> None:
    async def scenario() -> list[float]:
        ended: list[float] = []
        async with World([Chunks(["a", "b"], delay_ms=50_000), "quick"]) as world:

            async def tell(name: str) -> None:
                await world.tell(thread_id=name)
                ended.append(asyncio.get_running_loop().time())

            await asyncio.gather(tell("slow"), tell("quick"))
        return ended

    assert simulated(scenario) == [0, 50]


def test_a_failed_run_says_so_in_its_result_and_its_event() -> None:
    story = play([ProviderFailed("boom")])

    (finish,) = story.of(RunFinish)
    assert finish.result == {"response": "", "status": "done", "status_reason": "error"}
    assert story.result is not None
    assert story.result.termination == finish.termination
