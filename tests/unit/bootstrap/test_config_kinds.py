"""Kinds: what is stored comes back from its HTTP form, and what is wrong is named with its path."""

from typing import Any

import jsonschema_rs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from awaken.bootstrap.config_kinds import config_kinds
from awaken.contracts.config.errors import InvalidConfig
from awaken.contracts.config.kinds import SECRET_KEY, RecordMeta

KINDS = config_kinds()
CANARY = "sk-canary-0123456789"

TEXT = st.text("abcXYZ019 äß", min_size=1, max_size=12).filter(lambda it: it == it.strip() != "")
IDS = st.from_regex(r"[A-Za-z0-9._:@-]{1,20}", fullmatch=True).filter(
    lambda it: it not in ("meta", "validate", ".", "..")
)
NAMES = st.from_regex(r"[a-z][a-z0-9]{0,9}", fullmatch=True)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=2),
    max_leaves=5,
)


def bodies(required: dict[str, Any], **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(required, optional=fields)


def tools() -> st.SearchStrategy[list[str]]:
    names = st.lists(NAMES, max_size=3, unique=True)
    globs = st.lists(NAMES.map(lambda it: f"{it}*"), max_size=2, unique=True)
    return st.tuples(names, globs).map(lambda it: [*it[0], *it[1]])


MODALITIES = st.sampled_from([["image", "text"], ["document"], ["audio", "document"]])
STORED = {
    "agents": bodies(
        {"id": IDS, "model_id": NAMES},
        system_prompt=TEXT,
        max_rounds=st.integers(0, 15),
        reasoning_effort=st.sampled_from(["none", "max", {"budget": 512}]),
        plugin_ids=st.lists(NAMES, min_size=1, max_size=2),
        active_hook_filter=st.lists(NAMES, min_size=1, max_size=2),
        allowed_tools=tools(),
        excluded_tools=tools(),
        stop_conditions=st.just([{"type": "max_rounds", "rounds": 300}]),
        budgets=st.just([{"tokens": 1000}, {"scope": "tenant", "cost_usd": 0.5}]),
        parallel_tools=st.just(False),
        context_policy=st.just({"max_context_tokens": 1000}),
        endpoint=st.sampled_from(
            [{"base_url": "http://a"}, {"base_url": "http://a", "options": {"x": 1}, "target": "t"}]
        ),
        delegates=st.lists(NAMES, min_size=1, max_size=2),
        sections=st.dictionaries(NAMES, JSON, min_size=1, max_size=2),
    ),
    "models": bodies(
        {"id": IDS, "provider_id": NAMES, "upstream_model": TEXT},
        context_window=st.integers(1000, 2000),
        max_output_tokens=st.integers(1, 999),
        modalities=st.builds(dict, input=MODALITIES) | st.builds(dict, output=MODALITIES),
        knowledge_cutoff=st.just("2026-02"),
        prices=st.sampled_from(
            [{"input": 1.5, "output": 2}, {"input": 0, "output": 1, "cache_read": 0.5}]
        ),
        options=st.dictionaries(NAMES, JSON, min_size=1, max_size=2),
    ),
    "model-pools": bodies(
        {
            "id": IDS,
            "members": st.just([{"model_id": "/a"}, {"model_id": "/b", "role": "failover_only"}]),
        },
        routing=st.just("round_robin"),
        max_switches=st.integers(0, 3),
        max_call_usd=st.just(0.5),
    ),
    "providers": bodies(
        {
            "id": IDS,
            "adapter": st.sampled_from(
                ["openai_chat", "openai_responses", "anthropic", "gemini", "bedrock", "bridge"]
            ),
        },
        base_url=st.sampled_from(["https://a.example/v1", "https://api.deepseek.com/v1"]),
        timeout_ms=st.integers(1, 200_000),
        adapter_options=st.sampled_from(
            [{"send_reasoning": True, "max_tokens_field": "max_tokens"}, {"x": [1]}]
        ),
    ),
    "mcp-servers": bodies(
        {
            "name": NAMES,
            "transport": st.sampled_from(
                [
                    {"type": "stdio", "command": "run"},
                    {"type": "stdio", "command": "run", "args": ["a", ""], "cwd": "/x"},
                    {"type": "http", "url": "https://a.example/mcp"},
                    {"type": "http", "url": "http://127.0.0.1:1/", "allow_private": True},
                    {
                        "type": "http",
                        "url": "https://a.example/mcp",
                        "oauth": {"type": "login", "file": "/f", "scopes": ["s"]},
                    },
                ]
            ),
        },
        enabled=st.just(False),
        call_ms=st.integers(1, 59_999),
        restart=st.sampled_from(
            [{"max_attempts": 0}, {"max_attempts": 2**31 - 1}, {"base_ms": 5, "failures": 9}]
        ),
        limits=st.just({"pages": 3}),
        pins=st.just({"a": "b"}),
        roots=st.just([{"uri": "file:///x"}]),
    ),
    "a2a-servers": bodies(
        {"name": NAMES, "base_url": st.just("https://a.example")},
        refresh_ms=st.integers(1, 9999),
        timeout_ms=st.integers(1, 4999),
        origins=st.just(["https://b.example"]),
    ),
    "skills": bodies(
        {"id": NAMES, "description": TEXT, "body": TEXT},
        files=st.just({"references/a.md": "text"}),
        when_to_use=TEXT,
        arguments=st.just([{"name": "a"}, {"name": "b", "required": True}]),
        allowed_tools=st.just(["read", "Bash(git *)"]),
        user_invocable=st.just(False),
        model=NAMES,
        context=st.just("fork"),
        agent=NAMES,
        paths=st.just(["*.py"]),
    ),
    "rulesets": bodies(
        {"id": IDS},
        rules=st.just([{"tool": "Bash(git *)", "behavior": "deny", "scope": "run"}]),
        default_behavior=st.sampled_from(["allow", "deny"]),
    ),
    "budgets": bodies(
        {"id": IDS, "tokens": st.integers(1, 99)},
        scope=st.just("tenant"),
        cost_usd=st.just(0.5),
        soft=st.just(True),
    ),
    "scorers": bodies(
        {"id": IDS, "scorers": st.just([{"scorer": "contains", "options": {"phrases": ["a"]}}])},
        sample=st.just(0.5),
        agents=st.just(["a"]),
        max_usd_per_day=st.just(0.5),
        enabled=st.just(False),
    ),
    "tools": bodies({"id": IDS, "name": NAMES, "description": TEXT}, enabled=st.just(False)),
}  # fmt: skip


def meta_of(kind: str, record_id: str = "x") -> RecordMeta:
    return RecordMeta(
        namespace=kind, id=record_id, source="user", created_at=1, updated_at=2, revision=3
    )


def problems_of(kind: str, body: dict[str, Any]) -> dict[str, Any]:
    with pytest.raises(InvalidConfig) as refused:
        KINDS[kind].from_wire(body)
    assert CANARY not in str(refused.value)
    assert CANARY not in repr(refused.value.problems)
    return {it.path: it for it in refused.value.problems}


@pytest.mark.parametrize("kind", KINDS)
def test_a_stored_body_comes_back_from_its_http_form(kind: str) -> None:
    @given(STORED[kind])
    def check(body: dict[str, Any]) -> None:
        shown = KINDS[kind].to_wire(body, meta_of(kind))
        assert shown["created_at"] == 1
        jsonschema_rs.validate(dict(KINDS[kind].wire_schema), shown)
        assert KINDS[kind].from_wire(shown) == body

    check()


@pytest.mark.parametrize("kind", KINDS)
def test_a_schema_of_the_http_form_is_a_json_schema(kind: str) -> None:
    schema = KINDS[kind].wire_schema
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    jsonschema_rs.meta.validate(dict(schema))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "record_id", [None, "", "a/b", "a b", "x" * 129, 7, "meta", "validate", "ä"]
)
def test_an_id_that_no_address_can_have_is_refused(kind: str, record_id: Any) -> None:
    shown = record_id if record_id in ("meta", "validate") else "?"
    assert [*problems_of(kind, {"id": record_id})] == [f"{kind}/{shown}/id"]


