"""assistant-ui on the AI SDK: reload and edit go on with branches of the chat."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.server.serving import serving

from awaken import Agent, AgentRuntime
from awaken.services import histories
from awaken.testing import ScriptedModel

HERE = Path(__file__).parent
NODE = str(Path(sys.executable).with_name("node"))


def test_assistant_ui_reloads_and_edits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(histories, "OVERLAP_MS", 0)
    model = ScriptedModel([str(number) for number in range(1, 8)])

    async def scenario() -> dict[str, Any]:
        async with serving(AgentRuntime([Agent("default", model=model)])) as url:
            process = await asyncio.create_subprocess_exec(
                NODE, "client.mjs", url, cwd=HERE / "assistant_ui",
                stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            )  # fmt: skip
            try:
                out, err = await asyncio.wait_for(process.communicate(), 60)
            finally:
                if process.returncode is None:
                    process.kill()
            assert process.returncode == 0, err.decode()
            return json.loads(out)  # type: ignore[no-any-return]

    told = asyncio.run(scenario())
    assert told["errors"] == []
    assert told["begun"] == ["one", "1", "two", "2"]
    assert told["reloaded"] == ["one", "1", "two", "3"]
    assert told["edited"] == ["one", "1", "changed", "4"]
    assert told["anew"] == ["begun anew", "5"]
    assert told["last"] == ["begun anew", "5", "last", "6"]
    asked = [[it.text for it in request.messages] for request in model.requests]
    assert asked == [
        ["one"],
        ["one", "1", "two"],
        ["one", "1", "two"],
        ["one", "1", "changed"],
        ["begun anew"],
        ["begun anew", "5", "last"],
    ]
