"""The kinds `mcp-servers` and `a2a-servers`."""

from typing import Any

from awaken.contracts.errors import AwakenError
from awaken.contracts.specs.remote_registries import RemoteRegistry
from awaken.extensions.mcp.config import McpServer, Restart, check

from .models import read_seconds, show_seconds
from .problems import Problems
from .stored import expand
from .wire_forms import Body, WireForm, is_empty
from .wire_schemas import READ_ONLY_BOOL, READ_ONLY_TEXTS, SECRET, SECRETS

_TRANSPORT_FIELDS = {
    "stdio": ("command", "args", "env", "cwd"),
    "http": ("url", "headers", "oauth", "allow_private"),
}
_UNLIMITED = 2**31 - 1
"""The count of attempts that stands for no limit."""
_RESTART = {"base_ms": "delay_ms", "cap_ms": "max_delay_ms"}
_RESTART_DEFAULTS: dict[str, Any] = expand(Restart())
_OAUTH_SECRETS = ("secret", "private_key")


def _read_mcp(body: Body, problems: Problems) -> None:
    read_seconds(body, "timeout_secs", "call_ms", problems)
    kind = body.get("transport")
    if isinstance(kind, str) and kind not in _TRANSPORT_FIELDS:
        known = tuple(_TRANSPORT_FIELDS)
        problems.add("transport", "invalid", "Write stdio or http.", known)
        kind = None
    elif not isinstance(kind, str):
        problems.add("transport", "missing", "Write stdio or http.", tuple(_TRANSPORT_FIELDS))
        kind = None
    body.pop("transport", None)
    transport: Body = {"type": kind}
    for other, names in _TRANSPORT_FIELDS.items():
        for name in names:
            if name not in body:
                continue
            value = body.pop(name)
            if other == kind:
                transport[name] = value
            elif kind is not None and not is_empty(value):
                problems.add(name, "invalid", f"A server with transport {kind} has no {name}.")
    if kind is not None:
        body["transport"] = _drop_nulls(transport)
    if isinstance(oauth := transport.get("oauth"), dict):
        transport["oauth"] = {it: value for it, value in oauth.items() if it[:4] != "has_"}
        body["transport"] = _drop_nulls(transport)
    _read_restart(body, problems)


def _drop_nulls(transport: Body) -> Body:
    """Leave out null and empty texts, which stand for absent fields; secrets keep theirs."""
    kept = ("env", "headers")
    return {it: value for it, value in transport.items() if it in kept or value not in (None, "")}


def _read_restart(body: Body, problems: Problems) -> None:
    policy = body.pop("restart_policy", None)
    if policy is None:
        return
    if not isinstance(policy, dict):
        problems.add("restart_policy", "invalid", "Expected `object`.")
        return
    policy = dict(policy)
    restart: Body = {}
    is_enabled = policy.pop("enabled", False)
    attempts = policy.pop("max_attempts", None)
    if not isinstance(is_enabled, bool):
        problems.add("restart_policy/enabled", "invalid", "Expected `bool`.")
    restart["max_attempts"] = 0 if not is_enabled else _UNLIMITED if attempts is None else attempts
    if policy.pop("backoff_multiplier", 2) != 2:
        message = "Each pause is twice the one before; the only multiplier is 2."
        problems.add("restart_policy/backoff_multiplier", "unsupported_field", message)
    for stored, wire in _RESTART.items():
        if policy.get(wire) is not None:
            restart[stored] = policy.pop(wire)
        else:
            policy.pop(wire, None)
    body["restart"] = {**policy, **restart}


