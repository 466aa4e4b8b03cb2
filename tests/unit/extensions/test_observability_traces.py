"""W3C trace context: in by every protocol, out to models, agents and whatever is called."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from tests.extensions.telemetry_world import Telemetry, is_below, said, traceparent
from tests.server.acp_world import Editor, editing
from tests.server.mcp_world import RawClient, both_eras
from tests.server.serving import serving

from awaken import Agent, AgentRuntime, RemoteEndpoint, RunFailed, RunRequest
from awaken.bootstrap.providers import Connections, ProviderClient
from awaken.contracts.messages.message import user
from awaken.contracts.models.addresses import server_of
from awaken.contracts.models.model_specs import ProviderSpec
from awaken.contracts.storage.dispatch import InputMode
from awaken.contracts.tracing import CURRENT_TRACE, TraceContext, trace_in, trace_of
from awaken.providers.anthropic.decode import AnthropicDecoder
from awaken.providers.bedrock.client import BedrockClient
from awaken.providers.bridge.client import BridgeClient
from awaken.providers.gemini.decode import GeminiDecoder
from awaken.providers.openai_chat.decode import ChatDecoder
from awaken.providers.openai_responses.decode import ResponsesDecoder
from awaken.testing import FakeModelServer, ScriptedModel, ToolCalls

GIVEN = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
STATE = "vendor=value"
HEADERS = {"traceparent": GIVEN, "tracestate": STATE}
OTHER = "00-11111111111111111111111111111111-2222222222222222-01"
WAIT_S = 30
SAID = [{"role": "user", "content": "hi"}]


def _message(number: int) -> dict[str, Any]:
    return {"messageId": f"m{number}", "role": "ROLE_USER", "parts": [{"text": "hi"}]}


def _rpc(number: int) -> dict[str, Any]:
    params = {"message": _message(number)}
    return {"jsonrpc": "2.0", "id": number, "method": "SendMessage", "params": params}


def _chat(number: int) -> dict[str, Any]:
    parts = [{"type": "text", "text": "hi"}]
    said_ = [{"id": f"m{number}", "role": "user", "parts": parts}]
    return {"id": f"t{number}", "messages": said_, "trigger": "submit-message"}


PROTOCOLS: dict[str, tuple[str, Any]] = {
    "native": ("/v1/runs", lambda _: {"agentId": "a", "messages": SAID}),
    "ai_sdk": ("/v1/ai-sdk/chat", _chat),
    "ag_ui": ("/v1/ag-ui/run", lambda _: {"agentId": "a", "messages": SAID}),
    "openai chat": ("/v1/chat/completions", lambda _: {"model": "a", "messages": SAID}),
    "openai responses": ("/v1/responses", lambda _: {"model": "a", "input": "hi"}),
    "a2a": ("/v1/a2a/message:send", lambda number: {"message": _message(number)}),
    "a2a rpc": ("/v1/a2a", _rpc),
}


class Asked:
    """An agent whose model notes in which trace it is asked."""

    def __init__(self) -> None:
        self.traces: list[TraceContext | None] = []

    def agent(self, agent_id: str = "a") -> Agent:
        return Agent(agent_id, model=ScriptedModel([self._answer], cycle=True))

    def _answer(self, _: Any) -> str:
        self.traces.append(CURRENT_TRACE.get())
        return "Hi."


def bounded(scenario: Any) -> None:
    asyncio.run(asyncio.wait_for(scenario, WAIT_S))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_http_protocol_takes_the_trace_of_its_caller(protocol: str) -> None:
    path, body_of = PROTOCOLS[protocol]
    asked = Asked()

    async def scenario() -> None:
        runtime = AgentRuntime([asked.agent(), asked.agent("default")])
        async with serving(runtime) as url, aiohttp.ClientSession() as http:
            for number, headers in enumerate((HEADERS, {}, {"traceparent": "nonsense"})):
                body = body_of(number)
                async with http.post(url + path, json=body, headers=headers) as reply:
                    assert reply.status == 200, await reply.text()
                    await reply.read()

    bounded(scenario())
    first, *others = asked.traces
    assert first == TraceContext(traceparent=GIVEN, tracestate=STATE)
    assert others == [None, None]


@both_eras
def test_mcp_takes_the_trace_of_the_headers_or_of_the_call_itself(era: str) -> None:
    asked = Asked()

    async def scenario() -> None:
        runtime = AgentRuntime([asked.agent()])
        async with serving(runtime) as url, RawClient(url, era, traceparent=OTHER) as client:
            call = {"name": "a", "arguments": {"message": "hi"}}
            del client.headers["traceparent"]
            await client.post("tools/call", call)
            await client.post("tools/call", call, traceparent=GIVEN)
            await client.post("tools/call", {**call, "_meta": HEADERS}, traceparent=OTHER)
            await client.post("tools/call", {**call, "_meta": {"traceparent": 7}})

    bounded(scenario())
    found = [None if it is None else it.traceparent for it in asked.traces]
    assert found == [None, GIVEN, GIVEN, None]


def test_acp_takes_the_trace_of_a_prompt() -> None:
    asked = Asked()

    async def scenario() -> None:
        async with editing(AgentRuntime([asked.agent()]), Editor()) as client:
            session = await client.new_session(cwd="/", mcp_servers=[])
            said_ = [{"type": "text", "text": "hi"}]
            for meta in (HEADERS, None):
                params = {"sessionId": session.session_id, "prompt": said_, "_meta": meta}
                await client._conn.send_request("session/prompt", params)

    bounded(scenario())
    assert asked.traces == [TraceContext(traceparent=GIVEN, tracestate=STATE), None]


def test_a_trace_outlives_the_queue_and_is_on_the_record() -> None:
    asked = Asked()

    async def scenario() -> None:
        async with AgentRuntime([asked.agent()]) as runtime:
            view = runtime._services.view(None, trace=trace_of(GIVEN))
            request = RunRequest(agent_id="a", messages=(user("hi"),))
            receipt = await view.send(request, InputMode.QUEUE)
            await view.wait(receipt.run_id, 10_000)
            record = await view.run(receipt.run_id)
            assert record.trace is not None
            assert record.trace.traceparent == GIVEN

    bounded(scenario())
    assert [it and it.traceparent for it in asked.traces] == [GIVEN]


class Vendor:
    """A model behind HTTP that notes the headers of each request."""

    def __init__(self) -> None:
        self.headers: list[Any] = []

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.headers.append(request.headers.copy())
        chunk = {"choices": [{"index": 0, "delta": {"content": "Hi."}, "finish_reason": "stop"}]}
        text = f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n"
        return web.Response(text=text, content_type="text/event-stream")

    async def started(self) -> tuple[web.AppRunner, str]:
        app = web.Application()
        app.router.add_post("/{path:.*}", self.answer)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = site._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]
        return runner, f"http://127.0.0.1:{port}/v1"


def test_a_request_to_a_model_carries_the_span_of_its_call_or_the_trace_of_the_run() -> None:
    seen, vendor = Telemetry(), Vendor()

    async def scenario() -> None:
        runner, url = await vendor.started()
        spec = ProviderSpec(id="fake", adapter="openai_chat", base_url=url, api_key="k")
        try:
            for plugins in ([seen.plugin()], []):
                agent = Agent("a", model="fake:m")
                async with AgentRuntime(
                    [agent], providers={"fake": spec}, everywhere=plugins
                ) as runtime:
                    await runtime.run("a", "hi", trace=trace_of(GIVEN, STATE))
                    if not plugins:
                        await runtime.run("a", "hi")
        finally:
            await runner.cleanup()

    bounded(scenario())
    first, second, third = vendor.headers
    assert first["traceparent"] == traceparent(seen.one("chat m"))
    assert first["traceparent"][3:35] == GIVEN[3:35]
    assert first["tracestate"] == STATE
    assert (second["traceparent"], second["tracestate"]) == (GIVEN, STATE)
    assert "traceparent" not in third


FORMATS = {
    "openai_chat": ("/v1", "chatcmpl-1", "m"),
    "openai_responses": ("/v1", "resp_1", "m"),
    "anthropic": ("", "msg_1", "m"),
    "gemini": ("/v1beta", "resp-1", "fake"),
}


@pytest.mark.parametrize("adapter", FORMATS)
def test_a_call_over_http_names_its_server_and_what_the_vendor_calls_the_answer(
    adapter: str,
) -> None:
    path, answer_id, model = FORMATS[adapter]
    seen, gone = Telemetry(), list[str]()

    async def scenario() -> None:
        async with FakeModelServer(["Hi."]) as server:
            gone.append(server.url)
            spec = ProviderSpec(id="v", adapter=adapter, base_url=server.url + path, api_key="k")
            agent = Agent("a", model="v:m", config={"retry": {"max_retries": 0}})
            runtime = AgentRuntime([agent], providers={"v": spec}, everywhere=[seen.plugin()])
            await runtime.__aenter__()
            await runtime.run("a", "hi")
        with pytest.raises(RunFailed):
            await runtime.run("a", "hi")
        await runtime.__aexit__(None, None, None)

    bounded(scenario())
    answered, failed = (said(it) for it in seen.named("chat m"))
    for chat in (answered, failed):
        assert f"http://{chat['server.address']}:{chat['server.port']}" == gone[0]
    assert (answered["gen_ai.response.id"], answered["gen_ai.response.model"]) == (answer_id, model)
    assert "gen_ai.response.id" not in failed


@pytest.mark.parametrize(
    ("decoder", "data"),
    [
        (AnthropicDecoder(), {"type": "message_start", "message": {"id": 7, "model": {"a": []}}}),
        (ChatDecoder(), {"id": "", "model": 7, "choices": [{"delta": {"content": "x"}}]}),
        (ResponsesDecoder(), {"type": "response.completed", "response": {"id": [], "model": 7}}),
        (GeminiDecoder(), {"modelVersion": {}, "candidates": [{"finishReason": "STOP"}]}),
    ],
)
def test_a_vendor_that_calls_its_answer_nothing_is_read_all_the_same(
    decoder: Any, data: Any
) -> None:
    decoder.take(json.dumps(data).encode())
    assert decoder.vendor is None


@pytest.mark.parametrize(
    ("url", "host", "port"),
    [
        ("https://api.example/v1", "api.example", 443),
        ("http://ann:secret@api.example", "api.example", 80),
        ("https://[::1]:8443/", "::1", 8443),
        ("https://api.example:99999", None, None),
        ("/usr/bin/coder", None, None),
        ("coder:run", None, None),
        (None, None, None),
    ],
)
def test_a_server_is_what_a_url_names_and_nothing_else_of_it(
    url: str | None, host: str | None, port: int | None
) -> None:
    found = server_of(url)
    assert (found and found.host, found and found.port) == (host, port)


def test_clients_say_which_server_they_ask_as_far_as_they_know() -> None:
    pool: Any = object()
    cloud = {"region": "eu-west-1"}
    bedrock = BedrockClient(ProviderSpec(id="b", adapter="bedrock", adapter_options=cloud), pool)
    assert bedrock.server == server_of("https://bedrock-runtime.eu-west-1.amazonaws.com")
    assert BridgeClient(ProviderSpec(id="p", adapter="bridge")).server is None
    own = ProviderSpec(id="p", adapter="bridge", base_url="http://127.0.0.1:9/v1")
    assert BridgeClient(own).server == server_of("http://127.0.0.1:9")
    unusable = ProviderSpec(id="b", adapter="bedrock", adapter_options={"region": "no/where"})
    assert ProviderClient(unusable, Connections()).server is None


def test_a_run_at_another_server_is_below_the_run_that_asked_for_it() -> None:
    here, there = Telemetry(), Telemetry()
    calls = ToolCalls([("agent_run_far", {"prompt": "help"})])

    async def scenario() -> None:
        far = AgentRuntime([Agent("far", model=ScriptedModel(["Far."], cycle=True))],
                           everywhere=[there.plugin()])  # fmt: skip
        async with serving(far) as url:
            endpoint = RemoteEndpoint(base_url=f"{url}/v1/a2a", target="far")
            agents = [
                Agent("lead", model=ScriptedModel([calls, "Done."]), delegates=["far"]),
                Agent("far", endpoint=endpoint),
            ]
            async with AgentRuntime(agents, everywhere=[here.plugin()]) as near:
                await near.run("lead", "go")
                await near.run("far", "go", trace=trace_of(GIVEN))

    bounded(scenario())
    remote, direct = there.named("invoke_agent far")
    below, own = here.named("invoke_agent far")
    assert is_below(remote, below)
    assert is_below(direct, own)
    assert said(below)["gen_ai.provider.name"] == "a2a"
    assert said(below)["server.address"] == "127.0.0.1"
    assert said(below)["server.port"] > 0
    assert below.context.trace_id == here.one("invoke_agent lead").context.trace_id
    assert f"{direct.context.trace_id:032x}" == GIVEN[3:35]


CODER = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    method, params = asked.get("method"), asked.get("params", {})
    result = {"protocolVersion": 1}
    if method == "session/new":
        result = {"sessionId": "s1"}
    if method == "session/prompt":
        said = {"type": "text", "text": json.dumps(params.get("_meta"))}
        update = {"sessionUpdate": "agent_message_chunk", "content": said}
        note = {"method": "session/update", "params": {"sessionId": "s1", "update": update}}
        print(json.dumps({"jsonrpc": "2.0", **note}), flush=True)
        result = {"stopReason": "end_turn"}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


def test_a_prompt_to_a_coding_agent_carries_the_span_of_its_run(tmp_path: Path) -> None:
    seen = Telemetry()
    script = tmp_path / "coder.py"
    script.write_text(CODER)
    options = {"command": [sys.executable, "-S", str(script)], "cwd": str(tmp_path)}
    endpoint = RemoteEndpoint(backend="acp", base_url="stdio:", options=options)

    async def scenario() -> list[str]:
        texts = []
        for plugins in ([seen.plugin()], []):
            agents = [Agent("coder", endpoint=endpoint)]
            async with AgentRuntime(agents, everywhere=plugins) as runtime:
                given = trace_of(GIVEN) if plugins else None
                texts.append((await runtime.run("coder", "go", trace=given)).text)
        return texts

    traced, plain = asyncio.run(asyncio.wait_for(scenario(), WAIT_S))
    top = seen.one("invoke_agent coder")
    assert json.loads(traced)["traceparent"] == traceparent(top)
    assert plain == "null"
    assert top.kind.name == "CLIENT"
    assert "server.address" not in said(top)


def test_only_what_is_a_trace_counts_as_one() -> None:
    refused = (
        None, "", "x", GIVEN[:-1], GIVEN.upper(), "ff" + GIVEN[2:], GIVEN.replace("-", "_"),
        f"00-{'0' * 32}-b7ad6b7169203331-01", f"00-{'1' * 32}-{'0' * 16}-01",
    )  # fmt: skip
    assert [trace_of(it) for it in refused] == [None] * len(refused)
    assert trace_of(f" {GIVEN} ", "a=1\r\nevil: 1") == TraceContext(traceparent=GIVEN)
    assert trace_of(GIVEN, "x" * 600) == TraceContext(traceparent=GIVEN)
    for meta in (None, [], "x", {}, {"traceparent": 3}, {"tracestate": STATE}):
        assert trace_in(meta) is None
    assert trace_in({"traceparent": GIVEN, "tracestate": 9}) == TraceContext(traceparent=GIVEN)
