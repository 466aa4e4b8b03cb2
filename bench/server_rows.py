"""Which servers are measured, how each is started, and how a run is asked of it."""

from __future__ import annotations

import json
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import trees
from frameworks import BASE, BEFORE, HERE, OWN, Framework

Ask = tuple[str, dict[str, object] | str]  # (path, JSON body or form)


@dataclass(frozen=True, slots=True)
class Row:
    """One server of the tables."""

    name: str
    framework: Framework  # its Python and its variables
    command: tuple[str, ...]  # what its Python is told; {port} is filled in
    ask: Callable[[int], Ask]  # what is posted to the server at a port to get a streamed run
    live: str | None = None  # the path that says that the process lives


def awaken(port: int) -> Ask:
    return "/v1/runs", {"agent_id": "bench", "messages": [{"role": "user", "content": "hello"}]}


def plain(port: int) -> Ask:
    return "/", {"input": "hello"}


def agno(port: int) -> Ask:
    return "/agents/bench/runs", "message=hello&stream=true"


def ag_ui(port: int) -> Ask:
    message = {"id": uuid.uuid4().hex, "role": "user", "content": "hello"}
    ids = {"threadId": uuid.uuid4().hex, "runId": uuid.uuid4().hex}
    given = {"state": {}, "tools": [], "context": [], "forwardedProps": {}}
    return "/", {**ids, **given, "messages": [message]}


def devui(port: int) -> Ask:
    entity = _devui_entity(port)
    body = {"model": entity, "input": "hello", "stream": True, "metadata": {"entity_id": entity}}
    return "/v1/responses", body


@cache
def _devui_entity(port: int) -> str:
    """Its ids are made at the start."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/entities", timeout=5) as reply:
        return json.load(reply)["entities"][0]["id"]


def adk(port: int) -> Ask:
    ids = {"app_name": "bench", "user_id": "u", "session_id": uuid.uuid4().hex}
    message = {"role": "user", "parts": [{"text": "hello"}]}
    return "/run_sse", {**ids, "streaming": True, "new_message": message}


def langgraph(port: int) -> Ask:
    given = {"messages": [{"role": "user", "content": "hello"}]}
    body = {"assistant_id": "bench", "input": given, "stream_mode": ["messages-tuple"]}
    return "/runs/stream", body


def _app(name: str, module: str, venv: str, ask: Callable[[int], Ask], **env: str) -> Row:
    """A module of servers/ that is started with a port."""
    framework = Framework(name, module, venv, (), env=env)
    return Row(name, framework, ("-m", f"servers.{module}", "{port}"), ask)


def _awaken(name: str, tree: Path | None = None, **env: str) -> Row:
    framework = Framework(name, "awaken_", OWN, (), env=env, tree=tree)
    place = str(HERE / "servers" / "awaken_.py")
    command = ("-m", "awaken", "serve", place, "--port", "{port}")
    return Row(name, framework, command, awaken, "/health/live")


def _langgraph(name: str, *options: str) -> Row:
    env = {"LANGSMITH_TRACING": "false", "LANGGRAPH_CLI_NO_ANALYTICS": "1"}
    framework = Framework(name, "langgraph_", "langgraph", (), env=env)
    command = ("-m", "servers.langgraph_", "{port}", *options)
    return Row(name, framework, command, langgraph)


def _before() -> Iterator[Row]:
    """The version before, where `BEFORE` names its checkout."""
    if tree := trees.before():
        yield _awaken(BEFORE, tree)
        yield _awaken(f"{BEFORE}+sqlite", tree, DB="1")


US = "awaken"
STORED = f"{US}+sqlite"
BASELINE = "plain"
ROWS = {
    row.name: row
    for row in (
        *_before(),
        _app("plain(h11)", "plain", BASE, plain),
        _app("plain", "plain", BASE, plain, FAST="1"),
        _awaken(US),
        _app("awaken(h11)", "awaken_", OWN, awaken),
        _awaken(STORED, DB="1"),
        _app("agno AgentOS", "agno_", "agno", agno, AGNO_TELEMETRY="false"),
        _app("agno AgentOS+sqlite", "agno_", "agno", agno, AGNO_TELEMETRY="false", DB="1"),
        _app("agent-framework AG-UI", "maf", "maf", ag_ui),
        _app("agent-framework devui", "maf_devui", "maf", devui),
        _app("pydantic-ai AG-UI", "pydantic_ai_", "pydantic_ai", ag_ui),
        _app("google-adk api_server", "adk", "adk", adk, LITELLM_LOCAL_MODEL_COST_MAP="True"),
        _langgraph("langgraph dev"),
        _langgraph("langgraph dev(jobs=1000)", "--n-jobs-per-worker", "1000"),
    )
}
SHEDDING = _awaken("awaken(streams<=100), paced", STREAMS="100")
"""Ours with a limit that overload reaches; the default is 10,000 streams."""


def select(only: str | None) -> tuple[list[Row], dict[str, str]]:
    """What to measure, and the rest as name -> reason. `only` is a comma-separated list."""
    names = [name.strip() for name in only.split(",")] if only else list(ROWS)
    for name in names:
        if name not in ROWS:
            raise SystemExit(f"unknown server {name!r}; known: {', '.join(ROWS)}")
    missing = {name: ROWS[name].framework.missing() for name in names}
    skipped = {name: reason for name, reason in missing.items() if reason}
    return [ROWS[name] for name in names if name not in skipped], skipped
