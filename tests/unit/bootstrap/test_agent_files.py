"""Agents from files: read strictly, refused by name and place, the same after writing."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from awaken import AgentRuntime
from awaken.bootstrap.agent_files import (
    FILE_BYTES_MAX,
    AgentFile,
    parse_agent_file,
    read_agent_file,
)
from awaken.bootstrap.providers import find_key
from awaken.bootstrap.registries import check_remotes
from awaken.contracts.errors import InvalidInput, InvalidSpec
from awaken.contracts.models.errors import Unauthorized
from awaken.contracts.models.model_specs import ModelPool, ModelSpec, PoolMember, ProviderSpec
from awaken.contracts.secrets import RedactedString, SecretReference
from awaken.contracts.specs.agents import AgentSpec
from awaken.contracts.specs.remote_registries import RemoteRegistry

KEY = "sk-0123456789-secret"
EVERYTHING: dict[str, Any] = {
    "agents": [
        {"id": "coder", "model_id": "big", "allowed_tools": ["read"], "delegates": ["reviewer"]},
        {
            "id": "reviewer",
            "model_id": "both",
            "stop_conditions": [{"type": "max_rounds", "rounds": 3}],
        },
    ],
    "models": [
        {"id": "big", "provider_id": "mine", "upstream_model": "big-1"},
        {"id": "small", "provider_id": "mine", "upstream_model": "small-1"},
    ],
    "pools": [{"id": "both", "members": [{"model_id": "big"}, {"model_id": "small"}]}],
    "providers": [
        {
            "id": "mine",
            "adapter": "openai_chat",
            "base_url": "http://127.0.0.1:1/v1",
            "api_key": KEY,
        }
    ],
    "remotes": [
        {"name": "partner", "base_url": "https://p", "auth": {"type": "bearer", "token": KEY}}
    ],
}
YAML = """
agents:
  - id: coder
    model_id: scripted   # echoes
    system_prompt: |
      Two
      lines.
