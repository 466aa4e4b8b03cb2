"""How the Anthropic Messages format counts tokens."""

import msgspec

from awaken.contracts.models.inference import TokenUsage
from awaken.providers.http.counts import Count, make_usage_reader


class AnthropicDetails(msgspec.Struct, gc=False):
    """The details of the output tokens."""

    thinking_tokens: Count | None = None


class Usage(msgspec.Struct, gc=False):
    """Tokens from the start of the answer; cached input is counted separately."""

    input_tokens: Count | None = None
    output_tokens: Count | None = None
    cache_read_input_tokens: Count | None = None
    cache_creation_input_tokens: Count | None = None
    output_tokens_details: AnthropicDetails | None = None


_read = make_usage_reader(Usage)


def merge_usage(known: Usage, report: msgspec.Raw) -> Usage:
    """Merge a report into the known counts; counts that it does not repeat stay."""
    newer = _read(report)
    if newer is None:
        return known
    names = newer.__struct_fields__
    # Counts from the start of the answer never decrease: a later zero is ignored.
    counts = {it: count for it in names if (count := getattr(newer, it)) or not getattr(known, it)}
    return msgspec.structs.replace(known, **counts)


def convert_usage(usage: Usage) -> TokenUsage:
    """Convert the counts to the runtime's form: all input tokens are the prompt."""
    read, written = usage.cache_read_input_tokens, usage.cache_creation_input_tokens
    prompt, completion = usage.input_tokens, usage.output_tokens
    if prompt is not None:
        prompt += (read or 0) + (written or 0)
    details = usage.output_tokens_details
    return TokenUsage(
        prompt_tokens=prompt,
        completion_tokens=completion,
        total_tokens=None if prompt is None or completion is None else prompt + completion,
        cache_read_tokens=read,
        cache_creation_tokens=written,
        thinking_tokens=details.thinking_tokens if details is not None else None,
    )
