"""Recordings of released versions replay with today's code, and keep their bytes."""

import asyncio
from pathlib import Path

import pytest
from tests.golden.write_recordings import FOLDER, make_agent

from awaken import AgentRuntime
from awaken.bootstrap.replays import build_replays
from awaken.evals.recording_files import decode_recording, encode_recording

FILES = sorted(FOLDER.glob("*.json"))


@pytest.mark.parametrize("path", FILES, ids=lambda it: it.stem)
def test_a_golden_recording_replays_and_keeps_its_bytes(path: Path) -> None:
    data = path.read_bytes().strip()
    recording = decode_recording(data)
    assert encode_recording(recording) == data

    async def main() -> None:
        async with AgentRuntime([make_agent([])]) as runtime:
            result = await build_replays(runtime.view("test").engine).replay(recording)
            assert result.is_same, result.divergences

    asyncio.run(main())


def test_there_are_golden_recordings() -> None:
    assert {it.stem.partition("-")[2] for it in FILES} >= {"parallel", "approved"}
