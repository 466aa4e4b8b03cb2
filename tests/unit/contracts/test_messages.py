"""Messages, their content and the messages that plugins put beside them."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from awaken.contracts.messages.content import (
    Audio,
    Base64Source,
    ContentBlock,
    Document,
    Image,
    Text,
    Thinking,
    ToolResultContent,
    ToolUse,
    UrlSource,
    Video,
    decode_block,
    replace_surrogates,
    text_of,
)
from awaken.contracts.messages.context_messages import (
    ContextMessage,
    ContextTarget,
    conversation_context,
    emit_once,
    session_context,
    suffix_context,
    system_context,
)
from awaken.contracts.messages.message import (
    Message,
    MessageList,
    MessageMetadata,
    Role,
    ToolCall,
    Transcript,
    Visibility,
    assistant,
    record_of,
    system,
    tool_answer,
    user,
)

URL = UrlSource(url="https://example.org/x")
BYTES = Base64Source(media_type="image/png", data="aGk=")
URL_WIRE = {"type": "url", "url": "https://example.org/x"}
BYTES_WIRE = {"type": "base64", "media_type": "image/png", "data": "aGk="}

BLOCKS: list[tuple[ContentBlock, dict[str, Any]]] = [
    (Text(text="hi"), {"type": "text", "text": "hi"}),
    (Image(source=URL), {"type": "image", "source": URL_WIRE}),
    (Image(source=BYTES), {"type": "image", "source": BYTES_WIRE}),
    (Document(source=URL), {"type": "document", "source": URL_WIRE}),
    (Document(source=URL, title="T"), {"type": "document", "source": URL_WIRE, "title": "T"}),
    (Audio(source=BYTES), {"type": "audio", "source": BYTES_WIRE}),
    (Video(source=URL), {"type": "video", "source": URL_WIRE}),
    (
        ToolUse(id="c", name="n", input={"a": 1}),
        {"type": "tool_use", "id": "c", "name": "n", "input": {"a": 1}},
    ),
    (ToolUse(id="c", name="n"), {"type": "tool_use", "id": "c", "name": "n", "input": None}),
    (
        ToolResultContent(tool_use_id="c", content=(Text(text="r"),)),
        {"type": "tool_result", "tool_use_id": "c", "content": [{"type": "text", "text": "r"}]},
    ),
    (
        ToolResultContent(tool_use_id="c"),
        {"type": "tool_result", "tool_use_id": "c", "content": []},
    ),
    (Thinking(thinking="mm"), {"type": "thinking", "thinking": "mm"}),
    (
        Thinking(thinking="mm", signature="s"),
        {"type": "thinking", "thinking": "mm", "signature": "s"},
    ),
]


@pytest.mark.parametrize(("block", "wire"), BLOCKS)
def test_every_block_has_one_wire_form_and_comes_back_from_it(
    block: ContentBlock, wire: dict[str, Any]
) -> None:
    encoded = msgspec.json.encode(block)
    assert msgspec.json.decode(encoded) == wire
    assert decode_block(encoded) == block


blocks = st.sampled_from([block for block, _ in BLOCKS]) | st.builds(Text, text=st.text())


@given(st.lists(blocks))
def test_the_text_of_a_message_is_its_text_blocks_and_nothing_else(
    content: list[ContentBlock],
) -> None:
    expected = "".join(block.text for block in content if isinstance(block, Text))
    assert text_of(tuple(content)) == user(content).text == expected
    assert text_of(None) == text_of(()) == ""
    encoded = msgspec.json.encode(user(content))
    assert msgspec.json.decode(encoded, type=Message) == user(content)


@given(st.text(st.characters()))
def test_any_text_can_be_made_encodable_and_proper_text_stays_as_it_is(text: str) -> None:
    safe = replace_surrogates(text)
    safe.encode()
    is_proper = not any("\ud800" <= char <= "\udfff" for char in text)
    assert len(safe) == len(text)
    assert (safe == text) is is_proper


CALL = ToolCall(id="c1", name="add", arguments={"a": 1})
HI = (Text(text="hi"),)
CONSTRUCTED: list[tuple[Message, dict[str, Any]]] = [
    (system("hi"), {"role": "system"}),
    (system("hi", visibility=Visibility.INTERNAL), {"role": "system", "visibility": "internal"}),
    (user("hi"), {"role": "user"}),
    (user("hi", visibility=Visibility.INTERNAL), {"role": "user", "visibility": "internal"}),
    (assistant("hi"), {"role": "assistant"}),
    (assistant("hi", []), {"role": "assistant"}),
    (
        assistant("hi", [CALL]),
        {
            "role": "assistant",
            "tool_calls": [{"id": "c1", "name": "add", "arguments": {"a": 1}}],
        },
    ),
    (tool_answer("c1", "hi"), {"role": "tool", "tool_call_id": "c1"}),
]


@pytest.mark.parametrize(("message", "wire"), CONSTRUCTED)
def test_a_constructor_sets_what_it_is_named_for_and_leaves_the_rest_out(
    message: Message, wire: dict[str, Any]
) -> None:
    assert message.id is None
    encoded = msgspec.json.encode(message)
    assert msgspec.json.decode(encoded) == {"content": [{"type": "text", "text": "hi"}], **wire}
    assert msgspec.json.decode(encoded, type=Message) == message


@pytest.mark.parametrize("build", [user, system, assistant, lambda c: tool_answer("c", c)])
@pytest.mark.parametrize("given_as", [tuple, list])
def test_blocks_are_kept_in_order_and_one_block_may_stand_alone(build: Any, given_as: Any) -> None:
    content = given_as([Text(text="see"), Image(source=URL)])
    assert build(content).content == tuple(content)
    assert build(Image(source=URL)).content == (Image(source=URL),)


optional_index = st.none() | st.integers(0, 3)


@given(st.none() | st.sampled_from(["r1", "r2"]), optional_index, optional_index)
def test_marking_fills_in_what_is_absent_and_never_overwrites(
    run_id: str | None, known_index: int | None, index: int | None
) -> None:
    metadata = MessageMetadata(run_id=run_id, step_index=known_index)
    message = Message(role=Role.USER, id="m", content=HI, metadata=metadata)
    marked = message.with_producer("r9", index)
    assert marked.metadata == MessageMetadata(
        run_id=run_id or "r9", step_index=index if known_index is None else known_index
    )
    assert msgspec.structs.replace(marked, metadata=metadata) == message
    assert marked.with_producer("other", 99).metadata.run_id == marked.metadata.run_id
    assert msgspec.json.decode(msgspec.json.encode(marked), type=Message) == marked


@pytest.mark.parametrize("metadata", [None, MessageMetadata(run_id="r", step_index=0)])
@pytest.mark.parametrize("message_id", [None, "m-1"])
def test_a_record_takes_place_and_producer_from_the_message(
    metadata: MessageMetadata | None, message_id: str | None
) -> None:
    message = msgspec.structs.replace(tool_answer("c1", "hi"), id=message_id, metadata=metadata)
    record = record_of(message, thread_id="t", seq=4, created_at=9)
    assert (record.thread_id, record.seq, record.created_at) == ("t", 4, 9)
    assert record.message_id == (message_id or "t:4")
    assert record.tool_call_id == "c1"
    expected = ("r", 0) if metadata else (None, None)
    assert (record.produced_by_run_id, record.step_index) == expected


def test_messages_of_older_versions_load() -> None:
    old = msgspec.json.decode(b'{"role":"user","content":[],"era":1}', type=Message)
    assert old == Message(role=Role.USER)
    assert old.visibility is Visibility.ALL
    assert old.metadata is None
    assert old.text == ""


CONTEXTS: list[tuple[ContextMessage, dict[str, Any]]] = [
    (system_context("k", "hi"), {}),
    (system_context("k", "hi", persistent=True), {"persistent": True}),
    (suffix_context("k", "hi"), {"target": "suffix_system"}),
    (session_context("k", Role.USER, "hi"), {"role": "user", "target": "session"}),
    (
        conversation_context("k", Role.ASSISTANT, "hi"),
        {"role": "assistant", "target": "conversation", "visibility": "all"},
    ),
    (
        emit_once("k", "hi", target=ContextTarget.SESSION),
        {"target": "session", "persistent": True, "consume_after_emit": True},
    ),
]
CONTEXT_DEFAULTS = {
    "role": "system",
    "visibility": "internal",
    "target": "system",
    "cooldown_turns": 0,
    "persistent": False,
    "consume_after_emit": False,
    "priority": 0,
}


@pytest.mark.parametrize(("message", "differing"), CONTEXTS)
def test_a_context_message_differs_from_the_defaults_only_where_it_says_so(
    message: ContextMessage, differing: dict[str, Any]
) -> None:
    shown = msgspec.json.decode(msgspec.json.encode(message))
    assert shown == {"key": "k", "content": [{"type": "text", "text": "hi"}], **differing}
    for name, value in {**CONTEXT_DEFAULTS, **differing}.items():
        assert getattr(message, name) == value
    assert msgspec.convert(shown, ContextMessage) == message


def test_context_messages_sort_by_target_then_priority_then_key() -> None:
    def at(target: str, priority: int, key: str) -> ContextMessage:
        return ContextMessage(key=key, target=ContextTarget(target), priority=priority)

    in_order = [
        at("system", -1, "z"),
        at("system", 0, "a"),
        at("system", 0, "b"),
        at("session", -9, "a"),
        at("conversation", -9, "a"),
        at("suffix_system", -9, "a"),
    ]
    mixed = in_order[4:] + in_order[:4]
    assert sorted(mixed, key=lambda each: each.order) == in_order


def asking(*ids: str) -> Message:
    calls = tuple(ToolCall(id=call_id, name="look") for call_id in ids)
    return Message(role=Role.ASSISTANT, tool_calls=calls)


def find_calls(messages: Transcript | MessageList, ids: str = "abcde") -> str:
    return "".join(it for it in ids if it in messages.call_ids)


def test_the_call_ids_of_a_transcript_are_read_once_and_follow_what_is_appended() -> None:
    class Counted(tuple[Message, ...]):
        reads = 0

        def __iter__(self) -> Iterator[Message]:
            Counted.reads += 1
            return super().__iter__()

    transcript = Transcript(Counted([user("hello"), asking("a", "b"), assistant("done")]))
    transcript.append(asking("c"))
    assert find_calls(transcript) == "abc"
    transcript.append(user("more"))
    transcript.append(asking("d"))
    assert find_calls(transcript) == "abcd"
    assert Counted.reads == 1


def test_a_list_that_knows_its_calls_is_read_once_by_all_transcripts_on_it() -> None:
    stored = MessageList([user("hello"), asking("a")])
    first = Transcript(Transcript(stored))
    first.append(asking("b"))
    assert find_calls(first) == "ab"
    assert find_calls(stored) == "a"
    stored.extend([asking("c"), asking("d")])
    assert find_calls(stored) == "acd"
    assert find_calls(Transcript(stored)) == "acd"
    assert stored._seen == len(stored)
