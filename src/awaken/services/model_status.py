"""The health of models as operators see it, and the breakers that they set by hand."""

from enum import StrEnum

import msgspec

from awaken.contracts.clock import Clock
from awaken.contracts.errors import RecordNotFound
from awaken.contracts.plugins.statistics import CallFigures
from awaken.contracts.record import Record
from awaken.contracts.state.profile import ProfileStore
from awaken.runtime.engine import RunEngine
from awaken.runtime.model_health.breaker import Breaker, BreakerPolicy, BreakerState
from awaken.runtime.model_health.health import OWNER, decode_breakers


class BreakerAction(StrEnum):
    """What an operator does with a breaker."""

    OPEN = "open"
    """The model is not called until the cooldown has passed; then one call probes it."""
    CLOSE = "close"
    """The model may be called; one more failure opens the breaker again."""
    RESET = "reset"
    """The model may be called, and its failures are forgotten."""


class ModelStatus(Record, frozen=True, kw_only=True, omit_defaults=False):
    """A model: its breaker, and its calls of the last day. Times are milliseconds."""

    model_id: str
    state: BreakerState
    failures: int
    error: str | None
    """The code of the last failure."""
    changed_at: int | None
    retry_at: int | None
    """When a model that is refused now may be called again."""
    calls: int
    errors: int
    p50_ms: float
    p95_ms: float
    input_tokens: int
    output_tokens: int
    cost_nanos: int
    """Billionths of a US dollar."""


class ModelsHealth:
    """The models of a runtime."""

    def __init__(self, engine: RunEngine, profile: ProfileStore, clock: Clock) -> None:
        self._engine = engine
        self._health = engine.services.health
        self._profile = profile
        self._clock = clock

    async def list(self, figures: dict[str, CallFigures]) -> tuple[ModelStatus, ...]:
        """List every model that an agent may use, was called, or has failed, by id."""
        await self._health.refresh()
        breakers = dict(await list_breakers(self._profile)) | self._health.breakers
        names = self._known() | set(breakers) | set(figures)
        return tuple(
            _status(name, breakers.get(name, Breaker()), figures.get(name, CallFigures()))
            for name in sorted(names)
        )

    async def set_breaker(self, model_id: str, action: BreakerAction) -> ModelStatus:
        """Set a breaker by hand; other processes follow within seconds.

        Raises:
            RecordNotFound: There is no such model.
        """
        await self._health.refresh()
        await self.check_known(model_id)
        now, before = self._clock.now_ms(), self._health.breaker(model_id)
        after = Breaker(changed_at=max(now, before.changed_at + 1))
        match action:
            case BreakerAction.OPEN:
                known = {"failures": before.failures, "error": "operator"}
                after = msgspec.structs.replace(after, state=BreakerState.OPEN, **known)
            case BreakerAction.CLOSE:
                known = {"failures": before.failures, "error": before.error}
                after = msgspec.structs.replace(after, **known)
            case BreakerAction.RESET:
                pass
        self._health.set_breaker(model_id, after)
        return _status(model_id, self._health.breaker(model_id), CallFigures())

    async def check_known(self, model_id: str) -> None:
        """Refuse a model that no agent uses and that has never failed.

        Raises:
            RecordNotFound: There is no such model.
        """
        stored = dict(await list_breakers(self._profile))
        if model_id not in self._known() | set(stored) | set(self._health.breakers):
            raise RecordNotFound(kind="Model", record_id=model_id)

    def _known(self) -> set[str]:
        snapshot = self._engine.registry.snapshot()
        agents = map(snapshot.resolve, snapshot.registries.agents)
        return {route.id for agent in agents for route in agent.models}


async def list_breakers(profile: ProfileStore) -> list[tuple[str, Breaker]]:
    """List the breakers that the processes of a store share, by model id."""
    return decode_breakers(await profile.list_entries(OWNER))


def retry_time(breaker: Breaker) -> int | None:
    """When a model that is refused now may be called again; None if it may be called."""
    return breaker.retry_at(BreakerPolicy()) or None


def _status(model_id: str, breaker: Breaker, figures: CallFigures) -> ModelStatus:
    return ModelStatus(
        model_id=model_id,
        state=breaker.state,
        failures=breaker.failures,
        error=breaker.error,
        changed_at=breaker.changed_at or None,
        retry_at=retry_time(breaker),
        calls=figures.count,
        errors=figures.errors,
        p50_ms=figures.percentile_ms(0.5),
        p95_ms=figures.percentile_ms(0.95),
        input_tokens=figures.input_tokens,
        output_tokens=figures.output_tokens,
        cost_nanos=figures.cost_nanos,
    )
