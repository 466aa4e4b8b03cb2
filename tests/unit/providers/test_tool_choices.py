"""A tool that must be called, and an answer that may be any object, in the words of each vendor."""

import json
from typing import Any

import pytest

from awaken.contracts.messages.message import user
from awaken.contracts.models.inference import Effort, InferenceOverride, InferenceRequest, ModelTool
from awaken.providers.anthropic.codec import AnthropicCodec
from awaken.providers.bedrock.encode import ConverseEncoder
from awaken.providers.gemini.codec import GeminiCodec
from awaken.providers.openai_chat.codec import OpenAiChatCodec
from awaken.providers.openai_responses.codec import OpenAiResponsesCodec

TOOL = ModelTool(id="t", description="T.", parameters={"type": "object", "properties": {}})
ANY = {"type": "object", "additionalProperties": True}
CODECS: dict[str, Any] = {
    "chat": OpenAiChatCodec,
    "responses": OpenAiResponsesCodec,
    "anthropic": AnthropicCodec,
    "gemini": GeminiCodec,
    "bedrock": ConverseEncoder,
}


def body(format_: str, **fields: Any) -> dict[str, Any]:
    request = InferenceRequest(upstream_model="m", messages=[user("hi")], tools=(TOOL,), **fields)
    found: dict[str, Any] = json.loads(CODECS[format_]().encode(request).body)
    return found


@pytest.mark.parametrize(
    ("format_", "wanted", "written"),
    [
        ("chat", "required", {"tool_choice": "required"}),
        ("chat", "none", {"tool_choice": "none"}),
        ("chat", "t", {"tool_choice": {"type": "function", "function": {"name": "t"}}}),
        ("responses", "required", {"tool_choice": "required"}),
        ("responses", "t", {"tool_choice": {"type": "function", "name": "t"}}),
        ("anthropic", "required", {"tool_choice": {"type": "any"}}),
        ("anthropic", "none", {"tool_choice": {"type": "none"}}),
        ("anthropic", "t", {"tool_choice": {"type": "tool", "name": "t"}}),
        ("gemini", "required", {"toolConfig": {"functionCallingConfig": {"mode": "ANY"}}}),
        ("gemini", "none", {"toolConfig": {"functionCallingConfig": {"mode": "NONE"}}}),
        (
            "gemini",
            "t",
            {
                "toolConfig": {
                    "functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["t"]}
                }
            },
        ),
    ],
)
def test_a_choice_is_written_as_the_vendor_wants_it(
    format_: str, wanted: str, written: dict[str, Any]
) -> None:
    plain, found = body(format_), body(format_, tool_choice=wanted)
    assert {name: it for name, it in found.items() if name not in plain} == written


@pytest.mark.parametrize(
    ("wanted", "written"),
    [("required", {"any": {}}), ("t", {"tool": {"name": "t"}}), ("none", None)],
)
def test_converse_has_the_choice_beside_the_tools(wanted: str, written: Any) -> None:
    assert body("bedrock", tool_choice=wanted)["toolConfig"].get("toolChoice") == written


def test_a_model_that_thinks_is_not_made_to_call() -> None:
    overrides = InferenceOverride(reasoning_effort=Effort.HIGH)
    assert "tool_choice" not in body("anthropic", tool_choice="t", overrides=overrides)


@pytest.mark.parametrize(
    ("format_", "written"),
    [
        ("chat", {"response_format": {"type": "json_object"}}),
        ("responses", {"text": {"format": {"type": "json_object"}}}),
        ("anthropic", {}),
        ("gemini", {"generationConfig": {"responseMimeType": "application/json"}}),
    ],
)
def test_any_object_is_no_schema(format_: str, written: dict[str, Any]) -> None:
    plain, found = body(format_), body(format_, output_schema=ANY)
    assert {name: it for name, it in found.items() if name not in plain} == written
