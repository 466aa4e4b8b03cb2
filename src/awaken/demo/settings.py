"""What the environment says about the demo.

`AGENT_ID`, `AGENT_MODEL`, `AGENT_MAX_ROUNDS`, `AGENT_SYSTEM_PROMPT` and `AGENT_REASONING_EFFORT`
shape its first agent, `MCP_SERVER_CMD` is a program whose tools it gets; `A2A_REMOTE_URL` (with
`A2A_BEARER_TOKEN`) adds an agent `a2a` that runs there; `AWAKEN_SEED_PROFILE=minimal` leaves all
but the first out. The model is scripted
until `OPENAI_API_KEY` or `OPENAI_BASE_URL` is set, or `AGENT_MODEL` names a provider. An address
is asked as `OPENAI_ADAPTER` says, by default the way that all compatible servers understand.
"""

import shlex
from collections.abc import Mapping
from typing import TypeVar
from urllib.parse import urlsplit

from awaken import InvalidInput, ProviderSpec, RedactedString
from awaken.bootstrap.known_providers import KNOWN_PROVIDERS
from awaken.models import Effort
from awaken.plugins import Record

T = TypeVar("T")

SCRIPTED = "scripted"
_TOKEN = "A2A_BEARER_TOKEN"
DEFAULT_MODEL = "gpt-5-mini"
_ADAPTERS = {
    "openai": "openai_chat",
    "openai_chat": "openai_chat",
    "openai_resp": "openai_responses",
    "openai_responses": "openai_responses",
}


class DemoSettings(Record, frozen=True, kw_only=True):
    """The demo's first agent, and whether there are more."""

    agent_id: str = "default"
    model: str = SCRIPTED
    max_rounds: int = 8
    prompt: str = "You are a helpful assistant."
    effort: Effort | None = None
    is_minimal: bool = False
    mcp_command: tuple[str, ...] = ()
    a2a_url: str | None = None
    a2a_token: RedactedString | None = None


def demo_settings(environment: Mapping[str, str]) -> DemoSettings:
    """The settings, each as a variable says or as usual.

    Raises:
        InvalidInput: A variable is malformed; names it.
    """
    usual = DemoSettings()
    effort = _chosen(environment, "AGENT_REASONING_EFFORT", {it.value: it for it in Effort})
    profile = _chosen(environment, "AWAKEN_SEED_PROFILE", {"minimal": "minimal", "demo": "demo"})
    return DemoSettings(
        agent_id=_text(environment, "AGENT_ID") or usual.agent_id,
        model=_model(environment),
        max_rounds=_rounds(environment, usual.max_rounds),
        prompt=_text(environment, "AGENT_SYSTEM_PROMPT") or usual.prompt,
        effort=effort,
        is_minimal=profile == "minimal",
        mcp_command=_command(environment, "MCP_SERVER_CMD"),
        a2a_url=_address(environment, "A2A_REMOTE_URL"),
        a2a_token=RedactedString(token) if (token := _text(environment, _TOKEN)) else None,
    )


def demo_providers(environment: Mapping[str, str]) -> dict[str, ProviderSpec]:
    """The vendor that the environment moves to another address or format.

    Raises:
        InvalidInput: A variable is malformed; names it.
    """
    base_url = _address(environment, "OPENAI_BASE_URL")
    adapter = _chosen(environment, "OPENAI_ADAPTER", _ADAPTERS)
    if not base_url and adapter is None:
        return {}
    spec = ProviderSpec(id="openai", adapter=adapter or "openai_chat", base_url=base_url)
    return {"openai": spec}


def _model(environment: Mapping[str, str]) -> str:
    model = _text(environment, "AGENT_MODEL")
    provider, colon, _ = model.partition(":")
    if colon and provider not in KNOWN_PROVIDERS:
        known = ", ".join(sorted(KNOWN_PROVIDERS))
        problem = f"there is no provider '{provider}'; known: {known}"
        raise InvalidInput(what="AGENT_MODEL", problem=problem)
    if colon:
        return model
    has_key = any(_text(environment, name) for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"))
    return f"openai:{model or DEFAULT_MODEL}" if has_key else SCRIPTED


def _rounds(environment: Mapping[str, str], usual: int) -> int:
    text = _text(environment, "AGENT_MAX_ROUNDS")
    if text and not (text.isascii() and text.isdecimal() and 0 < int(text) <= 10_000):
        raise InvalidInput(what="AGENT_MAX_ROUNDS", problem=f"'{text}' is no number from 1 on")
    return int(text) if text else usual


def _chosen(environment: Mapping[str, str], name: str, choices: Mapping[str, T]) -> T | None:
    text = _text(environment, name).lower()
    if text and text not in choices:
        problem = f"'{text}' is none of {', '.join(choices)}"
        raise InvalidInput(what=name, problem=problem)
    return choices.get(text)


def _command(environment: Mapping[str, str], name: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(_text(environment, name)))
    except ValueError as error:
        raise InvalidInput(what=name, problem=f"it is no command: {error}") from error


def _address(environment: Mapping[str, str], name: str) -> str | None:
    text = _text(environment, name)
    if text and not _is_address(text):
        raise InvalidInput(what=name, problem="it is no http:// or https:// address")
    return text or None


def _text(environment: Mapping[str, str], name: str) -> str:
    return environment.get(name, "").strip()


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        return False
