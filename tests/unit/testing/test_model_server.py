"""The fake vendor, seen by a client that knows HTTP and nothing of our codecs."""

import asyncio
import gzip
import json
from collections.abc import Awaitable, Callable

import aiohttp
import pytest

from awaken.contracts.messages.deltas import ReasoningDelta, TextDelta, ToolCallDelta, ToolCallStart
from awaken.contracts.models.errors import (
    Overloaded,
    RateLimited,
    StreamInterrupted,
    TransportFailed,
)
from awaken.contracts.models.inference import (
    BlockStop,
    CallSignature,
    Stop,
    StopReason,
    ThinkingSignature,
    TokenUsage,
)
from awaken.testing import Chunks, Reasoning, ToolCalls, Turn
from awaken.testing.model_server import (
    WIRES,
    FakeModelServer,
    HttpAnswer,
    Said,
    Sent,
    Silence,
    break_json,
    continue_answer,
    deep,
    double_fields,
    endless,
    long_line,
    not_a_number,
    redirect,
    stream_of,
)

PATHS = {
    "openai_chat": "/v1/chat/completions",
    "openai_responses": "/v1/responses",
    "anthropic": "/v1/messages",
    "gemini": "/v1beta/models/some:streamGenerateContent?alt=sse",
}
EVERY_WIRE = pytest.mark.parametrize("wire", WIRES)
USAGE = TokenUsage(
    prompt_tokens=100, completion_tokens=50, cache_read_tokens=60, cache_creation_tokens=10
)


def body(wire: str, *turns: tuple[str, str]) -> dict[str, object]:
    said = turns or (("user", "hi"),)
    if wire == "gemini":
        roles = {"assistant": "model"}
        return {
            "contents": [
                {"role": roles.get(role, role), "parts": [{"text": text}]} for role, text in said
            ]
        }
    field = "input" if wire == "openai_responses" else "messages"
    asked = {"model": "fake", "stream": True, "stream_options": {"include_usage": True}}
    return {**asked, field: [{"role": role, "content": text} for role, text in said]}


def served(
    answers: object, check: Callable[[FakeModelServer, aiohttp.ClientSession], Awaitable[None]]
) -> FakeModelServer:
    server = FakeModelServer(answers)  # type: ignore[arg-type]

    async def play() -> None:
        async with server, aiohttp.ClientSession(auto_decompress=False) as session:
            await asyncio.wait_for(check(server, session), 20)

    asyncio.run(play())
    return server


def told(answers: object, wire: str) -> bytes:
    """The body of the first answer."""
    seen: list[bytes] = []

    async def check(server: FakeModelServer, session: aiohttp.ClientSession) -> None:
        async with session.post(server.url + PATHS[wire], json=body(wire)) as response:
            assert response.status == 200
            seen.append(await response.read())

    served(answers, check)
    return seen[0]


def data_of(stream: bytes) -> list[dict[str, object]]:
    lines = [line.removeprefix(b"data: ") for line in stream.split(b"\n") if line[:5] == b"data:"]
    return [json.loads(line) for line in lines if line != b"[DONE]"]


@EVERY_WIRE
def test_what_is_sent_is_what_the_format_writes(wire: str) -> None:
    answer = Turn(["a", "ü"], reasoning=Reasoning("why", "c2ln"), calls=[("go", {"x": [1]})])
    assert told([answer], wire) == b"".join(stream_of(wire, answer))


@EVERY_WIRE
def test_every_byte_may_come_alone(wire: str) -> None:
    assert told([Sent("grüße 🙂", chunk_bytes=1)], wire) == b"".join(stream_of(wire, "grüße 🙂"))


@EVERY_WIRE
def test_a_packed_answer_says_that_it_is_packed(wire: str) -> None:
    async def check(server: FakeModelServer, session: aiohttp.ClientSession) -> None:
        async with session.post(server.url + PATHS[wire], json=body(wire)) as response:
            assert response.headers["content-encoding"] == "gzip"
            unpacked = gzip.decompress(await response.read())
            assert unpacked == b"".join(stream_of(wire, "hi"))

    served([Sent("hi", is_gzip=True)], check)


