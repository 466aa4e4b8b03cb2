"""A2A with the other side's own client, `@a2a-js/sdk`, over both transports."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.server.a2a_world import BINDINGS, agents, held, world

from awaken.testing import ToolCalls, Turn

HERE = Path(__file__).parent
NODE = str(Path(sys.executable).with_name("node"))
COMPLETED, CANCELED, INPUT_REQUIRED = 3, 5, 6


async def run_client(url: str, binding: str) -> Any:
    process = await asyncio.create_subprocess_exec(
        NODE,
        str(HERE / "a2a" / "client.mjs"),
        url,
        binding,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(40):
            out, errors = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    assert process.returncode == 0, errors.decode()
    return json.loads(out)


def heard(events: Any) -> list[tuple[str, Any]]:
    return [(event["$case"], event["value"]) for event in events]


def text_of(artifact: Any) -> str:
    return "".join(part["content"]["value"] for part in artifact["parts"])


@pytest.mark.parametrize("binding", BINDINGS)
def test_the_javascript_client_talks_to_an_agent(binding: str) -> None:
    async def scenario() -> None:
        script = [
            "Hello.",
            Turn(text=["One ", "two ", "three."]),
            ToolCalls([("ask", {"question": "which one?"})]),
            "Thanks.",
            held(asyncio.Event(), "never"),
        ]
        async with world(agents(a=script)) as caller:
            found = await run_client(caller.url, binding)
        sent = found["sent"]
        assert sent["status"]["state"] == COMPLETED
        assert text_of(sent["artifacts"][0]) == "Hello."

        kinds, values = zip(*heard(found["streamed"]), strict=True)
        assert kinds == ("task", "statusUpdate", *["artifactUpdate"] * 4, "statusUpdate")
        assert "".join(text_of(it["artifact"]) for it in values[2:6]) == "One two three."
        assert [it["append"] for it in values[2:6]] == [False, True, True, True]
        assert [it["lastChunk"] for it in values[2:6]] == [False, False, False, True]
        assert values[-1]["status"]["state"] == COMPLETED

        asked = found["asked"]
        assert asked["status"]["state"] == INPUT_REQUIRED
        question, data = asked["status"]["message"]["parts"]
        assert question["content"]["value"] == "which one?"
        assert data["content"]["value"]["questions"][0]["toolName"] == "ask"
        assert heard(found["answered"])[-1][1]["status"]["state"] == COMPLETED
        resubscribed = heard(found["resubscribed"])
        assert resubscribed[0][1]["status"]["state"] == INPUT_REQUIRED
        assert resubscribed[-1][1]["status"]["state"] == COMPLETED
        got = found["got"]
        assert (got["id"], text_of(got["artifacts"][0])) == (asked["id"], "Thanks.")
        said = [it["parts"][0]["content"]["value"] for it in got["history"]]
        assert said == ["ask", "which one?", "the left", "Thanks."]

        assert found["cancelled"]["status"]["state"] == CANCELED
        followed = heard(found["followed"])
        assert followed[0][0] == "task"
        assert followed[-1][1]["status"]["state"] == CANCELED
        listed = found["listed"]
        assert [it["id"] for it in listed["tasks"]] == [
            found["cancelled"]["id"],
            asked["id"],
        ]
        assert (listed["totalSize"], bool(listed["nextPageToken"])) == (4, True)
        assert found["unknown"].endswith("TaskNotFoundError")
        assert found["uncancelable"].endswith("TaskNotCancelableError")

    asyncio.run(scenario())