@pytest.mark.parametrize("kind", KINDS)
def test_hostile_bodies_are_refused_with_typed_problems_only(kind: str) -> None:
    @given(st.dictionaries(st.sampled_from([*KINDS[kind].wire_schema["properties"], "zz"]), JSON))
    def check(body: dict[str, Any]) -> None:
        try:
            stored = KINDS[kind].from_wire({**body, "id": "x"})
        except InvalidConfig as refused:
            wrong = [it.path for it in refused.problems if not it.path.startswith(f"{kind}/x")]
        else:
            KINDS[kind].to_wire(stored, meta_of(kind))
            wrong = []
        assert not wrong

    check()


def test_all_problems_of_a_body_are_listed_with_their_paths() -> None:
    found = problems_of(
        "agents",
        {
            "id": "support",
            "model_id": 7,
            "max_rounds": "many",
            "nonsense": 1,
            "backend": {"kind": "a2a"},
            "stop_conditions": [{"type": "max_rounds", "rounds": "x"}],
            "sections": {"permission": {"include": [1]}},
        },
    )
    assert found.keys() == {
        "agents/support/model_id",
        "agents/support/max_rounds",
        "agents/support/nonsense",
        "agents/support/backend",
        "agents/support/stop_conditions/0/rounds",
    }
    assert "model_id" in found["agents/support/nonsense"].known