def test_openai_chat_numbers_its_calls_and_tells_usage_when_asked() -> None:
    answer = Turn(calls=ToolCalls([("a", {"x": 1}), ("b", "")], split=2), usage=USAGE)
    *_, last, usage = chunks = data_of(b"".join(stream_of("openai_chat", answer)))
    pieces = [call for chunk in chunks[1:-2] for call in chunk["choices"][0]["delta"]["tool_calls"]]
    assert [(piece["index"], piece.get("id")) for piece in pieces] == [
        (0, "call_1"),
        (0, None),
        (0, None),
        (1, "call_2"),
    ]
    assert "".join(piece["function"]["arguments"] for piece in pieces) == '{"x":1}'
    assert last["choices"][0]["finish_reason"] == "tool_calls"
    assert usage["usage"]["prompt_tokens_details"]["cached_tokens"] == 60
    assert usage["usage"]["total_tokens"] == 150


def test_openai_chat_tells_no_usage_unasked() -> None:
    stream = b"".join(WIRES["openai_chat"].stream(Said([TextDelta(delta="hi")]), {"model": "m"}))
    assert all("usage" not in chunk for chunk in data_of(stream))
    assert stream.endswith(b"data: [DONE]\n\n")


def test_anthropic_counts_cached_tokens_apart_and_tells_the_prompt_first() -> None:
    events = data_of(b"".join(stream_of("anthropic", Turn("hi", usage=USAGE))))
    first, last = events[0]["message"]["usage"], events[-2]["usage"]
    assert first == {
        "input_tokens": 30,
        "cache_read_input_tokens": 60,
        "cache_creation_input_tokens": 10,
        "output_tokens": 1,
    }
    assert last == {"output_tokens": 50}


def test_gemini_signs_the_call_that_follows_a_thought_and_counts_thoughts_apart() -> None:
    usage = TokenUsage(prompt_tokens=7, completion_tokens=5, thinking_tokens=2)
    answer = Turn("hi", reasoning=Reasoning("why", "c2ln"), calls=[("go", {})], usage=usage)
    events = data_of(b"".join(stream_of("gemini", answer)))
    parts = [event["candidates"][0]["content"]["parts"][0] for event in events]
    assert parts == [
        {"text": "why", "thought": True},
        {"text": "hi"},
        {"thoughtSignature": "c2ln", "functionCall": {"id": "call_1", "name": "go", "args": {}}},
        {"text": ""},
    ]
    assert events[-1]["usageMetadata"]["candidatesTokenCount"] == 3
    assert events[-1]["usageMetadata"]["thoughtsTokenCount"] == 2


def test_gemini_signs_a_call_and_a_thought_that_nothing_follows() -> None:
    deltas = [
        ToolCallStart(id="c", name="go"),
        ToolCallDelta(id="c", args_delta='{"x":'),
        ToolCallDelta(id="c", args_delta="1}"),
        CallSignature(id="c", signature="b25l"),
        ReasoningDelta(delta="so"),
        ThinkingSignature(signature="dHdv"),
    ]
    events = data_of(b"".join(stream_of("gemini", Said(deltas))))
    parts = [event["candidates"][0]["content"]["parts"][0] for event in events]
    assert parts[0] == {
        "functionCall": {"id": "c", "name": "go", "args": {"x": 1}},
        "thoughtSignature": "b25l",
    }
    assert parts[2] == {"text": "", "thoughtSignature": "dHdv"}


def test_responses_ends_an_answer_that_was_too_long_as_incomplete() -> None:
    events = data_of(
        b"".join(stream_of("openai_responses", Turn("hi", stop=StopReason.MAX_TOKENS)))
    )
    assert events[-1]["type"] == "response.incomplete"
    assert events[-1]["response"]["incomplete_details"] == {"reason": "max_output_tokens"}
    assert [event["sequence_number"] for event in events] == list(range(len(events)))


def test_blocks_begin_where_they_are_told_to() -> None:
    deltas = [
        TextDelta(delta="a"),
        TextDelta(delta="b"),
        BlockStop(),
        TextDelta(delta="c"),
        ReasoningDelta(delta="d"),
        ThinkingSignature(signature="s"),
        ReasoningDelta(delta="e"),
    ]
    events = data_of(b"".join(stream_of("anthropic", Said(deltas))))
    texts = [""] * 4
    for event in events:
        if event["type"] == "content_block_delta":
            delta = event["delta"]
            texts[event["index"]] += delta.get("text", delta.get("thinking", ""))
    assert texts == ["ab", "c", "d", "e"]


