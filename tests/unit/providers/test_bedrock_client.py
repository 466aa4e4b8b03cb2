import asyncio
import json
import logging
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import botocore.auth
import pytest
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from tests.unit.providers.test_bedrock_frames import framed, text_header

from awaken.contracts.errors import InvalidSpec
from awaken.contracts.messages.deltas import TextDelta, ToolCallDelta, ToolCallStart
from awaken.contracts.messages.message import user
from awaken.contracts.models.errors import (
    AnswerTooLarge,
    ContextOverflow,
    MalformedAnswer,
    ModelError,
    ModelTimeout,
    ProviderFailed,
    ProviderUnusable,
    RateLimited,
    StreamInterrupted,
    TransportFailed,
    Unauthorized,
)
from awaken.contracts.models.inference import (
    BlockStop,
    InferenceRequest,
    ModelClient,
    ModelEvent,
    Stop,
    StopReason,
    TokenUsage,
    UsageReport,
)
from awaken.contracts.models.model_specs import ProviderSpec
from awaken.contracts.secrets import RedactedString
from awaken.outbound.pool import HttpPool
from awaken.providers.bedrock import BedrockClient
from awaken.providers.bedrock import client as client_module
from awaken.providers.http import transport
from awaken.providers.http.failures import MESSAGE_CHARS

MODEL = "anthropic.claude-sonnet-4-5-v1:0"
ACCESS, SECRET, TOKEN = "AKIDEXAMPLE", "s3cr3t/Key+value", "session-token-value"
QUESTION = InferenceRequest(upstream_model=MODEL, messages=[user("Hi ü")])


def event(kind: str, kind_of: str = "event", **fields: Any) -> bytes:
    named = ":event-type" if kind_of == "event" else ":exception-type"
    headers = (
        text_header(":message-type", kind_of)
        + text_header(named, kind)
        + text_header(":content-type", "application/json")
    )
    return framed(headers, json.dumps(fields, ensure_ascii=False).encode())


ANSWER = b"".join(
    (
        event("messageStart", role="assistant"),
        event("contentBlockDelta", contentBlockIndex=0, delta={"text": "Grüße"}),
        event("contentBlockStop", contentBlockIndex=0),
        event(
            "contentBlockStart",
            contentBlockIndex=1,
            start={"toolUse": {"toolUseId": "a", "name": "look"}},
        ),
        event("contentBlockDelta", contentBlockIndex=1, delta={"toolUse": {"input": '{"q":1}'}}),
        event("contentBlockStop", contentBlockIndex=1),
        event("messageStop", stopReason="tool_use"),
        event("metadata", usage={"inputTokens": 3, "outputTokens": 4, "totalTokens": 7}),
    )
)
STOPPED = ANSWER.index(event("messageStop", stopReason="tool_use")) + len(
    event("messageStop", stopReason="tool_use")
)
"""Where it is known why the model stopped."""
EVENTS: list[ModelEvent] = [
    TextDelta(delta="Grüße"),
    BlockStop(),
    ToolCallStart(id="a", name="look"),
    ToolCallDelta(id="a", args_delta='{"q":1}'),
    UsageReport(usage=TokenUsage(prompt_tokens=3, completion_tokens=4, total_tokens=7)),
    Stop(reason=StopReason.TOOL_USE),
]
HEAD = (
    b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: application/vnd.amazon.eventstream\r\n"
)


def chunked(*pieces: bytes, is_whole: bool = True) -> bytes:
    parts = [b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces if piece]
    end = b"0\r\n\r\n" if is_whole else b""
    return HEAD + b"transfer-encoding: chunked\r\n\r\n" + b"".join(parts) + end


def refused(status: int, kind: str, body: bytes, *extra: bytes) -> bytes:
    head = b"HTTP/1.1 %d No\r\nx-amzn-errortype: %b\r\n" % (status, kind.encode())
    more = b"".join(line + b"\r\n" for line in extra)
    return head + more + b"content-length: %d\r\n\r\n" % len(body) + body