def test_a_body_of_more_than_a_mebibyte_is_refused() -> None:
    found = problems_of("agents", {"id": "a", "model_id": "m", "system_prompt": "x" * 2**20})
    assert found["agents/a"].code == "too_large"


def test_a_text_that_is_not_unicode_is_refused() -> None:
    assert [*problems_of("agents", {"id": "a", "model_id": "m", "system_prompt": "\ud800"})] == [
        "agents/a"
    ]


def test_fields_of_other_implementations_pass_only_when_empty() -> None:
    pool = {"id": "p", "members": [{"model_id": "m"}]}
    assert KINDS["model-pools"].from_wire({**pool, "switch": {}}) == pool
    found = problems_of("model-pools", {**pool, "switch": {"on": "quota"}})
    assert found["model-pools/p/switch"].code == "unsupported_field"
    server = {"id": "s", "transport": "stdio", "command": "run"}
    assert KINDS["mcp-servers"].from_wire({**server, "config": {}, "url": None})
    assert "mcp-servers/s/config" in problems_of("mcp-servers", {**server, "config": {"a": 1}})


def test_agents_are_read_by_their_older_names() -> None:
    stored = KINDS["agents"].from_wire(
        {
            "id": "a",
            "model_id": "m",
            "active_plugins": ["p"],
            "reasoning_effort": {"budget": 5},
            "allowed_tool_patterns": ["mcp__*"],
            "allowed_tools": ["read"],
            "excluded_tools": None,
            "excluded_tool_patterns": [],
            "backend": {"kind": "awaken"},
            "endpoint": {"base_url": "http://x", "bearer_token": CANARY, "agent_id": "t"},
            "created_at": 1,
            "updated_at": 2,
        }
    )
    assert stored == {
        "id": "a",
        "model_id": "m",
        "active_hook_filter": ["p"],
        "reasoning_effort": {"budget": 5},
        "allowed_tools": ["read", "mcp__*"],
        "endpoint": {
            "base_url": "http://x",
            "auth": {"type": "bearer", "token": CANARY},
            "target": "t",
        },
    }
    mixed = {"base_url": "http://x", "bearer_token": CANARY, "auth": None}
    assert "agents/a/endpoint" in problems_of(
        "agents", {"id": "a", "model_id": "m", "endpoint": mixed}
    )


def test_an_agent_without_a_list_of_tools_keeps_all_tools() -> None:
    body = {"id": "a", "model_id": "m"}
    shown = KINDS["agents"].to_wire(body, meta_of("agents"))
    assert (shown["allowed_tools"], shown["allowed_tool_patterns"]) == (None, None)
    assert KINDS["agents"].from_wire({**body, "allowed_tool_patterns": []}) == body
    none = {**body, "allowed_tools": []}
    assert KINDS["agents"].from_wire({**none, "allowed_tool_patterns": []}) == none


@pytest.mark.parametrize(
    ("adapter", "stored", "shown"),
    [
        ("openai", "openai_chat", "openai"),
        ("openai-resp", "openai_responses", "openai_resp"),
        ("responses", "openai_responses", "openai_resp"),
        ("openai_chat", "openai_chat", "openai"),
        ("anthropic", "anthropic", "anthropic"),
        ("deepseek", "openai_chat", "deepseek"),
        ("ollama", "openai_chat", "ollama"),
    ],
)
def test_adapters_have_the_names_of_both(adapter: str, stored: str, shown: str) -> None:
    kind = KINDS["providers"]
    body = kind.from_wire({"id": "p", "adapter": adapter, "base_url": "", "timeout_secs": 1.5})
    assert (body["adapter"], body["timeout_ms"]) == (stored, 1500)
    reply = kind.to_wire(body, meta_of("providers", "p"))
    assert (reply["adapter"], reply["timeout_secs"]) == (shown, 1.5)


