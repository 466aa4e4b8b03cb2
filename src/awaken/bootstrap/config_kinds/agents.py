"""The kind `agents`: Awaken for Rust names some fields otherwise, and splits names from globs."""

from collections.abc import Iterable
from typing import Any

from awaken.contracts.specs.agents import AgentSpec

from .problems import Problems
from .wire_forms import Body, WireForm, is_empty
from .wire_schemas import READ_ONLY_BOOL, READ_ONLY_TEXTS

GLOB_CHARACTERS = frozenset("*?[{\\")
"""What makes a tool's name a glob; `awaken.patterns` would load RE2."""
_TOOL_LISTS = ("allowed_tools", "excluded_tools")
_PATTERNS = {"allowed_tools": "allowed_tool_patterns", "excluded_tools": "excluded_tool_patterns"}
_OLD_ENDPOINT = ("bearer_token", "agent_id", "poll_interval_ms")
_NEW_ENDPOINT = ("auth", "target", "options", "backend", "timeout_ms")
_TEXTS = {"type": ["array", "null"], "items": {"type": "string"}}


def _read(body: Body, problems: Problems) -> None:
    if "active_plugins" in body:
        if "active_hook_filter" in body:
            problems.add(
                "active_plugins", "invalid", "It is active_hook_filter: write one of them."
            )
        body["active_hook_filter"] = body.pop("active_plugins")
    _read_backend(body, problems)
    effort = body.get("reasoning_effort")
    if isinstance(effort, int) and not isinstance(effort, bool):
        body["reasoning_effort"] = {"budget": effort}
    for name in _TOOL_LISTS:
        _join_tools(body, name, problems)
    if isinstance(body.get("endpoint"), dict):
        body["endpoint"] = _read_endpoint(body["endpoint"], problems)


def _read_backend(body: Body, problems: Problems) -> None:
    backend = body.pop("backend", None)
    if not is_empty(backend) and backend not in (
        {"kind": "awaken"},
        {"kind": "awaken", "config": {}},
    ):
        message = 'Only {"kind": "awaken"} is known; an agent elsewhere has an `endpoint`.'
        problems.add("backend", "unsupported_field", message)


def _join_tools(body: Body, name: str, problems: Problems) -> None:
    """Put names and globs into one list, names first; both absent: the field is absent."""
    has_patterns = _PATTERNS[name] in body
    names, globs = body.get(name), body.pop(_PATTERNS[name], None)
    if globs is not None and not isinstance(globs, list):
        problems.add(_PATTERNS[name], "invalid", "Expected `array`.")
    elif globs and isinstance(names, list | None):
        body[name] = list(dict.fromkeys(map(_hashable, [*(names or ()), *globs])))
    elif has_patterns and name not in body:
        body[name] = None
    found = body.get(name)
    if isinstance(found, list) and all(isinstance(it, str) for it in found):
        body[name] = sorted(dict.fromkeys(found), key=_is_glob)


def _hashable(value: Any) -> Any:
    """A value that fits no field, in place of one that cannot be a key."""
    return None if isinstance(value, list | dict) else value


def _is_glob(name: str) -> bool:
    return not GLOB_CHARACTERS.isdisjoint(name)


def _read_endpoint(endpoint: Body, problems: Problems) -> Body:
    """Read an endpoint; its older field names cannot be mixed with the present ones."""
    fields = {
        name: it for name, it in endpoint.items() if name not in ("has_auth", "has_env", "env_keys")
    }
    old = {name: fields.pop(name) for name in _OLD_ENDPOINT if name in fields}
    if not old:
        return fields
    if mixed := [name for name in _NEW_ENDPOINT if name in fields]:
        message = f"{', '.join(old)} cannot be mixed with {', '.join(mixed)}."
        problems.add("endpoint", "invalid", message)
    if not is_empty(old.get("bearer_token")):
        fields["auth"] = {"type": "bearer", "token": old["bearer_token"]}
    if not is_empty(old.get("agent_id")):
        fields["target"] = old["agent_id"]
    if old.get("poll_interval_ms") is not None:
        fields["options"] = {"poll_interval_ms": old["poll_interval_ms"]}
    return fields


def _write(body: Body) -> None:
    effort = body["reasoning_effort"]
    if isinstance(effort, dict):
        body["reasoning_effort"] = effort["budget"]
    for name in _TOOL_LISTS:
        tools = body[name]
        if tools is not None:
            body[name] = [it for it in tools if not _is_glob(it)]
            tools = [it for it in tools if _is_glob(it)]
        body[_PATTERNS[name]] = tools
    body["backend"] = {"kind": "awaken"}
    if body["endpoint"] is not None:
        body["endpoint"] = _show_endpoint(body["endpoint"])