class FakeBedrock:
    """Answers every request with the given bytes and closes; remembers what it was asked."""

    def __init__(
        self, answer: bytes | Callable[[bytes], bytes], *, is_silent: bool = False
    ) -> None:
        self.answer = answer
        self.is_silent = is_silent
        self.heads: list[bytes] = []
        self.bodies: list[bytes] = []
        self.gone = asyncio.Event()
        self.served: set[asyncio.Task[None] | None] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.served.add(asyncio.current_task())
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            size = int(self.header("content-length", head) or 0)
            self.heads.append(head)
            self.bodies.append(await reader.readexactly(size))
            writer.write(self.answer(head) if callable(self.answer) else self.answer)
            await writer.drain()
            if self.is_silent:
                await reader.read()
                self.gone.set()
        except (ConnectionError, asyncio.IncompleteReadError):
            self.gone.set()
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    def header(self, name: str, head: bytes | None = None) -> str:
        for line in (head or self.heads[-1]).decode().split("\r\n")[1:]:
            key, _, value = line.partition(": ")
            if key.lower() == name:
                return value
        return ""


@asynccontextmanager
async def serving(fake: FakeBedrock) -> AsyncIterator[tuple[str, HttpPool]]:
    server = await asyncio.start_server(fake.serve, "127.0.0.1", 0)
    pool = HttpPool()
    try:
        async with server, asyncio.timeout(50):
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", pool
    finally:
        await pool.close()
        await asyncio.wait_for(asyncio.gather(*(task for task in fake.served if task)), 5)


def spec_of(base_url: str | None, **fields: Any) -> ProviderSpec:
    given = {"adapter_options": {"region": "eu-central-1"}, "timeout_ms": 5_000, **fields}
    return ProviderSpec(id="aws", adapter="bedrock", base_url=base_url, **given)


async def read_into(seen: list[ModelEvent], client: BedrockClient) -> None:
    async for made in client.stream(QUESTION):
        seen.append(made)


def asked(
    answer: bytes | Callable[[bytes], bytes], request: InferenceRequest = QUESTION, **fields: Any
) -> tuple[list[ModelEvent], FakeBedrock]:
    async def ask() -> tuple[list[ModelEvent], FakeBedrock]:
        fake = FakeBedrock(answer, is_silent=fields.pop("is_silent", False))
        async with serving(fake) as (url, pool):
            client = BedrockClient(spec_of(url, **fields), pool)
            return [made async for made in client.stream(request)], fake

    return asyncio.run(ask())


KEY = {"api_key": RedactedString("bearer-key-value")}


@pytest.fixture(autouse=True)
def _no_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    for name in list(os.environ):
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.fixture
def _credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_SESSION_TOKEN", TOKEN)


def test_an_answer_is_read_as_it_comes() -> None:
    events, fake = asked(chunked(ANSWER), **KEY)
    assert events == EVENTS
    assert fake.heads[0].startswith(
        b"POST /model/anthropic.claude-sonnet-4-5-v1%3A0/converse-stream HTTP/1.1\r\n"
    )
    assert fake.bodies == ['{"messages":[{"role":"user","content":[{"text":"Hi ü"}]}]}'.encode()]
    assert fake.header("content-type") == "application/json"


def test_an_answer_that_is_split_anywhere_is_the_same() -> None:
    async def ask_all() -> None:
        splits = iter(range(1, len(ANSWER)))

        def split(_: bytes) -> bytes:
            at = next(splits)
            return chunked(ANSWER[:at], ANSWER[at:])

        async with serving(FakeBedrock(split)) as (url, pool):
            client = BedrockClient(spec_of(url, **KEY), pool)
            for _ in range(1, len(ANSWER)):
                assert [made async for made in client.stream(QUESTION)] == EVENTS

    asyncio.run(ask_all())