def test_a_provider_shows_that_it_has_a_key_and_never_the_key() -> None:
    kind = KINDS["providers"]
    written = kind.from_wire(
        {
            "id": "openai",
            "adapter": "openai",
            "api_key": CANARY,
            "adapter_options": {"headers": {"x-key": CANARY}},
            "has_api_key": False,
            "api_key_ref": "nonsense",
        }
    )
    assert written["api_key"] == CANARY, "the caller moves it into the store"
    assert written["adapter_options"]["headers"]["x-key"] == CANARY
    ref = {SECRET_KEY: "store:providers/openai/api_key"}
    stored = {**written, "api_key": ref, "adapter_options": {"headers": {"x-key": ref}}}
    reply = kind.to_wire(stored, meta_of("providers", "openai"))
    assert reply == {
        "id": "openai",
        "adapter": "openai",
        "base_url": None,
        "timeout_secs": 300,
        "adapter_options": {},
        "has_api_key": True,
        "api_key_ref": "store:providers/openai/api_key",
        "has_headers": True,
        "header_keys": ["x-key"],
        "created_at": 1,
        "updated_at": 2,
    }
    assert kind.from_wire({"id": "p", "adapter": "openai", "api_key": ref})["api_key"] == ref


def test_a_secret_of_a_wrong_form_is_refused_without_its_value() -> None:
    for wrong in ([CANARY], {"a": CANARY}, {SECRET_KEY: "env:A", "b": CANARY}, 7):
        found = problems_of("providers", {"id": "p", "adapter": "openai", "api_key": wrong})
        assert found["providers/p/api_key"].code == "invalid_secret"
    server = {"id": "s", "transport": "stdio", "command": "run", "env": {"A": [CANARY]}}
    assert [*problems_of("mcp-servers", server)] == ["mcp-servers/s/env/A"]


@pytest.mark.parametrize("cleared", [None, ""])
def test_a_key_that_is_cleared_differs_from_one_that_is_not_mentioned(cleared: Any) -> None:
    body = {"id": "p", "adapter": "anthropic"}
    kind = KINDS["providers"]
    assert "api_key" not in kind.from_wire(body)
    assert kind.from_wire({**body, "api_key": cleared})["api_key"] == cleared


def test_the_environment_of_a_server_is_replaced_cleared_or_not_mentioned() -> None:
    kind = KINDS["mcp-servers"]
    server = {"id": "s", "transport": "stdio", "command": "run"}
    assert "env" not in kind.from_wire(server)["transport"]
    assert kind.from_wire({**server, "env": {}})["transport"]["env"] == {}
    written = kind.from_wire({**server, "env": {"A": CANARY, "B": None}})
    assert written["transport"]["env"] == {"A": CANARY, "B": None}
    stored = {**written}
    stored["transport"] = {**written["transport"], "env": {"A": {SECRET_KEY: "env:A"}, "B": None}}
    reply = kind.to_wire(stored, meta_of("mcp-servers", "s"))
    assert (reply["has_env"], reply["env_keys"]) == (True, ["A", "B"])
    assert "env" not in reply
    assert kind.from_wire(reply)["transport"] == {"type": "stdio", "command": "run"}


def test_oauth_shows_that_it_has_a_secret_and_never_the_secret() -> None:
    kind = KINDS["mcp-servers"]
    oauth = {"type": "client_credentials", "client_id": "c", "issuer": "https://i.example"}
    server = {"id": "s", "transport": "http", "url": "https://a.example"}
    written = kind.from_wire({**server, "oauth": {**oauth, "secret": CANARY}})
    assert written["transport"]["oauth"]["secret"] == CANARY
    reply = kind.to_wire(written, meta_of("mcp-servers", "s"))
    assert reply["oauth"] == {**oauth, "has_secret": True}
    assert CANARY not in repr(reply)


def test_a_restart_policy_is_read_in_the_units_of_ours() -> None:
    kind = KINDS["mcp-servers"]
    server = {"id": "s", "transport": "http", "url": "https://a.example"}
    policy = {"enabled": True, "delay_ms": 10, "max_delay_ms": 50, "backoff_multiplier": 2.0}
    stored = kind.from_wire({**server, "restart_policy": policy})
    assert stored["restart"] == {"max_attempts": 2**31 - 1, "base_ms": 10, "cap_ms": 50}
    off = kind.from_wire({**server, "restart_policy": {"enabled": False}})
    assert off["restart"] == {"max_attempts": 0}
    found = problems_of("mcp-servers", {**server, "restart_policy": {"backoff_multiplier": 3}})
    assert [*found] == ["mcp-servers/s/restart_policy/backoff_multiplier"]


def test_a_server_of_this_process_cannot_be_written_over_http() -> None:
    assert problems_of("mcp-servers", {"id": "s", "transport": "in_process"})