@EVERY_WIRE
def test_requests_are_recorded_and_connections_used_again(wire: str) -> None:
    async def check(server: FakeModelServer, session: aiohttp.ClientSession) -> None:
        for _ in range(2):
            async with session.post(
                server.url + PATHS[wire], json=body(wire, ("user", "hi")), headers={"X-A": "b"}
            ) as response:
                await response.read()
        assert server.open_connections == 1

    server = served(["one", "two"], check)
    assert [request.path for request in server.requests] == [PATHS[wire]] * 2
    assert server.requests[0].headers["x-a"] == "b"
    assert server.requests[0].body == json.loads(server.requests[0].raw) == body(wire)
    assert server.requests[0].turns == (("user", "hi"),)
    assert server.open_connections == 0


@EVERY_WIRE
def test_a_failure_is_the_vendors_status_and_body(wire: str) -> None:
    async def check(server: FakeModelServer, session: aiohttp.ClientSession) -> None:
        async with session.post(server.url + PATHS[wire], json=body(wire)) as response:
            assert response.status == 429
            assert response.headers["retry-after"] == "1.5"
            assert (await response.json())["error"]["message"] == "slowly"

    served([RateLimited("slowly", retry_after_ms=1500)], check)


@EVERY_WIRE
def test_an_error_of_a_turn_comes_in_its_stream(wire: str) -> None:
    stream = told([Turn("so far", error=Overloaded("full"))], wire)
    assert b"so far" in stream
    last = data_of(stream)[-1]
    assert "full" in json.dumps(last.get("error", last))


@EVERY_WIRE
@pytest.mark.parametrize(
    "answer",
    [
        TransportFailed,
        Turn("so far", error=StreamInterrupted("gone")),
        Sent("hello there", cut_after=20),
        Sent("hello there", cut_after=20, cut="close"),
    ],
    ids=["at once", "after a turn", "reset", "closed"],
)
def test_a_connection_breaks_where_it_is_told_to(wire: str, answer: object) -> None:
    got: list[bytes] = []

    async def read(url: str, session: aiohttp.ClientSession) -> None:
        async with session.post(url, json=body(wire)) as response:
            while piece := await response.content.readany():
                got.append(piece)

    async def check(server: FakeModelServer, session: aiohttp.ClientSession) -> None:
        with pytest.raises(aiohttp.ClientError):
            await read(server.url + PATHS[wire], session)
        await server.all_closed()

    served([answer], check)
    if isinstance(answer, Sent):
        assert b"".join(got) == b"".join(stream_of(wire, "hello there"))[:20]
    else:
        assert (b"so far" in b"".join(got)) is isinstance(answer, Turn)


@EVERY_WIRE
def test_a_body_may_end_early_as_if_it_were_whole(wire: str) -> None:
    sent = Sent("hello there", cut_after=20, cut="end")
    assert told([sent], wire) == b"".join(stream_of(wire, "hello there"))[:20]


def test_a_pause_holds_every_piece_until_it_is_over() -> None:
    async def check(server: FakeModelServer, session: aiohttp.ClientSession) -> None:
        async with session.post(
            server.url + PATHS["anthropic"], json=body("anthropic")
        ) as response:
            came = 0
            for expected in stream_of("anthropic", "slow"):
                assert response.content.total_bytes == came
                steps.release()
                assert await response.content.readexactly(len(expected)) == expected
                came += len(expected)

    steps = asyncio.Semaphore(0)
    served([Sent("slow", pause=steps.acquire)], check)


@pytest.mark.parametrize(
    "answer", [Silence(), Sent("hi", pause=lambda: asyncio.Event().wait())], ids=["all", "body"]
)
def test_silence_ends_with_the_client(answer: object) -> None:
    async def check(server: FakeModelServer, session: aiohttp.ClientSession) -> None:
        url = server.url + PATHS["gemini"]
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05), session.post(url, json=body("gemini")) as response:
                await response.read()
        await server.all_closed()

    served([answer], check)


@pytest.mark.parametrize("answer", [endless(), long_line()], ids=["stream", "line"])
def test_what_has_no_end_stops_when_the_client_leaves(answer: object) -> None:
    async def check(server: FakeModelServer, session: aiohttp.ClientSession) -> None:
        async with session.post(server.url + PATHS["gemini"], json=body("gemini")) as response:
            await response.content.readexactly(2_000_000)
        await server.all_closed()

    served([answer], check)


