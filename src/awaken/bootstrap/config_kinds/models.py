"""The kinds `models`, `model-pools` and `providers`."""

import math
from collections.abc import Iterable
from typing import Any

from awaken.bootstrap.known_providers import ADAPTERS, KNOWN_PROVIDERS
from awaken.contracts.models.model_specs import ModelPool, ModelSpec, ProviderSpec

from .problems import Problems
from .wire_forms import Body, WireForm
from .wire_schemas import READ_ONLY_BOOL, READ_ONLY_TEXT, SECRET, SECRETS

_PRICES = {
    "input": "input_token_price_per_million_usd",
    "output": "output_token_price_per_million_usd",
    "cache_read": "cache_read_token_price_per_million_usd",
    "cache_write": "cache_write_token_price_per_million_usd",
}
_ADAPTER_NAMES = {"openai_chat": "openai", "openai_responses": "openai_resp"}
"""Our adapters that have another name over HTTP."""
_ALIASES = {
    "openai": "openai_chat",
    "openai-chat": "openai_chat",
    "openai_resp": "openai_responses",
    "openai-resp": "openai_responses",
    "responses": "openai_responses",
    "google": "gemini",
}
_VENDORS = ("deepseek", "groq", "xai", "together", "fireworks", "ollama")
"""Adapters of Awaken for Rust that are known vendors here."""
_NEED_ADDRESS = ("cohere", "zai", "bigmodel", "aliyun", "mimo", "nebius")
"""Adapters of Awaken for Rust that speak OpenAI's chat format at an address of their own."""
SUPPORTED_ADAPTERS = tuple(sorted({*ADAPTERS, *_ALIASES, *_VENDORS, *_NEED_ADDRESS}))


def _read_model(body: Body, problems: Problems) -> None:
    prices = {
        name: price for name, wire in _PRICES.items() if (price := body.pop(wire, None)) is not None
    }
    if prices:
        if "prices" in body:
            problems.add("prices", "invalid", "Write the prices in one form, not in two.")
        missing = [it for it in ("input", "output") if it not in prices]
        for name in missing:
            problems.add(f"prices/{name}", "missing", "Prices need both input and output.")
        if not missing:
            body["prices"] = prices
    modalities = body.get("modalities")
    if isinstance(modalities, dict):
        # An empty list says nothing; each model reads and writes something.
        body["modalities"] = {
            name: _rename_modalities(values, "pdf", "document")
            for name, values in modalities.items()
            if values != []
        }


def _write_model(body: Body) -> None:
    prices = body.pop("prices") or {}
    for name, wire in _PRICES.items():
        body[wire] = prices.get(name)
    modalities = {"input": ["text"], "output": ["text"], **body["modalities"]}
    body["modalities"] = {
        name: _rename_modalities(values, "document", "pdf") for name, values in modalities.items()
    }


def _rename_modalities(values: Any, old: str, new: str) -> Any:
    if not isinstance(values, list):
        return values
    return [new if it == old else it for it in values]


def _list_model_references(spec: ModelSpec) -> Iterable[tuple[str, str, str]]:
    yield "provider_id", "providers", spec.provider_id


def _list_pool_references(spec: ModelPool) -> Iterable[tuple[str, str, str]]:
    for at, member in enumerate(spec.members):
        yield f"members/{at}/model_id", "models", member.model_id
        yield f"members/{at}/model_id", "providers", member.model_id.partition(":")[0]


def read_seconds(body: Body, wire: str, stored: str, problems: Problems) -> None:
    """Replace a time in seconds by whole milliseconds."""
    if wire not in body:
        return
    seconds = body.pop(wire)
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if seconds is None:
        return
    if not is_number or not math.isfinite(seconds) or not 0.001 <= seconds <= 86_400:
        problems.add(wire, "invalid", "Write a number of seconds from 0.001 to 86400.")
        return
    if stored in body:
        problems.add(stored, "unknown_field", f"Write {wire} instead.")
    body[stored] = round(seconds * 1000)


