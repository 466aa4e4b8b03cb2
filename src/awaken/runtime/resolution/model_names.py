"""Guesses which model a name means that names no known provider: for `did you mean …?`.

A guess is only shown, and nothing is ever asked of a guessed model.
"""

from collections.abc import Iterable

_VENDORS = (
    ("gpt-", "openai"), ("chatgpt-", "openai"), ("o1", "openai"), ("o3", "openai"),
    ("o4", "openai"), ("claude", "anthropic"), ("gemini", "google"), ("gemma", "ollama"),
    ("deepseek", "deepseek"), ("grok", "xai"), ("mistral", "mistral"), ("magistral", "mistral"),
    ("codestral", "mistral"), ("ministral", "mistral"), ("pixtral", "mistral"),
    ("llama", "ollama"), ("qwen", "ollama"), ("phi", "ollama"),
)  # fmt: skip
"""How the names of models begin, and where such a model is most often asked."""
_OTHER_NAMES = {
    "openai-responses": "openai",
    "openai_responses": "openai",
    "azure": "openai",
    "claude": "anthropic",
    "gemini": "google",
    "google-gla": "google",
    "google-vertex": "google",
    "google_genai": "google",
    "google_vertexai": "google",
    "vertexai": "google",
    "grok": "xai",
    "x-ai": "xai",
    "aws": "bedrock",
    "bedrock_converse": "bedrock",
    "mistralai": "mistral",
    "together_ai": "together",
    "fireworks_ai": "fireworks",
}
"""Names that other libraries have for the same providers."""


def suggest_model(model_id: str, providers: Iterable[str], models: Iterable[str] = ()) -> str:
    """The name that was probably meant; empty if nothing is near.

    Args:
        model_id: What was written: `gpt-5-mini`, `openai/gpt-5-mini`, `opnai:gpt-5-mini`.
        providers: The known providers.
        models: The names of known models and pools.
    """
    # Only a mistake needs it.
    from difflib import get_close_matches  # noqa: PLC0415

    known, text = set(providers), model_id.strip()
    mark = ":" if ":" in text else "/"
    provider, found, model = text.partition(mark)
    if found and model.strip():
        wanted = provider.strip().lower()
        meant = wanted if wanted in known else _OTHER_NAMES.get(wanted, "")
        near = [meant] if meant in known else get_close_matches(wanted, known, n=1)
        return f"{near[0]}:{model.strip()}" if near else ""
    if near := get_close_matches(text, tuple(models), n=1):
        return near[0]
    for start, vendor in _VENDORS:
        if text.lower().startswith(start) and vendor in known:
            return f"{vendor}:{text}"
    near = get_close_matches(text.lower(), known, n=1, cutoff=0.8)
    return f"{near[0]}:MODEL" if near and near[0] != "scripted" else "".join(near)
