"""Usage by day: what ended runs have used, summed by agent, model and tenant."""

from awaken.contracts.record import Record

DAY_MS = 24 * 60 * 60 * 1000
SETTLE_MS = 30_000
"""How long after its end a run is counted: until then, runs that ended earlier may be committed."""


class UsageSums(Record, frozen=True, kw_only=True):
    """What a number of runs have used."""

    runs: int = 0
    """The ended runs; a run with several models counts for the one that it called last."""
    errors: int = 0
    """Those of them that ended with an error."""
    input_tokens: int = 0
    """All tokens of requests, those read from and written to a cache among them."""
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_creation_tokens: int = 0
    cost_nanos: int | None = None
    """Billionths of a US dollar, of the calls whose price is known; None if no price is."""

    def plus(self, other: "UsageSums") -> "UsageSums":
        """Add two sums."""
        nanos = None
        if self.cost_nanos is not None or other.cost_nanos is not None:
            nanos = (self.cost_nanos or 0) + (other.cost_nanos or 0)
        return UsageSums(
            runs=self.runs + other.runs,
            errors=self.errors + other.errors,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cache_read_tokens=self.cache_read_tokens + other.cache_read_tokens,
            cache_creation_tokens=self.cache_creation_tokens + other.cache_creation_tokens,
            cost_nanos=nanos,
        )


class UsageKey(Record, frozen=True, kw_only=True):
    """What usage is summed by."""

    day: int
    """The day in UTC on which the runs ended, counted from the epoch."""
    agent_id: str
    model: str
    """The upstream name of the model; empty for usage that no call reported."""
    tenant_id: str | None = None


class UsageDay(Record, frozen=True, kw_only=True):
    """The usage of one day, agent, model and tenant."""

    key: UsageKey
    sums: UsageSums
