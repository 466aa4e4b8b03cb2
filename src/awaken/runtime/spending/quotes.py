"""Estimates of what a call costs and of what budgets allow it. Nothing is changed here."""

from collections.abc import Sequence

from awaken.contracts.models.budgets import Allowance, Amount, BudgetExceeded
from awaken.contracts.models.inference import ContextWindowPolicy, InferenceRequest, TokenUsage
from awaken.contracts.models.model_specs import ModelSpec
from awaken.contracts.record import Record
from awaken.runtime.run import Run

from .prompt_size import PromptMeter, bound_prompt_tokens

USEFUL_TOKENS = 64
"""A call whose answer is limited to fewer tokens is not made."""
LONGEST_ANSWER = 131_072
"""No model answers with more tokens: a budget with more left need not limit an answer."""
_SAMPLE = 1_000_000


class QuoteRequest(Record, frozen=True, kw_only=True):
    """The estimated cost of a call."""

    model: str
    prompt: Amount
    wanted: int
    """How many tokens are reserved for the answer."""
    longest: int
    """How many tokens the answer can have: more than wanted if the model's limit is unknown."""
    output_nanos: int | None
    """The price of a million tokens of the answer; None when prices are not known."""
    is_first: bool = True
    """Whether the call begins an answer; soft budgets do not refuse a continuation."""

    def amount_to_reserve(self, output: int) -> Amount:
        """The amount to reserve if budgets leave room for an answer of this length."""
        return self.most(min(output, self.wanted))

    def most(self, output: int) -> Amount:
        """The cost with an answer of this length."""
        nanos = -(-output * (self.output_nanos or 0) // _SAMPLE)
        return self.prompt.plus(Amount(tokens=output, nanos=nanos))


class Quote(Record, frozen=True, kw_only=True):
    """What budgets allow a call."""

    output: int
    timeout_ms: int | None = None
    late: str = ""


def narrow_quote(allowances: Sequence[Allowance], ask: QuoteRequest, quote: Quote) -> Quote:
    """The quote narrowed to what each of these budgets allows."""
    output, timeout_ms, late = quote.output, quote.timeout_ms, quote.late
    for allowance in allowances:
        if allowance.budget.cost_usd is not None and ask.output_nanos is None:
            raise _no_price_error(allowance, ask)
        if allowance.budget.soft:
            if ask.is_first and (used_up := allowance.limit_reached) is not None:
                raise BudgetExceeded(detail=used_up)
            continue
        for unit, tokens in _answers(allowance, ask):
            if tokens < min(USEFUL_TOKENS, ask.wanted):
                raise BudgetExceeded(detail=allowance.describe_limit(unit))
            output = min(output, tokens)
        left_ms = allowance.remainder("ms")
        if left_ms == 0:
            raise BudgetExceeded(detail=allowance.describe_limit("ms"))
        if left_ms is not None and (timeout_ms is None or left_ms < timeout_ms):
            timeout_ms, late = left_ms, allowance.describe_limit("ms")
    return Quote(output=output, timeout_ms=timeout_ms, late=late)


def _answers(allowance: Allowance, ask: QuoteRequest) -> list[tuple[str, int]]:
    """The longest answer that each limit leaves room for, in tokens."""
    found = []
    if (tokens := allowance.remainder("tokens")) is not None:
        found.append(("tokens", tokens - ask.prompt.tokens))
    if (nanos := allowance.remainder("nanos")) is not None:
        rest, price = nanos - ask.prompt.nanos, ask.output_nanos or 0
        room = rest * _SAMPLE // price if price else ask.longest
        found.append(("nanos", room if rest >= 0 else -1))
    return found


def _no_price_error(allowance: Allowance, ask: QuoteRequest) -> BudgetExceeded:
    detail = (
        f"{allowance.describe_limit('nanos')} cannot be kept, because the price of model "
        f"'{ask.model}' is not known; give its ModelSpec prices or install awaken[pricing]"
    )
    return BudgetExceeded(detail=detail)


def estimate_call(
    run: Run,
    request: InferenceRequest,
    model: ModelSpec,
    *,
    is_first: bool = True,
    is_bound: bool = False,
) -> QuoteRequest:
    """Estimate a call: how long its request is, how long an answer it wants, what both cost.

    With `is_bound` the request counts with more tokens than a provider can count.
    """
    if is_bound:
        prompt = bound_prompt_tokens(request)
    else:
        if run.meter is None:
            run.meter = PromptMeter()
        prompt = run.meter.tokens(request)
    prices = run.services.prices
    limit = request.overrides.max_tokens if request.overrides is not None else None
    limit = limit or model.max_output_tokens
    policy = run.agent.spec.context_policy or ContextWindowPolicy()
    wanted = limit or policy.max_output_tokens
    prompt_nanos = prices.nanos(model, TokenUsage(prompt_tokens=prompt))
    output_nanos = None
    if prompt_nanos is not None:
        # Prices may depend on the length of the request: the answer is priced together with it.
        usage = TokenUsage(prompt_tokens=prompt, completion_tokens=_SAMPLE)
        output_nanos = max(0, (prices.nanos(model, usage) or 0) - prompt_nanos)
    return QuoteRequest(
        model=model.id,
        prompt=Amount(tokens=prompt, nanos=prompt_nanos or 0),
        wanted=wanted,
        longest=limit or max(wanted, LONGEST_ANSWER),
        output_nanos=output_nanos,
        is_first=is_first,
    )
