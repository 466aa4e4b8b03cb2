"""Secrets in stored bodies: lifted out of texts, kept when unmentioned, refused elsewhere."""

from typing import Any

import pytest

from awaken.contracts.config.secret_fields import (
    check_ref,
    decode_stored_spec,
    find_secret_problems,
    lift_literals,
    list_references,
    merge_secrets,
    store_ref,
)
from awaken.contracts.errors import InvalidSpec
from awaken.contracts.models.model_specs import ProviderSpec
from awaken.contracts.secrets import SecretReference
from awaken.contracts.specs.agents import AgentSpec
from awaken.extensions.mcp.config import Http, McpServer, Stdio

CANARY = "canary-0123456789"
PROVIDER = ("api_key", "adapter_options/headers/*")
MCP = ("transport/env/*", "transport/headers/*", "transport/oauth/secret")
AGENT = ("endpoint/auth/!type", "endpoint/options/env/*")


def bind(ref: str) -> SecretReference:
    return SecretReference(ref, lambda _: CANARY)


def secret(ref: str) -> dict[str, str]:
    return {"$secret": ref}


def test_a_text_in_a_secret_field_is_lifted_out_of_its_body() -> None:
    body = {
        "id": "p",
        "adapter": "a",
        "api_key": CANARY,
        "adapter_options": {"headers": {"X-A": CANARY + "2", "X-B": secret("env:B")}, "n": 1},
    }
    lifted, texts = lift_literals(body, PROVIDER, lambda path: store_ref("providers", "p", path))
    assert CANARY not in str(lifted)
    assert texts == {
        "store:providers/p/api_key": CANARY,
        "store:providers/p/adapter_options/headers/X-A": CANARY + "2",
    }
    assert lifted["adapter_options"]["n"] == 1
    assert list_references(lifted, PROVIDER) == {
        "api_key": "store:providers/p/api_key",
        "adapter_options/headers/X-A": "store:providers/p/adapter_options/headers/X-A",
        "adapter_options/headers/X-B": "env:B",
    }
    assert body["api_key"] == CANARY, "the body that was given is unchanged"


@pytest.mark.parametrize("value", ["", None])
def test_an_empty_text_and_null_clear_a_secret(value: str | None) -> None:
    body = {"id": "p", "adapter": "a", "api_key": value}
    assert lift_literals(body, PROVIDER, str) == ({"id": "p", "adapter": "a"}, {})


def test_null_in_an_environment_means_inherited_and_is_kept() -> None:
    body = {"transport": {"type": "stdio", "env": {"A": None, "B": ""}}}
    lifted, texts = lift_literals(body, MCP, str)
    assert (lifted["transport"]["env"], texts) == ({"A": None}, {})


@pytest.mark.parametrize(
    ("paths", "new", "old", "merged"),
    [
        (PROVIDER, {"id": "p"}, {"api_key": 1, "id": "o"}, {"id": "p", "api_key": 1}),
        (PROVIDER, {"api_key": 2}, {"api_key": 1}, {"api_key": 2}),
        (PROVIDER, {"adapter_options": {}}, {"adapter_options": {"headers": {"a": 1}, "n": 1}},
         {"adapter_options": {"headers": {"a": 1}}}),
        (PROVIDER, {"adapter_options": {"headers": {"b": 2}}},
         {"adapter_options": {"headers": {"a": 1}}}, {"adapter_options": {"headers": {"b": 2}}}),
        (MCP, {"transport": {"type": "http"}}, {"transport": {"type": "stdio", "env": {"a": 1}}},
         {"transport": {"type": "http"}}),
        (MCP, {"transport": {"type": "stdio"}}, {"transport": {"type": "stdio", "env": {"a": 1}}},
         {"transport": {"type": "stdio", "env": {"a": 1}}}),
        (AGENT, {"endpoint": {"auth": {"type": "bearer"}}},
         {"endpoint": {"auth": {"type": "bearer", "token": 1}}},
         {"endpoint": {"auth": {"type": "bearer", "token": 1}}}),
        (AGENT, {}, {"endpoint": {"auth": {"type": "bearer", "token": 1}}}, {}),
    ],
)  # fmt: skip
def test_a_secret_that_a_new_body_does_not_mention_is_kept(
    paths: Any, new: Any, old: Any, merged: Any
) -> None:
    assert merge_secrets(new, old, paths) == merged


