"""How Chat Completions counts tokens."""

import msgspec

from awaken.contracts.models.inference import TokenUsage
from awaken.providers.http.counts import Count, make_usage_reader


class _PromptDetails(msgspec.Struct):
    cached_tokens: Count | None = None
    cache_write_tokens: Count | None = None


class _CompletionDetails(msgspec.Struct):
    reasoning_tokens: Count | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: Count | None = None
    completion_tokens: Count | None = None
    total_tokens: Count | None = None
    prompt_tokens_details: _PromptDetails | None = None
    completion_tokens_details: _CompletionDetails | None = None


_read = make_usage_reader(_Usage)


def tokens_of(raw: msgspec.Raw) -> TokenUsage | None:
    """Return the counts in the runtime's form, or None if there are none."""
    usage = _read(raw)
    if usage is None:
        return None
    prompt, completion = usage.prompt_tokens, usage.completion_tokens
    read = usage.prompt_tokens_details or _PromptDetails()
    thought = (usage.completion_tokens_details or _CompletionDetails()).reasoning_tokens
    if thought and (prompt or 0) + (completion or 0) + thought == usage.total_tokens:
        # xAI does not count reasoning as completion.
        completion = (completion or 0) + thought
    return TokenUsage(
        prompt_tokens=prompt,
        completion_tokens=completion,
        total_tokens=usage.total_tokens,
        cache_read_tokens=read.cached_tokens,
        cache_creation_tokens=read.cache_write_tokens,
        thinking_tokens=thought,
    )
