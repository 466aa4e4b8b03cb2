"""Estimates of tokens: cheap, never asked of anybody, and close enough to decide by."""

import pytest

from awaken.contracts.messages.content import Image, Text, Thinking, UrlSource
from awaken.contracts.messages.message import Message, Role, user
from awaken.contracts.models.inference import ModelTool
from awaken.runtime.context.estimate import (
    estimate_message_tokens,
    estimate_tokens,
    estimate_tool_tokens,
)

from .context_samples import calls


@pytest.mark.parametrize(
    ("message", "tokens"),
    [
        (Message(role=Role.USER), 4),
        (user("x" * 400), 104),
        (user("x" * 403), 104),
        (user("中" * 100), 79),
        (user("😀" * 100), 104),
        (user("\ud800" * 4), 7),
        (user((Text(text="x" * 40), Text(text="y" * 40))), 24),
        (Message(role=Role.ASSISTANT, content=(Thinking(thinking="x" * 80),)), 24),
        (user(Image(source=UrlSource(url="http://x" * 1000))), 4 + 50 // 4),
        (calls("a"), 4 + (len("search") + len('{"q":"a"}')) // 4),
        (calls("a", "b", text="x" * 40), 4 + (40 + 2 * len('search{"q":"a"}')) // 4),
    ],
    ids=["empty", "text", "rest", "cjk", "emoji", "surrogates", "blocks", "thought", "image",
         "call", "calls"],
)  # fmt: skip
def test_a_message_is_estimated_by_its_bytes_and_its_calls(message: Message, tokens: int) -> None:
    assert estimate_message_tokens(message) == tokens


def test_several_messages_are_the_sum_and_nothing_is_nothing() -> None:
    assert estimate_tokens([]) == estimate_tool_tokens([]) == 0
    assert estimate_tokens([user("x" * 40), user("x" * 80)]) == 14 + 24


def test_tools_are_estimated_with_their_schemas() -> None:
    schema = {"type": "object", "properties": {"q": {"type": "string"}}}
    small = ModelTool(id="find", description="x" * 36, parameters={})
    large = ModelTool(id="find", description="x" * 36, parameters=schema)
    assert estimate_tool_tokens([small]) == (4 + 36 + 2) // 4 + 10
    size = len('{"type":"object","properties":{"q":{"type":"string"}}}')
    assert estimate_tool_tokens([large, large]) == 2 * ((4 + 36 + size) // 4 + 10)