def show_seconds(body: Body, stored: str, wire: str) -> None:
    """Replace milliseconds by a time in seconds."""
    ms = body.pop(stored)
    body[wire] = ms // 1000 if ms % 1000 == 0 else ms / 1000


def _read_provider(body: Body, problems: Problems) -> None:
    read_seconds(body, "timeout_secs", "timeout_ms", problems)
    if body.get("base_url") == "":
        del body["base_url"]
    adapter = body.get("adapter")
    if not isinstance(adapter, str):
        return
    if adapter in _VENDORS:
        known = KNOWN_PROVIDERS[adapter]
        body["adapter"] = known.adapter
        if body.get("base_url") is None:
            body["base_url"] = known.base_url
        options = body.get("adapter_options")
        if options is None or isinstance(options, dict):
            body["adapter_options"] = {**known.options, **(options or {})}
    elif adapter in _NEED_ADDRESS:
        body["adapter"] = "openai_chat"
        if body.get("base_url") is None:
            problems.add("base_url", "missing", f"The adapter '{adapter}' needs a base_url.")
    else:
        body["adapter"] = _ALIASES.get(adapter, adapter)


def _write_provider(body: Body) -> None:
    show_seconds(body, "timeout_ms", "timeout_secs")
    secret = body.pop("api_key")
    body["has_api_key"] = secret is not None
    if secret is not None and ":" in secret["$secret"]:
        # The text of a key that is given in code has no reference.
        body["api_key_ref"] = secret["$secret"]
    options = dict(body["adapter_options"])
    if headers := options.pop("headers", None):
        body["adapter_options"] = options
        body |= {"has_headers": True, "header_keys": sorted(headers)}
    body["adapter"] = _show_adapter(body)


def _show_adapter(body: Body) -> str:
    for name in _VENDORS:
        known = KNOWN_PROVIDERS[name]
        is_vendor = (body["adapter"], body["base_url"]) == (known.adapter, known.base_url)
        if is_vendor and known.options.items() <= body["adapter_options"].items():
            return name
    adapter: str = body["adapter"]
    return _ADAPTER_NAMES.get(adapter, adapter)


def _check_provider(spec: ProviderSpec, problems: Problems) -> None:
    if spec.adapter not in ADAPTERS:
        message = f"There is no adapter '{spec.adapter[:80]}'."
        problems.add("adapter", "unknown_adapter", message, SUPPORTED_ADAPTERS)


MODELS = WireForm(
    name="models",
    spec=ModelSpec,
    read=_read_model,
    write=_write_model,
    references=_list_model_references,
    names={f"prices/{name}": wire for name, wire in _PRICES.items()},
    properties={
        "prices": None,
        **{wire: {"type": ["number", "null"], "minimum": 0} for wire in _PRICES.values()},
        "modalities": {
            "type": "object",
            "properties": {
                name: {
                    "type": "array",
                    "items": {"enum": ["text", "image", "audio", "video", "pdf", "document"]},
                }
                for name in ("input", "output")
            },
            "additionalProperties": False,
        },
    },
)
MODEL_POOLS = WireForm(
    name="model-pools", spec=ModelPool, references=_list_pool_references, rust_only=("switch",)
)
PROVIDERS = WireForm(
    name="providers",
    spec=ProviderSpec,
    read=_read_provider,
    write=_write_provider,
    check=_check_provider,
    names={"timeout_ms": "timeout_secs"},
    properties={
        "timeout_ms": None,
        "timeout_secs": {"type": "number", "exclusiveMinimum": 0, "default": 300},
        "adapter": {"type": "string", "examples": list(SUPPORTED_ADAPTERS)},
        "adapter_options": {"type": "object", "properties": {"headers": SECRETS}},
        "api_key": SECRET,
        "api_key_ref": READ_ONLY_TEXT,
        "has_api_key": READ_ONLY_BOOL,
        "has_headers": READ_ONLY_BOOL,
        "header_keys": {"type": "array", "items": {"type": "string"}, "readOnly": True},
    },
    shown_only=("has_api_key", "api_key_ref", "has_headers", "header_keys"),
    secrets=("api_key", "adapter_options/headers/*"),
)