"""


def parsed(data: Any, name: str = "agents.json") -> AgentFile:
    return parse_agent_file(json.dumps(data).encode(), name)


def test_a_file_may_be_minimal() -> None:
    assert parsed({}) == AgentFile()
    assert parsed({}).arguments() == {}
    found = parsed({"agents": [{"id": "a", "model_id": "scripted"}]})
    assert found.arguments() == {"agents": (AgentSpec(id="a", model_id="scripted"),)}


def test_everything_in_a_file_is_what_a_runtime_takes() -> None:
    arguments = parsed(EVERYTHING).arguments()
    remotes = arguments.pop("remotes")
    assert [it.name for it in remotes] == ["partner"]
    registries = AgentRuntime(**arguments).registry.snapshot().registries
    assert list(registries.agents) == ["coder", "reviewer"]
    assert registries.agents["coder"].spec.allowed_tools == ("read",)
    assert isinstance(registries.models["big"], ModelSpec)
    assert isinstance(registries.models["both"], ModelPool)
    assert "mine" in registries.providers
    assert not registries.tools
    assert not registries.plugins


def test_a_file_is_the_same_after_it_was_written() -> None:
    found = AgentFile(
        agents=(AgentSpec(id="a", model_id="m", max_rounds=10, plugin_ids=("log",)),),
        models=(ModelSpec(id="m", provider_id="p", upstream_model="u"),),
        pools=(ModelPool(id="q", members=(PoolMember(model_id="m"),)),),
        providers=(ProviderSpec(id="p", adapter="openai_chat", api_key=refer("env:A_KEY")),),
        remotes=(
            RemoteRegistry(
                name="r",
                base_url="https://r",
                auth={"type": "bearer", "token": refer("file:/run/secrets/r")},
            ),
        ),
    )
    assert parse_agent_file(found.as_json(), "x.json") == found
    assert parse_agent_file(found.as_json(), "x.yaml") == found


def refer(ref: str) -> SecretReference:
    return SecretReference(ref, lambda _: KEY)


def test_a_file_is_written_without_the_text_of_any_secret() -> None:
    found = AgentFile(
        providers=(
            ProviderSpec(id="p", adapter="openai_chat", api_key=RedactedString(KEY)),
            ProviderSpec(id="q", adapter="openai_chat", api_key=refer("env:Q_KEY")),
        ),
        remotes=(
            RemoteRegistry(name="r", base_url="https://r", auth={"type": "bearer", "token": KEY}),
        ),
    )
    written = found.as_json()
    assert KEY not in repr(found) + written.decode()
    assert msgspec.json.decode(written)["providers"][0]["api_key"] == {"$secret": "code"}
    assert msgspec.json.decode(written)["providers"][1]["api_key"] == {"$secret": "env:Q_KEY"}
    with pytest.raises(InvalidSpec, match="the secret is given in code"):
        parse_agent_file(written, "x.json")


def test_a_file_may_name_its_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "providers: [{id: p, adapter: openai_chat, api_key: {$secret: env:SOME_KEY}}]"
    (provider,) = parse_agent_file(text.encode(), "x.yaml").providers
    for value in (KEY, "another-key"):
        monkeypatch.setenv("SOME_KEY", value)
        assert find_key(provider) == RedactedString(value)
    monkeypatch.delenv("SOME_KEY")
    with pytest.raises(Unauthorized, match="provider 'p' has no key: The secret 'env:SOME_KEY'"):
        find_key(provider)
    with pytest.raises(InvalidSpec, match=r"api_key: env: cannot name a variable of the server"):
        parse_agent_file(text.replace("SOME_KEY", "AWAKEN_SECRET_KEYS").encode(), "x.yaml")
    with pytest.raises(InvalidSpec, match=r"Expected `str`, got `object`"):
        parse_agent_file(b'{"providers": [{"id": {"$secret": "env:A"}, "adapter": "x"}]}', "x.json")


def test_yaml_and_json_are_read_from_the_disk(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(YAML)
    (tmp_path / "A.JSON").write_text('{"agents": [{"id": "b", "model_id": "scripted"}]}')
    (one,) = read_agent_file(tmp_path / "a.yaml").agents
    assert (one.id, one.system_prompt) == ("coder", "Two\nlines.\n")
    assert [it.id for it in read_agent_file(str(tmp_path / "A.JSON")).agents] == ["b"]


@pytest.mark.parametrize(
    ("name", "text", "place"),
    [
        ("a.json", '{"agents": [{"id": "a", "model_id": "m", "modle": 1}]}', r"\$\.agents\[0\]"),
        ("a.yml", "agents:\n- {id: a, model_id: m}\n- {id: b, model_id: 3}", r"\$\.agents\[1\]"),
        ("a.json", '{"agents": [{"id": " ", "model_id": "m"}]}', r"\$\.agents\[0\]"),
        ("a.json", '{"models": [{"id": "m"}]}', r"\$\.models\[0\]"),
        ("a.json", '{"remotes": [{"name": "A", "base_url": "https://x"}]}', r"\$\.remotes\[0\]"),
        ("a.json", '{"agent": []}', "unknown field `agent`"),
        ("a.json", '{"agents": {}}', r"\$\.agents"),
        ("a.json", "[]", "Expected `object`"),
        ("a.json", '{"agents": [', "truncated"),
        ("A.JSON", '{"agents": [', "truncated"),
        ("a.json", '{"agents": [{"sections": {"x": ' + "[" * 100_000, "recursion"),
        ("a.yaml", "", "Expected `object`"),
        ("a.yaml", "agents: [\n  {id: a", r"\(line \d, column \d"),
        ("a.yaml", f"agents: []\nkey: '{KEY}", r"\(line 2, column"),
        ("a.yaml", "agents: !!python/object/apply:os.getcwd []", r"\(line 1, column"),
        ("a.yaml", "agents: &a [*a]", "contains itself"),
    ],
)
def test_what_is_wrong_is_named_with_its_file_and_place(name: str, text: str, place: str) -> None:
    with pytest.raises(InvalidSpec, match=place) as refused:
        parse_agent_file(text.encode(), name)
    message = str(refused.value)
    assert message.startswith(f"File '{name}' is invalid: ")
    assert "\n" not in message
    assert KEY not in message


@pytest.mark.parametrize(
    ("data", "repeated"),
    [
        ({"agents": [{"id": "a", "model_id": "m"}] * 2}, "agents has two of one id: a"),
        (
            {"providers": [{"id": "p", "adapter": "openai_chat"}] * 2},
            "providers has two of one id: p",
        ),
        ({"remotes": [{"name": "r", "base_url": "https://r"}] * 2}, "remotes .* id: r"),
        (
            {
                "models": [{"id": "m", "provider_id": "p", "upstream_model": "u"}],
                "pools": [{"id": "m", "members": [{"model_id": "x"}]}],
            },
            "models has two of one id: m",
        ),
    ],
)
def test_two_things_of_one_id_are_refused(data: Any, repeated: str) -> None:
    with pytest.raises(InvalidSpec, match=repeated):
        parsed(data)


def test_a_file_that_cannot_be_read_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(InvalidSpec, match=r"File 'gone\.yaml' is invalid: No such file"):
        read_agent_file(tmp_path / "gone.yaml")
    with pytest.raises(InvalidSpec, match="larger than"):
        parse_agent_file(b" " * (FILE_BYTES_MAX + 1), "a.yaml")
    (tmp_path / "large.json").write_bytes(b" " * (FILE_BYTES_MAX + 100))
    with pytest.raises(InvalidSpec, match="larger than"):
        read_agent_file(tmp_path / "large.json")


def test_remotes_that_were_made_in_code_are_checked() -> None:
    secret = {"type": "bearer", "token": KEY}
    given = RemoteRegistry(name="p", base_url="https://p", auth=secret, origins=["https://q"])  # type: ignore[arg-type]
    (found,) = check_remotes([given])
    assert found.origins == ("https://q",)
    assert found.auth is not None
    assert found.auth["token"].reveal() == KEY
    for wrong in (given, {"p": given}, ["p"], [{"name": "p"}]):
        with pytest.raises(InvalidInput, match="remotes"):
            check_remotes(wrong)
