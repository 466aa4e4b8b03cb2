"""What the model reads of a result: everything, and nothing twice."""

import json
from typing import Any

import pytest

from awaken.extensions.mcp.config import McpLimits
from awaken.extensions.mcp.results import result_of
from awaken.tools import ToolDescriptor

TOOL = ToolDescriptor(id="mcp__s__t", name="t", description="")
CITY = {"city": "Rome", "degrees": 21.5}
PICTURE = {"type": "image", "data": "QUJD", "mimeType": "image/png"}


def text(value: Any) -> dict[str, Any]:
    return {"type": "text", "text": value if isinstance(value, str) else json.dumps(value)}


def read(structured: Any, *blocks: Any) -> Any:
    reply = {"content": list(blocks), "structuredContent": structured}
    return result_of(TOOL, reply, McpLimits())


@pytest.mark.parametrize(
    ("structured", "blocks"),
    [
        (CITY, [text(CITY)]),
        (CITY, [text(json.dumps(CITY, indent=2))]),
        (CITY, []),
        ({"result": 7}, [text("7")]),
        ({"result": "seven"}, [text("seven")]),
        ({"result": True}, [text("true")]),
        ({"result": [1, "b", CITY]}, [text("1"), text("b"), text(CITY)]),
        ({"result": [1, 2]}, [text([1, 2])]),
        ({"result": []}, []),
    ],
)
def test_a_text_that_repeats_the_structured_content_is_left_out(
    structured: Any, blocks: list[Any]
) -> None:
    result = read(structured, *blocks)
    assert result.data == structured
    assert result.metadata["mcp.result.content"] == blocks
    assert result.metadata["mcp.result.structuredContent"] == structured


@pytest.mark.parametrize(
    ("structured", "blocks", "shown"),
    [
        (CITY, [text("It is warm in Rome.")], ["It is warm in Rome."]),
        (CITY, [text({"city": "Rome"})], ['{"city": "Rome"}']),
        (CITY, [text("It is warm."), text(CITY)], ["It is warm."]),
        ({"result": [1, 2]}, [text("1"), text("3")], ["1", "3"]),
        ({"result": None}, [text("nothing")], ["nothing"]),
    ],
)
def test_a_text_that_says_something_else_is_read_as_well(
    structured: Any, blocks: list[Any], shown: list[str]
) -> None:
    data = read(structured, *blocks).data
    assert data["structuredContent"] == structured
    assert [it["text"] for it in data["content"]] == shown


def test_a_picture_beside_structured_content_is_described() -> None:
    data = read(CITY, text(CITY), PICTURE).data
    assert data["structuredContent"] == CITY
    assert [it["type"] for it in data["content"]] == ["image"]