def test_a_registry_shows_that_it_has_credentials_and_never_these() -> None:
    kind = KINDS["a2a-servers"]
    server = {"id": "peer", "base_url": "https://a.example"}
    auth = {"type": "bearer", "token": CANARY}
    written = kind.from_wire({**server, "auth": auth})
    assert written["auth"] == auth
    reply = kind.to_wire(
        {**written, "auth": {**auth, "token": {SECRET_KEY: "env:T"}}}, meta_of("x")
    )
    assert reply["has_auth"] is True
    assert "auth" not in reply
    assert kind.from_wire({**server, "auth": None})["auth"] is None
    assert "auth" not in kind.from_wire(server)
    assert problems_of("a2a-servers", {**server, "auth": {"type": "basic", "token": CANARY}})


def test_prices_need_both_directions() -> None:
    model = {"id": "m", "provider_id": "p", "upstream_model": "u"}
    found = problems_of("models", {**model, "input_token_price_per_million_usd": 1})
    assert [*found] == ["models/m/output_token_price_per_million_usd"]


@pytest.mark.parametrize(
    "files",
    [
        {"scripts/run.sh": "x"},
        {"references/run.py": "x"},
        {"references/../a": "x"},
        {"/etc/a": "x"},
        {f"references/{at}.md": "x" for at in range(21)},
        {"references/a.md": "x" * (256 * 1024)},
    ],
)
def test_a_skill_with_scripts_or_too_much_text_is_refused(files: dict[str, str]) -> None:
    skill = {"id": "pdf", "description": "d", "body": "b"}
    assert problems_of("skills", {**skill, "files": files})


def test_a_skill_is_read_by_its_other_names() -> None:
    body = {"id": "pdf", "name": "pdf", "description": "d", "instructions_md": "b"}
    assert KINDS["skills"].from_wire({**body, "model_override": "fast"}) == {
        "id": "pdf",
        "description": "d",
        "body": "b",
        "model": "fast",
    }
    assert problems_of("skills", {**body, "id": "Not_A_Skill_Name", "name": None})


def test_a_malformed_pattern_of_a_ruleset_is_named() -> None:
    rules = [{"tool": "ok", "behavior": "allow"}, {"tool": "Bash(", "behavior": "deny"}]
    found = problems_of("rulesets", {"id": "r", "rules": rules})
    assert found["rulesets/r/rules/1/tool"].code == "bad_pattern"


@pytest.mark.parametrize(
    "wrong", [{}, {"tokens": 0}, {"tokens": 1, "tenant_id": "t"}, {"cost_usd": -1}]
)
def test_a_budget_that_limits_nothing_is_refused(wrong: dict[str, Any]) -> None:
    assert problems_of("budgets", {"id": "b", **wrong})


def test_patches_have_patchable_fields_only() -> None:
    patch = KINDS["agents"].patch_from_wire
    assert patch is not None
    written = {"system_prompt": None, "allowed_tool_patterns": ["a*"], "sections": {"mcp": None}}
    assert patch("support", written) == {
        "system_prompt": None,
        "allowed_tools": ["a*"],
        "sections": {"mcp": None},
    }
    with pytest.raises(InvalidConfig) as refused:
        patch("support", {"id": "x", "registry": "r", "max_rounds": "many"})
    assert {it.path for it in refused.value.problems} == {
        "agents/support/id",
        "agents/support/registry",
        "agents/support/max_rounds",
    }


def test_a_description_of_a_tool_is_bounded() -> None:
    patch = KINDS["tools"].patch_from_wire
    assert patch is not None
    assert patch("t", {"description": "ä" * 2048, "enabled": False})
    for wrong in ("ä" * 2049, " "):
        with pytest.raises(InvalidConfig):
            patch("t", {"description": wrong})


def test_references_have_paths() -> None:
    spec: Any = msgspec.convert(
        {
            "id": "a",
            "model_id": "fast",
            "delegates": ["b", "peer/c"],
            "sections": {"permission": {"include": ["r"]}, "mcp": {"servers": ["git"]}},
        },
        KINDS["agents"].spec,
    )
    assert set(KINDS["agents"].references(spec)) >= {
        ("model_id", "models", "fast"),
        ("model_id", "model-pools", "fast"),
        ("delegates/0", "agents", "b"),
        ("delegates/1", "a2a-servers", "peer"),
        ("sections/permission/include/0", "rulesets", "r"),
        ("sections/mcp/servers/0", "mcp-servers", "git"),
    }