def test_an_answer_that_is_cut_anywhere_is_interrupted_and_gives_no_more_than_its_beginning() -> (
    None
):
    async def ask_all() -> None:
        cuts = iter(range(1, STOPPED))

        def cut(_: bytes) -> bytes:
            return chunked(ANSWER[: next(cuts)], is_whole=False)

        async with serving(FakeBedrock(cut)) as (url, pool):
            client = BedrockClient(spec_of(url, **KEY), pool)
            for _ in range(1, STOPPED):
                seen: list[ModelEvent] = []
                with pytest.raises(StreamInterrupted):
                    await read_into(seen, client)
                assert seen == EVENTS[: len(seen)]
                assert len(seen) < len(EVENTS) - 1

    asyncio.run(ask_all())


def test_a_clean_end_inside_the_answer_is_interrupted_too() -> None:
    for cut in (len(ANSWER) // 2, ANSWER.index(b"messageStop"), STOPPED - 5, 0):
        with pytest.raises(StreamInterrupted):
            asked(chunked(ANSWER[:cut]), **KEY)


@pytest.mark.parametrize("is_whole", [True, False], ids=["ended", "broken"])
@pytest.mark.parametrize("more", [0, 5])
def test_an_answer_that_said_why_it_stopped_is_whole_without_its_counts(
    more: int, *, is_whole: bool
) -> None:
    events, _ = asked(chunked(ANSWER[: STOPPED + more], is_whole=is_whole), **KEY)
    assert events == [*EVENTS[:-2], EVENTS[-1]]


def test_a_proxy_that_is_none_is_a_setting_to_mend(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://user:hunter2@[bad")
    with pytest.raises(ProviderUnusable, match="proxy") as refused:
        asked(chunked(ANSWER), **KEY)
    assert "hunter2" not in str(refused.value)


def test_what_follows_the_end_of_the_answer_is_not_read() -> None:
    events, _ = asked(chunked(ANSWER, b"\x00" * 64), **KEY)
    assert events == EVENTS
    events, _ = asked(chunked(ANSWER, is_whole=False), is_silent=True, **KEY)
    assert events == EVENTS


def test_a_bearer_key_is_sent_and_nothing_is_signed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "awaken.providers.bedrock.signing", None)
    _, fake = asked(chunked(ANSWER), **KEY)
    assert fake.header("authorization") == "Bearer bearer-key-value"
    assert fake.header("x-amz-date") == ""
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", "from-env")
    assert asked(chunked(ANSWER))[1].header("authorization") == "Bearer from-env"
    assert asked(chunked(ANSWER), **KEY)[1].header("authorization") == "Bearer bearer-key-value"


@pytest.mark.usefixtures("_credentials")
def test_a_signed_request_has_the_signature_that_aws_computes(monkeypatch) -> None:
    _, fake = asked(chunked(ANSWER))
    names = "content-type;host;x-amz-date;x-amz-security-token"
    date = fake.header("x-amz-date")
    scope = f"{ACCESS}/{date[:8]}/eu-central-1/bedrock/aws4_request"
    given = fake.header("authorization")
    assert given.startswith(f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders={names}, Sig")
    assert fake.header("x-amz-security-token") == TOKEN
    again = AWSRequest(
        method="POST",
        url=f"http://{fake.header('host')}{fake.heads[0].split()[1].decode()}",
        data=fake.bodies[0],
        headers={"content-type": fake.header("content-type"), "x-amz-security-token": TOKEN},
    )
    again.headers["X-Amz-Date"] = date
    again.context["timestamp"] = date
    oracle = botocore.auth.SigV4Auth(Credentials(ACCESS, SECRET, TOKEN), "bedrock", "eu-central-1")
    wanted = oracle.signature(oracle.string_to_sign(again, oracle.canonical_request(again)), again)
    assert given.endswith(f"Signature={wanted}")


@pytest.mark.usefixtures("_credentials")
def test_new_credentials_are_used_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name)
    count = tmp_path / "count"
    count.write_text("")
    code = (
        "import json,sys;f=open(sys.argv[1],'a');f.write('x');f.close();"
        "n=len(open(sys.argv[1]).read());"
        "print(json.dumps({'Version':1,'AccessKeyId':f'AKID{n}','SecretAccessKey':'s',"
        "'SessionToken':'t','Expiration':('2001' if n%2 else '2999')+'-01-01T00:00:00Z'}))"
    )
    script = tmp_path / "source.py"
    script.write_text(code)
    config = tmp_path / "config"
    config.write_text(f"[default]\ncredential_process = {sys.executable} {script} {count}\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    _, fake = asked(chunked(ANSWER))
    assert "Credential=AKID2/" in fake.header("authorization")


@pytest.mark.usefixtures("_credentials")
def test_no_secret_is_shown_anywhere(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    echo = json.dumps({"message": f"bad {SECRET} and {TOKEN}"}).encode()
    with pytest.raises(Unauthorized) as caught:
        asked(refused(403, "AccessDeniedException", echo))
    shown = str(caught.value) + repr(caught.value) + str(caught.value.__cause__) + caplog.text
    assert "bad *** and ***" in shown
    assert SECRET not in shown
    assert TOKEN not in shown
    with pytest.raises(ModelError) as caught:
        asked(refused(400, "X", b"your key bearer-key-value"), **KEY)
    client = BedrockClient(spec_of(None, **KEY), HttpPool())
    assert "bearer-key-value" not in str(caught.value) + repr(client) + repr(vars(caught.value))


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (refused(429, "ThrottlingException:http://x", b'{"message":"slow"}'), RateLimited),
        (refused(424, "ModelErrorException", b'{"message":"failed"}'), ProviderFailed),
        (refused(400, "ValidationException", b'{"message":"Input is too long"}'), ContextOverflow),
        (refused(403, "", b"no"), Unauthorized),
        (b"no http\r\n\r\n", TransportFailed),
        (b"", TransportFailed),
        (chunked(b"data: {}\n\n" * 5), MalformedAnswer),
        (chunked(event("throttlingException", "exception", message="slow")), RateLimited),
    ],
)
def test_a_failure_is_the_error_it_is(answer: bytes, error: type[ModelError]) -> None:
    with pytest.raises(error):
        asked(answer, **KEY)


def test_a_key_is_not_carried_to_another_address() -> None:
    heads: list[bytes] = []

    def redirect(head: bytes) -> bytes:
        heads.append(head)
        head = b"HTTP/1.1 307 No\r\nconnection: close\r\nlocation: /elsewhere\r\n"
        return head + b"content-length: 0\r\n\r\n"

    with pytest.raises(ModelError):
        asked(redirect, **KEY)
    assert len(heads) == 1


def test_the_wait_that_is_asked_for_is_told() -> None:
    answer = refused(429, "ThrottlingException", b"{}", b"retry-after: 3")
    with pytest.raises(RateLimited) as caught:
        asked(answer, **KEY)
    assert caught.value.retry_after_ms == 3_000


@pytest.mark.parametrize("kept", range(12, 16))
def test_a_key_that_is_cut_with_the_text_around_it_is_not_shown(kept: int) -> None:
    key = KEY["api_key"].reveal()
    body = json.dumps({"message": "x" * (MESSAGE_CHARS - kept) + key}).encode()
    with pytest.raises(ModelError) as caught:
        asked(refused(400, "ValidationException", body), **KEY)
    assert key[:12] not in str(caught.value)


def test_silence_is_a_timeout() -> None:
    with pytest.raises(ModelTimeout, match="50 ms"):
        asked(chunked(ANSWER[:40], is_whole=False), is_silent=True, timeout_ms=50, **KEY)


def test_an_endless_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "ANSWER_BYTES", 1_000)
    piece = event("contentBlockDelta", contentBlockIndex=0, delta={"text": "x"})
    with pytest.raises(AnswerTooLarge):
        asked(chunked(*[piece] * 50), **KEY)


