"""What A2A tasks hand over: subscriptions that outlast questions, histories, and artifacts."""

import asyncio
import base64
from dataclasses import dataclass
from typing import Any

import pytest

from awaken import Agent, AgentRuntime, tool
from awaken.messages import Base64Source, Document, Image, Text, UrlSource
from awaken.protocols.a2a.artifacts import PARTS_MAX, tool_artifact
from awaken.testing import ScriptedModel, ToolCalls

from .a2a_world import agents, artifact, states, world

PNG = base64.b64encode(b"\x89PNG").decode()
JSON = base64.b64encode(b'{"rows":[1,2]}').decode()
ASKS = ToolCalls([("ask", {"question": "which one?"})])
WIPES = ToolCalls([("wipe", {"disk": "sda"})])


@dataclass
class Weather:
    """An answer."""

    city: str
    degrees: int


@tool(effect="none")
async def paint() -> Any:
    """Paint."""
    return [
        Text(text="a picture"),
        Image(source=Base64Source(media_type="image/png", data=PNG)),
        Document(source=UrlSource(url="https://example.com/a.pdf"), title="a.pdf"),
        Document(source=Base64Source(media_type="application/json", data=JSON)),
    ]


@tool(effect="none")
async def count() -> Any:
    """Count."""
    return {"n": 1, "content": "secret"}


PARTS = [
    {"text": "a picture"},
    {"raw": PNG, "mediaType": "image/png"},
    {"url": "https://example.com/a.pdf", "filename": "a.pdf"},
    {"data": {"rows": [1, 2]}, "mediaType": "application/json"},
]


def test_a_subscription_stays_open_over_questions_and_ends_with_the_task() -> None:
    async def scenario() -> None:
        async with world(agents(a=[ASKS, WIPES, "Done."])) as caller:
            waiting = await caller.send("one")
            async with caller.subscribing(waiting["id"]) as (opening, rest):
                assert opening.data["task"]["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
                again = await caller.send("left", taskId=waiting["id"])
                assert again["status"]["state"] == "TASK_STATE_AUTH_REQUIRED"
                ended = await caller.send("approve", taskId=waiting["id"])
                assert ended["status"]["state"] == "TASK_STATE_COMPLETED"
                heard = await rest()
            assert states(heard) == ["WORKING", "AUTH_REQUIRED", "WORKING", "COMPLETED"]
            assert artifact(heard) == "Done."

    asyncio.run(scenario())


def test_the_history_has_the_questions_and_their_answers() -> None:
    async def scenario() -> None:
        async with world(agents(a=[ASKS, WIPES, "Done."])) as caller:
            waiting = await caller.send("one")
            assert [it["role"] for it in waiting["history"]] == ["ROLE_USER"]
            await caller.send("left", taskId=waiting["id"])
            refused = {"data": {"approved": False, "reason": "no"}}
            ended = await caller.send("x", taskId=waiting["id"], parts=[refused], message_id="m-no")
            said = [(it["role"], it["parts"][0]) for it in ended["history"]]
            assert said == [
                ("ROLE_USER", {"text": "one"}),
                ("ROLE_AGENT", {"text": "which one?"}),
                ("ROLE_USER", {"text": "left"}),
                ("ROLE_AGENT", {"text": "wipe sda?"}),
                (
                    "ROLE_USER",
                    {
                        "data": {"callId": "call_2", "approved": False, "reason": "no"},
                        "mediaType": "application/json",
                    },
                ),
                ("ROLE_AGENT", {"text": "Done."}),
            ]
            ids = [it["messageId"] for it in ended["history"]]
            assert (ids[0], ids[2], ids[4]) == ("m-one", "m-left", "m-no")
            assert len(set(ids)) == len(ids)
            status, short = await caller.rest("GET", f"/tasks/{waiting['id']}?historyLength=2")
            assert (status, len(short["history"])) == (200, 2)

    asyncio.run(scenario())


def test_files_addresses_and_data_of_tools_are_artifacts() -> None:
    async def scenario() -> None:
        calls = ToolCalls([("paint", {}), ("count", {})])
        agent = Agent("a", model=ScriptedModel([calls, "Painted."] * 2), tools=[paint, count])
        async with world(AgentRuntime([agent])) as caller:
            heard = await caller.stream("go")
            streamed = [
                it.data["artifactUpdate"]["artifact"] for it in heard if "artifactUpdate" in it.data
            ]
            assert [it["parts"] for it in streamed if it["name"] == "paint"] == [PARTS]
            task = await caller.send("again")
            assert [it["name"] for it in task["artifacts"]] == ["response", "paint"]
            assert task["artifacts"][1]["parts"] == PARTS
            status, got = await caller.rest("GET", f"/tasks/{task['id']}")
            assert (status, got["artifacts"]) == (200, task["artifacts"])

    asyncio.run(scenario())


def test_structured_output_is_a_data_artifact() -> None:
    async def scenario() -> None:
        model = ScriptedModel(['{"city": "Bern", "degrees": 3}'], cycle=True)
        async with world(AgentRuntime([Agent("a", model=model, output_type=Weather)])) as caller:
            task = await caller.send("go")
            made = {it["name"]: it["parts"] for it in task["artifacts"]}
            data = {"city": "Bern", "degrees": 3}
            assert made["output"] == [{"data": data, "mediaType": "application/json"}]
            heard = await caller.stream("again")
            streamed = [
                it.data["artifactUpdate"]["artifact"] for it in heard if "artifactUpdate" in it.data
            ]
            assert streamed[-1]["parts"] == made["output"]
            assert states(heard)[-1] == "COMPLETED"

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("data", "parts"),
    [
        ({"type": "image", "data": PNG, "mimeType": "image/png"}, [PARTS[1]]),
        ({"content": [{"type": "resource_link", "uri": "https://a.b/c", "name": "c"}]},
         [{"url": "https://a.b/c", "filename": "c"}]),
        ({"content": [{"type": "resource", "resource": {"blob": PNG, "uri": "x"}}]},
         [{"raw": PNG, "mediaType": "application/octet-stream"}]),
        ({"type": "image"}, None), ({"type": "image", "source": 3}, None), ([], None), ({}, None),
        (None, None), ("text", None), (3, None), ([[[]]], None), ({"content": None}, None),
        ([{"type": "text", "text": "only text"}], None), ({"content": {"type": "video"}}, None),
        ({"type": "document", "source": {"type": "base64", "media_type": "application/json",
          "data": "no base64 !"}}, [{"raw": "no base64 !", "mediaType": "application/json"}]),
    ],
)  # fmt: skip
def test_whatever_a_tool_returns_only_blocks_become_parts(data: Any, parts: Any) -> None:
    made = tool_artifact("m", "t", data)
    assert (made and made["parts"]) == parts


def test_a_result_has_no_more_parts_than_anybody_can_look_at() -> None:
    block = {"type": "image", "data": PNG, "mimeType": "image/png"}
    made = tool_artifact("m", "t", [block] * 5000)
    assert made is not None
    assert len(made["parts"]) == PARTS_MAX