def _show_endpoint(endpoint: Body) -> Body:
    shown = {name: it for name, it in endpoint.items() if name != "auth"}
    shown["has_auth"] = bool(endpoint.get("auth"))
    if env := endpoint.get("options", {}).get("env"):
        shown["options"] = {name: it for name, it in shown["options"].items() if name != "env"}
        shown |= {"has_env": True, "env_keys": sorted(env)}
        if not shown["options"]:
            del shown["options"]
    return shown


def _check(spec: AgentSpec, problems: Problems) -> None:
    if spec.registry is not None:
        problems.add("registry", "unsupported_field", "The field 'registry' must be empty here.")
    include = find_rulesets(spec)
    if include is None:
        path = "sections/permission/include"
        problems.add(path, "invalid", "Write the ids of rulesets as a list of texts.")


def find_rulesets(spec: AgentSpec) -> list[str] | None:
    """The rulesets that an agent includes; None if the field is malformed."""
    section = spec.sections.get("permission")
    found = section.get("include", []) if isinstance(section, dict) else []
    is_list = isinstance(found, list) and all(isinstance(it, str) for it in found)
    return found if is_list else None


def find_servers(spec: AgentSpec) -> list[str]:
    """The MCP servers that an agent names."""
    section = spec.sections.get("mcp")
    found = section.get("servers") if isinstance(section, dict) else None
    return [it for it in found if isinstance(it, str)] if isinstance(found, list) else []


def list_references(spec: AgentSpec) -> Iterable[tuple[str, str, str]]:
    """What an agent names; its model may be a model, a pool, or `provider:model`."""
    if spec.model_id:
        yield "model_id", "models", spec.model_id
        yield "model_id", "model-pools", spec.model_id
        yield "model_id", "providers", spec.model_id.partition(":")[0]
    for at, name in enumerate(spec.delegates):
        source, has_source, _ = name.partition("/")
        path = f"delegates/{at}"
        yield (path, "a2a-servers", source) if has_source else (path, "agents", name)
    for at, name in enumerate(find_rulesets(spec) or ()):
        yield f"sections/permission/include/{at}", "rulesets", name
    for at, name in enumerate(find_servers(spec)):
        yield f"sections/mcp/servers/{at}", "mcp-servers", name


AGENTS = WireForm(
    name="agents",
    spec=AgentSpec,
    read=_read,
    write=_write,
    check=_check,
    references=list_references,
    properties={
        "reasoning_effort": {
            "anyOf": [
                {"enum": ["none", "low", "medium", "high", "max"]},
                {"type": "integer"},
                {
                    "type": "object",
                    "properties": {"budget": {"type": "integer"}},
                    "required": ["budget"],
                    "additionalProperties": False,
                },
                {"type": "null"},
            ]
        },
        "allowed_tool_patterns": _TEXTS,
        "excluded_tool_patterns": _TEXTS,
        "active_plugins": {**_TEXTS, "writeOnly": True, "deprecated": True},
        "backend": {
            "type": ["object", "null"],
            "properties": {"kind": {"const": "awaken"}, "config": {"type": "object"}},
        },
        "endpoint": {
            "type": ["object", "null"],
            "properties": {
                "backend": {"type": "string"},
                "base_url": {"type": "string"},
                "auth": {"type": ["object", "null"], "writeOnly": True},
                "target": {"type": ["string", "null"]},
                "timeout_ms": {"type": "integer"},
                "options": {"type": "object"},
                "has_auth": READ_ONLY_BOOL,
                "has_env": READ_ONLY_BOOL,
                "env_keys": READ_ONLY_TEXTS,
                "bearer_token": {"type": ["string", "null"], "writeOnly": True},
                "agent_id": {"type": ["string", "null"], "writeOnly": True},
                "poll_interval_ms": {"type": ["integer", "null"], "writeOnly": True},
            },
            "required": ["base_url"],
            "additionalProperties": False,
        },
    },
    secrets=("endpoint/auth/!type", "endpoint/options/env/*"),
    patchable=frozenset(
        {
            "model_id", "system_prompt", "description", "max_rounds", "max_continuation_retries",
            "context_policy", "reasoning_effort", "plugin_ids", "active_hook_filter",
            "allowed_tools", "excluded_tools", "stop_conditions", "budgets", "parallel_tools",
            "frontend_tools_may_replace", "endpoint", "delegates", "sections",
        }
    ),
)  # fmt: skip