def test_closing_the_stream_closes_the_connection() -> None:
    async def ask() -> None:
        fake = FakeBedrock(chunked(ANSWER[:400], is_whole=False), is_silent=True)
        async with serving(fake) as (url, pool):
            events = BedrockClient(spec_of(url, **KEY), pool).stream(QUESTION)
            assert await anext(events) == EVENTS[0]
            await events.aclose()
            async with asyncio.timeout(5):
                await fake.gone.wait()

    asyncio.run(ask())


def test_without_credentials_the_error_names_the_ways_out() -> None:
    with pytest.raises(Unauthorized, match=r"AWS_ACCESS_KEY_ID.*AWS_BEARER_TOKEN_BEDROCK"):
        asked(chunked(ANSWER))


def test_a_source_of_credentials_that_hangs_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    async def ask() -> None:
        async with serving(FakeBedrock(b"", is_silent=True)) as (url, pool):
            monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "false")
            monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", f"{url}/")
            monkeypatch.setenv("AWS_METADATA_SERVICE_TIMEOUT", "600")
            monkeypatch.setenv("AWS_METADATA_SERVICE_NUM_ATTEMPTS", "100")
            client = BedrockClient(spec_of(url), pool)
            async with asyncio.timeout(30):
                with pytest.raises(Unauthorized):
                    await anext(client.stream(QUESTION))

    asyncio.run(ask())


