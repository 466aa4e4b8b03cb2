"""From `openai:gpt-5-mini` to a call: keys, addresses, extras, and nothing before it is needed."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import pytest

from awaken import Agent, AgentRuntime
from awaken.bootstrap.known_providers import ADAPTERS, KNOWN_PROVIDERS
from awaken.bootstrap.providers import Connections, ProviderClient, find_key, provider_clients
from awaken.contracts.errors import AwakenError, InvalidInput, InvalidSpec, RunFailed
from awaken.contracts.messages.message import user
from awaken.contracts.models.errors import (
    ModelError,
    ProviderUnusable,
    TransportFailed,
    Unauthorized,
)
from awaken.contracts.models.inference import InferenceRequest
from awaken.contracts.models.model_specs import ProviderSpec
from awaken.contracts.secrets import RedactedString
from awaken.testing import ScriptedModel
from awaken.testing.model_server import FakeModelServer

KEY = "sk-very-secret-0123456789"
PATHS = {
    "openai": "/responses",
    "openai-chat": "/chat/completions",
    "anthropic": "/v1/messages",
    "google": "streamGenerateContent",
    "deepseek": "/chat/completions",
}


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.endswith(("_API_KEY", "_BASE_URL")) or name.startswith("AWS_"):
            monkeypatch.delenv(name)


def client(name: str, spec: ProviderSpec | None = None) -> ProviderClient:
    given = {} if spec is None else {name: spec}
    found = provider_clients(given, Connections())[name]
    assert isinstance(found, ProviderClient)
    return found


async def said(asked: ProviderClient, model: str = "m") -> str:
    request = InferenceRequest(upstream_model=model, messages=[user("hi")])
    return "".join([getattr(event, "delta", "") async for event in asked.stream(request)])


def refusal(asked: ProviderClient) -> ModelError:
    with pytest.raises(ModelError) as refused:
        asyncio.run(said(asked))
    return refused.value


@pytest.mark.parametrize("name", PATHS)
def test_a_known_provider_needs_its_key_and_nothing_else(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = KNOWN_PROVIDERS[name]

    async def scenario() -> str:
        async with FakeModelServer(["Hello there."]) as server:
            place = name.upper().replace("-", "_") + "_BASE_URL"
            monkeypatch.setenv(place, server.url)
            monkeypatch.setenv(known.keys[0], f" {KEY}\n")
            agent = Agent("a", model=f"{name}:some-model")
            async with AgentRuntime([agent]) as runtime:
                result = await runtime.run("a", "hi")
                await runtime._parts.connections.close()
            (request,) = server.requests
            assert PATHS[name] in request.path
            assert any(value.endswith(KEY) for value in request.headers.values())
            assert "some-model" in request.raw.decode() + request.path
            return result.text

    assert asyncio.run(scenario()) == "Hello there."


def test_the_key_is_read_for_every_call(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> list[str]:
        async with FakeModelServer(["one", "two"]) as server:
            monkeypatch.setenv("OPENAI_CHAT_BASE_URL", server.url)
            asked = client("openai-chat")
            for key in ("first", "second"):
                monkeypatch.setenv("OPENAI_API_KEY", key)
                await said(asked)
            await asked._connections.close()
            return [request.headers["authorization"] for request in server.requests]

    assert asyncio.run(scenario()) == ["Bearer first", "Bearer second"]


@pytest.mark.parametrize("name", [name for name, it in KNOWN_PROVIDERS.items() if it.needs_key])
def test_a_missing_key_is_named_with_the_way_out(name: str) -> None:
    error = refusal(client(name))
    assert isinstance(error, Unauthorized)
    for variable in KNOWN_PROVIDERS[name].keys:
        assert variable in str(error)
    assert f"providers={{'{name}': ProviderSpec(" in str(error)


@pytest.mark.parametrize("value", ["", "  ", "\n"])
def test_an_empty_variable_is_no_key(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", value)
    assert isinstance(refusal(client("openai")), Unauthorized)


def test_a_key_that_cannot_be_one_is_refused_without_being_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", f"{KEY}\r\nx-evil: 1")
    error = refusal(client("openai"))
    assert "OPENAI_API_KEY" in str(error)
    assert KEY not in str(error)


def test_a_failed_run_names_the_variable_and_never_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)

    async def scenario() -> str:
        async with AgentRuntime([Agent("a", model="openai:gpt-5-mini")]) as runtime:
            with pytest.raises(RunFailed) as failed:
                await runtime.run("a", "hi")
            return str(failed.value)

    text = asyncio.run(scenario())
    assert "unauthorized" in text
    assert "OPENAI_API_KEY" in text
    assert KEY not in text


def test_servers_of_ones_own_need_no_key() -> None:
    for name in ("ollama", "vllm"):
        assert find_key(client(name).spec) is None
    own = ProviderSpec(id="mine", adapter="openai_chat", base_url="http://127.0.0.1:9/v1")
    assert find_key(client("mine", own).spec) is None


def test_the_key_of_a_vendor_goes_to_no_other_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    own = ProviderSpec(id="mine", adapter="openai_chat", base_url="http://127.0.0.1:9/v1")
    assert find_key(own) is None
    vendors = ProviderSpec(id="work", adapter="openai_chat")
    assert find_key(vendors) == RedactedString(KEY)
    monkeypatch.setenv("WORK_API_KEY", "mine-comes-first")
    assert find_key(vendors) == RedactedString("mine-comes-first")


def test_a_spec_without_address_stays_at_its_vendor() -> None:
    spec = ProviderSpec(id="anthropic", adapter="openai_chat", api_key=RedactedString(KEY))
    assert client("anthropic", spec).spec.base_url == "https://api.anthropic.com"
    tuned = ProviderSpec(id="mistral", adapter="openai_chat", timeout_ms=5)
    found = client("mistral", tuned).spec
    assert found.base_url == "https://api.mistral.ai/v1"
    assert found.adapter_options == KNOWN_PROVIDERS["mistral"].options
    assert found.timeout_ms == 5


def test_a_spec_of_ones_own_answers() -> None:
    async def scenario() -> str:
        async with FakeModelServer(["From my server."]) as server:
            spec = ProviderSpec(
                id="mine",
                adapter="anthropic",
                base_url=server.url,
                api_key=RedactedString(KEY),
            )
            agent = Agent("a", model="mine:tiny")
            async with AgentRuntime([agent], providers={"mine": spec}) as runtime:
                text = (await runtime.run("a", "hi")).text
                assert server.open_connections == 1
            await asyncio.wait_for(server.all_closed(), 5)
            assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
            return text

    assert asyncio.run(scenario()) == "From my server."


def test_a_client_of_ones_own_replaces_a_known_provider() -> None:
    async def scenario() -> str:
        model = ScriptedModel(["mine"])
        agent = Agent("a", model="openai:x")
        async with AgentRuntime([agent], providers={"openai": model}) as runtime:
            return (await runtime.run("a", "hi")).text

    assert asyncio.run(scenario()) == "mine"


@pytest.mark.parametrize(
    ("fields", "error", "words"),
    [
        ({"adapter": "openai"}, InvalidInput, ["no adapter 'openai'", "openai_responses"]),
        ({"id": "other"}, InvalidInput, ["provider 'mine'", "'other'"]),
        ({"base_url": "api.example.com"}, InvalidInput, ["http://"]),
        ({"base_url": "file:///etc/passwd"}, InvalidInput, ["http://"]),
        ({"base_url": "http://[::1"}, InvalidInput, ["http://"]),
        ({"base_url": f"https://u:{KEY}@host/v1"}, InvalidInput, ["api_key"]),
        ({"base_url": f"https://host/v1?key={KEY}"}, InvalidInput, ["api_key"]),
        ({"base_url": "https://h/v1/chat/completions"}, InvalidInput, ["/chat/completions", "off"]),
        ({"base_url": "https://h/v1/responses/"}, InvalidInput, ["'/responses", "leave it off"]),
        ({"base_url": "https://h/v1/messages"}, InvalidInput, ["'/v1/messages'", "leave it off"]),
        ({"timeout_ms": 1.5}, InvalidSpec, ["timeout_ms"]),
        ({"timeout_ms": "5"}, InvalidSpec, ["timeout_ms"]),
        ({"adapter": 7}, InvalidSpec, ["adapter"]),
        ({"adapter_options": {"max_token_field": "x"}}, InvalidSpec, ["max_token_field"]),
    ],
)
def test_a_spec_that_cannot_work_is_refused_when_the_runtime_is_made(
    fields: dict[str, Any], error: type[AwakenError], words: Sequence[str]
) -> None:
    spec = ProviderSpec(**{"id": "mine", "adapter": "openai_chat", **fields})
    with pytest.raises(error) as refused:
        AgentRuntime(providers={"mine": spec})
    assert all(word in str(refused.value) for word in words)
    assert KEY not in str(refused.value)


def test_an_address_in_the_environment_that_is_none_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_BASE_URL", "localhost:1")
    error = refusal(client("openai"))
    assert isinstance(error, ProviderUnusable)
    assert "OPENAI_BASE_URL" in str(error)
    assert not error.blames_request


def test_a_missing_extra_is_named_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("awaken.providers.bridge.client.find_spec", lambda _: None)
    error = refusal(client("bridge"))
    assert isinstance(error, ProviderUnusable)
    assert "pip install 'awaken[providers]'" in str(error)
    assert not error.retryable


def test_bedrock_without_a_region_says_so() -> None:
    error = refusal(client("bedrock"))
    assert isinstance(error, ProviderUnusable)
    assert "AWS_REGION" in str(error)


@pytest.mark.parametrize("name", KNOWN_PROVIDERS)
def test_every_known_provider_fits_its_adapter(name: str) -> None:
    known = KNOWN_PROVIDERS[name]
    adapter = ADAPTERS[known.adapter]
    made = getattr(import_module(f"awaken.providers.{adapter.module}"), adapter.class_name)
    if adapter.is_codec:
        codec = made(known.options)
        if name in ("openai", "openai-chat", "anthropic", "google"):
            assert codec.base_url == known.base_url


@pytest.mark.parametrize("key", [KEY, RedactedString(KEY)])
def test_no_repr_shows_a_key_even_if_it_was_given_as_text(key: Any) -> None:
    found = client("mine", ProviderSpec(id="mine", adapter="gemini", api_key=key))
    assert KEY not in repr(found) + repr(found.spec)
    assert find_key(found.spec) == RedactedString(KEY)


@pytest.mark.parametrize("key", [KEY, RedactedString(KEY)])
def test_a_spec_that_was_just_written_shows_no_key(key: Any) -> None:
    spec = ProviderSpec(id="mine", adapter="gemini", api_key=key)
    assert KEY not in repr(spec) + str(spec)
    assert spec.key == RedactedString(KEY)


@pytest.mark.parametrize("wrong", [{"api_key": KEY}, KEY])
def test_what_is_no_provider_is_refused_without_being_shown(wrong: Any) -> None:
    with pytest.raises(InvalidInput) as refused:
        AgentRuntime(providers={"mine": wrong})
    assert KEY not in str(refused.value)
    problem = f"provider 'mine' is invalid: a {type(wrong).__name__} is no ProviderSpec"
    assert problem in str(refused.value)


def test_an_address_of_ones_own_in_the_environment_needs_no_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario() -> str:
        async with FakeModelServer(["Hello."]) as server:
            monkeypatch.setenv("OPENAI_CHAT_BASE_URL", server.url)
            asked = client("openai-chat")
            text = await said(asked)
            await asked._connections.close()
            assert "authorization" not in server.requests[0].headers
            return text

    assert asyncio.run(scenario()) == "Hello."


def test_a_server_that_is_not_running_is_named_with_its_variable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OLLAMA_BASE_URL", "http://127.0.0.1:1/v1")
    asked = client("ollama")

    async def scenario() -> str:
        with pytest.raises(TransportFailed) as refused:
            await said(asked)
        await asked._connections.close()
        return str(refused.value)

    text = asyncio.run(scenario())
    for words in ("http://127.0.0.1:1/v1", "is it running", "OLLAMA_BASE_URL"):
        assert words in text


@pytest.mark.parametrize("model", ["openai", "openai:", "openai: "])
def test_a_vendor_without_a_model_says_how_to_name_one(model: str) -> None:
    with pytest.raises(InvalidSpec, match="write openai:MODEL"):
        AgentRuntime([Agent("a", model=model)])


def test_a_server_of_ones_own_may_have_one_model_of_its_own_name() -> None:
    async def scenario() -> str:
        async with FakeModelServer(["Hello."]) as server:
            spec = ProviderSpec(id="mine", adapter="openai_chat", base_url=server.url)
            agent = Agent("a", model="mine")
            async with AgentRuntime([agent], providers={"mine": spec}) as runtime:
                return (await runtime.run("a", "hi")).text

    assert asyncio.run(scenario()) == "Hello."


def test_openrouter_gets_its_details_of_the_reasoning_back() -> None:
    assert client("openrouter").spec.adapter_options["send_reasoning_details"] is True


def test_a_runtime_is_made_without_a_network_library_or_a_wire_format() -> None:
    code = (
        "import sys, awaken\n"
        "awaken.AgentRuntime([awaken.Agent('a', model='openai:gpt-5-mini')])\n"
        "formats = 'openai anthropic gemini bedrock bridge'.split()\n"
        "loaded = [name for name in sys.modules if name.startswith('awaken.providers.')]\n"
        "assert not [n for n in loaded if any(f in n for f in formats)], loaded\n"
        "assert not {'aiohttp', 'botocore', 'pydantic_ai'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=50)
