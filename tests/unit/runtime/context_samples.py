"""Transcripts for tests of the context window, by hand and at random."""

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from awaken.contracts.messages.message import (
    Message,
    Role,
    ToolCall,
    assistant,
    system,
    tool_answer,
    user,
)
from awaken.contracts.models.model_specs import ModelSpec
from awaken.contracts.state.context_state import CompactionMark
from awaken.runtime.context.compaction import CompactionPlan


def numbered(messages: Sequence[Message]) -> list[Message]:
    """The messages with the ids that a thread would give them."""
    made = []
    for place, message in enumerate(messages):
        fields = {name: getattr(message, name) for name in message.__struct_fields__}
        made.append(Message(**{**fields, "id": f"m{place}"}))
    return made


def calls(*ids: str, text: str = "") -> Message:
    made = [ToolCall(id=it, name="search", arguments={"q": it}) for it in ids]
    return assistant(text, made) if text else Message(role=Role.ASSISTANT, tool_calls=tuple(made))


def answer(call_id: str, text: str = "found") -> Message:
    return tool_answer(call_id, text)


def talk(turns: int, size: int = 40) -> list[Message]:
    """Turns of a user and an assistant, each message of about `size` tokens."""
    text = "word " * (size * 4 // 5)
    both = ((user(f"{n} {text}"), assistant(f"{n} {text}")) for n in range(turns))
    return numbered([message for pair in both for message in pair])


def model(**fields: Any) -> ModelSpec:
    return ModelSpec(**{"id": "m", "provider_id": "p", "upstream_model": "big", **fields})


def mark(place: int, **fields: Any) -> CompactionMark:
    given = {"summary": "what was said", "pre_tokens": 2000, "post_tokens": 20, "at": 1}
    return CompactionMark(**{"message_id": f"m{place}", "place": place, **given, **fields})


def plan(place: int = 3, **fields: Any) -> CompactionPlan:
    given: dict[str, Any] = {
        "message_id": f"m{place}",
        "place": place,
        "tokens": 2000,
        "transcript": "[User]: hi",
        "previous": None,
        "effects": (),
    }
    return CompactionPlan(**{**given, **fields})


_texts = st.integers(0, 120).map(lambda n: "x" * (n * 10))


@st.composite
def _rounds(draw: st.DrawFn) -> list[Message]:
    text, kind = draw(_texts), draw(st.sampled_from(["user", "answer", "calls", "system"]))
    if kind == "user":
        return [user(text)]
    if kind == "system":
        return [system(text)]
    if kind == "answer":
        return [assistant(text or "ok")]
    count = draw(st.integers(1, 4))
    answers = [answer(f"c{n}", draw(_texts)) for n in draw(st.permutations(range(count)))]
    return [calls(*(f"c{n}" for n in range(count)), text=text), *answers]


transcripts = st.lists(_rounds(), max_size=20).map(
    # Some models use the same call ids in every step.
    lambda rounds: numbered([message for it in rounds for message in it])
)


def unpaired(messages: Sequence[Message]) -> list[str]:
    """The results that answer no call before them, and the calls that nothing answers."""
    open_calls: list[str] = []
    problems = []
    for message in messages:
        if message.role is Role.TOOL:
            if message.tool_call_id in open_calls:
                open_calls.remove(message.tool_call_id or "")
            else:
                problems.append(f"result of {message.tool_call_id}")
        open_calls += [call.id for call in message.tool_calls or ()]
    return problems + open_calls
