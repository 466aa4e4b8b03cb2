"""A fake vendor that speaks OpenAI Chat, OpenAI Responses, Anthropic and Gemini.

Belongs here: what vendors send, well and badly. Does not: anything that our own codecs decide;
they are tested against this, so it shares nothing with them.
"""

from .answers import ModelRequest, Said, continue_answer
from .faults import (
    HttpAnswer,
    Sent,
    Silence,
    break_json,
    deep,
    double_fields,
    endless,
    long_line,
    not_a_number,
    redirect,
)
from .server import FakeModelServer
from .wires import WIRES, stream_of

__all__ = [
    "WIRES",
    "FakeModelServer",
    "HttpAnswer",
    "ModelRequest",
    "Said",
    "Sent",
    "Silence",
    "break_json",
    "continue_answer",
    "deep",
    "double_fields",
    "endless",
    "long_line",
    "not_a_number",
    "redirect",
    "stream_of",
]
