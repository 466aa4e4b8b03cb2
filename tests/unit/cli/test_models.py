"""`awaken models`: what is there, whether a model answers, and how the models of a store are."""

import asyncio
import os
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from awaken.cli.model_trial import try_model
from awaken.contracts.models.errors import ModelNotFound, Overloaded
from awaken.contracts.models.inference import InferenceRequest, ModelEvent
from awaken.contracts.models.model_specs import ModelSpec
from awaken.runtime.model_health.health import ModelHealth
from awaken.runtime.resolution.models import ModelRoute
from awaken.stores.sqlite import SqliteStore
from awaken.testing import FakeClock, ScriptedModel, Turn
from awaken.testing.model_server import FakeModelServer, Silence

from .conftest import Call

KEY = "sk-very-secret-0123456789"
APP = """
from awaken import Agent
from awaken.contracts.models.model_specs import ModelPool, PoolMember

members = (PoolMember(model_id="openai:gpt-5-mini"), PoolMember(model_id="groq:llama"))
writer = Agent("writer", model=ModelPool(id="pool", members=members))
talker = Agent("talker", model="scripted")
"""


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.endswith(("_API_KEY", "_BASE_URL")) or name.startswith("AWS_"):
            monkeypatch.delenv(name)


@contextmanager
def serving(answers: list[Any]) -> Iterator[FakeModelServer]:
    """A vendor in a thread of its own: commands have their own loops."""
    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_forever)
    thread.start()
    server = FakeModelServer(answers)
    try:
        asyncio.run_coroutine_threadsafe(server.__aenter__(), loop).result(10)
        yield server
    finally:
        asyncio.run_coroutine_threadsafe(server.__aexit__(None, None, None), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


def test_the_list_says_what_each_provider_lacks_and_never_shows_a_key(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", KEY)
    monkeypatch.setattr("awaken.bootstrap.providers.importlib.util.find_spec", lambda _: None)
    answer = call("models", "list")
    assert (answer.code, answer.err) == (0, "")
    rows = {line.split()[0]: line for line in answer.out.splitlines()}
    assert "no, set OPENAI_API_KEY" in rows["openai"]
    assert "https://api.openai.com/v1" in rows["openai"]
    assert "openai_responses" in rows["openai"]
    assert " yes" in rows["google"]
    assert "not needed" in rows["ollama"]
    assert "pip install 'awaken[bedrock]'" in rows["bedrock"]
    found = call("models", "list", "--json")
    by_id = {row["id"]: row for row in found.document["providers"]}
    assert by_id["google"]["has_key"] is True
    assert by_id["openai"]["has_key"] is False
    assert by_id["openai"]["missing_extra"] is None
    assert by_id["bridge"]["missing_extra"] == "providers"
    assert KEY not in answer.out + found.out


def test_the_list_shows_which_models_the_agents_of_an_app_may_ask(
    call: Call, tmp_path: Path
) -> None:
    (tmp_path / "app.py").write_text(APP)
    found = call("models", "list", "--app", "app.py", "--json").document["agents"]
    assert [(row["agent_id"], row["model_id"], row["provider_id"]) for row in found] == [
        ("writer", "openai:gpt-5-mini", "openai"),
        ("writer", "groq:llama", "groq"),
        ("talker", "scripted", "scripted"),
    ]
    assert "groq:llama" in call("models", "list", "--app", "app.py").out
    assert call("models", "list", "--app", "gone.py").code == 2


def test_a_test_shows_how_fast_a_model_is_and_what_it_can_do(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn = Turn(text="ready", reasoning="hm", calls=[("report", {"number": 7})])
    with serving([turn, turn]) as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
        found = call("models", "test", "anthropic:claude-x", "--json")
        text = call("models", "test", "anthropic:claude-x")
    assert (found.code, found.err) == (0, "")
    seen = found.document
    for feature in ("text", "tool_call", "reasoning", "usage"):
        assert seen[f"has_{feature}"] is True, feature
    assert seen["first_token_ms"] <= seen["total_ms"]
    assert seen["usage"]["completion_tokens"] > 0
    (request, _) = server.requests
    assert [tool["name"] for tool in request.body["tools"]] == ["report"]
    assert text.code == 0
    for word in ("first token", "total", "tool call", "reasoning", "cached tokens"):
        assert word in text.out
    assert KEY not in found.out + text.out


@pytest.mark.parametrize(
    ("model", "code", "words"),
    [
        ("opnai:gpt", 2, ["no provider 'opnai'", "openai-chat", "ProviderSpec"]),
        (":gpt", 2, ["provider:model"]),
        ("openai", 2, ["write openai:MODEL"]),
        ("openai:", 2, ["write openai:MODEL"]),
        ("bedrock:claude", 1, ["AWS_REGION"]),
        ("openai:gpt-5-mini", 1, ["openai:gpt-5-mini", "OPENAI_API_KEY"]),
        ("bridge:cohere:x", 1, ["pip install 'awaken[providers]'"]),
    ],
)
def test_a_test_that_cannot_begin_says_why_on_one_line(
    call: Call, model: str, code: int, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("awaken.providers.bridge.client.find_spec", lambda _: None)
    answer = call("models", "test", model)
    assert (answer.code, answer.out) == (code, "")
    assert answer.err.count("\n") == 1
    assert all(word in answer.err for word in words)
    assert "code" in call("models", "test", model, "--json").error


PROVIDERS_APP = """
from awaken import Agent
from awaken.contracts.models.model_specs import ProviderSpec

mine = ProviderSpec(id="mine", adapter="openai_chat", base_url={url!r}, api_key={key!r})
providers = {{"other": ProviderSpec(id="other", adapter="gemini", base_url="http://127.0.0.1:9")}}
writer = Agent("writer", model="mine:tiny")
"""


def test_the_list_shows_where_a_provider_was_moved_to(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("GROQ_BASE_URL", "127.0.0.1")
    answer = call("models", "list")
    assert answer.code == 0
    rows = {line.split()[0]: line for line in answer.out.splitlines()}
    assert "http://127.0.0.1:9/v1" in rows["openai"]
    assert "not needed" in rows["openai"]
    assert "GROQ_BASE_URL cannot be used" in rows["groq"]
    assert "set AWS_REGION" in rows["bedrock"]
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    found = call("models", "list", "--json").document["providers"]
    by_id = {row["id"]: row for row in found}
    assert by_id["openai"]["base_url"] == "http://127.0.0.1:9/v1"
    assert by_id["bedrock"]["missing_settings"] == []


def test_the_providers_of_an_app_are_listed_and_can_be_tried(call: Call, tmp_path: Path) -> None:
    turn = Turn(text="ready", calls=[("report", {"number": 7})])
    with serving([turn]) as server:
        url = server.url
        (tmp_path / "app.py").write_text(PROVIDERS_APP.format(url=url, key=KEY))
        listed = call("models", "list", "--app", "app.py", "--json")
        trial = call("models", "test", "mine:tiny", "--app", "app.py", "--json")
    assert trial.code == 0
    assert trial.document["has_tool_call"] is True
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    found = {row["id"]: row for row in listed.document["providers"]}
    assert found["mine"]["base_url"] == url
    assert found["mine"]["has_key"] is True
    assert found["other"]["adapter"] == "gemini"
    assert [row["provider_id"] for row in listed.document["agents"]] == ["mine"]
    assert KEY not in listed.out + trial.out
    assert call("models", "test", "mine:tiny").code == 2
    assert call("models", "test", "mine:tiny", "--app", "gone.py").code == 2


class SlowToImport(ScriptedModel):
    """A client that is made by its first call, as those of providers are."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(["ready"])
        self._clock = clock

    def stream(self, request: InferenceRequest) -> AsyncGenerator[ModelEvent, None]:
        self._clock.advance(500)
        return super().stream(request)


def test_the_time_of_an_import_is_not_the_models() -> None:
    clock = FakeClock()
    spec = ModelSpec(id="m", provider_id="p", upstream_model="m")
    route = ModelRoute(spec=spec, client=SlowToImport(clock))
    trial = asyncio.run(try_model(route, clock))
    assert (trial.first_token_ms, trial.total_ms) == (0, 0)


def test_a_wrong_model_a_refusal_and_a_silence_are_told_by_their_codes(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    answers = [ModelNotFound("no such model"), "", Silence()]
    with serving(answers) as server:
        monkeypatch.setenv("OPENAI_CHAT_BASE_URL", server.url)
        codes = []
        for _ in answers:
            answer = call("models", "test", "openai-chat:gpt-x", "--timeout", "1", "--json")
            assert answer.code == 1
            assert "gpt-x" in answer.error["message"]
            codes.append(answer.error["code"])
    assert codes == ["model_not_found", "provider_failed", "model_timeout"]


async def _fail(db: Path) -> None:
    store = SqliteStore(db)
    await store.open()
    health = ModelHealth(FakeClock(), store)
    for _ in range(5):
        health.record_failure("openai:gpt-5-mini", Overloaded("full"))
    await health.close()
    await store.close()


def test_health_shows_the_breakers_that_all_processes_share(call: Call, db: Path) -> None:
    url = f"sqlite:///{db}"
    assert "No model has failed" in call("models", "health", "--store", url).out
    asyncio.run(_fail(db))
    answer = call("models", "health", "--store", url)
    (row,) = [line for line in answer.out.splitlines() if "gpt-5-mini" in line]
    assert all(word in row for word in ("open", "5", "overloaded", "2023-11-14 22:13:20Z"))
    (item,) = call("models", "health", "--store", url, "--json").document["items"]
    assert item["model_id"] == "openai:gpt-5-mini"
    assert item["state"] == "open"
    assert item["retry_at"] == item["changed_at"] + 30_000


def test_health_makes_no_store(call: Call, tmp_path: Path) -> None:
    answer = call("models", "health", "--store", f"sqlite:///{tmp_path / 'none.db'}")
    assert answer.code == 1
    assert not (tmp_path / "none.db").exists()


def test_a_model_that_its_provider_does_not_know_is_guessed(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving([ModelNotFound("no such model")] * 3) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        tested = call("models", "test", "openai:gpt5-mini")
        asked = call("run", "-m", "openai:gpt5-mini", "hello there")
        with monkeypatch.context() as patch:
            patch.setattr("awaken.cli.model_hints.importlib.util.find_spec", lambda _: None)
            without = call("models", "test", "openai:gpt5-mini")
    assert (tested.code, "Did you mean 'openai:gpt-5-mini'?" in tested.err) == (1, True), tested.err
    assert (asked.code, "Did you mean 'openai:gpt-5-mini'?" in asked.out) == (1, True), asked.out
    assert (without.code, "Did you mean" in without.err) == (1, False)
