"""Which model answers: the order of a pool, and which members are available now. No I/O here."""

import math
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from itertools import accumulate
from typing import Protocol

from awaken.contracts.models.errors import AllModelsUnavailable, ModelDisabled
from awaken.contracts.models.model_specs import (
    NANOS,
    ModelPool,
    ModelSpec,
    PoolMember,
    PoolRole,
    PoolRouting,
)
from awaken.runtime.resolution.models import ModelRoute
from awaken.runtime.switches import CompiledSwitches

_HASH_BITS = 52
"""The number of bits for which a float stays strictly between 0 and 1."""
_GOLDEN = (math.sqrt(5) - 1) / 2


class Availability(Protocol):
    """The part of model health that routing needs."""

    def is_available(self, model_id: str) -> bool:
        """Whether a call may begin."""
        ...

    def retry_in_ms(self, model_id: str) -> int:
        """Return how long an unavailable model stays unavailable."""
        ...


def order_routes(
    routes: tuple[ModelRoute, ...], pool: ModelPool | None, thread_id: str, turn: int
) -> tuple[ModelRoute, ...]:
    """Return the order in which an agent's models are tried.

    A sticky pool gives a thread the same order in every process and after every restart; adding or
    removing a member moves only the threads of that member. Round robin begins with the next member
    at each `turn`. Both begin with a member in proportion to its weight. Members for failover only
    come last, in the order of the spec.
    """
    if pool is None or len(routes) == 1:
        return routes
    pairs = list(zip(pool.members, routes, strict=True))
    members = [pair for pair in pairs if pair[0].role == PoolRole.MEMBER]
    backups = [route for member, route in pairs if member.role == PoolRole.FAILOVER_ONLY]
    if pool.routing == PoolRouting.STICKY:
        members.sort(key=lambda pair: _score(thread_id, pair[0]), reverse=True)
    else:
        first = _turn_of([member.weight for member, _ in members], turn)
        members = members[first:] + members[:first]
    return (*(route for _, route in members), *backups)


def candidates(
    routes: Sequence[ModelRoute],
    health: Availability,
    may_afford: Callable[[ModelRoute], bool] = lambda _: True,
) -> tuple[ModelRoute, ...]:
    """Return the available models, in order; this check uses no probe of a breaker.

    Raises:
        AllModelsUnavailable: There is none; names every model, the reason, and when to retry.
    """
    well = [route for route in routes if health.is_available(route.id)]
    found = tuple(route for route in well if may_afford(route))
    if not found:
        raise _none_left(routes, {route.id for route in well}, health)
    return found


def enabled_routes(
    routes: tuple[ModelRoute, ...],
    switched: CompiledSwitches,
    known: Mapping[str, ModelSpec | ModelPool],
) -> tuple[ModelRoute, ...]:
    """Return those routes that no operator has disabled, in order; `known` are all models.

    A model that a run names by its upstream name is disabled if a disabled model has that name.

    Raises:
        ModelDisabled: All of them are disabled.
    """
    if not (switched.models or switched.providers):
        return routes
    disabled = [it for name in switched.models if isinstance(it := known.get(name), ModelSpec)]
    upstream = {(it.provider_id, it.upstream_model) for it in disabled}
    found = tuple(
        route
        for route in routes
        if not switched.is_model_disabled(route.id, route.spec.provider_id)
        and (route.spec.provider_id, route.spec.upstream_model) not in upstream
    )
    if not found and routes:
        names = ", ".join(f"'{route.id}'" for route in routes)
        raise ModelDisabled(f"No model can be asked: {names} disabled by the operator.")
    return found


def within(
    pool: ModelPool | None, nanos: Callable[[ModelRoute], int | None]
) -> Callable[[ModelRoute], bool]:
    """Return a check that a call stays below the pool's cost limit, in billionths of a dollar.

    A model without a known price is not refused.
    """
    limit = None if pool is None or pool.max_call_usd is None else pool.max_call_usd * NANOS

    def may_afford(route: ModelRoute) -> bool:
        cost = None if limit is None else nanos(route)
        return limit is None or cost is None or cost <= limit

    return may_afford


def _none_left(
    routes: Sequence[ModelRoute], well: set[str], health: Availability
) -> AllModelsUnavailable:
    reasons = []
    waits = []
    for route in routes:
        if route.id in well:
            reasons.append(f"'{route.id}' costs too much for this call")
            continue
        waits.append(health.retry_in_ms(route.id))
        reasons.append(f"'{route.id}' failed too often, its breaker is open for {waits[-1]} ms")
    again = f"; ask again in {min(waits)} ms" if waits else ""
    message = f"No model can be asked: {', '.join(reasons)}{again}."
    return AllModelsUnavailable(message, retry_after_ms=min(waits, default=None))


def _score(thread_id: str, member: PoolMember) -> float:
    """Weighted rendezvous hashing: the highest score wins with the probability of its weight."""
    text = f"{len(thread_id)}:{thread_id}{member.model_id}".encode(errors="surrogatepass")
    drawn = int.from_bytes(blake2b(text, digest_size=8).digest()) >> (64 - _HASH_BITS)
    share = (drawn + 0.5) / 2**_HASH_BITS
    return -member.weight / math.log(share)


def _turn_of(weights: Sequence[float], turn: int) -> int:
    """The index of the member whose turn it is."""
    if len(set(weights)) == 1:
        return turn % len(weights)
    # Multiples of the golden ratio fill the interval evenly at any time, for all weights.
    place = (turn * _GOLDEN) % 1 * sum(weights)
    return next((at for at, end in enumerate(accumulate(weights)) if place < end), 0)