def test_credentials_that_do_not_come_are_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    is_over = asyncio.Event()

    async def hang(*_: object) -> None:
        await is_over.wait()

    monkeypatch.setattr(client_module, "_CREDENTIALS_S", 0.01)
    monkeypatch.setattr(client_module.asyncio, "to_thread", hang)
    with pytest.raises(ModelTimeout, match="credentials"):
        asked(chunked(ANSWER))


def test_without_botocore_the_error_names_the_extra() -> None:
    code = (
        "import asyncio, sys\n"
        "sys.modules['botocore'] = None\n"
        "from awaken.contracts.models.inference import InferenceRequest\n"
        "from awaken.contracts.models.model_specs import ProviderSpec\n"
        "from awaken.contracts.models.errors import Unauthorized\n"
        "from awaken.providers.bedrock import BedrockClient\n"
        "from awaken.outbound.pool import HttpPool\n"
        "spec = ProviderSpec(id='a', adapter='bedrock', adapter_options={'region': 'us-east-1'})\n"
        "client = BedrockClient(spec, HttpPool())\n"
        "try:\n"
        "    asyncio.run(anext(client.stream(InferenceRequest(upstream_model='m', messages=[]))))\n"
        "except Unauthorized as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'awaken[bedrock]'" in done.stdout


def test_importing_the_provider_does_not_load_botocore() -> None:
    code = "import sys, awaken.providers.bedrock; print('botocore' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_the_region_comes_from_the_spec_then_the_environment(monkeypatch) -> None:
    def address(**options: str) -> str:
        spec = ProviderSpec(id="aws", adapter="bedrock", adapter_options=options)
        return BedrockClient(spec, HttpPool())._url

    for bad in ({}, {"region": "evil.com/"}):
        with pytest.raises(InvalidSpec, match="region"):
            address(**bad)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-west-2")
    assert address() == "https://bedrock-runtime.us-west-2.amazonaws.com"
    monkeypatch.setenv("AWS_REGION", "cn-north-1")
    assert address() == "https://bedrock-runtime.cn-north-1.amazonaws.com.cn"
    assert address(region="eu-west-1") == "https://bedrock-runtime.eu-west-1.amazonaws.com"


def test_it_is_a_model_client() -> None:
    client = BedrockClient(spec_of(None), HttpPool())
    assert isinstance(client, ModelClient)
    assert (client.name, repr(client)) == ("aws", "BedrockClient('aws')")