def test_a_stored_body_becomes_a_spec_with_references() -> None:
    body = {"id": "p", "adapter": "a", "api_key": secret("env:KEY")}
    spec = decode_stored_spec(body, ProviderSpec, PROVIDER, bind)
    assert spec.api_key == bind("env:KEY") != bind("env:OTHER")
    server = {
        "name": "s",
        "transport": {"type": "stdio", "command": "c", "env": {"A": secret("env:A"), "B": None}},
    }
    found = decode_stored_spec(server, McpServer, MCP, bind)
    assert isinstance(found.transport, Stdio)
    assert found.transport.env == {"A": bind("env:A"), "B": None}
    server["transport"] = {"type": "http", "url": "u", "headers": {"X": secret("store:a/b/c")}}
    found = decode_stored_spec(server, McpServer, MCP, bind)
    assert isinstance(found.transport, Http)
    assert found.transport.headers == {"X": bind("store:a/b/c")}
    auth = {"type": "bearer", "token": secret("env:T")}
    agent = {"id": "a", "endpoint": {"base_url": "https://a", "auth": auth}}
    endpoint = decode_stored_spec(agent, AgentSpec, AGENT, bind).endpoint
    assert endpoint is not None
    assert endpoint.auth == {"type": "bearer", "token": bind("env:T")}


@pytest.mark.parametrize(
    ("body", "path", "code"),
    [
        ({"api_key": CANARY}, "api_key", "plain_secret"),
        ({"api_key": secret("env:lower")}, "api_key", "invalid_secret"),
        ({"api_key": {"$secret": "env:A", "x": CANARY}}, "api_key", "invalid_secret"),
        ({"api_key": {"$secret": [CANARY]}}, "api_key", "invalid_secret"),
        ({"base_url": secret("env:A")}, "base_url", "not_a_secret"),
        ({"adapter_options": {"x": [secret("env:A")]}}, "adapter_options/x/0", "not_a_secret"),
        ({"adapter_options": secret("env:A")}, "adapter_options", "not_a_secret"),
        ({"adapter_options": {"headers": secret("env:A")}}, "adapter_options/headers",
         "not_a_secret"),
    ],
)  # fmt: skip
def test_a_misplaced_or_malformed_secret_is_refused_without_its_value(
    body: dict[str, Any], path: str, code: str
) -> None:
    stored = {"id": "p", "adapter": "a", **body}
    (problem,) = find_secret_problems(stored, PROVIDER)
    assert (problem.path, problem.code) == (path, code)
    with pytest.raises(InvalidSpec) as raised:
        decode_stored_spec(stored, ProviderSpec, PROVIDER, bind)
    assert CANARY not in str(raised.value) + repr(raised.value) + str(problem)


def test_a_file_must_lie_below_a_directory_for_secrets() -> None:
    body = {"api_key": secret("file:/run/secrets/key")}
    assert not find_secret_problems(body, PROVIDER, ["/run/secrets"])
    for directories in ([], ["/run/secret"], ["/run/secrets/key"]):
        (problem,) = find_secret_problems(body, PROVIDER, directories)
        assert "AWAKEN_SECRET_DIRS" in problem.message


def test_a_body_that_does_not_fit_is_refused_like_any_other_spec() -> None:
    with pytest.raises(InvalidSpec, match="timeout_ms"):
        decode_stored_spec({"id": "p", "adapter": "a", "timeout_ms": "x"}, ProviderSpec, (), bind)
    with pytest.raises(InvalidSpec, match="unknown field `x`"):
        decode_stored_spec({"id": "p", "adapter": "a", "x": 1}, ProviderSpec, (), bind)


GOOD = ["env:A", "env:_A1", "file:/a", "file:/run/x.y/z", "store:mcp-servers/a.b:c@d/env/X-Y"]
BAD = [
    "", None, 3, "A", "env:", "env:a", "env:1A", "env:A B", "env:AWAKEN_SECRET_KEYS", "file:a",
    "file:", "file:/", "file://a", "file:/a/../b", "file:/a/./b", "file:/a\n", "store:", "store:a",
    "store:a/b", "store:a/b/", "store:a/b c/d", "store:A/b/c", "https://x", "code",
    "env:" + "A" * 2000,
]  # fmt: skip


@pytest.mark.parametrize("ref", GOOD)
def test_references_that_are_accepted(ref: str) -> None:
    assert check_ref(ref) == ""


@pytest.mark.parametrize("ref", BAD)
def test_references_that_are_refused(ref: Any) -> None:
    assert check_ref(ref) != ""
