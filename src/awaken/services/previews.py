"""Runs on a publication that the caller names: previews of what is not live."""

import msgspec

from awaken.contracts.errors import InvalidInput, UnknownThread
from awaken.contracts.messages.message import TokenUsage
from awaken.contracts.models.budgets import Budget, PriceList
from awaken.contracts.runs.records import RunKind, RunRequest
from awaken.runtime.resolution.resolver import ResolvedAgent

from .view import TenantView

PREVIEW_TOKENS = 50_000
PREVIEW_USD = 0.5


class ThreadNotOfPreview(InvalidInput):
    """A preview would go on with a conversation that is none."""

    code = "thread_not_of_preview"


async def pin_request(view: TenantView, request: RunRequest, publication: int) -> RunRequest:
    """Return a request that runs on a publication; on one that is not live it is a preview.

    A preview has a thread of its own, and a budget unless the request brings one.

    Raises:
        UnknownPublication: There is none of that number.
        UnknownAgent: It has no such agent.
        ThreadNotOfPreview: The thread is that of other runs.
        InvalidInput: There is no managed configuration.
    """
    if view.config is None:
        raise InvalidInput(what="publication", problem="there is no managed configuration")
    is_preview = await view.config.is_not_live(publication)
    agent = await view.agent(request.agent_id or "", publication)
    request = msgspec.structs.replace(request, publication=publication)
    if not is_preview:
        return request
    if request.thread_id is not None:
        await _check_thread(view, request.thread_id)
    budgets = request.budgets or make_budgets(agent, view.engine.services.prices)
    return msgspec.structs.replace(request, purpose=RunKind.PREVIEW, budgets=budgets)


def make_budgets(agent: ResolvedAgent, prices: PriceList) -> tuple[Budget, ...]:
    """Make the budget of a preview; money counts only if the price of every model is known."""
    if not agent.is_local:
        # What a remote agent spends is not known here.
        return ()
    one = TokenUsage(prompt_tokens=1)
    is_priced = all(prices.nanos(route.spec, one) is not None for route in agent.models)
    return (Budget(tokens=PREVIEW_TOKENS, cost_usd=PREVIEW_USD if is_priced else None),)


async def _check_thread(view: TenantView, thread_id: str) -> None:
    try:
        latest = await view.latest_run(thread_id)
    except UnknownThread:
        return
    if latest is not None and latest.purpose is not RunKind.PREVIEW:
        problem = "it has runs that are no previews; leave thread_id out"
        raise ThreadNotOfPreview(what=f"thread '{thread_id}'", problem=problem)