def test_spoiled_events_are_spoiled_and_the_others_are_not() -> None:
    for spoil in (break_json, deep, not_a_number):
        first, second, *_ = told([Sent("hi", spoil=spoil)], "openai_chat").split(b"\n\n")
        assert json.loads(first.removeprefix(b"data: "))
        bad = second.removeprefix(b"data: ")
        if spoil is not_a_number:
            assert b"NaN" in bad
        else:
            with pytest.raises((ValueError, RecursionError)):
                json.loads(bad)
    whole = told([Sent("hi", spoil=double_fields)], "openai_chat")
    assert data_of(whole) == data_of(told(["hi"], "openai_chat"))
    assert whole.count(b'"hi"') == 2


def test_a_redirect_says_where_to() -> None:
    async def check(server: FakeModelServer, session: aiohttp.ClientSession) -> None:
        url = server.url + PATHS["gemini"]
        async with session.post(url, json=body("gemini"), allow_redirects=False) as response:
            assert response.status == 307
            assert response.headers["location"] == "http://elsewhere"

    served([redirect("http://elsewhere")], check)


@EVERY_WIRE
@pytest.mark.parametrize(
    ("turns", "expected"),
    [
        ([("user", "write")], "one two three"),
        ([("user", "write"), ("assistant", "one tw"), ("user", "go on")], "o three"),
        ([("user", "write"), ("assistant", "other"), ("user", "go on")], "one two three"),
        ([("user", "write"), ("assistant", "one tw")], "one two three"),
        ([("user", "write"), ("user", "one"), ("user", "go on")], "one two three"),
    ],
)
def test_a_continued_answer_is_the_rest_of_the_text(
    wire: str, turns: list[tuple[str, str]], expected: str
) -> None:
    async def check(server: FakeModelServer, session: aiohttp.ClientSession) -> None:
        async with session.post(server.url + PATHS[wire], json=body(wire, *turns)) as response:
            assert await response.read() == b"".join(stream_of(wire, expected))

    served(continue_answer("one two three"), check)


def test_a_script_that_is_used_up_says_so() -> None:
    async def check(server: FakeModelServer, session: aiohttp.ClientSession) -> None:
        answers = []
        for _ in range(2):
            async with session.post(server.url + PATHS["gemini"], json=body("gemini")) as response:
                answers.append((response.status, await response.text()))
        assert answers[0][0] == 200
        assert answers[1][0] == 400
        assert "script is exhausted: 1 of 1" in answers[1][1]

    served(["only one"], check)


def test_only_streams_are_there() -> None:
    async def check(server: FakeModelServer, session: aiohttp.ClientSession) -> None:
        for path in ("/v1/models", "/v1/messages", "/v1/models/some:generateContent"):
            async with session.post(server.url + path, json={"messages": []}) as response:
                assert response.status == 404
                assert f"nothing is streamed at {path}" in await response.text()

    served([], check)


def test_a_mistake_in_a_script_is_raised_when_the_server_is_left() -> None:
    async def read(url: str, session: aiohttp.ClientSession) -> None:
        async with session.post(url, json=body("gemini")) as response:
            await response.read()

    async def check(server: FakeModelServer, session: aiohttp.ClientSession) -> None:
        with pytest.raises(aiohttp.ClientError):
            await read(server.url + PATHS["gemini"], session)

    with pytest.raises(ValueError, match="knows no delay_ms"):
        served([Chunks(["a", "b"], delay_ms=5)], check)
    with pytest.raises(ValueError, match="is no delta"):
        served([Said([Stop(reason=StopReason.END_TURN)])], check)
    with pytest.raises(ZeroDivisionError):
        served([Sent("hi", pause=impatient)], check)


async def impatient() -> None:
    raise ZeroDivisionError


def test_a_server_has_an_address_only_while_it_is_entered() -> None:
    with pytest.raises(RuntimeError, match="async with server"):
        _ = FakeModelServer([]).url


def test_an_http_answer_is_sent_as_it_stands() -> None:
    async def check(server: FakeModelServer, session: aiohttp.ClientSession) -> None:
        async with session.post(server.url + PATHS["gemini"], json=body("gemini")) as response:
            assert (response.status, await response.read()) == (599, b"no")

    served([HttpAnswer(599, b"no")], check)
