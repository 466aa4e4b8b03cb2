"""One model call and its price: reserved before the call, settled however the call ends.

`reserve` checks whether a call may be made and limits its answer, `in_time` limits its duration.
Then the caller calls `settle`, or `release` if the provider refused before it sent anything.
"""

import asyncio
from collections.abc import Awaitable, Sequence

import msgspec

from awaken.contracts.models.budgets import (
    Allowance,
    Amount,
    Budget,
    BudgetExceeded,
    BudgetScope,
    Ledger,
)
from awaken.contracts.models.inference import InferenceOverride, InferenceRequest, TokenUsage
from awaken.contracts.models.model_specs import ModelSpec
from awaken.contracts.record import Record
from awaken.runtime.context.estimate import BYTES_PER_TOKEN
from awaken.runtime.run import Run

from .ledgers import (
    amount_unreported,
    applicable,
    change_shared,
    charge,
    is_charged,
    keep_budgets,
    lane_name,
    ledger_of,
    pay,
    shared_scopes,
    spend,
)
from .quotes import Quote, QuoteRequest, estimate_call, narrow_quote


class Reservation(Record, frozen=True, kw_only=True):
    """A call that may be made, and what it may spend at most."""

    request: InferenceRequest
    """The request with its answer limited to what the budgets have left."""
    ask: QuoteRequest
    """The estimate of what it costs."""
    most: Amount
    timeout_ms: int | None = None
    """How long the call may take; None if no budget limits it."""
    late: str = ""
    """The description of the limit that is used up if the call takes longer."""
    lane: str = ""
    """The name of its hold in shared ledgers; blank when no shared budget applies."""


async def reserve(
    run: Run, request: InferenceRequest, model: ModelSpec, lane: str = "", *, is_first: bool = True
) -> Reservation | None:
    """Set aside what a call may spend; None when no budget applies.

    A run makes one call at a time in a lane. A new reservation replaces one that a dead process
    left for the same run. A soft budget refuses only the first call of an answer: later calls
    complete the answer.

    Raises:
        BudgetExceeded: Too little is left for a useful answer, or a soft budget is used up, or a
            price that a budget needs is not known.
    """
    budgets = applicable(run)
    if not budgets:
        return None
    keep_budgets(run)
    now = run.services.clock.now_ms()
    own = [it for it in budgets if not it.scope.is_shared]
    scopes = shared_scopes(run)
    # A group never spends more than its budget: what a call of it reserves is an upper bound of
    # its prompt, and no call answers beyond what it reserved.
    is_bound = BudgetScope.GROUP in scopes
    ask = estimate_call(run, request, model, is_first=is_first, is_bound=is_bound)
    quote = Quote(output=ask.wanted if is_bound else ask.longest)
    quote = narrow_quote([Allowance.of(it, ledger_of(run, it), now) for it in own], ask, quote)
    name = lane_name(run, lane)
    for scope in scopes:
        shared = [it for it in budgets if it.scope is scope]
        try:
            quote = await _hold(run, scope, shared, (ask, quote, name))
        except BudgetExceeded:
            if scope is not scopes[0]:
                # The ledgers before this one have a hold already.
                await pay(run, name)
            raise
    return Reservation(
        request=_limit_output(request, ask, quote.output),
        ask=ask,
        most=ask.amount_to_reserve(quote.output),
        timeout_ms=quote.timeout_ms,
        late=quote.late,
        lane=name,
    )


async def in_time(held: Reservation | None, call: Awaitable[None]) -> None:
    """Await a call within the time limit of its reservation.

    Raises:
        BudgetExceeded: The call took longer.
    """
    if held is None or held.timeout_ms is None:
        return await call
    try:
        async with asyncio.timeout(held.timeout_ms / 1000) as limit:
            await call
    except TimeoutError as error:
        if not limit.expired():
            raise
        raise BudgetExceeded(detail=held.late) from error


async def settle(
    run: Run, held: Reservation | None, usage: TokenUsage | None, heard_chars: int = 0
) -> None:
    """Charge what a call has used, and give back the rest of its reservation.

    A call that broke off before it reported its usage is charged for its prompt and for the text
    that arrived. Reported usage must have its price. Neither a cancellation nor a failing store
    loses an amount that was spent.
    """
    if held is None and not is_charged(run):
        return
    spend(run, _amount_spent(held, usage, heard_chars), is_reported=usage is not None)
    if held is not None:
        await pay(run, held.lane)


def _amount_spent(held: Reservation | None, usage: TokenUsage | None, heard_chars: int) -> Amount:
    received = max(0, heard_chars) // BYTES_PER_TOKEN
    if usage is None:
        return Amount(tokens=received) if held is None else held.ask.most(received)
    spent = Amount.of(usage)
    if held is None or usage.cost_nanos is not None:
        return spent
    return msgspec.structs.replace(spent, nanos=held.most.nanos)


async def release(run: Run, held: Reservation | None) -> None:
    """Give back the reservation of a call that was refused and costs nothing."""
    if held is not None:
        charge(run, Amount())
        await pay(run, held.lane)


def most_nanos(run: Run, request: InferenceRequest, model: ModelSpec) -> int | None:
    """The estimated highest cost of a call; None without a price."""
    ask = estimate_call(run, request, model)
    return None if ask.output_nanos is None else ask.most(ask.wanted).nanos


async def _hold(
    run: Run, scope: BudgetScope, shared: Sequence[Budget], wanted: tuple[QuoteRequest, Quote, str]
) -> Quote:
    """Reserve in a shared ledger, which other runs change at the same time."""
    ask, limit, name = wanted
    now, own = run.services.clock.now_ms(), amount_unreported(run, scope)

    def quote_ledger(ledger: Ledger) -> Quote:
        current = ledger.charge(own)
        return narrow_quote([Allowance.of(it, current, now, name) for it in shared], ask, limit)

    try:
        ledger = await change_shared(
            run,
            scope,
            lambda ledger: ledger.reserve(
                name, ask.amount_to_reserve(quote_ledger(ledger).output), now
            ),
        )
    except BudgetExceeded:
        raise
    except BaseException:
        # The hold may have been written, and nothing else would settle it.
        await pay(run, name)
        raise
    return quote_ledger(ledger)


def _limit_output(request: InferenceRequest, ask: QuoteRequest, output: int) -> InferenceRequest:
    """The request, with a limit on its answer if budgets leave less than the longest answer."""
    if output >= ask.longest:
        return request
    overrides = (request.overrides or InferenceOverride()).merge(
        InferenceOverride(max_tokens=min(output, ask.wanted))
    )
    return msgspec.structs.replace(request, overrides=overrides)
