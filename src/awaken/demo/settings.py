"""The settings of the demo, read from environment variables.

`AGENT_ID`, `AGENT_MODEL`, `AGENT_MAX_ROUNDS`, `AGENT_SYSTEM_PROMPT` and `AGENT_REASONING_EFFORT`
configure its first agent, `MCP_SERVER_CMD` is a program whose tools it gets; `A2A_REMOTE_URL` (with
`A2A_BEARER_TOKEN`) adds an agent `a2a` that runs there; `AWAKEN_SEED_PROFILE=minimal` omits all
agents but the first. The model is scripted until `OPENAI_API_KEY` or `OPENAI_BASE_URL` is set, or
`AGENT_MODEL` names a provider. `OPENAI_ADAPTER` selects the API format; the default is chat.
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
    """The settings of the demo's first agent, and of the optional ones."""

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
    """Read the settings; a variable that is not set gives the default.

    Raises:
        InvalidInput: A variable is malformed; names it.
    """
    usual = DemoSettings()
    effort = _read_choice(environment, "AGENT_REASONING_EFFORT", {it.value: it for it in Effort})
    profile = _read_choice(
        environment, "AWAKEN_SEED_PROFILE", {"minimal": "minimal", "demo": "demo"}
    )
    return DemoSettings(
        agent_id=_read_text(environment, "AGENT_ID") or usual.agent_id,
        model=_choose_model(environment),
        max_rounds=_read_rounds(environment, usual.max_rounds),
        prompt=_read_text(environment, "AGENT_SYSTEM_PROMPT") or usual.prompt,
        effort=effort,
        is_minimal=profile == "minimal",
        mcp_command=_read_command(environment, "MCP_SERVER_CMD"),
        a2a_url=_read_address(environment, "A2A_REMOTE_URL"),
        a2a_token=RedactedString(token) if (token := _read_text(environment, _TOKEN)) else None,
    )


def demo_providers(environment: Mapping[str, str]) -> dict[str, ProviderSpec]:
    """The OpenAI provider, if the environment sets its URL or API format.

    Raises:
        InvalidInput: A variable is malformed; names it.
    """
    base_url = _read_address(environment, "OPENAI_BASE_URL")
    adapter = _read_choice(environment, "OPENAI_ADAPTER", _ADAPTERS)
    if not base_url and adapter is None:
        return {}
    spec = ProviderSpec(id="openai", adapter=adapter or "openai_chat", base_url=base_url)
    return {"openai": spec}


def _choose_model(environment: Mapping[str, str]) -> str:
    model = _read_text(environment, "AGENT_MODEL")
    provider, colon, _ = model.partition(":")
    if colon and provider not in KNOWN_PROVIDERS:
        known = ", ".join(sorted(KNOWN_PROVIDERS))
        problem = f"there is no provider '{provider}'; known: {known}"
        raise InvalidInput(what="AGENT_MODEL", problem=problem)
    if colon:
        return model
    has_key = any(_read_text(environment, name) for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"))
    return f"openai:{model or DEFAULT_MODEL}" if has_key else SCRIPTED


def _read_rounds(environment: Mapping[str, str], usual: int) -> int:
    text = _read_text(environment, "AGENT_MAX_ROUNDS")
    if text and not (text.isascii() and text.isdecimal() and 0 < int(text) <= 10_000):
        raise InvalidInput(what="AGENT_MAX_ROUNDS", problem=f"'{text}' is not from 1 to 10000")
    return int(text) if text else usual


def _read_choice(environment: Mapping[str, str], name: str, choices: Mapping[str, T]) -> T | None:
    text = _read_text(environment, name).lower()
    if text and text not in choices:
        problem = f"'{text}' is not one of {', '.join(choices)}"
        raise InvalidInput(what=name, problem=problem)
    return choices.get(text)


def _read_command(environment: Mapping[str, str], name: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(_read_text(environment, name)))
    except ValueError as error:
        raise InvalidInput(what=name, problem=f"it is not a command: {error}") from error


def _read_address(environment: Mapping[str, str], name: str) -> str | None:
    text = _read_text(environment, name)
    if text and not _is_address(text):
        raise InvalidInput(what=name, problem="it is not an http:// or https:// address")
    return text or None


def _read_text(environment: Mapping[str, str], name: str) -> str:
    return environment.get(name, "").strip()


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        return False
