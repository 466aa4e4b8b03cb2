"""Agents that hang, flood, babble, die and will not stop: typed failures, and nothing is left."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import msgspec
import pytest

from awaken import Stopped
from awaken.backends import AcpLimits, BackendRunResult, BackendRunStatus
from awaken.errors import (
    BackendExecutionFailed,
    RemoteMalformed,
    RemoteRefused,
    RemoteTooLarge,
    RemoteUnsupported,
)
from awaken.events import StoppedReason
from awaken.tools import ToolCallResume

from .acp_backend_world import (
    PROMPT_LIMITS,
    Decider,
    Sink,
    backend_of,
    is_gone,
    no_process_left,
    root,
    run,
)

SMALL = AcpLimits(
    line_bytes=100_000,
    total_bytes=300_000,
    answer_chars=20_000,
    cancel_ms=200,
    exit_ms=100,
    term_ms=200,
)


async def hung(folder: Path, mode: str, **more: Any) -> BackendRunResult:
    """What becomes of an agent that lets its time pass; it is given enough of it to start."""
    for timeout_ms in (500, 5_000, 25_000):
        backend = backend_of(folder, "raw", mode, timeout_ms=timeout_ms, **more)
        result = await backend.execute_root(root())
        assert result.status is BackendRunStatus.TIMEOUT
        if (folder / "ready").exists():
            return result
    raise AssertionError("it never started")


@pytest.mark.parametrize("mode", ["silent", "stubborn"])
def test_an_agent_that_hangs_runs_out_of_time(tmp_path: Path, mode: str) -> None:
    async def scenario() -> None:
        result = await hung(tmp_path, mode)
        assert result.termination == Stopped(reason=StoppedReason(code="timeout"))

    with no_process_left(tmp_path):
        run(scenario)


def test_an_agent_may_end_in_good_order_before_it_is_killed(tmp_path: Path) -> None:
    async def scenario() -> None:
        patient = msgspec.structs.replace(PROMPT_LIMITS, term_ms=20_000)
        await hung(tmp_path, "tidy", limits=patient)
        assert (tmp_path / "heard").read_text() == "term"

    with no_process_left(tmp_path):
        run(scenario)


@pytest.mark.parametrize("times", [1, 2])
def test_an_agent_that_ignores_that_it_is_cancelled_is_killed(tmp_path: Path, times: int) -> None:
    async def scenario() -> None:
        sink = Sink()
        backend = backend_of(tmp_path, "raw", "stubborn")
        running = asyncio.create_task(backend.execute_root(root(sink=sink)))
        await sink.until(lambda shown: "begin" in shown["text"])
        for _ in range(times):
            running.cancel()
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await running

    with no_process_left(tmp_path):
        run(scenario)


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        ("flooding", "wrote more than 300000"),
        ("endless_line", "line is longer than 100000"),
        ("long_answer", "answer is longer than 20000"),
        ("asking_too_much", "more than 32 requests"),
        ("asking_and_deaf", "more than 32 requests|wrote more than"),
    ],
)
def test_an_agent_that_floods_is_cut_off(tmp_path: Path, mode: str, words: str) -> None:
    async def scenario() -> None:
        backend = backend_of(tmp_path, "raw", mode, limits=SMALL)
        with pytest.raises(RemoteTooLarge, match=words):
            await backend.execute_root(root(decisions=Decider(None)))

    with no_process_left(tmp_path):
        run(scenario)


@pytest.mark.parametrize(
    "line",
    [
        "npm WARN deprecated",
        "42",
        "\xff\xfe",
        '{"a":"\xff"}',
        '{"a":~',
        '{"jsonrpc":"2.0","id":[1],"result":1}',
        '{"jsonrpc":"2.0","id":2,"error":"no"}',
        '{"jsonrpc":"2.0","method":7}',
        '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":7}}',
        '{"jsonrpc":"2.0","id":2,"result":{"stopReason":7}}',
        '{"jsonrpc":"2.0","id":2,"result":{"stopReason":"bored"}}',
    ],
)
def test_an_agent_that_babbles_is_not_listened_to(tmp_path: Path, line: str) -> None:
    async def scenario() -> None:
        with pytest.raises(RemoteMalformed):
            await backend_of(tmp_path, "raw", "writing", line).execute_root(root())

    with no_process_left(tmp_path):
        run(scenario)


def test_an_agent_that_dies_leaves_its_last_words_but_no_secret(tmp_path: Path) -> None:
    async def scenario() -> None:
        backend = backend_of(tmp_path, "raw", "dying", KEY="sk-123456")
        with pytest.raises(BackendExecutionFailed) as failed:
            await backend.execute_root(root())
        assert "ended with code 3" in str(failed.value)
        assert str(failed.value).endswith("no fuel, key ***")
        assert len(str(failed.value)) < PROMPT_LIMITS.stderr_bytes + 200

    with no_process_left(tmp_path):
        run(scenario)


def test_what_an_agent_repeats_of_its_keys_is_in_no_answer_and_on_no_ticket(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        shows = backend_of(tmp_path, "raw", "showing", KEY="sk-123456")
        text = (await shows.execute_root(root())).text
        assert ("sk-123456" in text, "***" in text) == (False, True)
        decider = Decider(ToolCallResume(decision_id="d"))
        asks = backend_of(tmp_path, "scripted", KEY="Erase ")
        await asks.execute_root(root("erase", decisions=decider))
        ((_, ticket),) = decider.asked
        assert ticket.suspension.message == "***/x"

    with no_process_left(tmp_path):
        run(scenario)


def test_what_an_agent_leaves_behind_ends_with_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        result = await backend_of(tmp_path, "raw", "orphaning").execute_root(root())
        assert result.status is BackendRunStatus.COMPLETED

    with no_process_left(tmp_path):
        run(scenario)


def test_a_process_that_keeps_the_pipes_is_not_waited_for(tmp_path: Path) -> None:
    async def scenario() -> None:
        await hung(tmp_path, "leaving")
        child = int((tmp_path / "child").read_text())
        assert not is_gone(child)
        os.kill(child, signal.SIGKILL)

    run(scenario)
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text()}").exists()


def test_files_and_terminals_are_not_lent(tmp_path: Path) -> None:
    async def scenario() -> None:
        decider = Decider(None)
        result = await backend_of(tmp_path, "raw", "wanting").execute_root(root(decisions=decider))
        missing, wrong = -32601, -32602
        assert result.text == str([missing] * 40 + [wrong] * 3)
        assert decider.asked == []

    with no_process_left(tmp_path):
        run(scenario)


def test_what_is_shown_of_much_work_is_little(tmp_path: Path) -> None:
    async def scenario() -> None:
        sink = Sink()
        result = await backend_of(tmp_path, "raw", "chatty").execute_root(root(sink=sink))
        assert len(result.text) == 12_000
        assert len(sink.shown) < 1000
        shown: Any = sink.shown[-1].content
        assert [it["id"] for it in shown["tool_calls"]] == [f"c{it}" for it in range(1950, 2000)]
        assert len(shown["tool_calls"][0]["title"]) == 200
        assert len(shown["text"]) == 2000

    run(scenario)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (("locked",), RemoteRefused, "wants a login"),
        (("versioned", "2"), RemoteUnsupported, "version 2"),
    ],
)
def test_an_agent_that_cannot_be_talked_to_says_why(
    tmp_path: Path, arguments: tuple[str, ...], error: type[Exception], words: str
) -> None:
    async def scenario() -> None:
        with pytest.raises(error, match=words):
            await backend_of(tmp_path, "raw", *arguments).execute_root(root())

    with no_process_left(tmp_path):
        run(scenario)
