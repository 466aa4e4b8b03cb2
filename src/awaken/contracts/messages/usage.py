"""Token usage of model calls."""

from awaken.contracts.record import Record


class TokenUsage(Record, frozen=True, kw_only=True):
    """Tokens of one call or of several; absent means that the provider did not report it."""

    prompt_tokens: int | None = None
    """All tokens of the request, those read from and written to a cache among them."""
    completion_tokens: int | None = None
    total_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_creation_tokens: int | None = None
    thinking_tokens: int | None = None
    """Part of the completion tokens."""
    cost_nanos: int | None = None
    """Billionths of a US dollar; absent when the price is not known."""

    @property
    def cost_usd(self) -> float | None:
        """The cost in US dollars, or None if the price is not known."""
        return None if self.cost_nanos is None else self.cost_nanos / 1e9

    def plus(self, other: "TokenUsage | None") -> "TokenUsage":
        """Add two counts field by field; negative counts add nothing."""
        if other is None:
            return self
        return TokenUsage(
            prompt_tokens=_sum(self.prompt_tokens, other.prompt_tokens),
            completion_tokens=_sum(self.completion_tokens, other.completion_tokens),
            total_tokens=_sum(self.total_tokens, other.total_tokens),
            cache_read_tokens=_sum(self.cache_read_tokens, other.cache_read_tokens),
            cache_creation_tokens=_sum(self.cache_creation_tokens, other.cache_creation_tokens),
            thinking_tokens=_sum(self.thinking_tokens, other.thinking_tokens),
            cost_nanos=_sum(self.cost_nanos, other.cost_nanos),
        )


def _sum(left: int | None, right: int | None) -> int | None:
    if right is None or right < 0:
        return left
    return right + (left or 0)
