"""Summaries in the background: one at a time for a thread, kept until taken, stopped at the end."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from awaken.contracts.models.errors import Overloaded
from awaken.contracts.models.inference import InferenceOverride, StopReason, TokenUsage
from awaken.contracts.state.context_state import CompactionConfig
from awaken.runtime.context.summaries import (
    FINISHED_MAX,
    SUMMARY_CHARS_MAX,
    TASKS_MAX,
    Compactor,
    SummaryJob,
    write_summary,
)
from awaken.testing.scripted_model import Chunks, Entry, ScriptedModel, ToolCalls, Turn

from .context_samples import mark, model, plan


def job(script: list[Entry] | ScriptedModel, **fields: Any) -> SummaryJob:
    client = script if isinstance(script, ScriptedModel) else ScriptedModel(script)
    given = {"plan": plan(), "config": CompactionConfig(), "model": model(), "client": client}
    return SummaryJob(**{**given, **fields})


def played(scenario: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(10):
            await scenario()

    asyncio.run(bounded())


async def finished(compactor: Compactor) -> None:
    while compactor._running:
        await asyncio.wait(compactor._running.values())
        await asyncio.sleep(0)


def test_the_model_is_asked_once_with_the_transcript_and_the_limits() -> None:
    client = ScriptedModel([" A summary. "])
    config = CompactionConfig(system_prompt="Sum up.", user_prompt="Now: {messages}!")
    limits = InferenceOverride(max_tokens=1024)
    transcript = "[User]: {messages} and {summary} are only text"
    made = job(client, config=config, plan=plan(transcript=transcript), overrides=limits)
    summary = asyncio.run(write_summary(made))
    assert (summary.text, summary.problem) == ("A summary.", "")
    assert summary.usage.total_tokens == 30
    (request,) = client.requests
    assert (request.system, request.upstream_model) == (("Sum up.",), "big")
    assert (request.overrides, request.tools) == (limits, ())
    assert [it.text for it in request.messages] == [f"Now: {transcript}!"]


def test_a_second_summary_is_made_from_the_first_and_what_came_after() -> None:
    client = ScriptedModel(["All of it."])
    asyncio.run(write_summary(job(client, plan=plan(previous=mark(2, summary="The {messages}.")))))
    text = client.requests[0].messages[0].text
    assert "so far:\n\nThe {messages}.\n\n" in text
    assert text.endswith("\n\n[User]: hi")


class Broken:
    name = "broken"

    async def stream(self, _request: object) -> Any:
        raise RuntimeError("boom")
        yield


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ([Overloaded("no room")], "no room"),
        ([Turn("half", error=Overloaded("cut off"))], "cut off"),
        ([Turn("half", stop=StopReason.MAX_TOKENS)], "cut off by its token limit"),
        (["   "], "the summary is empty"),
        ([ToolCalls([("t", {})])], "the summary is empty"),
        ([Chunks(["x" * 1000] * (SUMMARY_CHARS_MAX // 1000 + 2))], "the summary does not end"),
        ([], "exhausted"),
    ],
    ids=["refused", "cut off", "token limit", "blank", "no text", "endless", "script"],
)
def test_a_summary_that_fails_says_why(script: list[Entry], problem: str) -> None:
    summary = asyncio.run(write_summary(job(script)))
    assert summary.text == ""
    assert problem in summary.problem


def test_a_provider_that_breaks_its_contract_is_a_problem_too(
    caplog: pytest.LogCaptureFixture,
) -> None:
    summary = asyncio.run(write_summary(job([], client=Broken())))
    assert (summary.text, summary.problem) == ("", "RuntimeError: boom")
    assert "Provider 'broken' raised" in caplog.text


def test_a_summary_that_takes_too_long_is_given_up() -> None:
    async def never(_request: object) -> str:
        await asyncio.Event().wait()
        return "x"

    summary = asyncio.run(write_summary(job([never], config=CompactionConfig(timeout_ms=1))))
    assert summary.problem == "the summary took too long"


def test_a_thread_has_one_summary_at_a_time_and_it_is_taken_once() -> None:
    async def scenario() -> None:
        compactor, client = Compactor(), ScriptedModel(["one", "two"])
        assert compactor.is_free("t")
        assert compactor.start("t", job(client))
        assert not compactor.is_free("t")
        assert not compactor.start("t", job(client))
        assert compactor.take("t") is None
        await finished(compactor)
        assert not compactor.start("t", job(client))
        summary = compactor.take("t")
        assert summary is not None
        assert summary.text == "one"
        assert compactor.take("t") is None
        assert len(client.requests) == 1
        assert compactor.start("t", job(client))
        await compactor.close()

    played(scenario)


def test_only_so_many_summaries_are_written_at_once() -> None:
    async def scenario() -> None:
        compactor, client = Compactor(), ScriptedModel(["s"] * TASKS_MAX)
        begun = [compactor.start(f"t{n}", job(client)) for n in range(TASKS_MAX + 1)]
        assert begun == [True] * TASKS_MAX + [False]
        await finished(compactor)
        assert compactor.start("one more", job(client))
        await compactor.close()

    played(scenario)


def test_only_so_many_finished_summaries_are_kept() -> None:
    async def scenario() -> None:
        compactor, client = Compactor(), ScriptedModel(["s"], cycle=True)
        for n in range(FINISHED_MAX + 2):
            assert compactor.start(f"t{n}", job(client))
            await finished(compactor)
        kept = [n for n in range(FINISHED_MAX + 2) if compactor.take(f"t{n}")]
        assert kept == list(range(2, FINISHED_MAX + 2))

    played(scenario)


def test_closing_stops_what_is_under_way_and_leaves_no_stream_open() -> None:
    async def scenario() -> None:
        begun = asyncio.Event()

        async def never(_request: object) -> str:
            begun.set()
            await asyncio.Event().wait()
            return "x"

        compactor, client = Compactor(), ScriptedModel([never, never], usage=TokenUsage())
        compactor.start("t", job(client))
        await begun.wait()
        compactor.forget("t")
        assert compactor.is_free("t")
        begun.clear()
        compactor.start("t", job(client))
        await begun.wait()
        assert client.open_streams >= 1
        await compactor.close()
        assert client.open_streams == 0
        assert compactor.take("t") is None
        assert compactor.is_free("t")

    played(scenario)


def test_a_forgotten_summary_is_never_handed_out() -> None:
    async def scenario() -> None:
        compactor, client = Compactor(), ScriptedModel(["one", "two"])
        compactor.start("t", job(client))
        await finished(compactor)
        compactor.forget("t")
        compactor.forget("unknown")
        assert compactor.take("t") is None
        await compactor.close()

    played(scenario)
