"""The known wire formats and vendors, as data; nothing is imported for it."""

from collections.abc import Mapping
from typing import Any

import msgspec

from awaken.contracts.record import Record


class ProviderAdapter(Record, frozen=True, kw_only=True):
    """A wire format: the class that implements it, and the extra that it needs."""

    class_name: str
    module: str
    is_codec: bool = True
    """Whether it is a codec of the HTTP client, or a client of its own."""
    has_pool: bool = True
    """Whether a client of its own uses the connections of the runtime."""
    keys: tuple[str, ...] = ()
    """The environment variables in which its vendor looks for the key."""
    extra: str | None = None
    """The extra that it needs, at least for some uses."""
    requires: str | None = None
    """The module that the extra brings."""
    settings: Mapping[str, tuple[str, ...]] = {}
    """Required adapter options, and the environment variables that can replace them."""


_OPENAI_KEYS = ("OPENAI_API_KEY",)
_ANTHROPIC_KEYS = ("ANTHROPIC_API_KEY",)
_GOOGLE_KEYS = ("GOOGLE_API_KEY", "GEMINI_API_KEY")
_BEDROCK_KEYS = ("AWS_BEARER_TOKEN_BEDROCK",)

ADAPTERS: Mapping[str, ProviderAdapter] = {
    "openai_chat": ProviderAdapter(
        class_name="OpenAiChatCodec", module="openai_chat.codec", keys=_OPENAI_KEYS
    ),
    "openai_responses": ProviderAdapter(
        class_name="OpenAiResponsesCodec", module="openai_responses.codec", keys=_OPENAI_KEYS
    ),
    "anthropic": ProviderAdapter(
        class_name="AnthropicCodec", module="anthropic.codec", keys=_ANTHROPIC_KEYS
    ),
    "gemini": ProviderAdapter(class_name="GeminiCodec", module="gemini.codec", keys=_GOOGLE_KEYS),
    "bedrock": ProviderAdapter(
        class_name="BedrockClient",
        module="bedrock.client",
        is_codec=False,
        keys=_BEDROCK_KEYS,
        extra="bedrock",
        requires="botocore",
        settings={"region": ("AWS_REGION", "AWS_DEFAULT_REGION")},
    ),
    "bridge": ProviderAdapter(
        class_name="BridgeClient",
        module="bridge.client",
        is_codec=False,
        has_pool=False,
        extra="providers",
        requires="pydantic_ai",
    ),
}


class KnownProvider(Record, frozen=True, kw_only=True):
    """A vendor that needs no configuration except its key."""

    adapter: str
    base_url: str | None = None
    keys: tuple[str, ...] = ()
    """The environment variables with the key, best first."""
    needs_key: bool = True
    options: dict[str, Any] = msgspec.field(default_factory=dict)


def _chat(base_url: str, *keys: str, needs_key: bool = True, **options: Any) -> KnownProvider:
    return KnownProvider(
        adapter="openai_chat", base_url=base_url, keys=keys, needs_key=needs_key, options=options
    )


_OPENAI = "https://api.openai.com/v1"
_OLD_LIMIT: dict[str, Any] = {"max_tokens_field": "max_tokens"}
"""Most servers know the output limit only by its older name."""

KNOWN_PROVIDERS: Mapping[str, KnownProvider] = {
    "openai": KnownProvider(adapter="openai_responses", base_url=_OPENAI, keys=_OPENAI_KEYS),
    "openai-chat": _chat(_OPENAI, *_OPENAI_KEYS),
    "anthropic": KnownProvider(
        adapter="anthropic", base_url="https://api.anthropic.com", keys=_ANTHROPIC_KEYS
    ),
    "google": KnownProvider(
        adapter="gemini",
        base_url="https://generativelanguage.googleapis.com",
        keys=_GOOGLE_KEYS,
    ),
    "deepseek": _chat(
        "https://api.deepseek.com/v1", "DEEPSEEK_API_KEY", send_reasoning=True, **_OLD_LIMIT
    ),
    "groq": _chat("https://api.groq.com/openai/v1", "GROQ_API_KEY"),
    "xai": _chat("https://api.x.ai/v1", "XAI_API_KEY"),
    "openrouter": _chat(
        "https://openrouter.ai/api/v1",
        "OPENROUTER_API_KEY",
        send_reasoning_details=True,
        **_OLD_LIMIT,
    ),
    "mistral": _chat(
        "https://api.mistral.ai/v1",
        "MISTRAL_API_KEY",
        has_stream_options=False,
        call_id_chars=9,
        **_OLD_LIMIT,
    ),
    "together": _chat("https://api.together.xyz/v1", "TOGETHER_API_KEY", **_OLD_LIMIT),
    "fireworks": _chat("https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY", **_OLD_LIMIT),
    "ollama": _chat("http://127.0.0.1:11434/v1", "OLLAMA_API_KEY", needs_key=False, **_OLD_LIMIT),
    "vllm": _chat("http://127.0.0.1:8000/v1", "VLLM_API_KEY", needs_key=False, **_OLD_LIMIT),
    "bedrock": KnownProvider(adapter="bedrock", keys=_BEDROCK_KEYS, needs_key=False),
    "bridge": KnownProvider(adapter="bridge", needs_key=False),
}
"""Every provider that an agent may name without configuration: `model="openai:gpt-5-mini"`."""