def _write_mcp(body: Body) -> None:
    show_seconds(body, "call_ms", "timeout_secs")
    transport = body.pop("transport")
    body["transport"] = transport["type"]
    defaults: Body = {"command": None, "args": [], "cwd": None, "url": None, "allow_private": False}
    for name, default in defaults.items():
        body[name] = transport.get(name, default)
    env, headers = transport.get("env"), transport.get("headers")
    body |= {"has_env": bool(env), "env_keys": sorted(env or ())}
    body |= {"has_headers": bool(headers), "header_keys": sorted(headers or ())}
    body["oauth"] = None
    if oauth := transport.get("oauth"):
        shown = {name: it for name, it in oauth.items() if name not in _OAUTH_SECRETS}
        body["oauth"] = shown | {f"has_{it}": True for it in _OAUTH_SECRETS if it in oauth}
    restart = {**_RESTART_DEFAULTS, **body.pop("restart")}
    attempts = restart.pop("max_attempts")
    body["restart_policy"] = {
        "enabled": attempts > 0,
        "max_attempts": attempts if 0 < attempts < _UNLIMITED else None,
        "backoff_multiplier": 2,
        **{_RESTART.get(name, name): it for name, it in restart.items()},
    }


def _check_mcp(spec: McpServer, problems: Problems) -> None:
    try:
        check(spec)
    except AwakenError as error:
        problems.add_refusal("", error)


def _write_a2a(body: Body) -> None:
    auth = body.pop("auth")
    body["has_auth"] = bool(auth)


MCP_SERVERS = WireForm(
    name="mcp-servers",
    spec=McpServer,
    id_field="name",
    read=_read_mcp,
    write=_write_mcp,
    check=_check_mcp,
    names={
        "call_ms": "timeout_secs",
        "restart/base_ms": "restart_policy/delay_ms",
        "restart/cap_ms": "restart_policy/max_delay_ms",
        "restart": "restart_policy",
        **{f"transport/{it}": it for names in _TRANSPORT_FIELDS.values() for it in names},
    },
    properties={
        "call_ms": None,
        "restart": None,
        "transport": {"enum": list(_TRANSPORT_FIELDS)},
        "command": {"type": ["string", "null"]},
        "args": {"type": "array", "items": {"type": "string"}},
        "cwd": {"type": ["string", "null"]},
        "url": {"type": ["string", "null"]},
        "allow_private": {"type": "boolean"},
        "timeout_secs": {"type": "number", "exclusiveMinimum": 0, "default": 60},
        "env": SECRETS,
        "headers": SECRETS,
        "oauth": {
            "type": ["object", "null"],
            "properties": {
                "type": {"enum": ["client_credentials", "login"]},
                **dict.fromkeys(_OAUTH_SECRETS, SECRET),
            },
        },
        "config": {"type": ["object", "null"], "maxProperties": 0},
        "has_env": READ_ONLY_BOOL,
        "env_keys": READ_ONLY_TEXTS,
        "has_headers": READ_ONLY_BOOL,
        "header_keys": READ_ONLY_TEXTS,
        "restart_policy": {
            "type": ["object", "null"],
            "properties": {
                "enabled": {"type": "boolean", "default": False},
                "max_attempts": {"type": ["integer", "null"], "minimum": 0},
                "delay_ms": {"type": ["integer", "null"]},
                "backoff_multiplier": {"const": 2},
                "max_delay_ms": {"type": ["integer", "null"]},
                "stable_ms": {"type": "integer"},
                "failures": {"type": "integer"},
            },
            "additionalProperties": False,
        },
    },
    shown_only=("has_env", "env_keys", "has_headers", "header_keys"),
    rust_only=("config",),
    secrets=(
        "transport/env/*",
        "transport/headers/*",
        "transport/oauth/secret",
        "transport/oauth/private_key",
    ),
)
A2A_SERVERS = WireForm(
    name="a2a-servers",
    spec=RemoteRegistry,
    id_field="name",
    write=_write_a2a,
    properties={
        "auth": {
            "type": ["object", "null"],
            "properties": {"type": {"const": "bearer"}, "token": SECRET},
            "additionalProperties": False,
            "writeOnly": True,
        },
        "has_auth": READ_ONLY_BOOL,
    },
    shown_only=("has_auth",),
    secrets=("auth/!type",),
)
